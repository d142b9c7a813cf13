"""``run``, ``run_sync`` and ``stream``: one path, everything checked first, and everything told afterwards."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from handrail import (
    Agent,
    CallRequest,
    Decision,
    PreflightError,
    RunError,
    RunResult,
    Tool,
    ToolContext,
    ToolError,
    mcp_tools,
    run,
    run_sync,
    stream,
    tool,
)
from handrail.errors import ModelError, RunningLoopError, StepLimitError, ToolDefinitionError
from handrail.events import Event, RunFinished, RunStarted, ToolCallFinished, ToolCallStarted, event_from_json
from handrail.models import messages_from_json
from handrail.policy import ALLOW
from handrail.provenance import call_key
from handrail.runner import RunOptions, prepare
from handrail.sources import MCPSource
from handrail.testing import FakeClock, ScriptedModel, ScriptExhaustedError
from handrail.tools import RemoteResult, Text
from support.waiting import settled

ASK_OUTSIDE = [[("read_page", {"url": "u"}, "c1")], "The page says hello."]
ASK_INSIDE = [[("lookup", {"key": "a"}, "c1")], "It is a."]


@tool(taints=True)
async def read_page(url: str) -> str:
    """Read a page."""
    return "hello"


@tool
async def lookup(key: str) -> str:
    """Look up a key."""
    return key


class Servers:
    """A resolver of one server with one tool, that knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = 0
        self.asked: list[str | None] = []

    async def resolve_tools(self, sources: Any, *, agent_id: str | None = None) -> list[Tool]:
        """Find the tools."""
        self.asked.append(agent_id)

        async def send(arguments: dict[str, Any], context: ToolContext) -> RemoteResult:
            return RemoteResult((Text("noon"),))

        return [Tool.remote(name="now", description="N.", parameters={"type": "object"}, server="time", send=send)]

    async def close(self) -> None:
        """Close it."""
        self.closed += 1


async def _events(agent: Agent, prompt: str = "Go", **options: Any) -> list[Event]:
    async with aclosing(stream(agent, prompt, **options)) as events:
        return [event async for event in events]


# A run


async def test_a_run_gives_the_answer_with_everything_that_led_to_it() -> None:
    """Output, messages, calls, usage, provenance, events and memory, each under its name."""
    result = await run(Agent(ScriptedModel(ASK_INSIDE), id="clerk", tools=[lookup]), "What is a?", run_id="run_x")
    assert (result.run_id, result.status, result.output) == ("run_x", "completed", "It is a.")
    assert [call.value for call in result.calls] == ["a"]
    assert len(result.messages) == 4
    assert (result.usage.requests, result.usage.tool_calls) == (2, 1)
    assert not result.tainted
    assert [entry.key for entry in result.explain()] == ["output", "call:c1"]
    assert dict(result.memory) == {}
    assert repr(result) == "RunResult(completed, 'It is a.', 1 calls)"
    started, finished = result.events[0], result.events[-1]
    assert isinstance(started, RunStarted)
    assert (started.agent, started.model, started.tools) == ("clerk", "scripted", ("lookup",))
    assert isinstance(finished, RunFinished)
    assert (finished.status, finished.output, finished.error) == ("completed", "It is a.", None)


async def test_a_run_as_data_is_plain_json() -> None:
    """What the result says survives JSON, and its events can be read back."""
    result = await run(Agent(ScriptedModel(ASK_OUTSIDE), tools=[read_page]), "Read", memory={"k": [1, None]})
    data = json.loads(json.dumps(result.to_json()))
    assert (data["output"], data["status"], data["tainted"]) == ("The page says hello.", "completed", True)
    assert data["memory"] == {"k": [1, None]}
    assert data["calls"][0]["value"] == "hello"
    assert data["usage"] == {"requests": 2, "input_tokens": 0, "output_tokens": 0, "tool_calls": 1, "cost_usd": None}
    assert tuple(event_from_json(event) for event in data["events"]) == result.events
    assert [entry["key"] for entry in data["provenance"]] == ["call:c1", "output"]
    assert len(repr(RunResult("r", "completed", "x" * 1000))) < 120


