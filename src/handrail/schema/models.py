"""Arguments that a pydantic model describes: ``tool(input=Model)``."""

from __future__ import annotations

import inspect
from typing import Any

from pydantic import TypeAdapter, ValidationError

from handrail.errors import ToolDefinitionError
from handrail.schema.annotations import portable
from handrail.schema.arguments import Arguments, Parsed, build_arguments
from handrail.schema.repair import explain
from handrail.schema.signature import MISSING, Parameter

__all__ = ["ModelArguments"]


class ModelArguments(Arguments):
    """The fields of a model are the arguments; the body receives one instance of it."""

    def __init__(self, model: Any, *, label: str) -> None:
        inner = build_arguments((_whole(model),), {}, label=label)
        schema = _inline(inner.json_schema)
        if schema.get("type") != "object":
            raise ToolDefinitionError(
                f"{label}: input={model!r} does not describe an object",
                hint="give a pydantic model, a dataclass, a TypedDict or a JSON Schema of an object",
            )
        schema.setdefault("properties", {})
        super().__init__((), schema, TypeAdapter[Any](portable(model)).core_schema)
        self._fields = tuple(schema["properties"])

    def parse(self, raw: object) -> Parsed:
        """Read and check the arguments of one call; see ``Arguments.parse``."""
        parsed = super().parse(raw)
        return Parsed(parsed.raw, (parsed.keyword,), {}, parsed.repairs)

    def _bind(self, sent: dict[str, Any], values: Any, repairs: tuple[str, ...]) -> Parsed:
        return Parsed(sent, (), values, repairs)

    def _explain(self, error: ValidationError, sent: Any) -> str:
        return explain(error, sent, self._fields)


def _whole(model: Any) -> Parameter:
    return Parameter("input", "input", model, MISSING, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _inline(schema: dict[str, Any]) -> dict[str, Any]:
    described = schema["properties"]["input"]
    definitions = schema.get("$defs", {})
    if (reference := described.get("$ref")) is not None:
        described = definitions[reference.rpartition("/")[2]]
    return {**described, **({"$defs": definitions} if _used(described, definitions) else {})}


def _used(described: dict[str, Any], definitions: dict[str, Any]) -> bool:
    from handrail.schema.foreign import references

    return bool(definitions) and any(True for _ in references(described))
