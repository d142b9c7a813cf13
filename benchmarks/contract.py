"""The small protocol that every contender stands behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

from benchmarks.workload import Script, ToolFunction

RunAgent = Callable[[str], Awaitable[str]]
"""Run one conversation from a prompt to the final text."""

CallTool = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Validate the arguments, call the tool of that name, and give the result as the text a model would read."""


class ToolSchema(NamedTuple):
    """What a provider is told about one tool."""

    name: str
    description: str
    parameters: dict[str, Any]


class Contender(Protocol):
    """One way of running an agent with tools."""

    def agent(self, script: Script, tool: ToolFunction) -> RunAgent:
        """Build one agent that has `tool` and a model that plays `script`; runs may overlap."""
        ...

    def schema(self, function: ToolFunction) -> ToolSchema:
        """Describe a plain annotated function, with nothing cached from an earlier one."""
        ...

    def gate(self, functions: Sequence[ToolFunction]) -> CallTool:
        """Make the functions callable by name without an agent or a model around them."""
        ...
