"""What a run leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal

from handrail.clock import SYSTEM_CLOCK
from handrail.events import Event, Recorder, event_to_json
from handrail.provenance import Entry, Ledger
from handrail.tools import ToolResult

Status = Literal["completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run cost.

    Attributes:
        requests: How often the model was asked.
        input_tokens: Tokens that it read, as the provider counts them.
        output_tokens: Tokens that it wrote.
        tool_calls: How many calls it asked for.
        cost_usd: The price in US dollars; None where the model has no known price.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tool_calls: int = 0
    cost_usd: Decimal | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """The outcome of a run.

    Attributes:
        run_id: The run's id.
        status: ``completed``, ``failed`` or ``cancelled``.
        output: The agent's answer.
        messages: The conversation, as pydantic-ai's messages.
        calls: The results of all tool calls, in the order in which they were asked for.
        usage: What it cost.
        provenance: Where everything came from; the answer stands under ``"output"``.
        recorder: What happened; see ``events``.
        memory: The memory after the run.
    """

    run_id: str
    status: Status
    output: str
    messages: tuple[Any, ...] = ()
    calls: tuple[ToolResult, ...] = ()
    usage: Usage = field(default_factory=Usage)
    provenance: Ledger = field(default_factory=Ledger)
    recorder: Recorder = field(default_factory=lambda: Recorder("", SYSTEM_CLOCK))
    memory: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def events(self) -> tuple[Event, ...]:
        """What happened, in order."""
        return tuple(self.recorder.events)

    @property
    def tainted(self) -> bool:
        """Whether the answer holds, or may hold, text from outside."""
        return self.provenance.tainted("output")

    def explain(self, key: str = "output") -> list[Entry]:
        """The chain from a key of the provenance to the calls that it came from."""
        return self.provenance.explain(key)

    def messages_json(self) -> str:
        """The conversation as JSON text, which ``run(history=...)`` takes back."""
        from handrail.models import messages_to_json

        return messages_to_json(self.messages)

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain JSON data, without the conversation."""
        cost = self.usage.cost_usd
        return {
            "run_id": self.run_id,
            "status": self.status,
            "output": self.output,
            "tainted": self.tainted,
            "calls": [call.as_dict() for call in self.calls],
            "usage": {
                "requests": self.usage.requests,
                "input_tokens": self.usage.input_tokens,
                "output_tokens": self.usage.output_tokens,
                "tool_calls": self.usage.tool_calls,
                "cost_usd": None if cost is None else str(cost),
            },
            "provenance": self.provenance.to_json(),
            "events": [event_to_json(event) for event in self.events],
            "memory": dict(self.memory),
        }

    def __repr__(self) -> str:
        text = self.output if len(self.output) <= 60 else self.output[:57] + "..."
        return f"RunResult({self.status}, {text!r}, {len(self.calls)} calls)"
