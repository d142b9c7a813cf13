"""What a body returned reaches the model as text and parts, unchanged, or cut with a mark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from handrail import Tool, tool
from handrail.results import cut, write_remote, write_value
from handrail.schema.output import OutputError
from handrail.tools import Link, Media, RemoteResult, Text
from support.strategies import JSON, equal

PIXEL = Media(b"pixel", "image/png")


def made(output: Any = ..., **options: Any) -> Tool:
    """A tool with a declared result."""
    if output is not ...:
        options["output"] = output
    return tool(lambda: None, name="f", description="A test's tool.", **options)


async def _never(arguments: dict[str, Any], context: Any) -> RemoteResult:
    raise NotImplementedError


def remote(output_schema: Any = None, **options: Any) -> Tool:
    """A tool of a server."""
    return Tool.remote(
        name="f",
        description="d",
        parameters={"type": "object"},
        output_schema=output_schema,
        server="s",
        send=_never,
        **options,
    )


@settings(max_examples=1000, deadline=None)
@given(JSON)
def test_values_survive(value: Any) -> None:
    """Any JSON value reaches the model as the very same JSON, and text as it is."""
    written = write_value(made(), value)
    assert written.parts == ()
    assert not written.truncated
    if isinstance(value, str):
        assert (written.wire, written.is_text) == (value, True)
    else:
        assert equal(json.loads(written.wire), value)
        assert not written.is_text


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (None, "null"),
        (False, "false"),
        (0, "0"),
        ("", ""),
        ([], "[]"),
        ({}, "{}"),
        ([1], "[1]"),
        ("null", "null"),
        ("5", "5"),
        ({"error": "x", "status": 1}, '{"error":"x","status":1}'),
        ((1, 2), "[1,2]"),
    ],
)
def test_falsy_and_special_values(value: Any, wire: str) -> None:
    """Nothing is dropped, unwrapped or replaced, and no key is special."""
    assert write_value(made(), value).wire == wire


@settings(max_examples=1000, deadline=None)
@given(st.text(max_size=400) | st.text("aé€\U0001f680", max_size=400), st.integers(1, 500))
def test_cutting(text: str, limit: int) -> None:
    """Text within the limit is untouched; longer text keeps its head and its tail, and says how long it was."""
    size = len(text.encode("utf-8", "replace"))
    kept, was_cut = cut(text, limit)
    assert was_cut == (size > limit)
    if not was_cut:
        assert kept == text
        return
    mark, head, dots, tail = kept.split("\n", 1)[0], *kept.split("\n", 1)[1].rpartition("\n...\n")
    assert mark == f"[truncated: {size} bytes in all, the middle is left out]"
    assert dots == "\n...\n"
    plain = text.encode("utf-8", "replace").decode()
    assert plain.startswith(head)
    assert plain.endswith(tail)
    assert len(kept.encode()) <= max(limit, len(mark) + 6)
    if limit > 100:
        assert len(head.encode()) >= (limit - 70) // 2 - 3
        assert len(tail.encode()) >= (limit - 70) // 2 - 3


def test_long_results() -> None:
    """A long result is cut and says so; the exit code at its end is kept."""
    written = write_value(made(max_result_bytes=2000), "a" * 50000 + "EXIT 3")
    assert written.truncated
    assert written.wire.startswith("[truncated: 50006 bytes in all")
    assert written.wire.endswith("EXIT 3")
    assert len(written.wire) <= 2000
    listed = write_value(made(max_result_bytes=2000), list(range(5000)))
    assert listed.truncated
    assert listed.is_text
    assert listed.wire.endswith("4999]")
    assert len(listed.wire) <= 2000


def test_long_declared_results() -> None:
    """A declared result is never half a document: one that is too large is an error with both sizes."""
    with pytest.raises(OutputError, match="the result has 28891 bytes, more than the 10000 that are allowed"):
        write_value(made(list[int], max_result_bytes=10000), list(range(6000)))
    text = write_value(made(str, max_result_bytes=100), "x" * 1000)
    assert text.truncated


def test_text_is_checked_like_anything_else() -> None:
    """Text where something else is declared is an error, and text that JSON cannot carry as well."""
    with pytest.raises(OutputError, match="the whole: Input should be a valid integer"):
        write_value(made(int), "5")
    with pytest.raises(OutputError, match="lone surrogate"):
        write_value(made(), "\ud800")
    assert write_value(made({"enum": ["a"]}), "a").wire == "a"


def test_parts() -> None:
    """Text and media keep their order, and media appear in text as a note, never as base64."""
    written = write_value(made(), ["before", PIXEL, "between", Link("x:y", "page"), Text("after")])
    assert written.parts == (Text("before"), PIXEL, Text("between"), Link("x:y", "page"), Text("after"))
    assert written.wire == "before\n[image/png, 5 bytes]\nbetween\n[page: x:y]\nafter"
    assert write_value(made(), PIXEL).parts == (PIXEL,)
    assert write_value(made(), Media(b"a", "text/csv", "t.csv")).wire == "[t.csv, text/csv, 1 bytes]"
    assert write_value(made(), ["a", "b"]).wire == '["a","b"]'


def test_long_parts() -> None:
    """The cap holds for the texts of all parts together; media are kept whole."""
    written = write_value(made(max_result_bytes=1000), ["é" * 400, PIXEL, "b" * 1000, "c" * 1000])
    assert written.truncated
    assert PIXEL in written.parts
    texts = [part.text for part in written.parts if isinstance(part, Text)]
    assert texts[0] == "é" * 400
    assert all(text.startswith("[truncated: 1000 bytes") for text in texts[1:])
    assert len(written.wire.encode()) < 1600


def test_media_in_other_values() -> None:
    """Media inside of a structure has no JSON form, and the error says where it is."""
    with pytest.raises(OutputError, match="shot"):
        write_value(made(), {"shot": Media(b"\xff", "image/png")})


class Answer(BaseModel):
    """A declared result."""

    items: list[int]


SCHEMA = {"type": "object", "properties": {"items": {"type": "array"}}, "required": ["items"]}


def test_remote_texts() -> None:
    """A server's text is what the model reads; structured content alone is its JSON; nothing at all says so."""
    assert write_remote(remote(), RemoteResult((Text("a"), Text("b")))).wire == "a\nb"
    assert write_remote(remote(), RemoteResult((), {"items": []})).wire == '{"items":[]}'
    assert write_remote(remote(), RemoteResult()).wire == "(no output)"
    assert write_remote(remote(), RemoteResult((), None)).wire == "null"
    both = write_remote(remote(SCHEMA), RemoteResult((Text("two"),), {"items": [1]}))
    assert (both.wire, both.is_text) == ("two", True)


