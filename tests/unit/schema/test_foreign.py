"""Schemas that somebody else wrote are copied, bounded and checked, and never followed out of the document."""

from __future__ import annotations

import contextlib
import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.errors import ToolDefinitionError
from handrail.schema.arguments import ArgumentError
from handrail.schema.foreign import (
    MAX_SCHEMA_BYTES,
    ForeignArguments,
    first_error,
    import_output_schema,
    import_schema,
    references,
)
from support.strategies import JSON, TEXT, accepts

ODD: list[Any] = [
    "object",
    "string",
    "#/$defs/a",
    "#/properties/b",
    "#",
    "#a",
    "http://x/y",
    ["object", "null"],
    ["a"],
    True,
    {},
    "(",
]
WORDS = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "$ref",
        "$defs",
        "items",
        "anyOf",
        "allOf",
        "not",
        "enum",
        "const",
        "default",
        "$schema",
        "$id",
        "$anchor",
        "pattern",
        "additionalProperties",
        "minimum",
        "format",
        "title",
        "description",
        "definitions",
        "a",
        "b",
    ]
)
VALUES: st.SearchStrategy[Any] = JSON | st.sampled_from(ODD)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.dictionaries(WORDS, VALUES, max_size=4),
    lambda inner: st.dictionaries(WORDS, inner | VALUES | st.lists(inner, max_size=2), max_size=4),
    max_leaves=8,
)


@settings(max_examples=1000, deadline=None)
@given(SCHEMAS | JSON | st.dictionaries(TEXT, JSON), JSON)
def test_any_json(schema: Any, value: Any) -> None:
    """Whatever a server calls a schema is taken over or refused as a definition; what it sent stays as it was."""
    before = copy.deepcopy(schema)
    try:
        taken = import_schema(schema)
    except ToolDefinitionError:
        return
    finally:
        assert schema == before
    assert taken["type"] == "object"
    assert isinstance(taken["properties"], dict)
    assert import_schema(taken) == taken
    with contextlib.suppress(ArgumentError):
        ForeignArguments(schema, label="the tool").parse(json.dumps({"a": value, "b": value}))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}], "nullable": True}}},
        {
            "type": "object",
            "properties": {"$ref": {"type": "string"}, "enum": {"$ref": "#/properties/$ref"}},
            "required": ["$ref"],
        },
        {"type": "object", "properties": {"s": {"enum": ["title"], "default": {"title": "x", "$comment": "z"}}}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"a": {"items": [{"type": "integer"}]}},
        },
        {"type": "object", "properties": {"a": {"$ref": "#anchor"}}, "$defs": {"z": {"$anchor": "anchor"}}},
        {"type": "object", "properties": {"a": {"const": {"$ref": "http://not/a/reference"}}}},
        {"type": "object", "properties": {"a": {"$ref": "#/%24defs/q%20r"}}, "$defs": {"q r": {"type": "integer"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x~1y"}}, "$defs": {"x/y": {"type": "integer"}}},
        {"type": "object", "properties": {"n": {"items": {"$ref": "#/properties/n"}}}},
    ],
)
def test_kept_as_it_is(schema: Any) -> None:
    """Names that look like keywords, data under keywords, dialects and pointers are kept word for word, as a copy."""
    taken = import_schema(schema)
    assert taken == schema
    assert taken is not schema
    assert taken["properties"] is not schema["properties"]


def test_the_top_becomes_an_object() -> None:
    """A reference at the top, or nothing at all, becomes an object that says so."""
    node = {"type": "object", "properties": {"q": {"type": "string"}, "sub": {"$ref": "#/$defs/R"}}, "required": ["q"]}
    taken = import_schema({"$ref": "#/$defs/R", "$defs": {"R": node}})
    assert taken["type"] == "object"
    assert accepts(taken, {"q": "a", "sub": {"q": "b"}})
    assert not accepts(taken, {"q": "a", "sub": {"q": 1}})
    assert import_schema({}) == {"type": "object", "properties": {}}
    assert import_schema({"type": ["object", "null"]})["type"] == "object"


def test_chains_of_references() -> None:
    """A chain is followed, and keywords beside a reference still hold."""
    arguments = ForeignArguments(
        {
            "$defs": {"Code": {"type": "string"}, "Alias": {"$ref": "#/$defs/Code"}},
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/Alias", "description": "short", "maxLength": 3}},
            "required": ["a"],
        },
        label="the tool",
    )
    assert arguments.parse({"a": "abc"}).keyword == {"a": "abc"}
    for bad in (1, "abcd"):
        with pytest.raises(ArgumentError, match="a: does not match"):
            arguments.parse({"a": bad})


def _nested(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return {"type": "object", "properties": {"a": schema}}


def _doubling() -> Any:
    schema: Any = {"type": "string"}
    for _ in range(60):
        schema = {"type": "object", "properties": {"l": schema, "r": schema}}
    return schema


REFUSED: list[Any] = [
    ([], "must be a JSON Schema object, not list"),
    (None, "not NoneType"),
    ({"type": "string"}, "the arguments must be an object, not 'string'"),
    ({"type": None}, "must be an object"),
    ({"type": ["string", "null"]}, "must be an object"),
    ({"properties": None}, "'properties' must be an object"),
    ({"properties": {"a": {"type": "nonsense"}}}, "not a valid JSON Schema at properties/a/type"),
    ({"properties": {"a": {"pattern": "("}}}, "not a valid JSON Schema"),
    ({"properties": {"a": {"$ref": 5}}}, "not a valid JSON Schema"),
    ({"$schema": 5, "properties": {}}, "not a valid JSON Schema"),
    ({"properties": {"a": {"$ref": "https://evil.invalid/s.json"}}}, "leads out of the schema"),
    ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "leads out of the schema"),
    ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "leads nowhere"),
    ({"properties": {"a": {"$ref": "#nowhere"}}}, "leads nowhere"),
    ({"properties": {"a": {"$ref": "#/properties/a/enum/7"}, "enum": [1]}}, "leads nowhere"),
    ({"$ref": "#"}, "leads to itself"),
    ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "leads to itself"),
    ({"$ref": "#/$defs/A", "$defs": {"A": 5}}, "does not lead to a schema"),
    (_nested(20000), "nests deeper"),
    (_doubling(), "larger than"),
    ({"description": "x" * MAX_SCHEMA_BYTES}, "larger than"),
    ({"properties": {"a": {"default": object()}}}, "is not JSON"),
    ({"properties": {"a": {"maximum": float("nan")}}}, "is not JSON"),
]


