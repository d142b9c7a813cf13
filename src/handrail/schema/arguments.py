"""The arguments of a tool: one core schema gives what is advertised, what is accepted and what the body receives."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, cast

from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic_core import CoreSchema, SchemaError, SchemaValidator, from_json, to_json
from pydantic_core import core_schema as cs

from handrail.errors import ToolDefinitionError
from handrail.naming import did_you_mean
from handrail.schema.annotations import Json, SchemaGenerator, mentions, plain, portable, says_extra
from handrail.schema.signature import ABSENT, MISSING, Parameter
from handrail.schema.wire import WireError, exact_numbers, join, read_json, read_object

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_MUTABLE = (list, dict, set, bytearray, BaseModel)
_CONTAINERS = {
    "list_type", "tuple_type", "set_type", "frozen_set_type", "dict_type", "mapping_type", "iterable_type",
    "model_type", "model_attributes_type", "dataclass_type", "named_tuple_type", "arguments_type",
}  # fmt: skip
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")


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
    # True: one switch closes every object inside; False: some object decides itself; None: nothing inside to close.
    _closed: bool | None
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
            self._validator = SchemaValidator(self._core)
        return self._validator

    @cached_property
    def secret_keys(self) -> frozenset[str]:
        """Keys whose values are passwords: they never reach an event."""
        properties: dict[str, Any] = self.json_schema.get("properties", {})
        return frozenset(key for key, value in properties.items() if _is_secret(value))

    def parse(self, raw: object) -> Parsed:
        """Read, check and convert the arguments of one call.

        Args:
            raw: JSON text or a mapping. It is never changed.

        Raises:
            ArgumentError: If the tool does not take them.
        """
        try:
            sent, text, repair = read_object(raw)
        except WireError as error:
            raise ArgumentError(str(error)) from None
        repairs = [repair] if repair and self.parameters else []
        try:
            values = self._validate(text)
        except ValidationError as error:
            text = self._repaired(sent, error, repairs)
            values = self._revalidate(text)
        if (path := exact_numbers(text, values)) is not None:
            raise ArgumentError(f"{path}: the number has more digits than can be kept; send it as text")
        return self._bind(sent, values, tuple(repairs))

    def _validate(self, text: str) -> dict[str, Any]:
        if self._closed is not False:
            return self.validator.validate_json(text, strict=True, extra="forbid" if self._closed else None)
        values = self.validator.validate_json(text, strict=True)
        self._refuse_stray_keys(text)
        return values

    def _refuse_stray_keys(self, text: str) -> None:
        """Where one model takes unknown keys and another does not, no single switch of pydantic can say so."""
        from handrail.schema.foreign import first_error

        if (problem := first_error(self.json_schema, from_json(text))) is not None:
            raise ArgumentError(problem)

    def _revalidate(self, text: str) -> dict[str, Any]:
        try:
            return self._validate(text)
        except ValidationError as error:
            raise ArgumentError(self._explain(error)) from None

    def _repaired(self, sent: dict[str, Any], error: ValidationError, repairs: list[str]) -> str:
        """Repair what has only one meaning for its type; where nothing can be repaired, say what is wrong."""
        fixed = copy.deepcopy(sent)
        required: Sequence[str] = self.json_schema.get("required", ())
        changed = False
        for problem in error.errors(include_url=False, include_context=False):
            changed |= _repair(fixed, problem["loc"], problem["type"], problem["input"], required, repairs)
        if not changed:
            raise ArgumentError(self._explain(error))
        return to_json(fixed).decode()

    def _bind(self, sent: dict[str, Any], values: dict[str, Any], repairs: tuple[str, ...]) -> Parsed:
        if not self._needs_defaults:
            return Parsed(sent, (), values, repairs)
        for key, name in self._renamed.items():
            if key in values:
                values[name] = values.pop(key)
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

    def _explain(self, error: ValidationError) -> str:
        return explain(error, [parameter.key for parameter in self.parameters])


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
    core, schema, closed = built
    properties: Json = schema.setdefault("properties", {})
    for parameter in parameters:
        if (described := properties.get(parameter.key)) is not None and parameter.kind is not _KWARGS:
            _annotate(described, parameter, descriptions.get(parameter.name))
    return Arguments(parameters, schema, core, closed)


_KWARGS = inspect.Parameter.VAR_KEYWORD


def _build_plain(parameters: tuple[Parameter, ...]) -> tuple[CoreSchema, Json, bool | None] | None:
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
    return cs.typed_dict_schema(fields, extra_behavior="forbid"), schema, None


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
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                annotation = list[annotation]
            needed = parameter.default is MISSING and parameter.kind is not inspect.Parameter.VAR_POSITIONAL
            fields[parameter.key] = cs.typed_dict_field(handler.generate_schema(annotation), required=needed)
        if extras is None:
            return cs.typed_dict_schema(fields, extra_behavior="forbid")
        return cs.typed_dict_schema(fields, extra_behavior="allow", extras_schema=extras)


def _build_with_pydantic(parameters: tuple[Parameter, ...], label: str) -> tuple[CoreSchema, Json, bool | None]:
    try:
        core, schema = _describe(parameters)
    except Exception as error:
        raise _undescribable(parameters, label, error) from None
    closed = not any(parameter.kind is _KWARGS for parameter in parameters) and not _says_extra_inside(core)
    return core, schema, closed


def _describe(parameters: tuple[Parameter, ...]) -> tuple[CoreSchema, Json]:
    adapter = TypeAdapter[Any](Annotated[dict[str, Any], _Carrier(parameters)])
    core = adapter.core_schema
    schema = adapter.json_schema(schema_generator=SchemaGenerator, mode="validation")
    if "$ref" in schema:
        schema = _inline_root(schema)
    schema.setdefault("properties", {})
    return core, schema


def _inline_root(schema: Json) -> Json:
    name = schema["$ref"].rpartition("/")[2]
    return {**schema["$defs"][name], **{key: value for key, value in schema.items() if key != "$ref"}}


def _says_extra_inside(core: CoreSchema) -> bool:
    """The outermost object always states its own behaviour; what matters is whether a model inside does."""
    node = cast("dict[str, Any]", core)
    if node.get("type") == "definitions":
        return says_extra(node.get("definitions")) or _says_extra_inside(node["schema"])
    return says_extra(node.get("fields")) or says_extra(node.get("extras_schema"))


def _undescribable(parameters: tuple[Parameter, ...], label: str, error: Exception) -> ToolDefinitionError:
    for parameter in parameters:
        try:
            _describe((parameter,))
        except Exception as reason:
            return ToolDefinitionError(
                f"{label}: the parameter {parameter.name!r} cannot be described as JSON: {_reason(reason)}",
                hint="use a type with a JSON form, such as str, list[str], a dataclass or a pydantic model; "
                "a value that the application supplies belongs into ToolContext.deps",
            )
    return ToolDefinitionError(f"{label}: its parameters cannot be described as JSON: {_reason(error)}")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it nests too deep"
    if isinstance(error, PydanticInvalidForJsonSchema | PydanticSchemaGenerationError | PydanticUserError):
        return str(error.message).splitlines()[0]
    if isinstance(error, SchemaError):
        return "pydantic refuses its constraints"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


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
    try:
        described["default"] = from_json(to_json(parameter.default, inf_nan_mode="constants"), allow_inf_nan=False)
    except Exception:
        return  # a default without a JSON form is still the body's default; it is only not shown


def _is_dataclass(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _is_secret(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    node = cast("dict[str, Any]", schema)
    return bool(node.get("writeOnly")) or any(_is_secret(one) for one in node.get("anyOf", ()))


def _repair(
    arguments: dict[str, Any],
    location: tuple[int | str, ...],
    kind: str,
    sent: Any,
    required: Sequence[str],
    repairs: list[str],
) -> bool:
    """Change one value in place where its type leaves only one reading. Tells whether it did."""
    holder, path = _holder(arguments, location)
    if holder is None or not location:
        return False
    key = location[-1]
    if sent is None and len(location) == 1 and key not in required and kind != "missing":
        del holder[key]
        repairs.append(f"{path}: null for an optional argument: left out")
        return True
    value = _reading(kind, sent)
    if value is ABSENT:
        return False
    holder[key] = value
    repairs.append(f"{path}: {_said(sent)} read as {_said(value)}")
    return True


def _holder(arguments: dict[str, Any], location: tuple[int | str, ...]) -> tuple[Any, str]:
    """Walk to what holds the value at a location; None where the location leads through a union's member."""
    node: Any = arguments
    path = ""
    for i, key in enumerate(location):
        if not _has(node, key):
            return None, path
        path = join(path, key)
        if i == len(location) - 1:
            return node, path
        node = node[key]
    return None, path