def test_remote_structures_that_do_not_match() -> None:
    """Structured content that breaks the server's promise is marked, and an error where nothing else is there."""
    marked = write_remote(remote(SCHEMA), RemoteResult((Text("two"),), {"items": 5}))
    assert marked.wire.startswith("[the structured part of this result does not match")
    assert marked.wire.endswith("two")
    with pytest.raises(OutputError, match="items: does not match type"):
        write_remote(remote(SCHEMA), RemoteResult((), {"items": 5}))
    failed = write_remote(remote(SCHEMA), RemoteResult((Text("no such order"),), is_error=True))
    assert failed.wire == "no such order"


def test_long_remote_results() -> None:
    """A server's result is cut like any other, with its media kept."""
    written = write_remote(remote(max_result_bytes=500), RemoteResult((Text("x" * 5000), PIXEL)))
    assert written.truncated
    assert written.parts[1] == PIXEL
    assert len(written.wire) < 600
    assert write_remote(remote(max_result_bytes=500), RemoteResult((), list(range(1000)))).truncated


def test_declared_models() -> None:
    """A model, and what stands for one, is written with its fields."""
    assert write_value(made(Answer), Answer(items=[1])).wire == '{"items":[1]}'
    assert write_value(made(Answer), {"items": [1]}).wire == '{"items":[1]}'
    with pytest.raises(OutputError, match=r"items\[0\]: Input should be a valid integer"):
        write_value(made(Answer), {"items": ["a"]})
