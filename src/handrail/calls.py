"""The one door: every call of every tool passes here, whoever asks for it.

Its arguments are validated, the policy is asked, the body runs under a deadline, the result is checked, written as
strict JSON, labelled, and reported as events. Each call has exactly one result, on every path.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import logging
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from handrail.clock import SYSTEM_CLOCK, Clock, Timer
from handrail.errors import HandrailError, MCPError, ToolError
from handrail.events import PolicyDecided, Recorder, ToolCallFinished, ToolCallStarted, ToolProgress
from handrail.naming import did_you_mean
from handrail.policy import (
    ALLOW,
    VERDICTS,
    AllowAll,
    ApprovalRequest,
    Approver,
    CallRequest,
    Decision,
    Policy,
    is_embedded,
    standing_rules,
    stricter,
)
from handrail.provenance import Label, Ledger, call_key
from handrail.results import Written, cut, write_remote, write_value
from handrail.schema.arguments import ArgumentError, Parsed
from handrail.schema.output import OutputError
from handrail.threads import POOL, Job, TooManyStuckError
from handrail.tools import CancelToken, RemoteResult, Tool, ToolContext, ToolResult

logger = logging.getLogger("handrail.calls")

CANCEL_GRACE = 1.0
"""Seconds that running bodies get for their finalisers when the caller is cancelled."""

REMOTE_GRACE = 0.5
"""Seconds by which the gate's deadline of a server's tool is later than the connection's own, which says more."""

_ALLOW_ALL = AllowAll()
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Call(NamedTuple):
    """A call as a model asks for it.

    Attributes:
        name: The tool's name.
        arguments: JSON text or a mapping, unchecked.
        call_id: The provider's id for it; one is made up where it is missing.
    """

    name: str
    arguments: object = None
    call_id: str | None = None


@dataclass(slots=True, eq=False)
class Scope:
    """In whose name, and with what, calls are made.

    Attributes:
        policy: Decides on each call.
        approve: Asks a person; where it is None, what needs approval is refused.
        ledger: Where the labels of results go.
        recorder: Where events go; None where nobody wants them.
        clock: The time.
        run_id: The run; None outside of one.
        agent_id: The agent; None for a person or a program.
        instance_id: The addressed instance.
        model: The name of the model that asks; None for a person or a program.
        deps: What the application passed.
        user: The run's user.
        memory: What the calls may see of the memory.
        max_calls: How many bodies may run; None for no limit. Calls beyond it are answered without running. A call
            counts once its arguments are right, also when it is refused afterwards.
        calls_made: How many have counted.
        used_ids: The ids of calls that came before.
    """

    policy: Policy = field(default_factory=lambda: _ALLOW_ALL)
    approve: Approver | None = None
    ledger: Ledger = field(default_factory=Ledger)
    recorder: Recorder | None = None
    clock: Clock = SYSTEM_CLOCK
    run_id: str | None = None
    agent_id: str | None = None
    instance_id: str | None = None
    model: str | None = None
    deps: Any = None
    user: Mapping[str, Any] | None = None
    memory: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    max_calls: int | None = None
    calls_made: int = 0
    used_ids: set[str] = field(default_factory=set[str])


async def call(tools: Mapping[str, Tool], request: Call, scope: Scope) -> ToolResult:
    """Run one call. It never raises for what the tool or the model did wrong; see ``call_all``."""
    return (await call_all(tools, (request,), scope))[0]


async def call_all(tools: Mapping[str, Tool], requests: Sequence[Call], scope: Scope) -> list[ToolResult]:
    """Run the calls of one turn side by side.

    Where one of the tools is sequential, they run one after the other.

    Args:
        tools: The tools that may be called, by the names that the model knows.
        requests: The calls.
        scope: In whose name they run.

    Returns:
        One result for each call, in the order of the calls. Ids are distinct within the scope: an id that came
        before is replaced.

    Raises:
        asyncio.CancelledError: If the caller is cancelled. Bodies that run are cancelled first.
    """
    flights = [_Flight(request, scope, tools) for request in requests]
    sequential = any(flight.tool is not None and flight.tool.sequential for flight in flights)
    try:
        for flight in flights:
            flight.start()
            if sequential:
                flight.arm()
                await flight.result
        if not sequential:
            # A body that is done after its first step needs no timer, and that step cannot be interrupted anyway.
            asyncio.get_running_loop().call_soon(_arm, flights)
        return [flight.result.result() if flight.result.done() else await flight.result for flight in flights]
    except asyncio.CancelledError:
        await _cancel(flights)
        raise


