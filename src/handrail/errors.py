"""Every error that Handrail raises, grouped by who has to act.

    HandrailError
    ├── DefinitionError                 the author: what was written cannot work
    │   ├── ToolDefinitionError             a tool's name, signature, docstring or option
    │   ├── ToolSourceError                 an entry of a ``tools=[...]`` list
    │   ├── AgentDefinitionError            an agent's field
    │   └── MCPEntryError                   a server entry that the registry refuses
    ├── PreflightError                  the operator: something is missing, and no token was spent
    │   ├── ToolNotRegisteredError          a name without an implementation
    │   ├── ModelUnavailableError           an unknown model, a missing key or a missing extra
    │   └── TargetError                     a command-line target that cannot be loaded
    ├── RunError                        the caller of a run
    │   ├── ModelError                      the model's provider failed
    │   ├── StepLimitError                  ``max_steps`` was reached without an answer
    │   ├── RepeatedFailureError            a call kept failing in the same way
    │   ├── RunningLoopError                ``run_sync`` inside a running event loop
    │   ├── LocalModelError                 the embedded model's worker failed
    │   └── ToolCallError                   one call, raised when ``raise_on_error=True``
    │       ├── ToolNotFoundError
    │       ├── ToolInputError
    │       ├── ToolTimeoutError
    │       ├── ToolResultError
    │       ├── ToolDeniedError
    │       └── ToolExecutionError
    ├── MCPError                        a server, or the way to it
    │   ├── MCPServerNotFoundError          no entry under that id
    │   ├── MCPAccessDeniedError            the agent is not among ``allowed_agents``
    │   ├── MCPConnectError                 the server did not start, or could not be reached
    │   ├── MCPServerDiedError              the connection ended while in use
    │   ├── MCPTimeoutError                 no answer within the deadline
    │   ├── MCPProtocolError                an answer that the protocol does not allow
    │   └── MCPCircuitOpenError             the tool kept failing, and is not called for a while
    ├── StoreError                      the database, or what was found in it
    └── ToolError                       not a failure of Handrail: what a tool's author says to the model

Each error carries ``code`` (a word that logs and programs can match on), ``hint`` (what to do about it) and the
``context`` in which it happened. ``str(error)`` is for developers; what a model may read is in ``model_text``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "AgentDefinitionError",
    "DefinitionError",
    "HandrailError",
    "LocalModelError",
    "MCPAccessDeniedError",
    "MCPCircuitOpenError",
    "MCPConnectError",
    "MCPEntryError",
    "MCPError",
    "MCPProtocolError",
    "MCPServerDiedError",
    "MCPServerNotFoundError",
    "MCPTimeoutError",
    "ModelError",
    "ModelUnavailableError",
    "PreflightError",
    "Problem",
    "RepeatedFailureError",
    "RunError",
    "RunningLoopError",
    "StepLimitError",
    "StoreError",
    "TargetError",
    "ToolCallError",
    "ToolDefinitionError",
    "ToolDeniedError",
    "ToolError",
    "ToolExecutionError",
    "ToolInputError",
    "ToolNotFoundError",
    "ToolNotRegisteredError",
    "ToolResultError",
    "ToolSourceError",
    "ToolTimeoutError",
]


class HandrailError(Exception):
    """Base of all errors of this library.

    Attributes:
        code: A stable word for this kind of error.
        hint: What to do about it; None where the message already says so.
        context: Facts about the occasion, such as ``tool``, ``server`` or ``call_id``.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str | None = None, **context: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context: Mapping[str, object] = context

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    @property
    def model_text(self) -> str:
        """What a model may read: short, and without paths, secrets or stack traces."""
        return self.code.replace("_", " ")


class DefinitionError(HandrailError):
    """Something was defined in a way that cannot work. Raised where it is defined."""

    code = "definition"


class ToolDefinitionError(DefinitionError):
    """A tool's name, signature, docstring or option cannot work."""

    code = "tool_definition"


class ToolSourceError(DefinitionError):
    """An entry of a ``tools=[...]`` list has none of the accepted forms."""

    code = "tool_source"


class AgentDefinitionError(DefinitionError):
    """A field of an agent has a value that cannot work."""

    code = "agent_definition"


