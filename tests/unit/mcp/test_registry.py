"""A registry checks what goes in and what comes out, and shares nothing with its users."""

from __future__ import annotations

from typing import Any

import pytest

from handrail.errors import MCPEntryError
from handrail.mcp.entry import MCPServerEntry, StdioTransport
from handrail.mcp.registry import InMemoryMCPServerRegistry, MCPServerRegistry

STDIO: dict[str, Any] = {"type": "stdio", "command": "python"}


async def test_save_load_list_delete() -> None:
    """Entries can be saved, replaced, loaded, listed in the order of their ids, and deleted."""
    registry: MCPServerRegistry = InMemoryMCPServerRegistry()
    assert await registry.load_server("b") is None
    await registry.save_server({"id": "b", "transport": STDIO})
    await registry.save_server(MCPServerEntry(id="a", transport=STDIO))
    await registry.save_server({"id": "b", "name": "Second", "transport": STDIO})
    assert [entry.name for entry in await registry.list_servers()] == ["a", "Second"]
    assert await registry.delete_server("b") is True
    assert await registry.delete_server("b") is False


async def test_register_takes_an_entry_a_mapping_or_fields() -> None:
    """``register`` saves at once, in every form in which an entry can be given."""
    registry = InMemoryMCPServerRegistry(MCPServerEntry(id="one", transport=STDIO))
    registry.register({"id": "two", "transport": STDIO, "maxRetries": 0})
    registry.register(id="three", transport=STDIO)
    assert [entry.id for entry in await registry.list_servers()] == ["one", "three", "two"]
    with pytest.raises(MCPEntryError):
        registry.register()
    with pytest.raises(MCPEntryError):
        registry.register({"id": "x", "transport": STDIO}, id="y")


async def test_a_refused_entry_changes_nothing() -> None:
    """A save that is refused leaves the entry that was there before."""
    registry = InMemoryMCPServerRegistry({"id": "a", "name": "kept", "transport": STDIO})
    with pytest.raises(MCPEntryError):
        await registry.save_server({"id": "a", "transport": STDIO | {"command": "bash"}})
    loaded = await registry.load_server("a")
    assert loaded is not None
    assert loaded.name == "kept"


async def test_nothing_is_shared() -> None:
    """Neither the caller's mapping nor a loaded entry leads into the registry."""
    env = {"A": "1"}
    data = {"id": "a", "transport": STDIO | {"env": env}}
    registry = InMemoryMCPServerRegistry()
    returned = registry.register(data)
    env["LD_PRELOAD"] = "evil"
    loaded = await registry.load_server("a")
    assert loaded is not None
    for entry in (returned, loaded):
        assert isinstance(entry.transport, StdioTransport)
        entry.transport.env.clear()
    again = await registry.load_server("a")
    assert again is not None
    assert isinstance(again.transport, StdioTransport)
    assert list(again.transport.env) == ["A"]


async def test_rules_are_applied_on_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that was saved before a rule came is refused when it is loaded, and when it is listed."""
    registry = InMemoryMCPServerRegistry({"id": "a", "transport": STDIO})
    monkeypatch.setenv("MCP_STDIO_DISABLED", "true")
    with pytest.raises(MCPEntryError):
        await registry.load_server("a")
    with pytest.raises(MCPEntryError):
        await registry.list_servers()
