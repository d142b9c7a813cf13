"""Handrail: `run` over an `Agent` whose model is a `ScriptedModel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.contract import CallTool, RunAgent, ToolSchema
from benchmarks.workload import ANSWER, INSTRUCTIONS, Script, ToolFunction
from handrail import Agent, Toolset, run, tool
from handrail.testing import ScriptedModel

Turn = str | list[tuple[str, dict[str, Any]]]


def _model(script: Script) -> ScriptedModel:
    def turn(index: int) -> Turn:
        return [(call.name, call.args) for call in script.turn(index)] or ANSWER

    return ScriptedModel(turn, record=False)


class Handrail:
    """The public API, nothing switched off."""

    def agent(self, script: Script, tool_function: ToolFunction) -> RunAgent:
        """One agent with one tool; every run goes through the gate, the labels and the ledger."""
        agent = Agent(_model(script), instructions=INSTRUCTIONS, tools=[tool(tool_function)], max_steps=50)

        async def run_agent(prompt: str) -> str:
            return (await run(agent, prompt)).output

        return run_agent

    def schema(self, function: ToolFunction) -> ToolSchema:
        """A tool value's own schema."""
        made = tool(function)
        return ToolSchema(made.name, made.description, made.parameters)

    def gate(self, functions: Sequence[ToolFunction]) -> CallTool:
        """`Toolset.call`: the one door, without an agent loop around it."""
        toolset = Toolset.of(*functions)

        async def call(name: str, args: dict[str, Any]) -> str:
            return (await toolset.call(name, args)).wire

        return call


CONTENDER = Handrail()
