"""LangGraph: a `StateGraph` of a model node and a `ToolNode`, the loop its documentation draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from benchmarks.contract import CallTool, RunAgent, ToolSchema
from benchmarks.workload import ANSWER, INSTRUCTIONS, Call, Script, ToolFunction


def _tool_call(call: Call) -> ToolCall:
    return ToolCall(name=call.name, args=call.args, id=call.id, type="tool_call")


class ScriptedChatModel(BaseChatModel):
    """A chat model that plays the script."""

    script: Script

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Convert the tools once, as the models of real providers do."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _result(self, messages: list[BaseMessage]) -> ChatResult:
        calls = self.script.turn(sum(isinstance(message, AIMessage) for message in messages))
        message = AIMessage("" if calls else ANSWER, tool_calls=[_tool_call(call) for call in calls])
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._result(messages)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._result(messages)


def _tool(function: ToolFunction) -> BaseTool:
    return StructuredTool.from_function(coroutine=function, parse_docstring=True)


def _graph(script: Script, tool: ToolFunction) -> Any:
    tools = [_tool(tool)]
    model = ScriptedChatModel(script=script).bind_tools(tools)

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke([SystemMessage(INSTRUCTIONS), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


class LangGraph:
    """The compiled graph, invoked asynchronously."""

    def agent(self, script: Script, tool: ToolFunction) -> RunAgent:
        """One compiled graph with one tool; no checkpointer."""
        graph = _graph(script, tool)

        async def run(prompt: str) -> str:
            state = {"messages": [HumanMessage(prompt)]}
            end = await graph.ainvoke(state, {"recursion_limit": 200})
            return end["messages"][-1].content

        return run

    def schema(self, function: ToolFunction) -> ToolSchema:
        """A structured tool, converted as `bind_tools` does."""
        described = convert_to_openai_tool(_tool(function))["function"]
        return ToolSchema(described["name"], described.get("description", ""), described["parameters"])

    def gate(self, functions: Sequence[ToolFunction]) -> CallTool:
        """`BaseTool.ainvoke` with a tool call, which gives a tool message."""
        tools = {function.__name__: _tool(function) for function in functions}

        async def call(name: str, args: dict[str, Any]) -> str:
            message = await tools[name].ainvoke(_tool_call(Call("call_0", name, args)))
            return message.content

        return call


CONTENDER = LangGraph()
