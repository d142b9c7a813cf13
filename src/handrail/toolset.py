"""From what an agent lists to what it may call: a toolset, or every problem that stands in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from handrail.calls import Call, Scope, call_all
from handrail.errors import (
    HandrailError,
    MCPError,
    MCPServerNotFoundError,
    PreflightError,
    Problem,
    RunningLoopError,
    ToolCallError,
    ToolDefinitionError,
    ToolDeniedError,
    ToolExecutionError,
    ToolInputError,
    ToolNotFoundError,
    ToolNotRegisteredError,
    ToolResultError,
    ToolTimeoutError,
)
from handrail.naming import BUILTIN_NAMES, did_you_mean, wire_name
from handrail.policy import AllowAll, Approver, Policy
from handrail.sources import BuiltinSource, CustomSource, MCPSource, ToolInput, ToolSource, collect
from handrail.tools import Tool, ToolContext, ToolResult, as_tool

__all__ = [
    "Registered",
    "ToolProvider",
    "ToolResolver",
    "Toolset",
    "call_sync",
    "refuse_running_loop",
    "register",
    "resolve",
]


@runtime_checkable
class ToolResolver(Protocol):
    """Finds the tools of MCP sources. The caller who opened it closes it; a run never does."""

    async def resolve_tools(self, sources: Sequence[MCPSource], *, agent_id: str | None = None) -> Sequence[Tool]:
        """Find the tools of these sources for an agent.

        Raises:
            MCPServerNotFoundError: If it does not know a server. Another resolver is then asked.
            MCPError: If a server refuses the agent, cannot be reached, or lacks a tool.
        """
        ...


ToolProvider: TypeAlias = "Tool | ToolResolver | ToolInput"
"""What ``run(tools=[...])`` takes: tool values, functions and resolvers in one list."""

_RAISED: Mapping[str, type[ToolCallError]] = {
    kind.code: kind
    for kind in (
        ToolNotFoundError, ToolInputError, ToolTimeoutError, ToolResultError, ToolDeniedError, ToolExecutionError,
    )
} | {"needs_approval": ToolDeniedError, "mcp_timeout": ToolTimeoutError}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Toolset:
    """The tools that one agent may call, by the names that the model knows.

    Attributes:
        tools: The tools by name, in order.
        notes: What the model is told beside them, such as that an optional server is missing.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, *tools: ToolInput) -> Toolset:
        """A toolset of tools and functions.

        Raises:
            DefinitionError: If one of them cannot be a tool, or two different ones have one name.
            ToolNotRegisteredError: If one is only a name.
        """
        sources, implementations = collect(tools, where="the toolset")
        for source in sources:
            if isinstance(source, MCPSource) or source.name not in implementations:
                raise ToolNotRegisteredError(f"{source!r} has no implementation", hint="use await resolve([...])")
        return cls({name: implementations[name] for name in implementations})

    def schemas(self) -> list[dict[str, Any]]:
        """The tools as provider-neutral ``{name, description, parameters}``, as copies."""
        return [tool.schema() for tool in self.tools.values()]

    def filter(self, *, tags: Iterable[str] | None = None, names: Iterable[str] | None = None) -> Toolset:
        """Keep the tools that have one of the tags, or one of the names. The rest cannot be called either.

        Args:
            tags: Any of these. A tool without tags is left out. None does not filter; an empty set leaves nothing.
            names: Only these. None does not filter.

        Raises:
            ToolNotRegisteredError: If there is no tool of one of the names.
        """
        kept = dict(self.tools)
        if tags is not None:
            wanted = frozenset([tags] if isinstance(tags, str) else tags)
            kept = {name: tool for name, tool in kept.items() if tool.tags & wanted}
        if names is not None:
            wanted = frozenset([names] if isinstance(names, str) else names)
            for name in wanted - set(self.tools):
                raise ToolNotRegisteredError(f"there is no tool {name!r}", hint=did_you_mean(name, self.tools))
            kept = {name: tool for name, tool in kept.items() if name in wanted}
        return Toolset(kept, self.notes)

    def rename(self, names: Mapping[str, str]) -> Toolset:
        """Give tools other names.

        Args:
            names: The new name for each old one.

        Raises:
            ToolNotRegisteredError: If there is no tool of an old name.
            ToolDefinitionError: If a new name is not legal, or taken.
        """
        for name in names:
            if name not in self.tools:
                raise ToolNotRegisteredError(f"there is no tool {name!r}", hint=did_you_mean(name, self.tools))
        renamed: dict[str, Tool] = {}
        for name, tool in self.tools.items():
            new = names.get(name, name)
            if new in renamed:
                raise ToolDefinitionError(f"two tools would be called {new!r}")
            renamed[new] = tool.rename(new) if new != name else tool
        return Toolset(renamed, self.notes)

    async def call(
        self,
        name: str,
        arguments: object = None,
        *,
        call_id: str | None = None,
        context: ToolContext[Any] | None = None,
        policy: Policy | None = None,
        approve: Approver | None = None,
        raise_on_error: bool = False,
    ) -> ToolResult:
        """Call a tool through the gate, as a model's call would be.

        Args:
            name: The tool's name.
            arguments: A mapping, or JSON text.
            call_id: An id for the call; one is made up where it is missing.
            context: In whose name: its run, agent and instance ids, deps, user and memory are passed on.
            policy: Decides on the call. Default: allow.
            approve: Asks a person where the call needs approval; without it such a call is refused.
            raise_on_error: Raise instead of returning an error.

        Raises:
            ToolNotFoundError: With ``raise_on_error``, if there is no such tool.
            ToolInputError: With ``raise_on_error``, if the tool does not take the arguments.
            ToolTimeoutError: With ``raise_on_error``, if it does not answer in time.
            ToolResultError: With ``raise_on_error``, if the result cannot be used.
            ToolDeniedError: With ``raise_on_error``, if the call was denied or not approved.
            ToolExecutionError: With ``raise_on_error``, if the body raised.
        """
        requests = [Call(name, arguments, call_id)]
        result = (await self.call_all(requests, context=context, policy=policy, approve=approve))[0]
        if raise_on_error and result.code is not None:
            kind = _RAISED.get(result.code, ToolExecutionError)
            raise kind(result.message or result.wire, result=result, tool=name, call_id=result.call_id)
        return result

    async def call_all(
        self,
        requests: Sequence[Call],
        *,
        context: ToolContext[Any] | None = None,
        policy: Policy | None = None,
        approve: Approver | None = None,
    ) -> list[ToolResult]:
        """Run several calls side by side; see ``call``. Results come in the order of the calls."""
        scope = Scope(policy=policy or AllowAll(), approve=approve)
        if context is not None:
            scope.run_id, scope.agent_id, scope.instance_id = (
                context.run_id,
                context.agent_id,
                context.instance_id,
            )
            scope.deps, scope.user, scope.memory = context.deps, context.user, context.memory
        return await call_all(self.tools, requests, scope)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools.values())

    def __len__(self) -> int:
        return len(self.tools)

    def __contains__(self, name: object) -> bool:
        return name in self.tools

    def __getitem__(self, name: str) -> Tool:
        return self.tools[name]


