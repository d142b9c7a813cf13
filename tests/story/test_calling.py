"""Calling tools: what reaches the body, how long it may take, and what the model is told when it goes wrong."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from handrail import Agent, Call, RunResult, ToolContext, ToolError, ToolResult, Toolset, run, stream, tool
from handrail.errors import (
    ToolExecutionError,
    ToolInputError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from handrail.events import RunFinished, TextDelta, ToolCallFinished, ToolCallStarted, ToolProgress
from handrail.testing import FakeClock, ScriptedModel
from handrail.toolset import call_sync
from support.waiting import eventually, settled


@tool
def add(a: int, b: int = 10, note: str = "") -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What synchronous bodies hang on; it opens at the latest when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def script(*calls: Any, answer: str = "Done.") -> ScriptedModel:
    """A model that makes these calls in one turn, and then answers."""
    return ScriptedModel([list(calls), answer])


async def finish(agent: Agent, clock: FakeClock, *, streamed: bool) -> list[ToolCallFinished]:
    """Run an agent in one of the two ways, and give how its calls ended."""
    if not streamed:
        events = (await run(agent, "Go", clock=clock)).events
    else:
        events = tuple([event async for event in stream(agent, "Go", clock=clock)])
    return [event for event in events if isinstance(event, ToolCallFinished)]


# What reaches the body


class Address(BaseModel):
    street: str
    number: int = 1


@pytest.mark.promise("cycgraph-2.11", "flue-15", "agentflow-28")
async def test_the_body_gets_what_its_annotations_say() -> None:
    """I annotate a model, a date and a duration, and my body gets them: parsed, converted, with defaults."""
    seen: list[Any] = []

    @tool
    def book(to: Address, on: date, within: timedelta = timedelta(hours=1), tags: frozenset[str] = frozenset()) -> None:
        """Book a parcel."""
        seen.extend([to, on, within, tags])

    tools = Toolset.of(book)
    sent = {"to": {"street": "Main"}, "on": "2026-03-01", "tags": ["a", "b"]}
    assert (await tools.call("book", sent)).code is None
    assert seen == [Address(street="Main", number=1), date(2026, 3, 1), timedelta(hours=1), frozenset({"a", "b"})]
    assert sent == {"to": {"street": "Main"}, "on": "2026-03-01", "tags": ["a", "b"]}


@pytest.mark.promise("flue-15")
async def test_the_body_sees_what_a_validator_made() -> None:
    """I let an annotation clean up what the model sends, and my body sees the clean value."""

    @tool
    def greet(name: Annotated[str, AfterValidator(str.strip)]) -> str:
        """Greet somebody."""
        return f"Hello {name}!"

    assert (await Toolset.of(greet).call("greet", {"name": "  Ada "})).value == "Hello Ada!"


@pytest.mark.promise("cycgraph-2.12", "cycgraph-2.17", "flue-10", "agentflow-35")
async def test_wrong_arguments_never_reach_the_body_and_the_model_corrects_itself() -> None:
    """The model sends a wrong type, then leaves one out, then gets it right; my body runs once."""
    ran: list[int] = []

    @tool(timeout=5)
    def charge(cents: int) -> str:
        """Charge an account."""
        ran.append(cents)
        return "charged"

    model = ScriptedModel([[("charge", {"cents": "many"})], [("charge", {})], [("charge", {"cents": 5})], "Charged."])
    result = await run(Agent(model, tools=[charge]), "Charge it", clock=FakeClock())
    assert [call.code for call in result.calls] == ["invalid_arguments", "invalid_arguments", None]
    assert result.calls[0].wire == "invalid arguments for charge: cents: Input should be a valid integer"
    assert result.calls[1].wire == "invalid arguments for charge: cents: required, and missing"
    assert [call.retry for call in result.calls[:2]] == [True, True]
    assert (ran, result.output) == ([5], "Charged.")


@pytest.mark.promise("flue-11")
async def test_the_error_names_every_wrong_field_and_repeats_none() -> None:
    """The model gets several fields wrong at once: it reads each of them, and nothing of what it sent."""

    @tool
    def book(to: Address, on: date, copies: Annotated[int, AfterValidator(lambda n: n)]) -> None:
        """Book a parcel."""

    sent = {"to": {"street": 5, "number": "hunter2"}, "on": "hunter2", "copies": [1]}
    result = await Toolset.of(book).call("book", sent)
    assert result.code == "invalid_arguments"
    assert result.wire.startswith("invalid arguments for book: ")
    for path in ("to.street", "to.number", "on", "copies"):
        assert f"{path}: " in result.wire
    assert "hunter2" not in result.wire


@pytest.mark.promise("flue-12", "agentflow-28")
@pytest.mark.parametrize("bad", [None, "abc", "3.5", 1.5, True, [1], {"a": 1}, "", "1e3", "0x10"])
async def test_an_integer_is_an_integer(bad: Any) -> None:
    """The model sends something else for a number; it does not become 0 or 1, and does not reach my body."""
    assert (await Toolset.of(add).call("add", {"a": bad})).code == "invalid_arguments"


@pytest.mark.promise("flue-12", "agentflow-28")
async def test_plain_types_are_checked() -> None:
    """Text, booleans and lists are checked as well: null is no text, and the word false is not true."""

    @tool
    def act(text: str = "t", flag: bool = True, many: list[int] | None = None) -> list[Any]:
        """Act."""
        return [text, flag, many]

    tools = Toolset.of(act)
    for bad in ({"text": 5}, {"text": True}, {"flag": 1}, {"flag": "no"}, {"many": "notalist"}, {"many": ["x"]}):
        assert (await tools.call("act", bad)).code == "invalid_arguments", bad
    assert (await tools.call("act", {"flag": "false"})).value == ["t", False, None]


@pytest.mark.promise("flue-12")
async def test_a_repair_has_one_reading_and_is_recorded() -> None:
    """The model wraps a number in quotes and sends null for an option: the call runs, and I see what was repaired."""
    result = await Toolset.of(add).call("add", '{"a": "2", "note": null}')
    assert result.value == 12
    assert result.repairs == ("a: text read as an integer", "note: null for an optional argument: left out")


@pytest.mark.promise("flue-13")
@pytest.mark.parametrize("nothing", [None, "", "{}", "null", {}])
async def test_no_arguments_in_any_spelling(nothing: Any) -> None:
    """My tool takes nothing, and however the model says nothing, it runs; anything else is refused."""

    @tool
    def ping() -> str:
        """Answer."""
        return "pong"

    tools = Toolset.of(ping)
    assert (await tools.call("ping", nothing)).value == "pong"
    assert (await tools.call("ping", {"x": 1})).code == "invalid_arguments"


@pytest.mark.promise("cycgraph-2.11", "flue-14", "agentflow-27")
async def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    """The model misspells an optional argument; it is told, instead of getting another answer than it asked for."""
    result = await Toolset.of(add).call("add", {"a": 1, "B": 2})
    assert result.code == "invalid_arguments"
    assert "did you mean 'b'?" in result.wire


@pytest.mark.promise("agentflow-27")
async def test_every_kind_of_parameter_works() -> None:
    """My function has positional-only and keyword-only parameters, and takes any keyword: all of them arrive."""

    @tool
    def order(item: str, /, count: int, *, gift: bool = False, **extras: str) -> dict[str, Any]:
        """Order something."""
        return {"item": item, "count": count, "gift": gift, **extras}

    tools = Toolset.of(order)
    sent = {"item": "pen", "count": 2, "gift": True, "colour": "blue"}
    assert (await tools.call("order", sent)).value == sent
    assert (await tools.call("order", {"item": "pen", "count": 2, "colour": 5})).code == "invalid_arguments"


@pytest.mark.promise("agentflow-56")
@pytest.mark.parametrize("streamed", [False, True], ids=["run", "stream"])
@pytest.mark.parametrize("text", ['{"a": ', "not json", "[1]", '{"a": NaN}', "5"])
async def test_arguments_that_are_no_json_object(streamed: bool, text: str) -> None:
    """The model sends broken arguments: an error that it can correct, whichever way I run the agent."""
    agent = Agent(script(("add", text)), tools=[add])
    (done,) = await finish(agent, FakeClock(), streamed=streamed)
    assert done.code == "invalid_arguments"
    assert done.wire.startswith("invalid arguments for add: ")


# Who may call, and how


@pytest.mark.promise("cycgraph-2.23")
async def test_a_tool_in_a_unit_test() -> None:
    """I test my tool as the model would call it, from a test that is async; the bare function is there too."""

    @tool(timeout=0.05)
    async def hang(n: int) -> None:
        """Hang."""
        await asyncio.Event().wait()

    tools = Toolset.of(add, hang)
    assert (await tools.call("add", {"a": 1})).value == 11
    assert (await tools.call("add", {"a": "x"})).code == "invalid_arguments"
    assert (await tools.call("hang", {"n": 1})).code == "timeout"
    assert add(1, 2) == 3


@pytest.mark.promise("cycgraph-2.23")
def test_a_tool_in_a_unit_test_that_is_not_async() -> None:
    """I test my tool from a plain function."""
    assert call_sync(Toolset.of(add), "add", {"a": 1, "b": 2}).value == 3


@pytest.mark.promise("agentflow-24", "cycgraph-2.21")
async def test_a_direct_call_with_an_id_and_a_context() -> None:
    """I call a tool as a model's call would be, with the ids and the dependencies of my application."""

    @tool
    def whoami(ctx: ToolContext[str]) -> list[str | None]:
        """Tell who is asking."""
        return [ctx.call_id, ctx.run_id, ctx.agent_id, ctx.instance_id, ctx.tool, ctx.deps, ctx.memory["plan"]]

    context = ToolContext("", "run_1", "clerk", "ada", deps="the shop", memory={"plan": "wait"})
    result = await Toolset.of(whoami).call("whoami", {}, call_id="call_abc123", context=context)
    assert (result.call_id, result.name, result.is_error) == ("call_abc123", "whoami", False)
    assert result.value == ["call_abc123", "run_1", "clerk", "ada", "whoami", "the shop", "wait"]


