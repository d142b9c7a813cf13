"""The agent loop: ask the model, run the calls it asks for through the gate, and tell it the results.

``run`` and ``stream`` take the same way through this module; streaming only adds the text as it arrives.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, TypeVar, cast

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from handrail.calls import Call, Scope, call_all
from handrail.errors import HandrailError, ModelError, RepeatedFailureError, StepLimitError
from handrail.events import ModelResponded, StepStarted, TextDelta
from handrail.provenance import INTEGRITIES, SOURCES, Label
from handrail.runs import Usage
from handrail.schema.views import Dialect, View, view
from handrail.tools import Media, Text, Tool, ToolResult
from handrail.toolset import Toolset

MAX_TOKENS = 4096
"""Tokens that an answer may have where the agent's settings do not say otherwise."""

WARN_AFTER = 3
"""How often a call may fail in the same way before the model is told to do something else."""

STOP_AFTER = 5
"""How often a call may fail in the same way before the run stops."""

MAX_CONTINUATIONS = 10
"""How often in a row a provider may suspend its answer."""


@dataclass(slots=True, eq=False)
class Conversation:
    """One run of the loop, as far as it got.

    Attributes:
        messages: The history, to which the loop adds.
        calls: The results of all tool calls.
        usage: What it cost so far.
        output: The answer; None until there is one.
    """

    messages: list[ModelMessage]
    calls: list[ToolResult] = field(default_factory=list[ToolResult])
    usage: Usage = field(default_factory=Usage)
    output: str | None = None
    failures: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])


def begin(prompt: str, *, instructions: str, notes: Sequence[str], history: Sequence[Any] = ()) -> Conversation:
    """Start a conversation with a person's words.

    Args:
        prompt: What the person says.
        instructions: The agent's.
        notes: What the model is told beside them.
        history: Messages of an earlier run that this one goes on from.
    """
    told = "\n\n".join([text for text in (instructions, *notes) if text]) or None
    parts = [*_unanswered(history), UserPromptPart(prompt)]
    return Conversation([*history, ModelRequest(parts, instructions=told)])


def _unanswered(history: Sequence[ModelMessage]) -> list[ToolReturnPart]:
    """Answers for the calls with which a history breaks off: providers refuse a call that has none."""
    if not history or not isinstance(history[-1], ModelResponse):
        return []
    return [
        ToolReturnPart(
            part.tool_name,
            "the call was interrupted; it may have had an effect",
            part.tool_call_id,
            outcome="interrupted",
        )
        for part in history[-1].parts
        if isinstance(part, ToolCallPart)
    ]


async def converse(
    conversation: Conversation,
    *,
    model: Model,
    toolset: Toolset,
    scope: Scope,
    max_steps: int,
    settings: Mapping[str, Any],
    streaming: bool,
) -> None:
    """Run the loop until the model answers without asking for a call.

    Args:
        conversation: Is added to as the run goes on, so that a failed run keeps what it had.
        model: The model.
        toolset: The tools that it may call.
        scope: In whose name the calls run.
        max_steps: How often the model may be asked.
        settings: Settings for the model.
        streaming: Whether to report the text as it arrives.

    Raises:
        StepLimitError: If the model was asked ``max_steps`` times and still asks for calls.
        RepeatedFailureError: If a call keeps failing in the same way.
        ModelError: If the provider fails.
    """
    views = {name: _view(tool, model.system) for name, tool in toolset.tools.items()}
    parameters = ModelRequestParameters(function_tools=definitions(toolset, views), allow_text_output=True)
    wanted = ModelSettings(**{"max_tokens": MAX_TOKENS, **settings})  # pyright: ignore[reportArgumentType]
    instructions = _instructions(conversation)
    ask = _ask_streaming if streaming else _ask
    suspended = 0
    for step in range(1, max_steps + 1):
        response = await _step(conversation, step, model, wanted, parameters, scope, ask)
        requests = [part for part in response.parts if isinstance(part, ToolCallPart)]
        if not requests:
            if getattr(response, "state", None) == "suspended" and (suspended := suspended + 1) <= MAX_CONTINUATIONS:
                continue
            conversation.output = _answer(model, response)
            return
        suspended = 0
        calls = [Call(part.tool_name, _arguments(part, views), part.tool_call_id) for part in requests]
        results = await call_all(toolset.tools, calls, scope)
        conversation.calls += results
        # Calls of one turn that fail alike count once: the model has had no chance yet to do something else.
        conversation.failures.update({_failure(result) for result in results if result.code is not None})
        if any(part.tool_call_id != result.call_id for part, result in zip(requests, results, strict=True)):
            requests = [replace(part, tool_call_id=one.call_id) for part, one in zip(requests, results, strict=True)]
            conversation.messages[-1] = _with_calls(response, requests)
        parts = [_returned(part, result, conversation) for part, result in zip(requests, results, strict=True)]
        conversation.messages.append(ModelRequest(parts, instructions=instructions))
        _stop_if_stuck(conversation)
    raise StepLimitError(
        f"the agent was asked {max_steps} times and still calls tools",
        hint="raise max_steps, or look at the calls: it may be going in circles",
    )


