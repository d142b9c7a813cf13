"""Agents get the tools of registered servers, and each thing that goes wrong is one typed error in time."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from handrail.clock import SystemClock
from handrail.errors import (
    MCPAccessDeniedError,
    MCPCircuitOpenError,
    MCPConnectError,
    MCPError,
    MCPProtocolError,
    MCPServerDiedError,
    MCPServerNotFoundError,
    MCPTimeoutError,
)
from handrail.mcp.breaker import BreakerOptions
from handrail.mcp.entry import MCPServerEntry
from handrail.mcp.manager import MCPConnectionManager
from handrail.mcp.registry import InMemoryMCPServerRegistry
from handrail.sources import MCPSource, mcp_tools
from handrail.testing import FakeClock
from handrail.tools import RemoteResult, Text, Tool, ToolContext

if TYPE_CHECKING:
    from .conftest import Fault

Make = Callable[[str], "Fault"]
FAULT = mcp_tools("fault")


class HandClock(SystemClock):
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.monotonic: Callable[[], float] = lambda: self.now  # pyright: ignore[reportIncompatibleVariableOverride]


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stubborn processes get less time here; the real times are tested with the pipe."""
    monkeypatch.setattr("handrail.mcp.pipe._STDIN_GRACE", 0.3)


def manage(*servers: Fault | MCPServerEntry, **fields: Any) -> MCPConnectionManager:
    options = {
        key: fields.pop(key) for key in ("breaker", "clock", "cache_ttl_ms", "default_tool_timeout_ms") if key in fields
    }
    entries = [one if isinstance(one, MCPServerEntry) else one.entry(**fields) for one in servers]
    return MCPConnectionManager(InMemoryMCPServerRegistry(*entries), **options)


async def tools_of(manager: MCPConnectionManager, source: MCPSource = FAULT, **options: Any) -> dict[str, Tool]:
    return {tool.name: tool for tool in await manager.resolve_tools([source], **options)}


async def call(tool: Tool, text: str = "hi", agent_id: str | None = None) -> RemoteResult:
    return await tool.body({"text": text}, ToolContext(call_id="c", agent_id=agent_id))


def said(text: str) -> RemoteResult:
    return RemoteResult((Text(text),))


# What works.


@pytest.mark.parametrize("mode", ["ok", "modern", "banner", "garbage", "text_ids", "slow_start", "chatty_stderr"])
async def test_a_call(fault: Make, mode: str) -> None:
    """Both protocol eras work, and so do servers that start slowly, write noise, or send ids back as text."""
    async with manage(fault(mode)) as manager:
        tools = await tools_of(manager)
        assert list(tools) == ["echo", "count", "slow"]
        assert tools["echo"].server == "fault"
        assert await call(tools["echo"]) == said("hi")
        assert await call(tools["count"], "ä\n") == said("ä\n")


async def test_bytes_that_are_not_utf_8(fault: Make) -> None:
    """Bytes that are not UTF-8 cost neither the connection nor the answer."""
    async with manage(fault("garbage_bin")) as manager:
        assert await call((await tools_of(manager))["echo"]) == said("caf\ufffd")
        assert manager.status()["fault"]["noise"] == 1


async def test_all_pages_are_listed(fault: Make) -> None:
    """The tools of every page are there, also where a cursor comes back."""
    async with manage(fault("pages"), fault("repeat_cursor").entry(id="again")) as manager:
        assert list(await tools_of(manager)) == ["echo", "second"]
        assert list(await tools_of(manager, mcp_tools("again"))) == ["echo", "second"]
        assert [problem.severity for problem in await manager.preflight([mcp_tools("again")])] == ["warning"]


async def test_a_bad_tool_does_not_cost_the_others(fault: Make) -> None:
    """Tools whose schema cannot be used are left out and reported; asking for one by name is an error."""
    async with manage(fault("bad_schema")) as manager:
        assert {"echo"} <= (await tools_of(manager)).keys() <= {"echo", "odd_schema"}
        problems = await manager.preflight([FAULT])
        assert {problem.severity for problem in problems} == {"warning"}
        text = " ".join(problem.message for problem in problems)
        assert all(name in text for name in ("no_schema", "wrong_schema", "task", "listed twice"))
        with pytest.raises(MCPProtocolError, match="no_schema"):
            await tools_of(manager, mcp_tools("fault", only=["no_schema"]))


