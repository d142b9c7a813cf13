"""A tool is declared once: its name, its description, its options, and the function that is still a function."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from handrail import Tool, ToolContext, Toolset, define_tool, tool
from handrail.errors import ToolDefinitionError
from handrail.tools import UNSET, Link, Media, RemoteResult, Text, as_tool, parts_of


def lookup(order_id: str, detail: bool = False) -> dict[str, str]:
    """Look up one order.

    Args:
        order_id: In the form order_1234.
    """
    return {"id": order_id, "detail": str(detail)}


async def wait(n: int) -> int:
    """Wait a little."""
    return n


def test_declaring() -> None:
    """A decorated function is a tool with its name, description and schema, and can still be called."""
    built = tool(lookup)
    assert (built.name, built.description) == ("lookup", "Look up one order.")
    assert built.schema() == {
        "name": "lookup",
        "description": "Look up one order.",
        "parameters": {
            "type": "object",
            "properties": {
                "order_id": {"type": "string", "description": "In the form order_1234."},
                "detail": {"type": "boolean", "default": False},
            },
            "required": ["order_id"],
            "additionalProperties": False,
        },
    }
    assert built("order_1", detail=True) == {"id": "order_1", "detail": "True"}
    assert repr(built) == "Tool('lookup')"
    assert define_tool is tool


def test_spellings_of_the_decorator() -> None:
    """With and without parentheses, and as a function, it is one decorator."""

    @tool
    def plain(a: int) -> int:
        """Do it."""
        return a

    @tool(name="other", timeout=5, tags=["safe"])
    def with_options(a: int) -> int:
        """Do it."""
        return a

    assert (plain.name, with_options.name, with_options.timeout, with_options.tags) == (
        "plain", "other", 5.0, frozenset({"safe"})
    )  # fmt: skip
    assert tool(lookup, name="find").name == "find"


def test_a_tool_cannot_be_changed() -> None:
    """A declaration is frozen, and the schemas that it gives out are copies."""
    built = tool(lookup)
    with pytest.raises(dataclasses.FrozenInstanceError):
        built.name = "x"  # pyright: ignore[reportAttributeAccessIssue]
    built.parameters["properties"].clear()
    built.schema()["parameters"].clear()
    assert list(built.parameters["properties"]) == ["order_id", "detail"]


@pytest.mark.parametrize("name", ["", " ", "a b", "a.b", "é", "x" * 65, "lookup\n", "<lambda>", "a/b", 5])
def test_names_that_providers_refuse(name: Any) -> None:
    """A name that a provider would refuse is refused where it is written, with the file and the line."""
    with pytest.raises(ToolDefinitionError, match="not a legal name") as caught:
        tool(lookup, name=name)
    assert "test_tools.py:" in str(caught.value)


@pytest.mark.parametrize("name", ["save_to_memory", "architect_draft_workflow"])
def test_names_of_built_in_tools(name: str) -> None:
    """The names of the built-in tools are taken."""
    with pytest.raises(ToolDefinitionError, match="name of a built-in tool"):
        tool(lookup, name=name)


BAD_OPTIONS: list[Any] = [
    ({"timeout": -1}, "timeout"),
    ({"timeout": float("nan")}, "timeout"),
    ({"timeout": float("inf")}, "timeout"),
    ({"timeout": "5"}, "timeout"),
    ({"timeout": True}, "timeout"),
    ({"timeout": None}, "timeout"),
    ({"retries": -1}, "retries"),
    ({"retries": 1.5}, "retries"),
    ({"retries": True}, "retries"),
    ({"max_concurrency": -1}, "max_concurrency"),
    ({"max_result_bytes": 0}, "max_result_bytes"),
    ({"taints": "yes"}, "taints"),
    ({"sequential": 1}, "sequential"),
    ({"expose_errors": None}, "expose_errors"),
    ({"needs_approval": "always"}, "needs_approval"),
    ({"effects": "read"}, "effects"),
    ({"effects": ["reed"]}, "unknown effect 'reed'"),
    ({"tags": "safe"}, "tags"),
    ({"tags": [1]}, "tags"),
    ({"tags": [""]}, "tags"),
    ({"description": 5}, "description"),
    ({"description": "  "}, "description"),
    ({"tmeout": 5}, "did you mean 'timeout'"),
    ({"parameters": {}}, "no option 'parameters'"),
]


@pytest.mark.parametrize(("options", "words"), BAD_OPTIONS)
def test_options_that_cannot_work(options: Any, words: str) -> None:
    """Nonsense is refused where it is written; an unknown option is answered with the nearest."""

    def bare(a: int) -> int:
        return a

    with pytest.raises(ToolDefinitionError) as caught:
        tool(bare, **{"description": "d", **options})
    assert words in str(caught.value)


def test_options_that_mean_nothing_special() -> None:
    """Zero means what the option says, and what was not given is not the same as none."""
    built = tool(lookup, timeout=0, retries=0, max_concurrency=0, tags=(), effects=())
    assert (built.timeout, built.retries, built.max_concurrency, built.tags) == (0.0, 0, 0, frozenset[str]())
    assert built.effects == frozenset()
    assert tool(lookup).effects is None
    assert tool(lookup, effects={"read", "egress"}).effects == {"read", "egress"}
    with pytest.raises(TypeError, match="is UNSET"):
        bool(UNSET)


def test_tags_of_a_function() -> None:
    """``fn.__tags__`` counts, beside those of the declaration."""

    def tagged(a: int) -> int:
        """Do it."""
        return a

    tagged.__tags__ = {"safe"}  # pyright: ignore[reportFunctionMemberAccess]
    assert tool(tagged, tags={"fast"}).tags == {"safe", "fast"}


def test_without_a_description() -> None:
    """A tool without a description is refused, with what to write."""

    def bare(a: int) -> int:
        return a

    with pytest.raises(ToolDefinitionError, match=r"no description \(write a docstring"):
        tool(bare)
    assert tool(bare, description="Do it.").description == "Do it."


class Desk:
    """A class with tools in its body."""

    def __init__(self, who: str) -> None:
        self.who = who

    @tool
    def hello(self, n: int) -> str:
        """Greet."""
        return self.who * n

    @tool(name="slow_hello")
    async def slow(self, n: int, ctx: ToolContext) -> str:
        """Greet slowly."""
        return f"{self.who}{n}{ctx.deps}"

    @staticmethod
    @tool
    def loose(n: int) -> int:
        """Belong to nobody."""
        return n


async def test_tools_in_class_bodies() -> None:
    """A tool in a class body binds to each object; taken from the class it says that its object is missing."""
    x, y = Desk("x"), Desk("y")
    assert (await Toolset.of(x.hello).call("hello", {"n": 2})).value == "xx"
    assert (await Toolset.of(y.hello).call("hello", {"n": 3})).value == "yyy"
    assert (await Toolset.of(x.slow).call("slow_hello", {"n": 1}, context=ToolContext(deps="d"))).value == "x1d"
    assert (await Toolset.of(x.loose).call("loose", {"n": 1})).value == 1
    assert x.hello.parameters["properties"] == {"n": {"type": "integer"}}
    assert x.hello(2) == "xx"
    with pytest.raises(ToolDefinitionError, match="still needs its 'self'"):
        Toolset.of(Desk.hello)


def test_the_same_tool() -> None:
    """Two tools are the same if they are declared alike over one body; each object's method is its own."""
    x, y = Desk("x"), Desk("y")
    assert tool(lookup).same_as(tool(lookup))
    assert x.hello.same_as(x.hello)
    assert not x.hello.same_as(y.hello)
    assert not tool(lookup).same_as(tool(lookup, timeout=1))
    assert not tool(lookup).same_as(tool(lookup, name="other"))
    assert not tool(lookup).same_as(tool(lookup, description="Another."))
    assert not tool(functools.partial(lookup, detail=True)).same_as(tool(lookup))


