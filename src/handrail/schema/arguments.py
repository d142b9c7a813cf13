"""The arguments of a tool: one core schema gives what is advertised, what is accepted and what the body receives."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, cast

from pydantic import BaseModel, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, SchemaError, SchemaValidator, from_json, to_json
from pydantic_core import core_schema as cs

from handrail.errors import ToolDefinitionError
from handrail.schema.annotations import Json, SchemaGenerator, plain, portable
from handrail.schema.repair import explain, repair
from handrail.schema.signature import ABSENT, MISSING, Parameter, visible_names
from handrail.schema.strict import strict_validator
from handrail.schema.wire import WireError, exact_numbers, read_object

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_MUTABLE = (list, dict, set, tuple, deque, bytearray, BaseModel)
_POSITIONAL_ALONE = (inspect.Parameter.POSITIONAL_ONLY,)


class ArgumentError(ValueError):
    """Arguments that a tool does not take.

    Attributes:
        text: What is wrong, for the model and the developer alike. It names fields and what they take, never the
            values that were sent.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Parsed(NamedTuple):
    """Arguments that passed.

    Attributes:
        raw: As they were sent, as plain JSON values.
        positional: What the body gets by position.
        keyword: What the body gets by name.
        repairs: What had to be repaired first; empty when the arguments were right as they came.
    """

    raw: dict[str, Any]
    positional: tuple[Any, ...]
    keyword: dict[str, Any]
    repairs: tuple[str, ...]


@dataclass(eq=False)
class Arguments:
    """The arguments of one Python callable.

    Attributes:
        parameters: The parameters that the model fills in.
        json_schema: What is advertised: an object schema, closed unless the callable takes ``**kwargs``.
    """

    parameters: tuple[Parameter, ...]
    json_schema: Json
    _core: CoreSchema
    _validator: SchemaValidator | None = None

    @cached_property
    def _by_position(self) -> tuple[Parameter, ...]:
        if not any(parameter.kind in _POSITIONAL for parameter in self.parameters):
            return ()
        last = max(i for i, parameter in enumerate(self.parameters) if parameter.kind in _POSITIONAL)
        return self.parameters[: last + 1]

    @cached_property
    def _renamed(self) -> dict[str, str]:
        return {parameter.key: parameter.name for parameter in self.parameters if parameter.key != parameter.name}

    @cached_property
    def _reserved(self) -> frozenset[str]:
        """Names that further keyword arguments must not have: the call would take them for something else."""
        for parameter in self.parameters:
            if parameter.kind is _KWARGS:
                keys = {one.key for one in self.parameters}
                names = {one.name for one in self.parameters if one.kind not in (_KWARGS, *_POSITIONAL_ALONE)}
                return (parameter.reserved | names) - keys
        return frozenset()

    @cached_property
    def _copied(self) -> tuple[Parameter, ...]:
        """Parameters whose default the body could change, so that every call needs its own copy."""
        return tuple(
            parameter
            for parameter in self.parameters
            if isinstance(parameter.default, _MUTABLE) or _is_dataclass(parameter.default)
        )

    @cached_property
    def _needs_defaults(self) -> bool:
        return bool(self._copied or self._by_position or self._renamed)

    @property
    def validator(self) -> SchemaValidator:
        """The validator, built at the first call."""
        if self._validator is None:
            self._validator = strict_validator(self._core)
        return self._validator

    @cached_property
    def secret_keys(self) -> frozenset[str]:
        """Keys whose values are passwords: they never reach an event."""
        return secret_keys(self.json_schema)

    def parse(self, raw: object) -> Parsed:
        """Read, check and convert the arguments of one call.

        Args:
            raw: JSON text or a mapping. It is never changed.

        Raises:
            ArgumentError: If the tool does not take them.
        """
        try:
            sent, text, repaired = read_object(raw)
        except WireError as error:
            raise ArgumentError(str(error)) from None
        repairs = [repaired] if repaired and self.json_schema["properties"] else []
        if self._reserved and (taken := self._reserved & sent.keys()):
            raise ArgumentError("; ".join(f"{key}: unknown argument" for key in sorted(taken)))
        try:
            values = self.validator.validate_json(text)
        except ValidationError as error:
            text = self._repaired(sent, error, repairs)
            try:
                values = self.validator.validate_json(text)
            except ValidationError as reason:
                raise ArgumentError(self._explain(reason, from_json(text))) from None
        if (path := exact_numbers(text, values)) is not None:
            raise ArgumentError(f"{path}: the number has more digits than can be kept; send it as text")
        return self._bind(sent, values, tuple(repairs))

    def _repaired(self, sent: dict[str, Any], error: ValidationError, repairs: list[str]) -> str:
        """Repair what has only one meaning for its type; where nothing can be repaired, say what is wrong."""
        required: Sequence[str] = self.json_schema.get("required", ())
        fixed = repair(sent, error, required, repairs)
        if fixed is None:
            raise ArgumentError(self._explain(error, sent))
        return to_json(fixed).decode()

    def _bind(self, sent: dict[str, Any], values: dict[str, Any], repairs: tuple[str, ...]) -> Parsed:
        if not self._needs_defaults:
            return Parsed(sent, (), values, repairs)
        if self._renamed:
            values = {self._renamed.get(key, key): value for key, value in values.items()}
        for parameter in self.parameters:
            if parameter.name in values or parameter.default is MISSING or parameter.default is ABSENT:
                continue
            if parameter in self._copied:
                values[parameter.name] = copy.deepcopy(parameter.default)
            elif parameter in self._by_position:
                values[parameter.name] = parameter.default
        positional: list[Any] = []
        for parameter in self._by_position:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional.extend(values.pop(parameter.name, ()))
            elif parameter.name in values:
                positional.append(values.pop(parameter.name))
        return Parsed(sent, tuple(positional), values, repairs)

    def _explain(self, error: ValidationError, sent: Any) -> str:
        return explain(error, sent, [one.key for one in self.parameters if one.kind is not _KWARGS])


