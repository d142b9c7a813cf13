"""One live connection to one server, over the SDK's client. The only module here that loads ``mcp``.

Between the SDK and its transport stand streams of our own. They see every message, so the end of a connection
is noticed at once, and the answers to ``tools/list`` and ``tools/call`` reach us as the server sent them: the
SDK would refuse a whole answer for one detail that it does not know.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol, Self, TypeVar, cast

import anyio
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError as SDKError
from mcp.shared.message import SessionMessage
from pydantic import BaseModel, Field, ValidationError

from handrail.errors import (
    MCPConnectError,
    MCPError,
    MCPProtocolError,
    MCPServerDiedError,
    MCPTimeoutError,
)
from handrail.mcp.entry import HTTPTransport, MCPServerEntry, SSETransport, StdioTransport, check_literal_url
from handrail.mcp.httplink import HTTPFailure, http_client, unreachable
from handrail.mcp.httplink import failures as http_failures
from handrail.mcp.launch import child_environment, resolve_command, resolve_secrets
from handrail.mcp.link import ConnectionEnded, Link, NotRun, RemoteFailure
from handrail.mcp.pipe import StdioPipe
from handrail.mcp.results import RESULT_CAP
from handrail.mcp.shim import RAW, Shim

__all__ = ["Session", "open_session"]

PROBE_SECONDS = 5.0
"""How long a child process may leave the question for its protocol version unanswered, at most.

Servers of the older kind may ignore it; they are then greeted in the older way.
"""

_CANCEL_WRITE = 0.25
_LISTEN_AGAIN = 1.0
_LISTEN_AGAIN_LONGEST = 60.0
_SHOWN = 200
_SDK_WORDS: dict[int, tuple[str, ...]] = {
    types.CONNECTION_CLOSED: ("SSE stream ",),
    types.PARSE_ERROR: ("Failed to parse ",),
    types.INVALID_REQUEST: ("Unexpected content type", "server answered a request with 202", "Redirect to "),
}
"""How the SDK begins what it says in the server's place, when an answer over HTTP cannot be used."""

_GREETING_CODES = frozenset({types.INVALID_REQUEST, -32002})
_GREETING = re.compile(r"\binitializ(?:e|ed|ation)\b", re.IGNORECASE)
for _name in ("mcp", "client"):
    # Both are loggers of the SDK. What they tell of a broken connection is in our errors already.
    logging.getLogger(_name).addHandler(logging.NullHandler())

Result = TypeVar("Result", bound=BaseModel)


class _Receiver(Protocol):
    async def receive(self) -> SessionMessage | Exception: ...


class _Sender(Protocol):
    async def send(self, item: SessionMessage, /) -> None: ...


class _Raw(BaseModel):
    """A result of which only the key under which the real one waits is looked at."""

    meta: dict[str, Any] = Field(alias="_meta")


