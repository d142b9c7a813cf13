"""What ``file.py[:name]`` and ``module[:name]`` stand for: an agent, or tools, and the servers beside them.

A target's module may have an MCP registry under the name ``registry``: a value such as
``InMemoryMCPServerRegistry(...)``, or an async function without parameters that returns one. A single
``InMemoryMCPServerRegistry`` under any other name is found as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from handrail.agent import Agent
from handrail.builtins import memory_tools
from handrail.errors import DefinitionError, HandrailError, TargetError
from handrail.naming import did_you_mean
from handrail.sources import MCPSource, ToolSource, collect
from handrail.tools import Tool, as_tool
from handrail.toolset import ToolResolver, Toolset, resolve

if TYPE_CHECKING:
    from handrail.mcp.registry import MCPServerRegistry

__all__ = ["Target", "load_target", "open_resolvers", "open_toolset"]

PREFIX = "_handrail_target_"
"""Begins the names that files are loaded under, so that ``json.py`` does not become the module ``json``."""

SHAPE = "write file.py, file.py:name, module, or module:name"


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
    location, name = _split(text)
    module = _load_file(Path(location)) if _is_file(location) else _load_module(location)
    chosen = _infer(location, module) if name is None else (name, _get(location, module, name))
    return _target(text, f"{location}:{chosen[0]}" if chosen[0] else location, chosen[1], module)


@asynccontextmanager
async def open_resolvers(target: Target) -> AsyncGenerator[list[ToolResolver]]:
    """Open what finds the tools of the target's servers, and close it in the end.

    Raises:
        TargetError: If its registry cannot be had.
    """
    registry = await _registry(target) if any(isinstance(one, MCPSource) for one in target.sources) else None
    if registry is None:
        yield []
        return
    from handrail.mcp.manager import MCPConnectionManager

    async with MCPConnectionManager(registry) as manager:
        yield [manager]


@asynccontextmanager
async def open_toolset(target: Target, *, wanted: str | None = None) -> AsyncGenerator[Toolset]:
    """Resolve the target's tools, and close its servers in the end.

    Args:
        target: The target.
        wanted: The one tool that will be called: where it needs no server, none is started.

    Raises:
        PreflightError: With every problem at once.
    """
    local = [source for source in target.sources if not isinstance(source, MCPSource)]
    if wanted is not None and any(source.name == wanted for source in local):
        yield await _resolve(target, [source for source in local if source.name == wanted], ())
        return
    async with open_resolvers(target) as resolvers:
        yield await _resolve(target, target.sources, resolvers)


async def _resolve(target: Target, sources: Sequence[ToolSource], resolvers: Iterable[ToolResolver]) -> Toolset:
    return await resolve(
        sources,
        tools=resolvers,
        implementations=target.implementations,
        builtins=memory_tools({}),
        agent_id=target.agent_id,
        tags=target.agent.tags if target.agent else None,
        where=target.label,
    )


# From text to a module.


def _split(text: str) -> tuple[str, str | None]:
    location, colon, name = text.rpartition(":")
    # A colon may also stand in a path, as in C:\app.py.
    if not colon or _is_file(text):
        location, name = text, ""
        if not text or text.endswith(":"):
            raise TargetError(f"{text!r} is not a target", hint=SHAPE)
        return location, None
    if not location or not name.isidentifier():
        raise TargetError(f"{text!r} is not a target", hint=SHAPE)
    return location, name


def _is_file(location: str) -> bool:
    return location.endswith(".py") or "/" in location or os.sep in location


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"there is no file {str(path)!r}", hint=_nearby(path), path=str(path))
    if path.suffix != ".py":
        raise TargetError(f"{str(path)!r} is not a Python file", hint=SHAPE, path=str(path))
    full = path.resolve()
    _make_importable(full.parent)
    digest = hashlib.sha256(str(full).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    name = f"{PREFIX}{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}_{digest}"
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses, pickles and pydantic look a class's module up while the file is still being run.
    sys.modules[name] = module
    with _explained(str(path), full):
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


def _load_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise TargetError(f"{name!r} is neither a .py file nor a module", hint=SHAPE)
    _make_importable(Path.cwd())
    with _explained(name, None):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
                raise
            hint = f"for the file write {name}.py" if Path(f"{name}.py").is_file() else "is it installed here?"
            raise TargetError(f"there is no module {name!r}", hint=hint) from error


def _make_importable(folder: Path) -> None:
    """Let a file import its neighbours. Last in line, so that none of them takes the place of an installed module."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


@contextlib.contextmanager
def _explained(name: str, path: Path | None) -> Iterator[None]:
    """Turn whatever loading a module raises into one line that names the place."""
    try:
        yield
    except TargetError:
        raise
    except SyntaxError as error:
        where = f"{Path(error.filename or name).name}, line {error.lineno}"
        raise TargetError(f"{name} does not parse: {error.msg} ({where})") from error
    except ModuleNotFoundError as error:
        hint = f"install {error.name}, or run this in the environment that has it" if error.name else None
        raise TargetError(f"{_place(name, path, error)}: {error}", hint=hint) from error
    except HandrailError as error:
        raise TargetError(f"{_place(name, path, error)}: {error.message}", hint=error.hint) from error
    except SystemExit as error:
        hint = "put what a script does under: if __name__ == '__main__'"
        raise TargetError(f"{_place(name, path, error)}: it exits when it is loaded", hint=hint) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise TargetError(f"{_place(name, path, error)}: {reason}", hint="--debug shows where") from error


def _place(name: str, path: Path | None, error: BaseException) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if path and frame.filename == str(path)]
    return f"{name}, line {lines[-1]}" if lines else f"{name} does not load"


def _nearby(path: Path) -> str:
    try:
        names = sorted(other.name for other in path.parent.iterdir() if other.suffix == ".py")
    except OSError:
        return f"there is no folder {str(path.parent)!r}"
    return did_you_mean(path.name, names, what="Python files there")


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
    raise TargetError(f"{location} has no agent and no tool", hint="write @tool above a function, or name: = Agent(...)")


def _get(location: str, module: ModuleType, name: str) -> object:
    if name in vars(module):
        return vars(module)[name]
    known = [*_candidates(module, Agent), *_candidates(module, Tool)]
    raise TargetError(f"{location} has nothing called {name!r}", hint=did_you_mean(name, known, what="it has"))


def _target(text: str, label: str, value: Any, module: ModuleType) -> Target:
    if isinstance(value, Agent):
        return Target(text, label, value, value.tools, value.implementations, module)
    try:
        listed = list(cast("Iterable[Any]", value)) if isinstance(value, list | tuple | Toolset) else [as_tool(value)]
        if None in listed:
            raise TargetError(f"{label} is {_kind(value)}", hint="a target is an agent, a tool, a function or a list")
        sources, implementations = collect(listed, where=label)
    except DefinitionError as error:
        raise TargetError(f"{label}: {error.message}", hint=error.hint) from error
    return Target(text, label, None, sources, implementations, module)


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}, which is no target"


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
        raise TargetError(f"registry() of {target.label} gave {_kind(made).replace('target', 'registry')}")
    return made


def _is_registry(value: object) -> bool:
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("load_server", "list_servers"))