async def test_events_are_numbered_without_gaps_and_each_call_ends_once() -> None:
    """From ``run_started`` to ``run_finished``; every call that was asked for has exactly one end."""

    @tool
    async def fail() -> str:
        """Fail."""
        raise ToolError("no")

    turn: list[Any] = [("lookup", {"key": "a"}), ("fail", {}), ("nothing", {}), ("lookup", {})] * 5
    heard: list[Event] = []
    result = await run(Agent(ScriptedModel([turn, "ok"]), tools=[lookup, fail]), "Go", on_event=heard.append)
    assert tuple(heard) == result.events
    assert [event.seq for event in heard] == list(range(len(heard)))
    assert {event.run_id for event in heard} == {result.run_id}
    assert (heard[0].type, heard[-1].type) == ("run_started", "run_finished")
    ended = [event.call_id for event in heard if isinstance(event, ToolCallFinished)]
    assert sorted(ended) == sorted(call.call_id for call in result.calls)
    assert len(set(ended)) == len(turn)
    for event in heard:
        if isinstance(event, ToolCallStarted):
            assert event.seq < next(
                one.seq for one in heard if isinstance(one, ToolCallFinished) and one.call_id == event.call_id
            )


async def test_stream_gives_what_run_gives_and_calls_the_listener_too() -> None:
    """A listener hears each event of a stream as well, once."""
    heard: list[Event] = []
    events = await _events(Agent(ScriptedModel(ASK_INSIDE), tools=[lookup]), on_event=heard.append)
    assert events == heard
    assert [event.type for event in events] == [
        "run_started", "step_started", "model_responded", "tool_call_started", "tool_call_finished", "step_started",
        "text_delta", "model_responded", "run_finished",
    ]  # fmt: skip


async def test_a_listener_that_fails_stops_no_run(caplog: pytest.LogCaptureFixture) -> None:
    """Neither a run nor a stream hangs or fails because of who watches."""

    def listen(event: Event) -> None:
        raise ValueError("listener broke")

    agent = Agent(ScriptedModel(ASK_INSIDE), tools=[lookup])
    assert (await asyncio.wait_for(run(agent, "Go", on_event=listen), 10)).output == "It is a."
    assert (await asyncio.wait_for(_events(agent, on_event=listen), 10))[-1].type == "run_finished"
    assert "listener broke" in caplog.text


async def test_time_comes_from_the_clock_that_was_given() -> None:
    """Events, labels and durations use one clock."""
    result = await run(Agent(ScriptedModel(ASK_INSIDE), tools=[lookup]), "Go", clock=FakeClock(5.0))
    assert {event.at for event in result.events} == {5.0}
    assert {entry.label.at for entry in result.provenance} == {5.0}
    assert result.calls[0].duration == 0.0
    assert (await run(Agent(ScriptedModel()), "Go", clock=None)).status == "completed"


# Before the run


async def test_everything_that_is_missing_is_reported_before_the_first_token() -> None:
    """One error with all problems; the model is not asked, and nothing is told of a run that never was."""
    model = ScriptedModel()
    heard: list[Event] = []
    agent = Agent(model, id="clerk", name="Clerk", tools=["lokup", "save_to_memory", mcp_tools("tme")])
    with pytest.raises(PreflightError) as raised:
        await run(agent, "Go", tools=[lookup], on_event=heard.append)
    assert [problem.code for problem in raised.value.problems] == [
        "tool_not_registered", "builtin_unavailable", "mcp_server_not_found",
    ]  # fmt: skip
    assert {problem.where for problem in raised.value.problems} == {"agent 'Clerk'"}
    assert "did you mean 'lookup'" in str(raised.value)
    assert (model.requests, heard) == ([], [])


async def test_a_stream_reports_what_is_missing_before_any_event() -> None:
    """The same check, in the same place."""
    events = stream(Agent(ScriptedModel(), tools=["nothing"]), "Go")
    with pytest.raises(PreflightError):
        await anext(events)


@pytest.mark.promise("cycgraph-6.3")
@pytest.mark.promise("cycgraph-6.4")
async def test_names_of_the_agent_need_an_implementation_in_any_case() -> None:
    """A name is not skipped because the run was given no tools, and a server is not skipped without a resolver."""
    with pytest.raises(PreflightError, match="'lookup' has no implementation"):
        await run(Agent(ScriptedModel(), tools=["lookup"]), "Go")
    with pytest.raises(PreflightError, match="'time'"):
        await run(Agent(ScriptedModel(), tools=[mcp_tools("time")]), "Go")
    done = await run(Agent(ScriptedModel(ASK_INSIDE), tools=["lookup"]), "Go", tools=[lookup])
    assert done.calls[0].value == "a"