@pytest.mark.parametrize(
    ("mode", "result"),
    [
        ("is_error", RemoteResult((Text("hi"),), is_error=True)),
        ("rpc_error", RemoteResult((Text("error -32602: Unknown tool: echo"),), is_error=True)),
        ("no_content", RemoteResult(structured={"n": 1})),
    ],
)
async def test_odd_results(fault: Make, mode: str, result: RemoteResult) -> None:
    """Errors that the server states reach the model, and results that bend the protocol are read."""
    async with manage(fault(mode)) as manager:
        assert await call((await tools_of(manager))["echo"]) == result


async def test_unknown_content(fault: Make) -> None:
    """A content block of an unknown kind does not cost the rest of the result."""
    async with manage(fault("unknown_block")) as manager:
        result = await call((await tools_of(manager))["echo"])
        assert result.parts[1:] == (Text("ok"),)


async def test_large_results(fault: Make) -> None:
    """A result of two megabytes arrives."""
    async with manage(fault("big")) as manager:
        result = await call((await tools_of(manager))["echo"])
        assert result == said("x" * 2 * 1024 * 1024)


# What goes wrong at the start.


@pytest.mark.parametrize(
    ("mode", "error", "text"),
    [
        ("die_start", MCPConnectError, "exit code 7"),
        ("refuse_all", MCPConnectError, "refused the handshake: no license"),
        ("bad_version", MCPProtocolError, "handshake"),
        ("flood_start", MCPConnectError, "no message"),
        ("hang_list", MCPTimeoutError, "the list of tools timed out"),
        ("no_list", MCPProtocolError, "without a list of tools"),
        ("endless_pages", MCPProtocolError, "no end of tools"),
        ("endless_tools", MCPProtocolError, "no end of tools"),
    ],
)
async def test_start_faults(fault: Make, mode: str, error: type[MCPError], text: str) -> None:
    """A server that cannot be used is one typed error within the connection's deadline."""
    async with manage(fault(mode), timeout_ms=1500) as manager:
        begun = time.monotonic()
        with pytest.raises(error, match=text) as caught:
            await tools_of(manager)
        assert time.monotonic() - begun < 3
        assert caught.value.context["server"] == "fault"
        assert "fault" in caught.value.model_text
        (problem,) = await manager.preflight([FAULT])
        assert (problem.code, problem.severity, problem.where) == (caught.value.code, "error", "fault")


async def test_the_last_words_are_for_the_developer(fault: Make) -> None:
    """What a dying server wrote is in the hint, and never in what the model reads."""
    async with manage(fault("die_start")) as manager:
        with pytest.raises(MCPConnectError) as caught:
            await tools_of(manager)
    assert "flux capacitor" in str(caught.value.hint)
    assert caught.value.context["exit_code"] == 7
    assert "flux" not in caught.value.model_text


async def test_a_hanging_start_is_told_at_once(fault: Make) -> None:
    """Who waits for a server that does not answer learns it at the deadline, not after the cleaning up."""
    async with manage(fault("hang_start"), timeout_ms=600) as manager:
        begun = time.monotonic()
        with pytest.raises(MCPConnectError, match="not ready within 600 ms"):
            await tools_of(manager)
        assert time.monotonic() - begun < 1.5


async def test_older_servers_are_greeted_in_the_older_way(fault: Make) -> None:
    """A server that ignores the newer question, or ends at it, is still connected, and remembered as older."""
    ignores, ends = fault("hang_discover"), fault("die_unknown")
    async with manage(ignores.entry(timeout_ms=1500), ends.entry(id="ends", max_retries=1)) as manager:
        assert "echo" in await tools_of(manager)
        assert "echo" in await tools_of(manager, mcp_tools("ends"))
        await manager.reconnect("fault")
        await manager.reconnect("ends")
        assert len(ignores.read("server/discover")) == 1
        assert len(ends.pids) == 3