def _has(node: Any, key: int | str) -> bool:
    if isinstance(node, dict):
        return key in node
    return isinstance(node, list) and isinstance(key, int) and key < len(cast("list[Any]", node))


def _reading(kind: str, sent: Any) -> Any:
    if isinstance(sent, str):
        return _reading_of_text(kind, sent)
    if kind in ("int_type", "int_from_float") and isinstance(sent, float):
        return int(sent) if sent.is_integer() and abs(sent) < 2**53 else ABSENT
    return ABSENT


def _reading_of_text(kind: str, text: str) -> Any:
    if kind in _CONTAINERS:
        try:
            value = read_json(text)
        except WireError:
            return ABSENT
        return cast("Any", value) if isinstance(value, dict | list) else ABSENT
    if kind in ("int_type", "int_parsing", "float_type", "float_parsing") and _NUMBER.fullmatch(text):
        whole = "." not in text
        if kind.startswith("int"):
            return int(text) if whole and len(text) < 4000 else ABSENT
        number = float(text)
        exact = math.isfinite(number) and (not whole or int(number) == int(text))
        return number if exact else ABSENT
    if kind in ("bool_type", "bool_parsing") and text in ("true", "false"):
        return text == "true"
    return ABSENT


def _said(value: object) -> str:
    kinds = {"str": "text", "bool": "a boolean", "int": "an integer", "float": "a number", "list": "a list"}
    return kinds.get(type(value).__name__, "an object")


def explain(error: ValidationError, known: Sequence[str]) -> str:
    """Say what is wrong with arguments: each field, and what it takes, without the values that were sent."""
    lines: list[str] = []
    for problem in error.errors(include_url=False, include_input=False, include_context=True):
        path = ""
        for key in problem["loc"]:
            path = join(path, key)
        if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            name = str(problem["loc"][-1])
            hint = f"; {did_you_mean(name, known, what='accepted')}" if len(problem["loc"]) == 1 else ""
            accepted = f" (accepted: {', '.join(known)})" if "did you mean" in hint else ""
            lines.append(f"{path}: unknown argument{hint}{accepted}")
        elif problem["type"] in ("missing", "missing_argument"):
            lines.append(f"{path}: required, and missing")
        else:
            lines.append(f"{path}: {problem['msg']}")
    return "; ".join(dict.fromkeys(lines))


__all__ = ["ArgumentError", "Arguments", "Parsed", "build_arguments", "explain", "mentions"]