def call_sync(toolset: Toolset, name: str, arguments: object = None, **options: Any) -> ToolResult:
    """Call a tool from code that is not async; takes what ``Toolset.call`` takes.

    Raises:
        RunningLoopError: If an event loop is running in this thread: write ``await toolset.call(...)``.
    """
    refuse_running_loop("call_sync()", "await toolset.call(...)")
    return asyncio.run(toolset.call(name, arguments, **options))


def refuse_running_loop(what: str, instead: str) -> None:
    """Refuse to start an event loop inside of one, as in a notebook.

    Raises:
        RunningLoopError: If an event loop is running in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RunningLoopError(f"{what} was called while an event loop is running", hint=f"write `{instead}` instead")


@dataclass(frozen=True, eq=False)
class Registered:
    """What a run was given under ``tools=[...]``.

    Attributes:
        tools: Implementations by name.
        resolvers: Those that find the tools of MCP sources, in order.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    resolvers: tuple[ToolResolver, ...] = ()


def register(providers: Iterable[ToolProvider], *, beside: Mapping[str, Tool] | None = None) -> Registered:
    """Sort a ``tools=[...]`` list of a run into tools and resolvers.

    Args:
        providers: Tool values, functions and resolvers.
        beside: Implementations that the agent itself brought. The same tool in both is no conflict.

    Raises:
        ToolDefinitionError: If something is neither, or one name stands for two different tools.
    """
    tools: dict[str, Tool] = dict(beside or {})
    resolvers: list[ToolResolver] = []
    for provider in providers:
        if isinstance(provider, ToolResolver):
            resolvers.append(provider)
            continue
        tool = as_tool(provider)
        if tool is None:
            raise ToolDefinitionError(
                f"{provider!r} in tools=[...] of a run is neither a tool nor a resolver",
                hint="names and sources belong to the agent; a run takes implementations and MCPConnectionManager",
            )
        if not tools.setdefault(tool.name, tool).same_as(tool):
            raise ToolDefinitionError(
                f"two different tools are called {tool.name!r}", hint="rename one with tool(fn, name=...)"
            )
    return Registered(tools, tuple(resolvers))


