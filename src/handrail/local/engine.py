"""The embedded model as one engine: one process, one turn at a time, each turn under a deadline."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from anyio import CapacityLimiter, to_thread

from handrail.errors import LocalModelError
from handrail.local.files import ModelFiles, available, find_model_files
from handrail.local.process import WorkerProcess

__all__ = [
    "MAX_TEXT_CHARS",
    "MAX_TOOLS",
    "LocalEngine",
    "ModelFiles",
    "Turn",
    "available",
    "find_model_files",
    "shared_engine",
]

MAX_TOOLS = 8
"""How many tools the model can tell apart: with 7 it picks the right one in 25 of 30 cases, with 16 in 22."""

MAX_TEXT_CHARS = 2_000
"""The longest request that is passed on. From about 1,500 characters it starts to lose what was asked."""

TIMEOUT_SECONDS = 120.0
"""The default deadline, for getting ready and again for a turn. Both take far longer on a busy machine."""

MAX_TOKENS = 256
"""How much the model may generate in a turn. Two calls take about 60."""

WORKER = Path(__file__).with_name("worker.py")

Json = dict[str, Any]
Call = tuple[str, Json]


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model made of one request.

    Attributes:
        calls: The calls that it made, each a tool's name and arguments; none when no tool fits.
        suppressed: Calls that it thought of and held back.
        confidence: From 0 to 1. Right calls were measured from 0.10 up, wrong ones up to 0.83.
        reasoning: Its own note on why.
        negated: Whether it read the request as asking for something not to be done.
    """

    calls: tuple[Call, ...] = ()
    suppressed: tuple[Call, ...] = ()
    confidence: float = 0.0
    reasoning: str = ""
    negated: bool = False


