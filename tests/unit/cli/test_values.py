"""How ``key=value`` becomes arguments."""

from __future__ import annotations

from typing import Any

import click
import pytest

from handrail.cli.values import read_arguments, read_pairs

SCHEMA: dict[str, Any] = {
    "properties": {
        "text": {"type": "string"},
        "number": {"type": "integer"},
        "flag": {"type": "boolean"},
        "words": {"type": "array"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["string", "integer"]},
        "kind": {"$ref": "#/$defs/Kind"},
        "level": {"enum": [1, 2]},
        "free": {},
        "loop": {"$ref": "#/$defs/Loop"},
    },
    "$defs": {"Kind": {"enum": ["1", "2"]}, "Loop": {"$ref": "#/$defs/Loop"}},
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=5", "5"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ('text="quoted"', '"quoted"'),
        ("number=5", 5),
        ("number=five", "five"),
        ("flag=true", True),
        ('words=["a"]', ["a"]),
        ("maybe=5", "5"),
        ("maybe=null", None),
        ("either=5", 5),
        ("either=five", "five"),
        ("either=true", "true"),
        ("kind=1", "1"),
        ("level=1", 1),
        ("free=[1]", [1]),
        ("free=word", "word"),
        ("loop=1", 1),
        ("unknown=5", "5"),
    ],
)
def test_the_schema_decides_how_a_value_is_read(word: str, value: object) -> None:
    """Text stays text where the tool takes text; elsewhere it is JSON, or is left for the gate to refuse."""
    assert list(read_arguments(read_pairs([word]), None, SCHEMA).values()) == [value]


def test_json_and_pairs_add_up() -> None:
    """``--args`` and pairs may be used together."""
    assert read_arguments({"text": "a"}, '{"number": 1}', SCHEMA) == {"number": 1, "text": "a"}


@pytest.mark.parametrize("words", [["text"], ["=5"], ["text=1", "text=2"]])
def test_malformed_pairs_are_wrong_usage(words: list[str]) -> None:
    """A word without ``=`` or key, and a key that comes twice, are refused."""
    with pytest.raises(click.UsageError):
        read_pairs(words)


@pytest.mark.parametrize("text", ["[1]", "{", "null", '{"text": "b"}'])
def test_malformed_json_is_wrong_usage(text: str) -> None:
    """``--args`` must be a JSON object, and must not say again what a pair says."""
    with pytest.raises(click.UsageError):
        read_arguments({"text": "a"}, text, SCHEMA)
