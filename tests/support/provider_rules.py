"""What each provider refuses of a schema, written down a second time and independently of the views."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
GOOGLE_REFUSES = {
    "$ref", "$defs", "$schema", "const", "oneOf", "allOf", "not", "additionalProperties", "patternProperties",
    "propertyNames", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems", "multipleOf", "contains", "prefixItems",
    "examples", "default",
}  # fmt: skip


def schemas(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with its path."""
    if not isinstance(node, dict):
        return
    schema = cast("dict[str, Any]", node)
    yield path, schema
    for key, value in schema.items():
        if key in ("properties", "patternProperties"):
            for name, item in value.items():
                yield from schemas(item, f"{path}/{key}/{name}")
        elif key in ("items", "additionalProperties", "propertyNames", "contains", "not"):
            yield from schemas(value, f"{path}/{key}")
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for number, item in enumerate(value):
                yield from schemas(item, f"{path}/{key}/{number}")


def refusals(schema: dict[str, Any], dialect: str) -> list[str]:
    """Why a provider would refuse the schema of a tool's arguments; empty if it takes it."""
    found = [f"{key} at the top" for key in ("oneOf", "anyOf", "allOf", "enum", "not") if key in schema]
    if schema.get("type") != "object":
        found.append("the top is not an object")
    for path, node in schemas(schema):
        if node.get("type") == "array" and not isinstance(node.get("items"), dict):
            found.append(f"{path}: an array without items")
        if "allOf" in node or "$schema" in node or isinstance(node.get("type"), list):
            found.append(f"{path}: allOf, $schema or a list of types")
        if dialect != "openai" and "$ref" in node:
            found.append(f"{path}: a reference")
        if dialect == "anthropic":
            found += [f"{path}: the name {key!r}" for key in node.get("properties", {}) if not KEY.fullmatch(key)]
        if dialect == "google":
            found += [f"{path}: {key}" for key in node if key in GOOGLE_REFUSES]
            if any(not isinstance(value, str) for value in node.get("enum", ())):
                found.append(f"{path}: an enumeration of something else than text")
    return found