def test_renaming() -> None:
    """A renamed tool is the same but for its name, which has to be legal."""
    built = tool(lookup, timeout=3)
    renamed = built.rename("find")
    assert (renamed.name, renamed.timeout, built.name) == ("find", 3.0, "lookup")
    with pytest.raises(ToolDefinitionError, match="not a legal name"):
        built.rename("a b")


NOT_FUNCTIONS: list[Any] = [tool(lookup), 5, "lookup", staticmethod(lookup), functools.cached_property(lookup), Desk]


@pytest.mark.parametrize("function", NOT_FUNCTIONS)
def test_what_cannot_be_declared(function: Any) -> None:
    """A tool, a class, a decorator's shell and anything that cannot be called are refused."""
    with pytest.raises(ToolDefinitionError):
        tool(function)


def test_as_tool() -> None:
    """A tool is itself, a function becomes one, and anything else is none."""
    built = tool(lookup)
    assert as_tool(built) is built
    made = as_tool(wait)
    assert made is not None
    assert (made.name, made.is_async) == ("wait", True)
    assert as_tool({"mcp": "x"}) is None
    assert as_tool(None) is None


def of_a(arguments: Mapping[str, Any]) -> bool:
    """Ask for one order only."""
    return arguments["order_id"] == "a"


def of_detail(arguments: Mapping[str, Any]) -> Any:
    """Fails where the argument was not sent."""
    return arguments["detail"]