async def test_one_name_for_two_tools_is_refused_before_the_run() -> None:
    """The run's tool does not replace the agent's of the same name; the same one twice is fine."""
    other = tool(read_page.body, name="lookup")
    model = ScriptedModel(ASK_INSIDE)
    with pytest.raises(ToolDefinitionError, match="'lookup'"):
        await run(Agent(model, tools=[lookup]), "Go", tools=[other])
    assert model.requests == []
    assert (await run(Agent(model, tools=[lookup]), "Go", tools=[lookup])).calls[0].value == "a"


@pytest.mark.parametrize(
    ("target", "text"), [("agent", "Go"), (None, "Go"), (Agent("local"), None), (Agent("local"), 5)]
)
async def test_a_run_takes_an_agent_and_text(target: Any, text: Any) -> None:
    """Anything else is said with how a run is written."""
    with pytest.raises(PreflightError, match="an agent and text"):
        await run(target, text)


async def test_a_misspelt_option_is_refused() -> None:
    """``tool=`` is not dropped: the run would have been another one."""
    options: Any = {"tool": [lookup]}
    with pytest.raises(TypeError, match="did you mean 'tools'"):
        await run(Agent(ScriptedModel()), "Go", **options)
    with pytest.raises(TypeError, match="'memry'"):
        await _events(Agent(ScriptedModel()), memry={})
    assert "tools" in RunOptions.__annotations__


async def test_the_embedded_model_takes_few_tools_and_says_so() -> None:
    """Too many tools for the embedded model are a problem before the run, with what to do about it."""

    async def body() -> str:
        """Do it."""
        return ""

    agent = Agent("local", tools=[tool(body, name=f"tool_{number}") for number in range(9)])
    with pytest.raises(PreflightError) as raised:
        await prepare(agent)
    problem = next(one for one in raised.value.problems if one.code == "too_many_tools")
    assert "at most 8 tools, and the agent has 9" in problem.message


async def test_preparing_gives_the_tools_and_the_model() -> None:
    """What a run would use can be had without a run."""
    model = ScriptedModel()
    toolset, found = await prepare(Agent("nonsense:x", tools=["lookup"]), tools=[lookup], model=model)
    assert list(toolset.tools) == ["lookup"]
    assert found.model_name == "scripted"


# What a run is given


async def test_a_model_of_the_run_replaces_that_of_the_agent() -> None:
    """An agent can be tried with another model without being changed."""
    assert (await run(Agent("openai:gpt-5"), "Go", model=ScriptedModel(["hi"]))).output == "hi"


async def test_tools_get_what_the_application_passed() -> None:
    """Deps, user, instance and memory of the run are in the context of every call; the model chose none of them."""
    seen: list[ToolContext[dict[str, int]]] = []

    @tool
    async def look(context: ToolContext[dict[str, int]]) -> None:
        """Look."""
        seen.append(context)

    agent = Agent(ScriptedModel([[("look", {}, "c1")], "ok"]), id="clerk", tools=[look])
    deps = {"n": 1}
    await run(agent, "Go", deps=deps, user={"name": "Ann"}, instance_id="customer_1", run_id="r1", memory={"k": 1})
    [context] = seen
    assert context.deps is deps
    assert (context.run_id, context.agent_id, context.instance_id, context.call_id) == (
        "r1",
        "clerk",
        "customer_1",
        "c1",
    )
    assert (context.user, context.memory["k"]) == ({"name": "Ann"}, 1)


async def test_memory_is_copied_on_the_way_in() -> None:
    """Nothing that a run does reaches the mapping that it was given, however deep."""
    given = {"list": [1]}
    result = await run(Agent(ScriptedModel()), "Go", memory=given)
    given["list"].append(2)
    assert dict(result.memory) == {"list": [1]}
    with pytest.raises(TypeError):
        result.memory["x"] = 1  # pyright: ignore[reportIndexIssue]


