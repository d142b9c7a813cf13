"""``run``, ``run_sync`` and ``stream``: the ways to run an agent. All of them take one path."""

from __future__ import annotations

import asyncio
import copy
import sys
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict

from typing_extensions import Unpack

from handrail.agent import Agent
from handrail.builtins import memory_tools
from handrail.calls import Scope
from handrail.clock import SYSTEM_CLOCK, Clock
from handrail.errors import PreflightError, Problem, RunError
from handrail.events import Event, Recorder, RunFinished, RunStarted
from handrail.naming import did_you_mean
from handrail.policy import AllowAll, Approver, Policy
from handrail.provenance import Label, Ledger, call_key
from handrail.runs import RunResult, Status
from handrail.toolset import ToolProvider, Toolset, refuse_running_loop, resolve

if TYPE_CHECKING:
    from handrail.loop import Conversation

__all__ = ["RunOptions", "prepare", "run", "run_sync", "stream"]


class RunOptions(TypedDict, total=False):
    """What ``run``, ``run_sync`` and ``stream`` take by name; see ``run``."""

    tools: Iterable[ToolProvider]
    model: Any
    policy: Policy | None
    approve: Approver | None
    memory: Mapping[str, Any] | None
    history: RunResult | str | None
    deps: Any
    user: Mapping[str, Any] | None
    instance_id: str | None
    run_id: str | None
    clock: Clock | None
    on_event: Callable[[Event], None] | None


@dataclass(slots=True, eq=False)
class _Run:
    """One run and what it is given."""

    agent: Agent
    prompt: str
    options: RunOptions
    streaming: bool
    run_id: str
    clock: Clock
    memory: MutableMapping[str, Any] | None
    recorder: Recorder
    ledger: Ledger = field(default_factory=Ledger)
    earlier: tuple[str, ...] = ()


async def run(target: Agent, input: str, **options: Unpack[RunOptions]) -> RunResult:
    """Run an agent until it answers.

    Everything is checked first: a missing tool, an unknown server, a missing key are all reported at once, before the
    first token.

    Args:
        target: The agent.
        input: What the person says.
        tools: Implementations for names on the agent's list, and resolvers such as ``MCPConnectionManager``. Whoever
            opened a resolver closes it.
        model: A model's name or object, instead of the agent's.
        policy: Decides on each call. Default: every call is allowed and recorded.
        approve: Asks a person about calls that need approval. Without it such calls are refused.
        memory: What the run remembers; the result has it as it was at the end. The mapping itself is not changed.
        history: An earlier result, or its ``messages_json()``, that this run goes on from.
        deps: What tools get as ``ToolContext.deps``.
        user: The run's user, for tools that ask.
        instance_id: The addressed instance, such as a customer's id.
        run_id: An id for the run; one is made up where it is missing.
        clock: The time.
        on_event: Is called with each event as it happens. It must not block.

    Returns:
        The answer, with everything that led to it.

    Raises:
        PreflightError: If something is missing. No token was spent.
        RunError: If the run could not be finished; ``error.result`` has what there was.
    """
    return await _execute(_new(target, input, options, streaming=False, on_event=options.get("on_event")))


def run_sync(target: Agent, input: str, **options: Unpack[RunOptions]) -> RunResult:
    """Run an agent until it answers, from code that is not async. Takes what ``run`` takes.

    Raises:
        RunningLoopError: If an event loop is running in this thread, as in a notebook: write ``await run(...)``.
    """
    refuse_running_loop("run_sync()", "await run(...)")
    return asyncio.run(run(target, input, **options))


async def stream(target: Agent, input: str, **options: Unpack[RunOptions]) -> AsyncGenerator[Event, None]:
    """Run an agent and give its events as they happen, with the text as it arrives. Takes what ``run`` takes.

    The last event is ``RunFinished``. Leaving the loop early cancels the run; ``contextlib.aclosing`` waits for that.

    Raises:
        PreflightError: As ``run``.
        RunError: As ``run``, after the last event.
    """
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    on_event = options.get("on_event")

    def put(event: Event) -> None:
        queue.put_nowait(event)
        if on_event is not None:
            on_event(event)

    task = asyncio.create_task(_execute(_new(target, input, options, streaming=True, on_event=put)))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _new(
    target: Agent, input: str, options: RunOptions, *, streaming: bool, on_event: Callable[[Event], None] | None
) -> _Run:
    for name in options:
        if name not in RunOptions.__annotations__:
            raise TypeError(f"a run takes no argument {name!r}; {did_you_mean(name, RunOptions.__annotations__)}")
    memory = options.get("memory")
    own = None if memory is None else copy.deepcopy(dict(memory))
    run_id = options.get("run_id") or f"run_{uuid.uuid4().hex[:12]}"
    clock = options.get("clock") or SYSTEM_CLOCK
    return _Run(target, input, options, streaming, run_id, clock, own, Recorder(run_id, clock, on_event))


