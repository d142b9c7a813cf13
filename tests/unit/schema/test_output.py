"""A result is checked against its declared type, and written so that it matches the advertised schema, unchanged."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, NotRequired, TypedDict

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, computed_field

from handrail import tool
from handrail.errors import ToolDefinitionError
from handrail.schema.output import OutputError, build_output
from handrail.schema.signature import MISSING
from support.strategies import CASES, Case, accepts, equal


@settings(max_examples=1000, deadline=None)
@given(CASES, st.data())
def test_results_match_what_is_advertised(case: Case, data: st.DataObject) -> None:
    """For any return annotation a value of the type is written as JSON that its output schema accepts."""
    output = build_output(case.annotation, label="the tool")
    sent, value = data.draw(case.values)
    text = output.write(value)
    note(text)
    assert accepts(output.json_schema if output.json_schema is not None else {}, json.loads(text))
    assert output.write(sent) == output.write(sent)


class Color(enum.Enum):
    """An enum."""

    RED = "red"


class Bits(enum.Flag):
    """A flag."""

    A = 1
    B = 2


class Level(enum.IntEnum):
    """An enum of numbers."""

    LOW = 0
    HIGH = 1


class Plain(BaseModel):
    """A model with defaults."""

    a: int = 1
    b: str | None = None


class Wider(Plain):
    """A subclass with one more field."""

    secret: str = "s"


class Aliased(BaseModel):
    """Called otherwise on the wire."""

    value: int = Field(serialization_alias="outVal")


class Computed(BaseModel):
    """With a computed field."""

    a: int

    @computed_field
    @property
    def twice(self) -> int:
        """The double."""
        return 2 * self.a


@dataclasses.dataclass
class Point:
    """A dataclass."""

    x: int
    day: dt.date = dt.date(2024, 1, 2)
    made: int = dataclasses.field(default=7, init=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    """A dataclass without a dict."""

    x: int


class Row(TypedDict):
    """A TypedDict."""

    a: int
    b: NotRequired[str]


class Pair(NamedTuple):
    """A named tuple."""

    x: int
    y: str


class Whole(int):
    """A subclass of int."""


GOOD: list[Any] = [
    (int, 1, 1),
    (int, Whole(3), 3),
    (int, np.int64(3), 3),
    (float, 1.5, 1.5),
    (float, np.float32(1.5), 1.5),
    (bool, False, False),
    (bool, np.bool_(True), True),
    (str, "a", "a"),
    (None, None, None),
    (int | None, None, None),
    (list[int], [], []),
    (list[int], (1, 2), [1, 2]),
    (list[int], np.array([1, 2]), [1, 2]),
    (list[int], range(2), [0, 1]),
    (list[int], collections.deque([1]), [1]),
    (list[int], iter([1]), [1]),
    (list[str], {"a": 1}.keys(), ["a"]),
    (Sequence[int], range(2), [0, 1]),
    (Iterable[int], [1], [1]),
    (tuple[int, str], (1, "a"), [1, "a"]),
    (tuple[int, str], [1, "a"], [1, "a"]),
    (set[int], {1}, [1]),
    (set[int], [1], [1]),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict[str, int], types.MappingProxyType({"a": 1}), {"a": 1}),
    (dict[int, int], {1: 1}, {"1": 1}),
    (dict[str, float | None], {"a": None}, {"a": None}),
    (Mapping[str, int], collections.ChainMap({"a": 1}), {"a": 1}),
    (Plain, Plain(), {"a": 1, "b": None}),
    (Plain, {"a": 2}, {"a": 2, "b": None}),
    (Plain, Wider(), {"a": 1, "b": None}),
    (list[Plain], [Plain(), {"a": 2}], [{"a": 1, "b": None}, {"a": 2, "b": None}]),
    (BaseModel, Wider(), {"a": 1, "b": None, "secret": "s"}),
    (Aliased, Aliased(value=1), {"outVal": 1}),
    (Aliased, {"value": 1}, {"outVal": 1}),
    (Computed, Computed(a=2), {"a": 2, "twice": 4}),
    (Computed, {"a": 2}, {"a": 2, "twice": 4}),
    (Point, Point(1), {"x": 1, "day": "2024-01-02", "made": 7}),
    (Point, {"x": 1}, {"x": 1, "day": "2024-01-02", "made": 7}),
    (Slotted, Slotted(1), {"x": 1}),
    (Row, {"a": 1}, {"a": 1}),
    (Pair, Pair(1, "b"), [1, "b"]),
    (Pair, [1, "b"], [1, "b"]),
    (Color, Color.RED, "red"),
    (Color, "red", "red"),
    (Level, Level.HIGH, 1),
    (Bits, Bits.A | Bits.B, 3),
    (Bits, Bits(0), 0),
    (Literal["a", 1], 1, 1),
    (Literal[True], True, True),
    (dt.date, dt.date(2024, 1, 2), "2024-01-02"),
    (dt.datetime, dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "2024-01-02T00:00:00Z"),
    (dt.timedelta, dt.timedelta(days=1), "P1D"),
    (uuid.UUID, uuid.UUID(int=1), str(uuid.UUID(int=1))),
    (decimal.Decimal, decimal.Decimal("1.10"), "1.10"),
    (bytes, b"a", "a"),
    (pathlib.Path, pathlib.Path("a"), "a"),
    (Annotated[str, "with text"], "a", "a"),
    (Any, {"status": "x", "error": 1}, {"status": "x", "error": 1}),
    (object, [1], [1]),
    (MISSING, [1], [1]),
]


@pytest.mark.parametrize(("annotation", "value", "form"), GOOD)
def test_results(annotation: Any, value: Any, form: Any) -> None:
    """A value of the declared type, or its JSON form, is written in full: defaults, aliases and computed fields too."""
    output = build_output(annotation, label="the tool")
    written = json.loads(output.write(value))
    assert equal(written, form)
    assert output.json_schema is None or accepts(output.json_schema, written)


BAD: list[Any] = [
    (int, "1", "the whole: Input should be a valid integer"),
    (int, True, "valid integer"),
    (int, 1.0, "valid integer"),
    (int, None, "valid integer"),
    (float, True, "valid number"),
    (float, float("nan"), "not finite"),
    (list[float], [1.0, float("inf")], "[1]: the number is not finite"),
    (str, 1, "valid string"),
    (list[int], [1, "a"], "[1]: Input should be a valid integer"),
    (list[int], "ab", "valid"),
    (tuple[int, int], [1], "[1]: required"),
    (Iterable[int], ["a"], "[0]: Input should be a valid integer"),
    (Plain, {"a": "x"}, "a: Input should be a valid integer"),
    (Plain, {"a": 1, "zz": 1}, "zz: not in the schema"),
    (Row, {"a": 1, "c": 2}, "c: not in the schema"),
    (Row, {}, "a: required, and missing"),
    (Point, Point("bad"), "x: Input should be a valid integer"),  # pyright: ignore[reportArgumentType]
    (list[Point], [Point(1, "2024-01-02")], "[0].day"),  # pyright: ignore[reportArgumentType]
    (Slotted, Slotted(None), "x: Input should be a valid integer"),  # pyright: ignore[reportArgumentType]
    (Pair, Pair("x", 1), "[0]: Input should be a valid integer"),  # pyright: ignore[reportArgumentType]
    (Color, "blue", "Color"),
    (Level, True, "0 or 1"),
    (Literal[1], True, "1"),
    (Literal[True], 1, "true"),
    (Literal["a"], "b", "'a'"),
    (dt.date, dt.datetime(2024, 1, 2), "date"),
    (decimal.Decimal, decimal.Decimal("NaN"), "number"),
    (bytes, b"\xff", "not UTF-8"),
    (Annotated[int, Field(le=3)], 5, "less than or equal to 3"),
    (Annotated[list[int], Field(min_length=2)], [1], "at least 2"),
    (None, 1, "None"),
    (Any, {"a": object()}, "a: a value of type object has no JSON form"),
]


@pytest.mark.parametrize(("annotation", "value", "words"), BAD)
def test_what_does_not_match(annotation: Any, value: Any, words: str) -> None:
    """What does not match is an error that names the place; nothing is converted, dropped or turned into null."""
    with pytest.raises(OutputError) as caught:
        build_output(annotation, label="the tool").write(value)
    assert words in caught.value.text


def test_no_values_in_errors() -> None:
    """What was returned does not appear in the error."""
    for annotation in (int, list[int], Plain, Literal["a"], uuid.UUID, dt.date):
        with pytest.raises(OutputError) as caught:
            build_output(annotation, label="the tool").write("sk-VERYSECRET")
        assert "sk-VERYSECRET" not in caught.value.text


@pytest.mark.parametrize(
    "annotation", [Callable[[], int], type, type[int], Iterator[int], NoReturn, list[object.__class__]]
)
def test_what_cannot_be_declared(annotation: Any) -> None:
    """A return annotation without a JSON form is refused where the tool is defined."""
    with pytest.raises(ToolDefinitionError, match="the tool: the return annotation cannot be described as JSON"):
        build_output(annotation, label="the tool")


SCHEMA = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"type": "integer"}}},
    "required": ["items"],
    "additionalProperties": False,
}


def test_schemas() -> None:
    """``output=`` takes a JSON Schema of any type, and a result is checked against it."""
    output = build_output(SCHEMA, label="the tool")
    assert output.write({"items": (1, 2)}) == '{"items":[1,2]}'
    bad: list[Any] = [
        ({"items": ["a"]}, "items[0]: does not match type"),
        ({}, "items: required, and missing"),
        ({"items": [], "q": 1}, "q: unknown argument"),
        ([1], "the whole: does not match type"),
    ]
    for value, words in bad:
        with pytest.raises(OutputError, match="does not match the output schema") as caught:
            output.write(value)
        assert words in caught.value.text
    assert build_output({"type": "integer"}, label="the tool").write(3) == "3"
    with pytest.raises(ToolDefinitionError, match="the tool: the output schema is not a valid JSON Schema"):
        build_output({"type": "nonsense"}, label="the tool")


def test_options() -> None:
    """``output=`` wins over the annotation; ``output=None`` means nothing, which is not the same as not said."""

    def f() -> list[int]:
        return []

    assert tool(f, description="d").output_schema == {"type": "array", "items": {"type": "integer"}}
    assert tool(f, description="d", output=dict[str, int]).output_schema == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }
    assert tool(f, description="d", output=None).output_schema == {"type": "null"}
    assert tool(lambda: 1, name="f", description="d").output_schema is None


def test_copies() -> None:
    """A schema that a caller gets can be changed without changing the tool."""

    def f() -> Plain: ...  # pyright: ignore[reportReturnType]

    built = tool(f, description="d")
    schema = built.output_schema
    assert schema is not None
    schema["properties"].clear()
    assert built.output_schema is not None
    assert set(built.output_schema["properties"]) == {"a", "b"}
