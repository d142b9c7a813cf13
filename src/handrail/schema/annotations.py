"""From an annotation to pydantic's core schema and to JSON Schema, by one source for both.

The plain types that most tools use are described here without building an adapter, which keeps the definition of a
tool cheap; anything else goes through pydantic. A test holds the two ways equal.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin, is_typeddict

import typing_extensions
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core import core_schema as cs

Json = dict[str, Any]


class Plain(NamedTuple):
    """A type that is described without an adapter."""

    core: CoreSchema
    json: Json


_SCALARS: dict[object, tuple[Callable[[], CoreSchema], Json]] = {
    str: (cs.str_schema, {"type": "string"}),
    int: (cs.int_schema, {"type": "integer"}),
    float: (cs.float_schema, {"type": "number"}),
    bool: (cs.bool_schema, {"type": "boolean"}),
    type(None): (cs.none_schema, {"type": "null"}),
    None: (cs.none_schema, {"type": "null"}),
    Any: (cs.any_schema, {}),
    list: (lambda: cs.list_schema(), {"type": "array", "items": {}}),
    dict: (lambda: cs.dict_schema(), {"type": "object", "additionalProperties": True}),
}
_LITERALS = {str: "string", int: "integer", bool: "boolean"}


def plain(annotation: Any) -> Plain | None:
    """Describe a plain type; None for one that pydantic has to describe."""
    try:
        scalar = _SCALARS.get(annotation)
    except TypeError:
        return None
    if scalar is not None:
        return Plain(scalar[0](), dict(scalar[1]))
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Union or origin is types.UnionType:
        return _plain_union(arguments)
    if origin is Literal:
        return _plain_literal(arguments)
    if origin is list and (item := plain(arguments[0])) is not None:
        return Plain(cs.list_schema(item.core), {"type": "array", "items": item.json})
    if origin is dict and arguments[0] is str and (item := plain(arguments[1])) is not None:
        extra = item.json or True
        return Plain(cs.dict_schema(cs.str_schema(), item.core), {"type": "object", "additionalProperties": extra})
    return None


def _plain_union(members: tuple[Any, ...]) -> Plain | None:
    described = [plain(member) for member in members]
    if any(one is None for one in described):
        return None
    known = cast("list[Plain]", described)
    json: Json = {"anyOf": [one.json for one in known]}
    if type(None) not in members:
        return Plain(cs.union_schema([one.core for one in known]), json)
    others = [one for one, member in zip(known, members, strict=True) if member is not type(None)]
    if any(not one.json for one in others):
        return None
    inner = others[0].core if len(others) == 1 else cs.union_schema([one.core for one in others])
    ordered = [one.json for one in others] + [{"type": "null"}]
    return Plain(cs.nullable_schema(inner), {"anyOf": ordered})


def _plain_literal(values: tuple[Any, ...]) -> Plain | None:
    kinds: set[type] = {cast("Any", type)(value) for value in values}
    if len(kinds) != 1 or (kind := kinds.pop()) not in _LITERALS:
        return None
    json: Json = {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
    return Plain(cs.literal_schema(list(values)), {**json, "type": _LITERALS[kind]})


class SchemaGenerator(GenerateJsonSchema):
    """Pydantic's generator, told what a tool's schema needs.

    Titles made up from field names are left out. Objects that do not say otherwise are closed, as validation treats
    them. A set takes a list with repetitions, as validation does. Integer keys of a mapping are described.
    """

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as in the base class

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Say no: a title that repeats the field's name only costs tokens."""
        return False

    def typed_dict_schema(self, schema: cs.TypedDictSchema) -> JsonSchemaValue:
        """Describe a TypedDict, closed unless it says otherwise."""
        return _closed(super().typed_dict_schema(schema), schema.get("extra_behavior"), schema.get("config"))

    def model_schema(self, schema: cs.ModelSchema) -> JsonSchemaValue:
        """Describe a model, closed unless it says otherwise."""
        return _closed(super().model_schema(schema), None, schema.get("config"))

    def dataclass_schema(self, schema: cs.DataclassSchema) -> JsonSchemaValue:
        """Describe a dataclass, closed unless it says otherwise."""
        return _closed(super().dataclass_schema(schema), None, schema.get("config"))

    def set_schema(self, schema: cs.SetSchema) -> JsonSchemaValue:
        """Describe a set: a list in which an item may be repeated."""
        return self._repeatable(super().set_schema(schema))

    def frozenset_schema(self, schema: cs.FrozenSetSchema) -> JsonSchemaValue:
        """Describe a frozenset: a list in which an item may be repeated."""
        return self._repeatable(super().frozenset_schema(schema))

    def dict_schema(self, schema: cs.DictSchema) -> JsonSchemaValue:
        """Describe a mapping, with a pattern for keys that must be integers."""
        json = super().dict_schema(schema)
        if schema.get("keys_schema", {}).get("type") == "int":
            json.setdefault("propertyNames", {"pattern": r"^-?(0|[1-9][0-9]*)$"})
        return json

    def _repeatable(self, json: JsonSchemaValue) -> JsonSchemaValue:
        if self.mode == "validation":
            json.pop("uniqueItems", None)
        return json


