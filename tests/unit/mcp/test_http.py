"""Servers at an address: both transports work, and a failed request is one typed error that costs no other."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import json
import socket
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpcore2
import httpx2
import pytest

from handrail.clock import SYSTEM_CLOCK
from handrail.errors import (
    MCPCircuitOpenError,
    MCPConnectError,
    MCPEntryError,
    MCPError,
    MCPProtocolError,
    MCPServerDiedError,
    MCPTimeoutError,
)
from handrail.mcp.entry import MCPServerEntry
from handrail.mcp.httplink import _retry_after, http_client
from handrail.mcp.manager import MCPConnectionManager
from handrail.mcp.registry import InMemoryMCPServerRegistry
from handrail.netguard import PinnedTransport
from handrail.sources import mcp_tools
from handrail.testing import FakeClock
from handrail.tools import RemoteResult, Text, Tool, ToolContext
from support.waiting import eventually

if TYPE_CHECKING:
    from .fault_http import FaultHTTPServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultHTTPServer]:
    """A server on loopback, which private addresses have to be allowed for; the environment's proxy leads nowhere."""
    monkeypatch.setenv("HANDRAIL_ALLOW_PRIVATE_MCP_URLS", "true")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with _helper().FaultHTTPServer() as running:
        yield running


def _helper() -> Any:
    name = "handrail_test_fault_http"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("fault_http.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def manage(url: str, kind: str = "http", headers: dict[str, str] | None = None, **fields: Any) -> MCPConnectionManager:
    transport = {"type": kind, "url": url, "headers": headers or {}}
    options: dict[str, Any] = {"timeout_ms": 5000, "tool_timeout_ms": 2000, "max_retries": 0}
    clock = fields.pop("clock", SYSTEM_CLOCK)
    entry = MCPServerEntry(id="far", transport=transport, **(options | fields))
    return MCPConnectionManager(InMemoryMCPServerRegistry(entry), clock=clock)


async def echo_of(manager: MCPConnectionManager) -> Tool:
    (tool,) = await manager.resolve_tools([mcp_tools("far")])
    return tool


async def call(tool: Tool, text: str = "hi") -> RemoteResult:
    return await tool.body({"text": text}, ToolContext())


def said(text: str) -> RemoteResult:
    return RemoteResult((Text(text),))


@pytest.mark.parametrize(("path", "kind"), [("/ok", "http"), ("/stream", "http"), ("/sse", "sse")])
async def test_a_call(server: FaultHTTPServer, path: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls work over both transports, at once too; headers are sent with their secrets in place, past any proxy."""
    monkeypatch.setenv("FAR_TOKEN", "t0ken")
    async with manage(server.url(path), kind, {"Authorization": "Bearer ${env:FAR_TOKEN}"}) as manager:
        tool = await echo_of(manager)
        texts = [str(number) for number in range(8)]
        assert await asyncio.gather(*(call(tool, text) for text in texts)) == [said(text) for text in texts]
        assert await manager.ping("far") >= 0
    assert {headers.get("authorization") for _, _, headers in server.seen} == {"Bearer t0ken"}


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_nobody_there(server: FaultHTTPServer, kind: str) -> None:
    """A port where nobody listens is a typed error at once."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
    async with manage(url, kind) as manager:
        begun = time.monotonic()
        with pytest.raises(MCPConnectError, match="could not be reached"):
            await echo_of(manager)
        assert time.monotonic() - begun < 2


@pytest.mark.parametrize(("path", "text"), [("/denied", "HTTP 401"), ("/page", "handshake")])
async def test_refusals_at_the_start(server: FaultHTTPServer, path: str, text: str) -> None:
    """A server that refuses, or is no MCP server, is a typed error, and is not tried again."""
    async with manage(server.url(path), max_retries=3) as manager:
        with pytest.raises(MCPError, match=text) as caught:
            await echo_of(manager)
        assert caught.value.context["server"] == "far"
    assert server.count("initialize") <= 1


async def test_a_status_is_told(server: FaultHTTPServer) -> None:
    """The status of a failed call is in its error, and the connection goes on."""
    async with manage(server.url("/busy")) as manager:
        tool = await echo_of(manager)
        with pytest.raises(MCPConnectError, match="HTTP 503") as caught:
            await call(tool)
        assert caught.value.context["status"] == 503
        assert await call(tool) == said("hi")
        assert server.count("initialize") == 1
    async with manage(server.url("/expires")) as manager:
        with pytest.raises(MCPConnectError, match=r"HTTP 401.*check the headers"):
            await call(await echo_of(manager))


async def test_one_dropped_request_costs_no_other(server: FaultHTTPServer) -> None:
    """A request whose connection breaks fails alone, is not sent again, and the session stays."""
    async with manage(server.url("/drop")) as manager:
        tool = await echo_of(manager)
        with pytest.raises(MCPConnectError, match="could not be reached"):
            await call(tool)
        assert await manager.ping("far") >= 0
        assert (server.count("initialize"), server.count("tools/call")) == (1, 1)


async def test_a_silent_server(server: FaultHTTPServer) -> None:
    """A call that is not answered ends at its deadline."""
    async with manage(server.url("/hang"), tool_timeout_ms=300) as manager:
        tool = await echo_of(manager)
        begun = time.monotonic()
        with pytest.raises(MCPTimeoutError, match="300 ms"):
            await call(tool)
        assert time.monotonic() - begun < 1.5
        server.release.set()


@pytest.mark.parametrize("path", ["/forgets", "/forgets-404", "/forgets-400", "/forgets-id"])
async def test_a_restarted_server(server: FaultHTTPServer, path: str) -> None:
    """A server that forgot the session has run nothing, so a new session is begun and the call sent again, once."""
    async with manage(server.url(path)) as manager:
        tool = await echo_of(manager)
        assert await call(tool) == said("hi")
        server.session = 2
        assert await call(tool, "again") == said("again")
        assert (server.count("initialize"), server.count("tools/call")) == (2, 3)
        server.session = 3
        texts = [str(number) for number in range(5)]
        assert await asyncio.gather(*(call(tool, text) for text in texts)) == [said(text) for text in texts]
        # All of them went on in one new session, and the list was not needed again.
        assert (server.count("initialize"), server.count("tools/list")) == (3, 1)


async def test_a_server_that_forgets_every_session(server: FaultHTTPServer) -> None:
    """A call is sent again once, and then it is a typed error; nothing goes round in circles."""
    async with manage(server.url("/forgets-always")) as manager:
        tool = await echo_of(manager)
        with pytest.raises(MCPServerDiedError, match="does not know this session"):
            await call(tool)
        assert (server.count("initialize"), server.count("tools/call")) == (2, 2)


async def test_not_found_without_a_session(server: FaultHTTPServer) -> None:
    """Without a session, "not found" is just that: the call is not sent again, and the connection stays."""
    async with manage(server.url("/gone")) as manager:
        tool = await echo_of(manager)
        with pytest.raises(MCPConnectError, match="HTTP 404") as caught:
            await call(tool)
        assert caught.value.context["transient"] is False
        assert (server.count("initialize"), server.count("tools/call")) == (1, 1)


async def test_an_error_in_the_body_of_a_failed_request(server: FaultHTTPServer) -> None:
    """What a server says about the request in its own words reaches the model, whatever the status."""
    async with manage(server.url("/bad-request")) as manager:
        result = await call(await echo_of(manager))
        assert result == RemoteResult((Text("error -32602: no such argument"),), is_error=True)
        assert server.count("tools/call") == 1


@pytest.mark.parametrize("when", ["0", "Mon, 01 Jan 2024 00:00:00 GMT"])
async def test_a_server_that_is_busy(server: FaultHTTPServer, when: str) -> None:
    """A server that says when it wants the request again gets it then, in seconds or as a date; but only once."""
    server.retry_after = when
    async with manage(server.url("/wait")) as manager:
        assert await call(await echo_of(manager)) == said("hi")
        assert (server.count("initialize"), server.count("tools/call")) == (1, 2)
    async with manage(server.url("/always-waits")) as manager:
        tool = await echo_of(manager)
        with pytest.raises(MCPConnectError, match="HTTP 503"):
            await call(tool)
        assert server.count("tools/call") == 4


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None), ("0", 0.0), (" 7 ", 7.0), ("-5", None), ("1.5", None), ("1e3", None), ("soon", None), ("", None),
        ("99999999999", None), ("Mon, 01 Jan 2024 00:00:00 GMT", 0.0), ("Mon, 32 Jan 2024 00:00:00 GMT", None),
        ("Mon, 01 Jan 99999 00:00:00 GMT", None), ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
    ],
)  # fmt: skip
def test_when_to_try_again(text: str | None, seconds: float | None) -> None:
    """A number of seconds and a date are understood; anything else is as good as nothing."""
    assert _retry_after(text) == seconds