class _Reader:
    """What the SDK reads from: messages of a child process, or of the SDK's own transport, past the shim."""

    def __init__(self, source: StdioPipe | _Receiver, shim: Shim, link: Link) -> None:
        self._source = source
        self._shim = shim
        self._link = link

    @property
    def last_context(self) -> object:
        """The context of the message's sender, where the transport carries one."""
        return getattr(self._source, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        while True:
            try:
                if isinstance(self._source, StdioPipe) and self._link.over.is_set():
                    raise EOFError
                item = await self._source.receive()
            except (EOFError, anyio.EndOfStream, anyio.ClosedResourceError):
                self._link.end()
                raise anyio.EndOfStream from None
            if isinstance(item, Exception):
                return item
            if isinstance(item, SessionMessage):
                self._link.heard = True
                item.message = self._shim.incoming(item.message)
                return item
            if (message := self._shim.read(item)) is not None:
                return SessionMessage(self._shim.incoming(message))

    async def aclose(self) -> None:
        """Nothing: whoever opened the source closes it."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class _Writer:
    """What the SDK writes to, past the shim."""

    def __init__(self, sink: StdioPipe | _Sender, shim: Shim, link: Link) -> None:
        self._sink = sink
        self._shim = shim
        self._link = link

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message. Only a request waits until the server has read it.

        A notification that cancels a request must not wait: the SDK shields it, so a server that stopped
        reading would hold the caller beyond its deadline.
        """
        message = item.message
        if isinstance(self._sink, StdioPipe):
            frame = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            self._shim.outgoing(message)
            try:
                self._sink.write(frame)
                if isinstance(message, types.JSONRPCRequest):
                    await self._sink.drain()
            except BrokenPipeError:
                raise anyio.BrokenResourceError from None
            return
        self._shim.outgoing(message)
        try:
            if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
                with anyio.move_on_after(_CANCEL_WRITE):
                    await self._sink.send(item)
            else:
                await self._sink.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._link.end()
            raise

    async def aclose(self) -> None:
        """Nothing: whoever opened the sink closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class Session:
    """A connection that is ready for requests. They may be sent from any task of the loop."""

    def __init__(self, client: Client, shim: Shim, link: Link) -> None:
        self._client = client
        self._shim = shim
        self.link = link
        self.protocol_version = client.protocol_version
        self.legacy = client.session.discover_result is None

    async def list_page(self, cursor: str | None, seconds: float | None) -> dict[str, Any]:
        """Ask for one page of the tool list, and return it as the server sent it."""
        params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        return await self._raw(types.ListToolsRequest(params=params), seconds)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], seconds: float | None, meta: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Call a tool, and return its result as the server sent it.

        Raises:
            ConnectionEnded: If the connection ended first.
            NotRun: If the server refuses the request before running anything.
            RemoteFailure: If the server answers with a JSON-RPC error.
            MCPTimeoutError: If the answer takes longer than ``seconds``.
            MCPError: For everything else that goes wrong.
        """
        params = types.CallToolRequestParams(name=name, arguments=arguments, _meta=cast("Any", meta))
        return await self._raw(types.CallToolRequest(params=params), seconds)

    async def ping(self, seconds: float | None) -> None:
        """Have the server answer something."""
        if not self.legacy:
            # The newer protocol has no ping.
            await self.list_page(None, seconds)
            return
        await self._send(types.PingRequest(), types.EmptyResult, seconds)

    async def _raw(self, request: types.Request[Any, Any], seconds: float | None) -> dict[str, Any]:
        result = await self._send(request, _Raw, seconds)
        return self._shim.take(result.meta[RAW])

    async def _send(self, request: Any, result: type[Result], seconds: float | None) -> Result:
        failures: list[HTTPFailure] = []
        token = http_failures.set(failures)
        try:
            return await self._client.session.send_request(request, result, request_read_timeout_seconds=seconds)
        except SDKError as error:
            failed = self._failed(error, failures)
        except (ValidationError, ValueError, KeyError) as error:
            failed = MCPProtocolError(
                f"server {self.link.server!r} sent an answer that cannot be read",
                hint=f"{type(error).__name__} in the answer to {request.method}",
                server=self.link.server,
            )
        finally:
            http_failures.reset(token)
        raise failed

    def _failed(self, error: SDKError, failures: list[HTTPFailure]) -> Exception:
        server = self.link.server
        if failures and (failed := self._http_failed(error, failures[-1])) is not None:
            return failed
        if _closed(error):
            return ConnectionEnded()
        if error.code == types.REQUEST_TIMEOUT and error.message.endswith("timed out"):
            return MCPTimeoutError(f"server {server!r} did not answer in time", server=server)
        data: object = error.data
        marked = isinstance(data, dict) and RAW in data
        if marked or (self.link.pipe is None and error.message.startswith(_SDK_WORDS.get(error.code, ()))):
            return MCPProtocolError(f"server {server!r}: {error.message[:_SHOWN]}", server=server)
        failure = RemoteFailure(error.code, error.message)
        if not self.legacy and error.code in _GREETING_CODES and _GREETING.search(error.message):
            # It answered the newer question, and now wants the older greeting all the same.
            return NotRun(failure, renew="wants the older greeting", legacy=True)
        return failure

    def _http_failed(self, error: SDKError, failure: HTTPFailure) -> Exception | None:
        # What the SDK says where the server's answer did not say anything that it understands.
        plain = error.message in ("Server returned an error response", "Session terminated", "Not Found")
        plain = plain or _closed(error)
        if failure.in_session and self._session_lost(error, failure.status, plain):
            # A server that was restarted does not know the session any more.
            lost = "does not know this session any more"
            return NotRun(
                MCPServerDiedError(
                    f"server {self.link.server!r} {lost}",
                    hint="it was restarted, or it ended the session; the next call connects again",
                    server=self.link.server,
                    status=failure.status,
                ),
                renew=lost,
            )
        if failure.status in (400, 404) and not plain:
            return None
        told = unreachable(self.link.server, failure)
        if failure.status in (429, 503) and failure.retry_after is not None:
            return NotRun(told, wait=failure.retry_after)
        return told

    @staticmethod
    def _session_lost(error: SDKError, status: int | None, plain: bool) -> bool:
        if status == 404:
            return plain or error.code != types.METHOD_NOT_FOUND
        return status == 400 and (plain or "session" in error.message.lower())


@asynccontextmanager
async def open_session(entry: MCPServerEntry, link: Link, *, mode: str) -> AsyncGenerator[Session]:
    """Connect to a server, and disconnect on the way out. Enter and leave it in one and the same task.

    What ends the connection while it is in use does not leave this context as an error: it is noted in
    ``link``.

    Args:
        entry: The server.
        link: Filled in while connecting.
        mode: ``auto``, or ``legacy`` for the older handshake.

    Raises:
        MCPConnectError: If the server cannot be started or reached, or refuses the handshake.
        MCPProtocolError: If what it answers is not the protocol.
    """
    failures: list[HTTPFailure] = []
    http_failures.set(failures)
    shim = Shim(link, min(PROBE_SECONDS, entry.timeout_ms / 3000))
    ready = False
    failed: BaseException | None = None
    try:
        async with _streams(entry, link, shim) as (reader, writer):
            client = Client(_given(reader, writer), mode=mode, client_info=_client_info(), cache=None)
            async with client:
                http_failures.set(None)
                ready = True
                async with _listening(client, link):
                    yield Session(client, shim, link)
    except (Exception, BaseExceptionGroup) as error:
        failed = _leaf(error)
        if not isinstance(failed, Exception):
            raise
        if ready:
            link.end(f"could not be read from any more: {type(failed).__name__}")
            return
    finally:
        shim.close()
        if ready:
            link.end()
    if failed is not None:
        raise await _connect_error(entry.id, failed, link, failures)


@asynccontextmanager
async def _listening(client: Client, link: Link) -> AsyncGenerator[None]:
    """Keep open the stream by which a server of the newer protocol says that its tools are others now."""
    tools = client.server_capabilities.tools
    if client.session.discover_result is None or tools is None or not tools.list_changed:
        yield
        return
    task = asyncio.get_running_loop().create_task(_listen(client, link), name=f"listen to {link.server}")
    try:
        yield
    finally:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])


