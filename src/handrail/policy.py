"""Who decides whether a call may run: a policy, asked once for every call after its arguments were validated."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from handrail.provenance import Ledger
    from handrail.tools import Tool

Verdict: TypeAlias = Literal["allow", "ask", "deny"]

VERDICTS: Mapping[str, int] = {"allow": 0, "ask": 1, "deny": 2}
"""The verdicts, and how severe each is."""

_READING = frozenset(
    [
        "get",
        "list",
        "look",
        "lookup",
        "find",
        "search",
        "read",
        "fetch",
        "show",
        "view",
        "check",
        "count",
        "convert",
        "describe",
        "calculate",
        "compute",
        "query",
        "compare",
        "summarize",
        "summarise",
        "translate",
        "validate",
        "explain",
        "parse",
        "status",
        "what",
        "where",
        "which",
    ]
)
_JOINING = frozenset(["and", "or", "then"])
_WORD = re.compile(r"[a-z]+|[A-Z][a-z]*")


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy says of one call.

    Attributes:
        verdict: ``allow``, ``ask`` (a person has to approve it) or ``deny``.
        rule: The name of the rule that decided.
        reason: Why, and what would make it legal. The model reads it when the call is denied.
    """

    verdict: Verdict
    rule: str = "default"
    reason: str = ""


ALLOW = Decision("allow")
"""Nothing speaks against the call."""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call that is about to run.

    Attributes:
        tool: The tool.
        arguments: Its validated arguments, as plain JSON data.
        call_id: The id of the call.
        run_id: The id of the run; None outside of a run.
        agent_id: The id of the agent; None for a call by a person or a program.
        model: The name of the model that asked for the call; None for a call by a person or a program.
        ledger: The labels of everything that the run has seen so far.
    """

    tool: Tool
    arguments: Mapping[str, Any]
    call_id: str
    run_id: str | None
    agent_id: str | None
    model: str | None
    ledger: Ledger


class Policy(Protocol):
    """Decides on calls. One policy serves many runs at once, so it keeps no state of any of them."""

    async def decide(self, request: CallRequest) -> Decision:
        """Decide on one call. An exception raised here denies the call."""
        ...


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question to a person: may this call run?

    Attributes:
        tool: The tool's name as the model knows it.
        server: The MCP server that it belongs to.
        arguments: The exact arguments, as plain JSON data, without secrets.
        call_id: The id of the call that the answer is bound to.
        run_id: The id of the run.
        rule: The rule that asks.
        reason: Why it asks.
    """

    tool: str
    server: str | None
    arguments: Mapping[str, Any]
    call_id: str
    run_id: str | None
    rule: str
    reason: str


Approver: TypeAlias = Callable[[ApprovalRequest], "bool | Awaitable[bool]"]
"""Answers an approval request. Anything but exactly True refuses."""


class AllowAll:
    """The default policy: it allows every call, and the events record that it did."""

    async def decide(self, request: CallRequest) -> Decision:
        """Allow the call."""
        return ALLOW


def stricter(first: Decision, second: Decision) -> Decision:
    """The more severe of two decisions; the first where both are alike."""
    return second if VERDICTS[second.verdict] > VERDICTS[first.verdict] else first


def standing_rules(tool: Tool, model: str | None) -> Decision | None:
    """The rules that hold whatever the policy says; None where none of them fires.

    The embedded model picks the wrong tool too often to be trusted with changes: what it wants to call must be known
    to read only, or a person approves it.
    """
    if is_embedded(model) and not reads_only(tool):
        return Decision(
            "ask",
            "local-model-write",
            f"the embedded model asks for {tool.name!r}, which is not known to only read",
        )
    return None


def is_embedded(model: str | None) -> bool:
    """Whether a model is the embedded one, or a chain of models that may fall back to it."""
    if model is None or not model.startswith(("local", "fallback:")):
        return False
    return model == "local" or (model[0] == "f" and "local" in re.split("[:,]", model))


def reads_only(tool: Tool) -> bool:
    """Whether a tool is known to change nothing: it says so, or its name speaks of nothing but reading.

    The name has to start with a verb of reading, and so has what follows an ``and``, an ``or`` or a ``then`` in it:
    ``find_or_create`` does not only find. What an MCP server says of its own effects does not count.
    """
    if tool.effects is not None:
        return tool.effects <= {"read"}
    words = [word.lower() for word in _WORD.findall(tool.remote_name or tool.name)]
    verbs = words[:1] + [after for word, after in pairwise(words) if word in _JOINING]
    if words[:2] in (["check", "in"], ["check", "out"]):
        return False
    return bool(verbs) and all(verb in _READING for verb in verbs)