@pytest.mark.promise("cycgraph-2.21")
async def test_the_context_of_a_run() -> None:
    """My tool knows which run and which agent it works for, reads the memory, and reports how far it is."""
    seen: list[Any] = []

    @tool
    def work(ctx: ToolContext[dict[str, int]]) -> str:
        """Work."""
        seen.extend([ctx.run_id, ctx.agent_id, ctx.instance_id, ctx.deps, dict(ctx.memory), bool(ctx.cancelled)])
        ctx.progress(1, 2, "half")
        with pytest.raises(TypeError):
            ctx.memory["x"] = 1  # pyright: ignore[reportIndexIssue]
        return ctx.log.name

    result = await run(
        Agent(script(("work", {})), id="clerk", tools=[work]), "Go",
        run_id="run_7", instance_id="ada", deps={"n": 1}, memory={"k": [1]},
    )  # fmt: skip
    assert seen == ["run_7", "clerk", "ada", {"n": 1}, {"k": [1]}, False]
    assert result.calls[0].value == "handrail.tool.work"


@pytest.mark.promise("cycgraph-2.21")
async def test_progress_is_an_event() -> None:
    """I follow a streamed run and see how far an async tool is."""

    @tool
    async def work(ctx: ToolContext) -> str:
        """Work."""
        ctx.progress(1, 2, "half")
        return "ok"

    events = [event async for event in stream(Agent(script(("work", {})), tools=[work]), "Go")]
    told = [(event.progress, event.total, event.message) for event in events if isinstance(event, ToolProgress)]
    assert told == [(1, 2, "half")]


