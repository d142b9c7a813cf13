"""What every registry promises: the one in memory, the one on SQLite, and the one on PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import traceback
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from handrail import store as store_module
from handrail.errors import MCPEntryError, StoreError
from handrail.mcp.entry import HTTPTransport, MCPServerEntry, StdioTransport
from handrail.mcp.registry import InMemoryMCPServerRegistry, MCPServerRegistry
from handrail.mcp.sql_registry import SQLMCPServerRegistry
from handrail.store import Store, mcp_servers
from support.postgres import PostgresServer, postgres

__all__ = ["postgres"]

STDIO: dict[str, Any] = {"type": "stdio", "command": "python", "args": ["-m", "server"]}
HTTP: dict[str, Any] = {"type": "http", "url": "https://example.com/mcp"}
CANARY = "canary-9d41"

POSTGRES = pytest.param("postgresql", marks=pytest.mark.real)


@contextlib.contextmanager
def database(kind: str, request: pytest.FixtureRequest) -> Generator[str]:
    if kind == "sqlite":
        path: Path = request.getfixturevalue("tmp_path")
        yield f"sqlite:///{path / 'handrail.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.database() as url:
        store_module.upgrade(url)
        yield url


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
async def registry(request: pytest.FixtureRequest) -> AsyncIterator[MCPServerRegistry]:
    if request.param == "memory":
        yield InMemoryMCPServerRegistry()
        return
    with database(request.param, request) as url:
        async with SQLMCPServerRegistry(url) as opened:
            yield opened


@pytest.fixture(params=["sqlite", POSTGRES])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with database(request.param, request) as opened:
        yield opened


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store(url) as opened:
        yield opened


async def smuggle(store: Store, entry: object, *, id: str = "evil", transport: str = "stdio", tenant: str = "") -> None:
    """Write a row without asking the registry."""
    text = entry if isinstance(entry, str) else json.dumps(entry)
    async with store.transaction() as connection:
        await connection.execute(mcp_servers.insert().values(tenant=tenant, id=id, transport=transport, entry=text))


# ---- all registries


async def test_save_load_list_delete(registry: MCPServerRegistry) -> None:
    """Entries can be saved, replaced, loaded, listed in the order of their ids, and deleted."""
    assert await registry.load_server("b") is None
    assert await registry.list_servers() == []
    await registry.save_server({"id": "b", "transport": STDIO})
    for server_id in ("a", "B", "_c", "a-1"):
        await registry.save_server(MCPServerEntry(id=server_id, transport=STDIO))
    await registry.save_server({"id": "b", "name": "Second", "transport": HTTP})
    listed = await registry.list_servers()
    assert [entry.id for entry in listed] == ["B", "_c", "a", "a-1", "b"]
    assert listed[-1].name == "Second"
    assert isinstance(listed[-1].transport, HTTPTransport)
    assert await registry.delete_server("b") is True
    assert await registry.delete_server("b") is False
    assert await registry.load_server("b") is None


@pytest.mark.parametrize("server_id", ["", "has space", "x" * 65, "nul\0", "\ud800", "'; DROP TABLE mcp_servers; --"])
async def test_an_id_that_cannot_be_there_is_not_there(registry: MCPServerRegistry, server_id: str) -> None:
    """Asking for an id that no entry can have finds nothing, and is not an error."""
    await registry.save_server({"id": "a", "transport": STDIO})
    assert await registry.load_server(server_id) is None
    assert await registry.delete_server(server_id) is False
    assert len(await registry.list_servers()) == 1


FULL: dict[str, Any] = {
    "id": "full",
    "name": "Everything \0 \ud800 ⚓ set",
    "description": 'quotes " and \\ and ${env:NOT_A_SECRET}',
    "transport": {
        "type": "stdio",
        "command": "uvx",
        "args": ["mcp-server-time", "", "--zone=Europe/Zürich", "'; DROP TABLE mcp_servers; --"],
        "env": {"Z_LITERAL": "lit", "A_REFERENCE": "${env:TOKEN}", "MIXED": "Bearer ${env:TOKEN}"},
        "cwd": "/srv/data",
    },
    "allowed_agents": ["clerk", "Zoë"],
    "timeout_ms": 1,
    "tool_timeout_ms": 3_600_000,
    "max_concurrent_calls": 7,
    "max_retries": 0,
}


@pytest.mark.parametrize(
    "fields",
    [
        FULL,
        {"id": "none", "transport": STDIO, "allowed_agents": None},
        {"id": "nobody", "transport": STDIO, "allowed_agents": []},
        {"id": "http", "transport": HTTP | {"headers": {"Authorization": "Bearer ${env:T}", "X-Key": "literal"}}},
        {"id": "sse", "transport": {"type": "sse", "url": "https://example.com/sse?a=1&b=%20"}, "maxRetries": 10},
    ],
    ids=lambda fields: str(fields["id"]),
)
async def test_every_field_survives(registry: MCPServerRegistry, fields: dict[str, Any]) -> None:
    """An entry comes back as it was saved: each field, secrets and their order too, and no list is not an empty one."""
    entry = MCPServerEntry.parse(fields)
    saved = await registry.save_server(fields)
    loaded = await registry.load_server(fields["id"])
    (listed,) = await registry.list_servers()
    assert loaded is not None
    for other in (saved, loaded, listed):
        assert other == entry
        assert other.reveal() == entry.reveal()
        assert other.allows("stranger") is (entry.allowed_agents is None)
    if isinstance(entry.transport, StdioTransport) and isinstance(loaded.transport, StdioTransport):
        assert list(loaded.transport.env) == list(entry.transport.env)


async def test_a_refused_entry_changes_nothing(registry: MCPServerRegistry) -> None:
    """A save that is refused leaves the entry that was there before."""
    await registry.save_server({"id": "a", "name": "kept", "transport": STDIO})
    for transport in (
        STDIO | {"command": "bash"},
        HTTP | {"url": "http://localhost:8000/"},
        HTTP | {"url": "ftp://example.com/"},
    ):
        with pytest.raises(MCPEntryError):
            await registry.save_server({"id": "a", "transport": transport})
    with pytest.raises(MCPEntryError):
        await registry.save_server({"id": "a", "transport": STDIO, "alowed_agents": []})
    loaded = await registry.load_server("a")
    assert loaded is not None
    assert loaded.name == "kept"


async def test_nothing_is_shared(registry: MCPServerRegistry) -> None:
    """Neither the caller's mapping nor an entry that was handed out leads into the registry."""
    env = {"A": "1"}
    returned = await registry.save_server({"id": "a", "transport": STDIO | {"env": env}})
    env["LD_PRELOAD"] = "evil"
    loaded = await registry.load_server("a")
    (listed,) = await registry.list_servers()
    assert loaded is not None
    for entry in (returned, loaded, listed):
        assert isinstance(entry.transport, StdioTransport)
        assert list(entry.transport.env) == ["A"]
        entry.transport.env.clear()
    again = await registry.load_server("a")
    assert again is not None
    assert isinstance(again.transport, StdioTransport)
    assert list(again.transport.env) == ["A"]


