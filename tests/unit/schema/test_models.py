"""``tool(input=...)``: a model, a dataclass or a TypedDict describes the arguments, and the body gets one of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, model_validator

from handrail import ToolContext, Toolset, tool
from handrail.errors import ToolDefinitionError
from handrail.schema.arguments import ArgumentError


class Part(BaseModel):
    """A part of an order."""

    sku: str
    n: int = 1


class Order(BaseModel):
    """An order."""

    key: Literal["a", "b"]
    parts: list[Part] = []
    note: Annotated[str | None, Field(description="For the packer.")] = None


class Tree(BaseModel):
    """A model that contains itself."""

    v: int
    kids: list[Tree] = []


@dataclass
class Stop:
    """A dataclass."""

    lat: float
    names: list[str] = field(default_factory=list[str])


class Row(TypedDict):
    """A TypedDict."""

    a: int


class Open(BaseModel):
    """Takes more than it lists."""

    model_config = ConfigDict(extra="allow")

    a: int


class Opt(BaseModel):
    """A field is called like the wrapper that some models put around it."""

    a: int = 0
    opt: str = ""


class Checked(BaseModel):
    """Looks at everything first."""

    low: int
    high: int

    @model_validator(mode="before")
    @classmethod
    def ordered(cls, data: Any) -> Any:
        """Refuse what is upside down."""
        if data.get("low", 0) > data.get("high", 0):
            raise ValueError("low must not be above high")
        return data


CASES: list[Any] = [
    (Order, {"key": "a", "parts": [{"sku": "x"}]}, Order(key="a", parts=[Part(sku="x")])),
    (Order, {"key": "b", "note": None}, Order(key="b")),
    (Tree, {"v": 1, "kids": [{"v": 2}]}, Tree(v=1, kids=[Tree(v=2)])),
    (Stop, {"lat": 1}, Stop(1.0)),
    (Row, {"a": 1}, {"a": 1}),
    (Open, {"a": 1, "b": 2}, Open.model_validate({"a": 1, "b": 2})),
    (Opt, {"opt": "x"}, Opt(opt="x")),
    (Opt, {}, Opt()),
    (Checked, {"low": 1, "high": 2}, Checked(low=1, high=2)),
]


def taking(model: Any) -> Any:
    """A tool that takes a model and gives it back."""

    def take(given: Any) -> Any:
        return given

    return tool(take, description="A test's tool.", input=model)


@pytest.mark.parametrize(("model", "sent", "meant"), CASES)
def test_models(model: Any, sent: Any, meant: Any) -> None:
    """The body receives one instance, with its nested models and defaults."""
    parsed = taking(model).arguments.parse(sent)
    assert parsed.positional == (meant,)
    assert type(parsed.positional[0]) is type(meant)
    assert parsed.keyword == {}
    assert parsed.raw == sent


BAD: list[Any] = [
    (Order, {"key": "c"}, "key: Input should be 'a' or 'b'"),
    (Order, {"key": "a", "parts": [{"n": 1}]}, "parts[0].sku: required, and missing"),
    (Order, {"key": "a", "nots": "x"}, "nots: unknown argument; did you mean 'note'? (accepted: key, parts, note)"),
    (Order, {"key": "a", "parts": [{"sku": "a", "q": 1}]}, "parts[0].q: unknown argument"),
    (Order, "[]", "must be a JSON object"),
    (Tree, {"v": 1, "kids": [{"v": "x"}]}, "kids[0].v: Input should be a valid integer"),
    (Stop, {"lat": "far"}, "lat: Input should be a valid number"),
    (Row, {"a": 1, "b": 2}, "b: unknown argument"),
    (Opt, {"opt": {"a": 5, "opt": "x"}}, "opt: Input should be a valid string"),
    (Checked, {"low": 3, "high": 2}, "the arguments: Value error, low must not be above high"),
]


@pytest.mark.parametrize(("model", "sent", "words"), BAD)
def test_refusals(model: Any, sent: Any, words: str) -> None:
    """What the model does not take never reaches the body; a wrapped form is never half read."""
    with pytest.raises(ArgumentError) as caught:
        taking(model).arguments.parse(sent)
    assert words in caught.value.text


def test_schema() -> None:
    """What is advertised are the model's fields, at the top, with references for what is nested."""
    schema = taking(Order).parameters
    assert list(schema["properties"]) == ["key", "parts", "note"]
    assert schema["required"] == ["key"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["note"]["description"] == "For the packer."
    assert schema["$defs"]["Part"]["additionalProperties"] is False
    assert taking(Tree).parameters["properties"]["kids"]["items"] == {"$ref": "#/$defs/Tree"}
    assert taking(Open).parameters["additionalProperties"] is True


@pytest.mark.parametrize("given", [int, list[int], str | int, RootModel[list[int]], object()])
def test_what_describes_no_object(given: Any) -> None:
    """Arguments are an object, so anything else is refused with what to give."""
    with pytest.raises(ToolDefinitionError):
        taking(given)


def test_one_parameter() -> None:
    """The function has to take the one instance, and nothing else but a context."""

    def two(a: Order, b: int) -> None: ...

    with pytest.raises(ToolDefinitionError, match="takes one argument, not 2"):
        tool(two, description="d", input=Order)


async def test_through_the_gate() -> None:
    """A model, or a schema, and a context go together; repairs are on record and secrets are not."""

    class Login(BaseModel):
        user: str
        password: SecretStr

    def log_in(login: Login, ctx: ToolContext) -> str:
        return f"{login.user} {login.password.get_secret_value()} {ctx.deps}"

    def count(data: dict[str, Any], ctx: ToolContext) -> int:
        return len(data["items"])

    schema = {"type": "object", "properties": {"items": {"type": "array"}}, "required": ["items"]}
    toolset = Toolset.of(tool(log_in, description="d", input=Login), tool(count, description="d", input=schema))
    result = await toolset.call("log_in", {"user": "u", "password": "p4ss"}, context=ToolContext(deps="x"))
    assert result.value == "u p4ss x"
    assert result.arguments == {"user": "u", "password": "***"}
    assert (await toolset.call("count", {"items": [1, 2]})).value == 2
    assert (await toolset.call("count", {"items": 1})).code == "invalid_arguments"
