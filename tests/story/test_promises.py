"""The list of promises and the tests that keep them agree, in both directions."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
MANIFEST = Path(__file__).with_name("promises.toml")
ID = re.compile(r"cycgraph-\d+\.\d+|flue-\d+|agentflow-(\d+|types)")
FIELDS = {"id", "promise", "status", "why"}
STATUSES = {"kept", "decided", "later"}


class Mark(NamedTuple):
    """One id in a ``promise`` mark, and the test that carries it."""

    id: str
    where: str


def promises() -> list[dict[str, str]]:
    """The manifest."""
    return tomllib.loads(MANIFEST.read_text("utf-8"))["promise"]


def marks_of(tree: ast.AST, file: str) -> Iterator[Mark]:
    """The ids of every ``pytest.mark.promise(...)`` in a file."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise"):
            continue
        where = f"{file}:{node.lineno}"
        assert node.args, f"{where}: a promise mark without an id"
        for argument in node.args:
            assert isinstance(argument, ast.Constant), f"{where}: an id is written out, so that it can be found"
            assert isinstance(argument.value, str), f"{where}: an id is text"
            yield Mark(argument.value, where)


def marks() -> list[Mark]:
    """The ids of all tests."""
    files = sorted(TESTS.rglob("*.py"))
    return [
        mark
        for file in files
        for mark in marks_of(ast.parse(file.read_text("utf-8")), file.relative_to(TESTS).as_posix())
    ]


def test_the_manifest_is_well_formed() -> None:
    """Ids are unique and legal, every promise says something, and what is not simply kept says why."""
    listed = promises()
    assert [one for one, count in Counter(entry["id"] for entry in listed).items() if count > 1] == []
    for entry in listed:
        assert set(entry) <= FIELDS, entry
        assert ID.fullmatch(entry["id"]), entry["id"]
        assert entry["promise"].strip().endswith("."), entry["id"]
        assert entry["status"] in STATUSES, entry["id"]
        if entry["status"] != "kept":
            assert entry.get("why", "").strip(), f"{entry['id']} does not say why"


def test_every_promise_has_a_test() -> None:
    """What is kept is shown by a test, and so is what holds where Handrail decided otherwise."""
    shown = {mark.id for mark in marks()}
    assert [one["id"] for one in promises() if one["status"] != "later" and one["id"] not in shown] == []


def test_every_mark_is_a_promise() -> None:
    """No test claims an id that is not on the list, or one that belongs to a part which is not there yet."""
    status = {entry["id"]: entry["status"] for entry in promises()}
    assert [mark for mark in marks() if status.get(mark.id, "missing") not in ("kept", "decided")] == []


def test_marks_are_found_wherever_they_stand() -> None:
    """On functions and classes, for a whole module, in parameter sets, and with several ids."""
    source = """
pytestmark = [pytest.mark.promise("a")]
@pytest.mark.promise("b", "c")
class TestIt:
    @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.promise("d"))])
    async def test_it(self, n): ...
"""
    assert sorted(mark.id for mark in marks_of(ast.parse(source), "x.py")) == ["a", "b", "c", "d"]