async def test_a_server_that_is_busy_for_long(server: FaultHTTPServer) -> None:
    """When it wants the request again after the deadline, that is a typed error at once."""
    server.retry_after = "60"
    async with manage(server.url("/wait")) as manager:
        tool = await echo_of(manager)
        begun = time.monotonic()
        with pytest.raises(MCPConnectError, match="HTTP 429") as caught:
            await call(tool)
        assert time.monotonic() - begun < 1
        assert caught.value.context["retry_after"] == 60.0
        assert server.count("tools/call") == 1


async def test_a_server_that_is_busy_at_the_start(server: FaultHTTPServer) -> None:
    """A connection that is put off is opened when the server says so."""
    async with manage(server.url("/waits-at-first"), max_retries=1) as manager:
        assert await call(await echo_of(manager)) == said("hi")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/huge", "more than 10485760 bytes"),
        ("/huge-gzip", "more than 10485760 bytes"),
        ("/huge-event", "SSE stream failed"),
        ("/page-later", "Unexpected content type"),
        ("/accepted", "202"),
    ],
)
async def test_answers_that_cannot_be_used(server: FaultHTTPServer, path: str, text: str) -> None:
    """An answer that is too long, or none at all, is a typed error of that one call, and is not asked for again."""
    async with manage(server.url(path)) as manager:
        tool = await echo_of(manager)
        with pytest.raises(MCPProtocolError, match=text):
            await call(tool)
        assert await manager.ping("far") >= 0
        assert (server.count("initialize"), server.count("tools/call")) == (1, 1)