async def test_empty_memory_is_memory() -> None:
    """``memory={}`` makes ``save_to_memory`` available; leaving it out does not."""
    agent = Agent(ScriptedModel([[("save_to_memory", {"key": "k", "value": 1})], "ok"]), tools=["save_to_memory"])
    assert dict((await run(agent, "Go", memory={})).memory) == {"k": 1}
    with pytest.raises(PreflightError, match="save_to_memory"):
        await run(agent, "Go")


async def test_a_policy_decides_on_every_call_of_a_run() -> None:
    """It sees whose call it is, which model asks, and the labels of what the run has read so far."""
    seen: list[tuple[str, str | None, str | None, bool]] = []

    class Watch:
        async def decide(self, request: CallRequest) -> Decision:
            tainted = any(entry.label.tainted for entry in request.ledger)
            seen.append((request.tool.name, request.agent_id, request.model, tainted))
            return Decision("deny", "no-read-after-web") if tainted else ALLOW

    script = [[("read_page", {"url": "u"})], [("lookup", {"key": "a"})], "ok"]
    result = await run(Agent(ScriptedModel(script), id="clerk", tools=[read_page, lookup]), "Go", policy=Watch())
    assert seen == [("read_page", "clerk", "scripted", False), ("lookup", "clerk", "scripted", True)]
    assert [call.code for call in result.calls] == [None, "denied"]


async def test_a_resolver_is_not_closed_by_the_run() -> None:
    """Whoever opened it closes it; two runs may share it."""
    servers = Servers()
    agent = Agent(ScriptedModel([[("now", {})], "noon"]), id="clerk", tools=[mcp_tools("time")])
    for _ in range(2):
        result = await run(agent, "Go", tools=[servers])
        assert (result.calls[0].value, result.tainted) == ("noon", True)
    assert (servers.closed, servers.asked) == (0, ["clerk", "clerk"])
    assert MCPSource("time") in agent.tools


async def test_the_agent_s_limit_of_calls_is_exact_over_its_turns() -> None:
    """PLL-04: three calls may run in the whole run; the counter of calls that ran is exact."""
    ran: list[str] = []

    @tool
    async def work(name: str) -> None:
        """Work."""
        ran.append(name)

    script = [[("work", {"name": "a"}), ("work", {"name": "b"})], [("work", {"name": name}) for name in "cde"], "ok"]
    result = await run(Agent(ScriptedModel(script), tools=[work], max_calls=3), "Go")
    assert ran == ["a", "b", "c"]
    assert [call.code for call in result.calls] == [None, None, None, "call_limit", "call_limit"]
    again = await run(Agent(ScriptedModel(script), tools=[work], max_calls=3), "Go")
    assert [call.code for call in again.calls].count(None) == 3


# Runs beside each other


async def test_runs_of_one_agent_do_not_mix() -> None:
    """PLL-06: two concurrent runs on one agent object have their own messages, calls, memory, ids and labels."""
    barrier = asyncio.Barrier(2)

    @tool
    async def echo(text: str, context: ToolContext) -> str:
        """Say it again."""
        await barrier.wait()
        return f"{text} {context.run_id}"

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last: Any = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse([TextPart(last.model_response_str())])
        return ModelResponse([ToolCallPart("echo", {"text": getattr(last, "content", "")}, "same")])

    agent = Agent(FunctionModel(answer), tools=[echo])
    one, two = await asyncio.gather(run(agent, "A", run_id="1"), run(agent, "B", run_id="2"))
    assert (one.output, two.output) == ("A 1", "B 2")
    assert [len(result.messages) for result in (one, two)] == [4, 4]
    assert "B" not in one.messages_json()
    assert [call.call_id for call in (*one.calls, *two.calls)] == ["same", "same"]
    assert {event.run_id for event in one.events} == {"1"}


async def test_a_tool_s_cap_holds_over_all_runs() -> None:
    """``max_concurrency`` is the tool's, not the run's."""
    running = peak = 0

    @tool(max_concurrency=2)
    async def work() -> None:
        """Work."""
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await settled()
        running -= 1

    agent = Agent(ScriptedModel([[("work", {})] * 3, "ok"]), tools=[work])
    await asyncio.gather(*(run(agent, "Go") for _ in range(5)))
    assert peak == 2


