"""What ``file.py[:name]`` and ``module[:name]`` stand for: an agent, or tools, and the servers beside them.

A target's module may have an MCP registry under the name ``registry``: a value such as
``InMemoryMCPServerRegistry(...)``, or an async function without parameters that returns one. A single
``InMemoryMCPServerRegistry`` under any other name is found as well. Tools of the module stand in for names that its
agent lists without an implementation.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from handrail.agent import Agent
from handrail.builtins import memory_tools
from handrail.cli.loading import load, split
from handrail.errors import DefinitionError, HandrailError, MCPServerNotFoundError, TargetError
from handrail.naming import did_you_mean
from handrail.sources import CustomSource, MCPSource, ToolSource, collect
from handrail.tools import Tool, as_tool
from handrail.toolset import ToolProvider, Toolset, resolve

if TYPE_CHECKING:
    from handrail.mcp.registry import MCPServerRegistry

__all__ = ["Target", "load_target", "open_providers", "open_toolset"]


@dataclass(frozen=True, eq=False)
class Target:
    """What a command works on.

    Attributes:
        text: As it was written.
        label: With the name that was found, such as ``app.py:support``.
        agent: The agent; None where the target is tools alone.
        sources: What the agent, or the file, lists.
        implementations: The tools that came as values, by name.
        module: Where it was found.
    """

    text: str
    label: str
    agent: Agent | None
    sources: tuple[ToolSource, ...]
    implementations: Mapping[str, Tool]
    module: ModuleType

    @property
    def agent_id(self) -> str | None:
        """In whose name servers are asked."""
        return self.agent.id if self.agent else None

    def as_agent(self, model: Any) -> Agent:
        """The agent, or one made for these tools.

        Args:
            model: The model for a target that has only tools.

        Raises:
            TargetError: If there is neither an agent nor a model.
        """
        if self.agent is not None:
            return self.agent
        if model is None:
            raise TargetError(f"{self.label} has tools, and no agent that could use them",
                              hint="name a model with --model, such as --model local")  # fmt: skip
        return Agent(model, tools=[*self.implementations.values()])


def load_target(text: str) -> Target:
    """Load what a target stands for.

    Raises:
        TargetError: If it does not exist, does not load, or could be several things.
    """
    location, name = split(text)
    module = load(location)
    chosen = _infer(location, module) if name is None else (name, _get(location, module, name))
    return _target(text, f"{location}:{chosen[0]}" if chosen[0] else location, chosen[1], module)


@asynccontextmanager
async def open_providers(target: Target) -> AsyncGenerator[list[ToolProvider]]:
    """Give what a run of the target needs beside its agent, and close its servers in the end.

    That is whatever finds the tools of its servers, and the module's own tools for names that its agent lists.

    Raises:
        TargetError: If its registry cannot be had.
    """
    listed = {source.name for source in target.sources if isinstance(source, CustomSource)}
    named = [tool for tool in _candidates(target.module, Tool).values() if tool.name in listed]
    own: list[ToolProvider] = [tool for tool in named if tool.name not in target.implementations]
    if not any(isinstance(source, MCPSource) for source in target.sources):
        yield own
        return
    registry = await _registry(target)
    if registry is None:
        yield [*own, _NoRegistry(target.label)]
        return
    from handrail.mcp.manager import MCPConnectionManager

    async with MCPConnectionManager(registry) as manager:
        yield [*own, manager]


@dataclass(frozen=True)
class _NoRegistry:
    """Says for every server that there is nowhere to look it up."""

    label: str

    async def resolve_tools(self, sources: Sequence[MCPSource], *, agent_id: str | None = None) -> Sequence[Tool]:
        raise MCPServerNotFoundError(
            f"there is no registry to find the server {sources[0].server_id!r} in",
            hint=f"add to {self.label}: registry = InMemoryMCPServerRegistry(...)",
            server=sources[0].server_id,
        )


@asynccontextmanager
async def open_toolset(target: Target, *, wanted: str | None = None) -> AsyncGenerator[Toolset]:
    """Resolve the target's tools, and close its servers in the end.

    Args:
        target: The target.
        wanted: The one tool that will be called: where it needs no server, none is started.

    Raises:
        PreflightError: With every problem at once.
    """
    local = [source for source in target.sources if not isinstance(source, MCPSource) and source.name == wanted]
    if local:
        # With these sources alone, opening the providers starts nothing.
        target_alone = replace(target, sources=tuple(local))
        async with open_providers(target_alone) as providers:
            toolset = await _resolve(target_alone, providers)
        if wanted in toolset:
            yield toolset
            return
    async with open_providers(target) as providers:
        yield await _resolve(target, providers)


async def _resolve(target: Target, providers: Iterable[ToolProvider]) -> Toolset:
    return await resolve(
        target.sources,
        tools=providers,
        implementations=target.implementations,
        builtins=memory_tools({}),
        agent_id=target.agent_id,
        tags=target.agent.tags if target.agent else None,
        where=target.label,
    )


# From a module to an agent or tools.


def _candidates(module: ModuleType, kind: type[Any]) -> dict[str, Any]:
    """The public values of one kind, each once, by the first name that it has."""
    found: dict[int, str] = {}
    for name, value in vars(module).items():
        if isinstance(value, kind) and not name.startswith("_"):
            found.setdefault(id(value), name)
    return {name: vars(module)[name] for name in found.values()}


def _infer(location: str, module: ModuleType) -> tuple[str, object]:
    agents = _candidates(module, Agent)
    if len(agents) == 1:
        return next(iter(agents.items()))
    if agents:
        names = ", ".join(f"{location}:{name}" for name in agents)
        raise TargetError(f"{location} has {len(agents)} agents", hint=f"name one: {names}")
    tools = _candidates(module, Tool)
    if tools:
        return "", [tool for tool in tools.values() if not tool.method]
    raise TargetError(f"{location} has no agent and no tool", hint="write @tool above a function, or add an Agent")


def _get(location: str, module: ModuleType, name: str) -> object:
    if name in vars(module):
        return vars(module)[name]
    known = [*_candidates(module, Agent), *_candidates(module, Tool)]
    raise TargetError(f"{location} has nothing called {name!r}", hint=did_you_mean(name, known, what="it has"))


def _target(text: str, label: str, value: Any, module: ModuleType) -> Target:
    if isinstance(value, Agent):
        return Target(text, label, value, value.tools, value.implementations, module)
    try:
        listed = _listed(value)
        if listed is None:
            raise TargetError(
                f"{label} is {_kind(value)}, which is no target",
                hint="a target is an agent, a tool, a function or a list",
            )
        sources, implementations = collect(listed, where=label)
    except DefinitionError as error:
        raise TargetError(f"{label}: {error.message}", hint=error.hint) from error
    return Target(text, label, None, sources, implementations, module)


def _listed(value: Any) -> list[Any] | None:
    if isinstance(value, list | tuple | Toolset):
        return list(cast("Iterable[Any]", value))
    tool = as_tool(value)
    return None if tool is None else [tool]


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"


# From a module to its registry.


async def _registry(target: Target) -> MCPServerRegistry | None:
    from handrail.mcp.registry import InMemoryMCPServerRegistry

    named = vars(target.module).get("registry")
    if _is_registry(named):
        return cast("MCPServerRegistry", named)
    if inspect.iscoroutinefunction(named):
        return await _made(target, cast("Callable[[], Awaitable[Any]]", named))
    others = _candidates(target.module, InMemoryMCPServerRegistry)
    if len(others) > 1:
        names = ", ".join(others)
        raise TargetError(f"{target.label} has {len(others)} registries: {names}", hint="call one of them: registry")
    return next(iter(others.values()), None)


async def _made(target: Target, factory: Callable[[], Awaitable[Any]]) -> MCPServerRegistry:
    try:
        made = await factory()
    except Exception as error:
        reason = str(error) if isinstance(error, HandrailError) else f"{type(error).__name__}: {error}"
        raise TargetError(f"registry() of {target.label} failed: {reason}", hint="--debug shows where") from error
    if not _is_registry(made):
        raise TargetError(f"registry() of {target.label} gave {_kind(made)}, which is no registry")
    return made


def _is_registry(value: object) -> bool:
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("load_server", "list_servers"))
