"""The loop: ask the model, run what it asks for, tell it the results; streamed or not, it is the same run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any, Literal

import pytest
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from handrail import Agent, Media, RunError, RunResult, ToolError, run, stream, tool
from handrail.errors import ModelError, RepeatedFailureError, StepLimitError
from handrail.events import Event, ModelResponded, RunFinished, StepStarted, TextDelta, ToolCallFinished
from handrail.loop import MAX_TOKENS, STOP_AFTER, WARN_AFTER
from handrail.testing import ScriptedModel
from support.waiting import settled

Ways = Literal["run", "stream"]


@tool
async def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@tool
async def now() -> str:
    """Tell the time."""
    return "noon"


def _played(*turns: Any, seen: list[Any] | None = None) -> FunctionModel:
    """A model that gives these responses in turn, and notes what it was shown."""
    waiting = iter(turns)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if seen is not None:
            seen.append((list(messages), info))
        turn = next(waiting)
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, ModelResponse) else ModelResponse([TextPart(turn)])

    return FunctionModel(answer, model_name="played")


def _streamed(*turns: list[Any]) -> FunctionModel:
    """A model that streams the items of these turns; an item that is an exception is raised."""
    waiting = iter(turns)

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for item in next(waiting):
            if isinstance(item, Exception):
                raise item
            yield item

    return FunctionModel(stream_function=answer, model_name="streamed")


def _calls(*calls: tuple[str, Any] | tuple[str, Any, str]) -> ModelResponse:
    return ModelResponse([ToolCallPart(*call) for call in calls])


async def _stream(agent: Agent, prompt: str = "Go", **options: Any) -> tuple[list[Event], BaseException | None]:
    events: list[Event] = []
    try:
        async for event in stream(agent, prompt, **options):
            events.append(event)
    except RunError as error:
        return events, error
    return events, None


def _returns(result: RunResult | RunError) -> list[ToolReturnPart]:
    messages = result.messages if isinstance(result, RunResult) else _result(result).messages
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def _result(error: RunError) -> RunResult:
    assert isinstance(error.result, RunResult)
    return error.result


# Turns


async def test_results_go_back_to_the_model_in_order_and_the_answer_ends_the_run() -> None:
    """Every call of a turn is answered in one message, under its id; then the model is asked again."""
    seen: list[Any] = []
    model = _played(
        _calls(("add", {"a": 1, "b": 2}, "x"), ("now", None, "y"), ("add", '{"a": 5}', "z")), "8", seen=seen
    )
    result = await run(Agent(model, instructions="Add.", tools=[add, now]), "1+2, 5")
    assert (result.output, [call.value for call in result.calls]) == ("8", [3, "noon", 5])
    messages, info = seen[1]
    assert [part.tool_call_id for part in messages[-1].parts] == ["x", "y", "z"]
    assert [part.content for part in messages[-1].parts] == ["3", "noon", "5"]
    assert {part.outcome for part in messages[-1].parts} == {"success"}
    assert (messages[0].instructions, messages[-1].instructions, info.instructions) == ("Add.", "Add.", "Add.")
    assert [one.name for one in info.function_tools] == ["add", "now"]
    assert info.model_settings["max_tokens"] == MAX_TOKENS
    assert result.usage.requests == 2
    assert result.usage.tool_calls == 3


async def test_settings_of_the_agent_reach_the_model() -> None:
    """They are added to the default for the length of an answer, and may replace it."""
    seen: list[Any] = []
    await run(Agent(_played("ok", seen=seen), settings={"temperature": 0, "max_tokens": 7}), "Go")
    assert seen[0][1].model_settings == {"temperature": 0, "max_tokens": 7}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ToolError("x"), "retried"), (ToolError("x", retry=False), "failed"), (KeyError("x"), "retried")],
)
async def test_the_model_learns_whether_to_try_again(error: Exception, outcome: str) -> None:
    """A failure goes back to the model, marked as worth another try or not; the run goes on."""

    @tool
    async def fail() -> str:
        """Fail."""
        raise error

    result = await run(Agent(_played(_calls(("fail", {})), "Sorry."), tools=[fail]), "Go")
    assert (result.status, result.output) == ("completed", "Sorry.")
    assert [part.outcome for part in _returns(result)] == [outcome]


async def test_a_refused_call_is_marked_as_denied() -> None:
    """The model can tell a refusal from a failure."""

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    result = await run(Agent(_played(_calls(("pay", {})), "Refused."), tools=[pay]), "Go")
    assert [(part.outcome, part.content) for part in _returns(result)] == [
        ("denied", "the call of pay was refused: pay needs a person's approval")
    ]
    missing = await run(Agent(_played(_calls(("nothing", {})), "Oh.")), "Go")
    assert [part.outcome for part in _returns(missing)] == ["retried"]


async def test_pictures_reach_the_model_as_pictures_in_their_order() -> None:
    """FID-06: a result of text and media arrives as parts, not as base64 text."""

    @tool
    async def look() -> Any:
        """Look."""
        return ["before", Media(b"\x89PNG", "image/png"), "after"]

    result = await run(Agent(_played(_calls(("look", {})), "Nice."), tools=[look]), "Go")
    [part] = _returns(result)
    assert part.content == ["before", BinaryContent(b"\x89PNG", media_type="image/png"), "after"]


async def test_calls_of_one_id_are_told_apart_for_the_model_too() -> None:
    """PLL-03: a provider that repeats an id gets each answer under an id of its own; its response is not touched."""
    turn = _calls(("add", {"a": 1}, "same"), ("add", {"a": 2}, "same"))
    seen: list[Any] = []
    result = await run(Agent(_played(turn, turn, "ok", seen=seen), tools=[add]), "Go")
    messages = seen[2][0]
    asked = [part.tool_call_id for message in messages[1::2] for part in message.parts]
    answered = [part.tool_call_id for message in messages[2::2] for part in message.parts]
    assert asked == answered == [call.call_id for call in result.calls]
    assert len(set(asked)) == 4
    assert asked[0] == "same"
    assert [part.tool_call_id for part in turn.parts if isinstance(part, ToolCallPart)] == ["same", "same"]
    assert [call.value for call in result.calls] == [1, 2, 1, 2]


@pytest.mark.parametrize("way", ["run", "stream"])
async def test_thinking_is_not_part_of_the_answer(way: Ways) -> None:
    """What a model thinks stays in the messages; the output and the text events are what it says."""
    if way == "run":
        result = await run(Agent(_played(ModelResponse([ThinkingPart("hm"), TextPart("Yes"), TextPart(".")]))), "Go")
        assert result.output == "Yes."
        return
    events, _ = await _stream(Agent(_streamed([{0: DeltaThinkingPart(content="hm")}, "Yes", "."])))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Yes."
    assert isinstance(events[-1], RunFinished)
    assert events[-1].output == "Yes."


async def test_no_words_at_all_are_an_answer() -> None:
    """Some models end with nothing after a call; that completes the run."""
    result = await run(Agent(_played(_calls(("now", {})), ModelResponse([])), tools=[now]), "Go")
    assert (result.status, result.output) == ("completed", "")


@pytest.mark.parametrize(
    ("reason", "hint"), [("length", "max_tokens"), ("content_filter", "filter"), ("error", "failed")]
)
async def test_an_answer_that_was_cut_off_to_nothing_is_an_error(reason: Any, hint: str) -> None:
    """A run does not complete with an empty answer where the provider says why there is none."""
    with pytest.raises(ModelError, match=hint):
        await run(Agent(_played(ModelResponse([], finish_reason=reason))), "Go")
    some = await run(Agent(_played(ModelResponse([TextPart("Some")], finish_reason=reason))), "Go")
    assert some.output == "Some"


async def test_a_suspended_answer_is_continued() -> None:
    """A provider that pauses its own work is asked to go on; the steps count."""
    paused = ModelResponse([TextPart("Wait")], state="suspended")
    result = await run(Agent(_played(paused, paused, "Done")), "Go")
    assert (result.output, result.usage.requests) == ("Done", 3)
    with pytest.raises(StepLimitError):
        await run(Agent(_played(*[paused] * 9), max_steps=3), "Go")


# Limits


@pytest.mark.parametrize("way", ["run", "stream"])
async def test_the_step_limit_ends_a_run_that_goes_in_circles(way: Ways) -> None:
    """The error says so, and has everything up to there."""
    agent = Agent(ScriptedModel(lambda number: [("add", {"a": number})]), tools=[add], max_steps=3)
    if way == "stream":
        events, error = await _stream(agent)
        assert isinstance(events[-1], RunFinished)
        assert events[-1].status == "failed"
        assert (events[-1].error or "").startswith("step_limit: ")
    else:
        with pytest.raises(StepLimitError) as raised:
            await run(agent, "Go")
        error = raised.value
    assert isinstance(error, StepLimitError)
    result = _result(error)
    assert (result.status, result.output) == ("failed", "")
    assert [call.value for call in result.calls] == [0, 1, 2]
    assert result.usage.requests == 3
    assert len(result.messages) == 7
    assert "max_steps" in (error.hint or "")


async def test_a_model_that_repeats_a_failure_is_warned_and_then_stopped() -> None:
    """RET-03: it is not the arguments that count, which a stubborn model varies, but the failure that is the same."""

    @tool
    async def edit(line: int) -> str:
        """Edit a line."""
        raise ToolError("the file is read-only")

    agent = Agent(ScriptedModel(lambda number: [("edit", {"line": number})]), tools=[edit], max_steps=50)
    with pytest.raises(RepeatedFailureError, match="edit 5 times") as raised:
        await run(agent, "Go")
    texts = [str(part.content) for part in _returns(raised.value)]
    assert len(texts) == STOP_AFTER
    assert [("Do not try it again" in text) for text in texts] == [number >= WARN_AFTER for number in range(1, 6)]
    assert raised.value.context["tool"] == "edit"


async def test_failures_that_carry_the_call_s_id_are_still_the_same() -> None:
    """RET-03: the id in the text of an unexpected failure does not make it a new one."""

    @tool
    async def fail(n: int) -> str:
        """Fail."""
        raise ValueError(n)

    agent = Agent(ScriptedModel(lambda number: [("fail", {"n": number})]), tools=[fail], max_steps=50)
    with pytest.raises(RepeatedFailureError):
        await run(agent, "Go")


async def test_one_turn_of_many_failures_is_no_stubbornness() -> None:
    """A model that makes the same mistake in ten parallel calls has had no chance to learn yet: it gets one."""
    wrong = [("add", {"a": "x"})] * 10
    result = await run(Agent(ScriptedModel([wrong, [("add", {"a": 1})], "1"]), tools=[add]), "Go")
    assert (result.status, result.calls[-1].value) == ("completed", 1)
    assert not any("Do not try" in str(part.content) for part in _returns(result))


async def test_different_failures_are_counted_apart() -> None:
    """Failing in new ways is progress of a kind; the step limit ends it."""

    @tool
    async def probe(n: int) -> str:
        """Probe."""
        raise ToolError(f"nothing at {n}")

    agent = Agent(ScriptedModel(lambda number: [("probe", {"n": number})]), tools=[probe], max_steps=8)
    with pytest.raises(StepLimitError):
        await run(agent, "Go")


# Streams


@pytest.mark.parametrize(
    "turn",
    [
        ScriptedModel([[("add", {"a": 1, "b": 2}, "c1"), ("now", {}, "c2"), ("oops", {}, "c3")], "It is 3."]),
        ScriptedModel([["Let me see.", ("add", {"a": "x"}, "c1")], "No."]),
    ],
)
async def test_run_and_stream_tell_the_same_events(turn: ScriptedModel) -> None:
    """Streaming only adds the text as it arrives."""
    agent = Agent(turn, tools=[add, now])

    def told(events: Any) -> list[Any]:
        kept = [event for event in events if not isinstance(event, TextDelta)]
        return [(event.type, getattr(event, "call_id", None), getattr(event, "wire", None)) for event in kept]

    streamed, error = await _stream(agent)
    assert error is None
    assert told(streamed) == told((await run(agent, "Go")).events)
    assert [event.seq for event in streamed] == list(range(len(streamed)))


async def test_the_pieces_of_the_text_make_up_the_answer() -> None:
    """Joined, the text events of the last step are the output; those of earlier steps come before it."""
    first = ["Let ", "me ", "see.", {1: DeltaToolCall("now", "{}", tool_call_id="c")}]
    model = _streamed(first, ["It ", "", "is ", "noon. ", "\U0001f550"])
    events, error = await _stream(Agent(model, tools=[now]))
    assert error is None
    steps: list[str] = []
    for event in events:
        if isinstance(event, StepStarted):
            steps.append("")
        elif isinstance(event, TextDelta):
            assert event.text
            steps[-1] += event.text
    assert steps == ["Let me see.", "It is noon. \U0001f550"]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].output == steps[-1]
    assert [event.text for event in events if isinstance(event, ModelResponded)] == steps


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param(
            [{0: DeltaToolCall("add", "", tool_call_id="one")}, {0: DeltaToolCall(None, '{"a"', tool_call_id="one")},
             {0: DeltaToolCall(None, ":1}", tool_call_id="one")}],
            [("one", 1)], id="STR-01 an id that is repeated",
        ),
        pytest.param(
            [{0: DeltaToolCall("add", '{"a', tool_call_id="x")}, {1: DeltaToolCall("add", '{"b', tool_call_id="y")},
             {0: DeltaToolCall(None, '":1}')}, {1: DeltaToolCall(None, '":5,"a":2}')}],
            [("x", 1), ("y", 7)], id="STR-03 interleaved calls",
        ),
        pytest.param(
            [{0: DeltaToolCall(None, '{"a":', tool_call_id="x")}, {0: DeltaToolCall("add", "4}")}],
            [("x", 4)], id="STR-04 a name that comes late",
        ),
        pytest.param([{0: DeltaToolCall("now", None, tool_call_id="x")}], [("x", "noon")], id="STR-07 no arguments"),
        pytest.param(
            [{number: DeltaToolCall("add", f'{{"a":{number + 1}}}', tool_call_id="s") for number in range(2)}],
            [("s", 1), (None, 2)], id="one id for two calls",
        ),
        pytest.param(
            [{0: DeltaToolCall("add", '{"a":1}')}, {1: DeltaToolCall("add", '{"a":2}')}],
            [(None, 1), (None, 2)], id="no ids at all",
        ),
        pytest.param(
            ["I add. ", {1: DeltaToolCall("add", '{"a":1}', tool_call_id="x")}, "Done."],
            [("x", 1)], id="text around a call",
        ),
    ],
)  # fmt: skip
async def test_calls_are_put_together_from_their_pieces(
    items: list[Any], expected: list[tuple[str | None, Any]]
) -> None:
    """However the pieces arrive, each call runs once, with its own arguments, under its own id."""
    events, error = await _stream(Agent(_streamed(items, ["ok"]), tools=[add, now]))
    assert error is None
    finished = [event for event in events if isinstance(event, ToolCallFinished)]
    got = {event.call_id: event for event in finished}
    assert len(got) == len(finished) == len(expected)
    in_order = [event for event in events if event.type == "tool_call_started"]
    assert len(in_order) == len(expected)
    for event, (call_id, value) in zip(in_order, expected, strict=True):
        made: Any = event
        assert call_id is None or made.call_id == call_id
        assert got[made.call_id].wire == str(value)


@pytest.mark.parametrize("break_off", [ConnectionError("reset"), UnexpectedModelBehavior("cut"), KeyError("x"), None])
async def test_a_call_whose_arguments_broke_off_never_runs(break_off: Exception | None) -> None:
    """STR-06: when the stream dies in the arguments, nothing of the turn runs; when it just ends, whole calls do."""
    ran: list[str] = []

    @tool
    async def rm(path: str) -> str:
        """Remove."""
        ran.append(path)
        return "removed"

    items: list[Any] = [
        {0: DeltaToolCall("add", '{"a":1}', tool_call_id="x")},
        {1: DeltaToolCall("rm", '{"path":"/', tool_call_id="y")},
    ]  # fmt: skip
    events, error = await _stream(
        Agent(_streamed([*items, *([break_off] if break_off else [])], ["ok"]), tools=[add, rm])
    )
    assert ran == []
    finished = {event.call_id: event.code for event in events if isinstance(event, ToolCallFinished)}
    if break_off is None:
        assert error is None
        assert finished == {"x": None, "y": "invalid_arguments"}
    else:
        assert isinstance(error, ModelError)
        assert error.__cause__ is break_off
        assert finished == {}
        assert isinstance(events[-1], RunFinished)


async def test_text_that_was_streamed_before_the_stream_died_was_told() -> None:
    """What arrived is not taken back, but the run has failed and has no output."""
    events, error = await _stream(Agent(_streamed(["The answer ", "is", ModelAPIError("streamed", "gone")])))
    assert isinstance(error, ModelError)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["The answer ", "is"]
    assert isinstance(events[-1], RunFinished)
    assert (events[-1].status, events[-1].output) == ("failed", None)


# Models that fail


@pytest.mark.parametrize(("status", "hint"), [(401, "key"), (403, "key"), (404, "name"), (429, "rate"), (500, "cause")])
async def test_a_provider_s_refusal_is_one_clear_error(status: int, hint: str) -> None:
    """The status and what to do about it; the body, which may hold anything, stays in the cause."""
    refusal = ModelHTTPError(status, "gpt", body={"error": "key sk-SECRETSECRET is wrong"})
    with pytest.raises(ModelError, match=f"HTTP {status}") as raised:
        await run(Agent(_played(refusal)), "Go")
    assert hint in (raised.value.hint or "")
    assert raised.value.__cause__ is refusal
    assert raised.value.context["status"] == status
    finished = _result(raised.value).events[-1]
    assert isinstance(finished, RunFinished)
    assert "SECRET" not in f"{raised.value}{finished}"


@pytest.mark.parametrize(
    "error",
    [
        ModelAPIError("m", "failed for https://user:hunter2@host/v1?key=hunter2&x=1 with Bearer hunter2"),
        UnexpectedModelBehavior("POST https://h/v1/x?api_key=hunter2"),
        ConnectionError("https://:hunter2@h refused\nhunter2"),
        RuntimeError("Authorization: Basic hunter2, or sk-hunter2hunter2"),
        TimeoutError(),
        ValueError("x" * 10_000),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_model_raises_is_a_model_error_without_secrets(error: Exception) -> None:
    """LEA-04: addresses lose their passwords and queries, headers their tokens; one short line remains."""
    with pytest.raises(ModelError) as raised:
        await run(Agent(_played(error)), "Go")
    text = str(raised.value)
    assert "hunter2" not in text
    assert "\n" not in text
    assert len(text) < 500
    assert raised.value.__cause__ is error


async def test_what_the_model_did_before_it_failed_is_kept() -> None:
    """A run that fails in its second step has the first in its result."""
    with pytest.raises(ModelError) as raised:
        await run(Agent(_played(_calls(("add", {"a": 1})), ModelHTTPError(500, "gpt")), tools=[add]), "Go")
    result = _result(raised.value)
    assert [call.value for call in result.calls] == [1]
    assert result.usage.requests == 1
    assert [event.type for event in result.events][-2:] == ["step_started", "run_finished"]


@pytest.mark.parametrize("way", ["run", "stream"])
async def test_a_fallback_model_steps_in(way: Ways) -> None:
    """When the first model fails the next one answers, in both ways of running."""

    async def fail_stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        raise ModelHTTPError(503, "first")
        yield ""

    async def say_stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "second"

    def fail(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(503, "first")

    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart("second")])

    first, second = FunctionModel(fail, stream_function=fail_stream), FunctionModel(say, stream_function=say_stream)
    agent = Agent(FallbackModel(first, second))
    if way == "run":
        assert (await run(agent, "Go")).output == "second"
    else:
        events, error = await _stream(agent)
        assert error is None
        assert isinstance(events[-1], RunFinished)
        assert events[-1].output == "second"
    with pytest.raises(ModelError, match=r"HTTP 503.*HTTP 503") as raised:
        await run(Agent(FallbackModel(first, first)), "Go")
    assert isinstance(raised.value.__cause__, ExceptionGroup)


# Usage


async def test_usage_and_cost_are_summed_over_the_steps() -> None:
    """Tokens come from the provider, the price from its list; an unknown model has no price."""

    def turn(*parts: Any, name: str, tokens: int) -> ModelResponse:
        usage = RequestUsage(input_tokens=tokens, output_tokens=tokens // 10)
        return ModelResponse(parts, usage=usage, model_name=name, provider_name="openai")

    class Priced(FunctionModel):
        """A model under a name that has a price."""

        async def request(self, *args: Any, **kwargs: Any) -> ModelResponse:
            response = await super().request(*args, **kwargs)
            response.model_name, response.provider_name = "gpt-4o", "openai"
            return response

    turns = [
        turn(ToolCallPart("add", {"a": 1}), name="gpt-4o", tokens=1_000_000),
        turn(TextPart("1"), name="gpt-4o", tokens=500_000),
    ]
    waiting = iter(turns)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return next(waiting)

    result = await run(Agent(Priced(answer), tools=[add]), "Go")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (1_500_000, 150_000)
    assert isinstance(result.usage.cost_usd, Decimal)
    assert result.usage.cost_usd > 0
    finished = result.events[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.input_tokens, finished.cost_usd) == (1_500_000, str(result.usage.cost_usd))
    assert json.loads(json.dumps(result.to_json()))["usage"]["cost_usd"] == str(result.usage.cost_usd)
    free = await run(Agent(_played("ok")), "Go")
    assert free.usage.cost_usd is None
    assert free.usage.input_tokens > 0


# Cancellation


@pytest.mark.parametrize("how", ["break", "aclose", "cancel"])
async def test_leaving_a_stream_early_cancels_what_runs(how: str) -> None:
    """TMO-09: the tool's finalisers run, and no task is left."""
    started, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    before = asyncio.all_tasks()
    agent = Agent(ScriptedModel([[("hang", {})], "ok"]), tools=[hang])

    async def watch() -> None:
        events = stream(agent, "Go")
        async for event in events:
            if event.type == "tool_call_started" and how != "cancel":
                break
        await events.aclose()

    if how == "break":
        async for event in stream(agent, "Go"):
            if event.type == "tool_call_started":
                break
    else:
        watching = asyncio.create_task(watch())
        await started.wait()
        if how == "cancel":
            watching.cancel()
        await asyncio.wait([watching])
    await asyncio.wait_for(ended.wait(), 5)
    await settled(turns=20)
    assert asyncio.all_tasks() == before


