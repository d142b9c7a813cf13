"""Schemas that somebody else wrote: checked, copied, bounded, and never followed out of the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

from pydantic_core import from_json, to_json

from handrail.errors import ToolDefinitionError
from handrail.naming import did_you_mean
from handrail.schema.arguments import ArgumentError, Parsed
from handrail.schema.wire import WireError, join, read_object

MAX_SCHEMA_BYTES = 1 << 20
"""The largest schema that is taken, in bytes of JSON."""

MAX_SCHEMA_DEPTH = 100
"""How deep a schema may nest."""

_DATA_KEYWORDS = frozenset({"const", "default", "enum", "examples"})
_MAP_KEYWORDS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
Json = dict[str, Any]


def import_schema(schema: Mapping[str, Any], *, label: str = "the schema") -> Json:
    """Take over a JSON Schema for the arguments of a tool.

    The result is a copy with an object at the top. References stay references; those that lead out of the document,
    or nowhere, are refused, and nothing is ever fetched.

    Raises:
        ToolDefinitionError: If it is not a JSON Schema of an object, or too deep, too large or not JSON.
    """
    copied = _copy(schema, label)
    root = _resolve_root(copied, label)
    kind = root.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise ToolDefinitionError(f"{label}: the arguments must be an object, not {kind!r}")
    root["type"] = "object"
    if not isinstance(root.setdefault("properties", {}), dict):
        raise ToolDefinitionError(f"{label}: 'properties' must be an object")
    for reference in references(root):
        _check_reference(root, reference, label)
    _check_keywords(root, label)
    return root


def import_output_schema(schema: Mapping[str, Any], *, label: str = "the output schema") -> Json:
    """Take over a JSON Schema for the result of a tool, of any type. Refuses what ``import_schema`` refuses."""
    copied = _copy(schema, label)
    for reference in references(copied):
        _check_reference(copied, reference, label)
    _check_keywords(copied, label)
    return copied


def references(schema: Any, depth: int = 0) -> Iterator[str]:
    """Every ``$ref`` of a schema, leaving out property names and plain data that look like one."""
    if not isinstance(schema, dict) or depth > MAX_SCHEMA_DEPTH:
        return
    node = cast("Json", schema)
    for key, value in node.items():
        if key in ("$ref", "$dynamicRef") and isinstance(value, str):
            yield value
        elif key in _MAP_KEYWORDS and isinstance(value, dict):
            for item in cast("Json", value).values():
                yield from references(item, depth + 1)
        elif key not in _DATA_KEYWORDS:
            for item in cast("list[Any]", value) if isinstance(value, list) else [value]:
                yield from references(item, depth + 1)


def point(schema: Json, reference: str) -> Any:
    """Follow a reference such as ``#/$defs/A`` inside its document.

    Raises:
        LookupError: If it leads nowhere.
    """
    node = cast("Any", schema)
    for part in reference.removeprefix("#").split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        node = cast("list[Any]", node)[int(key)] if isinstance(node, list) else node[key]
    return node


class ForeignArguments:
    """The arguments of a tool whose schema is given as JSON Schema.

    Values are checked with jsonschema and reach the body as plain JSON values.

    Attributes:
        json_schema: The schema, as ``import_schema`` gives it.
    """

    secret_keys: frozenset[str] = frozenset()

    def __init__(self, schema: Mapping[str, Any], *, label: str) -> None:
        self.json_schema = import_schema(schema, label=label)
        self._validator: Any = None

    @property
    def validator(self) -> Any:
        """The jsonschema validator, built at the first call."""
        if self._validator is None:
            self._validator = make_validator(self.json_schema)
        return self._validator

    def parse(self, raw: object) -> Parsed:
        """Read and check the arguments of one call; see ``Arguments.parse``."""
        try:
            sent, _, repair = read_object(raw)
        except WireError as error:
            raise ArgumentError(str(error)) from None
        repairs = [repair] if repair and self.json_schema["properties"] else []
        values = sent
        problem = _first_problem(self.validator, values)
        if problem is not None and (dropped := self._without_nulls(sent)) != sent:
            values, problem = dropped, _first_problem(self.validator, dropped)
            repairs += [f"{key}: null for an optional argument: left out" for key in sent if key not in dropped]
        if problem is not None:
            raise ArgumentError(problem)
        return Parsed(sent, (), dict(values), tuple(repairs))

    def _without_nulls(self, sent: Json) -> Json:
        required = self.json_schema.get("required", ())
        return {key: value for key, value in sent.items() if value is not None or key in required}


def make_validator(schema: Json) -> Any:
    """A jsonschema validator that resolves nothing outside of the schema."""
    import referencing

    return _dialect(schema)(schema, registry=referencing.Registry[Any]())


def _dialect(schema: Json) -> Any:
    """The validator class of the dialect that a schema names; 2020-12 where it names none."""
    from jsonschema import Draft202012Validator, validators

    return cast("Any", validators).validator_for(schema, default=Draft202012Validator)


def first_error(schema: Json, value: Any, *, root: str = "the arguments") -> str | None:
    """Check a value against a schema; say what is wrong first, without repeating the value."""
    return _first_problem(make_validator(schema), value, root)


def _first_problem(validator: Any, value: Any, root: str = "the arguments") -> str | None:
    try:
        error = next(iter(validator.iter_errors(value)), None)
    except RecursionError:
        return "the value, or its schema, nests too deep"
    except Exception as failure:  # jsonschema raises what a broken foreign schema makes it raise
        return f"the schema cannot be applied ({type(failure).__name__})"
    if error is None:
        return None
    from jsonschema import exceptions

    return _say(cast("Any", exceptions).best_match([error]) or error, root)


def _say(error: Any, root: str) -> str:
    path = ""
    for key in error.absolute_path:
        path = join(path, key)
    schema: Any = error.schema
    known: Json = schema.get("properties", {}) if schema not in (True, False) else {}
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return "; ".join(f"{join(path, name)}: required, and missing" for name in missing)
    if error.validator == "additionalProperties" and error.validator_value is False:
        stray = [name for name in error.instance if name not in known]
        return "; ".join(
            f"{join(path, name)}: unknown argument; {did_you_mean(name, known, what='accepted')}" for name in stray
        )
    expected = to_json(error.validator_value, fallback=str).decode()
    return f"{path or root}: does not match {error.validator}: {expected[:200]}"


def _copy(schema: object, label: str) -> Json:
    if not isinstance(schema, Mapping):
        raise ToolDefinitionError(f"{label} must be a JSON Schema object, not {type(schema).__name__}")
    if _too_deep(cast("object", schema)):
        raise ToolDefinitionError(f"{label} nests deeper than {MAX_SCHEMA_DEPTH} levels")
    try:
        data = to_json(dict(cast("Mapping[str, Any]", schema)), inf_nan_mode="constants")
        if len(data) > MAX_SCHEMA_BYTES:
            raise ToolDefinitionError(f"{label} is larger than {MAX_SCHEMA_BYTES} bytes")
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise ToolDefinitionError(f"{label} is not JSON: {error}") from None


def _too_deep(schema: object) -> bool:
    """Measured without recursion: the schema may be built to overflow the stack."""
    level: list[Any] = [schema]
    for _ in range(MAX_SCHEMA_DEPTH * 2):
        below: list[Any] = []
        for node in level:
            if isinstance(node, Mapping):
                below.extend(cast("Mapping[str, Any]", node).values())
            elif isinstance(node, list | tuple):
                below.extend(cast("list[Any]", node))
        if not below:
            return False
        level = below
    return True


def _resolve_root(schema: Json, label: str) -> Json:
    """A reference at the top is replaced by what it leads to, so that the top is an object that says so."""
    seen: set[str] = set()
    while isinstance(reference := schema.get("$ref"), str) and "properties" not in schema:
        if reference in seen:
            raise ToolDefinitionError(f"{label}: the reference {reference!r} leads to itself")
        seen.add(reference)
        _check_reference(schema, reference, label)
        target = point(schema, reference)
        if not isinstance(target, dict):
            raise ToolDefinitionError(f"{label}: the reference {reference!r} does not lead to a schema")
        schema = {**cast("Json", target), **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _check_reference(schema: Json, reference: str, label: str) -> None:
    if not reference.startswith("#"):
        raise ToolDefinitionError(
            f"{label}: the reference {reference!r} leads out of the schema",
            hint="references are never fetched",
        )
    if not reference.startswith("#/") and reference != "#":
        return  # an anchor: jsonschema resolves it inside the document
    try:
        point(schema, reference)
    except (LookupError, TypeError, ValueError):
        raise ToolDefinitionError(f"{label}: the reference {reference!r} leads nowhere") from None


def _check_keywords(schema: Json, label: str) -> None:
    from jsonschema.exceptions import SchemaError

    try:
        _dialect(schema).check_schema(schema)
    except SchemaError as error:
        path = "/".join(str(key) for key in error.absolute_path) or "the top"
        raise ToolDefinitionError(f"{label} is not a valid JSON Schema at {path}: {error.validator}") from None
    except RecursionError:
        raise ToolDefinitionError(f"{label} nests too deep") from None