async def test_retries(fault: Make) -> None:
    """A start that fails is tried again, as often as the entry says; a command that is missing is not."""
    async with manage(fault("die_once"), max_retries=1) as manager:
        assert "echo" in await tools_of(manager)
    always = fault("die_start")
    async with manage(always, max_retries=2) as manager:
        with pytest.raises(MCPConnectError):
            await tools_of(manager)
    assert len(always.pids) == 3
    begun = time.monotonic()
    missing = MCPServerEntry(id="fault", transport={"type": "stdio", "command": "uvx", "env": {"PATH": "/none"}})
    async with manage(missing) as manager:
        with pytest.raises(MCPConnectError, match="uvx"):
            await tools_of(manager)
    assert time.monotonic() - begun < 1


async def test_a_server_without_tools(fault: Make) -> None:
    """A server that does not know how to list tools has none."""
    async with manage(fault("no_tools")) as manager:
        assert await tools_of(manager) == {}
        with pytest.raises(MCPError, match="has no tool 'echo'"):
            await tools_of(manager, mcp_tools("fault", only=["echo"]))


# What goes wrong during a call.


@pytest.mark.parametrize(
    ("mode", "error", "text"),
    [
        ("die_call", MCPServerDiedError, "exit code 3"),
        ("close_stdout", MCPServerDiedError, "closed its output"),
        ("flood", MCPServerDiedError, "too much that is no message"),
        ("hang_call", MCPTimeoutError, "'echo' timed out after 500 ms"),
        ("wrong_id", MCPTimeoutError, "timed out"),
        ("huge", MCPProtocolError, "too long"),
        ("huge_tail", MCPProtocolError, "too long"),
        ("bad_result", MCPProtocolError, "no valid JSON-RPC"),
        ("wants_input", MCPProtocolError, "asks for more input"),
    ],
)
async def test_call_faults(fault: Make, mode: str, error: type[MCPError], text: str) -> None:
    """A call that goes wrong is one typed error within its deadline, and the next call has a connection."""
    async with manage(fault(mode), tool_timeout_ms=500 if error is MCPTimeoutError else 5000) as manager:
        tools = await tools_of(manager)
        for _ in range(2):
            begun = time.monotonic()
            with pytest.raises(error, match=text):
                await call(tools["echo"])
            # A second call may have to wait until a stubborn process of the first has been cleared away.
            assert time.monotonic() - begun < 3


async def test_a_killed_server(fault: Make) -> None:
    """Killing the server fails the calls under way at once, and the next call connects again."""
    server = fault("ok")
    async with manage(server, tool_timeout_ms=60_000) as manager:
        tools = await tools_of(manager)
        calls = [asyncio.create_task(call(tools["slow"])) for _ in range(3)]
        await server.until(lambda: len(server.read("tools/call")) == 3)
        begun = time.monotonic()
        os.kill(server.pids[0], signal.SIGKILL)
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert time.monotonic() - begun < 1
        assert [type(result) for result in results] == [MCPServerDiedError] * 3
        assert isinstance(results[0], MCPServerDiedError)
        assert results[0].context["signal"] == "SIGKILL"
        assert await call(tools["echo"], "again") == said("again")
        assert len(server.pids) == 2
        # Sent once each: no call of the dead connection is repeated on the new one.
        assert len(server.read("tools/call")) == 4


async def test_secrets_in_the_last_words(fault: Make) -> None:
    """A secret value that a dying server writes is not in the error."""
    async with manage(fault("die_call"), env={"TOKEN": "s3cr3t-value"}) as manager:
        tools = await tools_of(manager)
        with pytest.raises(MCPServerDiedError, match="disk is on fire") as caught:
            await call(tools["echo"])
        assert "s3cr3t-value" not in str(caught.value) + repr(caught.value.context)


async def test_a_timeout_tells_the_server(fault: Make) -> None:
    """A call that times out, or whose caller is cancelled, is cancelled at the server; the connection stays."""
    server = fault("ok")
    async with manage(server, tool_timeout_ms=200) as manager:
        tools = await tools_of(manager)
        with pytest.raises(MCPTimeoutError):
            await call(tools["slow"])
        given_up = asyncio.create_task(call(tools["slow"]))
        await server.until(lambda: len(server.read("tools/call")) == 2)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert await call(tools["echo"]) == said("hi")
        asked = [message["id"] for message in server.read("tools/call")]
        cancelled = [message["params"]["requestId"] for message in server.read("notifications/cancelled")]
        assert cancelled == asked[:2]
        assert len(server.pids) == 1


