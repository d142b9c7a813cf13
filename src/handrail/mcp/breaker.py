"""Stops calling a tool that keeps failing, and finds out with one call at a time whether it works again.

A breaker is *closed* while all is well. After a number of failures in a row it *opens*, and every call fails at
once. When it has cooled down it is *half open*: one call is let through as a probe, and no other until that one
has ended. Enough successful probes close it; one that fails opens it again.

Time is told to it, so it never waits, and knows nothing of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["DEFAULT_OPTIONS", "Breaker", "BreakerOptions", "BreakerState", "Permit"]

BreakerState = Literal["closed", "open", "half_open"]
"""What a breaker does with the next call."""


@dataclass(frozen=True, slots=True)
class BreakerOptions:
    """When a breaker opens and closes.

    Attributes:
        failures: How many calls in a row have to fail until it opens.
        cooldown_ms: For how long it lets no call through, in milliseconds.
        successes: How many probes in a row have to succeed until it closes.

    Raises:
        ValueError: If a number is too small.
    """

    failures: int = 5
    cooldown_ms: int = 30_000
    successes: int = 2

    def __post_init__(self) -> None:
        if self.failures < 1 or self.successes < 1 or self.cooldown_ms < 0:
            raise ValueError("failures and successes are at least 1, and the time to cool down is not negative")


DEFAULT_OPTIONS = BreakerOptions()
"""What a manager uses where it is told nothing else."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave for one call. Its outcome counts only for the period in which it was given.

    Attributes:
        period: How often the breaker had changed when it was given.
        probe: Whether the call is the one by which the breaker finds out.
    """

    period: int
    probe: bool


class Breaker:
    """The breaker of one tool.

    Every permit is handed back once: to :meth:`success`, :meth:`failure` or :meth:`release`.

    Args:
        options: When it opens and closes.
    """

    def __init__(self, options: BreakerOptions) -> None:
        self._options = options
        self._cooldown = options.cooldown_ms / 1000
        self._state: BreakerState = "closed"
        self._period = 0
        self._in_a_row = 0
        self._opened_at = 0.0
        self._probing = False
        self._opened = 0
        self._refused = 0
        self._failures = 0
        self._successes = 0

    def allow(self, now: float) -> Permit | None:
        """Return leave for a call, or None where it has to fail at once."""
        if self._state == "open" and self.retry_after(now) <= 0:
            self._enter("half_open")
        if self._state == "closed":
            return Permit(self._period, probe=False)
        if self._state == "half_open" and not self._probing:
            self._probing = True
            return Permit(self._period, probe=True)
        self._refused += 1
        return None

    def success(self, now: float, permit: Permit) -> None:
        """Take back a permit whose call was answered."""
        self._successes += 1
        if not self._counts(permit):
            return
        if self._state == "closed":
            self._in_a_row = 0
            return
        self._probing = False
        self._in_a_row += 1
        if self._in_a_row >= self._options.successes:
            self._enter("closed")

    def failure(self, now: float, permit: Permit) -> None:
        """Take back a permit whose call was not answered as it should be."""
        self._failures += 1
        if not self._counts(permit):
            return
        self._in_a_row += 1
        if self._state == "half_open" or self._in_a_row >= self._options.failures:
            self._enter("open")
            self._opened += 1
            self._opened_at = now

    def release(self, permit: Permit) -> None:
        """Take back a permit whose call says nothing about the tool."""
        if permit.probe and self._counts(permit):
            self._probing = False

    def retry_after(self, now: float) -> float:
        """Return the seconds until a call may be let through, as far as that depends on time alone."""
        if self._state != "open":
            return 0.0
        return max(self._cooldown - (now - self._opened_at), 0.0)

    def state(self, now: float) -> BreakerState:
        """Return what it does with the next call."""
        return "half_open" if self._state == "open" and self.retry_after(now) <= 0 else self._state

    def metrics(self, now: float) -> dict[str, Any]:
        """Return what it has seen so far, as plain JSON data."""
        return {
            "state": self.state(now),
            "failures": self._failures,
            "successes": self._successes,
            "opened": self._opened,
            "refused": self._refused,
            "retry_after": self.retry_after(now),
        }

    def _counts(self, permit: Permit) -> bool:
        # A call from before the last change tells nothing new: it was counted by what it has led to.
        return permit.period == self._period

    def _enter(self, state: BreakerState) -> None:
        self._state = state
        self._period += 1
        self._in_a_row = 0
        self._probing = False
