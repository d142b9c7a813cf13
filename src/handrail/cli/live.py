"""A run as it happens, and where its answer came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.status import Status
from rich.table import Table
from rich.text import Text

from handrail.cli.screen import Screen, one_line, short
from handrail.events import (
    Event,
    ModelResponded,
    PolicyDecided,
    RunFinished,
    StepStarted,
    ToolCallFinished,
    ToolCallStarted,
    ToolProgress,
)
from handrail.provenance import Label
from handrail.runs import RunResult

__all__ = ["Live", "calls_of", "origin", "provenance_lines", "seconds", "trust"]

ARROW, TICK, CROSS = "→", "✓", "✗"
_ASCII = {ARROW: "->", TICK: "ok", CROSS: "!!"}

MIN_ROOM = 24
"""Characters that a result gets on the narrowest terminal."""


class Live:
    """Shows a run on stderr as it happens: each call with its arguments, and each result with its duration.

    Give it to ``run(on_event=...)``, and use it in a ``with`` block, which takes the waiting sign away in the end.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._waiting: Status | None = None

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case StepStarted():
                self._wait()
            case ModelResponded() | RunFinished():
                self._stop()
                if isinstance(event, ModelResponded) and event.calls:
                    self._model(event)
            case ToolCallStarted():
                self._started(event)
            case ToolProgress():
                self._progress(event)
            case PolicyDecided(verdict="deny"):
                self._screen.note(f"    {one_line(event.rule)}: {one_line(event.reason)}", "dim")
            case ToolCallFinished():
                self._finished(event)
            case _:
                pass

    def _wait(self) -> None:
        self._stop()
        # On anything but a terminal it would show nothing.
        if self._screen.err.is_terminal:
            self._waiting = self._screen.err.status("waiting for the model")
            self._waiting.start()

    def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def _model(self, event: ModelResponded) -> None:
        calls = "1 call" if event.calls == 1 else f"{event.calls} calls"
        self._screen.note(f"    the model asks for {calls} ({seconds(event.duration)})", "dim")

    def _started(self, event: ToolCallStarted) -> None:
        arguments = one_line(_arguments(event.arguments))
        self._screen.note(Text.assemble(
            (f"  {self._sign(ARROW)} ", "cyan"), (one_line(event.tool), "bold"), (f"({arguments})", "")
        ))  # fmt: skip

    def _progress(self, event: ToolProgress) -> None:
        total = f" of {event.total:g}" if event.total is not None else ""
        self._screen.note(f"    {event.progress:g}{total} {short(event.message or '', 60)}", "dim")

    def _finished(self, event: ToolCallFinished) -> None:
        good = event.code is None
        head = Text.assemble(
            (f"  {self._sign(TICK if good else CROSS)} ", "green" if good else "red"),
            (short(event.tool, 64), "bold"),
            (f"  {seconds(event.duration)}  ", "dim"),
        )
        if not good:
            head.append(f"{event.code}: ", "red")
        # An error is worth more room than a result: it says what to do.
        room = max(self._screen.err.width - head.cell_len, MIN_ROOM) if good else 400
        head.append(short(event.wire, room))
        self._screen.note(head)

    def _sign(self, sign: str) -> str:
        return _ASCII[sign] if self._screen.plain_ascii else sign


def seconds(duration: float) -> str:
    """A duration for people."""
    return f"{duration * 1000:.0f} ms" if duration < 0.9995 else f"{duration:.1f} s"


def origin(label: Label) -> str:
    """Who runs the tool that a label speaks of."""
    if label.server is not None:
        return f'MCP server "{one_line(label.server)}"'
    return "Handrail" if label.source == "builtin" else "this program"


def trust(label: Label) -> Text:
    """Whether a label's text is tainted, in a word and a colour."""
    return Text("external, tainted", "yellow") if label.tainted else Text("own, not tainted", "green")


def calls_of(result: RunResult) -> list[Label]:
    """The labels of the calls that the answer came from."""
    return [entry.label for entry in result.explain() if entry.label.call_id is not None]


def provenance_lines(result: RunResult) -> Table:
    """Where the answer of a run came from, one line for each call."""
    labels = calls_of(result)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    if not labels:
        table.add_row(Text("no tool: the answer is the model's own", "dim"))
        return table
    for label in labels:
        table.add_row(Text("from", "dim"), Text(one_line(label.tool or "?"), "bold"), origin(label), trust(label))
    overall = "tainted: it holds text from outside" if result.tainted else "not tainted"
    style = "yellow" if result.tainted else "green"
    table.add_row(Text("=", "dim"), Text("the answer"), "", Text(overall, style))
    return table


def _arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={_value(value)}" for key, value in arguments.items())


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
