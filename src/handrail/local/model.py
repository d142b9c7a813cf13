"""``Agent("local")``: the embedded engine as a ``pydantic_ai`` model."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition

from handrail.errors import LocalModelError
from handrail.local import prompt, render
from handrail.local.engine import MAX_TOOLS, Call, Turn, shared_engine
from handrail.responses import WholeResponse

MODEL_NAME = "local"
SYSTEM = "handrail"

CLAUSE_CONFIDENCE = 0.4
"""How sure the engine must be of a clause alone. Right ones had 0.44 and more, wrong ones 0.30 at most."""


class Engine(Protocol):
    """The part of ``LocalEngine`` that the model uses."""

    async def acomplete(self, text: str, tools: str = "[]", *, system: str = "", timeout: float | None = None) -> Turn:
        """Answer one request, with no memory of any before."""
        ...


class LocalModel(Model[None]):
    """A tiny tool-calling model that runs on this machine, without a key and without a network.

    It is for trying things and for demonstrations. It is not a chat model:

    - It writes no text. It picks tools once for each user message; the answer is then rendered from what they
      returned, failures included. When no tool fits, it says so and what it is.
    - It reads the last user message only. Instructions, system prompts and earlier turns do not reach it: a
      longer text makes it lose the call. It knows the date, to a quarter of an hour.
    - It takes at most 8 tools. With 7 it picked the right one in 25 of 30 requests, with 16 in 22; among
      tools that are alike it picks any.
    - It does nothing in steps: no call can use what another returned. It does make several calls at once.
      If it makes none, a request made of clauses ("..., and ...") is asked again clause by clause.
    - It repeats what failed. So no call is made twice for one user message.
    - A turn takes 0.1 to 0.4 seconds on two idle cores, and reading new tools about one second. With both
      cores busy it takes ten times as long and more.

    It is sure of wrong calls too (up to 0.83 of 1), and has asked for a refund where tracking was meant. So
    it must never decide alone about a call that changes something. The gate sees to that by the model name
    ``"local"``; nothing here does.

    ``ModelResponse.provider_details`` holds ``confidence``, ``reasoning`` and ``suppressed`` of the turn,
    and is None where the engine was not asked. Usage is zero, as the engine counts no tokens.
    """

    def __init__(self, engine: Engine | None = None, *, clock: Callable[[], datetime] | None = None) -> None:
        """Set up the model. The engine starts with the first request.

        Args:
            engine: The engine; None for the one that the whole program shares.
            clock: Tells the time, in the user's time zone; None for the system's.
        """
        super().__init__()
        self._engine = engine or shared_engine()
        self._clock = clock or _local_time

    @property
    def model_name(self) -> str:
        """The name that the gate and the run record know this model by: ``"local"``."""
        return MODEL_NAME

    @property
    def system(self) -> str:
        """The provider: Handrail itself."""
        return SYSTEM

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Answer the last user message: with calls, or once they have come back with text.

        Of the settings only ``timeout`` counts: seconds for each turn of the engine.

        Raises:
            LocalModelError: If there are more than 8 tools, structured output is asked for, the message is
                too long, or the engine failed.
        """
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        tools = _check(parameters)
        current = _Current.of(messages)
        if current.results or not tools:
            return self._say(current, tools)
        turn = await self._ask(current.text, tools, settings)
        calls = current.new(turn.calls)
        return self._call(calls, current, turn) if calls else self._say(current, tools, turn)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream what ``request`` answers. The engine gives a turn as a whole, and so does the stream."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield WholeResponse(model_request_parameters, response)

    async def _ask(self, text: str, tools: Sequence[ToolDefinition], settings: ModelSettings | None) -> Turn:
        names = prompt.short_names(tool.name for tool in tools)
        definitions = prompt.tools_json(
            (name, tool.description, tool.parameters_json_schema) for name, tool in zip(names, tools, strict=True)
        )
        system = prompt.system_line(self._clock())
        timeout = (settings or {}).get("timeout")
        seconds = float(timeout) if isinstance(timeout, int | float) else None

        async def ask(part: str) -> Turn:
            answer = await self._engine.acomplete(part, definitions, system=system, timeout=seconds)
            return replace(answer, calls=tuple((names.get(name, name), args) for name, args in answer.calls))

        turn = await ask(text)
        # "Do not ..., and ...": a clause alone would have lost the "not".
        if turn.calls or turn.negated:
            return turn
        # One after another: the engine has room for one, and the order of calls must not depend on timing.
        asked = [await ask(part) for part in prompt.clauses(text)]
        sure = [part for part in asked if part.calls and part.confidence >= CLAUSE_CONFIDENCE]
        if not sure:
            return turn
        calls = tuple(call for part in sure for call in part.calls)
        return replace(turn, calls=calls, confidence=min(part.confidence for part in sure))

    def _call(self, calls: Sequence[Call], current: _Current, turn: Turn) -> ModelResponse:
        parts = [
            # Counted and not random, so that the same conversation gives the same bytes.
            ToolCallPart(name, arguments, tool_call_id=f"local_{number}")
            for number, (name, arguments) in enumerate(calls, start=current.calls_before + 1)
        ]
        return self._response(parts, turn)

    def _say(self, current: _Current, tools: Sequence[ToolDefinition], turn: Turn | None = None) -> ModelResponse:
        results = current.results
        text = render.answer(results) if results else render.no_call([tool.name for tool in tools])
        return self._response([TextPart(text)], turn)

    def _response(self, parts: Sequence[TextPart | ToolCallPart], turn: Turn | None) -> ModelResponse:
        return ModelResponse(
            parts=parts,
            model_name=MODEL_NAME,
            provider_name=SYSTEM,
            timestamp=self._clock(),
            provider_details=_details(turn) if turn else None,
            finish_reason="tool_call" if isinstance(parts[0], ToolCallPart) else "stop",
        )


