"""What the schema accepts, the body gets, in the type that its annotation says; nothing else reaches it."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from handrail import Tool, tool
from handrail.schema.arguments import ArgumentError
from support.strategies import Function, equal, for_schema, functions, mutations

PROPERTY = settings(
    max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def made(function: Any) -> Tool:
    """A tool of a function without a docstring."""
    return tool(function, description="A test's tool.")


def call(built: Tool, sent: Any) -> Any:
    """Parse arguments and run the body with them, without the gate."""
    parsed = built.arguments.parse(sent)
    built.body(*parsed.positional, **parsed.keyword)
    return parsed


@PROPERTY
@given(functions(), st.data())
def test_valid_arguments_reach_the_body(function: Function, data: st.DataObject) -> None:
    """For any signature the body receives what was sent, in the annotated types, and defaults where nothing was sent."""
    built = made(function.call)
    drawn = {name: data.draw(case.values) for name, case in function.cases.items()}
    absent = data.draw(st.sets(st.sampled_from(sorted(function.defaults)))) if function.defaults else set[str]()
    sent = {name: value for name, (value, _) in drawn.items() if name not in absent}
    meant = {name: value for name, (_, value) in drawn.items()} | {name: function.defaults[name] for name in absent}
    note(f"{built.parameters} <- {sent}")
    before = copy.deepcopy(sent)
    assert Draft202012Validator(built.parameters).is_valid(sent)
    parsed = call(built, json.dumps(sent))
    assert parsed.repairs == ()
    assert parsed.raw == sent == before
    assert equal(function.received, meant), (function.received, meant)


@PROPERTY
@given(functions(), st.data())
def test_what_the_schema_accepts_is_accepted(function: Function, data: st.DataObject) -> None:
    """Arguments made up from the advertised schema alone are accepted, and have the annotated types."""
    built = made(function.call)
    sent = data.draw(for_schema(built.parameters))
    note(f"{built.parameters} <- {sent}")
    parsed = call(built, json.dumps(sent))
    assert all(": a number read as an integer" in one for one in parsed.repairs)
    for name in sent:
        annotation = function.cases[name].annotation
        TypeAdapter[Any](annotation).validate_python(function.received[name], strict=True)


@PROPERTY
@given(functions(), st.data())
def test_invalid_arguments_never_reach_the_body(function: Function, data: st.DataObject) -> None:
    """Arguments that do not match the advertised schema are refused; what is repaired is on record."""
    built = made(function.call)
    validator = Draft202012Validator(built.parameters, format_checker=Draft202012Validator.FORMAT_CHECKER)
    sent = data.draw(mutations({name: data.draw(case.values)[0] for name, case in function.cases.items()}))
    note(f"{built.parameters} <- {sent}")
    try:
        parsed = call(built, json.dumps(sent))
    except ArgumentError:
        return
    assert parsed.repairs or validator.is_valid(sent)
