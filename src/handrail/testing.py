"""What tests and documentation need: a model that follows a script, and a clock that a test moves."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

__all__ = ["FakeClock", "ScriptExhaustedError", "ScriptedModel"]


class ScriptExhaustedError(AssertionError):
    """The model was asked more often than its script has turns."""


class ScriptedModel:
    """A model that gives the turns of a script, one after the other. It spends nothing and reaches no network.

    A turn is text, which ends the run; or a list of calls, each a ``(tool, arguments)`` pair, to which a third item
    may give the call's id. Text may stand in the list as well.

    A script that is a function is asked for each turn, with the number of the turn from 0. A list starts again from
    its first turn with every new conversation; so one model serves many runs at once.

    Attributes:
        name: What events call it.
        requests: The names of the tools that were offered at each request, in order.

    Example:
        >>> model = ScriptedModel([[("lookup_order", {"order_id": "order_1042"})], "It is packed."])
    """

    def __init__(
        self,
        script: Iterable[Any] | Callable[[int], Any] = ("Done.",),
        *,
        name: str = "scripted",
        record: bool = True,
    ) -> None:
        self.name = name
        self.requests: list[tuple[str, ...]] = []
        self._record = record
        self._turn = script if callable(script) else _listed(list(script))

    def answer(self, messages: Sequence[Any], tools: Sequence[str]) -> Any:
        """Give the next turn of a conversation.

        Raises:
            ScriptExhaustedError: If the script has no further turn.
        """
        if self._record:
            self.requests.append(tuple(tools))
        return self._turn(_turns_since_prompt(messages))


def _listed(turns: list[Any]) -> Callable[[int], Any]:
    def turn(number: int) -> Any:
        if number >= len(turns):
            raise ScriptExhaustedError(f"the script has {len(turns)} turns, and the model was asked once more")
        return turns[number]

    return turn


def _turns_since_prompt(messages: Sequence[Any]) -> int:
    turns = 0
    for message in reversed(messages):
        if message.kind == "response":
            turns += 1
        elif any(part.part_kind == "user-prompt" for part in message.parts):
            break
    return turns


class FakeTimer:
    """A callback of a ``FakeClock``."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Make sure that the callback does not run any more."""
        self.callback = None


class FakeClock:
    """A clock that stands still until a test moves it.

    Args:
        start: The first reading, in seconds since the epoch.
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._due: list[tuple[float, int, FakeTimer]] = []
        self._order = itertools.count()

    def time(self) -> float:
        """The time of day, in seconds since the epoch."""
        return self._now

    def monotonic(self) -> float:
        """The same reading."""
        return self._now

    def call_later(self, delay: float, callback: Callable[[], object]) -> FakeTimer:
        """Run a callback once the clock was moved past ``delay`` seconds from now."""
        timer = FakeTimer(callback)
        heapq.heappush(self._due, (self._now + delay, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Move the clock, and run what is due, in order."""
        end = self._now + seconds
        while self._due and self._due[0][0] <= end:
            at, _, timer = heapq.heappop(self._due)
            self._now = at
            if timer.callback is not None:
                timer.callback()
        self._now = end