@pytest.mark.promise("flue-37")
async def test_a_tool_is_bound_to_the_instance_that_is_addressed() -> None:
    """One agent serves all my customers: the model picks an order, and never the customer."""
    owners = {"order_1": "ada", "order_2": "grace"}

    @tool
    def my_order(order_id: str, ctx: ToolContext) -> str:
        """Look up one of the customer's own orders."""
        return "packed" if owners.get(order_id) == ctx.instance_id else "No such order of yours."

    agent = Agent(
        script(("my_order", {"order_id": "order_1"}), ("my_order", {"order_id": "order_2"})), tools=[my_order]
    )
    for customer, expected in (
        ("ada", ["packed", "No such order of yours."]),
        ("eve", ["No such order of yours."] * 2),
    ):
        result = await run(agent, "Where are they?", instance_id=customer)
        assert [call.value for call in result.calls] == expected
    forged = await Toolset.of(my_order).call("my_order", {"order_id": "order_1", "instance_id": "ada"})
    assert forged.code == "invalid_arguments"


@pytest.mark.promise("flue-37")
async def test_a_tool_may_close_over_the_instance() -> None:
    """I make an agent for each customer, with tools that close over who it is."""

    def desk(customer: str) -> Agent:
        @tool
        def who() -> str:
            """Tell whose desk this is."""
            return customer

        return Agent(script(("who", {})), tools=[who])

    results = await asyncio.gather(*(run(desk(name), "Who?") for name in ("ada", "bob")))
    assert [result.calls[0].value for result in results] == ["ada", "bob"]


