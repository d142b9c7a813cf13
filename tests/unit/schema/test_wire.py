"""What a model sent is read strictly, and what it will read is strict JSON, unchanged."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import io
import ipaddress
import json
import pathlib
import re
import types
import uuid
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, computed_field

from handrail.schema.wire import (
    MAX_ARGUMENT_BYTES,
    WireError,
    check_keys,
    dump,
    exact_numbers,
    join,
    read_json,
    read_object,
)
from support.strategies import JSON, TEXT, equal, mutations

ANY_TEXT = st.text(max_size=30) | st.text('{}[]":,0123456789.eE+-\\u truefalsn\n', max_size=30)
NEARLY_JSON = JSON.map(json.dumps).flatmap(
    lambda text: st.integers(0, len(text)).map(lambda i: text[:i] + text[i + 1 :])
)


@settings(max_examples=1000, deadline=None)
@given(ANY_TEXT | NEARLY_JSON | JSON.map(json.dumps))
def test_any_text(text: str) -> None:
    """Whatever text a model sends, it is read as JSON reads it, or refused; no other error ever comes out."""
    try:
        value, kept, repair = read_object(text)
    except WireError:
        return
    if repair is None:
        assert equal(value, json.loads(text))
        assert kept == text
    elif repair.startswith("no arguments"):
        assert value == {}
        assert text.strip() in ("", "null")
    else:
        assert equal(value, json.loads(json.loads(text)))


@settings(max_examples=1000, deadline=None)
@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_any_object(value: dict[str, Any]) -> None:
    """Every JSON object is read in full, as text, as bytes and as a mapping, and each of the three is left as it is."""
    text = json.dumps(value)
    for sent in (text, text.encode(), types.MappingProxyType(value)):
        read, kept, repair = read_object(sent)
        assert equal(read, value)
        assert equal(json.loads(kept), value)
        assert repair is None


@settings(max_examples=1000, deadline=None)
@given(JSON | JSON.flatmap(mutations))
def test_results_survive(value: Any) -> None:
    """A JSON value is written so that reading it gives the very same value: 1, 1.0 and true stay apart."""
    assert equal(json.loads(dump(value)), value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "must be a JSON object, not a list"),
        ('"value"', "must be a JSON object, not a string"),
        ("1", "not a number"),
        ("true", "not a boolean"),
        ("[1]", "not a list"),
        ('{"x": NaN}', "not valid JSON"),
        ('{"x": -Infinity}', "not valid JSON"),
        ('{"x": 1e999}', "x: the number is too large"),
        ('{"a": [0, {"b": -1e400}]}', "a[1].b: the number is too large"),
        ('{"x": ' + "9" * 400 + ".0}", "x: the number is too large"),
        ('{"x": ' + "9" * 5000 + "}", "not valid JSON"),
        ('{"x": ' + "[" * 20000 + "]" * 20000 + "}", "not valid JSON"),
        ('{"x": "a"', "not valid JSON"),
        ('{"a":1}{"a":2}', "not valid JSON"),
        ("{x: 1}", "not valid JSON"),
        ('{"x": 1,}', "not valid JSON"),
        ("{'x': 1}", "not valid JSON"),
        ('{"x": "\\ud800"}', "not valid JSON"),
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ('{"q": {"a": 1, "b": 2, "a": 1}}', "'a' is given twice"),
        ('{"a": "1:2", "b": {"c": 1, "c": 1}}', "'c' is given twice"),
        (b"\xff{}", "not UTF-8"),
        ('{"x": "' + "a" * MAX_ARGUMENT_BYTES + '"}', "larger than"),
        ('{"x": "' + "é" * (MAX_ARGUMENT_BYTES // 2) + '"}', "larger than"),
        (5, "must be a JSON object, not a number"),
        ([1], "must be a JSON object, not a list"),
        ({1: 2}, "argument names must be strings, not int"),
        ({"x": float("nan")}, "x: the number is not finite"),
        ({"x": object()}, "x: a value of type object has no JSON form"),
        ({"x": "\ud800"}, "x: text with a lone surrogate"),
        ('"not json"', "not a string"),
        ('"[1]"', "not a string"),
    ],
)
def test_what_is_not_read(text: Any, words: str) -> None:
    """Hostile and broken arguments are refused in words, and the process goes on."""
    with pytest.raises(WireError) as caught:
        read_object(text)
    assert words in str(caught.value)
    assert "aaaa" not in str(caught.value)


def test_twice_encoded() -> None:
    """An object inside of a JSON string is decoded once, which is on record."""
    assert read_object(json.dumps('{"a": 1}')) == ({"a": 1}, '{"a": 1}', "arguments sent as a string: decoded")


def test_surrogate_pairs() -> None:
    """An escaped pair is one character."""
    assert read_json('{"t": "\\ud83d\\ude80"}') == {"t": "\U0001f680"}


def test_colons_in_texts() -> None:
    """A colon inside of text is no key."""
    assert read_json('{"a": ":::", "b:c": {"d": ":"}}') == {"a": ":::", "b:c": {"d": ":"}}


@dataclasses.dataclass
class Point:
    """A dataclass."""

    x: int
    day: dt.date = dt.date(2024, 1, 2)


class Plain(BaseModel):
    """A model with defaults."""

    a: int = 1
    b: str | None = None


class Aliased(BaseModel):
    """A model whose fields are called otherwise on the wire."""

    model_config = ConfigDict(extra="allow")

    value: int = Field(1, serialization_alias="outVal")

    @computed_field
    @property
    def twice(self) -> int:
        """A field that is computed."""
        return self.value * 2


class Size(enum.Enum):
    """An enum of odd values."""

    S = "s"
    P = (1, 2)


class Pair(NamedTuple):
    """A named tuple."""

    x: int
    y: str


class Map(Mapping[str, int]):
    """A mapping of one's own."""

    def __getitem__(self, key: str) -> int:
        return {"a": 1}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Seq(Sequence[int]):
    """A sequence of one's own."""

    def __getitem__(self, index: Any) -> Any:
        both: Any = [1, 2]
        return both[index]

    def __len__(self) -> int:
        return 2