Ask = Callable[..., Any]


async def _step(
    conversation: Conversation,
    step: int,
    model: Model,
    settings: ModelSettings,
    parameters: ModelRequestParameters,
    scope: Scope,
    ask: Ask,
) -> ModelResponse:
    clock, recorder = scope.clock, scope.recorder
    if recorder is not None:
        recorder.record(StepStarted, step)
    began = clock.monotonic()
    try:
        response: ModelResponse = await ask(model, conversation.messages, settings, parameters, scope)
    except (HandrailError, AssertionError):
        raise
    except Exception as error:
        # Not only the model layer's own errors: a connection that breaks in mid-stream raises what its client has.
        raise _model_error(model, error) from error
    conversation.messages.append(response)
    conversation.usage = _add(conversation.usage, response)
    if recorder is not None:
        calls = sum(type(part) is ToolCallPart for part in response.parts)
        usage = response.usage
        recorder.record(
            ModelResponded, step, calls, _text(response), usage.input_tokens, usage.output_tokens,
            clock.monotonic() - began,
        )  # fmt: skip
    return response


async def _ask(
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters,
    scope: Scope,
) -> ModelResponse:
    return await model.request(model.prepare_messages(messages, parameters), settings, parameters)


async def _ask_streaming(
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings,
    parameters: ModelRequestParameters,
    scope: Scope,
) -> ModelResponse:
    wire = model.prepare_messages(messages, parameters)
    async with model.request_stream(wire, settings, parameters) as stream:
        async for event in stream:
            text = _delta(event)
            if text and scope.recorder is not None:
                scope.recorder.record(TextDelta, text)
        return stream.get()


def _delta(event: Any) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def definitions(toolset: Toolset, views: Mapping[str, View]) -> list[ToolDefinition]:
    """The tools as the model layer describes them, each with the view of its schema that the provider takes."""
    return [
        ToolDefinition(
            name=name,
            description=tool.description,
            parameters_json_schema=views[name].schema,
            sequential=tool.sequential,
        )
        for name, tool in toolset.tools.items()
    ]


_DIALECTS: Mapping[str, Dialect] = {
    "anthropic": "anthropic", "bedrock": "anthropic", "google": "google", "google-gla": "google",
    "google-vertex": "google", "google-cloud": "google",
}  # fmt: skip
_AS_IT_IS = frozenset({"handrail", "local", "function", "test"})
"""Models that are no provider's, and refuse nothing."""


def _view(tool: Tool, system: str) -> View:
    if system in _AS_IT_IS:
        return View(tool.parameters)
    return view(tool.arguments.json_schema, _DIALECTS.get(system, "openai"))


def _arguments(part: ToolCallPart, views: Mapping[str, View]) -> object:
    """The arguments as the model sent them, under the names that the tool knows."""
    seen = views.get(part.tool_name)
    if seen is None or not seen.names:
        return part.args
    try:
        return seen.restore(part.args_as_dict(raise_if_invalid=True))
    except (ValueError, AssertionError):
        return part.args  # not JSON: the gate says so


def _returned(part: ToolCallPart, result: ToolResult, conversation: Conversation) -> ToolReturnPart:
    """What the model is told of a call. Its label goes beside it: the model does not see it, a later run does."""
    outcome = "success"
    if result.code in ("denied", "needs_approval"):
        outcome = "denied"
    elif result.code is not None:
        outcome = "retried" if result.retry else "failed"
    content: Any = result.wire
    if result.code is not None:
        if (times := conversation.failures[_failure(result)]) >= WARN_AFTER:
            content = f"{content}\n(This has failed the same way {times} times. Do not try it again.)"
    elif any(isinstance(one, Media) for one in result.parts):
        content = [_content(one) for one in result.parts]
    return ToolReturnPart(part.tool_name, content, result.call_id, outcome=outcome, metadata=_marks(result.label))


def _failure(result: ToolResult) -> tuple[str, str, str]:
    """What makes two failures alike: not the arguments, which a stubborn model varies, but what came of them."""
    return result.name, result.code or "", result.wire.replace(result.call_id, "")


def _with_calls(response: ModelResponse, calls: Sequence[ToolCallPart]) -> ModelResponse:
    """The response with these calls in place of its own. The response itself belongs to whoever made it."""
    waiting = iter(calls)
    return replace(
        response, parts=[next(waiting) if isinstance(part, ToolCallPart) else part for part in response.parts]
    )