async def _listen(client: Client, link: Link) -> None:
    wait = _LISTEN_AGAIN
    again = False
    while not link.over.is_set():
        try:
            async with client.listen(tools_list_changed=True) as changes:
                if again:
                    # What changed while nobody listened was not told.
                    link.tools_changed()
                async for _ in changes:
                    # The shim has told it already; an event only shows that the stream is good.
                    wait = _LISTEN_AGAIN
        except SDKError as error:
            if error.code == types.METHOD_NOT_FOUND or _closed(error):
                return
        except (SubscriptionLost, TimeoutError):
            pass
        await asyncio.sleep(wait)
        wait = min(2 * wait, _LISTEN_AGAIN_LONGEST)
        again = True


@asynccontextmanager
async def _given(reader: _Reader, writer: _Writer) -> AsyncGenerator[Any]:
    yield reader, writer


@asynccontextmanager
async def _streams(entry: MCPServerEntry, link: Link, shim: Shim) -> AsyncGenerator[tuple[_Reader, _Writer]]:
    transport = entry.transport
    if isinstance(transport, StdioTransport):
        link.pipe = pipe = await _start(entry.id, transport)
        try:
            yield _Reader(pipe, shim, link), _Writer(pipe, shim, link)
        finally:
            await pipe.close()
        return
    async with _dial(entry, transport, link) as (read, write):
        yield _Reader(cast("_Receiver", read), shim, link), _Writer(cast("_Sender", write), shim, link)