class Bag(AbstractSet[int]):
    """A set of one's own."""

    def __contains__(self, value: object) -> bool:
        return value == 1

    def __iter__(self) -> Iterator[int]:
        return iter([1])

    def __len__(self) -> int:
        return 1


FORMS: list[Any] = [
    (None, None),
    ((1, "a"), [1, "a"]),
    ({1, 2}, [1, 2]),
    (frozenset({1}), [1]),
    (b"abc", "abc"),
    (bytearray(b"abc"), "abc"),
    (memoryview(b"abc"), "abc"),
    (dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "2024-01-02T00:00:00Z"),
    (dt.date(2024, 1, 2), "2024-01-02"),
    (dt.time(1, 2), "01:02:00"),
    (dt.timedelta(seconds=90), "PT1M30S"),
    (dt.UTC, "UTC"),
    (zoneinfo.ZoneInfo("UTC"), "UTC"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (decimal.Decimal("1.10"), "1.10"),
    (fractions.Fraction(1, 3), "1/3"),
    (1 + 2j, "1+2j"),
    (pathlib.Path("a/b"), "a/b"),
    (pathlib.PurePosixPath("a/b"), "a/b"),
    (pathlib.PureWindowsPath("a\\b"), "a\\b"),
    (ipaddress.ip_address("1.2.3.4"), "1.2.3.4"),
    (re.compile("a+"), "a+"),
    (Size.S, "s"),
    (Size.P, [1, 2]),
    (Point(1), {"x": 1, "day": "2024-01-02"}),
    (Plain(), {"a": 1, "b": None}),
    (Aliased.model_validate({"value": 2, "more": 3}), {"outVal": 2, "more": 3, "twice": 4}),
    (Pair(1, "b"), [1, "b"]),
    (Map(), {"a": 1}),
    (Seq(), [1, 2]),
    (Bag(), [1]),
    (collections.deque([1]), [1]),
    (collections.OrderedDict(a=1), {"a": 1}),
    (collections.Counter("aa"), {"a": 2}),
    (collections.ChainMap({"a": 1}), {"a": 1}),
    (collections.UserDict(a=1), {"a": 1}),
    (collections.UserList([1]), [1]),
    (collections.UserString("u"), "u"),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
    ({"a": 1}.keys(), ["a"]),
    ({"a": 1}.values(), [1]),
    ({"a": 1}.items(), [["a", 1]]),
    (range(3), [0, 1, 2]),
    (array.array("i", [1]), [1]),
    (map(str, [1]), ["1"]),
    (np.int64(3), 3),
    (np.float32(1.5), 1.5),
    (np.bool_(True), True),
    (np.str_("s"), "s"),
    (np.array([[1, 2]]), [[1, 2]]),
    ({1: "a", 1.5: "b", dt.date(2024, 1, 2): "c", Size.S: "d"}, {"1": "a", "1.5": "b", "2024-01-02": "c", "s": "d"}),
    (
        {"status": "s", "error": "e", "is_error": True, "success": False},
        {"status": "s", "error": "e", "is_error": True, "success": False},
    ),
    (10**30, 10**30),
    ("\U0001f680é", "\U0001f680é"),
]


@pytest.mark.parametrize(("value", "form"), FORMS)
def test_forms(value: Any, form: Any) -> None:
    """Values of the standard library, of pydantic and of numpy have a JSON form, alone and inside of others."""
    again: Any = list(cast("Any", value)) if isinstance(value, map) else value
    assert equal(json.loads(dump(again)), form)
    assert equal(json.loads(dump({"k": [again]})), {"k": [form]})


def test_unescaped() -> None:
    """Text is sent as it is: escapes cost tokens."""
    assert dump({"k": "é\U0001f680"}) == '{"k":"é\U0001f680"}'


def _deep() -> Any:
    value: Any = []
    for _ in range(3000):
        value = [value]
    return value


LOOP: list[Any] = []
LOOP.append(LOOP)


class Strange:
    """Has no JSON form."""


FORMLESS: list[Any] = [
    (float("nan"), "the number is not finite"),
    ({"a": [1, float("inf")]}, "a[1]: the number is not finite"),
    (Plain.model_construct(a=float("nan")), "a: the number is not finite"),
    (Point(float("-inf")), "x: the number is not finite"),  # pyright: ignore[reportArgumentType]
    (np.array([[1.0, np.nan]]), "[0][1]: the number is not finite"),
    (np.float64("nan"), "the number is not finite"),
    (b"\xff", "bytes that are not UTF-8"),
    ({"a": b"\xff"}, "a: a value of bytes that are not UTF-8"),
    ("\ud800", "text with a lone surrogate"),
    ({"a": {"\ud800": 1}}, "a: a key with a lone surrogate"),
    ({"a": (i for i in [1])}["a"], "a generator"),
    (io.StringIO("x"), "a value of type StringIO"),
    ({"a": [Strange()]}, "a[0]: a value of type Strange"),
    (Strange, "a value of type type"),
    (len, "builtin_function_or_method"),
    (ValueError("secret"), "a value of type ValueError"),
    (np.array([Strange()]), "[0]: a value of type Strange"),
    (LOOP, "refers to itself"),
    (_deep(), "nests too deep"),
    ({"a": 1, 1: 2, "1": 3}, "1: two keys have the same text"),
    ({"q": [{1: 2, "1": 3}]}, "q[0].1: two keys have the same text"),
]


@pytest.mark.parametrize(("value", "words"), FORMLESS)
def test_what_has_no_form(value: Any, words: str) -> None:
    """What has no JSON form is refused with its path, never turned into null, a repr, or half of itself."""
    with pytest.raises(WireError) as caught:
        dump(value)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_equal_keys_are_looked_for_in_objects_only() -> None:
    """Text that looks like an object with a repeated key is text."""
    check_keys('{"a":1,"a":2}', '"{\\"a\\":1,\\"a\\":2}"')
    check_keys(["{"], '["{"]')


def test_exact_numbers() -> None:
    """A number that lost digits is found by its path; one that did not is left alone."""
    assert exact_numbers('{"a": [9007199254740993]}', {"a": [9007199254740992.0]}) == "a[0]"
    assert exact_numbers('{"a": [9007199254740993]}', {"a": [9007199254740993]}) is None
    assert exact_numbers('{"a": 1.5}', {"a": 1.5}) is None
    assert exact_numbers('{"a": "9007199254740993"}', {"a": "9007199254740993"}) is None


def test_paths() -> None:
    """Paths read like Python."""
    assert join(join(join("", "a"), 0), "b") == "a[0].b"