async def test_rules_are_applied_on_the_way_out(registry: MCPServerRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that was saved before a rule came is refused when it is loaded and listed, and can be deleted."""
    await registry.save_server({"id": "a", "transport": STDIO})
    monkeypatch.setenv("MCP_STDIO_DISABLED", "true")
    with pytest.raises(MCPEntryError):
        await registry.load_server("a")
    with pytest.raises(MCPEntryError):
        await registry.list_servers()
    assert await registry.delete_server("a") is True


async def test_many_tasks_at_once(registry: MCPServerRegistry) -> None:
    """Twenty tasks that save, load and delete at the same time do not disturb each other."""

    async def work(number: int) -> None:
        server_id = f"server-{number}"
        await registry.save_server({"id": server_id, "transport": STDIO, "max_retries": number % 10})
        loaded = await registry.load_server(server_id)
        assert loaded is not None
        assert loaded.max_retries == number % 10
        if number % 2:
            assert await registry.delete_server(server_id)

    await asyncio.gather(*(work(number) for number in range(20)))
    assert len(await registry.list_servers()) == 10


async def test_secrets_are_never_shown(registry: MCPServerRegistry, caplog: pytest.LogCaptureFixture) -> None:
    """No secret value is in a repr, a dump, a log at any level, or an error of the registry."""
    caplog.set_level(logging.DEBUG)
    secret = {"LITERAL": CANARY, "REFERENCE": "${env:TOKEN}"}
    saved = await registry.save_server({"id": "a", "transport": STDIO | {"env": secret}})
    await registry.save_server({"id": "b", "transport": HTTP | {"headers": {"Authorization": f"Bearer {CANARY}"}}})
    loaded = await registry.load_server("a")
    listed = await registry.list_servers()
    with pytest.raises(MCPEntryError) as caught:
        await registry.save_server({"id": "a", "transport": STDIO | {"env": {"LITERAL": CANARY + "\n"}}})
    shown = [repr(registry), str(registry), repr(listed), str(saved), str(loaded), repr(vars(caught.value))]
    shown += [json.dumps(entry.model_dump(mode="json")) + entry.model_dump_json() for entry in listed]
    shown += ["".join(traceback.format_exception(caught.value)), caplog.text]
    shown += [repr(record.__dict__) for record in caplog.records]
    assert CANARY not in "".join(shown)
    assert "${env:TOKEN}" in listed[0].model_dump_json()
    assert isinstance(listed[0].transport, StdioTransport)
    assert listed[0].transport.env["LITERAL"] == SecretStr(CANARY)


# ---- registries in a database


EVIL: list[tuple[str, object, str]] = [
    ("a shell", {"id": "evil", "transport": {"type": "stdio", "command": "rm", "args": ["-rf", "/"]}}, "stdio"),
    ("a path", {"id": "evil", "transport": {"type": "stdio", "command": "/bin/sh"}}, "stdio"),
    ("a preload", {"id": "evil", "transport": STDIO | {"env": {"LD_PRELOAD": CANARY}}}, "stdio"),
    ("loopback", {"id": "evil", "transport": {"type": "http", "url": "http://127.1/"}}, "http"),
    ("metadata", {"id": "evil", "transport": {"type": "sse", "url": "http://169.254.169.254/"}}, "sse"),
    ("an unknown key", {"id": "evil", "transport": STDIO, "alowedAgents": []}, "stdio"),
    ("an unknown transport", {"id": "evil", "transport": {"type": "ws", "url": "wss://example.com"}}, "ws"),
    ("another server's entry", {"id": "good", "transport": STDIO}, "stdio"),
    ("another kind", {"id": "evil", "transport": STDIO}, "http"),
    ("no object", [CANARY], "stdio"),
    ("null", None, "stdio"),
    ("no JSON", f'{{"id": "evil", "transport": "{CANARY}', "stdio"),
    ("deep JSON", "[" * 100_000, "stdio"),
    ("a Python literal", "{'id': 'evil'}", "stdio"),
]


@pytest.mark.parametrize(("entry", "transport"), [row[1:] for row in EVIL], ids=[row[0] for row in EVIL])
async def test_a_smuggled_row_is_refused(store: Store, entry: object, transport: str) -> None:
    """A row that SQL put there is refused on load and list by an error that names it, and can be deleted."""
    registry = SQLMCPServerRegistry(store)
    await registry.save_server({"id": "good", "transport": STDIO})
    await smuggle(store, entry, transport=transport)
    for read in (registry.load_server("evil"), registry.list_servers()):
        with pytest.raises(MCPEntryError, match="'evil'") as caught:
            await read
        assert caught.value.context["server"] == "evil"
        assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert [kept.id for kept in await registry.list_servers(invalid="skip")] == ["good"]
    assert await registry.delete_server("evil") is True
    assert [kept.id for kept in await registry.list_servers()] == ["good"]


async def test_tenants_are_apart(store: Store) -> None:
    """Tenants may use the same id. None sees, replaces or deletes an entry of another, nor one without a tenant."""
    registries = [SQLMCPServerRegistry(store, tenant=tenant) for tenant in (None, "acme", "Acme", "globex ⚓", "%")]
    for number, registry in enumerate(registries):
        await registry.save_server({"id": "same", "name": f"of {number}", "transport": STDIO})
    for number, registry in enumerate(registries):
        loaded = await registry.load_server("same")
        assert loaded is not None
        assert [entry.name for entry in await registry.list_servers()] == [loaded.name] == [f"of {number}"]
    assert await registries[1].delete_server("same") is True
    assert await registries[1].delete_server("same") is False
    assert [len(await registry.list_servers()) for registry in registries] == [1, 0, 1, 1, 1]


@pytest.mark.parametrize("tenant", ["", "a\0b", "\ud800", "line\nbreak", "x" * 256])
def test_a_tenant_that_cannot_be_stored_is_refused(tenant: str) -> None:
    """A tenant is text that every database stores as it is; the empty one would be no tenant."""
    with pytest.raises(StoreError, match="tenant"):
        SQLMCPServerRegistry("sqlite://", tenant=tenant)


def test_one_event_loop_after_another(url: str) -> None:
    """One registry works in several ``asyncio.run`` in turn, without being closed in between."""
    registry = SQLMCPServerRegistry(url)

    async def save(server_id: str) -> int:
        await registry.save_server({"id": server_id, "transport": STDIO})
        return len(await registry.list_servers())

    assert [asyncio.run(save(server_id)) for server_id in ("a", "b", "c")] == [1, 2, 3]


def test_two_registries_see_each_other(url: str) -> None:
    """What one registry saves, another on the same database reads: they keep no copies of their own."""

    async def main() -> None:
        async with SQLMCPServerRegistry(url) as one, SQLMCPServerRegistry(url) as two:
            await one.save_server({"id": "a", "transport": STDIO})
            assert await two.delete_server("a") is True
            assert await one.load_server("a") is None

    asyncio.run(main())


async def test_a_given_store_stays_open(store: Store) -> None:
    """Closing a registry closes only a store that it opened."""
    async with SQLMCPServerRegistry(store) as registry:
        await registry.save_server({"id": "a", "transport": STDIO})
    async with store.transaction(write=False) as connection:
        assert len((await connection.execute(mcp_servers.select())).all()) == 1