async def _start(server: str, transport: StdioTransport) -> StdioPipe:
    env, secrets = child_environment(transport, server=server)
    program = resolve_command(transport.command, server=server, path=env.get("PATH"))
    try:
        return await StdioPipe.open(program, transport.args, env=env, cwd=transport.cwd, redact=secrets)
    except MCPConnectError as error:
        raise MCPConnectError(f"server {server!r}: {error.message}", hint=error.hint, server=server) from None


@asynccontextmanager
async def _dial(
    entry: MCPServerEntry, transport: HTTPTransport | SSETransport, link: Link
) -> AsyncGenerator[tuple[object, object]]:
    try:
        check_literal_url(transport.url)
    except ValueError as error:
        raise MCPConnectError(f"server {entry.id!r}: its url {error}", server=entry.id) from None
    headers = resolve_secrets(transport.headers, server=entry.id, field="headers")
    seconds = entry.timeout_ms / 1000
    if isinstance(transport, SSETransport):

        def make(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            lost = http_client(headers or {}, seconds, auth, lambda failure: link.end(failure.reason))
            return cast("httpx2.AsyncClient", lost)

        streams = sse_client(transport.url, headers, timeout=seconds, httpx_client_factory=make)
        async with cast("AbstractAsyncContextManager[tuple[object, object]]", streams) as pair:
            yield pair
        return
    async with (
        http_client(headers, seconds) as client,
        streamable_http_client(transport.url, http_client=client, max_sse_event_size=RESULT_CAP) as pair,
    ):
        yield pair


def _closed(error: SDKError) -> bool:
    # A server may send this code too, and does, with words of its own.
    return error.code == types.CONNECTION_CLOSED and error.message == "Connection closed"


def _client_info() -> types.Implementation:
    try:
        own = version("handrail")
    except PackageNotFoundError:
        own = "0"
    return types.Implementation(name="handrail", version=own)


def _leaf(error: BaseException) -> BaseException:
    """Return the error inside nested groups. One that must not be swallowed goes first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [_leaf(inner) for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions]
    return next((leaf for leaf in leaves if not isinstance(leaf, Exception)), leaves[0])


async def _connect_error(server: str, error: Exception, link: Link, failures: list[HTTPFailure]) -> MCPError:
    if isinstance(error, MCPError):
        return error
    if failures and failures[-1].status != 400:
        return unreachable(server, failures[-1])
    if isinstance(error, SDKError) and _closed(error):
        return await link.died_at_start()
    if isinstance(error, SDKError):
        return MCPConnectError(f"server {server!r} refused the handshake: {error.message}", server=server)
    if isinstance(error, httpx2.HTTPError | OSError):
        return MCPConnectError(
            f"server {server!r} could not be reached: {type(error).__name__}", server=server, transient=True
        )
    return MCPProtocolError(
        f"server {server!r} answered the handshake in a way that the protocol does not allow",
        hint=f"{type(error).__name__}; {link.last_output}" if link.last_output else type(error).__name__,
        server=server,
    )
