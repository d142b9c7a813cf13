"""A docstring in any of the usual styles gives the description, the parameters' texts and the result's."""

from __future__ import annotations

from textwrap import indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail import tool
from handrail.schema.docstrings import Docstring, read_docstring

GOOGLE = """Look up.

Twice.

Args:
    a: first line
        continued here
        and here.
    b (int, optional): second. Defaults to 3.
    *args: more
    **kwargs: rest

Returns:
    The thing.

Raises:
    ValueError: bad
"""
NUMPY = """Look up.

Twice.

Parameters
----------
a : int
    first line
    continued here and here.
b : int, optional
    second. Defaults to 3.
*args : int
    more
**kwargs
    rest

Returns
-------
str
    The thing.
"""
SPHINX = """Look up.

Twice.

:param a: first line
    continued here
    and here.
:param int b: second. Defaults to 3.
:type b: int
:param args: more
:keyword kwargs: rest
:returns: The thing.
:rtype: str
:raises ValueError: bad
"""
TEXTS = {"a": "first line continued here and here.", "b": "second. Defaults to 3.", "args": "more", "kwargs": "rest"}


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
@pytest.mark.parametrize("margin", ["", "    ", "\t"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_styles(doc: str, margin: str, ends: str) -> None:
    """The three styles say the same, however they are indented, and with either kind of line ends."""
    text = indent(doc, margin)[len(margin) :].replace("\n", ends)
    assert read_docstring(text) == Docstring("Look up.\n\nTwice.", TEXTS, "The thing.")


@pytest.mark.parametrize(
    ("doc", "text", "parameters"),
    [
        ("S.\nArgs:\n    a: x\n    b: y", "S.", {"a": "x", "b": "y"}),
        ("S.\nParameters\n----------\na : int\n    X.\nb, c : float\n    Y.", "S.", {"a": "X.", "b": "Y.", "c": "Y."}),
        ("S.\n:param a: x\n:param b: y", "S.", {"a": "x", "b": "y"}),
        ("S.\n\nKeyword Args:\n    a: x", "S.", {"a": "x"}),
        ("S.\n\nKeyword Arguments:\n    a (int): x\nOther Parameters:\n    b: y", "S.", {"a": "x", "b": "y"}),
        ("S.\n\nArgs:\n    a: x\n\nKeyword Args:\n    b: y", "S.", {"a": "x", "b": "y"}),
        ("S.\n\nArguments:\n    a: x", "S.", {"a": "x"}),
        ("S.\n\nParams:\n    a: x", "S.", {"a": "x"}),
        ("S.\n\nParameters:\n    a: x", "S.", {"a": "x"}),
        ("S.\n\nArgs:\n\ta: x\n\tb: y", "S.", {"a": "x", "b": "y"}),
        ("S.\n\n  Args:\n    a: x", "S.", {"a": "x"}),
        (
            "S.\n\nArgs:\n    a: as HH:MM, such as 10:30\n    u: http://a.b:80/c",
            "S.",
            {"a": "as HH:MM, such as 10:30", "u": "http://a.b:80/c"},
        ),
        (
            'S.\n\nArgs:\n    a (Literal["x", "y"]): x\n    b (dict[str, list[int]], optional): y',
            "S.",
            {"a": "x", "b": "y"},
        ),
        (
            "S.\n\nArgs:\n    a: one of\n        - x: foo\n        - y: bar\n    b: y",
            "S.",
            {"a": "one of - x: foo - y: bar", "b": "y"},
        ),
        ("S.\n\nArgs:\n    a : x\n    `b`: y\n    **c**: z", "S.", {"a": "x", "b": "y", "c": "z"}),
        ("S.\n\nArgs:\n    a:\n    b: y", "S.", {"b": "y"}),
        ("Args:\n    a: x\n    b: y", "", {"a": "x", "b": "y"}),
        ("Args:\n    a: x\n\nReturns:\n    q", "", {"a": "x"}),
        (
            "S.\n\n```python\nArgs:\n    z: no\n```\n\nArgs:\n    a: x",
            "S.\n\n```python\nArgs:\n    z: no\n```",
            {"a": "x"},
        ),
        ("S.\n\nExample::\n\n    Args:\n        z: no", "S.\n\nExample::\n\n    Args:\n        z: no", {}),
        ("S: with a colon.\n\nArgs: are important.", "S: with a colon.\n\nArgs: are important.", {}),
        ("S.\n\nNote:\n    hello\n\nArgs:\n    a: x\n\nExample:\n    >>> f(1)", "S.", {"a": "x"}),
        ("S.\n\n:param a: x\n\nArgs:\n    b: y", "S.", {"b": "y"}),
        ("   ", "", {}),
        (None, "", {}),
    ],
)
def test_what_people_write(doc: str | None, text: str, parameters: dict[str, str]) -> None:
    """Missing blank lines, odd titles, types, lists and code blocks are understood, and nothing raw is left over."""
    read = read_docstring(doc)
    assert (read.text, read.parameters) == (text, parameters)


@pytest.mark.parametrize(
    "doc", ["Returns:\n    The time now.", "Returns\n-------\nstr\n    The time now.", ":returns: The time now."]
)
def test_only_a_result(doc: str) -> None:
    """A docstring that speaks of nothing but the result describes the tool by it."""
    assert read_docstring(doc).returns == "The time now."

    def now() -> str: ...  # pyright: ignore[reportReturnType]

    now.__doc__ = doc
    assert tool(now).description == "The time now."


@settings(max_examples=1000, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            [
                "Args:",
                "Returns:",
                "    a: x",
                "  b",
                ":param a: x",
                ":returns",
                "Parameters",
                "-----",
                "",
                "```",
                "\t*",
                "a : b",
            ]
        )
    ).map("\n".join)
)
def test_any_text(doc: str) -> None:
    """No docstring makes the definition of a tool fail."""
    read = read_docstring(doc)
    assert len(read.text) <= len(doc.expandtabs())


def test_in_a_tool() -> None:
    """A tool's description is the text before the sections, dedented; its parameters carry theirs."""

    def find(city: str, *, limit: int = 10) -> list[str]:
        """Find hotels.

            An indented line.

        Args:
            city: The city, such as
                Berlin.

        Keyword Args:
            limit: At most so many.

        Returns:
            Names.
        """
        return [city] * limit

    built = tool(find)
    assert built.description == "Find hotels.\n\n    An indented line."
    assert built.parameters["properties"]["city"] == {"type": "string", "description": "The city, such as Berlin."}
    assert built.parameters["properties"]["limit"]["description"] == "At most so many."