# Names


@pytest.mark.promise("flue-25", "agentflow-34")
async def test_an_unknown_tool_is_answered_with_the_nearest() -> None:
    """The model makes up a name; it reads the one that it meant, and the run goes on."""
    result = await run(Agent(script(("ad", {"a": 1}), ("xyzzy", {})), tools=[add]), "Add")
    assert [call.code for call in result.calls] == ["unknown_tool", "unknown_tool"]
    assert result.calls[0].wire == "there is no tool 'ad'; did you mean 'add'?"
    assert result.calls[1].wire == "there is no tool 'xyzzy'; available tools: add"
    assert result.output == "Done."


@pytest.mark.promise("flue-36")
async def test_names_are_compared_letter_by_letter() -> None:
    """Two tools differ in case only: each is called by its own name, and a third spelling is unknown."""

    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    def whisper(text: str) -> str:
        """Say it quietly."""
        return text.lower()

    tools = Toolset.of(tool(shout, name="SAY"), tool(whisper, name="say"))
    assert [(await tools.call(name, {"text": "Hi"})).value for name in ("SAY", "say")] == ["HI", "hi"]
    assert (await tools.call("Say", {"text": "Hi"})).code == "unknown_tool"


@pytest.mark.promise("agentflow-43")
async def test_a_renamed_tool_is_called_by_its_new_name() -> None:
    """I give my tool another name, in any of three ways: the model sees that name, and calling it runs my function."""

    @tool(name="sum_up")
    def body(a: int) -> int:
        """Add up."""
        return a

    tools = Toolset.of(body, add.rename("plus")).rename({"plus": "more"})
    assert [one["name"] for one in tools.schemas()] == ["sum_up", "more"]
    assert (await tools.call("sum_up", {"a": 4})).value == 4
    assert (await tools.call("more", {"a": 4})).value == 14
    assert (await tools.call("body", {"a": 4})).code == "unknown_tool"

    result = await run(Agent(script(("sum_up", {"a": 2})), tools=[body]), "Add")
    assert result.calls[0].value == 2