class MCPEntryError(DefinitionError):
    """A server entry that the registry refuses, when saved as well as when loaded."""

    code = "mcp_entry"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that stands in the way of a run.

    Attributes:
        code: A stable word for this kind of problem.
        message: What is wrong, naming the place and the value.
        hint: What to do about it.
        severity: ``"error"`` stops a run before the first token; ``"warning"`` does not.
        where: The agent, node, tool or server that it is about.
    """

    code: str
    message: str
    hint: str | None = None
    severity: str = "error"
    where: str | None = None

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.message}" + (f" ({self.hint})" if self.hint else "")


class PreflightError(HandrailError):
    """A run cannot start. Raised before the first token, with every problem at once.

    Attributes:
        problems: All that was found.
    """

    code = "preflight"

    def __init__(
        self,
        message: str | None = None,
        *,
        problems: Sequence[Problem] = (),
        hint: str | None = None,
        **context: object,
    ) -> None:
        self.problems = tuple(problems)
        if message is None:
            message = "; ".join(str(problem) for problem in self.problems) or "the run cannot start"
        super().__init__(message, hint=hint, **context)
        if not self.problems:
            self.problems = (Problem(self.code, message, hint),)


class ToolNotRegisteredError(PreflightError):
    """A tool is referenced by a name under which nothing is registered."""

    code = "tool_not_registered"


class ModelUnavailableError(PreflightError):
    """A model's name is unknown, its key is missing, or its extra is not installed."""

    code = "model_unavailable"


class TargetError(PreflightError):
    """A command-line target does not exist, does not load, or is ambiguous."""

    code = "target"


class RunError(HandrailError):
    """A run that had started could not go on.

    Attributes:
        result: The ``RunResult`` as far as the run got, where it was a run of an agent.
    """

    code = "run"
    result: object = None


class ModelError(RunError):
    """The model's provider answered with an error, or not at all."""

    code = "model"


class StepLimitError(RunError):
    """The agent used all of its ``max_steps`` without giving an answer."""

    code = "step_limit"


class RepeatedFailureError(RunError):
    """A tool call kept failing in the same way, so the run was stopped."""

    code = "repeated_failure"


class RunningLoopError(RunError):
    """``run_sync`` was called while an event loop is running in this thread."""

    code = "running_loop"


class LocalModelError(RunError):
    """The embedded model's worker did not start, died, or did not answer in time."""

    code = "local_model"


class ToolCallError(RunError):
    """One tool call failed. Raised by ``Toolset.call(..., raise_on_error=True)``.

    Attributes:
        result: The ``ToolResult`` that says the same as a value.
    """

    code = "tool_call"

    def __init__(self, message: str, *, result: object = None, hint: str | None = None, **context: object) -> None:
        super().__init__(message, hint=hint, **context)
        self.result = result


class ToolNotFoundError(ToolCallError):
    """No tool of that name is in the toolset."""

    code = "unknown_tool"


class ToolInputError(ToolCallError):
    """The arguments do not match the tool's schema; its body did not run."""

    code = "invalid_arguments"


class ToolTimeoutError(ToolCallError):
    """The tool did not answer within its deadline."""

    code = "timeout"


class ToolResultError(ToolCallError):
    """What the tool returned has no JSON form, or does not match its output schema."""

    code = "bad_result"


class ToolDeniedError(ToolCallError):
    """The policy denied the call, or nobody approved it; the tool's body did not run."""

    code = "denied"


class ToolExecutionError(ToolCallError):
    """The tool's body raised."""

    code = "tool_error"


class MCPError(HandrailError):
    """An MCP server, or the connection to it, failed."""

    code = "mcp"

    @property
    def model_text(self) -> str:
        server = self.context.get("server")
        return f"the server {server!r} failed: {self.code.replace('_', ' ')}" if server else "the server failed"


class MCPServerNotFoundError(MCPError):
    """The registry has no entry under that id."""

    code = "mcp_server_not_found"


class MCPAccessDeniedError(MCPError):
    """The agent is not among the server's ``allowed_agents``."""

    code = "mcp_access_denied"


class MCPConnectError(MCPError):
    """The server did not start, or could not be reached, within the connection deadline."""

    code = "mcp_connect"


class MCPServerDiedError(MCPError):
    """The connection ended while it was in use."""

    code = "mcp_server_died"


class MCPTimeoutError(MCPError):
    """The server did not answer within the deadline."""

    code = "mcp_timeout"


class MCPProtocolError(MCPError):
    """The server answered in a way that the protocol does not allow."""

    code = "mcp_protocol"


class MCPCircuitOpenError(MCPError):
    """The tool kept failing, so it is not called for a while. ``context["retry_after"]`` says for how many seconds."""

    code = "mcp_circuit_open"


class StoreError(HandrailError):
    """The database failed, or holds something that does not validate."""

    code = "store"


class ToolError(HandrailError):
    """What a tool's author says to the model when the tool cannot do what was asked.

    Unlike any other exception of a tool's body, the text reaches the model word for word.

    Args:
        text: The text for the model. Put nothing into it that the model must not see.
        retry: Whether the model should try again with other arguments (True, the default) or give this up
            (False).
    """

    code = "tool_error"

    def __init__(self, text: str, *, retry: bool = True) -> None:
        super().__init__(str(text))
        self.retry = retry

    @property
    def model_text(self) -> str:
        return self.message