@dataclass(frozen=True)
class _Current:
    """What has happened since the last user message.

    Attributes:
        text: The message.
        calls: The calls made since.
        results: What came back from them, in order.
        calls_before: How many calls there are in the whole conversation.
    """

    text: str = ""
    calls: list[ToolCallPart] = field(default_factory=list[ToolCallPart])
    results: list[render.Result] = field(default_factory=list[render.Result])
    calls_before: int = 0

    @classmethod
    def of(cls, messages: Sequence[ModelMessage]) -> _Current:
        current = cls()
        for message in messages:
            if isinstance(message, ModelRequest):
                current = current._after_request(message)
            else:
                current = current._after_response(message)
        return current

    def _after_request(self, message: ModelRequest) -> _Current:
        current = self
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                current = _Current(_text(part), calls_before=current.calls_before)
            elif isinstance(part, ToolReturnPart):
                current = replace(current, results=[*current.results, current._result(part)])
        return current

    def _after_response(self, message: ModelResponse) -> _Current:
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        return replace(self, calls=[*self.calls, *calls], calls_before=self.calls_before + len(calls))

    def _result(self, part: ToolReturnPart) -> render.Result:
        arguments = {call.tool_call_id: call.args_as_dict() for call in self.calls}.get(part.tool_call_id)
        return render.Result(part.tool_name, part.content, part.outcome, arguments or {})

    def new(self, calls: Sequence[Call]) -> list[Call]:
        """Those calls that were not made yet: the engine likes to repeat itself."""
        seen = {_key(call.tool_name, call.args_as_dict()) for call in self.calls}
        fresh = {_key(name, arguments): (name, arguments) for name, arguments in calls}
        return [call for key, call in fresh.items() if key not in seen]


def _details(turn: Turn) -> dict[str, Any]:
    return {
        "confidence": turn.confidence,
        "reasoning": turn.reasoning,
        "suppressed": [{"name": name, "arguments": arguments} for name, arguments in turn.suppressed],
    }


def _check(parameters: ModelRequestParameters) -> list[ToolDefinition]:
    """The tools, if they are something that the model can work with."""
    if parameters.output_tools or not parameters.allow_text_output:
        raise LocalModelError(
            "the embedded model cannot give structured output", hint="take output= away, or use another model"
        )
    tools = parameters.function_tools
    if len(tools) > MAX_TOOLS:
        raise LocalModelError(
            f"the embedded model takes at most {MAX_TOOLS} tools, and there are {len(tools)}",
            hint="give the agent fewer tools, or use another model",
            tools=[tool.name for tool in tools],
        )
    return tools


def _text(part: UserPromptPart) -> str:
    """The words of a user message. Pictures and files are skipped: the model has no eyes for them."""
    if isinstance(part.content, str):
        return part.content
    return " ".join(item for item in part.content if isinstance(item, str))


def _key(name: str, arguments: dict[str, Any]) -> str:
    return json.dumps([name, arguments], sort_keys=True, default=str)


def _local_time() -> datetime:
    return datetime.now().astimezone()
