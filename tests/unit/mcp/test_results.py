"""Whatever a server answers, nothing of it is lost and nothing of it raises."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.errors import MCPProtocolError
from handrail.mcp.results import RESULT_CAP, read_result
from handrail.tools import UNSET, Link, Media, Part, Text

PIXEL = base64.b64encode(b"pixel").decode()


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "hi"}, Text("hi")),
        ({"type": "text", "text": ""}, Text("")),
        ({"type": "image", "data": PIXEL, "mimeType": "image/png"}, Media(b"pixel", "image/png")),
        ({"type": "audio", "data": PIXEL, "mimeType": "audio/wav"}, Media(b"pixel", "audio/wav")),
        ({"type": "image", "data": "!", "mimeType": "image/png"}, Text("[image/png that could not be decoded]")),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"},
            Link("file:///a", "a", "text/plain"),
        ),
        ({"type": "resource", "resource": {"uri": "x:y", "text": "t"}}, Text("[resource x:y]\nt")),
        (
            {"type": "resource", "resource": {"uri": "x:y", "blob": PIXEL, "mimeType": "a/b"}},
            Media(b"pixel", "a/b", "x:y"),
        ),
    ],
)
def test_known_blocks(block: dict[str, Any], part: Part) -> None:
    """Text, images, sounds, links and embedded resources become the parts that mean the same."""
    assert read_result("s", {"content": [block]}).parts == (part,)


@pytest.mark.parametrize("block", [{"type": "hologram", "x": 1}, {"type": "text"}, {"x": 1}, 7, None, "bare"])
def test_unknown_blocks(block: Any) -> None:
    """A block that we do not know survives as text that says so."""
    (part,) = read_result("s", {"content": [block]}).parts
    assert isinstance(part, Text)
    assert part.text.startswith("[content of an unknown kind")


def test_content_in_odd_forms() -> None:
    """Missing content is no parts, a bare string is text, and only true is an error."""
    assert read_result("s", {}).parts == ()
    assert read_result("s", {"content": None, "isError": None}).is_error is False
    assert read_result("s", {"content": "plain", "isError": True}) == read_result(
        "s", {"content": [{"type": "text", "text": "plain"}], "isError": True}
    )


def test_structured_content() -> None:
    """Structured content is handed over as it is; falsy values are values."""
    assert read_result("s", {}).structured is UNSET
    assert read_result("s", {"structuredContent": {}}).structured == {}
    assert read_result("s", {"structuredContent": 0}).structured == 0


def test_a_question_is_not_an_answer() -> None:
    """A server that asks for more input is a typed error, because nobody is there to answer."""
    with pytest.raises(MCPProtocolError, match="asks for more input"):
        read_result("s", {"resultType": "input_required"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "text", "data", "resource", "uri", "blob", "mimeType"]) | st.text(), inner
        )
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "image", "resource", "resource_link"]), "data": inner}
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_nothing_raises(content: Any) -> None:
    """No content whatsoever makes the reader raise."""
    read_result("s", {"content": content, "isError": content, "structuredContent": content})


@pytest.mark.parametrize("letter", ["x", "ä"])
def test_the_largest_result(letter: str) -> None:
    """All parts of a result together have one cap, in bytes; one byte more is an error."""
    size = len(letter.encode())
    image = {"type": "image", "data": base64.b64encode(bytes(1024)).decode(), "mimeType": "image/png"}
    text = {"type": "text", "text": letter * ((RESULT_CAP - 1024) // size)}
    assert len(read_result("s", {"content": [image, text]}).parts) == 2
    with pytest.raises(MCPProtocolError, match="the most that is taken"):
        read_result("s", {"content": [image, text, {"type": "text", "text": "!"}]})
