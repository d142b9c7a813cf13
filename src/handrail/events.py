"""What happened in a run, as frozen values in the order in which it happened.

Every event carries the run's id, a sequence number that starts at 0 and has no gaps, and the time in seconds since the
epoch. Arguments that the schema marks as secret are never in an event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

from handrail.clock import Clock
from handrail.provenance import Label
from handrail.values import value

logger = logging.getLogger("handrail.events")


@value
class RunStarted:
    """A run began: preflight found nothing in its way."""

    run_id: str
    seq: int
    at: float
    agent: str
    model: str
    tools: tuple[str, ...]
    type: Literal["run_started"] = "run_started"


@value
class StepStarted:
    """The model is asked. ``step`` counts from 1."""

    run_id: str
    seq: int
    at: float
    step: int
    type: Literal["step_started"] = "step_started"


@value
class TextDelta:
    """A piece of the model's answer, while it streams."""

    run_id: str
    seq: int
    at: float
    text: str
    type: Literal["text_delta"] = "text_delta"


@value
class ModelResponded:
    """The model answered: with text, with ``calls`` tool calls, or with both. Durations are in seconds."""

    run_id: str
    seq: int
    at: float
    step: int
    calls: int
    text: str
    input_tokens: int
    output_tokens: int
    duration: float
    type: Literal["model_responded"] = "model_responded"


@value
class PolicyDecided:
    """A call was not simply allowed: it was denied, or a person was asked."""

    run_id: str
    seq: int
    at: float
    call_id: str
    tool: str
    verdict: Literal["allow", "ask", "deny"]
    rule: str
    reason: str
    type: Literal["policy_decided"] = "policy_decided"


@value
class ToolCallStarted:
    """A tool's body starts. ``rule`` is the rule of the policy that allowed it."""

    run_id: str
    seq: int
    at: float
    call_id: str
    tool: str
    server: str | None
    arguments: Mapping[str, Any]
    rule: str
    repairs: tuple[str, ...] = ()
    type: Literal["tool_call_started"] = "tool_call_started"


@value
class ToolProgress:
    """A tool said how far it is."""

    run_id: str
    seq: int
    at: float
    call_id: str
    tool: str
    progress: float
    total: float | None
    message: str | None
    type: Literal["tool_progress"] = "tool_progress"


@value
class ToolCallFinished:
    """A call has its one result.

    ``code`` is None for a success, else the word for what went wrong. ``wire`` is the text that the model reads;
    ``detail`` is what the developer should know beyond it. The duration is in seconds.
    """

    run_id: str
    seq: int
    at: float
    call_id: str
    tool: str
    server: str | None
    code: str | None
    wire: str
    detail: str | None
    duration: float
    label: Label
    truncated: bool = False
    type: Literal["tool_call_finished"] = "tool_call_finished"


@value
class RunFinished:
    """A run ended. ``status`` says how; ``error`` has the code and the text of what stopped it."""

    run_id: str
    seq: int
    at: float
    status: Literal["completed", "failed", "cancelled"]
    output: str | None
    error: str | None
    input_tokens: int
    output_tokens: int
    cost_usd: str | None
    type: Literal["run_finished"] = "run_finished"


Event: TypeAlias = (
    RunStarted
    | StepStarted
    | TextDelta
    | ModelResponded
    | PolicyDecided
    | ToolCallStarted
    | ToolProgress
    | ToolCallFinished
    | RunFinished
)
"""Any event of a run, told apart by ``type``."""


class Recorder:
    """The events of one run, numbered in the order in which they are recorded.

    Where nobody listens, an event is only made when it is asked for: a run that is not watched does not pay for it.

    Args:
        run_id: The id that every event carries.
        clock: Gives the time of each event.
        on_event: Is called with each event as it happens. One that raises is logged, and the run goes on.
    """

    __slots__ = ("_kept", "_made", "_on_event", "_run_id", "_time")

    def __init__(self, run_id: str, clock: Clock, on_event: Callable[[Event], None] | None = None) -> None:
        self._run_id = run_id
        self._time = clock.time
        self._on_event = on_event
        self._kept: list[tuple[Callable[..., Event], float, tuple[Any, ...]]] = []
        self._made: list[Event] = []

    def record(self, kind: Callable[..., Event], *fields: Any, at: float | None = None) -> None:
        """Record an event.

        Args:
            kind: Its class.
            fields: Its fields, after those that every event has.
            at: When it happened. Default: now.
        """
        self._kept.append((kind, self._time() if at is None else at, fields))
        if self._on_event is not None:
            try:
                self._on_event(self.events[-1])
            except Exception:
                logger.exception("on_event failed")

    @property
    def events(self) -> list[Event]:
        """All events so far, in order."""
        for number in range(len(self._made), len(self._kept)):
            kind, at, fields = self._kept[number]
            self._made.append(kind(self._run_id, number, at, *fields))
        return self._made


@lru_cache(maxsize=1)
def _adapter() -> Any:
    from pydantic import Field, TypeAdapter

    return TypeAdapter(Annotated[Event, Field(discriminator="type")])


def event_to_json(event: Event) -> dict[str, Any]:
    """Give an event as plain JSON data."""
    return _adapter().dump_python(event, mode="json")


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Read an event back.

    Raises:
        pydantic.ValidationError: If the data is not an event.
    """
    return _adapter().validate_python(dict(data))
