"""What each provider takes of a JSON Schema, and a schema rewritten so that it takes all of it.

A provider refuses a whole request for one keyword that it does not know, so a schema is rewritten before it is sent.
The view only ever accepts more than the original: what it leaves out is still checked, because arguments are
validated against the original.

What is refused, as the providers' own error messages say:

- OpenAI: combinators at the top; ``allOf``; an array without ``items``.
- Anthropic: combinators at the top; references; property names outside ``[A-Za-z0-9_.-]{1,64}``.
- Google: everything outside a subset of OpenAPI 3.0: references, ``const``, lists of types, exclusive bounds,
  enumerations of anything but text, ``additionalProperties``, ``patternProperties`` and more.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from handrail.naming import wire_name
from handrail.schema.foreign import point

Dialect: TypeAlias = Literal["openai", "anthropic", "google"]
"""Whose rules a view follows. Providers that speak OpenAI's protocol follow OpenAI's."""

MAX_NODES = 5_000
"""How many schemas a view may hold. Beyond it, references are replaced by a schema that takes anything."""

Json = dict[str, Any]

_NOISE = frozenset({"$schema", "$id", "$anchor", "$comment", "$vocabulary", "$dynamicAnchor", "$defs", "definitions"})
_CONDITIONS = frozenset({"not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies"})
_COMBINATORS = ("oneOf", "anyOf", "allOf")
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_GOOGLE = frozenset(
    {
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "items",
        "properties",
        "required",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "minProperties",
        "maxProperties",
        "pattern",
        "anyOf",
        "propertyOrdering",
    }
)
_GOOGLE_FORMATS = frozenset({"date-time", "enum", "int32", "int64", "float", "double"})
_TYPE_NAMES = {"str": "string", "bool": "boolean", "int": "integer", "float": "number"}


@dataclass(frozen=True, slots=True)
class View:
    """A schema as one provider takes it.

    Attributes:
        schema: The rewritten schema.
        names: The original name of each property at the top that had to be renamed.
    """

    schema: Json
    names: Mapping[str, str] = field(default_factory=dict[str, str])

    def restore(self, arguments: Any) -> Any:
        """Give arguments their original names back."""
        if not self.names or not isinstance(arguments, Mapping):
            return arguments
        sent = cast("Mapping[str, Any]", arguments)
        return {self.names.get(key, key): value for key, value in sent.items()}


def view(schema: Json, dialect: Dialect) -> View:
    """Rewrite the schema of a tool's arguments for a provider.

    Args:
        schema: The original; it is not changed.
        dialect: Whose rules to follow.
    """
    rewritten = _Rewriter(schema, dialect).top()
    names: dict[str, str] = {}
    if dialect == "anthropic":
        names = _rename(rewritten)
    return View(rewritten, names)


class _Rewriter:
    def __init__(self, schema: Json, dialect: Dialect) -> None:
        self.root = copy.deepcopy(schema)
        self.dialect = dialect
        self.nodes = 0

    def top(self) -> Json:
        """The top is an object without combinators: what its branches name becomes optional."""
        node = self._resolved(self.root, ())[0]
        properties: Json = {}
        for branch in [node, *_branches(node)]:
            resolved = self._resolved(branch, ())[0]
            properties.update({key: value for key, value in _properties(resolved).items() if key not in properties})
        rest = {
            key: value
            for key, value in node.items()
            if key not in _COMBINATORS and key not in ("enum", "const", "$ref")
        }
        required = [key for key in rest.get("required", ()) if key in properties]
        rewritten = self.node({**rest, "type": "object", "properties": properties, "required": required}, ())
        rewritten.setdefault("properties", {})
        if not rewritten.get("required"):
            rewritten.pop("required", None)
        return rewritten

    def node(self, schema: Any, path: tuple[str, ...]) -> Json:
        """Rewrite one schema. ``path`` has the references that led here."""
        self.nodes += 1
        if not isinstance(schema, dict) or self.nodes > MAX_NODES:
            return {}
        node, path = self._resolved(cast("Json", schema), path)
        if self.nodes > MAX_NODES:
            return _described(node)
        node = {key: value for key, value in node.items() if key not in _NOISE and key not in _CONDITIONS}
        node = self._merged(node, path)
        _split_types(node)
        self._rewrite_array(node)
        self._descend(node, path)
        return _for_google(node) if self.dialect == "google" else node

    def _resolved(self, node: Json, path: tuple[str, ...]) -> tuple[Json, tuple[str, ...]]:
        """Put what a reference leads to in its place; a schema inside of itself becomes any value of its type."""
        while isinstance(reference := node.get("$ref"), str):
            beside = {key: value for key, value in node.items() if key != "$ref"}
            try:
                target = point(self.root, reference)
            except (LookupError, TypeError, ValueError):
                target = {}
            if reference in path or not isinstance(target, dict):
                kind = cast("Json", target).get("type") if isinstance(target, dict) else None
                node = {**({"type": kind} if isinstance(kind, str) else {}), **_described(beside)}
                break
            path = (*path, reference)
            node = {**cast("Json", target), **beside}
        return node, path

    def _merged(self, node: Json, path: tuple[str, ...]) -> Json:
        """Fold ``allOf`` into its node."""
        parts: list[Any] = node.pop("allOf", [])
        for part in parts:
            if not isinstance(part, dict):
                continue
            resolved = self._merged(dict(self._resolved(cast("Json", part), path)[0]), path)
            properties = {**_properties(node), **_properties(resolved)}
            required = [*node.get("required", ()), *resolved.get("required", ())]
            node = {**resolved, **node}
            if properties:
                node["properties"] = properties
            if required:
                node["required"] = list(dict.fromkeys(required))
        return {key: value for key, value in node.items() if key not in _NOISE and key not in _CONDITIONS}

    def _rewrite_array(self, node: Json) -> None:
        positions: Any = node.pop("prefixItems", None)
        if isinstance(node.get("items"), list):
            positions = node.pop("items")
        if isinstance(positions, list):
            members = cast("list[Any]", positions)
            node["items"] = members[0] if len(members) == 1 else {"anyOf": members} if members else {}
        if node.get("type") == "array" and not isinstance(node.get("items"), dict):
            node["items"] = {}

    def _descend(self, node: Json, path: tuple[str, ...]) -> None:
        if isinstance(node.get("properties"), dict):
            node["properties"] = {key: self.node(value, path) for key, value in _properties(node).items()}
        for key in ("items", "additionalProperties", "propertyNames", "contains"):
            if isinstance(node.get(key), dict):
                node[key] = self.node(node[key], path)
        if isinstance(node.get("patternProperties"), dict):
            node["patternProperties"] = {
                key: self.node(value, path) for key, value in cast("Json", node["patternProperties"]).items()
            }
        for key in ("anyOf", "oneOf"):
            if isinstance(node.get(key), list):
                node[key] = [self.node(member, path) for member in cast("list[Any]", node[key])]


def _branches(node: Json) -> list[Json]:
    return [cast("Json", branch) for key in _COMBINATORS for branch in node.get(key, ()) if isinstance(branch, dict)]


def _properties(node: Json) -> Json:
    found = node.get("properties")
    return cast("Json", found) if isinstance(found, dict) else {}


def _described(node: Json) -> Json:
    return {"description": node["description"]} if isinstance(node.get("description"), str) else {}


def _split_types(node: Json) -> None:
    """A list of types becomes a choice between schemas of one type each."""
    kinds = node.get("type")
    if not isinstance(kinds, list):
        return
    names = [kind for kind in cast("list[Any]", kinds) if isinstance(kind, str)]
    del node["type"]
    if len(names) == 1:
        node["type"] = names[0]
    elif names and "anyOf" not in node:
        outside = {key: node.pop(key) for key in ("description", "title", "default") if key in node}
        inner = dict(node)
        node.clear()
        node.update(outside)
        node["anyOf"] = [{"type": name, **(inner if name != "null" else {})} for name in names]


def _for_google(node: Json) -> Json:
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if "oneOf" in node:
        node.setdefault("anyOf", node.pop("oneOf"))
    _make_nullable(node)
    _text_enum(node)
    _inclusive(node)
    notes = [str(node["format"])] if node.get("format") and node["format"] not in _GOOGLE_FORMATS else []
    if notes:
        del node["format"]
        node["description"] = " ".join([*([node["description"]] if node.get("description") else []), f"({notes[0]})"])
    return {key: value for key, value in node.items() if key in _GOOGLE}


def _make_nullable(node: Json) -> None:
    members: Any = node.get("anyOf")
    if not isinstance(members, list):
        return
    others = [one for one in cast("list[Json]", members) if one.get("type") != "null"]
    if len(others) == len(cast("list[Any]", members)):
        return
    node["nullable"] = True
    if len(others) == 1:
        del node["anyOf"]
        node.update({key: value for key, value in others[0].items() if key not in node})
    else:
        node["anyOf"] = others


def _text_enum(node: Json) -> None:
    values: Any = node.get("enum")
    if not isinstance(values, list) or not values:
        node.pop("enum", None)
        return
    members = cast("list[Any]", values)
    if all(isinstance(one, str) for one in members):
        node.setdefault("type", "string")
        return
    del node["enum"]
    listed = ", ".join(str(one) for one in members)
    node["description"] = " ".join([*([node["description"]] if node.get("description") else []), f"(one of {listed})"])
    kinds = {_TYPE_NAMES.get(type(one).__name__) for one in members}
    if "type" not in node and len(kinds) == 1 and (kind := kinds.pop()) is not None:
        node["type"] = kind


def _inclusive(node: Json) -> None:
    step = 1 if node.get("type") == "integer" else 0
    low, high = node.pop("exclusiveMinimum", None), node.pop("exclusiveMaximum", None)
    if _is_number(low):
        node.setdefault("minimum", low + step)
    if _is_number(high):
        node.setdefault("maximum", high - step)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rename(schema: Json) -> dict[str, str]:
    """Give properties at the top legal names; those further in that have none are left out."""
    names: dict[str, str] = {}
    properties: Json = {}
    for key, value in _properties(schema).items():
        legal = key
        if _KEY.fullmatch(key) is None:
            legal = wire_name("argument", key)
            names[legal] = key
        properties[legal] = value
        _drop_illegal(value)
    schema["properties"] = properties
    if names:
        back = {original: legal for legal, original in names.items()}
        schema["required"] = [back.get(key, key) for key in schema.get("required", ())]
        if not schema["required"]:
            del schema["required"]
    return names


def _drop_illegal(node: Any) -> None:
    if isinstance(node, list):
        for item in cast("list[Any]", node):
            _drop_illegal(item)
    if not isinstance(node, dict):
        return
    schema = cast("Json", node)
    illegal = [key for key in _properties(schema) if _KEY.fullmatch(key) is None]
    for key in illegal:
        del schema["properties"][key]
    if illegal:
        schema["required"] = [key for key in schema.get("required", ()) if key not in illegal]
        if schema.get("additionalProperties") is False:
            del schema["additionalProperties"]
    for key, value in schema.items():
        if key not in ("enum", "const", "default", "examples", "required"):
            for item in _properties(schema).values() if key == "properties" else [value]:
                _drop_illegal(item)
