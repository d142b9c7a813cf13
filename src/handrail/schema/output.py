"""The result of a tool: checked against its declared type, and written as the JSON that the model reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from handrail.errors import ToolDefinitionError
from handrail.schema.annotations import Json, SchemaGenerator, plain, portable
from handrail.schema.arguments import explain
from handrail.schema.foreign import first_error, import_output_schema
from handrail.schema.signature import MISSING, described
from handrail.schema.wire import WireError, check_finite, dump
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
        self._adapter: TypeAdapter[Any] | None = None
        known = plain(self._annotation)
        self.json_schema = known.json if known is not None else self._describe(label)

    @property
    def adapter(self) -> TypeAdapter[Any]:
        """Pydantic's adapter for the declared type, built when first needed."""
        if self._adapter is None:
            self._adapter = TypeAdapter(self._annotation)
        return self._adapter

    def write(self, value: Any) -> str:
        """Check a result against the declared type and give its JSON text.

        A value of that very type is written unchanged. A mapping or a list stands for a model, a dataclass or a tuple
        where its JSON form fits; nothing is converted beyond that.

        Raises:
            OutputError: If it does not match, or has no JSON form.
        """
        try:
            self.adapter.validator.validate_python(value, strict=True)
        except ValidationError as error:
            value = self._from_json_form(value, error)
        try:
            text = self.adapter.serializer.to_json(value, by_alias=True, warnings=False).decode()
            if "null" in text or "NaN" in text or "Infinity" in text:
                check_finite(self.adapter.serializer.to_python(value, warnings=False), text)
        except WireError as error:
            raise OutputError(str(error)) from None
        except (ValueError, TypeError, RecursionError) as error:
            raise OutputError(str(explain_dump(value, error))) from None
        return text

    def _from_json_form(self, value: Any, error: ValidationError) -> Any:
        try:
            return self.adapter.validator.validate_json(dump(value), strict=True)
        except WireError as reason:
            raise OutputError(str(reason)) from None
        except ValidationError as reason:
            first = error if isinstance(value, str | int | float | bool | None) else reason
            raise OutputError(f"the result does not match the output schema: {explain(first, ())}") from None

    def _describe(self, label: str) -> Json:
        try:
            return self.adapter.json_schema(schema_generator=SchemaGenerator, mode="serialization")
        except Exception as error:
            raise ToolDefinitionError(
                f"{label}: the return annotation cannot be described as JSON: {str(error).splitlines()[0]}",
                hint="return a type with a JSON form, or leave the annotation out",
            ) from None


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
        if (problem := first_error(self._schema, from_json(text))) is not None:
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
    if declared is MISSING or declared is Any or declared is object:
        return Output()
    if isinstance(declared, Mapping):
        return ForeignOutput(cast("Mapping[str, Any]", declared), label=label)
    return TypedOutput(declared, label=label)


__all__ = ["ForeignOutput", "Output", "OutputError", "TypedOutput", "build_output", "to_json"]
