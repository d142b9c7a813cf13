"""Threads for synchronous tool bodies: bounded, with context variables, and never starved by one that hangs.

The standard executors join their threads at the end of the program and count a hanging one as busy for ever. Here a
thread whose caller gave up is written off: another takes its place, and it ends by itself when its work does.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

MAX_THREADS = 32
"""How many synchronous bodies run at once. Further ones wait for their turn."""

MAX_ABANDONED = 128
"""How many written-off threads may still be running before further synchronous calls are refused."""


class TooManyStuckError(RuntimeError):
    """So many abandoned bodies are still running that no further one is started."""


class Job:
    """One body on its way through the pool.

    Attributes:
        future: Resolves in the caller's event loop.
        started: Whether a thread has taken it.
        abandoned: Whether its caller gave up.
    """

    __slots__ = ("_call", "_context", "_loop", "abandoned", "finished", "future", "started")

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()
        self.started = False
        self.abandoned = False
        self.finished = False

    def run(self) -> None:
        """Run the body in this thread and hand its outcome to the caller's loop."""
        try:
            outcome, failure = self._context.run(self._call), None
        except BaseException as error:
            outcome, failure = None, error
        try:
            self._loop.call_soon_threadsafe(self._settle, outcome, failure)
        except RuntimeError:
            return  # the caller's loop is closed: nobody is waiting any more

    def _settle(self, outcome: Any, failure: BaseException | None) -> None:
        if self.future.done():
            return
        if failure is None:
            self.future.set_result(outcome)
        elif isinstance(failure, StopIteration | KeyboardInterrupt):
            # A future does not take the one, and the other would end the program from a thread that cannot be asked.
            self.future.set_exception(RuntimeError(f"the body raised {type(failure).__name__}"))
        else:
            self.future.set_exception(failure)


class ThreadPool:
    """Daemon threads that are started when needed and end when idle.

    Args:
        max_threads: How many bodies run at once.
        max_abandoned: How many written-off threads may still be running.
        idle_seconds: How long a thread waits for more work before it ends.
    """

    def __init__(
        self, max_threads: int = MAX_THREADS, max_abandoned: int = MAX_ABANDONED, idle_seconds: float = 10.0
    ) -> None:
        self.max_threads = max_threads
        self.max_abandoned = max_abandoned
        self._idle_seconds = idle_seconds
        self.forget()

    def forget(self) -> None:
        """Start anew without any thread, as a forked process has to: it has none of its parent's."""
        self._waiting: deque[Job] = deque()
        self._condition = threading.Condition()
        self._idle = 0
        self._threads = 0
        self._abandoned = 0

    @property
    def abandoned(self) -> int:
        """How many written-off bodies are still running."""
        return self._abandoned

    def submit(self, call: Callable[[], Any]) -> Job:
        """Start a body, or queue it when all threads are busy.

        Raises:
            TooManyStuckError: If too many abandoned bodies are still running.
        """
        job = Job(call)
        with self._condition:
            if self._abandoned >= self.max_abandoned:
                raise TooManyStuckError(f"{self._abandoned} synchronous tool bodies that timed out are still running")
            self._waiting.append(job)
            self._serve()
        return job

    def abandon(self, job: Job) -> bool:
        """Give up on a body. One that waits is dropped; one that runs is written off.

        Returns:
            Whether it is still running.
        """
        with self._condition:
            if not job.started:
                if job in self._waiting:
                    self._waiting.remove(job)
                return False
            if job.finished or job.abandoned:
                return not job.finished
            job.abandoned = True
            self._abandoned += 1
            self._threads -= 1
            self._serve()
            return True

    def _serve(self) -> None:
        """See that a thread comes for what waits. One that was woken already counts for one body only."""
        if len(self._waiting) <= self._idle:
            self._condition.notify()
        elif self._threads < self.max_threads:
            threading.Thread(target=self._work, name="handrail-tool", daemon=True).start()
            self._threads += 1

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            with self._condition:
                job.finished = True
                if job.abandoned:
                    self._abandoned -= 1
                    return

    def _next(self) -> Job | None:
        with self._condition:
            self._idle += 1
            has_work = self._condition.wait_for(lambda: bool(self._waiting), timeout=self._idle_seconds)
            self._idle -= 1
            if not has_work:
                self._threads -= 1
                return None
            job = self._waiting.popleft()
            job.started = True
            return job


POOL = ThreadPool()
"""The threads that all tools of this process share."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.forget)
