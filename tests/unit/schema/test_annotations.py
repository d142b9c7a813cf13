"""The plain types that are described without pydantic's help are described exactly as pydantic would."""

from __future__ import annotations

import inspect
import json
import sys
import typing
from typing import Annotated, Any, Generic, Literal, NotRequired, Optional, Required, TypedDict, TypeVar

import pytest
import typing_extensions
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic_core import CoreSchema

from handrail import tool
from handrail.errors import ToolDefinitionError
from handrail.schema.annotations import plain, portable, typeddict_fields
from handrail.schema.arguments import _build_plain, _build_with_pydantic
from handrail.schema.signature import MISSING, Parameter
from handrail.schema.strict import strict_validator
from support.strategies import JSON, PLAIN, equal, for_schema


def _outcome(core: CoreSchema, text: str) -> tuple[bool, Any]:
    try:
        return True, strict_validator(core).validate_json(text)
    except ValidationError as error:
        return False, error.error_count()


@settings(max_examples=1000, deadline=None)
@given(PLAIN, st.data())
def test_the_short_way_and_pydantics_agree(annotation: Any, data: st.DataObject) -> None:
    """For any plain type both ways give one schema, take the same values, and make the same of them."""
    parameters = (Parameter("x", "x", annotation, MISSING, inspect.Parameter.POSITIONAL_OR_KEYWORD),)
    short, long = _build_plain(parameters), _build_with_pydantic(parameters, "the tool")
    if short is None:  # not one of the plain types after all, such as a literal of several kinds
        return
    assert short[1] == long[1]
    text = json.dumps({"x": data.draw(JSON | for_schema(short[1]["properties"]["x"]))})
    note(text)
    mine, theirs = _outcome(short[0], text), _outcome(long[0], text)
    assert mine[0] == theirs[0]
    assert equal(mine[1], theirs[1])


@pytest.mark.parametrize(
    "annotation",
    [bytes, Literal["a", 1], list[bytes], dict[int, str], tuple[int, ...], Annotated[int, "text"], set[int]],
)
def test_what_is_left_to_pydantic(annotation: Any) -> None:
    """A type that is not plain is not guessed at."""
    assert plain(annotation) is None


class Old(TypedDict):
    """A TypedDict of the standard library."""

    a: int
    b: NotRequired[list[Old]]


class OldPartial(TypedDict, total=False):
    """One whose fields are optional but for one."""

    a: Required[int]
    b: Annotated[str, "said"]


class New(typing_extensions.TypedDict):
    """One of typing_extensions that holds one of the standard library."""

    old: Old
    more: NotRequired[dict[str, OldPartial]]


class Closed(TypedDict):
    """One that takes further keys, by its configuration."""

    __pydantic_config__ = {"extra": "allow"}  # pyright: ignore[reportGeneralTypeIssues] # noqa: RUF012
    a: int


TYPED_DICTS: list[Any] = [
    (Old, {"a": 1, "b": [{"a": 2}]}, {"a": 1, "b": [{"b": []}]}),
    (OldPartial, {"a": 1}, {"b": "x"}),
    (New, {"old": {"a": 1}, "more": {"k": {"a": 1, "b": "x"}}}, {"old": {}}),
    (list[Old], [{"a": 1}], [{"a": 1, "c": 2}]),
    (Optional[Old], None, {"c": 1}),  # noqa: UP045
    (Old | int, {"a": 1}, "x"),
    (dict[str, Old], {"k": {"a": 1}}, {"k": 1}),
    (list[Old | int], [{"a": 1}, 2], [{"a": "x"}, 2]),
    (Annotated[Old, "text"], {"a": 1}, {"a": None}),
    (Closed, {"a": 1, "z": 2}, {"z": 2}),
]


@pytest.mark.parametrize(("annotation", "sent", "bad"), TYPED_DICTS)
def test_typed_dicts(annotation: Any, sent: Any, bad: Any) -> None:
    """Every TypedDict works on every Python: of either module, nested, recursive, and with optional fields."""

    def f(x: Any) -> None: ...

    f.__annotations__ = {"x": annotation}
    built = tool(f, description="A test's tool.")
    assert built.arguments.parse({"x": sent}).keyword == {"x": sent}
    with pytest.raises(ValueError, match="x"):
        built.arguments.parse({"x": bad})


def test_fields_of_a_typed_dict() -> None:
    """Which fields are required is read right also where annotations are text."""
    assert typeddict_fields(Old) == {"a": (int, True), "b": (list[Old], False)}
    assert typeddict_fields(OldPartial) == {"a": (int, True), "b": (Annotated[str, "said"], False)}


def test_what_is_portable_already() -> None:
    """A type that pydantic takes as it is stays the same object."""
    for annotation in (int, list[int], dict[str, int] | None, Literal["a"], Annotated[int, 1], BaseModel):
        assert portable(annotation) is annotation
    assert portable(list[typing.LiteralString]) == list[str]
    if sys.version_info >= (3, 12):
        assert portable(Old) is Old


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    """A generic model."""

    value: T
    more: list[T] = []


def test_generic_models_with_portable_types() -> None:
    """A generic model is described with its argument."""

    def f(x: Box[int]) -> None: ...

    built = tool(f, description="A test's tool.")
    assert built.arguments.parse({"x": {"value": 1, "more": [2]}}).keyword["x"] == Box[int](value=1, more=[2])
    with pytest.raises(ValueError, match=r"x\.value"):
        built.arguments.parse({"x": {"value": "a"}})


def test_enums_are_listed_once() -> None:
    """An enum with an alias lists each value once."""
    import enum

    class Size(enum.Enum):
        S = 1
        SMALL = 1
        L = 2

    def f(x: Size) -> None: ...

    f.__annotations__ = {"x": Size}
    assert tool(f, description="d").parameters["$defs"]["Size"]["enum"] == [1, 2]


def test_titles() -> None:
    """No title is made up from a field's name: it would only cost tokens."""

    def f(x: Box[int], title: str) -> None: ...

    schema = tool(f, description="d").parameters
    assert "title" in schema["properties"]
    assert all("title" not in field for field in schema["properties"].values())
    assert all("title" not in field for field in schema["$defs"]["Box_int_"]["properties"].values())


def test_an_unreadable_field() -> None:
    """A class that speaks of an unknown name is refused, naming the parameter and the name."""

    class Broken(BaseModel):
        later: Nowhere  # pyright: ignore[reportUndefinedVariable] # noqa: F821

    def f(x: Any) -> None: ...

    f.__annotations__ = {"x": Broken}
    with pytest.raises(ToolDefinitionError, match=r"the parameter 'x' .* name 'Nowhere', which is not defined"):
        tool(f, description="d")