async def test_cancelling_a_model_that_waits_returns_at_once() -> None:
    """THR-06: while a model backs off, the event loop is free, and a cancellation is heeded at once."""
    waiting = asyncio.Event()
    beats = 0

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        waiting.set()
        await asyncio.sleep(3600)
        return ModelResponse([TextPart("late")])

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    heart = asyncio.create_task(beat())
    running = asyncio.create_task(run(Agent(FunctionModel(answer)), "Go"))
    await waiting.wait()
    seen = beats
    await settled(turns=20)
    assert beats - seen >= 19
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)
    heart.cancel()


async def test_the_history_of_a_run_is_not_changed_by_the_model_layer() -> None:
    """What is sent is prepared from the history; the history stays what happened."""
    result = await run(Agent(_played(_calls(("add", {"a": 1}, "x")), "1"), tools=[add]), "Go")
    kinds: list[list[Any]] = [[type(part) for part in message.parts] for message in result.messages]
    assert kinds == [[UserPromptPart], [ToolCallPart], [ToolReturnPart], [TextPart]]
    assert isinstance(result.messages[0], ModelRequest)


async def test_a_tool_renamed_is_called_by_its_new_name() -> None:
    """Advertised and dispatched under one name."""
    seen: list[Any] = []
    result = await run(Agent(_played(_calls(("plus", {"a": 2})), "2", seen=seen), tools=[add.rename("plus")]), "Go")
    assert [one.name for one in seen[0][1].function_tools] == ["plus"]
    assert result.calls[0].value == 2