RULES: list[Any] = [
    (False, {"order_id": "a"}, False),
    (True, {"order_id": "a"}, True),
    (of_a, {"order_id": "a"}, True),
    (of_a, {"order_id": "b"}, False),
    (of_a, {"order": "b"}, True),
    (of_detail, {"order_id": "b"}, True),
    (of_detail, {"order_id": "b", "detail": False}, False),
    (dict[str, Any].__len__, {"order_id": "b"}, True),
    (print, {"order_id": "b"}, True),
]


@pytest.mark.parametrize(("rule", "sent", "needed"), RULES)
def test_approval(rule: Any, sent: Any, needed: bool) -> None:
    """Whatever is unclear needs a person: arguments that do not parse, a rule that fails or answers neither way."""
    assert tool(lookup, needs_approval=rule).approval_needed(sent) is needed


async def _answer(arguments: dict[str, Any], context: Any) -> RemoteResult:
    return RemoteResult((Text(str(arguments)),))


def remote(**options: Any) -> Tool:
    """A tool of a server."""
    given: dict[str, Any] = {
        "name": "get_user",
        "description": "Get a user.",
        "parameters": {"type": "object"},
        "server": "s",
        "send": _answer,
    }
    return Tool.remote(**{**given, **options})


async def test_remote_tools() -> None:
    """A server's tool has the server's schema, is never trusted, and is called by a name that providers take."""
    built = remote()
    assert (built.name, built.taints, built.source, built.server, built.remote_name) == (
        "get_user", True, "mcp_tool", "s", "get_user"
    )  # fmt: skip
    odd = remote(name="get.user/info é", description=None)
    assert odd.name.startswith("s__get_user_info")
    assert odd.remote_name == "get.user/info é"
    assert odd.description.startswith("get.user/info é")
    result = await Toolset.of(odd).call(odd.name, {"a": 1})
    assert result.value == "{'a': 1}"
    assert result.label.tainted
    with pytest.raises(ToolDefinitionError, match="the tool 'get_user' of server 's'"):
        remote(parameters={"type": "string"})


def test_parts() -> None:
    """Media take bytes and a MIME type, and lists with media are parts in their order."""
    pixel = Media(b"x", "image/png")
    assert parts_of(pixel) == (pixel,)
    assert parts_of(["a", pixel]) == (Text("a"), pixel)
    assert parts_of([Link("x:y")]) == (Link("x:y"),)
    assert parts_of(["a", "b"]) is None
    assert parts_of("a") is None
    assert "b'x'" not in repr(pixel)
    for data, kind in (("x", "image/png"), (b"x", "png")):
        with pytest.raises(ToolDefinitionError, match="bytes and a MIME type"):
            Media(data, kind)  # pyright: ignore[reportArgumentType]


def test_defined_in_any_thread() -> None:
    """Tools can be defined in several threads at once."""
    found: list[dict[str, Any]] = []

    def define() -> None:
        def f(a: Desk2, b: int = 3) -> None:
            """Do it."""

        found.append(tool(f).parameters)

    threads = [threading.Thread(target=define) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(schema == found[0] for schema in found)


@dataclasses.dataclass
class Desk2:
    """A dataclass as an argument."""

    n: int
