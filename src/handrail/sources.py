"""What an agent may list under ``tools=[...]``, and the one form that all of it normalises to.

Three sources exist: a built-in, a custom tool by its name, and the tools of an MCP server by the server's id. They are
plain data that survives a JSON round trip; an implementation travels beside them and is found by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, cast

from handrail.errors import ToolSourceError
from handrail.naming import BUILTIN_NAMES, did_you_mean, is_name

if TYPE_CHECKING:
    from handrail.tools import Tool

__all__ = [
    "BuiltinSource",
    "CustomSource",
    "MCPSource",
    "ToolInput",
    "ToolSource",
    "collect",
    "mcp_tools",
    "normalise",
    "source_from_json",
    "source_to_json",
]


@dataclass(frozen=True, slots=True)
class BuiltinSource:
    """A tool that ships with Handrail.

    Attributes:
        name: One of ``save_to_memory`` and the three architect tools.
    """

    name: str
    type: Literal["builtin"] = "builtin"

    def __post_init__(self) -> None:
        if self.name not in BUILTIN_NAMES:
            raise ToolSourceError(
                f"no built-in tool is called {self.name!r}",
                hint=did_you_mean(str(self.name), BUILTIN_NAMES, what="built-in tools"),
            )


@dataclass(frozen=True, slots=True)
class CustomSource:
    """A tool of the application, by the name under which it is registered.

    Attributes:
        name: Letters, digits, ``_`` and ``-``; at most 64 characters.
    """

    name: str
    type: Literal["custom"] = "custom"

    def __post_init__(self) -> None:
        _check_name("name", self.name)


@dataclass(frozen=True, slots=True)
class MCPSource:
    """Tools of a registered MCP server. It never holds how the server is reached.

    Attributes:
        server_id: The server's id in the registry.
        tool_names: The tools to take, by the server's own names. None takes all of them, an empty tuple none.
        optional: Whether a run may go on without this server. The model is told when it is missing.
    """

    server_id: str
    tool_names: tuple[str, ...] | None = None
    optional: bool = False
    type: Literal["mcp"] = "mcp"

    def __post_init__(self) -> None:
        _check_name("server_id", self.server_id)
        names: object = self.tool_names
        if names is not None:
            if not _is_list(names) or not all(isinstance(name, str) and name for name in cast("list[object]", names)):
                raise ToolSourceError(
                    f"tool_names of server {self.server_id!r} must be non-empty strings, not {names!r}",
                    hint="list the server's own tool names, or leave the field out for all of them",
                )
            object.__setattr__(self, "tool_names", tuple(names))
        if not isinstance(cast("object", self.optional), bool):
            raise ToolSourceError(f"'optional' must be true or false, not {self.optional!r}")


ToolSource: TypeAlias = "BuiltinSource | CustomSource | MCPSource"
"""The normal form of an entry of a ``tools=[...]`` list."""

ToolInput: TypeAlias = "ToolSource | Tool | Callable[..., Any] | str | Mapping[str, Any]"
"""What an author may write as an entry of a ``tools=[...]`` list."""


def mcp_tools(server_id: str, *, only: Iterable[str] | None = None, optional: bool = False) -> MCPSource:
    """Refer to tools of a registered MCP server.

    Args:
        server_id: The server's id in the registry.
        only: The tools to take, by the server's own names. Left out, all of them; an empty list means none.
        optional: Let a run go on without this server when it cannot be reached.

    Raises:
        ToolSourceError: If the id is not a legal name, or ``only`` is one string instead of a list.
    """
    if isinstance(only, str):
        raise ToolSourceError(f"only={only!r} is one string", hint=f"write only=[{only!r}]")
    return MCPSource(server_id, None if only is None else tuple(only), optional)


def normalise(entry: ToolInput) -> tuple[ToolSource, Tool | None]:
    """Bring one entry of a ``tools=[...]`` list into its normal form.

    Accepted are a tool, a plain annotated function, the name of a built-in, any other name, ``mcp_tools(...)``,
    ``{"mcp": id, "tools": [...]}``, and the structured form in snake_case or camelCase.

    Returns:
        The source, and the implementation where the entry carries one.

    Raises:
        ToolSourceError: If the entry has none of these forms, or has a key that no form knows.
        ToolDefinitionError: If a function in the list cannot be a tool.
    """
    if isinstance(entry, BuiltinSource | CustomSource | MCPSource):
        return entry, None
    if isinstance(entry, str):
        return (BuiltinSource(entry) if entry in BUILTIN_NAMES else CustomSource(entry)), None
    if isinstance(entry, Mapping):
        return source_from_json(cast("Mapping[str, Any]", entry)), None
    from handrail.tools import as_tool

    if (implementation := as_tool(entry)) is not None:
        return CustomSource(implementation.name), implementation
    raise ToolSourceError(
        f"{entry!r} is not a tool source",
        hint='give a tool, a function, a name, mcp_tools("id"), or {"mcp": "id", "tools": [...]}',
    )


def collect(entries: Iterable[ToolInput], *, where: str) -> tuple[tuple[ToolSource, ...], dict[str, Tool]]:
    """Normalise a whole ``tools=[...]`` list.

    Returns:
        The sources in order, without repetitions, and the implementations by name.

    Raises:
        ToolSourceError: If an entry is malformed, or one name stands for two different tools.
    """
    if isinstance(entries, str | Mapping) or callable(entries) or not isinstance(entries, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - people write tools=None
        raise ToolSourceError(f"tools of {where} must be a list, not {entries!r}", hint="write tools=[...]")
    sources: dict[ToolSource, None] = {}
    implementations: dict[str, Tool] = {}
    for entry in entries:
        source, implementation = normalise(entry)
        sources[source] = None
        if implementation is None:
            continue
        if implementations.setdefault(implementation.name, implementation) is not implementation and not (
            implementations[implementation.name].same_as(implementation)
        ):
            raise ToolSourceError(
                f"two different tools of {where} are called {implementation.name!r}",
                hint="rename one with tool(fn, name=...)",
            )
    return tuple(sources), implementations


_FORMS: dict[str, frozenset[str]] = {
    "builtin": frozenset({"type", "name"}),
    "custom": frozenset({"type", "name"}),
    "mcp": frozenset({"type", "server_id", "tool_names", "optional"}),
    "shorthand": frozenset({"mcp", "tools", "tool_names", "optional"}),
}
_CAMEL = {"serverId": "server_id", "toolNames": "tool_names"}


def source_from_json(data: Mapping[str, Any]) -> ToolSource:
    """Read a source from its wire form, in either casing.

    Raises:
        ToolSourceError: If a key is unknown, missing, given twice, or has a value of the wrong type.
    """
    keys = _snake(data)
    if "type" in keys and "mcp" in keys:
        raise ToolSourceError(
            f"a tool source with the keys {_keys(data)} has both 'type' and 'mcp'", hint="use one form"
        )
    form = keys.get("type") if "type" in keys else "shorthand" if "mcp" in keys else None
    if not isinstance(form, str) or form not in _FORMS or (form == "shorthand") != ("mcp" in keys):
        raise ToolSourceError(
            f"a mapping with the keys {_keys(data)} is not a tool source",
            hint="'type' is builtin, custom or mcp; or write {'mcp': 'id', 'tools': [...]}",
        )
    for key in keys:
        if key not in _FORMS[form]:
            raise ToolSourceError(
                f"unknown key {key!r} in a tool source with the keys {_keys(data)}",
                hint=did_you_mean(str(key), _FORMS[form]),
            )
    if form == "builtin":
        return BuiltinSource(_required(keys, "name"))
    if form == "custom":
        return CustomSource(_required(keys, "name"))
    return _mcp_from_json(keys, form)


def _mcp_from_json(keys: dict[str, Any], form: str) -> MCPSource:
    if "tools" in keys and "tool_names" in keys:
        raise ToolSourceError("a tool source has both 'tools' and 'tool_names'", hint="they mean the same: keep one")
    given = [key for key in ("tools", "tool_names") if key in keys]
    names: object = keys[given[0]] if given else None
    if given and names is None:
        raise ToolSourceError(
            f"{given[0]!r} of a tool source is null", hint="leave it out for all tools of the server; [] means none"
        )
    if names is not None and not _is_list(names):
        raise ToolSourceError(
            f"the tools of a server must be a list, not {type(names).__name__}", hint="write a list of names"
        )
    server = _required(keys, "mcp" if form == "shorthand" else "server_id")
    return MCPSource(server, None if names is None else tuple(names), keys.get("optional", False))


def source_to_json(source: ToolSource) -> dict[str, Any]:
    """Give the wire form of a source, in snake_case, with only the fields that say something."""
    if not isinstance(source, MCPSource):
        return {"type": source.type, "name": source.name}
    data: dict[str, Any] = {"type": "mcp", "server_id": source.server_id}
    if source.tool_names is not None:
        data["tool_names"] = list(source.tool_names)
    if source.optional:
        data["optional"] = True
    return data


def _snake(data: Mapping[str, Any]) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for key, value in data.items():
        name = _CAMEL.get(key, key)
        if name in keys:
            raise ToolSourceError(f"{name!r} of a tool source is given twice", hint="keep one casing")
        keys[name] = value
    return keys


def _keys(data: Mapping[str, Any]) -> str:
    """The keys alone: a value may be a secret that was put in the wrong place."""
    return ", ".join(repr(key) for key in data) or "(none)"


def _required(keys: dict[str, Any], key: str) -> str:
    value = keys.get(key)
    if not isinstance(value, str):
        raise ToolSourceError(f"{key!r} of a tool source must be a string, not {value!r}", hint=f"add {key!r}")
    return value


def _is_list(value: object) -> TypeGuard[list[str] | tuple[str, ...]]:
    return isinstance(value, list | tuple)


def _check_name(field: str, value: object) -> None:
    if not is_name(value):
        raise ToolSourceError(
            f"{field} {value!r} is not a legal name",
            hint="use 1 to 64 letters, digits, '_' or '-'",
        )