def _closed(json: JsonSchemaValue, extra: str | None, config: Any) -> JsonSchemaValue:
    said: Any = extra or cast("Json", config or {}).get("extra_fields_behavior")
    if said is None and json.get("type") == "object" and "additionalProperties" not in json:
        json["additionalProperties"] = False
    return json


def says_extra(core: Any) -> bool:
    """Tell whether some model inside a core schema states itself what to do with unknown keys."""
    if isinstance(core, dict):
        node = cast("dict[str, Any]", core)
        config = node.get("config")
        if node.get("type") in ("model", "dataclass", "typed-dict", "model-fields") and (
            "extra_behavior" in node or (isinstance(config, dict) and "extra_fields_behavior" in config)
        ):
            return True
        return any(says_extra(item) for key, item in node.items() if key not in ("metadata", "cls", "config"))
    if isinstance(core, list | tuple):
        return any(says_extra(item) for item in cast("list[Any]", core))
    return False


def mentions(core: Any, kind: str) -> bool:
    """Tell whether a core schema of that type occurs inside a core schema."""
    if isinstance(core, dict):
        node = cast("dict[str, Any]", core)
        return node.get("type") == kind or any(
            mentions(item, kind) for key, item in node.items() if key not in ("metadata", "cls", "config")
        )
    return isinstance(core, list | tuple) and any(mentions(item, kind) for item in cast("list[Any]", core))


def portable(annotation: Any) -> Any:
    """Replace what pydantic refuses on this Python version by an equal that it takes.

    Before Python 3.12 pydantic cannot read a ``typing.TypedDict``; the one of ``typing_extensions`` it can.
    """
    if sys.version_info >= (3, 12):
        return annotation
    if is_typeddict(annotation):
        return _portable_typeddict(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal or not arguments:
        return annotation
    replaced = tuple(portable(argument) for argument in arguments)
    if all(new is old for new, old in zip(replaced, arguments, strict=True)):
        return annotation
    if origin is types.UnionType:
        return Union[replaced]  # noqa: UP007 - a union of run-time values
    if origin is typing.Annotated:
        return typing.Annotated[(portable(arguments[0]), *annotation.__metadata__)]
    return origin[replaced] if not hasattr(annotation, "copy_with") else annotation.copy_with(replaced)


_PORTABLE: dict[Any, Any] = {}


def _portable_typeddict(annotation: Any) -> Any:
    if type(annotation) is type(typing_extensions.TypedDict("_Probe", {})):  # pyright: ignore[reportGeneralTypeIssues]
        return annotation
    if annotation not in _PORTABLE:
        hints = typing.get_type_hints(annotation, include_extras=True)
        optional: frozenset[str] = annotation.__optional_keys__
        fields = {
            name: typing_extensions.NotRequired[portable(hint)] if name in optional else portable(hint)
            for name, hint in hints.items()
        }
        make: Any = typing_extensions.TypedDict
        made = make(annotation.__name__, fields)
        made.__doc__, made.__module__ = annotation.__doc__, annotation.__module__
        if (config := getattr(annotation, "__pydantic_config__", None)) is not None:
            made.__pydantic_config__ = config
        _PORTABLE[annotation] = made
    return _PORTABLE[annotation]
