"""Names: legal for every provider, told apart, and with a way back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.naming import MAX_NAME, did_you_mean, is_name, nearest, wire_name

ANY_TEXT = st.text(max_size=90) | st.text("ab_-.", max_size=12)
PARTS = st.lists(ANY_TEXT, min_size=2, max_size=3)


@settings(max_examples=1000, deadline=None)
@given(st.lists(PARTS.map(tuple), min_size=2, max_size=8, unique=True))
def test_wire_names(many: list[tuple[str, ...]]) -> None:
    """Whatever the parts are, the name is legal, at most 64 characters, always the same, and no other parts give it."""
    names = [wire_name(*parts) for parts in many]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert len(set(names)) == len(names)
    assert names == [wire_name(*parts) for parts in many]


@settings(max_examples=1000, deadline=None)
@given(ANY_TEXT, st.lists(ANY_TEXT, max_size=5))
def test_nearest(word: str, known: list[str]) -> None:
    """A near name is one of the known ones, a known name is nearest to itself, and a hint can always be given."""
    near = nearest(word, known)
    assert near is None or near in known
    assert nearest(word, [*known, word]) is not None
    assert isinstance(did_you_mean(word, known), str)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("time", "now"), "time__now"),
        (("mcp", "a-b", "c_d"), "mcp__a-b__c_d"),
        (("only",), "only"),
        (("my__server",), "my__server"),
        (("s", "_hidden_"), "s___hidden_"),
    ],
)
def test_plain_parts_are_kept(parts: tuple[str, ...], name: str) -> None:
    """Parts that are legal as they are can be read in the name."""
    assert wire_name(*parts) == name


def test_parts_that_could_be_split_elsewhere() -> None:
    """The same characters in other parts give another name."""
    splits = [
        ("a__b", "c"),
        ("a", "b__c"),
        ("a", "b", "c"),
        ("a_", "_b__c"),
        ("a", "_b"),
        ("a_", "b"),
        ("a", "", "b"),
    ]
    assert len({wire_name(*parts) for parts in splits}) == len(splits)


def test_names_that_look_cut() -> None:
    """A server cannot call a tool what another's cut name is."""
    cut = wire_name("s", "get.user")
    assert wire_name(*cut.split("__")) != cut


def test_long_names_that_differ_at_the_end() -> None:
    """Cutting never makes two names equal."""
    server = "00000000-1111-4222-8333-444444444444 eu.prod"
    names = {wire_name("mcp", server, f"recalculate_regional_inventory_projection_{i}") for i in range(100)}
    assert len(names) == 100
    assert max(map(len, names)) <= MAX_NAME


@settings(max_examples=1000, deadline=None)
@given(st.sets(ANY_TEXT, min_size=2, max_size=8))
def test_wire_names_of_one_part(many: set[str]) -> None:
    """Names of one part are legal and stay apart as well; a legal one is kept."""
    names = {wire_name(part) for part in many}
    assert len(names) == len(many)
    assert all(is_name(name) for name in names)
    assert {part for part in many if is_name(part)} <= names


@pytest.mark.parametrize("text", ["a", "A-b_9", "x" * 64])
def test_legal_names(text: str) -> None:
    """Letters, digits, underscores and dashes are legal."""
    assert is_name(text)


@pytest.mark.parametrize("text", ["", "a b", "a.b", "é", "x" * 65, "a\n", "\na", "<lambda>", None, 5, b"a"])
def test_illegal_names(text: object) -> None:
    """Anything else is not, and a trailing newline does not slip through."""
    assert not is_name(text)


@pytest.mark.parametrize(
    ("word", "known", "near"),
    [
        ("seatClass", ["seat_class", "day"], "seat_class"),
        ("SEAT-CLASS", ["seat_class"], "seat_class"),
        ("godo", ["good", "bad"], "good"),
        ("zzz", ["good", "bad"], None),
        ("", ["good"], None),
        ("x", [], None),
    ],
)
def test_near_names(word: str, known: list[str], near: str | None) -> None:
    """Other casings and small slips are found; nothing is made up."""
    assert nearest(word, known) == near


def test_hints() -> None:
    """A hint names the nearest, or all there are, or says that there are none."""
    assert did_you_mean("godo", ["good"]) == "did you mean 'good'?"
    assert did_you_mean("zzz", ["b", "a"], what="tools") == "tools: a, b"
    assert did_you_mean("zzz", [], what="tools") == "tools: none"
