"""Time, from one place that a test can replace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic, time
from typing import Protocol


class Timer(Protocol):
    """A callback that is due."""

    def cancel(self) -> None:
        """Make sure that the callback does not run any more."""
        ...


class Clock(Protocol):
    """What the library asks of time."""

    def time(self) -> float:
        """The time of day, in seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Run a callback in the running event loop after ``delay`` seconds."""
        ...


class SystemClock:
    """The machine's own time."""

    time = staticmethod(time)
    monotonic = staticmethod(monotonic)

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Run a callback in the running event loop after ``delay`` seconds."""
        return asyncio.get_running_loop().call_later(delay, callback)


SYSTEM_CLOCK: Clock = SystemClock()
"""The clock that is used where none is given."""
