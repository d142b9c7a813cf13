"""Time comes from one place, which a test can replace."""

from __future__ import annotations

import asyncio

import pytest

from handrail.clock import SYSTEM_CLOCK
from handrail.testing import FakeClock


async def test_the_system_clock_runs_a_callback_and_forgets_a_cancelled_one() -> None:
    """What is due runs in the event loop, and what was cancelled does not."""
    ran: list[str] = []
    done = asyncio.Event()
    SYSTEM_CLOCK.call_later(0, lambda: ran.append("cancelled")).cancel()
    SYSTEM_CLOCK.call_later(0, lambda: (ran.append("due"), done.set()))
    await asyncio.wait_for(done.wait(), 5)
    assert ran == ["due"]


def test_the_system_clock_tells_the_time() -> None:
    """The time of day is that of the epoch, and the monotonic one never goes back."""
    assert SYSTEM_CLOCK.time() > 1_600_000_000
    assert SYSTEM_CLOCK.monotonic() <= SYSTEM_CLOCK.monotonic()


def test_a_fake_clock_stands_still_until_it_is_moved() -> None:
    """A test decides what time it is."""
    clock = FakeClock(100.0)
    assert (clock.time(), clock.monotonic()) == (100.0, 100.0)
    clock.advance(2.5)
    assert (clock.time(), clock.monotonic()) == (102.5, 102.5)


def test_a_fake_clock_runs_what_is_due_in_order() -> None:
    """Callbacks run in the order of their times, each at its own time, and those of one time in the order given."""
    clock = FakeClock(0.0)
    ran: list[tuple[str, float]] = []

    def note(name: str) -> None:
        ran.append((name, clock.time()))

    clock.call_later(3, lambda: note("late"))
    clock.call_later(1, lambda: note("first"))
    clock.call_later(1, lambda: note("second"))
    clock.call_later(9, lambda: note("never"))
    clock.advance(3)
    assert ran == [("first", 1.0), ("second", 1.0), ("late", 3.0)]
    assert clock.time() == 3.0


def test_a_fake_clock_runs_what_a_callback_asked_for() -> None:
    """A callback that sets the next timer is served in the same move."""
    clock = FakeClock(0.0)
    ran: list[float] = []

    def tick() -> None:
        ran.append(clock.time())
        clock.call_later(1, tick)

    clock.call_later(1, tick)
    clock.advance(3.5)
    assert ran == [1.0, 2.0, 3.0]


def test_a_cancelled_timer_of_a_fake_clock_does_not_run() -> None:
    """A deadline that was taken back is gone."""
    clock = FakeClock()
    ran: list[str] = []
    timer = clock.call_later(1, lambda: ran.append("ran"))
    timer.cancel()
    timer.cancel()
    clock.advance(5)
    assert ran == []


def test_a_failing_callback_is_not_hidden() -> None:
    """What goes wrong in a callback reaches the test that moved the clock."""
    clock = FakeClock()

    def fail() -> None:
        raise ValueError("no")

    clock.call_later(1, fail)
    with pytest.raises(ValueError, match="no"):
        clock.advance(1)
