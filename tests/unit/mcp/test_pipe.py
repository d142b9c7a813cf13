"""A child process says what it has to say, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from handrail.errors import MCPConnectError
from handrail.mcp.entry import StdioTransport
from handrail.mcp.frames import Oversized
from handrail.mcp.pipe import StdioPipe

if TYPE_CHECKING:
    from .conftest import Fault

Make = Callable[[str], "Fault"]


async def start(fault: Fault, **options: Any) -> StdioPipe:
    transport = fault.entry().transport
    assert isinstance(transport, StdioTransport)
    env = {"PATH": os.environ["PATH"], "OWN": "1"}
    return await StdioPipe.open(sys.executable, transport.args, env=env, **options)


def ask(pipe: StdioPipe, method: str, **params: Any) -> None:
    pipe.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())


async def test_frames_both_ways(fault: Make) -> None:
    """What is written reaches the child, and what it answers comes back, one frame each."""
    server = fault("ok")
    pipe = await start(server)
    ask(pipe, "tools/call", name="echo", arguments={"text": "hello"})
    await pipe.drain()
    frame = await pipe.receive()
    assert isinstance(frame, bytes)
    assert json.loads(frame)["result"]["content"][0]["text"] == "hello"
    await pipe.close()
    assert (pipe.exit_code, pipe.signal) == (0, None)
    note = server.notes()[0]
    assert note["pid"] == pipe.pid
    assert note["env"]["OWN"] == "1"
    assert "HOME" not in note["env"]


async def test_the_order_of_frames() -> None:
    """A frame of our own comes behind those that came before it, and the rest of what came comes before the end."""
    pipe = StdioPipe(frame_cap=100, redact=())
    pipe.feed(b"one\ntw")
    pipe.inject(b"own")
    pipe.feed(b"o\n\n" + b"x" * 200 + b"\nlast")
    pipe.stop_reading()
    pipe.feed(b"too late\n")
    pipe.inject(b"too late")
    frames = [await pipe.receive() for _ in range(5)]
    assert frames == [b"one", b"own", b"two", Oversized(200, b"x" * 200, b"x" * 200), b"last"]
    for _ in range(2):
        with pytest.raises(EOFError):
            await pipe.receive()


async def test_the_end_is_seen(fault: Make) -> None:
    """When the child ends, the reader is told, and the exit code and its last words are known."""
    pipe = await start(fault("die_start"))
    with pytest.raises(EOFError):
        await pipe.receive()
    assert await pipe.wait_exited(2)
    assert pipe.exit_code == 7
    assert "flux capacitor" in pipe.stderr_tail()
    await pipe.close()
    with pytest.raises(BrokenPipeError):
        pipe.write(b"{}")


async def test_a_signal_is_named(fault: Make) -> None:
    """A child that a signal ended has no exit code, but a signal."""
    server = fault("ok")
    pipe = await start(server)
    os.kill(pipe.pid, signal.SIGKILL)
    with pytest.raises(EOFError):
        await pipe.receive()
    assert await pipe.wait_exited(2)
    assert (pipe.exit_code, pipe.signal) == (None, "SIGKILL")
    await pipe.close()


@pytest.mark.parametrize(
    ("mode", "at_least", "at_most"),
    [("ok", 0, 1), ("ignore_term", 0, 1), ("ignore_eof", 1.9, 3), ("ignore_eof_term", 3.9, 6)],
)
async def test_the_ladder(fault: Make, mode: str, at_least: float, at_most: float) -> None:
    """Closing ends a child that ignores the end of its input, or the request to end, within six seconds."""
    server = fault(mode)
    pipe = await start(server)
    ask(pipe, "ping")
    await pipe.receive()
    begun = time.monotonic()
    await pipe.close()
    assert at_least <= time.monotonic() - begun <= at_most
    assert pipe.exited.is_set()
    assert server.running() == []


@pytest.mark.parametrize("mode", ["fork", "fork_quiet"])
async def test_the_whole_group_is_swept(fault: Make, mode: str) -> None:
    """A child of the child is ended too, although its parent left first."""
    server = fault(mode)
    pipe = await start(server)
    await server.until(lambda: any("child" in note for note in server.notes()))
    assert len(server.running()) == 2
    await pipe.close()
    assert server.running() == []


async def test_a_grandchild_does_not_hide_the_end(fault: Make) -> None:
    """The reader is told of the end although a grandchild keeps the output open."""
    server = fault("fork")
    pipe = await start(server)
    await server.until(lambda: any("child" in note for note in server.notes()))
    os.kill(pipe.pid, signal.SIGKILL)
    async with asyncio.timeout(2):
        with pytest.raises(EOFError):
            await pipe.receive()
    await pipe.close()


async def test_a_cancelled_close_still_closes(fault: Make) -> None:
    """Who is cancelled while closing is cancelled after the child has gone, and nobody closes twice."""
    server = fault("ignore_eof")
    pipe = await start(server)
    ask(pipe, "ping")
    await pipe.receive()
    first = asyncio.create_task(pipe.close())
    second = asyncio.create_task(pipe.close())
    await asyncio.sleep(0)
    first.cancel()
    await second
    with pytest.raises(asyncio.CancelledError):
        await first
    assert server.running() == []


async def test_a_child_that_stops_reading(fault: Make) -> None:
    """A child that does not read holds up who waits for it, is known to, and can be closed all the same."""
    server = fault("no_read")
    pipe = await start(server)
    ask(pipe, "tools/list")
    await pipe.receive()
    ask(pipe, "tools/call", name="echo", arguments={"text": "x" * 1_000_000})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await pipe.drain()
    assert pipe.blocked_for >= 0.1
    await pipe.close()


async def test_long_frames_are_cut(fault: Make) -> None:
    """A frame beyond the cap costs no memory, and the connection goes on."""
    pipe = await start(fault("big"), frame_cap=100_000)
    ask(pipe, "tools/call", name="echo")
    frame = await pipe.receive()
    assert isinstance(frame, Oversized)
    assert frame.size > 2_000_000
    ask(pipe, "ping")
    assert isinstance(await pipe.receive(), bytes)
    await pipe.close()


async def test_a_slow_reader_slows_the_child(fault: Make) -> None:
    """A child that writes without end is not read on while its frames are not taken, and is read again later."""
    server = fault("flood_start")
    pipe = await start(server)
    await server.until(lambda: pipe._paused)
    held = pipe._queued
    assert 16 * 1024 * 1024 < held < 20 * 1024 * 1024
    while pipe._paused:
        await pipe.receive()
    await server.until(lambda: pipe._queued > held // 2)
    await pipe.close()


async def test_error_output_is_bounded_and_clean(fault: Make) -> None:
    """Of the error output the last 40 lines are kept, without the secret values that were given to the child."""
    pipe = await start(fault("chatty_stderr"))
    ask(pipe, "ping")
    await pipe.receive()
    await pipe.close()
    lines = pipe.stderr_tail().splitlines()
    assert lines[-1] == "line 19999"
    assert len(lines) == 40
    pipe = await start(fault("die_call"), redact=("s3cr3t-value", "", "a"))
    ask(pipe, "tools/call", name="echo")
    with pytest.raises(EOFError):
        await pipe.receive()
    await pipe.close()
    assert "the token is ***" in pipe.stderr_tail()


async def test_what_cannot_start(fault: Make) -> None:
    """A missing program, a missing directory and a file that is no program are told apart."""
    with pytest.raises(MCPConnectError, match="No such file"):
        await StdioPipe.open("/no/such/program", env={})
    with pytest.raises(MCPConnectError, match="directory '/no/such/place' does not exist"):
        await start(fault("ok"), cwd="/no/such/place")
    with pytest.raises(MCPConnectError, match="Permission denied"):
        await StdioPipe.open(__file__, env={})


async def test_a_loop_that_just_ends() -> None:
    """A child whose event loop ends without a close is ended with it."""
    code = (
        "import asyncio, sys\n"
        "from handrail.mcp.pipe import StdioPipe\n"
        "async def main():\n"
        "    pipe = await StdioPipe.open(sys.executable, ['-S', '-c', 'import time; time.sleep(60)'], env={})\n"
        "    print(pipe.pid, flush=True)\n"
        "loop = asyncio.new_event_loop()\n"
        "loop.run_until_complete(main())\n"
    )
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate()
    pid = int(out)
    assert child.returncode == 0
    deadline = time.monotonic() + 5
    while _runs(pid):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
