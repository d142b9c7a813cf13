"""An agent is data: checked where it is defined, never changed, and the same after a round trip through JSON."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from handrail import Agent, mcp_tools, tool
from handrail.agent import MAX_STEPS
from handrail.errors import AgentDefinitionError, ToolSourceError
from handrail.sources import BuiltinSource, CustomSource, MCPSource
from handrail.testing import ScriptedModel


@tool
def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return order_id


def plain(text: str) -> str:
    """Say it."""
    return text


def test_an_agent_has_sensible_defaults() -> None:
    """A model is all that an agent needs."""
    agent = Agent("local")
    assert (agent.id, agent.name, agent.instructions, agent.description) == ("agent", "agent", "", "")
    assert (agent.max_steps, agent.max_calls, agent.tags, dict(agent.settings)) == (10, None, None, {})
    assert agent.tools == ()


@pytest.mark.promise("cycgraph-1.30")
@pytest.mark.promise("cycgraph-1.34")
def test_tools_are_kept_in_their_normal_form_with_implementations_beside() -> None:
    """Whatever form the list has, the agent holds references; implementations travel beside them, once each."""
    server = mcp_tools("time", only=["now"])
    agent = Agent("local", tools=[lookup_order, plain, "save_to_memory", "other", server, {"mcp": "web"}, lookup_order])
    assert agent.tools == (
        CustomSource("lookup_order"), CustomSource("plain"), BuiltinSource("save_to_memory"), CustomSource("other"),
        MCPSource("time", ("now",)), MCPSource("web"),
    )  # fmt: skip
    assert list(agent.implementations) == ["lookup_order", "plain"]
    assert agent.implementations["lookup_order"] is lookup_order


def test_no_tools_means_none() -> None:
    """An empty list is an empty list, not all tools."""
    assert Agent("local", tools=[]).tools == ()
    assert Agent("local", tools=[mcp_tools("time", only=[])]).tools == (MCPSource("time", ()),)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Order Clerk", "order-clerk"), ("Café", "caf"), ("!!!", "agent"), ("a_b-1", "a_b-1"), ("x" * 80, "x" * 64)],
)
def test_an_id_is_made_from_the_name(name: str, expected: str) -> None:
    """People may call an agent what they like; its id is a legal name."""
    agent = Agent("local", name=name)
    assert (agent.id, agent.name) == (expected, name)
    assert Agent("local", name=name, id="own").id == "own"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": ""}, "model"), ({"model": None}, "model"), ({"model": 5}, "model"), ({"model": ["local"]}, "model"),
        ({"model": True}, "model"), ({"id": "has space"}, "has space"), ({"id": ""}, "id ''"), ({"id": "x" * 65}, "id"),
        ({"id": 5}, "id 5"), ({"name": 5}, "name"), ({"name": " "}, "name"), ({"instructions": None}, "instructions"),
        ({"instructions": ["a"]}, "instructions"), ({"description": 1}, "description"), ({"max_steps": 0}, "1 to 50"),
        ({"max_steps": 51}, "1 to 50"), ({"max_steps": True}, "max_steps"), ({"max_steps": 2.0}, "max_steps"),
        ({"max_steps": "3"}, "max_steps"), ({"max_steps": None}, "max_steps"), ({"max_calls": -1}, "max_calls"),
        ({"max_calls": True}, "max_calls"), ({"tags": "safe"}, "tags"), ({"tags": 5}, "tags"), ({"tags": [1]}, "tags"),
        ({"tags": [""]}, "tags"), ({"settings": "x"}, "settings"), ({"settings": [1]}, "settings"),
        ({"settings": {1: 2}}, "settings"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_work_is_refused_where_it_is_written(fields: dict[str, Any], said: str) -> None:
    """The error names the field; nothing is left to fail in the middle of a run."""
    with pytest.raises(AgentDefinitionError, match=said):
        Agent(fields.pop("model", "local"), **fields)


def test_limits_are_inclusive() -> None:
    """One step, fifty steps and no calls at all are limits that one may set."""
    assert Agent("local", max_steps=1).max_steps == 1
    assert Agent("local", max_steps=MAX_STEPS).max_steps == 50
    assert Agent("local", max_calls=0).max_calls == 0
    assert Agent("local", tags=[]).tags == frozenset()


def test_an_agent_cannot_be_changed() -> None:
    """Neither its fields, nor what it was made from afterwards."""
    settings: dict[str, Any] = {"temperature": 0, "extra": {"a": [1]}}
    tools: list[Any] = ["a"]
    agent = Agent("local", settings=settings, tools=tools)
    settings["extra"]["a"].append(2)
    tools.append("b")
    assert agent.settings == {"temperature": 0, "extra": {"a": [1]}}
    assert agent.tools == (CustomSource("a"),)
    with pytest.raises(FrozenInstanceError):
        agent.model = "other"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        agent.settings["x"] = 1  # pyright: ignore[reportIndexIssue]


@pytest.mark.promise("cycgraph-1.36")
def test_an_agent_survives_json() -> None:
    """Written and read back it is equal; only references are in it, and only fields that say something."""
    agent = Agent(
        "openai:gpt-5", id="clerk", name="Order clerk", instructions="Help.", description="Helps.", max_steps=5,
        max_calls=0, tags={"b", "a"}, settings={"temperature": 0},
        tools=[lookup_order, "save_to_memory", mcp_tools("time", only=[], optional=True)],
    )  # fmt: skip
    data = json.loads(json.dumps(agent.to_json()))
    assert Agent.from_json(data) == agent
    assert data["tools"] == [
        {"type": "custom", "name": "lookup_order"},
        {"type": "builtin", "name": "save_to_memory"},
        {"type": "mcp", "server_id": "time", "tool_names": [], "optional": True},
    ]
    assert Agent("local").to_json() == {"id": "agent", "model": "local", "tools": [], "max_steps": 10}
    data["settings"]["temperature"] = 1
    assert agent.settings == {"temperature": 0}


@pytest.mark.promise("cycgraph-1.37")
def test_reading_an_agent_back_loses_its_implementations_and_says_so_by_name() -> None:
    """What was stored holds names; the implementations are passed to the run."""
    agent = Agent.from_json(Agent("local", tools=[lookup_order]).to_json())
    assert agent.tools == (CustomSource("lookup_order"),)
    assert dict(agent.implementations) == {}


@pytest.mark.promise("cycgraph-1.20")
def test_both_casings_are_read() -> None:
    """The wire form may be snake_case or camelCase, also inside of the tools."""
    tools = [{"type": "mcp", "serverId": "t", "toolNames": ["n"]}]
    agent = Agent.from_json({"model": "local", "maxSteps": 3, "maxCalls": 4, "tools": tools})
    assert (agent.max_steps, agent.max_calls) == (3, 4)
    assert agent.tools == (MCPSource("t", ("n",)),)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"model": "local", "instruction": "x"}, "did you mean 'instructions'"),
        ({"model": "local", "toolNames": []}, "toolNames"),
        ({"model": "local", "max_steps": 1, "maxSteps": 2}, "given twice"),
        ({"instructions": "x"}, "needs a 'model'"),
        ({"model": "local", "max_steps": "1"}, "max_steps"),
        ({"model": "local", "settings": "abc"}, "settings"),
        ({"model": "local", "name": 5}, "name"),
        ({"model": "local", "tools": 5}, "wrong type"),
        ({"model": {"a": 1}}, "model"),
        ([], "JSON object"),
        ("x", "JSON object"),
        (None, "JSON object"),
    ],
)
def test_stored_data_is_checked_when_it_is_read(data: Any, said: str) -> None:
    """A misspelt key is refused with the nearest name, and a wrong value names its field."""
    with pytest.raises(AgentDefinitionError, match=said):
        Agent.from_json(data)


def test_a_stored_agent_has_strict_sources_too() -> None:
    """A misspelt key in a source is not dropped: it could widen to all tools."""
    with pytest.raises(ToolSourceError, match="tool_nmes"):
        Agent.from_json({"model": "local", "tools": [{"type": "mcp", "server_id": "t", "tool_nmes": ["n"]}]})


def test_a_model_object_has_no_json_form() -> None:
    """The error says how to write the agent down all the same."""
    with pytest.raises(AgentDefinitionError, match="name the model"):
        Agent(ScriptedModel()).to_json()


def test_a_model_object_still_has_a_name() -> None:
    """Events and lists can say which model an agent has."""
    assert Agent("local").model_name == "local"
    assert Agent(ScriptedModel(name="script")).model_name == "script"
    assert Agent(object()).model_name == "object"
    assert repr(Agent(ScriptedModel(name="script"), id="a", tools=["x"])) == "Agent('script', id='a', tools=1)"


def test_an_agent_can_be_copied_with_other_fields() -> None:
    """``replace`` keeps the rest; a list of tools replaces the agent's own."""
    agent = Agent("local", id="a", tools=[lookup_order, "other"], max_steps=3, settings={"temperature": 0})
    copy = agent.replace(model="openai:x")
    assert (copy.model, copy.id, copy.tools, copy.max_steps) == ("openai:x", "a", agent.tools, 3)
    assert copy.implementations == agent.implementations
    assert agent.replace(tools=[]).tools == ()
    assert agent.replace() == agent
    with pytest.raises(AgentDefinitionError, match="did you mean 'instructions'"):
        agent.replace(instruction="x")
    with pytest.raises(AgentDefinitionError, match="max_steps"):
        agent.replace(max_steps=0)


def test_equal_agents_are_equal_and_can_be_keys() -> None:
    """Agents compare by their data."""
    one, two = (Agent("local", tools=[lookup_order], settings={"a": 1}, tags={"t"}) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != one.replace(settings={"a": 2})
    assert len({one, two, one.replace(id="b")}) == 2


@pytest.mark.promise("cycgraph-1.35")
@pytest.mark.promise("flue-31")
def test_one_name_for_two_tools_is_refused_at_once() -> None:
    """The same tool twice is fine; two tools of one name are an error that names it."""
    other = tool(plain, name="lookup_order")
    with pytest.raises(ToolSourceError, match="'lookup_order'"):
        Agent("local", tools=[lookup_order, other])
    assert len(Agent("local", tools=[lookup_order, lookup_order, "lookup_order"]).tools) == 1


@pytest.mark.parametrize("tools", ["lookup_order", {"mcp": "x"}, lookup_order, plain])
def test_one_tool_is_not_a_list(tools: Any) -> None:
    """A string is not taken for a list of letters; the error shows the brackets."""
    with pytest.raises(ToolSourceError, match=r"tools=\["):
        Agent("local", tools=tools)
