"""An agent as data: which model, which instructions, which tools."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from handrail.errors import AgentDefinitionError
from handrail.naming import did_you_mean, is_name
from handrail.sources import CustomSource, ToolInput, ToolSource, collect, source_to_json
from handrail.tools import Tool

MAX_STEPS = 50
"""The most steps that an agent may be given."""

_CAMEL = {"maxSteps": "max_steps", "maxCalls": "max_calls"}
_FIELDS = frozenset(
    {
        "model",
        "instructions",
        "tools",
        "id",
        "name",
        "description",
        "max_steps",
        "max_calls",
        "tags",
        "settings",
    }
)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Agent:
    """A model with instructions and tools. A value: it holds no state of any run, and cannot be changed.

    Attributes:
        model: ``"local"`` for the embedded model, ``"provider:name"`` for one of a provider, or a model object.
        instructions: What the model is told first.
        tools: The sources of its tools, in their normal form.
        id: What access control and events call it. Default: its name.
        name: What people call it. Default: ``agent``.
        description: What it is for.
        max_steps: How often the model may be asked in one run, 1 to 50. Default 10.
        max_calls: How many tool calls may run in one run; None for no limit of its own.
        tags: Only tools with one of these tags are offered; None offers all of them.
        settings: Settings for the model, such as ``{"temperature": 0}``.
        implementations: The tools that were given as values, by name. They are not part of the data.
    """

    model: Any
    instructions: str
    tools: tuple[ToolSource, ...]
    id: str
    name: str
    description: str
    max_steps: int
    max_calls: int | None
    tags: frozenset[str] | None
    settings: Mapping[str, Any]
    implementations: Mapping[str, Tool] = field(compare=False)

    def __init__(
        self,
        model: Any,
        *,
        instructions: str = "",
        tools: Iterable[ToolInput] = (),
        id: str | None = None,
        name: str | None = None,
        description: str = "",
        max_steps: int = 10,
        max_calls: int | None = None,
        tags: Iterable[str] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Define an agent.

        Args:
            model: ``"local"``, ``"provider:name"``, or a model object.
            instructions: What the model is told first.
            tools: Tools, functions, names, and ``mcp_tools(...)``. An empty list means none.
            id: What access control and events call it: letters, digits, ``_`` and ``-``.
            name: What people call it.
            description: What it is for.
            max_steps: How often the model may be asked in one run, 1 to 50.
            max_calls: How many tool calls may run in one run.
            tags: Offer only tools with one of these tags; tools without tags are then left out.
            settings: Settings for the model, by the names that pydantic-ai's ``ModelSettings`` gives them.

        Raises:
            AgentDefinitionError: If a field has a value that cannot work.
            ToolSourceError: If an entry of ``tools`` has none of the accepted forms.
        """
        if not model or (not isinstance(model, str) and isinstance(model, int | float | list | dict)):
            raise AgentDefinitionError(
                f"model must be a model's name, not {model!r}",
                hint='write Agent("local") or Agent("openai:gpt-5")',
            )
        if name is not None and (not isinstance(name, str) or not name.strip()):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AgentDefinitionError(f"name must be text, not {name!r}", hint="leave it out for 'agent'")
        agent_id = id if id is not None else _as_id(name)
        if not is_name(agent_id):
            raise AgentDefinitionError(
                f"id {agent_id!r} is not a legal name", hint="use 1 to 64 letters, digits, '_' or '-'"
            )
        label = f"agent {name or agent_id!r}"
        sources, implementations = collect(tools, where=label)
        values: dict[str, Any] = {
            "model": model,
            "instructions": _text("instructions", instructions, label),
            "tools": sources,
            "id": agent_id,
            "name": name or agent_id,
            "description": _text("description", description, label),
            "max_steps": _count("max_steps", max_steps, 1, MAX_STEPS, label),
            "max_calls": None if max_calls is None else _count("max_calls", max_calls, 0, 1_000_000, label),
            "tags": _tags(tags, label),
            "settings": MappingProxyType(_settings(settings, label)),
            "implementations": MappingProxyType(implementations),
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)

    @property
    def model_name(self) -> str:
        """The model's name as text, also where a model object was given."""
        if isinstance(self.model, str):
            return self.model
        named = getattr(self.model, "model_name", None) or getattr(self.model, "name", None)
        return named if isinstance(named, str) else type(self.model).__name__

    def replace(self, **changes: Any) -> Agent:
        """The same agent with other fields. A list of tools replaces the agent's own, it does not add to it.

        Args:
            changes: Fields by the names that ``Agent`` takes.

        Raises:
            AgentDefinitionError: If a field is unknown, or has a value that cannot work.
            ToolSourceError: If an entry of ``tools`` has none of the accepted forms.
        """
        for key in changes:
            if key not in _FIELDS:
                raise AgentDefinitionError(f"an agent has no field {key!r}", hint=did_you_mean(key, _FIELDS))
        fields: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS} | changes
        if isinstance(fields["tools"], list | tuple):
            listed = cast("Sequence[Any]", fields["tools"])
            # A name that the agent has an implementation for keeps it.
            fields["tools"] = [self.implementations.get(_name_of(entry), entry) for entry in listed]
        return Agent(fields.pop("model"), **fields)

    def to_json(self) -> dict[str, Any]:
        """The agent as plain JSON data, in snake_case, with only the fields that say something.

        Raises:
            AgentDefinitionError: If its model is an object, which has no JSON form.
        """
        if not isinstance(self.model, str):
            raise AgentDefinitionError(
                f"agent {self.name!r} has a model object, which cannot be written as JSON",
                hint="name the model, and pass the object to run(..., model=...)",
            )
        data: dict[str, Any] = {"id": self.id, "model": self.model}
        if self.name != self.id:
            data["name"] = self.name
        for key in ("instructions", "description"):
            if getattr(self, key):
                data[key] = getattr(self, key)
        data["tools"] = [source_to_json(source) for source in self.tools]
        data["max_steps"] = self.max_steps
        if self.max_calls is not None:
            data["max_calls"] = self.max_calls
        if self.tags is not None:
            data["tags"] = sorted(self.tags)
        if self.settings:
            data["settings"] = copy.deepcopy(dict(self.settings))
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Agent:
        """Read an agent from plain data, in either casing. Implementations are found by name when it runs.

        Raises:
            AgentDefinitionError: If a key is unknown or missing, or a value cannot work.
        """
        if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - untrusted data
            raise AgentDefinitionError(f"an agent is a JSON object, not {data!r}")
        fields: dict[str, Any] = {}
        for key, value in data.items():
            name = _CAMEL.get(key, key)
            if name not in _FIELDS:
                raise AgentDefinitionError(f"unknown key {key!r} of an agent", hint=did_you_mean(key, _FIELDS))
            if name in fields:
                raise AgentDefinitionError(f"{name!r} of an agent is given twice", hint="keep one casing")
            fields[name] = value
        if not isinstance(fields.get("tools", []), list | tuple):
            raise AgentDefinitionError(f"'tools' of an agent has the wrong type: {type(fields['tools']).__name__}")
        if "model" not in fields:
            raise AgentDefinitionError("an agent needs a 'model'", hint='write {"model": "local"}')
        try:
            return cls(fields.pop("model"), **fields)
        except TypeError as error:
            raise AgentDefinitionError(f"an agent has a value of the wrong type: {error}") from None

    def __repr__(self) -> str:
        return f"Agent({self.model_name!r}, id={self.id!r}, tools={len(self.tools)})"

    def __hash__(self) -> int:
        return hash((self.id, self.model_name, self.instructions, self.tools))


