"""What tests build on: a model that follows a script."""

from __future__ import annotations

import asyncio

import pytest

from handrail import Agent, Toolset, run, tool
from handrail.testing import ScriptedModel, ScriptExhaustedError


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


async def test_a_script_is_followed_turn_by_turn() -> None:
    """Calls, calls with an id, text with calls, and text that ends the run."""
    first = [("echo", {"text": "a"}, "mine"), ("echo", '{"text": "b"}')]
    model = ScriptedModel([first, ["I look again.", ("echo", {"text": "c"})], "Done."])
    result = await run(Agent(model, tools=[echo]), "Go")
    assert [call.value for call in result.calls] == ["a", "b", "c"]
    assert result.calls[0].call_id == "mine"
    assert result.output == "Done."
    assert model.requests == [("echo",)] * 3


async def test_a_script_may_be_a_function_of_the_turn() -> None:
    """The function is asked with the number of the turn, from 0."""
    asked: list[int] = []

    def turn(number: int) -> object:
        asked.append(number)
        return [("echo", {"text": str(number)})] if number < 2 else "Done."

    result = await run(Agent(ScriptedModel(turn), tools=[echo]), "Go")
    assert (asked, [call.value for call in result.calls]) == ([0, 1, 2], ["0", "1"])


async def test_a_script_that_is_too_short_says_so() -> None:
    """A test that asks the model once too often fails with the reason, not with a model's error."""
    with pytest.raises(ScriptExhaustedError, match="1 turns"):
        await run(Agent(ScriptedModel([[("echo", {"text": "a"})]]), tools=[echo]), "Go")


async def test_one_scripted_model_serves_many_runs_at_once() -> None:
    """Each conversation starts at the first turn, also one that goes on from an earlier run."""
    agent = Agent(ScriptedModel([[("echo", {"text": "a"})], "Done."]), tools=[echo])
    results = await asyncio.gather(*(run(agent, "Go") for _ in range(20)))
    assert {result.output for result in results} == {"Done."}
    again = await run(agent, "Once more", history=results[0])
    assert len(again.calls) == 1


async def test_the_default_script_is_done_at_once() -> None:
    """A model whose words do not matter needs no script."""
    assert (await run(Agent(ScriptedModel()), "Go")).output == "Done."


async def test_what_is_not_recorded_costs_nothing() -> None:
    """A model for measuring keeps no list of what it was asked."""
    model = ScriptedModel(record=False)
    await run(Agent(model), "Go")
    assert model.requests == []
    assert model.name == "scripted"


async def test_a_tool_is_tested_without_any_model() -> None:
    """A tool can be called as a function, or through the gate."""
    assert echo("a") == "a"
    assert (await Toolset.of(echo).call("echo", {"text": "a"})).value == "a"
