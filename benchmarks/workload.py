"""What every contender is given: the same tool, the same scripted turns, and the tally that proves the work.

This module is imported by the child whose start is measured (S5), so it keeps to the standard library.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

ANSWER = "All orders are accounted for."
PROMPT = "Where are my orders?"
INSTRUCTIONS = "Answer questions about orders."

ToolFunction = Callable[..., Awaitable[Any]]


@dataclass(slots=True)
class Tally:
    """What really happened, counted where it happens: in the tool's body and in the model.

    While `pausing`, the tool's body gives way once, so that `peak` tells how many calls were under way
    together. Timed batches do not pause: a turn of the event loop would hide much of what is compared.
    """

    pausing: bool = False
    calls: int = 0
    quantity: int = 0
    turns: int = 0
    in_flight: int = 0
    peak: int = 0

    def reset(self, *, pausing: bool = False) -> None:
        """Start counting from nothing."""
        self.pausing = pausing
        self.calls = self.quantity = self.turns = self.in_flight = self.peak = 0


TALLY = Tally()


async def lookup_order(order_id: str, quantity: int) -> dict[str, str | int]:
    """Look up the fulfilment status of one order.

    Args:
        order_id: Order ID in the form order_1042.
        quantity: How many pieces were ordered.
    """
    TALLY.calls += 1
    TALLY.quantity += quantity
    TALLY.in_flight += 1
    TALLY.peak = max(TALLY.peak, TALLY.in_flight)
    if TALLY.pausing:
        await asyncio.sleep(0)
    TALLY.in_flight -= 1
    return {"order_id": order_id, "quantity": quantity, "status": "shipped"}


class Call(NamedTuple):
    """One tool call that the scripted model asks for."""

    id: str
    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Script:
    """The turns of an in-process model that answers at once: so many tool turns, then the answer."""

    tool_turns: tuple[tuple[Call, ...], ...]

    @classmethod
    def of(cls, tool_turns: int, calls_per_turn: int = 1) -> Script:
        """Build `tool_turns` turns of `calls_per_turn` calls, every call with arguments of its own."""
        return cls(tuple(tuple(_call(t, c) for c in range(calls_per_turn)) for t in range(tool_turns)))

    def turn(self, index: int) -> tuple[Call, ...]:
        """Count a turn and give its calls; an empty tuple means: answer with `ANSWER`."""
        TALLY.turns += 1
        return self.tool_turns[index] if index < len(self.tool_turns) else ()

    @property
    def turns(self) -> int:
        """Model turns of one run, the answer included."""
        return len(self.tool_turns) + 1

    @property
    def calls(self) -> int:
        """Tool calls of one run."""
        return sum(len(turn) for turn in self.tool_turns)

    @property
    def quantity(self) -> int:
        """The sum that the tool's body must arrive at in one run."""
        return sum(call.args["quantity"] for turn in self.tool_turns for call in turn)


def _call(turn: int, index: int) -> Call:
    args = {"order_id": f"order_{1000 + turn}{index:03d}", "quantity": 1 + (turn + index) % 9}
    return Call(f"call_{turn}_{index}", "lookup_order", args)
