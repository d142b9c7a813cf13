"""The scenarios: what is run, how many units it has, and what must have happened for the row to count."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.contract import Contender, RunAgent, ToolSchema
from benchmarks.functions import Fresh, fresh_functions
from benchmarks.workload import ANSWER, PROMPT, TALLY, Script, lookup_order


@dataclass(frozen=True, slots=True)
class Work:
    """One batch: `prepare` runs off the clock, `run` on it, `check` says what was wrong (or nothing)."""

    units: int
    run: Callable[[Any], Awaitable[Any]]
    check: Callable[[Any], str | None]
    prepare: Callable[[], Any] = lambda: None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario as the report names it; one without `work` is measured by starting processes."""

    key: str
    title: str
    unit: str
    work: Callable[[Contender], Work] | None = None
    stage: str = ""


def _agent_work(contender: Contender, script: Script, runs: int, units: int, *, together: bool) -> Work:
    agent = contender.agent(script, lookup_order)
    expected = (runs * script.calls, runs * script.turns, runs * script.quantity)
    start = _together if together else _in_turn

    def check(answers: list[str]) -> str | None:
        happened = (TALLY.calls, TALLY.turns, TALLY.quantity)
        if happened != expected:
            return f"calls, turns, sum were {happened}, not {expected}"
        return None if answers == [ANSWER] * runs else "a run gave another answer"

    return Work(units, lambda _: start(agent, runs), check)


async def _in_turn(agent: RunAgent, runs: int) -> list[str]:
    return [await agent(PROMPT) for _ in range(runs)]


async def _together(agent: RunAgent, runs: int) -> list[str]:
    return list(await asyncio.gather(*(agent(PROMPT) for _ in range(runs))))


def sequential_turns(contender: Contender) -> Work:
    """S1: twenty model turns, nineteen with one call each and the answer; 20 such runs a batch."""
    return _agent_work(contender, Script.of(19), runs=20, units=20 * 20, together=False)


def parallel_calls(contender: Contender) -> Work:
    """S2: 200 calls asked for in one turn; 5 such runs a batch."""
    return _agent_work(contender, Script.of(1, 200), runs=5, units=5 * 200, together=False)


def concurrent_runs(contender: Contender) -> Work:
    """S3: 1,000 runs of three model turns (two calls and the answer) on one agent at the same time."""
    return _agent_work(contender, Script.of(2), runs=1000, units=1000, together=True)


def gate_alone(contender: Contender) -> Work:
    """S2b: 2,000 calls one after another through the tool layer, without agent or model."""
    call = contender.gate([lookup_order])
    args = [dict(Script.of(1, 50).tool_turns[0][index % 50].args) for index in range(2000)]
    total = sum(each["quantity"] for each in args)

    async def run(_: Any) -> list[str]:
        return [await call("lookup_order", each) for each in args]

    def check(texts: list[str]) -> str | None:
        if (TALLY.calls, TALLY.quantity) != (len(args), total):
            return f"calls, sum were {(TALLY.calls, TALLY.quantity)}, not {(len(args), total)}"
        sent = [(each["order_id"], each["quantity"]) for each in args]
        read = [(value["order_id"], value["quantity"]) for value in map(json.loads, texts)]
        return None if read == sent else "a result was another one"

    return Work(len(args), run, check)


def schemas(contender: Contender) -> Work:
    """S4: 500 functions never seen before, each to the JSON schema a provider gets."""
    batches = itertools.count()
    current: list[Fresh] = []

    def prepare() -> list[Fresh]:
        current[:] = fresh_functions(500, next(batches))
        return current

    async def run(functions: list[Fresh]) -> list[ToolSchema]:
        return [contender.schema(each.function) for each in functions]

    def check(made: list[ToolSchema]) -> str | None:
        return next(filter(None, map(_wrong_schema, made, current)), None)

    return Work(500, run, check, prepare)


def _wrong_schema(schema: ToolSchema, source: Fresh) -> str | None:
    name = source.function.__name__
    properties = schema.parameters.get("properties", {})
    if schema.name != name or frozenset(properties) != source.parameters:
        return f"the schema of {name} lacks a name or a parameter"
    return None if f"Do what {name}" in schema.description else f"{name} has no description"


def first_calls(contender: Contender) -> Work:
    """S4b: 500 functions never seen before, each made callable and called once: what laziness put off."""
    batches = itertools.count(1000)

    async def run(functions: list[Fresh]) -> list[str]:
        call = contender.gate([each.function for each in functions])
        return [await call(each.function.__name__, each.args) for each in functions]

    def check(texts: list[str]) -> str | None:
        return None if len(texts) == 500 and all("done" in text for text in texts) else "a call failed"

    return Work(500, run, check, lambda: fresh_functions(500, next(batches)))


SCENARIOS: dict[str, Scenario] = {
    scenario.key: scenario
    for scenario in (
        Scenario("S1", "twenty sequential turns, one tool", "turn", sequential_turns),
        Scenario("S2", "200 parallel calls in one turn", "call", parallel_calls),
        Scenario("S2b", "the tool layer alone, 2,000 calls in a row", "call", gate_alone),
        Scenario("S3", "1,000 concurrent runs of three turns", "run", concurrent_runs),
        Scenario("S4", "JSON schemas of 500 fresh functions", "tool", schemas),
        Scenario("S4b", "500 fresh functions, each called once", "tool", first_calls),
        Scenario("S5a", "fresh process: the import alone", "start", stage="import"),
        Scenario("S5", "fresh process: import, one agent with one tool", "start", stage="agent"),
        Scenario("S5b", "fresh process: the same and a first run of two turns", "start", stage="run"),
    )
}