def _name_of(entry: object) -> str:
    return entry if isinstance(entry, str) else entry.name if isinstance(entry, CustomSource) else ""


def _as_id(name: str | None) -> str:
    if name is None:
        return "agent"
    cleaned = "".join(char if is_name(char) else "-" for char in name.strip().lower())
    return cleaned.strip("-")[:64] or "agent"


def _text(key: str, value: object, label: str) -> str:
    if not isinstance(value, str):
        raise AgentDefinitionError(f"{label}: {key} must be text, not {value!r}")
    return value


def _count(key: str, value: object, low: int, high: int, label: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise AgentDefinitionError(f"{label}: {key} must be a whole number from {low} to {high}, not {value!r}")
    return value


def _tags(tags: object, label: str) -> frozenset[str] | None:
    if tags is None:
        return None
    words = [None] if isinstance(tags, str) or not isinstance(tags, Iterable) else list(cast("Iterable[object]", tags))
    if not all(isinstance(word, str) and word for word in words):
        raise AgentDefinitionError(f"{label}: tags must be a set of words, not {tags!r}", hint="write tags={...}")
    return frozenset(cast("list[str]", words))


def _settings(settings: object, label: str) -> dict[str, Any]:
    if settings is None:
        return {}
    if not isinstance(settings, Mapping) or not all(
        isinstance(key, str) for key in cast("Mapping[object, Any]", settings)
    ):
        raise AgentDefinitionError(
            f"{label}: settings must be a mapping, not {settings!r}", hint='write settings={"temperature": 0}'
        )
    return copy.deepcopy(dict(cast("Mapping[str, Any]", settings)))


__all__ = ["MAX_STEPS", "Agent"]
