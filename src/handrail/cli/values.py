"""Arguments as people type them: ``key=value``, read by the tool's JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import click

__all__ = ["read_arguments", "read_pairs"]

Json = Mapping[str, Any]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "null": (type(None),),
    "array": (list,), "object": (dict,),
}  # fmt: skip


def read_pairs(words: Iterable[str]) -> dict[str, str]:
    """Split ``key=value`` words.

    Raises:
        click.UsageError: If a word has no ``=``, or a key comes twice.
    """
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{word!r} is not key=value; for JSON write --args '{{...}}'")
        if key in pairs:
            raise click.UsageError(f"{key!r} is given twice; for a list write {key}='[...]'")
        pairs[key] = value
    return pairs


def read_arguments(pairs: Mapping[str, str], text: str | None, schema: Json) -> dict[str, Any]:
    """Give the arguments of a call, unchecked: the gate checks them.

    A parameter that takes a string gets the text as it is. Any other gets the text read as JSON, or the text where it
    is none, so that the gate can say what was expected.

    Args:
        pairs: What was typed as ``key=value``.
        text: What was given as ``--args``; None where it was not.
        schema: The schema of the tool's arguments.

    Raises:
        click.UsageError: If ``text`` is not a JSON object, or has a key of ``pairs``.
    """
    arguments = _read_object(text)
    for key, value in pairs.items():
        if key in arguments:
            raise click.UsageError(f"{key!r} is given twice: as key=value, and in --args")
        arguments[key] = _read(value, _property(schema, key), schema)
    return arguments


def _read_object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"--args is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError('--args must be a JSON object, such as \'{"key": "value"}\'')
    return cast("dict[str, Any]", value)


def _property(schema: Json, key: str) -> Json:
    properties: object = schema.get("properties")
    found: object = cast("Json", properties).get(key) if isinstance(properties, Mapping) else None
    return cast("Json", found) if isinstance(found, Mapping) else {"type": "string"}


def _read(text: str, schema: Json, root: Json) -> Any:
    types = set(_types(schema, root, frozenset()))
    if types == {"string"}:
        return text
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    if "string" not in types:
        return value
    # "5" for a parameter that takes a number or text is the number; "5" for text or a list is the text.
    return value if not isinstance(value, str) and any(_fits(value, name) for name in types) else text


def _fits(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name in ("boolean", "any")
    return name == "any" or isinstance(value, _TYPES.get(name, ()))


def _types(schema: Json, root: Json, seen: frozenset[str]) -> Iterator[str]:
    """The JSON types that a schema takes, as far as it says; all but strings where it says nothing."""
    if isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        yield from _types(_follow(reference, root), root, seen | {reference})
        return
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(options := schema.get(key), list):
            for option in cast("list[Any]", options):
                if isinstance(option, Mapping):
                    yield from _types(cast("Json", option), root, seen)
            return
    kind = schema.get("type")
    if isinstance(kind, str):
        yield kind
    elif isinstance(kind, list):
        yield from (str(one) for one in cast("list[Any]", kind))
    elif isinstance(values := schema.get("enum", [schema["const"]] if "const" in schema else None), list):
        yield from ("string" if isinstance(value, str) else "any" for value in cast("list[Any]", values))
    else:
        yield "any"


def _follow(reference: str, root: Json) -> Json:
    here = root
    for step in reference.removeprefix("#/").split("/"):
        inner: object = here.get(step.replace("~1", "/").replace("~0", "~"))
        if not isinstance(inner, Mapping):
            return {}
        here = cast("Json", inner)
    return here