async def test_runs_without_an_id_get_distinct_ones() -> None:
    """Every run can be told from every other."""
    results = await asyncio.gather(*(run(Agent(ScriptedModel()), "Go") for _ in range(20)))
    assert len({result.run_id for result in results}) == 20


# Going on


@pytest.mark.parametrize("as_json", [False, True], ids=["result", "json"])
async def test_a_conversation_goes_on(as_json: bool) -> None:
    """The model reads what came before, from a result or from its stored messages, and then the new words."""
    first = await run(Agent(ScriptedModel(ASK_INSIDE), tools=[lookup]), "What is a?")
    seen: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(list(messages))
        return ModelResponse([TextPart("As I said.")])

    history = first.messages_json() if as_json else first
    second = await run(Agent(FunctionModel(answer), instructions="Be brief."), "And again?", history=history)
    assert [message.kind for message in seen[0]] == ["request", "response", "request", "response", "request"]
    said: Any = seen[0][-1].parts[-1]
    assert said.content == "And again?"
    assert len(second.messages) == 6
    assert len(first.messages) == 4
    assert second.calls == ()


@pytest.mark.parametrize("as_json", [False, True], ids=["result", "json"])
async def test_taint_goes_on_with_the_conversation(as_json: bool) -> None:
    """An answer that builds on text from outside is tainted, also in the next run, and the one after that."""
    result = await run(Agent(ScriptedModel(ASK_OUTSIDE), tools=[read_page]), "Read it")
    assert result.tainted
    for _ in range(3):
        result = await run(Agent(ScriptedModel(["So."])), "And?", history=result.messages_json() if as_json else result)
        assert result.tainted
        label = next(entry.label for entry in result.explain() if entry.key == call_key("c1"))
        assert (label.integrity, label.tool) == ("untrusted", "read_page")
    clean = await run(Agent(ScriptedModel(ASK_INSIDE), tools=[lookup]), "Look")
    after = await run(Agent(ScriptedModel()), "And?", history=clean.messages_json() if as_json else clean)
    assert not after.tainted
    assert [entry.key for entry in after.explain()][:1] == ["output"]


async def test_a_result_without_a_label_counts_as_text_from_outside() -> None:
    """Stored messages that say nothing, or nonsense, of where a tool's result came from are not believed."""
    first = await run(Agent(ScriptedModel(ASK_INSIDE), tools=[lookup]), "Look")
    wrong: list[Any] = [None, {}, [], {"integrity": "trusted"}, {"integrity": [], "source": 7, "server": 9}, "system"]
    for forged in wrong:
        messages = json.loads(first.messages_json())
        messages[2]["parts"][0]["metadata"] = forged
        after = await run(Agent(ScriptedModel()), "And?", history=json.dumps(messages))
        assert after.tainted


async def test_a_failed_run_can_be_gone_on_from_with_its_labels() -> None:
    """What a run read before it failed is still what the next one reads."""
    agent = Agent(ScriptedModel(lambda _: [("read_page", {"url": "u"})]), tools=[read_page], max_steps=1)
    with pytest.raises(StepLimitError) as raised:
        await run(agent, "Read it")
    failed = raised.value.result
    assert isinstance(failed, RunResult)
    after = await run(Agent(ScriptedModel()), "And?", history=failed)
    assert after.tainted


async def test_calls_that_were_cut_off_are_answered_when_the_conversation_goes_on() -> None:
    """Providers refuse a call without an answer; the model is told that it was interrupted, not that it failed."""
    stored = json.dumps(
        json.loads((await run(Agent(ScriptedModel(ASK_INSIDE), tools=[lookup]), "Look")).messages_json())[:2]
    )
    after = await run(Agent(ScriptedModel()), "And?", history=stored)
    answer = after.messages[2].parts[0]
    assert isinstance(answer, ToolReturnPart)
    assert (answer.tool_call_id, answer.outcome) == ("c1", "interrupted")
    assert [part.part_kind for part in after.messages[2].parts] == ["tool-return", "user-prompt"]


