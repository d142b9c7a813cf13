"""One owner for the connection to one server: it connects, watches, reconnects and closes.

The SDK's client must be entered and left in one task, and when its transport breaks it cancels that task.
So the connection lives in a task of its own, and everybody else sends requests from theirs: a broken
connection reaches them as an error of their request, and their cancellation stays theirs.

A *life* is one connection, from the wish to have it until nothing of it is left. The next life begins at
the first request after the last one ended. A request is sent again, once, only where the server has refused
it before it ran anything.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from handrail.errors import MCPConnectError, MCPError, MCPTimeoutError
from handrail.mcp.entry import MCPServerEntry
from handrail.mcp.link import ConnectionEnded, Link, NotRun

if TYPE_CHECKING:
    from handrail.mcp.session import Session

__all__ = ["ServerHandle", "State"]

_log = logging.getLogger("handrail.mcp")
_silence = logging.NullHandler()

State = Literal["idle", "connecting", "ready", "failed", "closed"]
"""What a connection is doing."""

_FIRST_WAIT = 0.25
_LONGEST_WAIT = 10.0
# The request's own deadline comes first, because it tells the server; this one covers what that does not.
_OUTER_GRACE = 0.25
# A child that has not read for this long when a call is given up will not read the next call either.
_STUCK = 0.5
# How long a connection that is to be replaced is kept for the requests that are under way on it.
_DRAIN = 1.0
# A server that wants a request again much later than this is told no.
_LONGEST_PAUSE = 60.0

Answer = TypeVar("Answer")


class _Life:
    """One connection. ``ready`` gives the session, or why there is none."""

    def __init__(self, server: str, number: int) -> None:
        self.number = number
        self.link = Link(server)
        self.active = 0
        self.retired: str | None = None
        self.ready: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        # Nobody may be waiting, and that is no reason for a warning.
        self.ready.add_done_callback(lambda future: future.exception())
        self.task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """Whether the next request needs another life. Not between two attempts to connect."""
        if self.task is not None and self.task.done():
            return True
        return self.ready.done() and (
            self.ready.exception() is not None or self.link.over.is_set() or self.retired is not None
        )

    def retire(self, cause: str) -> None:
        """Take no more requests, and end when those that are under way have, or after a moment."""
        if self.retired is None:
            self.retired = cause
            if self.active:
                asyncio.get_running_loop().call_later(_DRAIN, self.link.end, cause)
            else:
                self.link.end(cause)

    def leave(self) -> None:
        """Note that a request has ended."""
        self.active -= 1
        if self.retired is not None and not self.active:
            self.link.end(self.retired)

    def fail(self, error: Exception) -> None:
        """Tell those who wait that no session will come."""
        if not self.ready.done():
            self.ready.set_exception(error)


class ServerHandle:
    """The connection to one server, shared by everybody who uses that server.

    It belongs to the event loop in which it is first used.

    Args:
        entry: The server.
        max_calls: How many calls may be under way at once; 0 for no limit.
        on_tools_changed: Called when the server says that its tools are others now. It must not wait.
    """

    def __init__(
        self,
        entry: MCPServerEntry,
        *,
        max_calls: int = 0,
        on_tools_changed: Callable[[ServerHandle], None] = lambda handle: None,
    ) -> None:
        self.entry = entry
        self._tools_changed = functools.partial(on_tools_changed, self)
        self._max_calls = max_calls
        self._slots = asyncio.Semaphore(max_calls) if max_calls else None
        self._running = 0
        self._waiting = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._life: _Life | None = None
        self._lives = 0
        self._mode = "auto"
        self._closed = False
        self._last_error: str | None = None

    async def call_tool(self, name: str, arguments: dict[str, Any], *, seconds: float | None) -> dict[str, Any]:
        """Call a tool, and return its result as the server sent it.

        Args:
            name: The server's own name for the tool.
            arguments: Plain JSON data.
            seconds: The deadline for everything: waiting for a slot, connecting, sending and the answer.
                None for no deadline.

        Raises:
            RemoteFailure: If the server answers with a JSON-RPC error.
            MCPTimeoutError: If the deadline passes. The server is told that the call is given up. Its context
                has ``queued`` where the call was never sent, because too many others were under way.
            MCPServerDiedError: If the connection ends first. The next call connects again.
            MCPConnectError: If there is no connection to be had.
            MCPError: For everything else that goes wrong.
        """
        what = f"the call of {name!r}"

        async def send(session: Session, left: float | None) -> dict[str, Any]:
            return await session.call_tool(name, arguments, left)

        facts: dict[str, Any] = {}
        async with self._deadline(seconds, what, facts):
            deadline = _after(seconds)
            facts["queued"] = True
            async with self._slot():
                # A place that is free too late was no place.
                _left(deadline)
                facts.clear()
                return await self._request(send, deadline)

    @asynccontextmanager
    async def _slot(self) -> AsyncGenerator[None]:
        """Wait for a place among the calls that may be under way."""
        if self._slots is not None:
            self._waiting += 1
            try:
                await self._slots.acquire()
            finally:
                self._waiting -= 1
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if self._slots is not None:
                self._slots.release()

    async def list_page(self, cursor: str | None, *, seconds: float) -> dict[str, Any]:
        """Ask for one page of the tool list; raises like :meth:`call_tool`."""

        async def send(session: Session, left: float | None) -> dict[str, Any]:
            return await session.list_page(cursor, left)

        async with self._deadline(seconds, "the list of tools"):
            return await self._request(send, _after(seconds))

    async def ping(self, *, seconds: float) -> None:
        """Have the server answer something; raises like :meth:`call_tool`."""

        async def send(session: Session, left: float | None) -> None:
            await session.ping(left)

        async with self._deadline(seconds, "a ping"):
            await self._request(send, _after(seconds))

    async def connect(self) -> int:
        """Make sure that there is a connection, and return its number.

        Raises:
            MCPConnectError: If there is none to be had.
        """
        life = self._living()
        await asyncio.shield(life.ready)
        return life.number

    async def reconnect(self) -> None:
        """End the connection, if there is one, and open a new one."""
        self._check()
        if self._life is not None and self._life.ready.done():
            self._life.link.end("was reconnected", deliberate=True)
        await self.connect()

    async def close(self) -> None:
        """End the connection for good. Returns when nothing of it is left; safe to call again, from any task."""
        self._closed = True
        life = self._life
        if life is None or life.task is None or life.task.done():
            return
        if life.ready.done():
            life.link.end("was closed", deliberate=True)
        else:
            life.fail(self._closed_error())
            life.task.cancel()
        await asyncio.wait([life.task])

    @property
    def state(self) -> State:
        """What the connection is doing."""
        life = self._life
        if self._closed:
            return "closed"
        if life is None:
            return "idle"
        if life.over:
            return "failed" if self._last_error else "idle"
        return "ready" if life.ready.done() else "connecting"

    def status(self) -> dict[str, Any]:
        """Return what an operator may want to know, as plain JSON data."""
        life = self._life
        alive = life is not None and not life.over
        session = life.ready.result() if life is not None and alive and life.ready.done() else None
        return {
            "state": self.state,
            "connections": self._lives,
            "pid": life.link.pipe.pid if life is not None and alive and life.link.pipe is not None else None,
            "protocol": session.protocol_version if session is not None else None,
            "noise": life.link.noise if life is not None else 0,
            "calls": {"running": self._running, "waiting": self._waiting, "limit": self._max_calls},
            "last_error": self._last_error,
        }

    # A request, in the task of the one who asks.

    async def _request(
        self, send: Callable[[Session, float | None], Awaitable[Answer]], deadline: float | None
    ) -> Answer:
        for last in (False, True):
            life = self._living()
            session = await asyncio.shield(life.ready)
            life.active += 1
            try:
                return await send(session, _left(deadline))
            except NotRun as error:
                refused = error
            except ConnectionEnded:
                break
            except (MCPTimeoutError, asyncio.CancelledError):
                if life.link.pipe is not None and life.link.pipe.blocked_for >= _STUCK:
                    life.link.end("stopped reading")
                raise
            finally:
                life.leave()
            if not self._may_resend(life, refused, deadline) or last:
                raise refused.error
            await asyncio.sleep(refused.wait)
        life.link.over.set()
        error = await life.link.died()
        self._last_error = error.message
        raise error

    def _may_resend(self, life: _Life, refused: NotRun, deadline: float | None) -> bool:
        """Prepare for sending a request again. False where the server wants it too late."""
        if refused.legacy:
            self._mode = "legacy"
        if refused.renew is not None:
            life.retire(refused.renew)
        left = _LONGEST_PAUSE if deadline is None else deadline - asyncio.get_running_loop().time()
        return refused.wait < left

    @asynccontextmanager
    async def _deadline(
        self, seconds: float | None, what: str, facts: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[None]:
        late = False
        outer = asyncio.timeout(None if seconds is None else seconds + _OUTER_GRACE)
        try:
            async with outer:
                yield
        except MCPTimeoutError:
            late = True
        except TimeoutError:
            if not outer.expired():
                raise
            late = True
        if late:
            raise MCPTimeoutError(
                f"server {self.entry.id!r}: {what} timed out after {round((seconds or 0) * 1000)} ms",
                hint=self._life.link.last_output if self._life is not None else None,
                server=self.entry.id,
                timeout=seconds,
                **(facts or {}),
            )

    def _living(self) -> _Life:
        """Return the connection that lives or is being made, or begin the next one."""
        self._check()
        last = self._life
        if last is not None and not last.over:
            return last
        self._lives += 1
        life = self._life = _Life(self.entry.id, self._lives)
        before = last.task if last is not None else None
        life.task = asyncio.get_running_loop().create_task(
            self._live(life, before), name=f"handrail mcp server {self.entry.id}"
        )
        return life

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise MCPError(
                f"the connection to server {self.entry.id!r} belongs to another event loop",
                hint="use one manager for each event loop, or close it in the loop that opened it",
                server=self.entry.id,
            )
        if self._closed:
            raise self._closed_error()

    def _closed_error(self) -> MCPError:
        return MCPConnectError(
            f"the connection to server {self.entry.id!r} was closed", server=self.entry.id, deliberate=True
        )

    # The connection, in the owner's task.

    async def _live(self, life: _Life, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            # Two processes of one server at once could fight over what they both hold.
            await asyncio.wait([before])
        try:
            async with AsyncExitStack() as stack:
                session = await self._connect(life, stack)
                if not life.ready.done():
                    life.ready.set_result(session)
                    self._last_error = None
                    await life.link.over.wait()
        except MCPError as error:
            self._last_error = error.message
            life.fail(error)
        except Exception:
            _log.exception("the connection to server %s ended with an unexpected error", self.entry.id)
            life.fail(MCPConnectError(f"server {self.entry.id!r} could not be used", server=self.entry.id))
        finally:
            life.link.over.set()
            life.fail(self._closed_error())

    async def _connect(self, life: _Life, stack: AsyncExitStack) -> Session:
        """Open the session, and try again after a failure that may pass, all within the connection's deadline."""
        import stamina

        # Without a handler, the bare name of its event would appear on the terminal of who set up no logging.
        logging.getLogger("stamina").addHandler(_silence)
        seconds = self.entry.timeout_ms / 1000
        # Those who wait learn of the deadline at once, and not after what hangs has been cleaned up.
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        timer = loop.call_at(deadline, self._too_late, life)
        try:
            async with asyncio.timeout_at(deadline):
                attempts = stamina.retry_context(
                    on=functools.partial(_may_pass, deadline=deadline),
                    attempts=self.entry.max_retries + 1,
                    timeout=None,
                    wait_initial=_FIRST_WAIT,
                    wait_max=_LONGEST_WAIT,
                    wait_jitter=_FIRST_WAIT,
                )
                async for attempt in attempts:
                    with attempt:
                        return await self._try(life, stack)
        except TimeoutError:
            pass
        finally:
            timer.cancel()
        raise self._too_late(life)

    async def _try(self, life: _Life, stack: AsyncExitStack) -> Session:
        # The SDK takes a second to load, in which the loop has other things to do.
        module = await asyncio.to_thread(importlib.import_module, "handrail.mcp.session")
        open_session: Callable[..., AbstractAsyncContextManager[Session]] = module.open_session
        link = life.link = Link(self.entry.id, self._tools_changed)
        try:
            session = await stack.enter_async_context(open_session(self.entry, link, mode=self._mode))
        except MCPError:
            if link.pipe is not None and link.pipe.exited.is_set() and not link.heard:
                # Some servers end at a question that they do not know; the older greeting asks nothing.
                self._mode = "legacy" if self._mode == "auto" else "auto"
            raise
        self._mode = "legacy" if session.legacy else "auto"
        return session

    def _too_late(self, life: _Life) -> MCPConnectError:
        error = MCPConnectError(
            f"server {self.entry.id!r} was not ready within {self.entry.timeout_ms} ms",
            hint=life.link.last_output or "a slow starter needs a larger timeout_ms",
            transient=True,
            **life.link.facts,
        )
        self._last_error = error.message
        life.fail(error)
        return error


def _may_pass(error: Exception, deadline: float) -> bool | float:
    """Tell whether to try again, or after how many seconds, where the server has said so."""
    if not isinstance(error, MCPError) or error.context.get("transient") is not True:
        return False
    wait = error.context.get("retry_after")
    if not isinstance(wait, float):
        return True
    return wait if wait < deadline - asyncio.get_running_loop().time() else False


def _after(seconds: float | None) -> float | None:
    return None if seconds is None else asyncio.get_running_loop().time() + seconds


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - asyncio.get_running_loop().time()
    if left <= 0:
        # What nobody waits for any more is not sent.
        raise MCPTimeoutError("too late")
    return left
