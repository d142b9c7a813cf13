"""Schemas that somebody else wrote: checked, copied, bounded, and never followed out of the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, cast
from urllib.parse import unquote

from pydantic_core import from_json, to_json

from handrail.errors import ToolDefinitionError
from handrail.naming import did_you_mean
from handrail.schema.arguments import ArgumentError, Parsed, secret_keys
from handrail.schema.repair import name_of, reading
from handrail.schema.wire import WireError, join, read_object

MAX_SCHEMA_BYTES = 1 << 20
"""The largest schema that is taken, in bytes of JSON."""

MAX_SCHEMA_DEPTH = 100
"""How deep a schema may nest."""

MAX_REFERENCES = 200
"""How many references the check of a value follows for each value inside of it."""

_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
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
    if _no_object(root):
        raise ToolDefinitionError(f"{label}: no object matches it, and arguments are an object")
    root["type"] = "object"
    if not isinstance(root.setdefault("properties", {}), dict):
        raise ToolDefinitionError(f"{label}: 'properties' must be an object")
    return _checked(root, label)


def _no_object(root: Json) -> bool:
    """Whether a schema without a type plainly speaks of something else than an object."""
    if "const" in root and not isinstance(root["const"], dict):
        return True
    if isinstance(root.get("enum"), list) and not any(isinstance(one, dict) for one in cast("list[Any]", root["enum"])):
        return True
    choices: list[list[Any]] = [root[key] for key in ("anyOf", "oneOf") if isinstance(root.get(key), list)]
    return any(members and all(_is_not_object(member) for member in members) for members in choices)


def _is_not_object(member: Any) -> bool:
    kind = cast("Json", member).get("type") if isinstance(member, dict) else None
    return isinstance(kind, str) and kind != "object"


def import_output_schema(schema: Mapping[str, Any], *, label: str = "the output schema") -> Json:
    """Take over a JSON Schema for the result of a tool, of any type. Refuses what ``import_schema`` refuses."""
    return _checked(_copy(schema, label), label)


def references(schema: Any) -> Iterator[str]:
    """Every ``$ref`` of a schema, leaving out property names and plain data that look like one."""
    for node in _nodes(schema):
        for key in ("$ref", "$dynamicRef"):
            if isinstance(value := node.get(key), str):
                yield value


def _nodes(schema: Any, depth: int = 0) -> Iterator[Json]:
    """Every schema inside of a schema, and itself."""
    if not isinstance(schema, dict) or depth > MAX_SCHEMA_DEPTH * 2:
        return
    node = cast("Json", schema)
    yield node
    for key, value in node.items():
        if key in _MAP_KEYWORDS and isinstance(value, dict):
            below = list(cast("Json", value).values())
        elif key in _DATA_KEYWORDS:
            continue
        else:
            below = cast("list[Any]", value) if isinstance(value, list) else [value]
        for item in below:
            yield from _nodes(item, depth + 1)


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


_OPENING = frozenset(
    {"additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames", "allOf", "anyOf", "oneOf",
     "if", "$ref", "$dynamicRef", "dependentSchemas", "dependencies"}
)  # fmt: skip
"""Keywords that can let in keys which ``properties`` does not name."""


class ForeignArguments:
    """The arguments of a tool whose schema is given as JSON Schema.

    Values are checked with jsonschema and reach the body as plain JSON values.

    Attributes:
        json_schema: The schema, as ``import_schema`` gives it.
    """

    def __init__(self, schema: Mapping[str, Any], *, label: str) -> None:
        self.json_schema = import_schema(schema, label=label)
        self._validator: Any = None

    @property
    def validator(self) -> Any:
        """The jsonschema validator, built at the first call."""
        if self._validator is None:
            self._validator = make_validator(self.json_schema)
        return self._validator

    @cached_property
    def secret_keys(self) -> frozenset[str]:
        """Keys whose values are passwords: they never reach an event."""
        return secret_keys(self.json_schema)

    def parse(self, raw: object) -> Parsed:
        """Read and check the arguments of one call; see ``Arguments.parse``."""
        try:
            sent, _, repaired = read_object(raw)
        except WireError as error:
            raise ArgumentError(str(error)) from None
        repairs = [repaired] if repaired and self.json_schema["properties"] else []
        values = sent
        problem = _first_problem(self.validator, values)
        if problem is not None and (fixed := self._repaired(sent, repairs)) is not None:
            values, problem = fixed, _first_problem(self.validator, fixed)
        if problem is None:
            problem = self._stray(values)
        if problem is not None:
            raise ArgumentError(problem)
        return Parsed(sent, (), dict(values), tuple(repairs))

    def _stray(self, values: Json) -> str | None:
        """Refuse keys that a schema neither names nor says that it takes: most often they are misspelt."""
        schema = self.json_schema
        known: Json = schema["properties"]
        if not known or any(key in schema for key in _OPENING):
            return None
        stray = [name for name in values if name not in known]
        return (
            "; ".join(f"{name}: unknown argument; {did_you_mean(name, known, what='accepted')}" for name in stray)
            or None
        )

    def _repaired(self, sent: Json, repairs: list[str]) -> Json | None:
        """Leave out nulls of optional arguments, and read text where the schema names another type."""
        required = self.json_schema.get("required", ())
        fixed: Json = {}
        before = len(repairs)
        for key, value in sent.items():
            if value is None and key not in required and not _takes_null(self._type_of(key)):
                repairs.append(f"{key}: null for an optional argument: left out")
                continue
            fixed[key] = reading(str(self._type_of(key)), value)
            if fixed[key] is not value:
                repairs.append(f"{key}: {name_of(value)} read as {name_of(fixed[key])}")
        return fixed if len(repairs) > before else None

    def _type_of(self, key: str) -> Any:
        described: Any = self.json_schema["properties"].get(key)
        return cast("Json", described).get("type") if isinstance(described, dict) else None


def _takes_null(kind: Any) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


def make_validator(schema: Json) -> Any:
    """A jsonschema validator that resolves nothing outside of the schema, and follows a bounded number of references.

    A small schema can refer to itself so often that checking one small value would take years.
    """
    import referencing
    from jsonschema import validators

    dialect = _dialect(schema)
    left = [0]

    def bounded(follow: Any) -> Any:
        def keyword(validator: Any, value: Any, instance: Any, within: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise OverflowError("too many references")
            yield from follow(validator, value, instance, within)

        return keyword

    keywords = {name: bounded(follow) for name, follow in dialect.VALIDATORS.items() if name in _REFERENCES}
    made = cast("Any", validators).extend(dialect, keywords)
    made.left = left
    return made(schema, registry=referencing.Registry[Any]())


def _dialect(schema: Json) -> Any:
    """The validator class of the dialect that a schema names; 2020-12 where it names none."""
    from jsonschema import Draft202012Validator, validators

    return cast("Any", validators).validator_for(schema, default=Draft202012Validator)


def first_error(schema: Json, value: Any, *, root: str = "the arguments") -> str | None:
    """Check a value against a schema; say what is wrong first, without repeating the value."""
    return _first_problem(make_validator(schema), value, root)


def _first_problem(validator: Any, value: Any, root: str = "the arguments") -> str | None:
    validator.left[0] = MAX_REFERENCES * (10 + _count(value))
    try:
        error = next(iter(validator.iter_errors(value)), None)
    except RecursionError:
        return "the value, or its schema, nests too deep"
    except OverflowError:
        return "the schema refers to itself too often to be checked"
    except Exception as failure:  # jsonschema raises what a broken foreign schema makes it raise
        return f"the schema cannot be applied ({type(failure).__name__})"
    if error is None:
        return None
    from jsonschema import exceptions

    return _say(cast("Any", exceptions).best_match([error]) or error, root)


def _count(value: Any) -> int:
    """How many values there are inside of a value, itself included."""
    if isinstance(value, dict):
        return 1 + sum(map(_count, cast("Json", value).values()))
    return 1 + sum(map(_count, cast("list[Any]", value))) if isinstance(value, list) else 1


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
    if _too_deep(cast("object", schema), label):
        raise ToolDefinitionError(f"{label} nests deeper than {MAX_SCHEMA_DEPTH} levels")
    try:
        data = to_json(dict(cast("Mapping[str, Any]", schema)), inf_nan_mode="constants")
        if len(data) > MAX_SCHEMA_BYTES:
            raise ToolDefinitionError(f"{label} is larger than {MAX_SCHEMA_BYTES} bytes")
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise ToolDefinitionError(f"{label} is not JSON: {error}") from None


def _too_deep(schema: object, label: str) -> bool:
    """Measured without recursion: the schema may be built to overflow the stack, or the memory."""
    level: list[Any] = [schema]
    seen = 0
    for _ in range(MAX_SCHEMA_DEPTH * 2):
        below: list[Any] = []
        for node in level:
            if isinstance(node, Mapping):
                below.extend(cast("Mapping[str, Any]", node).values())
            elif isinstance(node, list | tuple):
                below.extend(cast("list[Any]", node))
            if seen + len(below) > MAX_SCHEMA_BYTES:
                raise ToolDefinitionError(f"{label} is larger than {MAX_SCHEMA_BYTES} bytes")
        if not below:
            return False
        level, seen = below, seen + len(below)
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
    try:
        if not reference.startswith("#/") and reference != "#":
            raise LookupError  # an anchor that nothing has
        point(schema, reference)
    except (LookupError, TypeError, ValueError):
        raise ToolDefinitionError(f"{label}: the reference {reference!r} leads nowhere") from None


def _checked(schema: Json, label: str) -> Json:
    for node in _nodes(schema):
        if node is not schema:
            node.pop("$schema", None)  # one document, one dialect
    anchors = {
        node.get(name) for node in _nodes(schema) for name in ("$anchor", "$dynamicAnchor") if _is_text(node, name)
    }
    anchors |= {str(node.get("$id")).removeprefix("#") for node in _nodes(schema) if _is_text(node, "$id")}
    for reference in references(schema):
        if reference.removeprefix("#") not in anchors:
            _check_reference(schema, reference, label)
    _check_keywords(schema, label)
    return schema


def _is_text(node: Json, name: str) -> bool:
    return isinstance(node.get(name), str)


def _check_keywords(schema: Json, label: str) -> None:
    from jsonschema.exceptions import SchemaError

    try:
        _dialect(schema).check_schema(schema)
    except SchemaError as error:
        path = "/".join(str(key) for key in error.absolute_path) or "the top"
        raise ToolDefinitionError(f"{label} is not a valid JSON Schema at {path}: {error.validator}") from None
    except RecursionError:
        raise ToolDefinitionError(f"{label} nests too deep") from None
    except Exception as error:  # what jsonschema raises where the schema of the schema does not foresee something
        raise ToolDefinitionError(f"{label} is not a valid JSON Schema ({type(error).__name__})") from None
