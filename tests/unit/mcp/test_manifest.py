"""A tool list is read to its end, a bad tool costs only itself, and it is kept for as long as it should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from handrail.clock import SystemClock
from handrail.errors import MCPProtocolError
from handrail.mcp.manifest import Manifest, ManifestCache, read_manifest

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


class HandClock(SystemClock):
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.monotonic: Callable[[], float] = lambda: self.now  # pyright: ignore[reportIncompatibleVariableOverride]


async def read(*pages: dict[str, Any]) -> Manifest:
    async def page(cursor: str | None) -> Mapping[str, Any]:
        return pages[int(cursor or 0)]

    return await read_manifest("s", page)


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": SCHEMA, **more}


async def test_all_pages() -> None:
    """Every page is read; an empty or missing cursor is the end."""
    manifest = await read({"tools": [tool("a")], "nextCursor": "1"}, {"tools": [tool("b")], "nextCursor": ""})
    assert list(manifest.tools) == ["a", "b"]
    assert manifest.notes == ()


async def test_a_cursor_that_comes_back() -> None:
    """A cursor that was given before ends the list, with a note."""
    manifest = await read({"tools": [tool("a")], "nextCursor": "1"}, {"tools": [tool("b")], "nextCursor": "1"})
    assert list(manifest.tools) == ["a", "b"]
    assert "cursor" in manifest.notes[0][1]


async def test_a_list_without_end() -> None:
    """A list without end is given up with a typed error."""

    async def page(cursor: str | None) -> Mapping[str, Any]:
        return {"tools": [], "nextCursor": str(int(cursor or 0) + 1)}

    with pytest.raises(MCPProtocolError, match="no end of tools"):
        await read_manifest("s", page)


@pytest.mark.parametrize("page", [{}, {"tools": None}, {"tools": {"a": 1}}])
async def test_no_list(page: dict[str, Any]) -> None:
    """An answer without a list of tools is a typed error."""
    with pytest.raises(MCPProtocolError, match="without a list"):
        await read(page)


async def test_a_bad_tool_costs_only_itself() -> None:
    """A tool that cannot be used is left out with a note, and the others stay."""
    manifest = await read(
        {
            "tools": [
                tool("good", description=7, annotations=[], outputSchema=None),
                {"name": "no_schema"},
                tool("bad_output", outputSchema=[]),
                tool("good", description="again"),
                tool("task", execution={"taskSupport": "required"}),
                {"name": ""},
                None,
            ]
        }
    )
    assert list(manifest.tools) == ["good"]
    assert manifest.tools["good"].description == ""
    assert [name for name, _ in manifest.notes] == ["no_schema", "bad_output", "good", "task", None, None]


async def test_nothing_is_shared_with_the_server() -> None:
    """A manifest is detached from what was read."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    manifest = await read({"tools": [{"name": "a", "inputSchema": schema}]})
    schema["properties"]["x"] = {}
    assert manifest.tools["a"].parameters == SCHEMA


def test_the_cache() -> None:
    """A manifest is kept until its time is up, or until it is dropped; with a time of 0 not at all."""
    clock = HandClock()
    cache = ManifestCache(1000, clock)
    cache.put("a", Manifest())
    clock.now = 0.999
    assert cache.get("a") is not None
    clock.now = 1.0
    assert cache.get("a") is None
    cache.put("a", Manifest())
    cache.put("b", Manifest())
    cache.drop("a")
    assert cache.get("a") is None
    assert cache.get("b") is not None
    cache.drop()
    assert cache.get("b") is None
    never = ManifestCache(0, clock)
    never.put("a", Manifest())
    assert never.get("a") is None