async def test_a_server_that_stops_reading(fault: Make) -> None:
    """The deadline covers the write, and a server that does not read any more is replaced."""
    server = fault("no_read")
    async with manage(server, tool_timeout_ms=1000) as manager:
        tools = await tools_of(manager)
        begun = time.monotonic()
        with pytest.raises(MCPTimeoutError, match="timed out after 1000 ms"):
            await call(tools["echo"], "x" * 300_000)
        assert time.monotonic() - begun < 2
        assert await call(tools["echo"]) == said("hi")
        assert len(server.pids) == 2


async def test_no_list_behind_the_back(fault: Make) -> None:
    """A call asks for nothing but the call: the tool list is not read again."""
    server = fault("ok")
    async with manage(server) as manager:
        tools = await tools_of(manager)
        os.kill(server.pids[0], signal.SIGKILL)
        await server.until(lambda: manager.status()["fault"]["state"] != "ready")
        assert await call(tools["echo"]) == said("hi")
        assert len(server.read("tools/list")) == 1


# Who may use what.


async def test_access(fault: Make) -> None:
    """Access is checked when tools are resolved and again at each call, with the registry of that moment."""
    server = fault("ok")
    registry = InMemoryMCPServerRegistry(server.entry(allowed_agents=["clerk"]))
    async with MCPConnectionManager(registry) as manager:
        for agent in (None, "other", "CLERK"):
            with pytest.raises(MCPAccessDeniedError):
                await tools_of(manager, agent_id=agent)
        assert server.pids == []
        tools = await tools_of(manager, agent_id="clerk")
        assert await call(tools["echo"], agent_id="clerk") == said("hi")
        with pytest.raises(MCPAccessDeniedError, match="'other'"):
            await call(tools["echo"], agent_id="other")
        registry.register(server.entry(allowed_agents=[]))
        with pytest.raises(MCPAccessDeniedError):
            await call(tools["echo"], agent_id="clerk")
        await registry.delete_server("fault")
        with pytest.raises(MCPServerNotFoundError):
            await call(tools["echo"], agent_id="clerk")
        assert len(server.read("tools/call")) == 1


async def test_unknown_names(fault: Make) -> None:
    """An unknown server and an unknown tool are errors that name the nearest known one."""
    async with manage(fault("ok")) as manager:
        with pytest.raises(MCPServerNotFoundError, match="did you mean 'fault'"):
            await tools_of(manager, mcp_tools("fualt"))
        with pytest.raises(MCPError, match="did you mean 'echo'") as caught:
            await tools_of(manager, mcp_tools("fault", only=["ecko", "count"]))
        assert caught.value.context["tool"] == "ecko"
        problems = await manager.preflight([mcp_tools("fault", only=["ecko", "cuont"]), mcp_tools("none")])
        assert [problem.severity for problem in problems] == ["error"] * 3


async def test_only_and_optional(fault: Make) -> None:
    """``only`` gives just those tools in that order, an empty one none; an optional server may fail."""
    server, broken = fault("ok"), fault("die_start").entry(id="broken")
    async with manage(server.entry(), broken) as manager:
        assert await tools_of(manager, mcp_tools("fault", only=[])) == {}
        assert server.pids == []
        assert list(await tools_of(manager, mcp_tools("fault", only=["slow", "echo"]))) == ["slow", "echo"]
        sources = [mcp_tools("broken", optional=True), mcp_tools("fault", only=["echo"])]
        assert [tool.name for tool in await manager.resolve_tools(sources)] == ["echo"]
        assert [problem.severity for problem in await manager.preflight(sources)] == ["warning"]


# One connection for all.


