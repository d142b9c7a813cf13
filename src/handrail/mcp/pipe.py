"""The child process of a stdio server: its pipes, its last words, and an end that leaves nothing behind.

It knows nothing of the protocol. Frames come in through :meth:`StdioPipe.receive` and go out through
:meth:`StdioPipe.write`; what is in them is the session's business.

The child leads a process group of its own. Closing walks down a ladder: close its input, ask the group to
end, kill the group; and the group is swept even where its leader left by itself, because a child of the
leader may live on.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from handrail.errors import MCPConnectError
from handrail.mcp.frames import FRAME_CAP, Frame, FrameReader

__all__ = ["StdioPipe"]

_STDIN_GRACE = 2.0
_TERM_GRACE = 2.0
_KILL_GRACE = 1.5
_POLL = 0.02
# A grandchild may hold the output open after the server left, so that its end would never come.
_DRAIN_GRACE = 0.2
_HIGH_WATER = 2 * FRAME_CAP
_SLICE = 16 * 1024
# How long frames are handed out one after the other before others get a turn.
_LONGEST_TURN = 0.005
_STDERR_LINES = 40
_STDERR_WIDTH = 500

_live_groups: set[int] = set()


@dataclass(frozen=True, slots=True)
class _Own:
    """A frame of our own in line with what came; None for the end of what came."""

    frame: bytes | None


class StdioPipe:
    """A running child process and its pipes. Made by :meth:`open`; used in one event loop, by one reader.

    Attributes:
        pid: The id of the process, and of its group.
        exited: Set when the process has ended.
        forced: Whether it was a signal of ours that ended the process, so that its end tells nothing.
    """

    def __init__(self, *, frame_cap: int, redact: Sequence[str]) -> None:
        self.pid = 0
        self.exited = asyncio.Event()
        self.forced = False
        self._redact = tuple(sorted((word for word in redact if len(word) >= 4), key=len, reverse=True))
        self._reader = FrameReader(frame_cap)
        # What came and was not looked at yet; frames of our own stand between, behind what came before them.
        self._raw: deque[bytes | _Own] = deque()
        self._frames: deque[Frame] = deque()
        self._queued = 0
        self._turn = 0.0
        self._wake = asyncio.Event()
        self._ended = False
        self._discard = False
        self._paused = False
        self._stdin_lost = False
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._stderr_rest = b""
        self._writable = asyncio.Event()
        self._writable.set()
        self._blocked_since: float | None = None
        self._returncode: int | None = None
        self._closing: asyncio.Task[None] | None = None
        self._transport: asyncio.SubprocessTransport | None = None

    @classmethod
    async def open(
        cls,
        program: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        frame_cap: int = FRAME_CAP,
        redact: Sequence[str] = (),
    ) -> StdioPipe:
        """Start a program, without a shell, in a session and a process group of its own.

        Args:
            program: The program's absolute path.
            args: Its arguments.
            env: Its whole environment.
            cwd: The directory to start in.
            frame_cap: The longest frame to keep, in bytes.
            redact: Values to hide in what is kept of its error output.

        Raises:
            MCPConnectError: If the program cannot be started.
        """
        if os.name != "posix":
            raise MCPConnectError("servers that run as a child process need Linux or macOS")
        pipe = cls(frame_cap=frame_cap, redact=redact)
        if cwd is not None and not os.path.isdir(cwd):  # noqa: ASYNC240 (one stat, before a fork)
            raise MCPConnectError(f"the working directory {cwd!r} does not exist", hint="correct transport.cwd")
        try:
            transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: _Child(pipe), program, *args, env=dict(env), cwd=cwd, start_new_session=True
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise MCPConnectError(
                f"{Path(program).name!r} cannot be started: {reason}", hint=f"the program is {program}"
            ) from None
        pipe.attach(transport)
        return pipe

    def attach(self, transport: asyncio.SubprocessTransport) -> None:
        """Bind the running child. Called once, by :meth:`open`."""
        self._transport = transport
        self.pid = transport.get_pid()
        _live_groups.add(self.pid)

    # What the child says.

    async def receive(self) -> Frame:
        """Return the next frame.

        Raises:
            EOFError: When no more will come.
        """
        while not self._frames:
            if self._raw:
                await self._take_turns()
                self._split()
            elif self._ended:
                raise EOFError
            else:
                self._wake.clear()
                await self._wake.wait()
                self._turn = time.monotonic()
        await self._take_turns()
        frame = self._frames.popleft()
        self._queued -= len(frame) if isinstance(frame, bytes) else 0
        if self._paused and self._queued < _HIGH_WATER // 2:
            self._pause(False)
        return frame

    def feed(self, data: bytes) -> None:
        """Take bytes of the child's output, from wherever they come."""
        if self._discard or self._ended:
            return
        # They may hold very many frames, and here nobody else gets a turn: they are split when they are wanted.
        self._raw.extend(data[start : start + _SLICE] for start in range(0, len(data), _SLICE))
        self._queued += len(data)
        self._wake.set()
        if self._queued > _HIGH_WATER and not self._paused:
            self._pause(True)

    def inject(self, frame: bytes) -> None:
        """Put a frame of our own in line behind those that have come."""
        if not self._ended:
            self._raw.append(_Own(frame))
            self._wake.set()

    def stop_reading(self) -> None:
        """Let no more frames come; the reader sees the end after those that have come."""
        if not self._ended:
            if self._discard:
                self._raw.clear()
            else:
                self._raw.append(_Own(None))
            self._ended = True
            self._wake.set()

    async def _take_turns(self) -> None:
        """Let others run, where much has come and this would go on and on."""
        if time.monotonic() - self._turn > _LONGEST_TURN:
            await asyncio.sleep(0)
            self._turn = time.monotonic()

    def _split(self) -> None:
        """Look at the next piece of what came."""
        came = self._raw.popleft()
        if isinstance(came, bytes):
            self._queued -= len(came)
            self._frames.extend(self._reader.feed(came))
        elif came.frame is not None:
            self._frames.append(came.frame)
        else:
            self._frames.extend(self._reader.end())
        self._queued += sum(len(frame) for frame in self._frames if isinstance(frame, bytes))
        if self._paused and self._queued < _HIGH_WATER // 2:
            self._pause(False)

    def stderr_tail(self) -> str:
        """Return the last lines of the child's error output, with secret values hidden."""
        lines = [*self._stderr, self._stderr_rest.decode("utf-8", "replace")[:_STDERR_WIDTH]]
        text = "\n".join(line for line in lines if line.strip())
        for word in self._redact:
            text = text.replace(word, "***")
        return text

    # What we say.

    @property
    def blocked_for(self) -> float:
        """For how many seconds the child has not been reading what was written to it."""
        return 0.0 if self._blocked_since is None else time.monotonic() - self._blocked_since

    def write(self, frame: bytes) -> None:
        """Hand over one frame, without waiting until the child has read it.

        Raises:
            BrokenPipeError: If the child does not read any more, or has far too much to read already.
        """
        if self._stdin_lost or self._closing is not None or self._transport is None:
            raise BrokenPipeError
        stdin = self._transport.get_pipe_transport(0)
        if not isinstance(stdin, asyncio.WriteTransport):
            raise BrokenPipeError
        if stdin.get_write_buffer_size() > _HIGH_WATER:
            raise BrokenPipeError
        stdin.write(frame + b"\n")

    async def drain(self) -> None:
        """Wait until the child has read most of what was written.

        Raises:
            BrokenPipeError: If it does not read any more.
        """
        await self._writable.wait()
        if self._stdin_lost:
            raise BrokenPipeError

    # How the child ends.

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while it runs or where a signal ended it."""
        return self._returncode if self._returncode is not None and self._returncode >= 0 else None

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it, or None."""
        if self._returncode is None or self._returncode >= 0:
            return None
        try:
            return signal.Signals(-self._returncode).name
        except ValueError:
            return f"signal {-self._returncode}"

    async def wait_exited(self, seconds: float) -> bool:
        """Wait for the end of the process, no longer than the given time, and tell whether it came."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        return self.exited.is_set()

    async def close(self) -> None:
        """End the child and everything in its group, within six seconds.

        Safe to call again, and from any task. A cancelled caller still waits for the end, and is cancelled
        after it.
        """
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._descend(), name=f"close pid {self.pid}")
        cancelled: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):
            while not self._closing.done():
                try:
                    await asyncio.wait([self._closing])
                except asyncio.CancelledError as error:
                    cancelled = error
        if cancelled is not None:
            raise cancelled
        if not self._closing.cancelled():
            self._closing.result()

    async def _descend(self) -> None:
        self._discard = True
        self.stop_reading()
        if self._paused:
            # A child that is stuck writing would never see that its input has ended.
            self._pause(False)
        try:
            self._close_stdin()
            await self.wait_exited(_STDIN_GRACE)
            if self._signal(signal.SIGTERM):
                await self._wait_gone(_TERM_GRACE)
            if self._signal(signal.SIGKILL):
                await self._wait_gone(_KILL_GRACE)
        except BaseException:
            self._signal(signal.SIGKILL)
            raise
        finally:
            _live_groups.discard(self.pid)
            if self._transport is not None:
                self._transport.close()
        # One turn for the callbacks of the transport, so that it is really closed when the caller goes on.
        await asyncio.sleep(0)

    def _close_stdin(self) -> None:
        stdin = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if isinstance(stdin, asyncio.WriteTransport):
            # What the child has not read yet would keep its input open.
            stdin.abort() if self._blocked_since is not None else stdin.close()

    def _signal(self, number: signal.Signals) -> bool:
        """Send a signal to the group. False where nobody of the group is left."""
        if not _group_alive(self.pid):
            return False
        self.forced = self.forced or not self.exited.is_set()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        return True

    async def _wait_gone(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        # Nothing reports the end of a group, only that of its leader.
        while time.monotonic() < deadline and (  # noqa: ASYNC110
            not self.exited.is_set() or _group_alive(self.pid)
        ):
            await asyncio.sleep(_POLL)

    # What the loop reports, by way of _Child.

    def error_output(self, data: bytes) -> None:
        """Take bytes of the child's error output."""
        *lines, rest = (self._stderr_rest + data).split(b"\n")
        self._stderr.extend(line.decode("utf-8", "replace")[:_STDERR_WIDTH] for line in lines[-_STDERR_LINES:])
        self._stderr_rest = rest[:_STDERR_WIDTH]

    def stdin_lost(self) -> None:
        """Note that the child does not read any more. Answers that it gave before may still be under way."""
        self._stdin_lost = True
        self.writable(True)
        self._later(self.stop_reading)

    def writable(self, ready: bool) -> None:
        """Note whether the child reads what is written to it."""
        if ready:
            self._blocked_since = None
            self._writable.set()
        elif not self._stdin_lost:
            self._blocked_since = time.monotonic()
            self._writable.clear()

    def process_exited(self) -> None:
        """Note that the process has ended."""
        if self._transport is not None:
            self._returncode = self._transport.get_returncode()
        self.exited.set()
        self._later(self.stop_reading)

    def _pause(self, paused: bool) -> None:
        stdout = self._transport.get_pipe_transport(1) if self._transport is not None else None
        if isinstance(stdout, asyncio.ReadTransport) and not stdout.is_closing():
            self._paused = paused
            stdout.pause_reading() if paused else stdout.resume_reading()

    def _later(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(_DRAIN_GRACE, callback)


class _Child(asyncio.SubprocessProtocol):
    """Passes on what the event loop reports about the child."""

    def __init__(self, pipe: StdioPipe) -> None:
        self._pipe = pipe

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._pipe.feed(data) if fd == 1 else self._pipe.error_output(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            self._pipe.stdin_lost()
        elif fd == 1:
            self._pipe.stop_reading()

    def process_exited(self) -> None:
        self._pipe.process_exited()

    def pause_writing(self) -> None:
        self._pipe.writable(False)

    def resume_writing(self) -> None:
        self._pipe.writable(True)


def _group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _only_zombies(group)


def _only_zombies(group: int) -> bool:
    """Tell whether all that is left of a group has ended already.

    An orphan that ended stays in the table until its new parent collects it, which some containers never do.
    """
    found = False
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(pgrp) == group:
            found = True
            if state not in ("Z", "X"):
                return False
    return found


def _sweep() -> None:
    for group in tuple(_live_groups):
        with suppress(OSError):
            os.killpg(group, signal.SIGKILL)


atexit.register(_sweep)