def build_arguments(parameters: tuple[Parameter, ...], descriptions: Mapping[str, str], *, label: str) -> Arguments:
    """Describe the parameters of a callable.

    Args:
        parameters: As ``read_signature`` gives them.
        descriptions: The docstring's text for each parameter.
        label: How errors call the tool.

    Raises:
        ToolDefinitionError: If a parameter's type has no JSON Schema. It names the parameter.
    """
    _refuse_equal_keys(parameters, label)
    built = _build_plain(parameters) or _build_with_pydantic(parameters, label)
    core, schema = built
    properties: Json = schema.setdefault("properties", {})
    for parameter in parameters:
        if (described := properties.get(parameter.key)) is not None and parameter.kind is not _KWARGS:
            _annotate(described, parameter, descriptions.get(parameter.name))
    return Arguments(parameters, schema, core)


_KWARGS = inspect.Parameter.VAR_KEYWORD


def _build_plain(parameters: tuple[Parameter, ...]) -> tuple[CoreSchema, Json] | None:
    fields: dict[str, cs.TypedDictField] = {}
    properties: Json = {}
    required: list[str] = []
    for parameter in parameters:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, _KWARGS):
            return None
        if (described := plain(parameter.annotation)) is None:
            return None
        needed = parameter.default is MISSING
        fields[parameter.key] = cs.typed_dict_field(described.core, required=needed)
        properties[parameter.key] = described.json
        if needed:
            required.append(parameter.key)
    schema: Json = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return cs.typed_dict_schema(fields, extra_behavior="forbid"), schema


class _Carrier:
    """Lets pydantic describe a whole parameter list at once, so that references and name clashes are its business."""

    def __init__(self, parameters: tuple[Parameter, ...]) -> None:
        self.parameters = parameters

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        fields: dict[str, cs.TypedDictField] = {}
        extras: CoreSchema | None = None
        for parameter in self.parameters:
            annotation = portable(parameter.annotation)
            if parameter.kind is _KWARGS:
                extras = handler.generate_schema(annotation)
                continue
            needed = parameter.default is MISSING and parameter.kind is not inspect.Parameter.VAR_POSITIONAL
            fields[parameter.key] = cs.typed_dict_field(handler.generate_schema(annotation), required=needed)
        if extras is None:
            return cs.typed_dict_schema(fields, extra_behavior="forbid")
        return cs.typed_dict_schema(fields, extra_behavior="allow", extras_schema=extras)


def _build_with_pydantic(parameters: tuple[Parameter, ...], label: str) -> tuple[CoreSchema, Json]:
    try:
        return _describe(parameters)
    except Exception as error:
        raise _undescribable(parameters, label, error) from None


