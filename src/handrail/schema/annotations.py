"""From an annotation to pydantic's core schema and to JSON Schema, by one source for both.

The plain types that most tools use are described here without building an adapter, which keeps the definition of a
tool cheap; anything else goes through pydantic. A test holds the two ways equal.
"""

from __future__ import annotations

import collections.abc
import enum
import math
import sys
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin

import typing_extensions
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core import core_schema as cs

from handrail.schema.strict import DECIMAL_TEXT, INTEGER_TEXT, NUMBER_TEXT, closes, flag_mask, json_forms, key_texts

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
    if type(None) not in members:
        return Plain(cs.union_schema([one.core for one in known]), _any_of(known))
    others = [one for one, member in zip(known, members, strict=True) if member is not type(None)]
    if any(not one.json for one in others):
        return None
    inner = others[0].core if len(others) == 1 else cs.union_schema([one.core for one in others])
    return Plain(cs.nullable_schema(inner), _any_of([*others, Plain(cs.none_schema(), {"type": "null"})]))


def _any_of(members: list[Plain]) -> Json:
    """Describe a union, each member once."""
    different: list[Json] = []
    for member in members:
        if member.json not in different:
            different.append(member.json)
    return different[0] if len(different) == 1 else {"anyOf": different}


def _plain_literal(values: tuple[Any, ...]) -> Plain | None:
    kinds: set[type] = {cast("Any", type)(value) for value in values}
    if len(kinds) != 1 or (kind := kinds.pop()) not in _LITERALS:
        return None
    json: Json = {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
    return Plain(cs.literal_schema(list(values)), {**json, "type": _LITERALS[kind]})


class SchemaGenerator(GenerateJsonSchema):
    """Pydantic's generator, told what a tool's schema needs.

    Titles made up from field names are left out. Objects that do not say otherwise are closed, as validation treats
    them. A set takes a list with repetitions, as validation does. Keys of a mapping that are not plain text are
    described as they are written, and what no JSON value can be is refused.
    """

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as in the base class

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Say no: a title that repeats the field's name only costs tokens."""
        return False

    def typed_dict_schema(self, schema: cs.TypedDictSchema) -> JsonSchemaValue:
        """Describe a TypedDict, closed unless it says otherwise."""
        return _closed(super().typed_dict_schema(schema), schema)

    def model_schema(self, schema: cs.ModelSchema) -> JsonSchemaValue:
        """Describe a model, closed unless it says otherwise."""
        return _closed(super().model_schema(schema), schema)

    def dataclass_schema(self, schema: cs.DataclassSchema) -> JsonSchemaValue:
        """Describe a dataclass, closed unless it says otherwise."""
        return _closed(super().dataclass_schema(schema), schema)

    def set_schema(self, schema: cs.SetSchema) -> JsonSchemaValue:
        """Describe a set: a list in which an item may be repeated."""
        return self._repeatable(super().set_schema(schema))

    def frozenset_schema(self, schema: cs.FrozenSetSchema) -> JsonSchemaValue:
        """Describe a frozenset: a list in which an item may be repeated."""
        return self._repeatable(super().frozenset_schema(schema))

    def dict_schema(self, schema: cs.DictSchema) -> JsonSchemaValue:
        """Describe a mapping, and how its keys are written where they are not plain text."""
        return self._keyed(super().dict_schema(schema), schema)

    def ordered_dict_schema(self, schema: Any) -> JsonSchemaValue:
        """Describe an ordered mapping as a mapping."""
        return self._keyed(super().ordered_dict_schema(schema), schema)

    def counter_schema(self, schema: Any) -> JsonSchemaValue:
        """Describe a counter as a mapping."""
        return self._keyed(super().counter_schema(schema), schema)

    def decimal_schema(self, schema: cs.DecimalSchema) -> JsonSchemaValue:
        """Describe a decimal: a number, or one as text."""
        json = super().decimal_schema(schema)
        if self.mode == "validation":
            for one in json.get("anyOf", ()):
                if one.get("type") == "string":
                    one.setdefault("pattern", DECIMAL_TEXT)
        return json

    def enum_schema(self, schema: cs.EnumSchema) -> JsonSchemaValue:
        """Describe an enum by its values, each once, and a flag by the sums that it takes."""
        json = super().enum_schema(schema)
        if issubclass(schema["cls"], enum.Flag):
            return {key: value for key, value in json.items() if key != "enum"} | _flag_schema(schema["cls"])
        if "enum" in json:
            json["enum"] = json_forms(schema["cls"].__members__.values())
        return json

    def callable_schema(self, schema: cs.CallableSchema) -> JsonSchemaValue:
        """Refuse a callable: no JSON value is one."""
        return self.handle_invalid_for_json_schema(schema, "a callable")

    def is_subclass_schema(self, schema: cs.IsSubclassSchema) -> JsonSchemaValue:
        """Refuse a class: no JSON value is one."""
        return self.handle_invalid_for_json_schema(schema, "a class")

    def _repeatable(self, json: JsonSchemaValue) -> JsonSchemaValue:
        if self.mode == "validation":
            json.pop("uniqueItems", None)
        return json

    def _keyed(self, json: JsonSchemaValue, schema: Any) -> JsonSchemaValue:
        if (names := self._key_names(schema.get("keys_schema"))) is not None:
            json["propertyNames"] = names
        return json

    def _key_names(self, keys: Any) -> JsonSchemaValue | None:
        core = self._innermost(keys)
        kind = core.get("type")
        if kind in ("int", "float", "bool"):
            return dict(_KEY_NAMES[kind])
        if kind in ("literal", "enum"):
            values = core.get("expected") or core["cls"].__members__.values()
            return None if all(isinstance(form, str) for form in json_forms(values)) else {"enum": key_texts(values)}
        if kind in _NEVER_KEYS:
            self.handle_invalid_for_json_schema(keys, "a mapping whose keys cannot be written as text")
        return None

    def _innermost(self, core: Any) -> Json:
        node: Json = core or {}
        while True:
            if node.get("type") == "definition-ref":
                node = self._definitions_by_ref.get(node["schema_ref"]) or {}
            elif isinstance(node.get("schema"), dict):
                node = node["schema"]
            else:
                return node

    def generate(self, schema: Any, mode: Any = "validation") -> JsonSchemaValue:
        """Describe a core schema, leaving out bounds and defaults that are no JSON numbers."""
        node = cast("Json", schema)
        definitions: list[Json] = node["definitions"] if node.get("type") == "definitions" else []
        self._definitions_by_ref: Json = {one["ref"]: one for one in definitions}
        return _without_non_finite(super().generate(schema, mode))


_KEY_NAMES: dict[str, Json] = {
    "int": {"pattern": INTEGER_TEXT},
    "float": {"pattern": NUMBER_TEXT},
    "bool": {"enum": ["true", "false"]},
}
_NEVER_KEYS = frozenset(
    {"dataclass", "dict", "frozenset", "list", "model", "named-tuple", "none", "set", "tuple", "typed-dict"}
)


def _flag_schema(kind: type[enum.Flag]) -> Json:
    mask = flag_mask(kind)
    sums: Json = {"type": "integer", "minimum": 0, "maximum": mask}
    if mask & (mask + 1) and mask < 256:
        sums = {"type": "integer", "enum": [number for number in range(mask + 1) if not number & ~mask]}
    return {**sums, "description": "A sum of " + ", ".join(f"{one.value} ({one.name})" for one in kind)}


def _closed(json: JsonSchemaValue, core: Any) -> JsonSchemaValue:
    if json.get("type") == "object" and "additionalProperties" not in json and closes(core):
        json["additionalProperties"] = False
    return json


def _without_non_finite(json: Any) -> Any:
    if isinstance(json, dict):
        items = cast("Json", json).items()
        return {
            key: _without_non_finite(value)
            for key, value in items
            if not (isinstance(value, float) and not math.isfinite(value))
        }
    return [_without_non_finite(item) for item in cast("list[Any]", json)] if isinstance(json, list) else json


def portable(annotation: Any) -> Any:
    """Replace what pydantic refuses by an equal that it takes.

    Before Python 3.12 pydantic cannot read a ``typing.TypedDict``; the one of ``typing_extensions`` it can.
    """
    if annotation is typing_extensions.LiteralString:
        return str
    if sys.version_info < (3, 12) and typing_extensions.is_typeddict(annotation):
        return _portable_typeddict(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is collections.abc.Generator:
        raise PydanticSchemaGenerationError(f"Unable to generate pydantic-core schema for {annotation}")
    if origin is None or origin is Literal or not arguments:
        return annotation
    if origin is typing.Annotated:
        inner = portable(arguments[0])
        return annotation if inner is arguments[0] else typing.Annotated[(inner, *annotation.__metadata__)]
    replaced = tuple(portable(argument) for argument in arguments)
    if all(new is old for new, old in zip(replaced, arguments, strict=True)):
        return annotation
    if origin is types.UnionType:
        return Union[replaced]  # noqa: UP007 - a union of run-time values
    return annotation.copy_with(replaced) if hasattr(annotation, "copy_with") else origin[replaced]


_PORTABLE: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _portable_typeddict(annotation: Any) -> Any:
    if annotation in _PORTABLE:
        return _PORTABLE[annotation]
    made = cast("Any", typing_extensions.TypedDict)(annotation.__name__, {})
    _PORTABLE[annotation] = made  # before its fields, which may speak of it
    fields = typeddict_fields(annotation)
    made.__annotations__ = {
        name: portable(hint) if required else typing_extensions.NotRequired[portable(hint)]
        for name, (hint, required) in fields.items()
    }
    made.__required_keys__ = frozenset(name for name, (_, required) in fields.items() if required)
    made.__optional_keys__ = frozenset(fields) - made.__required_keys__
    made.__doc__, made.__module__ = annotation.__doc__, annotation.__module__
    for name in ("__pydantic_config__", "__closed__", "__extra_items__"):
        if (value := getattr(annotation, name, None)) is not None:
            setattr(made, name, value)
    return made


def typeddict_fields(annotation: Any) -> dict[str, tuple[Any, bool]]:
    """The fields of a TypedDict: the type of each, and whether it is required.

    Annotations written as text keep ``Required`` and ``NotRequired`` from Python, so they are looked at here.
    """
    fields: dict[str, tuple[Any, bool]] = {}
    for name, hint in typing_extensions.get_type_hints(annotation, include_extras=True).items():
        required = name in annotation.__required_keys__
        while (origin := get_origin(hint)) in _QUALIFIERS:
            required = origin in _REQUIRED or (required and origin is typing_extensions.ReadOnly)
            hint = get_args(hint)[0]
        fields[name] = (hint, required)
    return fields


_REQUIRED = (typing.Required, typing_extensions.Required)
_QUALIFIERS = (*_REQUIRED, typing.NotRequired, typing_extensions.NotRequired, typing_extensions.ReadOnly)