@pytest.mark.promise("agentflow-60")
async def test_no_prefix_of_a_name_is_magic() -> None:
    """My bank has a tool whose name starts with transfer_to_: it runs, beside others, like any tool."""
    moved: list[int] = []

    @tool
    def transfer_to_savings(amount: int) -> str:
        """Move money to the savings account."""
        moved.append(amount)
        return "moved"

    @tool
    def balance() -> int:
        """Tell the balance."""
        return 100

    model = script(("transfer_to_savings", {"amount": 5}), ("balance", {}))
    result = await run(Agent(model, tools=[transfer_to_savings, balance]), "Save 5")
    assert moved == [5]
    assert [call.value for call in result.calls] == ["moved", 100]
    assert result.output == "Done."


@pytest.mark.promise("flue-33")
async def test_no_hidden_tools_and_no_reserved_words() -> None:
    """My tools are called task and finish; they are offered, and nothing else is."""

    def named(name: str) -> Any:
        @tool(name=name)
        def do() -> str:
            """Do it."""
            return name

        return do

    names = ["task", "finish", "give_up", "read", "bash", "activate_skill"]
    model = script(("finish", {}))
    result = await run(Agent(model, tools=[named(name) for name in names]), "Go", memory={})
    assert model.requests[0] == tuple(names)
    assert result.calls[0].value == "finish"


# Failures of the body


@pytest.mark.promise("cycgraph-2.18", "flue-24", "agentflow-25")
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_bodies_of_both_kinds_may_fail(kind: str) -> None:
    """My tool works or fails, sync or async: the conversation goes on either way."""

    def work(fail: bool) -> str:
        """Work."""
        if fail:
            raise ValueError("the disk is full")
        return "ok"

    async def work_async(fail: bool) -> str:
        """Work."""
        await asyncio.sleep(0)
        return work(fail)

    made = tool(work if kind == "sync" else work_async, name="work")
    result = await run(Agent(script(("work", {"fail": False}), ("work", {"fail": True})), tools=[made]), "Go")
    assert [call.code for call in result.calls] == [None, "tool_error"]
    assert (result.status, result.output) == ("completed", "Done.")


@pytest.mark.promise("agentflow-32", "flue-24")
async def test_what_the_model_reads_of_an_exception() -> None:
    """My database's error holds a password; the model does not read it, and I do."""

    @tool
    def query() -> str:
        """Query the database."""
        raise ConnectionError("postgres://admin:hunter2@db/orders refused, see /var/log/app.log")

    result = await Toolset.of(query).call("query", call_id="c1")
    assert result.wire == "query failed with ConnectionError (call c1)"
    assert "hunter2" in result.message
    exposed = Toolset.of(tool(query.body, expose_errors=True))
    assert "hunter2" in (await exposed.call("query")).wire


@pytest.mark.promise("agentflow-32", "flue-24")
async def test_an_author_speaks_to_the_model() -> None:
    """I know what the model should do next, and say it word for word, also that trying again is useless."""

    @tool
    def order(order_id: str) -> str:
        """Look up an order."""
        raise ToolError(f"No order {order_id}. Ask for the number on the invoice.", retry=False)

    result = await Toolset.of(order).call("order", {"order_id": "7"})
    assert (result.code, result.retry) == ("tool_error", False)
    assert result.wire == "No order 7. Ask for the number on the invoice."


@pytest.mark.promise("cycgraph-2.19", "agentflow-34")
async def test_a_program_may_ask_for_exceptions() -> None:
    """In my own code I want exceptions: each has a type, the result, and the cause in its text."""

    @tool
    def fail() -> None:
        """Fail."""
        raise KeyError("colour")

    @tool(timeout=0.01)
    async def hang() -> None:
        """Hang."""
        await asyncio.Event().wait()

    tools = Toolset.of(add, fail, hang)
    for name, arguments, kind in (
        ("ad", {}, ToolNotFoundError),
        ("add", {"a": "x"}, ToolInputError),
        ("fail", {}, ToolExecutionError),
        ("hang", {}, ToolTimeoutError),
    ):
        with pytest.raises(kind) as caught:
            await tools.call(name, arguments, raise_on_error=True)
        assert isinstance(caught.value.result, ToolResult)
        assert caught.value.result.code == caught.value.code
    with pytest.raises(ToolExecutionError, match="KeyError: 'colour'"):
        await tools.call("fail", raise_on_error=True)
    with pytest.raises(KeyError):
        fail()