@pytest.mark.parametrize(("schema", "words"), REFUSED)
def test_what_is_not_taken_over(schema: Any, words: str) -> None:
    """What is no schema of an object, leads out of itself, or is a bomb, is refused in words and in time."""
    began = time.monotonic()
    with pytest.raises(ToolDefinitionError) as caught:
        import_schema(schema, label="the tool")
    assert words in str(caught.value)
    assert "the tool" in str(caught.value)
    assert time.monotonic() - began < 3


def _fan_out(keyword: str) -> Any:
    levels = {f"L{i}": {keyword: [{"$ref": f"#/$defs/L{i + 1}"}] * 2} for i in range(40)}
    return {
        "type": "object",
        "$defs": {**levels, "L40": {"type": "string"}},
        "properties": {"a": {"$ref": "#/$defs/L0"}},
    }


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_references_that_fan_out(keyword: str) -> None:
    """A schema whose check would take years is answered at once, and in words."""
    began = time.monotonic()
    arguments = ForeignArguments(_fan_out(keyword), label="the tool")
    with pytest.raises(ArgumentError):
        arguments.parse({"a": 5})
    with pytest.raises(ArgumentError):
        arguments.parse({"a": 5})
    assert arguments.parse({}).keyword == {}
    assert time.monotonic() - began < 5


def test_references_in_a_circle() -> None:
    """References that lead round and round are answered in words."""
    loop = {
        "$defs": {"L": {"$ref": "#/$defs/M"}, "M": {"$ref": "#/$defs/L"}},
        "properties": {"a": {"$ref": "#/$defs/L"}},
    }
    with pytest.raises(ArgumentError, match=r"nests too deep|too often"):
        ForeignArguments(loop, label="the tool").parse({"a": 1})


FLIGHT = {
    "type": "object",
    "properties": {
        "day": {"type": "string"},
        "seats": {"type": "integer", "minimum": 1},
        "extras": {"type": "object", "properties": {"bag": {"type": "boolean"}}, "additionalProperties": False},
        "names": {"type": "array", "items": {"type": "string"}},
        "class": {"enum": ["eco", "biz"]},
        "note": {"type": ["string", "null"]},
        "key": {"type": "string", "format": "password"},
    },
    "required": ["day"],
    "additionalProperties": False,
}


