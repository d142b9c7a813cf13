"""The final answer of a model that writes no text: what its tools returned, in readable lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

MAX_RESULT_CHARS = 2_000
"""How much of one result is shown, in characters."""

_FAILURES = {
    "failed": "failed",
    "retried": "failed",
    "denied": "was not allowed",
    "interrupted": "was interrupted",
}

WHAT_IT_IS = "I am a tiny tool-calling model: I can pick tools, but not chat."


@dataclass(frozen=True, slots=True)
class Result:
    """What came back from one call.

    Attributes:
        tool: The tool's name.
        value: What it returned, or what it said about its failure: any JSON value.
        outcome: ``"success"``, ``"failed"``, ``"retried"``, ``"denied"`` or ``"interrupted"``.
        arguments: What it was called with.
    """

    tool: str
    value: Any
    outcome: str = "success"
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


def answer(results: Sequence[Result]) -> str:
    """Render the results of one turn: a lone one as it is, several with one line each."""
    if len(results) == 1 and results[0].outcome == "success":
        return _cut(_block(results[0].value))
    counts = Counter(result.tool for result in results)
    return "\n".join(_line(result, with_arguments=counts[result.tool] > 1) for result in results)


def no_call(tools: Sequence[str]) -> str:
    """Say that nothing was called, and what this model is."""
    if not tools:
        return f"I have no tools, so I can do nothing here. {WHAT_IT_IS}"
    return f"I found no tool for this. {WHAT_IT_IS} My tools: {', '.join(tools)}."


def _line(result: Result, *, with_arguments: bool) -> str:
    label = f"{result.tool}({_inline(result.arguments)})" if with_arguments and result.arguments else result.tool
    text = _cut(_inline(_parsed(result.value)))
    if result.outcome in _FAILURES and result.tool in text and label == result.tool:
        return text  # the gate's own texts name the tool
    if failure := _FAILURES.get(result.outcome):
        return f"{label} {failure}: {text}" if text else f"{label} {failure}."
    return f"{label}: {text}"


def _block(value: Any) -> str:
    """A value on lines of its own: one line for each entry of a mapping or a list."""
    value = _parsed(value)
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, Mapping) and value:
        return "\n".join(f"{key}: {_entry(item)}" for key, item in cast("Mapping[str, Any]", value).items())
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in cast("list[Any]", value)):
        return "\n".join(_inline(item) for item in cast("list[Any]", value))
    return _inline(value)


def _inline(value: Any) -> str:
    """A value on one line."""
    if value is None or value == "":
        return "nothing"
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value).items()
        return ", ".join(f"{key}: {_nested(item)}" for key, item in entries) or "nothing"
    if isinstance(value, list):
        return ", ".join(_nested(item) for item in cast("list[Any]", value)) or "nothing"
    return str(value)


def _entry(value: Any) -> str:
    return _nested(value) if isinstance(value, Mapping) else _inline(value)


def _nested(value: Any) -> str:
    """A value inside another, where commas would be ambiguous: anything with entries is compact JSON."""
    if isinstance(value, Mapping | list) and value:
        return json.dumps(value, ensure_ascii=False, default=str)
    return _inline(value)


def _parsed(value: Any) -> Any:
    """The value behind a JSON text, since tools often return one; any other text as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _cut(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARS:
        return text
    return f"{text[:MAX_RESULT_CHARS]}... ({len(text) - MAX_RESULT_CHARS} more characters)"