async def test_sharing(fault: Make) -> None:
    """Resolves and calls from many tasks at once share one process and one list."""
    server = fault("slow_start")
    async with manage(server) as manager:
        many = await asyncio.gather(*(tools_of(manager) for _ in range(10)))
        results = await asyncio.gather(*(call(tools["echo"], str(i)) for i, tools in enumerate(many)))
        assert results == [said(str(i)) for i in range(10)]
        assert len(server.pids) == 1
        assert len(server.read("tools/list")) == 1


async def test_open_call_and_close_in_three_tasks(fault: Make) -> None:
    """A connection can be opened in one task, used in a second and closed in a third."""
    manager = manage(fault("ok"))
    tools = await asyncio.create_task(tools_of(manager))
    assert await asyncio.create_task(call(tools["echo"])) == said("hi")
    await asyncio.create_task(manager.close_all())
    assert manager.status() == {}


async def test_the_list_is_kept_for_its_time(fault: Make) -> None:
    """A list is asked for again when its time is up, on reconnect, and always where the time is 0."""
    server, clock = fault("ok"), HandClock()
    async with manage(server, clock=clock, cache_ttl_ms=1000) as manager:
        await tools_of(manager)
        await tools_of(manager)
        assert len(server.read("tools/list")) == 1
        clock.now = 1.0
        await tools_of(manager)
        assert len(server.read("tools/list")) == 2
        await manager.reconnect("fault")
        await tools_of(manager)
        assert (len(server.read("tools/list")), len(server.pids)) == (3, 2)
    never = fault("ok")
    async with manage(never, cache_ttl_ms=0) as manager:
        await tools_of(manager)
        await tools_of(manager)
        assert len(never.read("tools/list")) == 2


async def test_the_cap_on_calls(fault: Make) -> None:
    """No more calls than the cap are under way, and waiting for a place counts towards the deadline."""
    server = fault("ok")
    async with manage(server, max_concurrent_calls=1, tool_timeout_ms=400) as manager:
        tools = await tools_of(manager)
        begun = time.monotonic()
        results = await asyncio.gather(*(call(tools["slow"]) for _ in range(4)), return_exceptions=True)
        assert [type(result) for result in results] == [MCPTimeoutError] * 4
        assert time.monotonic() - begun < 1.2
        # Only the first was sent; it was given up before a place was free for another.
        assert len(server.read("tools/call")) == 1


async def test_a_changed_entry(fault: Make) -> None:
    """When the operator changes an entry, the next use connects by the new one, and the old process goes."""
    old, new = fault("ok"), fault("modern")
    registry = InMemoryMCPServerRegistry(old.entry())
    async with MCPConnectionManager(registry) as manager:
        tools = await tools_of(manager)
        registry.register(new.entry())
        assert await call(tools["echo"]) == said("hi")
        assert len(new.pids) == 1
        await old.until(lambda: not old.running())


async def test_status_and_ping(fault: Make) -> None:
    """The state of each connection can be read as plain data, and a server can be asked for a sign of life."""
    modern = fault("modern").entry(id="modern")
    async with manage(fault("ok").entry(), modern, fault("hang_call").entry(id="never")) as manager:
        assert manager.status() == {}
        assert 0 <= await manager.ping("fault") < 1
        assert 0 <= await manager.ping("modern") < 1
        status = manager.status()
        assert status["fault"]["state"] == "ready"
        assert status["fault"]["protocol"] == "2025-11-25"
        assert status["modern"]["protocol"] == "2026-07-28"
        assert isinstance(status["modern"]["pid"], int)
        with pytest.raises(MCPServerNotFoundError):
            await manager.ping("nobody")


async def test_closing_while_in_use(fault: Make) -> None:
    """Closing ends calls and connects that are under way with a typed error, and the manager can go on after it."""
    server, hanging = fault("ok"), fault("hang_start").entry(id="hanging")
    manager = manage(server.entry(), hanging)
    tools = await tools_of(manager)
    under_way = asyncio.create_task(call(tools["slow"]))
    connecting = asyncio.create_task(tools_of(manager, mcp_tools("hanging")))
    await server.until(lambda: len(server.read("tools/call")) == 1)
    await manager.close_all()
    with pytest.raises(MCPServerDiedError, match="was closed"):
        await under_way
    with pytest.raises(MCPConnectError, match="was closed"):
        await connecting
    assert await call(tools["echo"]) == said("hi")
    await asyncio.gather(manager.close_all(), manager.close_all())
    await manager.close_all()