@pytest.mark.promise("agentflow-36")
@pytest.mark.parametrize(
    "error", [SystemExit(1), asyncio.CancelledError(), GeneratorExit(), RecursionError(), StopIteration()]
)
async def test_a_call_survives_whatever_the_body_does(error: BaseException) -> None:
    """My tool calls a library that exits or cancels itself: the call is an error, and the run goes on."""

    @tool
    async def wild() -> None:
        """Do something wild."""
        raise error

    result = await run(Agent(script(("wild", {}), ("add", {"a": 1})), tools=[wild, add]), "Go")
    assert [call.code for call in result.calls] == ["tool_error", None]
    assert result.output == "Done."


@pytest.mark.promise("agentflow-36")
@pytest.mark.parametrize("arguments", [None, "", [], 5, "[]", b"{}", object(), {1: 2}])
async def test_a_call_survives_whatever_is_sent(arguments: Any) -> None:
    """Whatever stands in place of the arguments, I get a result and never an exception."""
    result = await Toolset.of(add).call("add", arguments)
    assert result.code == "invalid_arguments"


# Time


@pytest.mark.promise("cycgraph-2.13", "cycgraph-2.16", "flue-27")
async def test_thirty_seconds_are_the_default() -> None:
    """My tool hangs: after thirty seconds the model is told which tool did not answer, and the run goes on."""
    started = asyncio.Event()

    @tool
    async def hang() -> None:
        """Hang."""
        started.set()
        await asyncio.Event().wait()

    clock = FakeClock()
    task = asyncio.create_task(run(Agent(script(("hang", {})), tools=[hang]), "Go", clock=clock))
    await started.wait()
    await settled()
    clock.advance(29.9)
    await settled()
    assert not task.done()
    clock.advance(0.2)
    result = await task
    assert (result.calls[0].code, result.calls[0].wire) == ("timeout", "hang did not answer within 30 s")
    assert result.output == "Done."


@pytest.mark.promise("cycgraph-2.14", "flue-27", "agentflow-44", "agentflow-57")
@pytest.mark.parametrize("streamed", [False, True], ids=["run", "stream"])
async def test_a_tool_sets_its_own_limit(streamed: bool) -> None:
    """I give one tool half a second and another one all the time it wants; both hold in a streamed run too."""
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool(timeout=0.5)
    async def short() -> str:
        """Hang for a short time."""
        await asyncio.Event().wait()
        return "short"

    @tool(timeout=0)
    async def endless() -> str:
        """Take all the time."""
        started.set()
        await go_on.wait()
        return "endless"

    clock = FakeClock()
    agent = Agent(script(("short", {}), ("endless", {})), tools=[short, endless])
    task = asyncio.create_task(finish(agent, clock, streamed=streamed))
    await started.wait()
    await settled()
    clock.advance(0.6)
    await settled()
    clock.advance(1_000_000)
    await settled()
    assert not task.done()
    go_on.set()
    ended = {event.tool: (event.code, event.wire) for event in await task}
    assert ended == {"short": ("timeout", "short did not answer within 0.5 s"), "endless": (None, "endless")}


