"""The floor: what one would write by hand with asyncio, pydantic and json, and nothing more."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, create_model

from benchmarks.contract import CallTool, RunAgent, ToolSchema
from benchmarks.workload import ANSWER, INSTRUCTIONS, Script, ToolFunction

_ARGUMENT = re.compile(r"^\s+(\w+): (.+)$", re.MULTILINE)

Message = dict[str, Any]


class Bound(NamedTuple):
    """A function with the model that validates its arguments."""

    function: ToolFunction
    arguments: type[BaseModel]


def bind(function: ToolFunction) -> Bound:
    """Build the pydantic model of a function's parameters, described by its docstring."""
    described = dict(_ARGUMENT.findall(function.__doc__ or ""))
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (parameter.annotation, Field(default, description=described.get(name)))
    return Bound(function, create_model(function.__name__, **fields))


async def call_bound(tool: Bound, args: dict[str, Any]) -> str:
    """Validate, call, and serialise."""
    valid = tool.arguments.model_validate(args)
    return json.dumps(await tool.function(**valid.__dict__))


class Floor:
    """Messages are dicts, tools a dict by name, a run is one loop."""

    def agent(self, script: Script, tool: ToolFunction) -> RunAgent:
        """A loop over the script's turns; the calls of a turn run under one `gather`."""
        tools = {tool.__name__: bind(tool)}

        async def answer(name: str, args: dict[str, Any], call_id: str) -> Message:
            return {"role": "tool", "tool_call_id": call_id, "content": await call_bound(tools[name], args)}

        async def run(prompt: str) -> str:
            messages: list[Message] = [
                {"role": "system", "content": INSTRUCTIONS},
                {"role": "user", "content": prompt},
            ]
            index = 0
            while calls := script.turn(index):
                messages.append({"role": "assistant", "tool_calls": [call._asdict() for call in calls]})
                answers = [answer(call.name, call.args, call.id) for call in calls]
                messages += [await answers[0]] if len(answers) == 1 else await asyncio.gather(*answers)
                index += 1
            messages.append({"role": "assistant", "content": ANSWER})
            return str(messages[-1]["content"])

        return run

    def schema(self, function: ToolFunction) -> ToolSchema:
        """The schema that pydantic derives from the model."""
        summary = (function.__doc__ or "").partition("\n")[0]
        return ToolSchema(function.__name__, summary, bind(function).arguments.model_json_schema())

    def gate(self, functions: Sequence[ToolFunction]) -> CallTool:
        """A dict of bound functions."""
        tools = {function.__name__: bind(function) for function in functions}

        async def call(name: str, args: dict[str, Any]) -> str:
            return await call_bound(tools[name], args)

        return call


CONTENDER = Floor()
