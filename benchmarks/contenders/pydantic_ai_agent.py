"""pydantic-ai's `Agent` on its own `FunctionModel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai import Agent, FunctionToolset, RunContext, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.usage import RunUsage

from benchmarks.contract import CallTool, RunAgent, ToolSchema
from benchmarks.workload import ANSWER, INSTRUCTIONS, Script, ToolFunction


def _model(script: Script) -> FunctionModel:
    async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        calls = script.turn(sum(isinstance(message, ModelResponse) for message in messages))
        if not calls:
            return ModelResponse(parts=[TextPart(ANSWER)])
        return ModelResponse(parts=[ToolCallPart(c.name, c.args, tool_call_id=c.id) for c in calls])

    return FunctionModel(respond)


class PydanticAI:
    """The agent as its documentation builds it."""

    def agent(self, script: Script, tool: ToolFunction) -> RunAgent:
        """One `Agent` with one tool."""
        agent = Agent(_model(script), instructions=INSTRUCTIONS, tools=[Tool(tool)])

        async def run(prompt: str) -> str:
            return (await agent.run(prompt)).output

        return run

    def schema(self, function: ToolFunction) -> ToolSchema:
        """`Tool(function).tool_def`."""
        definition = Tool(function).tool_def
        return ToolSchema(definition.name, definition.description or "", definition.parameters_json_schema)

    def gate(self, functions: Sequence[ToolFunction]) -> CallTool:
        """A `FunctionToolset` behind a `ToolManager`, and the text of a `ToolReturnPart`."""
        manager = ToolManager[None](FunctionToolset[None](list(functions)))
        context = RunContext[None](deps=None, model=TestModel(), usage=RunUsage())

        async def call(name: str, args: dict[str, Any]) -> str:
            nonlocal manager
            if manager.tools is None:
                manager = await manager.for_run_step(context)
            result = await manager.handle_call(ToolCallPart(name, args, tool_call_id="call_0"))
            return ToolReturnPart(name, result, "call_0").model_response_str()

        return call


CONTENDER = PydanticAI()