@pytest.mark.promise("cycgraph-2.20")
async def test_an_async_body_that_is_late_is_cancelled() -> None:
    """My tool is late: it is cancelled, and its finaliser runs."""
    started, cleaned = asyncio.Event(), asyncio.Event()

    @tool(timeout=1)
    async def slow() -> None:
        """Be slow."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    clock = FakeClock()
    task = asyncio.create_task(run(Agent(script(("slow", {})), tools=[slow]), "Go", clock=clock))
    await started.wait()
    await settled()
    clock.advance(2)
    result = await task
    assert result.calls[0].code == "timeout"
    await asyncio.wait_for(cleaned.wait(), 5)


@pytest.mark.promise("cycgraph-2.20", "flue-16")
async def test_a_synchronous_body_is_told_that_nobody_waits(gate: threading.Event) -> None:
    """My tool works in a thread that nobody can stop: the answer comes in time, and the body can find out and stop."""
    started, stopped = threading.Event(), threading.Event()

    @tool(timeout=1)
    def slow(ctx: ToolContext) -> None:
        """Be slow."""
        started.set()
        if ctx.cancelled.wait(10):
            stopped.set()

    clock = FakeClock()
    task = asyncio.create_task(run(Agent(script(("slow", {})), tools=[slow]), "Go", clock=clock))
    await eventually(started.is_set)
    clock.advance(2)
    result = await task
    assert result.calls[0].wire == "slow did not answer within 1 s; its work may still be running"
    await eventually(stopped.is_set)


@pytest.mark.promise("agentflow-58")
async def test_hung_bodies_starve_nobody(gate: threading.Event) -> None:
    """Dozens of synchronous bodies hang past their limit, and the next small tool answers all the same."""
    waiting = threading.Semaphore(0)

    @tool(timeout=1)
    def hang() -> None:
        """Hang."""
        waiting.release()
        gate.wait(30)

    clock = FakeClock()
    agent = Agent(script(*[("hang", {})] * 8), tools=[hang])
    task = asyncio.create_task(run(agent, "Go", clock=clock))
    for _ in range(8):
        await eventually(lambda: waiting.acquire(blocking=False))
    clock.advance(2)
    assert {call.code for call in (await task).calls} == {"timeout"}
    assert (await Toolset.of(add).call("add", {"a": 1})).value == 11


@pytest.mark.promise("flue-28")
async def test_stopping_a_run_does_not_wait_for_a_deaf_tool(gate: threading.Event) -> None:
    """I stop a run while a tool is deaf to the signal: the run stops, and the tool does not hold me."""
    started = threading.Event()

    @tool
    def deaf() -> None:
        """Hear nothing."""
        started.set()
        gate.wait(30)

    task = asyncio.create_task(run(Agent(script(("deaf", {})), tools=[deaf]), "Go"))
    await eventually(started.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)
    assert not gate.is_set()


# Side by side


@pytest.mark.promise("flue-26", "agentflow-54", "agentflow-25")
async def test_calls_of_one_turn_run_together() -> None:
    """Three calls wait for each other, in the event loop and in threads; their results stand in call order."""
    met, met_in_threads = asyncio.Barrier(2), threading.Barrier(2)

    @tool
    async def meet(n: int) -> int:
        """Meet."""
        await met.wait()
        return n

    @tool
    def meet_in_thread(n: int) -> int:
        """Meet in a thread."""
        met_in_threads.wait(10)
        return n

    @tool
    def fail() -> None:
        """Fail."""
        raise OSError

    calls: list[tuple[str, dict[str, int]]] = [
        ("meet", {"n": 0}),
        ("fail", {}),
        ("meet_in_thread", {"n": 2}),
        ("meet", {"n": 3}),
        ("meet_in_thread", {"n": 4}),
    ]
    result = await run(Agent(script(*calls), tools=[meet, meet_in_thread, fail]), "Go")
    assert [call.value for call in result.calls] == [0, None, 2, 3, 4]
    assert result.calls[1].code == "tool_error"


@pytest.mark.promise("flue-26")
async def test_a_sequential_tool_makes_its_turn_wait() -> None:
    """One of my tools must not run beside others: with it in a turn, each call waits for the one before."""
    steps: list[str] = []

    async def step(name: str) -> None:
        """Take a step."""
        steps.append(f"{name} starts")
        await settled()
        steps.append(f"{name} ends")

    result = await run(
        Agent(
            script(("walk", {"name": "a"}), ("careful", {"name": "b"}), ("walk", {"name": "c"})),
            tools=[tool(step, name="walk"), tool(step, name="careful", sequential=True)],
        ),
        "Go",
    )
    assert result.output == "Done."
    assert steps == ["a starts", "a ends", "b starts", "b ends", "c starts", "c ends"]


@pytest.mark.promise("cycgraph-2.22")
async def test_a_cap_on_concurrent_calls() -> None:
    """My service takes two requests at once; ten calls of one turn keep to that, and all are answered."""
    running, peak = 0, 0

    @tool(max_concurrency=2)
    async def ask(n: int) -> int:
        """Ask the service."""
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await settled()
        running -= 1
        return n

    results = await Toolset.of(ask).call_all([Call("ask", {"n": n}) for n in range(10)])
    assert [result.value for result in results] == list(range(10))
    assert peak == 2


@pytest.mark.promise("agentflow-25")
async def test_a_synchronous_body_does_not_block_the_loop() -> None:
    """While my synchronous tool works, other things in the loop go on."""
    other_ran = threading.Event()

    @tool
    def work() -> bool:
        """Work."""
        return other_ran.wait(10)

    async def other() -> None:
        other_ran.set()

    result, _ = await asyncio.gather(Toolset.of(work).call("work"), other())
    assert result.value is True


# What happened


@pytest.mark.promise("agentflow-37", "agentflow-54")
async def test_a_streamed_run_reports_each_call_once() -> None:
    """I follow a run: each call starts once and ends once, under its own id, and the last event is the end."""
    agent = Agent(script(("add", {"a": 1}, "same"), ("add", {"a": 2}, "same"), answer="Three."), tools=[add])
    events = [event async for event in stream(agent, "Add")]
    started = [event.call_id for event in events if isinstance(event, ToolCallStarted)]
    ended = [event.call_id for event in events if isinstance(event, ToolCallFinished)]
    assert len(started) == len(set(started)) == 2
    assert sorted(started) == sorted(ended)
    assert [event.wire for event in events if isinstance(event, ToolCallFinished)] == ["11", "12"]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Three."
    assert isinstance(events[-1], RunFinished)


@pytest.mark.promise("agentflow-33")
async def test_the_provider_is_told_that_a_call_failed() -> None:
    """What goes back to the provider says of each call whether it failed, beside the text."""

    @tool
    def give_up() -> None:
        """Give up."""
        raise ToolError("It is closed.", retry=False)

    result = await run(Agent(script(("add", {"a": 1}), ("add", {}), ("give_up", {})), tools=[add, give_up]), "Go")
    assert outcomes(result) == ["success", "retried", "failed"]


def outcomes(result: RunResult) -> list[str]:
    """What the conversation says of each call."""
    messages = json.loads(result.messages_json())
    return [part["outcome"] for one in messages for part in one["parts"] if part["part_kind"] == "tool-return"]


@pytest.mark.promise("cycgraph-2.36")
async def test_runs_at_the_same_time_keep_apart() -> None:
    """Two runs of one agent at once: each has its own calls, labels and memory."""
    both = asyncio.Barrier(2)

    @tool(taints=True)
    async def read(ctx: ToolContext) -> str:
        """Read something."""
        await both.wait()
        return f"for {ctx.instance_id}"

    agent = Agent(script(("read", {}, "call_1")), tools=[read])
    first, second = await asyncio.gather(*(run(agent, "Go", instance_id=name) for name in ("ada", "bob")))
    for result, name in ((first, "ada"), (second, "bob")):
        assert [call.value for call in result.calls] == [f"for {name}"]
        assert [entry.key for entry in result.provenance] == ["call:call_1", "output"]
