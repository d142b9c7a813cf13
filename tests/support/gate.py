"""Calling through the gate in tests: one place that makes the scope, so that tests say only what matters to them."""

from __future__ import annotations

from typing import Any

from handrail import Call, ToolResult, Toolset
from handrail.calls import Scope, call_all
from handrail.events import Event, Recorder
from handrail.sources import ToolInput
from handrail.testing import FakeClock

Request = tuple[Any, ...]
"""A tool's name, its arguments, and its call's id; the last two may be left out."""


class Gate:
    """The gate with some tools, a clock that stands still, and everything that it reports.

    Args:
        tools: The tools.
        fields: Fields of the scope.
    """

    def __init__(self, *tools: ToolInput, **fields: Any) -> None:
        self.clock = FakeClock()
        self.recorder = Recorder("run_1", self.clock)
        self.toolset = Toolset.of(*tools)
        given: dict[str, Any] = {"clock": self.clock, "recorder": self.recorder, "run_id": "run_1", **fields}
        self.scope = Scope(**given)

    async def all(self, *requests: Request) -> list[ToolResult]:
        """Make the calls of one turn."""
        return await call_all(self.toolset.tools, [Call(*request) for request in requests], self.scope)

    async def one(self, name: Any, arguments: object = None, call_id: Any = None) -> ToolResult:
        """Make one call."""
        return (await self.all((name, arguments, call_id)))[0]

    @property
    def events(self) -> list[Event]:
        """What was reported."""
        return self.recorder.events

    def kinds(self, *, call_id: str | None = None) -> list[str]:
        """The types of what was reported, of one call or of all."""
        return [event.type for event in self.events if call_id is None or getattr(event, "call_id", None) == call_id]