def test_two_loops() -> None:
    """A manager whose loop ended can be used in the next one; in two loops at once it cannot.

    A loop that ends takes the processes with it.
    """
    server = Path(__file__).with_name("fault_server.py")
    transport = {"type": "stdio", "command": "python", "args": ["-S", str(server), "ok"]}
    manager = manage(MCPServerEntry(id="fault", transport=transport))

    pids: list[int] = []

    async def use() -> RemoteResult:
        result = await call((await tools_of(manager))["echo"])
        pids.append(manager.status()["fault"]["pid"])
        return result

    assert asyncio.run(use()) == said("hi")
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert asyncio.run(use()) == said("hi")
    loop = asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(use()) == said("hi")
        with pytest.raises(MCPError, match="another event loop"):
            asyncio.run(use())
        loop.run_until_complete(manager.close_all())
    finally:
        loop.close()


def test_numbers_are_checked() -> None:
    """Negative numbers are refused where the manager is made."""
    with pytest.raises(ValueError):
        MCPConnectionManager(InMemoryMCPServerRegistry(), cache_ttl_ms=-1)


@pytest.mark.parametrize(("mode", "noise"), [("noise_storm", 60_000), ("notice_storm", 0)])
async def test_masses_of_short_frames(fault: Make, mode: str, noise: int) -> None:
    """However much comes at once, it is taken in turns: nobody else in the loop waits for long."""
    async with manage(fault(mode), clock=FakeClock()) as manager:
        tools = await tools_of(manager)
        under_way = asyncio.create_task(call(tools["echo"]))
        worst = 0.0
        while not under_way.done():
            begun = time.thread_time()
            await asyncio.sleep(0)
            worst = max(worst, time.thread_time() - begun)
        assert await under_way == said("hi")
        assert worst < 0.5
        assert manager.status()["fault"]["noise"] == noise


# Servers that speak two protocols, each in part.


async def test_a_server_that_is_half_modern(fault: Make) -> None:
    """A server that answers the newer question, and then wants the older greeting, gets it; the call is sent again."""
    server = fault("half_modern")
    async with manage(server) as manager:
        tools = await tools_of(manager)
        texts = [str(number) for number in range(6)]
        assert await asyncio.gather(*(call(tools["echo"], text) for text in texts)) == [said(text) for text in texts]
        assert manager.status()["fault"]["protocol"] == "2025-11-25"
        assert (len(server.pids), len(server.read("initialize"))) == (2, 1)
        # What was found out is remembered.
        await manager.reconnect("fault")
        assert await call(tools["echo"]) == said("hi")
        assert (len(server.pids), len(server.read("server/discover"))) == (3, 1)


# Tools that keep failing.

QUICK = BreakerOptions(failures=2, cooldown_ms=10_000, successes=2)


async def test_a_tool_that_keeps_failing(fault: Make) -> None:
    """After failures in a row a tool is not called any more for a while; the server's other tools still are."""
    server, clock = fault("ok"), FakeClock()
    async with manage(server, clock=clock, breaker=QUICK, tool_timeout_ms=100) as manager:
        tools = await tools_of(manager)
        for _ in range(2):
            with pytest.raises(MCPTimeoutError):
                await call(tools["slow"])
        clock.advance(4)
        begun = time.monotonic()
        with pytest.raises(MCPCircuitOpenError, match=r"'slow'.*tried again in 6 s") as caught:
            await call(tools["slow"])
        assert time.monotonic() - begun < 0.1
        assert caught.value.context["retry_after"] == pytest.approx(6.0)
        assert "fault" in caught.value.model_text
        assert len(server.read("tools/call")) == 2
        assert await call(tools["echo"]) == said("hi")
        breakers = manager.status()["fault"]["breakers"]
        assert {name: (one["state"], one["refused"]) for name, one in breakers.items()} == {
            "slow": ("open", 1), "echo": ("closed", 0),
        }  # fmt: skip


