"""A schema as each provider takes it."""

from __future__ import annotations

import copy
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail import Agent, Tool, ToolContext, run
from handrail.schema.foreign import import_schema
from handrail.schema.views import Dialect, view
from handrail.tools import RemoteResult, Text
from support.provider_rules import refusals

DIALECTS: tuple[Any, ...] = get_args(Dialect)

RECURSIVE = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "definitions": {
        "Node": {
            "type": "object",
            "description": "A node.",
            "properties": {
                "name": {"type": "string"},
                "kids": {"type": "array", "items": {"$ref": "#/definitions/Node"}},
            },
        }
    },
    "type": "object",
    "properties": {"root": {"$ref": "#/definitions/Node"}, "again": {"$ref": "#/properties/root"}},
}
EITHER = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    "required": ["a"],
    "anyOf": [{"required": ["b"]}, {"properties": {"c": {"type": "integer"}}}],
}
DIALECT_WORDS = {
    "type": "object",
    "properties": {
        "kind": {"const": "x"},
        "size": {"enum": [1, 2]},
        "when": {"type": "string", "format": "uuid", "description": "An id."},
        "n": {"type": "integer", "exclusiveMinimum": 0},
        "maybe": {"type": ["string", "null"], "description": "Perhaps."},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2},
        "loose": {"type": "array"},
        "bag": {"type": "object", "additionalProperties": {"type": "integer"}},
        "both": {"allOf": [{"type": "object", "properties": {"p": {"type": "string"}}}, {"required": ["p"]}]},
        "anything": True,
    },
}
STRANGE_NAMES = {
    "type": "object",
    "properties": {"$ref": {"type": "string"}, "ok": {"type": "string"}},
    "required": ["$ref"],
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "schema", [RECURSIVE, EITHER, DIALECT_WORDS, STRANGE_NAMES], ids=["ref", "any", "words", "names"]
)
def test_every_provider_takes_its_view(schema: dict[str, Any], dialect: Dialect) -> None:
    """Whatever dialect a server writes its schemas in, no provider refuses the request because of it."""
    original = import_schema(schema)
    before = copy.deepcopy(original)
    seen = view(original, dialect).schema
    assert refusals(seen, dialect) == []
    jsonschema.Draft202012Validator.check_schema(seen)
    assert original == before, "the original is kept for validation"


def test_a_reference_keeps_its_text_and_a_cycle_ends() -> None:
    """What a reference leads to is written in its place; a schema inside of itself takes any value of its type."""
    seen = view(import_schema(RECURSIVE), "anthropic").schema
    root = seen["properties"]["root"]
    assert root["description"] == "A node."
    assert root["properties"]["name"] == {"type": "string"}
    assert root["properties"]["kids"]["items"] == {"type": "object"}
    assert seen["properties"]["again"]["properties"]["name"] == {"type": "string"}


def test_what_branches_at_the_top_name_becomes_optional() -> None:
    """A choice at the top is refused by providers: its properties stay, and the original still checks the choice."""
    seen = view(import_schema(EITHER), "openai").schema
    assert sorted(seen["properties"]) == ["a", "b", "c"]
    assert seen["required"] == ["a"]


def test_google_is_told_in_words_what_its_subset_cannot_say() -> None:
    """Numbers to choose from, formats and bounds reach Google's models as text or as inclusive bounds."""
    properties = view(import_schema(DIALECT_WORDS), "google").schema["properties"]
    assert properties["kind"] == {"enum": ["x"], "type": "string"}
    assert properties["size"] == {"description": "(one of 1, 2)", "type": "integer"}
    assert properties["when"] == {"type": "string", "description": "An id. (uuid)"}
    assert properties["n"] == {"type": "integer", "minimum": 1}
    assert properties["maybe"] == {"type": "string", "description": "Perhaps.", "nullable": True}
    assert properties["pair"]["items"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert properties["both"] == {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]}


async def test_a_renamed_property_reaches_the_tool_under_its_own_name() -> None:
    """A property that Anthropic would refuse is renamed for the model only; the tool gets what its schema says."""
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    got: list[dict[str, Any]] = []

    async def send(arguments: dict[str, Any], context: ToolContext) -> RemoteResult:
        got.append(arguments)
        return RemoteResult((Text("ok"),))

    class Claude(FunctionModel):
        @property
        def system(self) -> str:
            return "anthropic"

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse([TextPart("done")])
        [name, ok] = sorted(info.function_tools[0].parameters_json_schema["properties"])
        return ModelResponse([ToolCallPart("odd", {name: "main", ok: "yes"})])

    tool = Tool.remote(name="odd", description="Odd.", parameters=STRANGE_NAMES, server="s", send=send)
    await run(Agent(Claude(answer), tools=[tool]), "Go")
    assert got == [{"$ref": "main", "ok": "yes"}]


Json = dict[str, Any]


def arrays(items: Any) -> Json:
    return {"type": "array", "items": items}


def tuples(items: list[Any]) -> Json:
    return {"type": "array", "prefixItems": items}


def choices(members: list[Any]) -> Json:
    return {"anyOf": members}


def merges(members: list[Any]) -> Json:
    return {"allOf": members}


def objects(properties: Json) -> Json:
    return {"type": "object", "properties": properties}


LEAVES: list[Any] = [
    {},
    {"type": "string"},
    {"type": "integer"},
    {"type": ["string", "null"]},
    {"const": 1},
    {"enum": ["a", 2]},
    True,
]


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(arrays, inner),
        st.builds(tuples, st.lists(inner, min_size=1, max_size=3)),
        st.builds(choices, st.lists(inner, min_size=1, max_size=3)),
        st.builds(merges, st.lists(inner, min_size=1, max_size=2)),
        st.builds(objects, st.dictionaries(st.sampled_from(["a", "b c", "$ref", "type"]), inner, max_size=3)),
    )


JSON_SCHEMAS = st.recursive(st.sampled_from(LEAVES), grown, max_leaves=12)


@settings(max_examples=1000, deadline=None)
@given(properties=st.dictionaries(st.sampled_from(["x", "y", "z z", "items"]), JSON_SCHEMAS, max_size=4))
def test_no_schema_makes_a_view_that_a_provider_refuses(properties: dict[str, Any]) -> None:
    """For any schema of arguments, each provider's view is a valid schema that the provider takes."""
    original = import_schema({"type": "object", "properties": properties})
    for dialect in DIALECTS:
        seen = view(original, dialect).schema
        assert refusals(seen, dialect) == []
        jsonschema.Draft202012Validator.check_schema(seen)