async def test_ids_of_earlier_calls_are_not_used_again() -> None:
    """PLL-03: a model that counts its calls from one in every run still has distinct ids in one conversation."""
    agent = Agent(ScriptedModel(ASK_OUTSIDE), tools=[read_page])
    first = await run(agent, "Read it")
    second = await run(agent, "Again", history=first)
    ids = [part.tool_call_id for one in second.messages for part in one.parts if isinstance(part, ToolCallPart)]
    assert len(ids) == len(set(ids)) == 2
    assert [entry.key for entry in second.explain() if entry.key.startswith("call:")] == [call_key(one) for one in ids]


@pytest.mark.parametrize("history", ["", "nonsense", "{}", '[{"kind": "x"}]', 5, ["x"], b"[]"])
async def test_a_history_that_is_none_is_refused_before_the_run(history: Any) -> None:
    """Stored messages are checked like any other input."""
    model = ScriptedModel()
    with pytest.raises(PreflightError, match="history"):
        await run(Agent(model), "Go", history=history)
    assert model.requests == []


async def test_messages_survive_json() -> None:
    """What a result stores can be read back and stored again unchanged."""
    result = await run(Agent(ScriptedModel(ASK_OUTSIDE), tools=[read_page]), "Read it")
    text = result.messages_json()
    assert [message.kind for message in messages_from_json(text)] == ["request", "response"] * 2
    again = await run(Agent(ScriptedModel()), "And?", history=text)
    assert again.messages_json().startswith(text[:-1])


# How a run ends


async def test_a_run_that_fails_keeps_what_it_had() -> None:
    """``error.result`` has the calls, the messages and the events; the last event says what stopped it."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            raise ConnectionError("gone")
        return ModelResponse([ToolCallPart("lookup", {"key": "a"})])

    with pytest.raises(RunError) as raised:
        await run(Agent(FunctionModel(answer), tools=[lookup]), "Go")
    result = raised.value.result
    assert isinstance(raised.value, ModelError)
    assert isinstance(result, RunResult)
    assert (result.status, result.output, len(result.calls), len(result.messages)) == ("failed", "", 1, 3)
    finished = result.events[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.status, finished.output) == ("failed", None)
    assert (finished.error or "").startswith("model: ")
    assert not result.tainted


async def test_a_stream_that_fails_ends_with_its_last_event_and_then_raises() -> None:
    """Whoever watches sees the end before the error."""
    events: list[Event] = []
    agent = Agent(ScriptedModel([[("lookup", {"key": "a"})]]), tools=[lookup], max_steps=1)

    async def watch() -> None:
        async for event in stream(agent, "Go"):
            events.append(event)

    with pytest.raises(StepLimitError):
        await watch()
    assert isinstance(events[-1], RunFinished)
    assert events[-1].status == "failed"


async def test_a_bug_in_a_model_ends_the_run_with_an_event() -> None:
    """Whatever ends a run, those who listen are told so."""
    heard: list[Event] = []
    with pytest.raises(ScriptExhaustedError):
        await run(Agent(ScriptedModel([])), "Go", on_event=heard.append)
    assert isinstance(heard[-1], RunFinished)
    assert heard[-1].status == "failed"
    assert (heard[-1].error or "").startswith("ScriptExhaustedError")


async def test_a_cancelled_run_says_so_and_cancels_its_tools() -> None:
    """CancelledError reaches the caller; the last event is that the run was cancelled."""
    started, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def hang() -> None:
        """Hang."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    heard: list[Event] = []
    running = asyncio.create_task(
        run(Agent(ScriptedModel([[("hang", {})], "ok"]), tools=[hang]), "Go", on_event=heard.append)
    )
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()
    assert isinstance(heard[-1], RunFinished)
    assert (heard[-1].status, heard[-1].error) == ("cancelled", "CancelledError")
    await settled()
    assert heard[-1].type == "run_finished"


def test_a_run_from_code_that_is_not_async() -> None:
    """``run_sync`` is ``run`` with a loop of its own, as often as one likes."""
    agent = Agent(ScriptedModel(ASK_INSIDE), tools=[lookup])
    assert [run_sync(agent, "Go").output for _ in range(2)] == ["It is a."] * 2


async def test_a_synchronous_run_inside_of_a_loop_says_what_to_write() -> None:
    """LOO-01: in a notebook the error gives the line to write, and no coroutine is left un-awaited."""
    with pytest.raises(RunningLoopError, match=r"await run\(...\)"):
        run_sync(Agent(ScriptedModel()), "Go")