async def test_one_call_finds_out(fault: Make) -> None:
    """After the time to cool down one call is let through, and no other before it has ended; giving it up is no end."""
    server, clock = fault("ok"), FakeClock()
    async with manage(server, clock=clock, breaker=QUICK, tool_timeout_ms=150) as manager:
        tools = await tools_of(manager)
        await asyncio.gather(*(call(tools["slow"]) for _ in range(2)), return_exceptions=True)
        clock.advance(10)
        probe = asyncio.create_task(call(tools["slow"]))
        await server.until(lambda: len(server.read("tools/call")) == 3)
        with pytest.raises(MCPCircuitOpenError, match="finding out"):
            await call(tools["slow"])
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        with pytest.raises(MCPTimeoutError):
            await call(tools["slow"])
        with pytest.raises(MCPCircuitOpenError, match="tried again in 10 s"):
            await call(tools["slow"])
        # Whoever restarts a server by hand wants to know now.
        await manager.reconnect("fault")
        with pytest.raises(MCPTimeoutError):
            await call(tools["slow"])


@pytest.mark.parametrize(("mode", "error"), [("die_call", MCPServerDiedError), ("bad_result", MCPProtocolError)])
async def test_what_counts_as_a_failure(fault: Make, mode: str, error: type[MCPError]) -> None:
    """A server that dies, or breaks the protocol, counts."""
    async with manage(fault(mode), breaker=QUICK) as manager:
        tools = await tools_of(manager)
        for expected in (error, error, MCPCircuitOpenError):
            with pytest.raises(expected):
                await call(tools["echo"])


@pytest.mark.parametrize("mode", ["is_error", "rpc_error"])
async def test_what_does_not_count_as_a_failure(fault: Make, mode: str) -> None:
    """What a server says about the arguments does not count, however often it says it."""
    async with manage(fault(mode), breaker=QUICK) as manager:
        tools = await tools_of(manager)
        for _ in range(4):
            assert (await call(tools["echo"])).is_error
        assert manager.status()["fault"]["breakers"]["echo"]["failures"] == 0


async def test_what_is_given_up_does_not_count(fault: Make) -> None:
    """Calls that are cancelled, closed by us, never sent, or not permitted say nothing about a tool."""
    server = fault("ok")
    registry = InMemoryMCPServerRegistry(server.entry(max_concurrent_calls=1, allowed_agents=["clerk"]))
    async with MCPConnectionManager(registry, breaker=QUICK) as manager:
        tools = await tools_of(manager, agent_id="clerk")
        for number in range(3):
            under_way = asyncio.create_task(call(tools["slow"], agent_id="clerk"))
            await server.until(lambda number=number: len(server.read("tools/call")) == number + 1)
            under_way.cancel()
            with pytest.raises(asyncio.CancelledError):
                await under_way
            with pytest.raises(MCPAccessDeniedError):
                await call(tools["slow"], agent_id="other")
        assert manager.status()["fault"]["breakers"]["slow"]["failures"] == 0
        for number in range(3):
            under_way = asyncio.create_task(call(tools["slow"], agent_id="clerk"))
            await server.until(lambda number=number: len(server.read("tools/call")) == number + 4)
            await manager.reconnect("fault")
            with pytest.raises(MCPServerDiedError, match="reconnected"):
                await under_way
        assert await call(tools["echo"], agent_id="clerk") == said("hi")
        assert "slow" not in manager.status()["fault"]["breakers"]
    async with manage(server, max_concurrent_calls=1, tool_timeout_ms=200, breaker=QUICK) as manager:
        tools = await tools_of(manager)
        results = await asyncio.gather(call(tools["slow"]), *(call(tools["echo"]) for _ in range(3)),
                                       return_exceptions=True)  # fmt: skip
        assert [getattr(result, "context", {}).get("queued") for result in results] == [None, True, True, True]
        status = manager.status()["fault"]
        assert {name: one["failures"] for name, one in status["breakers"].items()} == {"slow": 1, "echo": 0}
        assert status["calls"] == {"running": 0, "waiting": 0, "limit": 1}


async def test_no_breaker(fault: Make) -> None:
    """Without a breaker every call is made."""
    server = fault("bad_result")
    async with manage(server, breaker=None) as manager:
        tools = await tools_of(manager)
        for _ in range(7):
            with pytest.raises(MCPProtocolError):
                await call(tools["echo"])
        assert len(server.read("tools/call")) == 7
        assert manager.status()["fault"]["breakers"] == {}