def flight() -> ForeignArguments:
    """The arguments of a flight."""
    return ForeignArguments(FLIGHT, label="the tool")


def test_plain_values() -> None:
    """The body receives plain JSON values, as they were sent."""
    sent: Any = {"day": "x", "seats": 2, "extras": {"bag": True}, "names": [], "note": None}
    parsed = flight().parse(sent)
    assert (parsed.raw, parsed.keyword, parsed.positional, parsed.repairs) == (sent, sent, (), ())
    assert flight().secret_keys == {"key"}


WRONG: list[Any] = [
    ({}, "day: required, and missing"),
    ({"day": 1}, 'day: does not match type: "string"'),
    ({"day": "x", "seats": 0}, "seats: does not match minimum: 1"),
    ({"day": "x", "seats": True}, "seats: does not match type"),
    ({"day": "x", "Seats": 1}, "Seats: unknown argument; did you mean 'seats'?"),
    ({"day": "x", "extras": {"bags": True}}, "extras.bags: unknown argument; did you mean 'bag'?"),
    ({"day": "x", "names": ["a", 1]}, "names[1]: does not match type"),
    ({"day": "x", "class": "sk-SECRET"}, 'class: does not match enum: ["eco","biz"]'),
    ("[]", "must be a JSON object"),
    ('{"day": NaN}', "not valid JSON"),
]


@pytest.mark.parametrize(("sent", "words"), WRONG)
def test_refusals(sent: Any, words: str) -> None:
    """What does not match is refused with the field and what it takes, without what was sent."""
    with pytest.raises(ArgumentError) as caught:
        flight().parse(sent)
    assert words in caught.value.text
    assert "sk-SECRET" not in caught.value.text


FIXED: list[Any] = [
    ({"day": "x", "seats": None}, {"day": "x"}, "seats: null for an optional argument: left out"),
    ({"day": "x", "seats": "2"}, {"day": "x", "seats": 2}, "seats: text read as an integer"),
    ({"day": "x", "names": '["a"]'}, {"day": "x", "names": ["a"]}, "names: text read as a list"),
    ({"day": "x", "extras": '{"bag": true}'}, {"day": "x", "extras": {"bag": True}}, "extras: text read as an object"),
]


@pytest.mark.parametrize(("sent", "meant", "said"), FIXED)
def test_repairs(sent: Any, meant: Any, said: str) -> None:
    """Only once the strict check failed, what has one reading is repaired, and the repair is on record."""
    parsed = flight().parse(sent)
    assert parsed.keyword == meant
    assert parsed.raw == sent
    assert parsed.repairs == (said,)


def test_what_is_not_repaired() -> None:
    """Text stays text where text is allowed, and a list is no object."""
    assert flight().parse({"day": "[1]", "note": "null"}).keyword == {"day": "[1]", "note": "null"}
    for sent in ('{"day": "x", "extras": "[]"}', {"day": "x", "seats": "two"}, {"day": None}):
        with pytest.raises(ArgumentError):
            flight().parse(sent)


def test_nothing_for_no_arguments() -> None:
    """No arguments, however said, are fine where none are required."""
    for nothing in ("", None, "null", "{}"):
        assert ForeignArguments({"type": "object"}, label="the tool").parse(nothing).keyword == {}


def test_output_schemas() -> None:
    """The schema of a result may be of any type; it is bounded alike."""
    assert import_output_schema({"type": "string"}) == {"type": "string"}
    with pytest.raises(ToolDefinitionError, match="leads out"):
        import_output_schema({"$ref": "http://x/y"})
    assert first_error({"type": "integer"}, "a", root="the result") == 'the result: does not match type: "integer"'
    assert first_error({"type": "integer"}, 1) is None


def test_all_references() -> None:
    """Every reference is seen, and nothing that only looks like one."""
    schema = {
        "$ref": "#/a",
        "properties": {"$ref": {"$ref": "#/b"}, "x": {"enum": [{"$ref": "no"}], "const": {"$ref": "no"}}},
        "anyOf": [{"$ref": "#/c"}, {"not": {"$dynamicRef": "#d"}}],
        "default": {"$ref": "no"},
    }
    assert sorted(references(schema)) == ["#/a", "#/b", "#/c", "#d"]
