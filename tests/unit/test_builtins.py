"""The built-in tools: saving to memory writes what may be written, and says so when it did not."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import Agent, Toolset, run
from handrail.builtins import MAX_VALUE_BYTES, memory_tools
from handrail.testing import ScriptedModel
from support.gate import Gate


def _gate(memory: dict[str, Any], writes: frozenset[str] | None = None) -> Gate:
    gate = Gate()
    gate.toolset = Toolset(memory_tools(memory, writes=writes))
    return gate


@pytest.mark.promise("cycgraph-3.1")
async def test_a_value_is_saved_and_the_answer_says_so() -> None:
    """What the model saves is in memory, and only then is it told that it was saved."""
    memory: dict[str, Any] = {}
    gate = _gate(memory)
    result = await gate.one("save_to_memory", {"key": "notes", "value": {"a": [1, None, "x"]}})
    assert result.value == {"key": "notes", "saved": True}
    assert memory == {"notes": {"a": [1, None, "x"]}}
    assert (result.label.source, result.label.tainted) == ("builtin", False)


@pytest.mark.parametrize("value", [None, 0, "", False, [], {}, "0", 1.5, 10**30])
async def test_every_value_is_kept_as_it_is(value: Any) -> None:
    """Falsy is not absent, and nothing is converted."""
    memory: dict[str, Any] = {}
    await _gate(memory).one("save_to_memory", {"key": "k", "value": value})
    assert memory == {"k": value}
    assert type(memory["k"]) is type(value)


@pytest.mark.parametrize(
    ("key", "said"), [("", "empty"), ("  ", "empty"), ("_private", "reserved"), ("__class__", "reserved")]
)
async def test_a_key_that_must_not_be_written_is_refused(key: str, said: str) -> None:
    """The model reads that nothing was saved, and why."""
    memory: dict[str, Any] = {}
    result = await _gate(memory).one("save_to_memory", {"key": key, "value": 1})
    assert (result.code, memory) == ("tool_error", {})
    assert "not saved" in result.wire
    assert said in result.wire


async def test_only_granted_keys_can_be_written() -> None:
    """W36: a key outside of the grant is refused with the keys that are in it; an empty grant is none."""
    memory: dict[str, Any] = {}
    gate = _gate(memory, frozenset({"draft", "notes"}))
    refused = await gate.one("save_to_memory", {"key": "other", "value": 1})
    assert "allowed: draft, notes" in refused.wire
    assert (await gate.one("save_to_memory", {"key": "draft", "value": 1})).code is None
    assert "allowed: none" in (await _gate(memory, frozenset()).one("save_to_memory", {"key": "a", "value": 1})).wire
    assert memory == {"draft": 1}


async def test_a_value_that_is_too_large_is_refused() -> None:
    """Memory has a bound for each value; it is told in bytes."""
    memory: dict[str, Any] = {}
    gate = _gate(memory)
    saved = await gate.one("save_to_memory", {"key": "k", "value": "x" * (MAX_VALUE_BYTES // 2)})
    assert saved.code is None
    direct = memory_tools(memory)["save_to_memory"]
    with pytest.raises(Exception, match=str(MAX_VALUE_BYTES)):
        await direct("big", "x" * MAX_VALUE_BYTES)
    with pytest.raises(Exception, match="no JSON form"):
        await direct("odd", {"a": float("nan")})
    assert set(memory) == {"k"}


@pytest.mark.parametrize("arguments", [{}, {"key": "k"}, {"key": 5, "value": 1}, {"key": "k", "value": 1, "x": 1}])
async def test_wrong_arguments_write_nothing(arguments: dict[str, Any]) -> None:
    """Both arguments are needed, and nothing else is taken."""
    memory: dict[str, Any] = {}
    assert (await _gate(memory).one("save_to_memory", arguments)).code == "invalid_arguments"
    assert memory == {}


async def test_of_two_writes_in_one_turn_the_later_one_stays() -> None:
    """Calls of one turn write in the order in which they were asked for."""
    memory: dict[str, Any] = {}
    await _gate(memory).all(*(("save_to_memory", {"key": "k", "value": number}) for number in range(50)))
    assert memory == {"k": 49}


async def test_memory_of_a_run_is_its_own_and_comes_back_in_the_result() -> None:
    """The mapping that was passed is not changed; the result has the memory as it was in the end."""
    given: dict[str, Any] = {"old": {"a": 1}}
    model = ScriptedModel([[("save_to_memory", {"key": "new", "value": [1]})], "Saved."])
    result = await run(Agent(model, tools=["save_to_memory"]), "Save it", memory=given)
    assert dict(result.memory) == {"old": {"a": 1}, "new": [1]}
    assert given == {"old": {"a": 1}}
