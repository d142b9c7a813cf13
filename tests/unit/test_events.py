"""Events: frozen values in order, without gaps, that survive JSON."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from handrail.events import (
    Event,
    ModelResponded,
    PolicyDecided,
    Recorder,
    RunFinished,
    RunStarted,
    StepStarted,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolProgress,
    event_from_json,
    event_to_json,
)
from handrail.provenance import Label
from handrail.testing import FakeClock

OUTSIDE = Label("mcp_tool", "untrusted", "pay", "srv")
DERIVED = Label("derived", derived_from=("a", "b"), bytes=0)
EVENTS: list[Event] = [
    RunStarted("r", 0, 1.5, "clerk", "local", ("a", "b")),
    RunStarted("r", 0, 1.5, "clerk", "local", ()),
    StepStarted("r", 1, 1.5, 1),
    TextDelta("r", 2, 1.5, "Grüße \U0001f680"),
    ModelResponded("r", 3, 1.5, 1, 2, "", 10, 0, 0.25),
    PolicyDecided("r", 4, 1.5, "c1", "pay", "ask", "large", "more than 100"),
    ToolCallStarted("r", 5, 1.5, "c1", "pay", None, {"n": 1, "deep": {"x": [None, True, 1.5]}}, "default", ("mended",)),
    ToolProgress("r", 6, 1.5, "c1", "pay", 0.5, None, None),
    ToolProgress("r", 6, 1.5, "c1", "pay", 0, 2, "half"),
    ToolCallFinished("r", 7, 1.5, "c1", "pay", "srv", None, "{}", None, 0.0, OUTSIDE),
    ToolCallFinished("r", 7, 1.5, "c1", "pay", None, "timeout", "late", "d", 1.0, DERIVED, True),
    RunFinished("r", 8, 1.5, "completed", "", None, 0, 0, None),
    RunFinished("r", 8, 1.5, "failed", None, "model: no", 1, 2, "0.0012"),
]  # fmt: skip


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_every_event_survives_json(event: Event) -> None:
    """What happened can be stored and read back as the same value."""
    text = json.dumps(event_to_json(event))
    assert event_from_json(json.loads(text)) == event


def test_every_kind_of_event_is_tried() -> None:
    """A kind of event that is added is added to the round trip above, and each has a type of its own."""
    kinds = get_args(Event)
    assert {type(event) for event in EVENTS} == set(kinds)
    assert len({kind.__dataclass_fields__["type"].default for kind in kinds}) == len(kinds)


@pytest.mark.parametrize(
    "data",
    [
        {}, {"type": "nothing"}, {"type": "step_started"},
        {"type": "step_started", "run_id": "r", "seq": "x", "at": 0, "step": 1},
        {"run_id": "r", "seq": 0, "at": 0, "step": 1},
        {"type": "run_finished", "run_id": "r", "seq": 0, "at": 0, "status": "fine", "output": None, "error": None,
         "input_tokens": 0, "output_tokens": 0, "cost_usd": None},
    ],
)  # fmt: skip
def test_stored_data_is_checked_when_it_is_read(data: dict[str, Any]) -> None:
    """What is not an event is refused, not half read."""
    with pytest.raises(ValidationError):
        event_from_json(data)


def test_an_event_cannot_be_changed() -> None:
    """What happened has happened."""
    with pytest.raises(FrozenInstanceError):
        EVENTS[2].seq = 5  # pyright: ignore[reportAttributeAccessIssue]


def test_events_are_numbered_without_gaps_in_the_order_recorded() -> None:
    """Each carries the run's id, its number from 0, and the time at which it happened, also when it is read later."""
    clock = FakeClock(10.0)
    recorder = Recorder("run_7", clock)
    recorder.record(StepStarted, 1)
    clock.advance(1)
    recorder.record(TextDelta, "a")
    recorder.record(TextDelta, "b", at=10.5)
    clock.advance(100)
    assert [(event.run_id, event.seq, event.at) for event in recorder.events] == [
        ("run_7", 0, 10.0),
        ("run_7", 1, 11.0),
        ("run_7", 2, 10.5),
    ]
    recorder.record(StepStarted, 2)
    assert [event.seq for event in recorder.events] == [0, 1, 2, 3]
    assert recorder.events[0] is recorder.events[0]


def test_a_listener_gets_each_event_as_it_happens() -> None:
    """Whoever listens gets the same values as whoever asks afterwards."""
    heard: list[Event] = []
    recorder = Recorder("r", FakeClock(), heard.append)
    recorder.record(StepStarted, 1)
    assert len(heard) == 1
    recorder.record(StepStarted, 2)
    assert heard == recorder.events


def test_a_listener_that_fails_is_logged_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """Watching a run cannot break it."""

    def listen(event: Event) -> None:
        raise ValueError("listener broke")

    recorder = Recorder("r", FakeClock(), listen)
    recorder.record(StepStarted, 1)
    recorder.record(StepStarted, 2)
    assert [event.seq for event in recorder.events] == [0, 1]
    assert caplog.text.count("ValueError: listener broke") == 2
