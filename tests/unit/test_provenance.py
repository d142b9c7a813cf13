"""Where values came from: labels, and a ledger to which lines are only added."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from handrail.provenance import INTEGRITIES, SOURCES, Integrity, Label, Ledger, Source, call_key, join

TRUSTED = Label("custom_tool", tool="lookup")
OUTSIDE = Label("mcp_tool", "untrusted", tool="fetch", server="web")


def test_untrusted_is_what_tainted_means() -> None:
    """A value is tainted when it may hold text that somebody outside wrote."""
    assert OUTSIDE.tainted
    assert not any(Label("custom_tool", one).tainted for one in get_args(Integrity) if one != "untrusted")
    assert Label("custom_tool").integrity == "system"


def test_the_words_of_a_label_are_known_at_run_time() -> None:
    """Stored labels are checked against the words that exist."""
    assert get_args(Source) == SOURCES
    assert get_args(Integrity) == INTEGRITIES


def test_a_label_cannot_be_changed() -> None:
    """What was said of a value stays said."""
    with pytest.raises(FrozenInstanceError):
        TRUSTED.integrity = "user"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        ([], "system"), (["user"], "user"), (["user", "system"], "system"), (["system", "internal"], "internal"),
        (["user", "untrusted", "system"], "untrusted"), (["internal", "user"], "internal"),
    ],
)  # fmt: skip
def test_what_is_made_from_several_is_as_trusted_as_the_least(given: list[Integrity], joined: Integrity) -> None:
    """Trust never rises by mixing."""
    assert join(Label("derived", one) for one in given) == joined


def test_the_ledger_keeps_every_line_and_the_newest_label_holds() -> None:
    """A key may be written again; the old line stays."""
    ledger = Ledger()
    ledger.record("a", OUTSIDE)
    ledger.record("a", TRUSTED)
    assert ledger.get("a") == TRUSTED
    assert [entry.label for entry in ledger] == [OUTSIDE, TRUSTED]
    assert len(ledger) == 2
    assert not ledger.tainted("a")


@pytest.mark.parametrize("key", ["missing", "__class__", "constructor", ""])
def test_an_unknown_key_has_no_label(key: str) -> None:
    """What nobody recorded is not tainted, and no name of Python's is a key by itself."""
    assert Ledger().get(key) is None
    assert Ledger().tainted(key) is False


def test_what_is_derived_is_no_more_trusted_than_its_sources() -> None:
    """A derived value names what it was made from, once each, and carries the taint on."""
    ledger = Ledger()
    ledger.record("call:a", TRUSTED)
    ledger.record("call:b", OUTSIDE)
    label = ledger.derive("output", ["call:a", "call:b", "call:a", "unknown"], Label("agent_response"))
    assert label.tainted
    assert label.derived_from == ("call:a", "call:b", "unknown")
    assert ledger.get("output") == label
    assert not ledger.derive("other", ["call:a"], Label("agent_response")).tainted
    assert ledger.derive("third", [], OUTSIDE).tainted


def test_an_answer_can_be_traced_to_the_calls_it_came_from() -> None:
    """``explain`` gives the key itself first, and then everything that it was made from, once, also in a circle."""
    ledger = Ledger()
    ledger.record("call:a", OUTSIDE)
    ledger.derive("notes", ["call:a"], Label("derived"))
    ledger.derive("output", ["notes", "call:a", "gone", "output"], Label("agent_response"))
    assert [entry.key for entry in ledger.explain("output")] == ["output", "notes", "call:a"]
    assert ledger.explain("gone") == []


def test_a_snapshot_is_not_reached_by_later_lines() -> None:
    """A copy of the ledger stays as it was."""
    ledger = Ledger()
    ledger.record("a", TRUSTED)
    copy = ledger.snapshot()
    ledger.record("b", OUTSIDE)
    copy.record("c", OUTSIDE)
    assert [entry.key for entry in copy] == ["a", "c"]
    assert [entry.key for entry in ledger] == ["a", "b"]
    assert copy.get("b") is None


def test_a_ledger_as_data_says_what_there_is_to_say() -> None:
    """The entries are plain JSON in order; fields without a value are left out, and taint is spelled out."""
    ledger = Ledger()
    ledger.record(call_key("c1"), Label("mcp_tool", "untrusted", "fetch", "web", "c1", bytes=0, at=5.0))
    data = ledger.to_json()
    assert json.loads(json.dumps(data)) == data
    assert data == [
        {
            "key": "call:c1", "source": "mcp_tool", "integrity": "untrusted", "tool": "fetch", "server": "web",
            "call_id": "c1", "bytes": 0, "at": 5.0, "tainted": True,
        }
    ]  # fmt: skip