def _arm(flights: Iterable[_Flight]) -> None:
    for flight in flights:
        flight.arm()


async def _cancel(flights: Iterable[_Flight]) -> None:
    tasks = [task for flight in flights if (task := flight.abort()) is not None]
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_GRACE)


class _Flight:
    """One call from its request to its result."""

    __slots__ = (
        "aborted", "armed", "began", "body_began", "call_id", "expired", "heard", "job", "name", "outer", "parsed",
        "request", "result", "scope", "task", "timer", "token", "tool", "tools",
    )  # fmt: skip

    def __init__(self, request: Call, scope: Scope, tools: Mapping[str, Tool]) -> None:
        name: Any = request.name
        self.name: str = name if isinstance(name, str) else str(name)
        self.tool = tools.get(name) if self.name is name else None
        self.tools = tools
        self.request = request
        self.scope = scope
        self.call_id = _distinct(request.call_id, scope.used_ids)
        self.result: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self.began = scope.clock.monotonic()
        self.parsed: Parsed | None = None
        self.task: asyncio.Task[None] | None = None
        self.timer: Timer | None = None
        self.token: CancelToken | None = None
        self.job: Job | None = None
        self.expired = self.aborted = self.armed = self.heard = False
        self.outer = _CURRENT.get()
        self.body_began: float | None = None

    def start(self) -> None:
        """Check the call, and start its body when nothing speaks against it."""
        tool = self.tool
        if tool is None:
            hint = did_you_mean(self.name, self.tools, what="available tools")
            self.fail("unknown_tool", f"there is no tool {self.name[:80]!r}; {hint}")
            return
        try:
            self.parsed = tool.arguments.parse(self.request.arguments)
        except ArgumentError as error:
            self.fail("invalid_arguments", f"invalid arguments for {tool.name}: {error.text}")
            return
        except Exception as error:
            # A validator of the tool's own types raised something that is no ValueError.
            logger.warning(
                "the arguments of %s could not be checked (call %s)", tool.name, self.call_id, exc_info=error
            )
            self.fail(
                "invalid_arguments",
                f"the arguments for {tool.name} could not be checked (call {self.call_id})",
                detail=f"checking them raised {_said(error)}",
            )
            return
        if self.scope.max_calls is not None and self.scope.calls_made >= self.scope.max_calls:
            self.fail("call_limit", f"no more tool calls are allowed (limit {self.scope.max_calls})", retry=False)
            return
        self.scope.calls_made += 1
        self.task = self.result.get_loop().create_task(self.fly(tool, self.parsed))

    async def fly(self, tool: Tool, parsed: Parsed) -> None:
        """Ask, run and report. Every way out leaves a result, unless the caller itself is cancelled."""
        _CURRENT.set(self)
        try:
            decision = ALLOW if self.is_plain(tool) else await self.decide(tool, parsed)
            if decision.verdict != "allow":
                code = "denied" if decision.verdict == "deny" else "needs_approval"
                self.fail(
                    code,
                    f"the call of {tool.name} was refused: {decision.reason or decision.rule}",
                    retry=False,
                )
                return
            self.body_began = self.scope.clock.monotonic()
            if self.armed:
                self.set_timer(tool, self.body_began)
            self.emit_started(tool, parsed, decision)
            if tool.retries or tool.max_concurrency:
                value = await self.execute(tool, parsed)
            else:
                value = await self.run_body(tool, parsed)
            self.succeed(tool, value)
        except asyncio.CancelledError:
            if self.expired or self.aborted:
                raise
            self.fail(
                "tool_error",
                f"{tool.name} was cancelled from within",
                detail="the body raised CancelledError",
            )
        except Exception as error:
            self.fail_with(tool, error)
        except BaseException as error:
            if self.result.get_loop().is_closed():
                raise
            self.fail("tool_error", f"{tool.name} ended the program", detail=f"the body raised {_said(error)}")
            if isinstance(error, KeyboardInterrupt):
                raise
        finally:
            # The task's context holds this call: without this, each call would wait for the garbage collector.
            self.task = None
            if self.timer is not None:
                self.timer.cancel()
            if not self.result.done() and not self.result.get_loop().is_closed():
                # Even where telling what happened failed, nobody waits for ever.
                self.settle(Written(f"{tool.name} failed (call {self.call_id})", True), "tool_error")

    def is_plain(self, tool: Tool) -> bool:
        """Whether nobody has to be asked: the policy allows everything, and no rule can fire."""
        scope = self.scope
        return (
            type(scope.policy) is AllowAll
            and tool.needs_approval is False
            and (scope.model is None or not is_embedded(scope.model))
        )

    async def decide(self, tool: Tool, parsed: Parsed) -> Decision:
        """Ask the standing rules, the tool itself and the policy; the most severe answer holds."""
        scope = self.scope
        decision = ALLOW
        if scope.model is not None and (standing := standing_rules(tool, scope.model)) is not None:
            decision = standing
        if tool.needs_approval is not False and tool.approval_needed(parsed):
            decision = stricter(decision, Decision("ask", "needs-approval", f"{tool.name} needs a person's approval"))
        if type(scope.policy) is not AllowAll:
            said = await self.ask_policy(tool, parsed)
            decision = said if decision is ALLOW else stricter(decision, said)
        if decision.verdict == "allow":
            return decision
        self.emit_decided(tool, decision)
        return await self.ask_person(tool, parsed, decision) if decision.verdict == "ask" else decision

    async def ask_policy(self, tool: Tool, parsed: Parsed) -> Decision:
        """Ask the policy. One that fails, or gives no decision, denies."""
        scope = self.scope
        request = CallRequest(
            tool,
            MappingProxyType(parsed.raw),
            self.call_id,
            scope.run_id,
            scope.agent_id,
            scope.model,
            scope.ledger,
        )
        try:
            decision: Any = await scope.policy.decide(request)
            if isinstance(decision, Decision) and decision.verdict in VERDICTS:
                return decision
            logger.error("the policy answered %r on a call of %s, which is no decision", decision, tool.name)
        except Exception:
            logger.exception("the policy failed on a call of %s", tool.name)
        return Decision("deny", "policy-failed", "the policy could not decide")

    async def ask_person(self, tool: Tool, parsed: Parsed, asked: Decision) -> Decision:
        """Ask a person, where there is one to ask. Anything but exactly True refuses, and so does a failure to ask."""
        scope = self.scope
        if scope.approve is None:
            return asked
        request = ApprovalRequest(
            tool.name,
            tool.server,
            self.shown(tool, parsed),
            self.call_id,
            scope.run_id,
            asked.rule,
            asked.reason,
        )
        reason = "a person rejected it"
        try:
            answer: Any = scope.approve(request)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception:
            logger.exception("asking about a call of %s failed", tool.name)
            answer, reason = False, "nobody could be asked"
        decided = Decision("allow", f"approved:{asked.rule}") if answer is True else Decision(
            "deny", f"rejected:{asked.rule}", reason)  # fmt: skip
        self.emit_decided(tool, decided)
        return decided

    async def execute(self, tool: Tool, parsed: Parsed) -> Any:
        """Run the body in one of the tool's slots, and again after an unexpected exception while it allows that."""
        limit = _limit(tool)
        if limit is not None:
            await limit.acquire()
        try:
            attempts = tool.retries + 1
            while True:
                attempts -= 1
                try:
                    return await self.run_body(tool, parsed)
                except (ToolError, HandrailError, TooManyStuckError):
                    raise
                except Exception:
                    if attempts <= 0:
                        raise
                    logger.info("%s raised; it runs again", tool.name, exc_info=True)
        finally:
            if limit is not None:
                limit.release()

    async def run_body(self, tool: Tool, parsed: Parsed) -> Any:
        """Run the body once: an async one here, a synchronous one in a thread."""
        positional, keyword = parsed.positional, parsed.keyword
        if tool.server is not None:
            return await tool.body(dict(keyword), self.context(tool))
        if tool.one_input and not positional:
            positional, keyword = (keyword,), {}
        if tool.context is not None:
            keyword = {**keyword, tool.context: self.context(tool)}
        if tool.is_async:
            return await tool.body(*positional, **keyword)
        self.job = POOL.submit(partial(tool.body, *positional, **keyword))
        try:
            value = await self.job.future
        except asyncio.CancelledError:
            POOL.abandon(self.job)
            raise
        return await value if inspect.isawaitable(value) else value

    def context(self, tool: Tool) -> ToolContext[Any]:
        """What the body may know of the call."""
        scope = self.scope
        self.token = CancelToken()
        return ToolContext(
            self.call_id, scope.run_id, scope.agent_id, scope.instance_id, tool.name, scope.deps, scope.user,
            scope.memory, self.token, self.reporter(tool, scope.recorder) if scope.recorder is not None else None,
        )  # fmt: skip

    def reporter(self, tool: Tool, recorder: Recorder) -> Callable[[float, float | None, str | None], None]:
        """Turn progress into events, from whatever thread it comes."""
        loop, here = asyncio.get_running_loop(), threading.get_ident()

        def record(progress: float, total: float | None, message: str | None) -> None:
            if not self.result.done():
                recorder.record(ToolProgress, self.call_id, tool.name, progress, total, message)

        def report(progress: float, total: float | None, message: str | None) -> None:
            if threading.get_ident() == here:
                record(progress, total, message)
            elif loop.is_running():
                loop.call_soon_threadsafe(record, progress, total, message)

        return report

    def arm(self) -> None:
        """From now on the deadline is watched. It counts from when the body started."""
        self.armed = True
        if self.body_began is not None and self.tool is not None and not self.result.done():
            self.set_timer(self.tool, self.body_began)

    def set_timer(self, tool: Tool, began: float) -> None:
        """Start the deadline. It covers the wait for a free slot and the body, not a person's decision."""
        if tool.timeout:
            grace = REMOTE_GRACE if tool.server is not None else 0.0
            spent = self.scope.clock.monotonic() - began
            self.timer = self.scope.clock.call_later(max(tool.timeout + grace - spent, 0.0), self.expire)

    def expire(self) -> None:
        """The deadline has passed: answer now, whatever the body does."""
        if self.result.done() or self.tool is None:
            return
        self.expired = True
        running = POOL.abandon(self.job) if self.job is not None else False
        still = "; its work may still be running" if running else ""
        self.fail("timeout", f"{self.tool.name} did not answer within {self.tool.timeout:g} s{still}")
        self.stop()

    def abort(self) -> asyncio.Task[None] | None:
        """The caller is cancelled: stop, and give the task so that its finalisers can be waited for.

        There is no result from here on, whatever the body still does.
        """
        self.aborted = True
        self.result.cancel()
        if self.timer is not None:
            self.timer.cancel()
        if self.task is None or self.task.done():
            return None
        self.stop()
        return self.task

    def stop(self) -> None:
        """Cancel the body. A task that ignores it is kept from the garbage collector until it ends."""
        if self.token is not None:
            self.token.set()
        if self.task is not None:
            _STUBBORN.add(self.task)
            self.task.add_done_callback(_forget)
            self.task.cancel()

    def succeed(self, tool: Tool, value: Any) -> None:
        """Check and write what the body gave, and settle the result."""
        if self.result.done():
            return
        try:
            written = write_remote(tool, value) if isinstance(value, RemoteResult) else write_value(tool, value)
        except OutputError as error:
            self.fail(
                "bad_result",
                f"{tool.name} gave a result that cannot be used",
                detail=f"{tool.name}: {error.text}",
                retry=False,
            )
            return
        if isinstance(value, RemoteResult) and value.is_error:
            self.fail("tool_error", written.wire or f"{tool.name} failed without saying why")
            return
        self.settle(written)

    def fail_with(self, tool: Tool, error: Exception) -> None:
        """Settle the result for an exception: an author's words reach the model, a stranger's do not."""
        if isinstance(error, ToolError):
            self.fail("tool_error", error.message or f"{tool.name} failed", retry=error.retry)
        elif isinstance(error, HandrailError):
            # Only a server's code speaks of this call; any other is that of something that the body did.
            code = error.code if isinstance(error, MCPError) else "tool_error"
            self.fail(code, f"{tool.name} failed: {error.model_text}", detail=str(error))
        elif isinstance(error, TooManyStuckError):
            self.fail("tool_error", f"{tool.name} cannot run now", detail=str(error), retry=False)
        else:
            logger.warning("%s raised (call %s)", tool.name, self.call_id, exc_info=error)
            text = f"{tool.name} failed with {type(error).__name__} (call {self.call_id})"
            said = _said(error)
            if tool.expose_errors:
                text = f"{text}: {said.partition(': ')[2]}"
            self.fail("tool_error", text, detail=f"{tool.name} raised {said}")

    def fail(self, code: str, text: str, *, detail: str = "", retry: bool = True) -> None:
        """Settle the result as an error."""
        limit = self.tool.max_result_bytes if self.tool is not None else 1 << 16
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()  # a lone surrogate would fail in the provider's client
        wire, truncated = cut(text, limit)
        self.settle(Written(wire, True, (), truncated), code, detail or wire, retry)

    def settle(self, written: Written, code: str | None = None, message: str = "", retry: bool = True) -> None:
        """Give the call its one result: label it, report it, wake the caller."""
        if self.result.done():
            return
        tool, scope, parsed = self.tool, self.scope, self.parsed
        now = scope.clock.time()
        tainted = tool is not None and (tool.taints or tool.server is not None) and code not in _NEVER_RAN
        tainted = tainted or self.heard
        if tainted and self.outer is not None:
            self.outer.heard = True
        label = Label(
            tool.source if tool is not None else "custom_tool",
            "untrusted" if tainted else "system",
            (tool.remote_name or tool.name) if tool is not None else None,
            tool.server if tool is not None else None,
            self.call_id,
            scope.agent_id,
            None,
            (),
            len(written.wire) if written.wire.isascii() else len(written.wire.encode("utf-8", "replace")),
            now,
        )
        scope.ledger.record(call_key(self.call_id), label)
        duration = scope.clock.monotonic() - self.began
        result = ToolResult(
            self.call_id,
            self.name,
            written.wire,
            code,
            label,
            written.parts,
            message,
            self.shown(tool, parsed) if tool is not None and parsed is not None else _EMPTY,
            parsed.repairs if parsed is not None else (),
            written.truncated,
            retry,
            duration,
            written.is_text,
        )
        if scope.recorder is not None:
            scope.recorder.record(
                ToolCallFinished, self.call_id, self.name, label.server, code, written.wire, message or None, duration,
                label, written.truncated, at=now,
            )  # fmt: skip
        self.result.set_result(result)

    def emit_started(self, tool: Tool, parsed: Parsed, decision: Decision) -> None:
        """Report that the body starts, and by which rule."""
        if (recorder := self.scope.recorder) is not None:
            shown = self.shown(tool, parsed)
            recorder.record(ToolCallStarted, self.call_id, tool.name, tool.server, shown, decision.rule, parsed.repairs)

    def emit_decided(self, tool: Tool, decision: Decision) -> None:
        """Report that a call was not simply allowed."""
        if (recorder := self.scope.recorder) is not None:
            recorder.record(PolicyDecided, self.call_id, tool.name, decision.verdict, decision.rule, decision.reason)

    def shown(self, tool: Tool, parsed: Parsed) -> Mapping[str, Any]:
        """The arguments as they may be shown: without secrets."""
        secret = tool.arguments.secret_keys
        if not secret:
            return parsed.raw
        return {key: "***" if key in secret else value for key, value in parsed.raw.items()}