@pytest.mark.parametrize("path", ["/half", "/half-event", "/odd-coding"])
async def test_answers_that_break_off(server: FaultHTTPServer, path: str) -> None:
    """An answer that breaks off costs that one call, and not the session."""
    async with manage(server.url(path)) as manager:
        tool = await echo_of(manager)
        with pytest.raises(MCPConnectError, match=r"broke off its answer|could not be reached"):
            await call(tool)
        assert await manager.ping("far") >= 0
        assert (server.count("initialize"), server.count("tools/call")) == (1, 1)


@pytest.mark.parametrize("path", ["/gzip", "/gzip-stream"])
async def test_compressed_answers(server: FaultHTTPServer, path: str) -> None:
    """Compressed answers are read, as one body and as a stream of events."""
    async with manage(server.url(path)) as manager:
        assert await call(await echo_of(manager)) == said("hi")


async def test_a_failed_message_of_the_older_transport(server: FaultHTTPServer) -> None:
    """After a message that failed no other is sent, so the calls under way end at once, and the next one connects."""
    async with manage(server.url("/sse-bad"), "sse", tool_timeout_ms=60_000) as manager:
        tool = await echo_of(manager)
        for _ in range(2):
            begun = time.monotonic()
            results = await asyncio.gather(*(call(tool) for _ in range(3)), return_exceptions=True)
            assert time.monotonic() - begun < 3
            assert {type(result) for result in results} <= {MCPConnectError, MCPServerDiedError}
            assert any("HTTP 500" in str(result) for result in results)
    async with manage(server.url("/sse-lost"), "sse") as manager:
        tool = await echo_of(manager)
        assert await call(tool) == said("hi")


