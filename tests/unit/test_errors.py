"""The errors: one tree, grouped by who has to act; a text for the developer and another for the model."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import traceback

import pytest

from handrail import errors
from handrail.errors import (
    HandrailError,
    MCPConnectError,
    MCPError,
    PreflightError,
    Problem,
    RunError,
    ToolCallError,
    ToolError,
    ToolInputError,
    ToolNotRegisteredError,
)

KINDS: list[type[HandrailError]] = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HandrailError)
]


def test_the_tree_at_the_top_of_the_module_is_the_tree() -> None:
    """Whoever reads the drawing reads the truth: every error stands in it, below its base."""
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    (?P<lead>[│├└─ ]*)(?P<name>[A-Z]\w*Error)\b", line)
        if found is None:
            continue
        depth = len(found["lead"]) // 4
        above[depth:] = [found["name"]]
        drawn[found["name"]] = above[depth - 1] if depth else "Exception"
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in KINDS}


def test_every_error_is_exported_and_says_what_it_is_about() -> None:
    """Each error can be imported by its name, has a docstring, and a code that stays the same."""
    exported = {name for name in errors.__all__ if name != "Problem"}
    assert exported == {kind.__name__ for kind in KINDS}
    assert errors.__all__ == sorted(errors.__all__)
    for kind in KINDS:
        assert inspect.getdoc(kind), kind
        assert re.fullmatch(r"[a-z_]+", kind.code), kind
        assert "code" in vars(kind), f"{kind.__name__} has no code of its own"


def test_a_code_tells_one_kind_of_error() -> None:
    """Programs match on codes, so no two errors share one, but for a tool's own words and a body that raised."""
    codes: dict[str, list[str]] = {}
    for kind in KINDS:
        codes.setdefault(kind.code, []).append(kind.__name__)
    shared = {code: names for code, names in codes.items() if len(names) > 1}
    assert shared == {"tool_error": ["ToolExecutionError", "ToolError"]}


def test_an_error_carries_its_hint_and_its_context() -> None:
    """The developer reads what to do; programs read the facts of the occasion."""
    error = HandrailError("it broke", hint="mend it", tool="pay", call_id="c1")
    assert str(error) == "it broke (mend it)"
    assert (error.message, error.hint, dict(error.context)) == ("it broke", "mend it", {"tool": "pay", "call_id": "c1"})
    assert str(HandrailError("it broke")) == "it broke"
    assert HandrailError("x").hint is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_model_never_reads_the_developer_s_text(kind: type[HandrailError]) -> None:
    """Paths and passwords in a message do not reach a model, except where the author speaks to it."""
    error = kind("failed at /srv/app with sk-SECRET")
    assert ("SECRET" in error.model_text) is (kind is ToolError)
    assert error.model_text


def test_a_server_s_error_names_the_server_to_the_model() -> None:
    """The model learns which server failed, so that it can do without."""
    assert MCPConnectError("x", server="time").model_text == "the server 'time' failed: mcp connect"
    assert MCPError("x").model_text == "the server failed"


def test_preflight_reports_every_problem() -> None:
    """All problems stand in the message and in ``problems``; one alone is a problem as well."""
    problems = [Problem("a", "first", "do x", where="agent 'one'"), Problem("b", "second")]
    error = PreflightError(problems=problems)
    assert error.problems == tuple(problems)
    assert str(error) == "agent 'one': first (do x); second"
    single = ToolNotRegisteredError("there is no tool 'x'", hint="register it")
    assert single.problems == (Problem("tool_not_registered", "there is no tool 'x'", "register it"),)
    assert str(PreflightError()) == "the run cannot start"


def test_speech_says_whether_to_try_again() -> None:
    """``ToolError`` takes a text and whether another try makes sense; it is no failure of a run."""
    assert ToolError("x").retry is True
    assert ToolError("x", retry=False).retry is False
    assert ToolError("x").model_text == str(ToolError("x")) == "x"
    assert not isinstance(ToolError("x"), RunError)
    assert ToolError(ValueError("odd")).message == "odd"  # pyright: ignore[reportArgumentType]


def test_a_call_s_error_carries_its_result() -> None:
    """With ``raise_on_error`` nothing is lost: the result comes along."""
    result = object()
    error = ToolInputError("x", result=result, tool="pay")
    assert error.result is result
    assert isinstance(error, ToolCallError)
    assert RunError("x").result is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_errors_travel_between_processes(kind: type[HandrailError]) -> None:
    """An error can be pickled and copied with all that it carries."""
    error = kind("it broke") if kind is ToolError else kind("it broke", hint="mend it", tool="pay")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is kind
        assert (str(twin), twin.hint, dict(twin.context)) == (str(error), error.hint, dict(error.context))


def test_raising_an_error_from_itself_ends() -> None:
    """LEA-06: a cause that is the error itself does not hang whoever writes the traceback."""
    error = MCPConnectError("no")
    with pytest.raises(MCPConnectError) as raised:
        raise error from error
    assert traceback.format_exception(raised.value)