_CURRENT: contextvars.ContextVar[_Flight | None] = contextvars.ContextVar("handrail_current_call", default=None)
"""The call whose body is running. What it calls in turn, and hears from outside, taints its own result."""

_NEVER_RAN = frozenset({"unknown_tool", "invalid_arguments", "denied", "needs_approval", "call_limit"})
"""Codes of calls whose body never ran: their texts are the library's own."""

_STUBBORN: set[asyncio.Task[None]] = set()
"""Cancelled bodies that have not ended yet."""


def _forget(task: asyncio.Task[None]) -> None:
    _STUBBORN.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("a body failed after its caller had given up", exc_info=error)


def _said(error: BaseException) -> str:
    """An exception's type and text, also where asking for the text fails; of a group, what it holds."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return f"{type(group).__name__}: {'; '.join(_said(one) for one in group.exceptions[:10])}"
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}: (it has no text)"


_PROCESS = uuid.uuid4().hex[:8]
_NUMBERS = itertools.count(1)


def _distinct(given: object, used: set[str]) -> str:
    if not isinstance(given, str) or not given or given in used:
        given = f"call_{_PROCESS}{next(_NUMBERS):x}"
    used.add(given)
    return given


_LIMITS: weakref.WeakKeyDictionary[Tool, dict[asyncio.AbstractEventLoop, asyncio.Semaphore]] = (
    weakref.WeakKeyDictionary()
)


def _limit(tool: Tool) -> asyncio.Semaphore | None:
    """The tool's slots in this event loop; None where it has no cap."""
    if not tool.max_concurrency:
        return None
    loop = asyncio.get_running_loop()
    known = _LIMITS.setdefault(tool, {})
    if (limit := known.get(loop)) is None:
        for gone in [one for one in list(known) if one.is_closed()]:
            known.pop(gone, None)
        limit = known[loop] = asyncio.Semaphore(tool.max_concurrency)
    return limit