@pytest.mark.parametrize("path", ["/changes", "/changes-modern"])
async def test_a_changed_list(server: FaultHTTPServer, path: str) -> None:
    """A server at an address can say that its tools changed, in both protocols, and is asked for them once."""
    clock = FakeClock()
    async with manage(server.url(path), clock=clock) as manager:
        tool = await echo_of(manager)
        notice = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).encode()
        for _ in range(20):
            server.outbox.put(notice)
        await eventually(lambda: clock.advance(0.25) is None and server.count("tools/list") == 2)
        assert await call(tool) == said("hi")
        server.outbox.put(None)


@pytest.mark.parametrize(("path", "opens"), [("/fails", True), ("/drop", True), ("/limited", False), ("/gone", False)])
async def test_which_status_counts(server: FaultHTTPServer, path: str, opens: bool) -> None:
    """A server that fails, or is not there, counts towards the breaker; one that says no does not."""
    async with manage(server.url(path)) as manager:
        tool = await echo_of(manager)
        for _ in range(5):
            with pytest.raises(MCPConnectError):
                await call(tool)
        with pytest.raises(MCPCircuitOpenError if opens else MCPConnectError):
            await call(tool)
        assert server.count("tools/call") == (5 if opens else 6)


async def test_private_addresses_are_checked_again(server: FaultHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that was allowed when it was saved is refused when it is not any more."""
    async with manage(server.url("/ok")) as manager:
        monkeypatch.delenv("HANDRAIL_ALLOW_PRIVATE_MCP_URLS")
        problems = await manager.preflight([mcp_tools("far")])
        assert [problem.severity for problem in problems] == ["error"]
        assert "not a public address" in problems[0].message
    assert server.seen == []


# Where it connects to. Nothing here opens a socket: the resolver and the connect step are recorders.


class Recorder:
    """Writes down what is looked up and dialled. Nobody ever answers."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.dialled: list[str] = []

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        self.asked.append(host)
        return self.answers

    async def connect_tcp(self, host: str, *_: object, **__: object) -> Any:
        self.dialled.append(host)
        raise httpcore2.ConnectError("nobody is there")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Stands in for the network."""
    monkeypatch.delenv("HANDRAIL_ALLOW_PRIVATE_MCP_URLS", raising=False)
    found = Recorder("93.184.216.34", "10.0.0.5")
    guarded = functools.partial(PinnedTransport, resolver=found.resolve, connector=found)
    monkeypatch.setattr("handrail.mcp.httplink.PinnedTransport", guarded)
    return found


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_public_name_that_leads_inside(recorder: Recorder, kind: str) -> None:
    """A host whose name leads to an address inside is refused when connecting, at once, and is not dialled."""
    async with manage("https://mixed.example/mcp", kind, max_retries=3) as manager:
        with pytest.raises(MCPConnectError, match=r"'mixed\.example' is not a public address") as caught:
            await echo_of(manager)
        assert caught.value.context["transient"] is False
    assert recorder.dialled == []
    assert set(recorder.asked) == {"mixed.example"}


async def test_private_addresses_relax_the_address_check_only(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With private addresses allowed, a host inside is dialled; what is malformed stays refused."""
    monkeypatch.setenv("HANDRAIL_ALLOW_PRIVATE_MCP_URLS", "true")
    async with manage("http://inside.example/mcp") as manager:
        with pytest.raises(MCPConnectError, match="could not be reached"):
            await echo_of(manager)
    assert set(recorder.dialled) == {"93.184.216.34", "10.0.0.5"}
    with pytest.raises(MCPEntryError, match="credentials"):
        manage("http://user@inside.example/mcp")


async def test_requests_for_authorisation_are_guarded(recorder: Recorder) -> None:
    """What the authorisation of a request asks for by itself goes through the same guard."""
    recorder.answers = ("93.184.216.34",)
    answers: list[httpx2.Response] = []

    class Discover(httpx2.Auth):
        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            answers.append((yield httpx2.Request("GET", "http://169.254.169.254/.well-known/oauth")))
            answers.append((yield httpx2.Request("POST", "http://[::ffff:10.0.0.5]/token")))
            answers.append((yield request))

    async with http_client({}, 1.0, Discover()) as client:
        await client.get("https://public.example/")
    assert [answer.status_code for answer in answers] == [502, 502, 502]
    assert recorder.dialled == ["93.184.216.34"]
