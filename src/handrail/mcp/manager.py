"""Tools of registered servers, for agents that know only the servers' ids.

A manager may be shared by many runs and tasks of one event loop. It connects when a tool list is first
needed, keeps one connection for each server, and closes them when its owner says so; a run never does.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Self

from handrail.clock import SYSTEM_CLOCK, Clock, Timer
from handrail.errors import (
    HandrailError,
    MCPAccessDeniedError,
    MCPCircuitOpenError,
    MCPConnectError,
    MCPEntryError,
    MCPError,
    MCPProtocolError,
    MCPServerDiedError,
    MCPServerNotFoundError,
    MCPTimeoutError,
    Problem,
    ToolDefinitionError,
)
from handrail.mcp.breaker import DEFAULT_OPTIONS, Breaker, BreakerOptions, Permit
from handrail.mcp.entry import MCPServerEntry
from handrail.mcp.link import RemoteFailure
from handrail.mcp.manifest import Manifest, ManifestCache, RemoteTool, read_manifest
from handrail.mcp.owner import ServerHandle
from handrail.mcp.registry import MCPServerRegistry
from handrail.mcp.results import read_result
from handrail.naming import did_you_mean
from handrail.sources import MCPSource
from handrail.tools import RemoteResult, Text, Tool, ToolContext

__all__ = ["MCPConnectionManager"]

_METHOD_NOT_FOUND = -32601
_DEBOUNCE = 0.25
"""How many seconds after a server said that its tools are others now, it is asked for them."""


class MCPConnectionManager:
    """Resolves MCP sources to tools, and keeps the connections that the tools use.

    Use it as ``async with MCPConnectionManager(registry) as manager``, or call :meth:`close_all` when done.

    Args:
        registry: Where the servers' entries are.
        default_tool_timeout_ms: Deadline of one call where the entry sets none, in milliseconds; 0 for none.
        cache_ttl_ms: How long a tool list is kept, in milliseconds; 0 asks the server at each resolve.
        default_max_concurrent_calls: How many calls to one server may be under way at once where its entry
            sets no limit; 0 for no limit.
        breaker: When a tool that keeps failing is not called any more for a while; None for never.
        clock: Tells the time for the kept tool lists and the breakers.

    Raises:
        ValueError: If a number is negative.
    """

    def __init__(
        self,
        registry: MCPServerRegistry,
        *,
        default_tool_timeout_ms: int = 30_000,
        cache_ttl_ms: int = 300_000,
        default_max_concurrent_calls: int = 0,
        breaker: BreakerOptions | None = DEFAULT_OPTIONS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if min(default_tool_timeout_ms, cache_ttl_ms, default_max_concurrent_calls) < 0:
            raise ValueError("timeouts, the cache's time and the number of calls cannot be negative")
        self._registry = registry
        self._default_timeout = default_tool_timeout_ms / 1000
        self._default_max_calls = default_max_concurrent_calls
        self._clock = clock
        self._manifests = ManifestCache(cache_ttl_ms, clock)
        self._changes: dict[str, int] = {}
        self._refreshes: dict[str, Timer] = {}
        self._breaker_options = breaker
        self._breakers: dict[str, dict[str, Breaker]] = {}
        self._handles: dict[str, ServerHandle] = {}
        self._listing: dict[str, asyncio.Task[Manifest]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close_all()

    async def resolve_tools(self, sources: Iterable[MCPSource], *, agent_id: str | None = None) -> list[Tool]:
        """Turn sources into tools, connecting where necessary; servers are asked at the same time.

        The server of a source that is ``optional`` may fail; its tools are then left out.

        Args:
            sources: What the agent lists.
            agent_id: Who will use the tools.

        Raises:
            MCPServerNotFoundError: If the registry has no such server.
            MCPAccessDeniedError: If the agent is not among its ``allowed_agents``.
            MCPError: If a server cannot be used, or lacks a tool that a source names.
        """
        tools, problems = await self._resolve(sources, agent_id)
        for error in problems:
            if isinstance(error, HandrailError):
                raise error
        return tools

    async def preflight(self, sources: Iterable[MCPSource], *, agent_id: str | None = None) -> list[Problem]:
        """Return everything that stands in the way of using the sources, and what is merely odd as warnings.

        Args:
            sources: What the agent lists.
            agent_id: Who will use the tools.
        """
        _, problems = await self._resolve(sources, agent_id)
        return [_problem(one) if isinstance(one, HandrailError) else one for one in problems]

    async def reconnect(self, server_id: str) -> None:
        """Forget the tool list of a server and which of its tools failed, and connect to it anew.

        Raises:
            MCPServerNotFoundError: If the registry has no such server.
            MCPError: If it cannot be connected.
        """
        handle = self._handle(await self._load(server_id))
        self._manifests.drop(server_id)
        self._breakers.pop(server_id, None)
        await handle.reconnect()

    async def ping(self, server_id: str) -> float:
        """Have a server answer something, connecting where necessary.

        Returns:
            The seconds it took.

        Raises:
            MCPServerNotFoundError: If the registry has no such server.
            MCPError: If it does not answer.
        """
        entry = await self._load(server_id)
        handle = self._handle(entry)
        await handle.connect()
        loop = asyncio.get_running_loop()
        start = loop.time()
        await handle.ping(seconds=entry.timeout_ms / 1000)
        return loop.time() - start

    def status(self) -> dict[str, dict[str, Any]]:
        """Return the state of each connection and of its breakers, by the server's id, as plain JSON data."""
        now = self._clock.monotonic()
        return {
            server: handle.status()
            | {"breakers": {name: one.metrics(now) for name, one in self._breakers.get(server, {}).items()}}
            for server, handle in sorted(self._handles.items())
        }

    async def close_all(self) -> None:
        """Close all connections, and return when no child process is left. Safe to call again, and from any task.

        The manager can be used again afterwards.
        """
        self._manifests.drop()
        self._breakers.clear()
        self._bind()
        self._forget_refreshes()
        handles, self._handles = list(self._handles.values()), {}
        listing, self._listing = list(self._listing.values()), {}
        closing = [asyncio.ensure_future(handle.close()) for handle in handles]
        # Lists that are being read are not cancelled, since those who wait for them were not: they fail by
        # themselves.
        if waiting := [*closing, *listing, *self._closing]:
            await asyncio.wait(waiting)
        self._loop = None

    # From sources to tools.

    async def _resolve(
        self, sources: Iterable[MCPSource], agent_id: str | None
    ) -> tuple[list[Tool], list[Problem | HandrailError]]:
        """Resolve what can be resolved. An error stands for a source that cannot."""
        wanted = list(dict.fromkeys(sources))
        found = await asyncio.gather(*(self._resolve_one(source, agent_id) for source in wanted))
        tools = [tool for some, _ in found for tool in some]
        return tools, [problem for _, some in found for problem in some]

    async def _resolve_one(
        self, source: MCPSource, agent_id: str | None
    ) -> tuple[list[Tool], list[Problem | HandrailError]]:
        try:
            entry = await self._permitted(source.server_id, agent_id)
            if source.tool_names == ():
                return [], []
            manifest = await self._manifest(entry)
            return self._tools(entry, manifest, source.tool_names)
        except HandrailError as error:
            return [], [_problem(error, "warning") if source.optional else error]

    def _tools(
        self, entry: MCPServerEntry, manifest: Manifest, only: tuple[str, ...] | None
    ) -> tuple[list[Tool], list[Problem | HandrailError]]:
        left_out = {name: text for name, text in manifest.notes if name is not None and name not in manifest.tools}
        problems: list[Problem | HandrailError] = [
            Problem("mcp_tool_quarantined", f"tool {name!r} {text}" if name else text, None, "warning", entry.id)
            for name, text in manifest.notes
            if only is None or name is None
        ]
        tools: list[Tool] = []
        for name in manifest.tools if only is None else dict.fromkeys(only):
            if (listed := manifest.tools.get(name)) is None:
                problems.append(_missing(entry.id, name, manifest, left_out.get(name)))
                continue
            try:
                tools.append(self._tool(entry, listed))
            except ToolDefinitionError as error:
                if only is not None:
                    problems.append(_missing(entry.id, name, manifest, f"has a schema that cannot be used: {error}"))
                else:
                    problems.append(Problem("mcp_tool_quarantined", error.message, error.hint, "warning", entry.id))
        return tools, problems

    def _tool(self, entry: MCPServerEntry, listed: RemoteTool) -> Tool:
        seconds = self._default_timeout if entry.tool_timeout_ms is None else entry.tool_timeout_ms / 1000

        async def send(arguments: dict[str, Any], context: ToolContext) -> RemoteResult:
            return await self._call(entry.id, listed.name, arguments, context.agent_id, seconds)

        return Tool.remote(
            name=listed.name,
            description=listed.description,
            parameters=listed.parameters,
            output_schema=listed.output_schema,
            server=entry.id,
            send=send,
            timeout=seconds,
            annotations=listed.annotations,
        )

    async def _call(
        self, server_id: str, name: str, arguments: dict[str, Any], agent_id: str | None, seconds: float
    ) -> RemoteResult:
        # Asked again for each call: access that was withdrawn, or a server that was removed, counts at once.
        try:
            entry = await self._permitted(server_id, agent_id)
        except MCPEntryError as error:
            raise MCPConnectError(
                f"the entry of server {server_id!r} is not acceptable any more", hint=str(error), server=server_id
            ) from None
        handle = self._handle(entry)
        try:
            with self._breaker(server_id, name):
                raw = await handle.call_tool(name, arguments, seconds=seconds or None)
        except RemoteFailure as failure:
            # Servers say in this way that arguments are wrong, or a tool is gone: the model should read it.
            return RemoteResult((Text(f"error {failure.rpc_code}: {failure.text}"),), is_error=True)
        return read_result(server_id, raw)

    @contextmanager
    def _breaker(self, server: str, name: str) -> Generator[None]:
        """Let a call through, or refuse it at once, and note how it ends."""
        if self._breaker_options is None:
            yield
            return
        known = self._breakers.setdefault(server, {})
        if (breaker := known.get(name)) is None:
            breaker = known[name] = Breaker(self._breaker_options)
        permit = self._permit(breaker, server, name)
        try:
            yield
        except RemoteFailure:
            # The server answered; that it does not like the request is for the model to read.
            breaker.success(self._clock.monotonic(), permit)
            raise
        except MCPError as error:
            breaker.failure(self._clock.monotonic(), permit) if _counts(error) else breaker.release(permit)
            raise
        except BaseException:
            breaker.release(permit)
            raise
        breaker.success(self._clock.monotonic(), permit)

    def _permit(self, breaker: Breaker, server: str, name: str) -> Permit:
        now = self._clock.monotonic()
        permit = breaker.allow(now)
        if permit is None:
            wait = breaker.retry_after(now)
            raise MCPCircuitOpenError(
                f"tool {name!r} of server {server!r} kept failing, and is not called for a while",
                hint=f"it is tried again in {wait:.0f} s" if wait else "one call is finding out whether it works again",
                server=server,
                tool=name,
                retry_after=wait,
            )
        return permit

    # From ids to connections.

    async def _load(self, server_id: str) -> MCPServerEntry:
        entry = await self._registry.load_server(server_id)
        if entry is None:
            known = [other.id for other in await self._registry.list_servers()]
            raise MCPServerNotFoundError(
                f"no MCP server is registered as {server_id!r}",
                hint=did_you_mean(server_id, known, what="registered"),
                server=server_id,
            )
        return entry

    async def _permitted(self, server_id: str, agent_id: str | None) -> MCPServerEntry:
        entry = await self._load(server_id)
        if not entry.allows(agent_id):
            who = f"agent {agent_id!r}" if agent_id is not None else "a caller without an agent's id"
            raise MCPAccessDeniedError(
                f"{who} may not use server {server_id!r}",
                hint="add the agent's id to allowed_agents of the server's entry",
                server=server_id,
                agent=agent_id,
            )
        return entry

    def _handle(self, entry: MCPServerEntry) -> ServerHandle:
        self._bind()
        handle = self._handles.get(entry.id)
        if handle is not None and handle.entry != entry:
            # The operator changed the entry: the connection that follows the old one has to go.
            self._manifests.drop(entry.id)
            self._breakers.pop(entry.id, None)
            task = asyncio.get_running_loop().create_task(handle.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            handle = None
        if handle is None:
            limit = entry.max_concurrent_calls
            handle = ServerHandle(
                entry,
                max_calls=self._default_max_calls if limit is None else limit,
                on_tools_changed=self._tools_changed,
            )
            self._handles[entry.id] = handle
        return handle

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop:
            if not self._loop.is_closed():
                raise MCPError(
                    "this MCPConnectionManager belongs to another event loop, which still runs",
                    hint="use one manager for each event loop, or close it in the loop that uses it",
                )
            # That loop took its connections with it when it ended.
            self._handles.clear()
            self._listing.clear()
            self._closing.clear()
            self._forget_refreshes()
        self._loop = loop

    async def _manifest(self, entry: MCPServerEntry) -> Manifest:
        handle = self._handle(entry)
        if (kept := self._manifests.get(entry.id)) is not None:
            return kept
        task = self._listing.get(entry.id)
        if task is None or task.done():
            task = self._begin_listing(entry, handle)
        # Shielded, because others may be waiting for the same list.
        return await asyncio.shield(task)

    def _begin_listing(self, entry: MCPServerEntry, handle: ServerHandle) -> asyncio.Task[Manifest]:
        task = asyncio.get_running_loop().create_task(self._list(entry, handle))
        task.add_done_callback(_retrieve)
        self._listing[entry.id] = task
        return task

    async def _list(self, entry: MCPServerEntry, handle: ServerHandle) -> Manifest:
        await handle.connect()
        changes = self._changes.get(entry.id, 0)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + entry.timeout_ms / 1000

        async def page(cursor: str | None) -> Mapping[str, Any]:
            try:
                return await handle.list_page(cursor, seconds=max(deadline - loop.time(), 0.001))
            except RemoteFailure as failure:
                if failure.rpc_code == _METHOD_NOT_FOUND and cursor is None:
                    return {"tools": []}
                raise MCPProtocolError(
                    f"server {entry.id!r} refused to list its tools: {failure.text}", server=entry.id
                ) from None

        manifest = await read_manifest(entry.id, page)
        if self._handles.get(entry.id) is handle and self._changes.get(entry.id, 0) == changes:
            self._manifests.put(entry.id, manifest)
        return manifest

    # Lists that change.

    def _tools_changed(self, handle: ServerHandle) -> None:
        """Forget the list of a server, and ask for the new one soon, whatever else the server says until then.

        Called from the middle of what receives the server's messages, so nothing is waited for here.
        """
        server = handle.entry.id
        if self._handles.get(server) is not handle:
            return
        self._manifests.drop(server)
        self._changes[server] = self._changes.get(server, 0) + 1
        self._refresh_soon(handle)

    def _refresh_soon(self, handle: ServerHandle) -> None:
        server = handle.entry.id
        if self._manifests.keeps and server not in self._refreshes:
            refresh = functools.partial(self._refresh, handle)
            self._refreshes[server] = self._clock.call_later(_DEBOUNCE, refresh)

    def _refresh(self, handle: ServerHandle) -> None:
        server = handle.entry.id
        self._refreshes.pop(server, None)
        if self._handles.get(server) is not handle or handle.state != "ready":
            return
        task = self._listing.get(server)
        if task is not None and not task.done():
            # This one may have begun before the change.
            self._refresh_soon(handle)
        elif self._manifests.get(server) is None:
            self._begin_listing(handle.entry, handle)

    def _forget_refreshes(self) -> None:
        timers, self._refreshes = list(self._refreshes.values()), {}
        for timer in timers:
            timer.cancel()


def _retrieve(task: asyncio.Task[Manifest]) -> None:
    # Whoever waited may be gone, and that is no reason for a warning.
    if not task.cancelled():
        task.exception()


def _counts(error: MCPError) -> bool:
    """Tell whether an error of a call speaks against the tool: not where we ended the call, or the server said no."""
    if error.context.get("deliberate") or error.context.get("queued"):
        return False
    if isinstance(error, MCPTimeoutError | MCPServerDiedError | MCPProtocolError):
        return True
    status = error.context.get("status")
    if isinstance(status, int):
        return status >= 500
    return isinstance(error, MCPConnectError) and error.context.get("transient") is True


def _missing(server: str, name: str, manifest: Manifest, reason: str | None) -> MCPError:
    if reason is not None:
        return MCPProtocolError(f"tool {name!r} of server {server!r} {reason}", server=server, tool=name)
    return MCPError(
        f"server {server!r} has no tool {name!r}",
        hint=did_you_mean(name, manifest.tools, what="its tools"),
        server=server,
        tool=name,
    )


def _problem(error: HandrailError, severity: str = "error") -> Problem:
    server = error.context.get("server")
    where = server if isinstance(server, str) else None
    return Problem(error.code, error.message, error.hint, severity, where)
