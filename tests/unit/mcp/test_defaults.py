"""The default servers: which are saved, for whom, and what they start."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from handrail.errors import MCPEntryError
from handrail.mcp.defaults import register_default_mcp_servers
from handrail.mcp.entry import StdioTransport
from handrail.mcp.registry import InMemoryMCPServerRegistry


async def test_both_are_saved() -> None:
    """Web search comes first, then fetch; both start a program that the allowlist has, within 30 seconds."""
    registry = InMemoryMCPServerRegistry()
    assert await register_default_mcp_servers(registry) == ["web-search", "fetch"]
    fetch, search = await registry.list_servers()
    assert isinstance(fetch.transport, StdioTransport)
    assert isinstance(search.transport, StdioTransport)
    assert (fetch.transport.command, fetch.transport.args) == ("uvx", ("mcp-server-fetch",))
    assert (search.transport.command, search.transport.args[:2]) == ("npx", ("--silent", "-y"))
    assert "brave-search" in search.transport.args[2]
    assert {entry.timeout_ms for entry in (fetch, search)} == {30_000}
    assert fetch.allows(None)


async def test_the_key_stays_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search's API key is not read when the server is registered, whether it is set or not."""
    monkeypatch.setenv("BRAVE_API_KEY", "canary-brave")
    registry = InMemoryMCPServerRegistry()
    await register_default_mcp_servers(registry)
    search = await registry.load_server("web-search")
    assert search is not None
    assert search.reveal()["transport"]["env"] == {"BRAVE_API_KEY": "${env:BRAVE_API_KEY}"}


@pytest.mark.parametrize(
    ("only", "exclude", "saved"),
    [
        (None, (), ["web-search", "fetch"]),
        ([], (), []),
        (["fetch"], (), ["fetch"]),
        (["fetch", "web-search"], (), ["web-search", "fetch"]),
        (None, ["fetch"], ["web-search"]),
        (["fetch"], ["fetch"], []),
    ],
)
async def test_a_choice(only: list[str] | None, exclude: Sequence[str], saved: list[str]) -> None:
    """``only`` chooses, an empty one chooses none, and ``exclude`` has the last word."""
    registry = InMemoryMCPServerRegistry()
    assert await register_default_mcp_servers(registry, only=only, exclude=exclude) == saved
    assert sorted(entry.id for entry in await registry.list_servers()) == sorted(saved)


@pytest.mark.parametrize("given", [{"only": ["fetch", "web_search"]}, {"exclude": ["web_search"]}])
async def test_an_unknown_name_saves_nothing(given: dict[str, list[str]]) -> None:
    """A name that is none of the defaults is an error with the nearest one, and nothing is saved."""
    registry = InMemoryMCPServerRegistry()
    with pytest.raises(MCPEntryError, match="did you mean 'web-search'"):
        await register_default_mcp_servers(registry, **given)
    assert await registry.list_servers() == []


@pytest.mark.parametrize(("agents", "allowed"), [(None, True), ([], False), (["clerk"], False), (["scout"], True)])
async def test_allowed_agents(agents: list[str] | None, allowed: bool) -> None:
    """``allowed_agents`` is set on each server; an empty list allows nobody."""
    registry = InMemoryMCPServerRegistry()
    await register_default_mcp_servers(registry, allowed_agents=agents)
    assert [entry.allows("scout") for entry in await registry.list_servers()] == [allowed] * 2


async def test_registering_again_restores_them() -> None:
    """A second time replaces what is there, and what was handed out before has no part in it."""
    registry = InMemoryMCPServerRegistry()
    await register_default_mcp_servers(registry, allowed_agents=[])
    search = await registry.load_server("web-search")
    assert search is not None
    assert isinstance(search.transport, StdioTransport)
    search.transport.env.clear()
    await register_default_mcp_servers(registry, only=["web-search"])
    again = await registry.load_server("web-search")
    assert again is not None
    assert isinstance(again.transport, StdioTransport)
    assert (again.allows("anyone"), list(again.transport.env)) == (True, ["BRAVE_API_KEY"])


async def test_where_no_process_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ``MCP_STDIO_DISABLED=true``, both are refused, and nothing is saved."""
    registry = InMemoryMCPServerRegistry()
    monkeypatch.setenv("MCP_STDIO_DISABLED", "true")
    with pytest.raises(MCPEntryError, match="MCP_STDIO_DISABLED"):
        await register_default_mcp_servers(registry)
    monkeypatch.delenv("MCP_STDIO_DISABLED")
    assert await registry.list_servers() == []
