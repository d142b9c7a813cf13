"""What may stand in a ``tools=[...]`` list, and the one form that all of it becomes."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail import mcp_tools, tool
from handrail.errors import DefinitionError, ToolDefinitionError, ToolSourceError
from handrail.naming import BUILTIN_NAMES
from handrail.sources import (
    BuiltinSource,
    CustomSource,
    MCPSource,
    collect,
    normalise,
    source_from_json,
    source_to_json,
)

NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)
SOURCES = st.one_of(
    st.sampled_from(sorted(BUILTIN_NAMES)).map(BuiltinSource),
    NAMES.map(CustomSource),
    st.builds(
        MCPSource,
        NAMES,
        st.none() | st.lists(st.text(min_size=1, max_size=5), max_size=3).map(tuple[str, ...]),
        st.booleans(),
    ),
)
WORDS = st.sampled_from(
    [
        "type",
        "name",
        "mcp",
        "builtin",
        "custom",
        "server_id",
        "serverId",
        "tool_names",
        "toolNames",
        "tools",
        "optional",
    ]
)
ANYTHING = st.none() | st.booleans() | st.integers() | WORDS | st.lists(WORDS | st.integers(), max_size=2)


def lookup(order_id: str) -> str:
    """Look up an order."""
    return order_id


def other(order_id: str) -> str:
    """Look up an order elsewhere."""
    return order_id


LOOKUP = tool(lookup)
FORMS: list[Any] = [
    ("save_to_memory", BuiltinSource("save_to_memory")),
    ("lookup", CustomSource("lookup")),
    ({"type": "builtin", "name": "save_to_memory"}, BuiltinSource("save_to_memory")),
    ({"type": "custom", "name": "x-1"}, CustomSource("x-1")),
    ({"type": "mcp", "server_id": "time"}, MCPSource("time")),
    ({"type": "mcp", "serverId": "time", "toolNames": ["now"]}, MCPSource("time", ("now",))),
    ({"type": "mcp", "server_id": "time", "tool_names": [], "optional": True}, MCPSource("time", (), True)),
    ({"mcp": "time"}, MCPSource("time")),
    ({"mcp": "time", "tools": ["now", "then"]}, MCPSource("time", ("now", "then"))),
    ({"mcp": "time", "toolNames": ("now",)}, MCPSource("time", ("now",))),
    (mcp_tools("time"), MCPSource("time", None)),
    (mcp_tools("time", only=[]), MCPSource("time", ())),
    (mcp_tools("time", only=iter(["a"]), optional=True), MCPSource("time", ("a",), True)),
    (MCPSource("time", ["a"]), MCPSource("time", ("a",))),  # pyright: ignore[reportArgumentType]
]


@pytest.mark.parametrize(("entry", "source"), FORMS)
def test_forms(entry: Any, source: Any) -> None:
    """Every spelling, in both casings, becomes the same plain source; none and all stay apart."""
    assert normalise(entry) == (source, None)


@pytest.mark.parametrize("entry", [LOOKUP, lookup, functools.partial(lookup)])
def test_implementations(entry: Any) -> None:
    """A tool and a plain function bring their implementation beside their source."""
    source, implementation = normalise(entry)
    assert source == CustomSource("lookup")
    assert implementation is not None
    assert implementation.name == "lookup"


REFUSED: list[Any] = [
    ({"type": "mcp", "server_id": "time", "tool_name": ["now"]}, "unknown key 'tool_name'", "tool_names"),
    ({"type": "mcp", "server_id": "time", "toolnames": ["now"]}, "unknown key 'toolnames'", "tool_names"),
    ({"mcp": "time", "tool": ["now"]}, "unknown key 'tool'", "tools"),
    ({"type": "mcp", "server_id": "time", "tools": ["now"]}, "unknown key 'tools'", "tool_names"),
    ({"type": "custom", "name": "x", 5: 1}, "unknown key 5", ""),
    ({"type": "mcp", "serverId": "a", "server_id": "b"}, "'server_id' of a tool source is given twice", "one casing"),
    ({"mcp": "time", "tools": [], "tool_names": []}, "both 'tools' and 'tool_names'", "keep one"),
    ({"type": "mcp", "mcp": "time"}, "both 'type' and 'mcp'", "one form"),
    ({"type": "shorthand", "mcp": "time"}, "both 'type' and 'mcp'", ""),
    ({"type": "shorthand"}, "is not a tool source", "builtin, custom or mcp"),
    ({"type": "MCP", "server_id": "time"}, "is not a tool source", ""),
    ({"type": ["mcp"], "server_id": "time"}, "is not a tool source", ""),
    ({}, "is not a tool source", ""),
    ({"name": "x"}, "is not a tool source", ""),
    ({"type": "custom"}, "'name' of a tool source must be a string", "add 'name'"),
    ({"type": "mcp"}, "'server_id' of a tool source", "add"),
    ({"mcp": None}, "'mcp' of a tool source", ""),
    ({"mcp": "time", "tools": "now"}, "must be a list, not str", "list of names"),
    ({"mcp": "time", "tools": {"now": 1}}, "must be a list", ""),
    ({"mcp": "time", "tools": [1]}, "must be non-empty strings", "leave the field out"),
    ({"mcp": "time", "tools": [""]}, "must be non-empty strings", ""),
    ({"mcp": "time", "optional": 1}, "'optional' must be true or false", ""),
    ({"type": "builtin", "name": "save_to_memry"}, "no built-in tool is called", "save_to_memory"),
    ({"type": "custom", "name": "a b"}, "not a legal name", "64 letters"),
    ({"type": "custom", "name": "a\n"}, "not a legal name", ""),
    ({"mcp": "a/b"}, "not a legal name", ""),
    ("", "not a legal name", ""),
    ("a.b", "not a legal name", ""),
    (5, "5 is not a tool source", "give a tool"),
    (None, "None is not a tool source", ""),
    (["lookup"], "is not a tool source", ""),
]


@pytest.mark.parametrize(("entry", "words", "hint"), REFUSED)
def test_refusals(entry: Any, words: str, hint: str) -> None:
    """What no form knows is refused in words, with the nearest known: a slip never widens to all tools."""
    with pytest.raises(ToolSourceError) as caught:
        normalise(entry)
    assert words in caught.value.message
    assert hint in str(caught.value)


def test_one_string_is_no_list() -> None:
    """A string where a list belongs is refused, not read letter by letter."""
    with pytest.raises(ToolSourceError, match=r"write only=\['now'\]"):
        mcp_tools("time", only="now")
    with pytest.raises(ToolSourceError, match="non-empty strings"):
        MCPSource("time", "now")  # pyright: ignore[reportArgumentType]


@settings(max_examples=1000, deadline=None)
@given(SOURCES)
def test_round_trip(source: Any) -> None:
    """A source survives being written as JSON and read again, in either casing."""
    written: dict[str, Any] = json.loads(json.dumps(source_to_json(source)))
    assert source_from_json(written) == source
    other_casing = {"server_id": "serverId", "tool_names": "toolNames"}
    camel: dict[str, Any] = {other_casing.get(key, key): value for key, value in written.items()}
    assert source_from_json(camel) == source


@settings(max_examples=1000, deadline=None)
@given(st.dictionaries(WORDS, ANYTHING, max_size=4))
def test_any_mapping(data: dict[str, Any]) -> None:
    """A mapping is one source, and means what it says, or is refused; no other error comes out."""
    try:
        source = source_from_json(data)
    except ToolSourceError:
        return
    if isinstance(source, MCPSource):
        said = data.get("tools", data.get("tool_names", data.get("toolNames")))
        assert source.tool_names == (None if said is None else tuple(said))
    assert source_from_json(source_to_json(source)) == source


def test_lists() -> None:
    """A list keeps its order and says each thing once; the same tool twice is fine."""
    sources, implementations = collect(["a", LOOKUP, {"mcp": "m"}, lookup, LOOKUP, "a", mcp_tools("m")], where="clerk")
    assert sources == (CustomSource("a"), CustomSource("lookup"), MCPSource("m"))
    assert implementations == {"lookup": LOOKUP}
    assert collect([], where="clerk") == ((), {})


def test_two_tools_of_one_name() -> None:
    """Two different tools of one name are an error, naming the owner and the tool."""
    with pytest.raises(ToolSourceError, match="two different tools of clerk are called 'lookup'"):
        collect([lookup, tool(other, name="lookup")], where="clerk")
    with pytest.raises(ToolSourceError, match="two different tools"):
        collect([LOOKUP, tool(lookup, timeout=1)], where="clerk")


@pytest.mark.parametrize("entries", ["lookup", {"mcp": "m"}, lookup, LOOKUP, None, 5])
def test_what_is_no_list(entries: Any) -> None:
    """One entry is not a list of entries, and neither is nothing."""
    with pytest.raises(ToolSourceError, match="tools of clerk must be a list"):
        collect(entries, where="clerk")


def untyped(a):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    """Has a parameter without a type."""


def test_functions_that_cannot_be_tools() -> None:
    """A function in a list that cannot be a tool is refused as a definition."""
    with pytest.raises(ToolDefinitionError, match="'a' has no annotation"):
        normalise(untyped)  # pyright: ignore[reportUnknownArgumentType]
    with pytest.raises(DefinitionError):
        normalise(int)