class LocalEngine:
    """The embedded model in a process of its own. Safe to use from several threads and event loops.

    Turns wait for each other: the engine has one conversation and two spinning threads. The process starts
    with the first turn. After it died, missed a deadline or was closed, the next turn starts another.
    """

    def __init__(
        self,
        *,
        files: ModelFiles | None = None,
        worker: Path = WORKER,
        turn_timeout: float = TIMEOUT_SECONDS,
        load_timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Describe the engine. Nothing is started or read yet.

        Args:
            files: What to load; None for the files of the installed extra.
            worker: The program that the process runs.
            turn_timeout: Seconds that one turn may take once it is its turn.
            load_timeout: Seconds that starting the process, and again that reading the tools, may take.
        """
        self._files = files
        self._program = worker
        self._turn_timeout = turn_timeout
        self._load_timeout = load_timeout
        self._worker: WorkerProcess | None = None
        self._end_worker: weakref.finalize[..., Any] | None = None
        self._slot = _Slot()

    @property
    def pid(self) -> int | None:
        """The process that is running now, if any."""
        worker = self._worker
        return worker.process.pid if worker and worker.alive else None

    def complete(self, text: str, tools: str = "[]", *, system: str = "", timeout: float | None = None) -> Turn:
        """Let the model answer one request, with no memory of any before. Blocks.

        Args:
            text: The request, at most ``MAX_TEXT_CHARS`` characters.
            tools: The tools as a JSON array, as ``prompt.tools_json`` writes it. Reading new ones takes
                longer than a turn; the same as in the last turn cost nothing.
            system: The system line, which counts as part of the tools.
            timeout: Seconds for this turn; None for the engine's own.

        Raises:
            LocalModelError: If the extra is missing, a file is not the pinned one, or the process did not
                start, died, missed the deadline, or answered in a way that makes no sense.
        """
        return self._turn(_Ticket(), text, tools, system, timeout)

    async def acomplete(self, text: str, tools: str = "[]", *, system: str = "", timeout: float | None = None) -> Turn:
        """Do the same as ``complete`` without blocking the event loop.

        A cancelled turn that waits gives up its place; one that runs takes the process down with it, since
        the engine cannot be stopped in any other way.
        """
        ticket = _Ticket()
        blocking = partial(self._turn, ticket, text, tools, system, timeout)
        try:
            # A limiter of its own: turns that wait must not use up the threads that synchronous tools run in.
            return await to_thread.run_sync(blocking, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        finally:
            self._slot.abandon(ticket, self._kill)

    def close(self) -> None:
        """End the process, also in the middle of a turn, and wait until it is gone.

        The engine stays usable: the next turn starts another process.
        """
        self._kill()
        ticket = _Ticket()
        self._slot.enter(ticket)
        try:
            self._drop()
        finally:
            self._slot.leave()

    async def aclose(self) -> None:
        """Do the same as ``close`` without blocking the event loop."""
        await to_thread.run_sync(self.close)

    def _turn(self, ticket: _Ticket, text: str, tools: str, system: str, timeout: float | None) -> Turn:
        if len(text) > MAX_TEXT_CHARS:
            raise LocalModelError(
                f"the request has {len(text)} characters; the embedded model reads at most {MAX_TEXT_CHARS}",
                hint="shorten it, or use another model",
            )
        self._slot.enter(ticket)
        try:
            worker = self._ready(tools, system)
            worker.request({"op": "reset"}, self._load_timeout)
            message = {"op": "complete", "text": text, "max_tokens": MAX_TOKENS}
            answer = worker.request(message, self._turn_timeout if timeout is None else timeout)
            return _read_turn(answer.get("envelope"))
        finally:
            self._slot.leave()

    def _ready(self, tools: str, system: str) -> WorkerProcess:
        """The process, running, and with these tools read."""
        worker = self._worker
        if worker is None or not worker.alive:
            self._drop()
            worker = self._start()
        if worker.prefix != (tools, system):
            worker.prefix = None
            worker.request({"op": "init", "system": system, "tools": tools}, self._load_timeout)
            worker.prefix = (tools, system)
        return worker

    def _start(self) -> WorkerProcess:
        files = self._files or find_model_files()
        files.verify()
        if not sys.executable:
            raise LocalModelError("the embedded model needs a Python to run in; sys.executable is not set")
        # -I and -S: no environment, no user site, no site-packages. The program is self-contained.
        command = [sys.executable, "-I", "-S", str(self._program), str(files.library), str(files.weights)]
        self._worker = worker = WorkerProcess(command)
        # Also runs when the engine is garbage, and at the end of the program.
        self._end_worker = weakref.finalize(self, worker.end)
        self._slot.check()
        try:
            worker.request(None, self._load_timeout)
        except LocalModelError:
            # It said that it could not load, and may not have ended yet.
            self._drop()
            raise
        return worker

    def _kill(self) -> None:
        if worker := self._worker:
            worker.kill()

    def _drop(self) -> None:
        self._worker = None
        if self._end_worker:
            self._end_worker()


class _Ticket:
    """One turn's place in the queue."""

    def __init__(self) -> None:
        self.abandoned = False


class _Slot:
    """Lets one turn in at a time. A turn can be given up from outside, while it waits or is inside."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: _Ticket | None = None

    def enter(self, ticket: _Ticket) -> None:
        with self._changed:
            self._changed.wait_for(lambda: ticket.abandoned or self._inside is None)
            if ticket.abandoned:
                raise LocalModelError("the turn was given up while it waited")
            self._inside = ticket

    def check(self) -> None:
        """Stop a turn that was given up before there was a process to kill."""
        with self._changed:
            if self._inside and self._inside.abandoned:
                raise LocalModelError("the turn was given up while the model was loading")

    def leave(self) -> None:
        with self._changed:
            self._inside = None
            self._changed.notify_all()

    def abandon(self, ticket: _Ticket, kill: Callable[[], None]) -> None:
        """Give up a turn: nothing happens if it is over, and ``kill`` is called if it is inside."""
        with self._changed:
            ticket.abandoned = True
            if self._inside is ticket:
                kill()
            self._changed.notify_all()


_shared: LocalEngine | None = None
_sharing = threading.Lock()


def shared_engine() -> LocalEngine:
    """The one engine of this program, for every ``Agent("local")`` in it: two would slow each other down."""
    global _shared
    with _sharing:
        if _shared is None:
            _shared = LocalEngine()
        return _shared


def _read_turn(envelope: object) -> Turn:
    try:
        body = cast("Json", envelope)
        validation: Json = body.get("validation") or {}
        return Turn(
            calls=_read_calls(body["function_calls"]),
            suppressed=_read_calls(body["suppressed_calls"]),
            confidence=float(body["confidence"]),
            reasoning=body.get("reasoning") or "",
            negated=bool(validation.get("negation")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LocalModelError("the embedded model answered in a form that makes no sense") from error


def _read_calls(raw: Any) -> tuple[Call, ...]:
    return tuple((str(call["name"]), dict(call["arguments"])) for call in raw)
