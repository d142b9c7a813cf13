"""Microsoft's agent-framework-core: its `Agent` over a chat client with all its standard layers."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    tool,
)
from agent_framework.observability import ChatTelemetryLayer

from benchmarks.contract import CallTool, RunAgent, ToolSchema
from benchmarks.workload import ANSWER, INSTRUCTIONS, Script, ToolFunction


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient):
    """A chat client composed as the providers' own clients are; the innermost layer plays the script."""

    OTEL_PROVIDER_NAME = "scripted"

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse]:
        return self._respond(messages, options)

    async def _respond(self, messages: Sequence[Message], options: Mapping[str, Any]) -> ChatResponse:
        await self._validate_options(options)
        calls = self.script.turn(sum(message.role == "assistant" for message in messages))
        if not calls:
            return ChatResponse(messages=Message("assistant", [Content.from_text(ANSWER)]))
        contents = [Content.from_function_call(c.id, c.name, arguments=c.args) for c in calls]
        return ChatResponse(messages=Message("assistant", contents))


def _tool(function: ToolFunction) -> FunctionTool:
    return tool(function, approval_mode="never_require")


class AgentFramework:
    """The agent with its default middleware and telemetry layers (no exporter is configured)."""

    def agent(self, script: Script, tool: ToolFunction) -> RunAgent:
        """One `Agent` with one tool; a run has no session."""
        agent = Agent(ScriptedClient(script), INSTRUCTIONS, tools=[_tool(tool)])

        async def run(prompt: str) -> str:
            return (await agent.run(prompt)).text

        return run

    def schema(self, function: ToolFunction) -> ToolSchema:
        """A function tool's own schema."""
        made = _tool(function)
        return ToolSchema(made.name, made.description, made.parameters())

    def gate(self, functions: Sequence[ToolFunction]) -> CallTool:
        """`FunctionTool.invoke`, which validates and gives text contents."""
        tools = {function.__name__: _tool(function) for function in functions}

        async def call(name: str, args: dict[str, Any]) -> str:
            contents = await tools[name].invoke(arguments=args, tool_call_id="call_0")
            return contents[0].text or ""

        return call


CONTENDER = AgentFramework()