async def resolve(
    entries: Iterable[ToolInput],
    *,
    tools: Iterable[ToolProvider] = (),
    implementations: Mapping[str, Tool] | None = None,
    builtins: Mapping[str, Tool] | None = None,
    agent_id: str | None = None,
    tags: Iterable[str] | None = None,
    prefix: Literal["auto", "always"] = "auto",
    where: str = "the agent",
) -> Toolset:
    """Find the implementation of everything on a ``tools=[...]`` list.

    Args:
        entries: The list, in any of its forms.
        tools: Implementations for names on it, and resolvers for its MCP servers.
        implementations: Implementations that travel beside the list.
        builtins: The built-in tools that are available here.
        agent_id: The agent, for the servers' access control.
        tags: Keep only tools with one of these tags.
        prefix: ``"auto"`` keeps a server's tool names where they are unique; ``"always"`` gives all of them the form
            ``mcp__server__tool``.
        where: How problems call the list.

    Raises:
        PreflightError: With every problem at once, if something has no implementation.
        DefinitionError: If an entry, an implementation or an option cannot work.
    """
    if prefix not in ("auto", "always"):
        raise ToolDefinitionError(f"prefix must be 'auto' or 'always', not {prefix!r}")
    sources, brought = collect(entries, where=where)
    registered = register(tools, beside={**(implementations or {}), **brought})
    problems: list[Problem] = []
    local = _local(sources, registered, builtins or {}, problems, where)
    remote, notes = await _remote(sources, registered, agent_id, problems, where)
    if problems:
        kind = ToolNotRegisteredError if all(one.code == ToolNotRegisteredError.code for one in problems) else None
        raise (kind or PreflightError)(problems=problems)
    toolset = Toolset(_named(local, remote, always=prefix == "always"), tuple(notes))
    return toolset if tags is None else toolset.filter(tags=tags)


def _local(
    sources: Iterable[ToolSource],
    registered: Registered,
    builtins: Mapping[str, Tool],
    problems: list[Problem],
    where: str,
) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for source in sources:
        if isinstance(source, BuiltinSource):
            if (tool := builtins.get(source.name)) is not None:
                found[source.name] = tool
            else:
                problems.append(_unavailable(source, where))
        elif isinstance(source, CustomSource):
            if (tool := registered.tools.get(source.name)) is not None:
                found[source.name] = tool
            else:
                problems.append(_unregistered(source, registered, where))
    return found


def _unavailable(source: BuiltinSource, where: str) -> Problem:
    return Problem(
        "builtin_unavailable",
        f"the built-in tool {source.name!r} is not available here",
        "save_to_memory needs run(memory={...}); the architect tools need a graph store",
        where=where,
    )


def _unregistered(source: CustomSource, registered: Registered, where: str) -> Problem:
    known = [*registered.tools, *BUILTIN_NAMES] if registered.tools else []
    return Problem(
        ToolNotRegisteredError.code,
        f"the tool {source.name!r} has no implementation",
        f"pass it as run(..., tools=[...]); {did_you_mean(source.name, known, what='known')}",
        where=where,
    )


async def _remote(
    sources: Iterable[ToolSource],
    registered: Registered,
    agent_id: str | None,
    problems: list[Problem],
    where: str,
) -> tuple[list[Tool], list[str]]:
    wanted = [source for source in sources if isinstance(source, MCPSource)]
    outcomes = await asyncio.gather(*(_of_source(source, registered, agent_id) for source in wanted))
    found: dict[tuple[str | None, str | None], Tool] = {}
    notes: list[str] = []
    for source, outcome in zip(wanted, outcomes, strict=True):
        if not isinstance(outcome, HandrailError):
            found.update({(tool.server, tool.remote_name): tool for tool in outcome})
        elif source.optional:
            notes.append(f"The tools of {source.server_id} are not available at the moment.")
        else:
            problems.append(Problem(outcome.code, outcome.message, outcome.hint, where=where))
    return list(found.values()), notes


async def _of_source(source: MCPSource, registered: Registered, agent_id: str | None) -> Sequence[Tool] | HandrailError:
    missing: HandrailError = MCPServerNotFoundError(
        f"no server is registered as {source.server_id!r}",
        hint="pass an MCPConnectionManager as run(..., tools=[manager])" if not registered.resolvers else None,
        server=source.server_id,
    )
    for resolver in registered.resolvers:
        try:
            return await resolver.resolve_tools([source], agent_id=agent_id)
        except MCPServerNotFoundError as error:
            missing = error
        except (MCPError, PreflightError) as error:
            return error
    return missing


def _named(local: Mapping[str, Tool], remote: Sequence[Tool], *, always: bool) -> dict[str, Tool]:
    """Give every tool one name: local ones keep theirs, and a server's name is qualified where it is not unique."""
    named: dict[str, Tool] = dict(local)
    counts: dict[str, int] = {}
    for tool in remote:
        counts[tool.name] = counts.get(tool.name, 0) + 1
    plain = {tool.name for tool in remote if counts[tool.name] == 1 and tool.name not in local}
    for tool in remote:
        name = tool.name
        server, own = cast("str", tool.server), tool.remote_name or tool.name
        if always or name in local:
            name = wire_name("mcp", server, own)
        elif counts[name] > 1:
            name = wire_name(server, own)
        if (name in named or (name in plain and name != tool.name)) and named.get(name) is not tool:
            name = wire_name("mcp", server, own, "")
        named[name] = tool if name == tool.name else tool.rename(name)
    return named
