"""The result of a tool: checked against its declared type, and written as the JSON that the model reads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, from_json, to_json

from handrail.errors import ToolDefinitionError
from handrail.schema.annotations import Json, SchemaGenerator, plain, portable
from handrail.schema.arguments import undescribable
from handrail.schema.foreign import first_error, import_output_schema
from handrail.schema.repair import explain
from handrail.schema.signature import MISSING, described, visible_names
from handrail.schema.strict import result_validator, strict_validator
from handrail.schema.wire import WireError, check_finite, check_keys, dump, fallback
from handrail.schema.wire import explain as explain_dump


class OutputError(ValueError):
    """A result that has no JSON form, or is not what the tool declares.

    Attributes:
        text: What is wrong and where, without the value.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Output:
    """The declared result of a tool.

    Attributes:
        json_schema: What is advertised; None where nothing is declared.
    """

    json_schema: Json | None = None

    def write(self, value: Any) -> str:
        """Give the JSON text of a result that declares nothing.

        Raises:
            OutputError: If some part of it has no JSON form. It names the path.
        """
        try:
            return dump(value)
        except WireError as error:
            raise OutputError(str(error)) from None


class TypedOutput(Output):
    """A result declared by a Python type."""

    def __init__(self, annotation: Any, *, label: str) -> None:
        self._annotation = portable(described(annotation)[0])
        known = plain(self._annotation)
        self.json_schema = known.json if known is not None else self._describe(label)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        adapter = TypeAdapter[Any](self._annotation)
        if not adapter.pydantic_complete:
            adapter.rebuild(force=True, _types_namespace=visible_names())
        return adapter

    @cached_property
    def _of_type(self) -> SchemaValidator:
        return result_validator(self._adapter.core_schema)

    @cached_property
    def _of_json(self) -> SchemaValidator:
        return strict_validator(self._adapter.core_schema)

    def write(self, value: Any) -> str:
        """Check a result against the declared type and give its JSON text.

        A value of that very type is written unchanged. A mapping or a list stands for a model, a dataclass or a tuple
        where its JSON form fits; nothing is converted beyond that.

        Raises:
            OutputError: If it does not match, or has no JSON form.
        """
        try:
            checked = self._of_type.validate_python(value, strict=True)
        except ValidationError as error:
            checked = self._from_json_form(value, error)
        try:
            serializer = self._adapter.serializer
            text = serializer.to_json(checked, by_alias=True, warnings=False, fallback=fallback).decode()
            if "null" in text or "NaN" in text or "Infinity" in text:
                check_finite(serializer.to_python(checked, warnings=False), text)
            check_keys(checked, text)
        except WireError as error:
            raise OutputError(str(error)) from None
        except (ValueError, TypeError, RecursionError) as error:
            raise OutputError(str(explain_dump(checked, error))) from None
        return text

    def _from_json_form(self, value: Any, error: ValidationError) -> Any:
        text = super().write(value)
        try:
            return self._of_json.validate_json(text)
        except ValidationError as reason:
            clearer = reason if _is_json(value) or isinstance(value, tuple) else error
            said = explain(clearer, from_json(text), None, root="the whole")
            raise OutputError(f"the result does not match the output schema: {said}") from None

    def _describe(self, label: str) -> Json:
        try:
            return self._adapter.json_schema(schema_generator=SchemaGenerator, mode="serialization")
        except Exception as error:
            raise ToolDefinitionError(
                f"{label}: the return annotation cannot be described as JSON: {undescribable(error)}",
                hint="return a type with a JSON form, or leave the annotation out",
            ) from None


def _is_json(value: Any) -> bool:
    """Whether a container holds plain JSON values only, so that its JSON form is what is to be explained."""
    if type(value) is dict:
        return all(_is_json(item) or _is_scalar(item) for item in cast("Json", value).values())
    return type(value) is list and all(_is_json(item) or _is_scalar(item) for item in cast("list[Any]", value))


def _is_scalar(value: Any) -> bool:
    return value is None or type(value) in (str, int, float, bool)


class ForeignOutput(Output):
    """A result declared by a JSON Schema."""

    def __init__(self, schema: Mapping[str, Any], *, label: str) -> None:
        self._schema: Json = import_output_schema(schema, label=f"{label}: the output schema")
        self.json_schema = self._schema

    def write(self, value: Any) -> str:
        """Give the JSON text of a result, checked against the schema.

        Raises:
            OutputError: If it does not match, or has no JSON form.
        """
        text = super().write(value)
        if (problem := first_error(self._schema, from_json(text), root="the whole")) is not None:
            raise OutputError(f"the result does not match the output schema: {problem}")
        return text


def build_output(declared: Any, *, label: str) -> Output:
    """Read what a tool declares of its result.

    Args:
        declared: A type, a JSON Schema, or ``MISSING`` for nothing.
        label: How errors call the tool.

    Raises:
        ToolDefinitionError: If the type cannot be described, or the schema is not valid.
    """
    if declared is MISSING or declared is Any or declared is object or declared is BaseModel:
        return Output()
    if isinstance(declared, Mapping):
        return ForeignOutput(cast("Mapping[str, Any]", declared), label=label)
    return TypedOutput(declared, label=label)


__all__ = ["ForeignOutput", "Output", "OutputError", "TypedOutput", "build_output", "to_json"]