def _describe(parameters: tuple[Parameter, ...]) -> tuple[CoreSchema, Json]:
    adapter = TypeAdapter[Any](Annotated[dict[str, Any], _Carrier(parameters)])
    if not adapter.pydantic_complete:  # a class inside speaks of a name that is local to where the tool is defined
        adapter.rebuild(force=True, _types_namespace=visible_names())
    schema = adapter.json_schema(schema_generator=SchemaGenerator, mode="validation")
    if "$ref" in schema:
        schema = _inline_root(schema)
    schema.setdefault("properties", {})
    return adapter.core_schema, schema


def _inline_root(schema: Json) -> Json:
    name = schema["$ref"].rpartition("/")[2]
    return {**schema["$defs"][name], **{key: value for key, value in schema.items() if key != "$ref"}}


def _undescribable(parameters: tuple[Parameter, ...], label: str, error: Exception) -> ToolDefinitionError:
    for parameter in parameters:
        try:
            _describe((parameter,))
        except Exception as reason:
            return ToolDefinitionError(
                f"{label}: the parameter {parameter.name!r} cannot be described as JSON: {undescribable(reason)}",
                hint="use a type with a JSON form, such as str, list[str], a dataclass or a pydantic model; "
                "a value that the application supplies belongs into ToolContext.deps",
            )
    return ToolDefinitionError(f"{label}: its parameters cannot be described as JSON: {undescribable(error)}")


def undescribable(error: Exception) -> str:
    """Say in one line why pydantic cannot describe a type."""
    if isinstance(error, RecursionError):
        return "it nests too deep"
    if isinstance(error, PydanticUndefinedAnnotation):
        return f"its annotations name {error.name!r}, which is not defined"
    if isinstance(error, SchemaError):
        return "pydantic refuses its constraints"
    if isinstance(error, PydanticUserError):
        said = str(error.message).splitlines()[0].partition(". Set `arbitrary_types_allowed")[0]
        return _UNKNOWN.sub("there is no JSON form of ", said)
    if isinstance(error, KeyError) or not str(error):
        return "it is not a type"
    return str(error).splitlines()[0]


_UNKNOWN = re.compile(
    r"^(Unable to generate pydantic-core schema for|Cannot generate a JsonSchema for( core_schema\.)?) ?"
)


def _refuse_equal_keys(parameters: tuple[Parameter, ...], label: str) -> None:
    seen: set[str] = set()
    for parameter in parameters:
        if parameter.key in seen:
            raise ToolDefinitionError(f"{label}: two parameters are called {parameter.key!r} on the wire")
        seen.add(parameter.key)


def _annotate(described: Json, parameter: Parameter, said: str | None) -> None:
    """Add the description and the default: the annotation speaks before the docstring."""
    text = parameter.description or described.get("description") or said
    if text:
        described["description"] = text
    if parameter.default is MISSING or parameter.default is ABSENT or "default" in described:
        return
    if _is_secret(described, {}, frozenset()):
        return
    try:
        described["default"] = from_json(to_json(parameter.default, inf_nan_mode="constants"), allow_inf_nan=False)
    except Exception:
        return  # a default without a JSON form is still the body's default; it is only not shown


def _is_dataclass(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def secret_keys(schema: Json) -> frozenset[str]:
    """The properties of a schema that hold a password, or hold something that does."""
    definitions: Json = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    properties: Json = schema.get("properties", {})
    return frozenset(key for key, value in properties.items() if _is_secret(value, definitions, frozenset()))


def _is_secret(schema: Any, definitions: Json, above: frozenset[str]) -> bool:
    """Whether something inside of a value is a password: then the whole of it is."""
    if isinstance(schema, list):
        return any(_is_secret(item, definitions, above) for item in cast("list[Any]", schema))
    if not isinstance(schema, dict):
        return False
    node = cast("Json", schema)
    if node.get("writeOnly") is True or node.get("format") == "password":
        return True
    name = str(node.get("$ref", "")).rpartition("/")[2]
    if name and name not in above and _is_secret(definitions.get(name), definitions, above | {name}):
        return True
    return any(_is_secret(item, definitions, above) for item in node.values())


__all__ = ["ArgumentError", "Arguments", "Parsed", "build_arguments", "secret_keys", "undescribable"]