# Lists that change.


@pytest.mark.parametrize("mode", ["changes", "changes_modern"])
async def test_a_changed_list(fault: Make, mode: str) -> None:
    """A server that says many times that its tools changed is asked once, a quarter of a second after the first."""
    server, clock = fault(mode), FakeClock()
    async with manage(server, clock=clock) as manager:
        tools = await tools_of(manager)
        if mode == "changes_modern":
            await server.until(lambda: server.read("subscriptions/listen"))
        assert await call(tools["count"], "50") == said("50")
        clock.advance(0.24)
        assert await call(tools["echo"]) == said("hi")
        assert len(server.read("tools/list")) == 1
        clock.advance(0.02)
        await server.until(lambda: len(server.read("tools/list")) == 2)
        assert "added_0" in await tools_of(manager)
        clock.advance(1)
        assert len(server.read("tools/list")) == 2


async def test_a_changed_list_is_not_served_from_the_past(fault: Make) -> None:
    """Whoever resolves right after the server said so gets the new list, and it is not asked for once more."""
    server, clock = fault("changes"), FakeClock()
    async with manage(server, clock=clock) as manager:
        tools = await tools_of(manager)
        await call(tools["count"], "1")
        assert "added_0" in await tools_of(manager)
        clock.advance(1)
        assert await call(tools["echo"]) == said("hi")
        assert len(server.read("tools/list")) == 2
        await call(tools["count"], "1")
        clock.advance(0.25)
        await manager.close_all()
        assert "added_0" not in await tools_of(manager)


async def test_a_call_under_way_while_the_list_changes(fault: Make) -> None:
    """The list is read beside what receives the answers, so a call that is under way at that moment completes."""
    server, clock = fault("answers_late"), FakeClock()
    async with manage(server, clock=clock) as manager:
        tools = await tools_of(manager)
        under_way = asyncio.create_task(call(tools["count"], "late"))
        await server.until(lambda: len(server.read("tools/call")) == 1)
        assert await call(tools["echo"]) == said("hi")
        clock.advance(0.25)
        await server.until(lambda: len(server.read("tools/list")) == 2)
        assert await under_way == said("late")


async def test_without_a_kept_list_nothing_is_asked(fault: Make) -> None:
    """Where lists are not kept, a change is no reason to ask; nor is one of a connection that is gone."""
    server, clock = fault("changes"), FakeClock()
    async with manage(server, clock=clock, cache_ttl_ms=0) as manager:
        tools = await tools_of(manager)
        await call(tools["count"], "1")
        clock.advance(1)
        assert await call(tools["echo"]) == said("hi")
        assert len(server.read("tools/list")) == 1
    gone = fault("changes")
    async with manage(gone, clock=clock) as manager:
        await call((await tools_of(manager))["count"], "1")
        os.kill(gone.pids[0], signal.SIGKILL)
        await gone.until(lambda: manager.status()["fault"]["state"] != "ready")
        clock.advance(1)
        assert manager.status()["fault"]["connections"] == 1


async def test_a_stream_of_changes_that_ends(fault: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of changes that ends is opened again, and what changed in between is asked for."""
    monkeypatch.setattr("handrail.mcp.session._LISTEN_AGAIN", 0.02)
    server, clock = fault("ends_listen_modern"), FakeClock()
    async with manage(server, clock=clock) as manager:
        await tools_of(manager)
        await server.until(lambda: len(server.read("subscriptions/listen")) == 2)
        assert "echo" in await tools_of(manager)
        await server.until(lambda: clock.advance(1) is None and len(server.read("tools/list")) >= 2)


async def test_a_server_that_has_no_stream_of_changes(fault: Make) -> None:
    """A server that says its list may change, and has no stream for it, is used without one."""
    server = fault("no_listen_modern")
    async with manage(server) as manager:
        tools = await tools_of(manager)
        await server.until(lambda: server.read("subscriptions/listen"))
        assert await call(tools["echo"]) == said("hi")
    assert len(server.read("subscriptions/listen")) == 1