def _marks(label: Label) -> dict[str, Any]:
    return {"integrity": label.integrity, "source": label.source, "server": label.server}


Word = TypeVar("Word", bound=str)


def _known(said: object, words: Sequence[Word]) -> Word | None:
    return next((word for word in words if word == said), None)


def labels(history: Sequence[ModelMessage], at: float) -> dict[str, Label]:
    """The labels of the results in a conversation, by their calls' ids. One without a readable label is tainted."""
    found: dict[str, Label] = {}
    for message in history:
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                metadata: Any = part.metadata
                marks = cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}
                server = marks.get("server") if isinstance(marks.get("server"), str) else None
                integrity = _known(marks.get("integrity"), INTEGRITIES) or "untrusted"
                source = _known(marks.get("source"), SOURCES) or "derived"
                found[part.tool_call_id] = Label(source, integrity, part.tool_name, server, part.tool_call_id, at=at)
    return found


def _content(part: Any) -> Any:
    if isinstance(part, Media):
        return BinaryContent(part.data, media_type=part.media_type)
    return part.text if isinstance(part, Text) else part.note


def _stop_if_stuck(conversation: Conversation) -> None:
    for (name, code, _), count in conversation.failures.items():
        if count >= STOP_AFTER:
            raise RepeatedFailureError(
                f"the agent called {name} {count} times with the same failure ({code})",
                hint="look at the tool, or at what the instructions say of it",
                tool=name,
            )


def _instructions(conversation: Conversation) -> str | None:
    last = conversation.messages[-1]
    return last.instructions if isinstance(last, ModelRequest) else None


def _answer(model: Model, response: ModelResponse) -> str:
    """The text of a last response. None at all is an answer, unless something is known to have cut it off."""
    text = _text(response)
    if not text and (hint := _CUT_OFF.get(response.finish_reason or "")) is not None:
        raise ModelError(f"the model {model.model_name} gave no answer", hint=hint, model=model.model_name)
    return text


_CUT_OFF: Mapping[str, str] = {
    "length": "it ran out of tokens before it wrote anything: raise max_tokens in the agent's settings",
    "content_filter": "the provider's content filter kept it from answering",
    "error": "the provider reports that the answer failed",
}


def _text(response: ModelResponse) -> str:
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _add(usage: Usage, response: ModelResponse) -> Usage:
    calls = sum(isinstance(part, ToolCallPart) for part in response.parts)
    cost = _cost(response)
    total = usage.cost_usd if cost is None else (usage.cost_usd or Decimal(0)) + cost
    return Usage(
        usage.requests + 1,
        usage.input_tokens + response.usage.input_tokens,
        usage.output_tokens + response.usage.output_tokens,
        usage.tool_calls + calls,
        total,
    )


def _cost(response: ModelResponse) -> Decimal | None:
    if not response.usage.has_values():
        return None
    try:
        return response.cost().total_price
    except (LookupError, ValueError, AssertionError):
        return None  # a model without a known price


def _model_error(model: Model, error: Exception) -> HandrailError:
    if isinstance(error, ModelHTTPError):
        return ModelError(
            f"the model {model.model_name} answered with HTTP {error.status_code}",
            hint=_status_hint(error.status_code),
            model=model.model_name,
            status=error.status_code,
        )
    return ModelError(f"the model {model.model_name} failed: {_said(error)}", model=model.model_name)


_SECRET = re.compile(
    r"(?P<before>://)[^/\s@]+(?=@)|(?P<name>[?&][\w.-]+=)[^&\s'\"]+|(?P<scheme>\b(?:bearer|basic)\s+)\S+|\bsk-[\w-]{8,}",
    re.IGNORECASE,
)
"""What looks like a password: in an address, in its query, in a header, or a key by its usual form."""


def _said(error: BaseException) -> str:
    """The first line of an exception's text, without what looks like a secret."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_said(one) for one in cast("BaseExceptionGroup[Any]", error).exceptions)
    if isinstance(error, ModelHTTPError):
        return f"{error.model_name} answered with HTTP {error.status_code}"
    line = (str(error) or type(error).__name__).splitlines()[0][:300]
    return _SECRET.sub(lambda found: f"{found['before'] or found['name'] or found['scheme'] or ''}***", line)


def _status_hint(status: int) -> str:
    if status in (401, 403):
        return "check the provider's key"
    if status == 404:
        return "check the model's name"
    if status == 429:
        return "the provider limits the rate: wait, or ask for a higher limit"
    return "the provider's message is in the cause of this error"


__all__ = ["Conversation", "begin", "converse", "definitions"]