async def prepare(
    agent: Agent,
    *,
    tools: Iterable[ToolProvider] = (),
    model: Any = None,
    memory: MutableMapping[str, Any] | None = None,
) -> tuple[Toolset, Any]:
    """Check everything that a run of an agent needs, and find it: its tools and its model.

    Args:
        agent: The agent.
        tools: As for ``run``.
        model: As for ``run``.
        memory: The memory that ``save_to_memory`` writes to; None makes it unavailable.

    Returns:
        The toolset and the model.

    Raises:
        PreflightError: With every problem at once.
    """
    problems: list[Problem] = []
    toolset, found = Toolset(), None
    wanted = agent.model if model is None else model
    finding = None if _is_at_hand(wanted) else asyncio.ensure_future(asyncio.to_thread(_find_model, wanted))
    try:
        toolset = await resolve(
            agent.tools,
            tools=tools,
            implementations=agent.implementations,
            builtins=memory_tools(memory) if memory is not None else {},
            agent_id=agent.id,
            tags=agent.tags,
            where=f"agent {agent.name!r}",
        )
    except PreflightError as error:
        problems += error.problems
    except BaseException:
        if finding is not None:
            finding.cancel()
        raise
    if wanted == "local" and (problem := _too_many(agent, toolset)) is not None:
        problems.append(problem)
    try:
        found = _find_model(wanted) if finding is None else await finding
    except PreflightError as error:
        problems += [
            Problem(one.code, error.message, error.hint, where=f"agent {agent.name!r}") for one in error.problems
        ]
    if not problems:
        return toolset, found
    raise PreflightError(problems=problems)


def _is_at_hand(wanted: Any) -> bool:
    return not isinstance(wanted, str) and "handrail.loop" in sys.modules


def _find_model(wanted: Any) -> Any:
    """Find the model. Importing the model layer, and a provider, takes seconds: a thread does that the first time."""
    import_module("handrail.loop")
    from handrail.models import resolve_model

    return resolve_model(wanted)


def _too_many(agent: Agent, toolset: Toolset) -> Problem | None:
    from handrail.local.engine import MAX_TOOLS

    if len(toolset) <= MAX_TOOLS:
        return None
    return Problem(
        "too_many_tools",
        f"the embedded model takes at most {MAX_TOOLS} tools, and the agent has {len(toolset)}",
        "name fewer of them, with mcp_tools(..., only=[...]) or tags={...}, or use another model",
        where=f"agent {agent.name!r}",
    )


async def _execute(this: _Run) -> RunResult:
    from handrail.loop import begin, converse

    if not isinstance(this.agent, Agent) or not isinstance(this.prompt, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PreflightError(
            f"run() takes an agent and text, not {type(this.agent).__name__} and {type(this.prompt).__name__}",
            hint='write run(Agent("local", tools=[...]), "text")',
        )
    toolset, model = await prepare(
        this.agent, tools=this.options.get("tools", ()), model=this.options.get("model"), memory=this.memory
    )
    history = _history(this)
    conversation = begin(this.prompt, instructions=this.agent.instructions, notes=toolset.notes, history=history)
    used_ids = {part.tool_call_id for one in history for part in one.parts if part.part_kind == "tool-call"}
    scope = _scope(this, model, used_ids)
    this.recorder.record(RunStarted, this.agent.id, model.model_name, tuple(toolset.tools))
    status: Status = "failed"
    failure: BaseException | None = None
    try:
        await converse(
            conversation,
            model=model,
            toolset=toolset,
            scope=scope,
            max_steps=this.agent.max_steps,
            settings=this.agent.settings,
            streaming=this.streaming,
        )
        status = "completed"
    except BaseException as error:
        failure = error
        status = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
        raise
    finally:
        result = _finish(this, conversation, status, failure)
        if isinstance(failure, RunError):
            failure.result = result
    return result


def _scope(this: _Run, model: Any, used_ids: set[str]) -> Scope:
    options = this.options
    return Scope(
        policy=options.get("policy") or AllowAll(),
        approve=options.get("approve"),
        ledger=this.ledger,
        recorder=this.recorder,
        clock=this.clock,
        run_id=this.run_id,
        agent_id=this.agent.id,
        instance_id=options.get("instance_id"),
        model=model.model_name,
        deps=options.get("deps"),
        user=options.get("user"),
        memory=MappingProxyType(this.memory if this.memory is not None else {}),
        max_calls=this.agent.max_calls,
        used_ids=used_ids,
    )


def _finish(this: _Run, conversation: Conversation, status: Status, failure: BaseException | None) -> RunResult:
    label = Label("agent_response", agent=this.agent.id, at=this.clock.time())
    heard = [call_key(result.call_id) for result in conversation.calls]
    if conversation.output is not None:
        this.ledger.derive("output", [*this.earlier, *heard], label)
    usage = conversation.usage
    error = None if failure is None else f"{getattr(failure, 'code', type(failure).__name__)}: {failure}".rstrip(": ")
    cost = None if usage.cost_usd is None else str(usage.cost_usd)
    this.recorder.record(RunFinished, status, conversation.output, error, usage.input_tokens, usage.output_tokens, cost)
    return RunResult(
        this.run_id,
        status,
        conversation.output or "",
        tuple(conversation.messages),
        tuple(conversation.calls),
        usage,
        this.ledger,
        this.recorder,
        MappingProxyType(dict(this.memory or {})),
    )


def _history(this: _Run) -> list[Any]:
    """The messages that the run goes on from. Their labels come along: an earlier answer is part of what is read."""
    from handrail.loop import labels
    from handrail.models import messages_from_json

    history: Any = this.options.get("history")
    if history is None:
        return []
    if isinstance(history, RunResult):
        messages = list(history.messages)
        for entry in history.provenance:
            this.ledger.record(entry.key, entry.label)
    elif isinstance(history, str):
        try:
            messages = messages_from_json(history)
        except ValueError:
            raise PreflightError("history is not a conversation", hint="give what messages_json() gave") from None
        for call_id, label in labels(messages, this.clock.time()).items():
            this.ledger.record(call_key(call_id), label)
    else:
        raise PreflightError(f"history must be a RunResult or JSON text, not {type(history).__name__}")
    this.earlier = tuple(dict.fromkeys(entry.key for entry in this.ledger))
    return messages
