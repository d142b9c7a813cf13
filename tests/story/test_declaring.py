"""Declaring tools: what an author writes, what it becomes, and what is refused where it is written."""

from __future__ import annotations

import dataclasses
import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from handrail import Agent, Tool, ToolContext, Toolset, define_tool, mcp_tools, run, tool
from handrail.errors import AgentDefinitionError, DefinitionError, PreflightError, ToolDefinitionError, ToolSourceError
from handrail.sources import BuiltinSource, CustomSource, MCPSource, normalise, source_from_json, source_to_json
from handrail.testing import ScriptedModel

BUILTINS = ["save_to_memory", "architect_draft_workflow", "architect_publish_workflow", "architect_get_workflow"]


@tool
def lookup_order(order_id: str) -> str:
    """Look up one order."""
    return f"{order_id} is packed"


def plain(n: int) -> int:
    """Count further."""
    return n + 1


def form(entry: Any) -> dict[str, Any]:
    """What an entry of a list becomes, as data."""
    return source_to_json(normalise(entry)[0])


# The three structured forms


@pytest.mark.promise("cycgraph-1.1")
def test_three_shapes_told_apart_by_type() -> None:
    """I write one of three structured shapes, and a type that does not exist is refused with the three that do."""
    assert source_from_json({"type": "builtin", "name": "save_to_memory"}) == BuiltinSource("save_to_memory")
    assert source_from_json({"type": "custom", "name": "lookup_order"}) == CustomSource("lookup_order")
    assert source_from_json({"type": "mcp", "server_id": "web"}) == MCPSource("web")
    for type_ in ("resolver", "MCP", "", None, 1):
        with pytest.raises(ToolSourceError, match="builtin, custom or mcp"):
            source_from_json({"type": type_, "name": "x"})


@pytest.mark.promise("cycgraph-1.2")
def test_four_names_are_built_in() -> None:
    """I can name four built-ins; any other is refused with the nearest one, and a missing name says so."""
    for name in BUILTINS:
        assert source_from_json({"type": "builtin", "name": name}) == BuiltinSource(name)
    with pytest.raises(ToolSourceError, match="did you mean 'save_to_memory'"):
        source_from_json({"type": "builtin", "name": "save_memory"})
    with pytest.raises(ToolSourceError, match="'name'"):
        source_from_json({"type": "builtin"})


@pytest.mark.promise("cycgraph-1.3")
def test_the_charset_of_a_custom_name() -> None:
    """I name a tool with letters, digits, hyphens and underscores, in either case, and the whole name counts."""
    for name in ("a", "A-b_9", "UPPER", "x" * 64):
        assert CustomSource(name).name == name
    for name in ("", "has space", "dot.ted", "a\n", "é", "x" * 65):
        with pytest.raises(ToolSourceError, match="legal name"):
            CustomSource(name)


@pytest.mark.promise("cycgraph-1.4")
@pytest.mark.parametrize("bad", ["has space", "has.dot", "has/slash", "has@at", ""])
def test_the_charset_of_a_server_id(bad: str) -> None:
    """I name a server by an id of the same letters; anything else is refused and shown."""
    for good in ("my-server", "my_server", "MyServer123", "a-b_c-d"):
        assert mcp_tools(good).server_id == good
    with pytest.raises(ToolSourceError, match="server_id") as caught:
        mcp_tools(bad)
    assert repr(bad) in str(caught.value)


@pytest.mark.promise("cycgraph-1.5")
def test_a_server_source_may_list_tools_in_any_spelling() -> None:
    """I list the server's own names as they are, dots and spaces too; without a list I mean all of them."""
    assert mcp_tools("web", only=["files.read", "do it"]).tool_names == ("files.read", "do it")
    assert mcp_tools("web").tool_names is None
    for bad in ([""], [1], "search"):
        with pytest.raises(ToolSourceError):
            mcp_tools("web", only=bad)  # pyright: ignore[reportArgumentType]


@pytest.mark.promise("cycgraph-1.6")
@pytest.mark.parametrize("key", ["url", "headers", "command", "args", "env", "transport"])
def test_a_source_never_says_how_a_server_is_reached(key: str) -> None:
    """I cannot put an address, a command or a secret into an agent, in any form of a source."""
    for data in ({"type": "mcp", "server_id": "web"}, {"mcp": "web"}):
        with pytest.raises(ToolSourceError, match=f"unknown key '{key}'"):
            Agent("local", tools=[{**data, key: "x"}])


# The short forms


@pytest.mark.promise("cycgraph-1.7")
@pytest.mark.parametrize("name", BUILTINS)
def test_a_built_ins_name_stands_for_it(name: str) -> None:
    """I write a built-in's name as a plain string."""
    assert form(name) == {"type": "builtin", "name": name}


@pytest.mark.promise("cycgraph-1.8")
def test_any_other_string_is_a_custom_tool() -> None:
    """I write any other name, and it is never taken for a tool of a server."""
    for name in ("lookup_order", "web__search", "mcp__web__search", "Save_To_Memory"):
        assert form(name) == {"type": "custom", "name": name}


@pytest.mark.promise("cycgraph-1.9", "cycgraph-1.10")
@pytest.mark.parametrize("name", ["", "bad name!", "a.b"])
def test_a_string_that_is_no_name_is_refused(name: str) -> None:
    """I misspell a name, and am told at once which characters a name has."""
    with pytest.raises(ToolSourceError, match="letters, digits") as caught:
        Agent("local", tools=[name])
    assert repr(name) in str(caught.value)


@pytest.mark.promise("cycgraph-1.11")
def test_a_tool_value_becomes_a_reference() -> None:
    """I list the tool itself; what is kept as data is its name, and the implementation stands beside it."""
    agent = Agent("local", tools=[lookup_order])
    assert agent.tools == (CustomSource("lookup_order"),)
    assert agent.implementations["lookup_order"] is lookup_order
    assert json.dumps(agent.to_json()["tools"]) == '[{"type": "custom", "name": "lookup_order"}]'


@dataclasses.dataclass
class LookAlike:
    """Something in the shape of a tool."""

    name: str = "look_alike"
    description: str = "Looks like a tool."

    def execute(self) -> str:
        """Do something."""
        return "done"


@pytest.mark.promise("cycgraph-1.12", "cycgraph-2.31")
async def test_looking_like_a_tool_is_not_being_one() -> None:
    """An object of the right shape does not slip past the checks, neither on an agent nor on a run."""
    look_alike: Any = LookAlike()
    with pytest.raises(ToolSourceError, match="not a tool source"):
        Agent("local", tools=[look_alike])
    with pytest.raises(DefinitionError, match="neither a tool nor a resolver"):
        await run(Agent(ScriptedModel()), "Hi", tools=[look_alike])


@pytest.mark.promise("cycgraph-1.13")
def test_the_short_form_of_a_whole_server() -> None:
    """I write the server's id only, and the normal form has no list at all."""
    assert form({"mcp": "web"}) == {"type": "mcp", "server_id": "web"}


@pytest.mark.promise("cycgraph-1.14", "cycgraph-1.15")
@pytest.mark.parametrize("key", ["tools", "tool_names", "toolNames"])
def test_the_short_form_with_a_list(key: str) -> None:
    """I list some of the server's tools under whichever key I am used to."""
    assert form({"mcp": "web", key: ["search"]}) == {"type": "mcp", "server_id": "web", "tool_names": ["search"]}


@pytest.mark.promise("cycgraph-1.16")
def test_two_lists_in_one_source_are_refused() -> None:
    """I give two lists by mistake, and neither of them wins silently."""
    with pytest.raises(ToolSourceError, match="both 'tools' and 'tool_names'"):
        normalise({"mcp": "web", "tools": ["search"], "tool_names": ["search", "delete"]})


@pytest.mark.promise("cycgraph-1.17")
def test_an_empty_list_means_none() -> None:
    """I list none of the server's tools, and that is what I get: it does not turn into all of them."""
    entries: list[dict[str, Any]] = [
        {"mcp": "web", "tools": []},
        {"type": "mcp", "serverId": "web", "toolNames": []},
    ]
    for entry in entries:
        assert form(entry) == {"type": "mcp", "server_id": "web", "tool_names": []}
    assert form(mcp_tools("web", only=[])) == {"type": "mcp", "server_id": "web", "tool_names": []}


@pytest.mark.promise("cycgraph-1.18")
@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"mcp": ""}, "server_id ''"),
        ({"mcp": "has space"}, "server_id 'has space'"),
        ({"mcp": "web", "tools": "search"}, "must be a list, not str"),
        ({"mcp": 5}, "must be a string, not 5"),
    ],
)
def test_a_malformed_short_form_says_what_is_wrong(entry: dict[str, Any], said: str) -> None:
    """I get the short form wrong, and the error speaks of the field that is wrong."""
    with pytest.raises(ToolSourceError, match=said):
        normalise(entry)


@pytest.mark.promise("cycgraph-1.19")
def test_a_normal_form_passes_through() -> None:
    """I give the normal form, as a value or as data, and get it back."""
    for source in (BuiltinSource("save_to_memory"), CustomSource("x"), MCPSource("web", ("a",), True)):
        assert normalise(source) == (source, None)
        assert normalise(source_to_json(source)) == (source, None)


@pytest.mark.promise("cycgraph-1.20", "cycgraph-1.21")
def test_both_casings_are_read_everywhere() -> None:
    """I write camelCase as in the wire form: on a list, in stored data, and where one source is parsed alone."""
    entry = {"type": "mcp", "serverId": "web", "toolNames": ["search"]}
    expected = MCPSource("web", ("search",))
    assert source_from_json(entry) == expected
    assert Agent("local", tools=[entry]).tools == (expected,)
    assert Agent("local").replace(tools=[entry]).tools == (expected,)
    assert Agent.from_json({"model": "local", "tools": [entry]}).tools == (expected,)
    with pytest.raises(ToolSourceError, match="given twice"):
        source_from_json({**entry, "server_id": "other"})


@pytest.mark.promise("cycgraph-1.22")
def test_reading_camel_case_leaves_values_alone() -> None:
    """My settings keep their keys as I wrote them, and reading what was written changes nothing."""
    settings = {"extraBody": {"topK": 1, "top_k": 2}}
    agent = Agent.from_json({"model": "openai:gpt-5", "maxSteps": 3, "settings": settings})
    assert (agent.max_steps, agent.settings) == (3, settings)
    assert Agent.from_json(agent.to_json()) == agent


@pytest.mark.promise("cycgraph-1.23")
@pytest.mark.parametrize("entry", [None, 5, [], {}, {"name": "t"}, object()])
def test_what_is_no_source_is_refused_with_the_forms(entry: Any) -> None:
    """I list something that means nothing, and the error shows the forms that I could have written."""
    with pytest.raises(ToolSourceError, match=r"\{'mcp': 'id', 'tools'|\{\"mcp\": \"id\", \"tools\""):
        Agent("local", tools=[entry])


@pytest.mark.promise("cycgraph-1.24")
@pytest.mark.parametrize(
    ("entry", "near"),
    [
        ({"type": "mcp", "server_id": "web", "toolName": ["search"]}, "tool_names"),
        ({"type": "mcp", "server_id": "web", "tools": ["search"]}, "tool_names"),
        ({"mcp": "web", "tool": ["search"]}, "tools"),
        ({"type": "custom", "name": "x", "nam": "y"}, "name"),
    ],
)
def test_an_unknown_key_never_widens_a_source(entry: dict[str, Any], near: str) -> None:
    """I misspell the list of tools; I am told the right key instead of being granted everything."""
    with pytest.raises(ToolSourceError, match=f"unknown key .*did you mean '{near}'"):
        normalise(entry)


@pytest.mark.promise("cycgraph-1.25")
def test_a_mixed_form_is_refused() -> None:
    """I name two servers in one source, and nobody guesses which one I meant."""
    with pytest.raises(ToolSourceError, match="both 'type' and 'mcp'"):
        normalise({"type": "mcp", "mcp": "y", "server_id": "x"})


@pytest.mark.promise("cycgraph-1.26")
async def test_a_custom_source_cannot_borrow_a_built_ins_name() -> None:
    """I call a built-in a custom tool; the run does not start, although the built-in would be there."""
    model = ScriptedModel()
    agent = Agent(model, tools=[{"type": "custom", "name": "save_to_memory"}])
    with pytest.raises(PreflightError, match="'save_to_memory' has no implementation"):
        await run(agent, "Hi", memory={})
    assert model.requests == []


@pytest.mark.promise("cycgraph-1.27")
def test_a_mapping_is_data_only() -> None:
    """I put a function into a mapping, and it is not taken for an implementation."""
    with pytest.raises(ToolSourceError):
        normalise({"type": "builtin", "name": "x", "execute": plain})
    with pytest.raises(ToolSourceError, match="unknown key 'execute'"):
        normalise({"type": "custom", "name": "x", "execute": plain})


@pytest.mark.promise("cycgraph-1.28")
def test_repetitions_count_once() -> None:
    """I list one tool in three forms and one server twice, and each of them is there once."""
    agent = Agent("local", tools=[lookup_order, "lookup_order", CustomSource("lookup_order"), {"mcp": "web"},
                                  mcp_tools("web")])  # fmt: skip
    assert agent.tools == (CustomSource("lookup_order"), MCPSource("web"))


# Agents as data


@pytest.mark.promise("cycgraph-1.30", "cycgraph-1.32")
def test_every_way_to_an_agent_normalises_its_tools() -> None:
    """Whether I make an agent, change it or read it from data: its tools are checked and in their normal form."""
    forms = ["save_to_memory", {"mcp": "web"}]
    expected = (BuiltinSource("save_to_memory"), MCPSource("web"))
    assert Agent("local", tools=forms).tools == expected
    assert Agent("local").replace(tools=forms).tools == expected
    assert Agent.from_json({"model": "local", "tools": forms}).tools == expected
    assert Agent.from_json({"model": "local"}).tools == ()
    with pytest.raises(ToolSourceError):
        Agent.from_json({"model": "local", "tools": [{"type": "mcp", "server_id": "web", "toolz": []}]})


@pytest.mark.promise("cycgraph-1.34", "cycgraph-1.36", "cycgraph-1.37")
async def test_a_stored_agent_gets_its_implementations_at_the_run() -> None:
    """I store an agent as JSON, read it in another process, and pass the implementations by name."""
    agent = Agent("local", id="clerk", tools=[lookup_order, plain, lookup_order])
    assert list(agent.implementations) == ["lookup_order", "plain"]
    text = json.dumps(agent.to_json())
    stored = Agent.from_json(json.loads(text))
    assert stored == agent
    assert dict(stored.implementations) == {}

    script = ScriptedModel([[("lookup_order", {"order_id": "o1"})], "Packed."])
    with pytest.raises(PreflightError):
        await run(stored, "Where is o1?", model=script)
    result = await run(stored, "Where is o1?", model=script, tools=[lookup_order, plain])
    assert result.calls[0].value == "o1 is packed"


@pytest.mark.promise("cycgraph-1.35", "cycgraph-6.12", "flue-34", "agentflow-4")
def test_one_name_for_two_tools_is_an_error_where_they_are_listed() -> None:
    """I give two different tools one name: an error of one family, on an agent and in a toolset alike."""
    other = tool(plain, name="lookup_order")
    for listing in (lambda: Agent("local", tools=[lookup_order, other]), lambda: Toolset.of(lookup_order, other)):
        with pytest.raises(DefinitionError, match="'lookup_order'"):
            listing()


@pytest.mark.promise("cycgraph-1.38")
def test_an_agent_that_exists_is_well_formed() -> None:
    """I see my mistake where I wrote it, and not when the agent runs."""
    with pytest.raises(ToolSourceError):
        Agent("local", tools=[{"mcp": "has space"}])
    with pytest.raises(ToolDefinitionError):
        Agent("local", tools=[lambda: 1])
    with pytest.raises(AgentDefinitionError, match="did you mean 'tools'"):
        Agent("local").replace(tool=[])


# Names and descriptions


@pytest.mark.promise("cycgraph-2.1", "cycgraph-2.2", "flue-4", "flue-7", "agentflow-7")
@pytest.mark.parametrize("name", ["", " ", "bad name!", "é", "x.y", "x" * 65, "line\n"])
def test_an_illegal_name_is_refused_where_the_tool_is_defined(name: str) -> None:
    """I pick a name that a provider would refuse, and read it in the error, with the line where I wrote it."""
    with pytest.raises(ToolDefinitionError) as caught:
        tool(plain, name=name)
    assert repr(name) in str(caught.value)
    assert "test_declaring.py:" in str(caught.value)


@pytest.mark.promise("agentflow-7")
def test_a_nameless_function_is_given_a_name() -> None:
    """A lambda has no name of its own: I am told to give it one, and then it works."""
    with pytest.raises(ToolDefinitionError, match=r"name=\.\.\."):
        Toolset.of(lambda: 1)
    assert tool(lambda: 1, name="one", description="Give one.").name == "one"


@pytest.mark.promise("cycgraph-2.3")
@pytest.mark.parametrize("name", BUILTINS)
def test_a_built_ins_name_is_taken(name: str) -> None:
    """I cannot replace a built-in by a tool of the same name, not even by renaming one."""
    with pytest.raises(ToolDefinitionError, match="built-in"):
        tool(plain, name=name)
    with pytest.raises(ToolDefinitionError, match="built-in"):
        lookup_order.rename(name)


@pytest.mark.promise("cycgraph-2.4", "flue-4")
def test_a_tool_says_when_to_call_it() -> None:
    """I forget the description, or leave it blank, and the tool is refused at once."""

    def silent(n: int) -> int:
        return n

    for options in ({}, {"description": ""}, {"description": "  \n"}):
        with pytest.raises(ToolDefinitionError, match="no description"):
            tool(silent, **options)
    assert tool(silent, description="Count.").description == "Count."


@pytest.mark.promise("cycgraph-2.6")
def test_two_names_of_one_function() -> None:
    """I may write the long name or the short one."""
    assert define_tool is tool


@pytest.mark.promise("cycgraph-2.7", "flue-1")
def test_what_a_tool_shows() -> None:
    """I can read from a tool what the model will see of it, and what it gives back."""

    class Found(BaseModel):
        status: str | None

    @tool
    def lookup(order_id: Annotated[str, "In the form order_1234"]) -> Found:
        """Look up the status of one order."""
        return Found(status=f"{order_id} packed")

    assert (lookup.name, lookup.description, lookup.taints) == ("lookup", "Look up the status of one order.", False)
    assert lookup.parameters == {
        "type": "object",
        "properties": {"order_id": {"type": "string", "description": "In the form order_1234"}},
        "required": ["order_id"],
        "additionalProperties": False,
    }
    assert lookup.output_schema is not None
    assert list(lookup.output_schema["properties"]) == ["status"]
    assert lookup("o1") == Found(status="o1 packed")


# Schemas


@pytest.mark.promise("cycgraph-2.8", "agentflow-11", "agentflow-15")
def test_defaults_make_parameters_optional() -> None:
    """What has a default need not be sent; the schema shows the default, falsy ones and null too."""

    @tool
    def search(query: str, limit: int = 0, exact: bool = False, site: str | None = None, prefix: str = "") -> str:
        """Search."""
        return query

    assert search.parameters["required"] == ["query"]
    shown = search.parameters["properties"]
    assert [shown[key]["default"] for key in ("limit", "exact", "site", "prefix")] == [0, False, None, ""]


@pytest.mark.promise("agentflow-11")
async def test_the_object_is_closed_unless_any_keyword_is_taken() -> None:
    """A schema says that nothing else is taken; where my function takes any keyword, it says of which type."""

    @tool
    def tagged(name: str, **labels: int) -> dict[str, int]:
        """Tag something."""
        return labels

    @tool
    def nothing() -> None:
        """Do nothing."""

    assert tagged.parameters["additionalProperties"] == {"type": "integer"}
    assert nothing.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.promise("cycgraph-2.9", "agentflow-17")
@pytest.mark.parametrize("annotation", [type, object(), "Nowhere", Iterator[int], list[range]])
def test_a_type_without_a_json_form_is_a_definition_error(annotation: Any) -> None:
    """I use a type that no model can send: the tool is refused where it is defined, naming the parameter."""

    def bad(value: Any) -> str:
        """Take something."""
        return ""

    bad.__annotations__["value"] = annotation
    with pytest.raises(ToolDefinitionError, match=r"value|Nowhere"):
        tool(bad)


@pytest.mark.promise("cycgraph-2.9", "cycgraph-2.15")
@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan"), float("inf"), "30", None, True])
def test_an_impossible_time_limit_is_a_definition_error(timeout: Any) -> None:
    """I give a time limit that makes no sense, and am told that 0 means none."""
    with pytest.raises(ToolDefinitionError, match="timeout must be a number of seconds"):
        tool(plain, timeout=timeout)


@pytest.mark.promise("cycgraph-2.10", "flue-2")
@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "array"}, str, int, list[str]])
def test_an_input_that_is_no_object_is_refused(schema: Any) -> None:
    """I give a schema of something else than an object, and no call has to fail for it."""

    def take(value: Any) -> str:
        """Take something."""
        return ""

    with pytest.raises(ToolDefinitionError, match="'take'"):
        tool(take, input=schema)


@pytest.mark.promise("flue-3", "agentflow-18")
async def test_a_schema_written_by_hand() -> None:
    """I bring a JSON Schema of my own: it is shown as it is, and calls are checked against it."""
    schema = {
        "type": "object",
        "properties": {"order_id": {"type": "string", "pattern": "^order_[0-9]+$"}},
        "required": ["order_id"],
        "additionalProperties": False,
    }

    def lookup(data: dict[str, Any]) -> str:
        """Look up one order."""
        return f"found {data['order_id']}"

    tools = Toolset.of(tool(lookup, input=schema, tags={"safe"}, effects={"read"}))
    assert tools.schemas() == [{"name": "lookup", "description": "Look up one order.", "parameters": schema}]
    assert (await tools.call("lookup", {"order_id": "order_1"})).value == "found order_1"
    assert (await tools.call("lookup", {"order_id": "1"})).code == "invalid_arguments"


@pytest.mark.promise("flue-5")
def test_a_tool_cannot_be_changed() -> None:
    """Nobody can change my tool after I defined it, nor its schema through what it hands out."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        lookup_order.name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    lookup_order.parameters["properties"].clear()
    lookup_order.schema()["parameters"]["required"].append("x")
    assert list(lookup_order.parameters["properties"]) == lookup_order.parameters["required"] == ["order_id"]


@pytest.mark.promise("flue-6")
@pytest.mark.parametrize(
    ("option", "near"), [("timeOut", "timeout"), ("taint", "taints"), ("descripton", "description")]
)
def test_an_unknown_option_is_refused(option: str, near: str) -> None:
    """I misspell an option; it does not vanish, and I am told the right name."""
    with pytest.raises(ToolDefinitionError, match=f"'{option}'.*did you mean '{near}'"):
        tool(plain, **{option: 1})
    with pytest.raises(ToolDefinitionError, match="'execute'"):
        tool(plain, execute=None)


@pytest.mark.promise("flue-8")
def test_an_inline_function_passes_the_same_checks() -> None:
    """I list a plain function, and it is checked as if I had decorated it."""

    def undescribed(n: int) -> int:
        return n

    for listing in (lambda: Agent("local", tools=[undescribed]), lambda: Toolset.of(undescribed)):
        with pytest.raises(ToolDefinitionError, match="'undescribed'"):
            listing()


@pytest.mark.promise("flue-9")
def test_a_module_of_tools_is_light() -> None:
    """My module of tools can be imported anywhere: it does not load the model layer or the protocol."""
    program = (
        "import sys\n"
        "from handrail import tool\n"
        "@tool\n"
        "def f(n: int) -> int:\n"
        "    'Count.'\n"
        "    return n\n"
        "print(sorted({'pydantic_ai', 'mcp', 'sqlalchemy', 'httpx2', 'click'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.promise("agentflow-9", "agentflow-10")
def test_the_schemas_that_the_model_will_see() -> None:
    """I print what the model will be shown, flat and ready for any provider."""
    assert Toolset.of(plain).schemas() == [
        {
            "name": "plain",
            "description": "Count further.",
            "parameters": {
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
                "additionalProperties": False,
            },
        }
    ]


@pytest.mark.promise("agentflow-types")
def test_the_table_of_types() -> None:
    """The types of the page's table have the schemas of the table; null is written as JSON Schema writes it."""

    @tool
    def typed(
        a: str, b: int, c: float, d: bool, e: list[Any], f: list[int], g: dict[str, Any], h: dict[str, int],
        i: str | None,
    ) -> None:  # fmt: skip
        """Take one of each."""

    shown = typed.parameters["properties"]
    assert [shown[key]["type"] for key in "abcdefgh"] == [
        "string", "integer", "number", "boolean", "array", "array", "object", "object",
    ]  # fmt: skip
    assert shown["f"]["items"] == {"type": "integer"}
    assert shown["h"]["additionalProperties"] == {"type": "integer"}
    assert shown["i"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}


@pytest.mark.promise("agentflow-12")
def test_a_parameter_says_its_type() -> None:
    """I leave an annotation out; nobody guesses that I meant text."""

    def loose(a: int, b=3) -> int:  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        """Add."""
        return a + b  # pyright: ignore[reportUnknownVariableType]

    with pytest.raises(ToolDefinitionError, match="'b' has no annotation"):
        tool(loose)  # pyright: ignore[reportUnknownArgumentType]


GOOGLE = """Search the web.

Args:
    query: What to look for.

Returns:
    Pages.
"""
NUMPY = """Search the web.

Parameters
----------
query : str
    What to look for.

Returns
-------
str
    Pages.
"""
SPHINX = """Search the web.

:param query: What to look for.
:returns: Pages.
"""


@pytest.mark.promise("agentflow-13")
@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_docstring_describes(docstring: str) -> None:
    """I write a docstring in my usual style, and each parameter gets its own text."""

    def search(query: str) -> str:
        return query

    search.__doc__ = docstring
    made = tool(search)
    assert made.description == "Search the web."
    assert made.parameters["properties"]["query"]["description"] == "What to look for."


@pytest.mark.promise("agentflow-14")
async def test_annotations_carry_text_and_bounds() -> None:
    """I annotate a bound and a text; the model sees both, and the bound holds."""

    @tool
    def search(
        limit: Annotated[int, Field(ge=1, le=20, description="How many pages")], site: Annotated[str, "Where"]
    ) -> int:
        """Search."""
        return limit

    assert search.parameters["properties"] == {
        "limit": {"type": "integer", "minimum": 1, "maximum": 20, "description": "How many pages"},
        "site": {"type": "string", "description": "Where"},
    }
    tools = Toolset.of(search)
    assert (await tools.call("search", {"limit": 20, "site": "x"})).value == 20
    assert (await tools.call("search", {"limit": 21, "site": "x"})).code == "invalid_arguments"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(BaseModel):
    width: int = 1


@pytest.mark.promise("agentflow-16")
async def test_defaults_of_any_type() -> None:
    """I use an enum, a date and a model as defaults: the schema stays plain JSON, and the body gets my values."""

    @tool
    def paint(colour: Colour = Colour.RED, on: date = date(2026, 1, 2), size: Size = Size(width=3)) -> str:  # noqa: B008
        """Paint."""
        return f"{colour.name} {on:%d.%m.} {size.width}"

    shown = json.loads(json.dumps(paint.parameters))["properties"]
    assert (shown["colour"]["default"], shown["on"]["default"]) == ("red", "2026-01-02")
    assert (await Toolset.of(paint).call("paint")).value == "RED 02.01. 3"
    assert (await Toolset.of(paint).call("paint", {"colour": "blue"})).value == "BLUE 02.01. 3"


# What a callable may be


class Desk:
    """Something with methods."""

    greeting = "Hello"

    def greet(self, name: str) -> str:
        """Greet somebody."""
        return f"{self.greeting} {name}"

    @classmethod
    def shout(cls, name: str) -> str:
        """Greet somebody loudly."""
        return f"{cls.greeting.upper()} {name}"

    @staticmethod
    def whisper(name: str) -> str:
        """Greet somebody quietly."""
        return f"psst {name}"

    def __call__(self, name: str) -> str:
        """Greet somebody as a desk."""
        return f"desk {name}"


@pytest.mark.promise("agentflow-5")
async def test_callables_of_every_kind() -> None:
    """I list methods, partials and callable objects, and call them by their names."""
    desk = Desk()
    twice = tool(functools.partial(desk.greet, "Ada"), name="greet_ada")
    tools = Toolset.of(desk.greet, Desk.shout, Desk.whisper, desk, twice)
    said = [(await tools.call(one, {"name": "Bob"})).value for one in ("greet", "shout", "whisper", "Desk")]
    assert said == ["Hello Bob", "HELLO Bob", "psst Bob", "desk Bob"]
    assert (await tools.call("greet_ada")).value == "Hello Ada"
    with pytest.raises(ToolDefinitionError, match="class"):
        Toolset.of(Desk)


# Parameters that the library fills in


@pytest.mark.promise("agentflow-19", "agentflow-21", "agentflow-22")
async def test_ordinary_words_stay_parameters() -> None:
    """I call my parameters state, store and config: the model sees them, and they arrive as they were sent."""

    @tool
    def ship(state: str, store: str, config: dict[str, int], tool_call_id: str, emit: bool) -> str:
        """Ship something."""
        return f"{state} {store} {config['a']} {tool_call_id} {emit}"

    tools = Toolset.of(ship)
    assert list(ship.parameters["properties"]) == ["state", "store", "config", "tool_call_id", "emit"]
    sent = {"state": "CA", "store": "main", "config": {"a": 1}, "tool_call_id": "mine", "emit": True}
    assert (await tools.call("ship", sent)).value == "CA main 1 mine True"


@pytest.mark.promise("agentflow-19", "agentflow-21", "agentflow-23")
@pytest.mark.parametrize("annotation", [ToolContext, ToolContext[str], ToolContext | None])
async def test_the_context_is_found_by_its_type(annotation: Any) -> None:
    """I ask for the context under any name; the model does not see it, and cannot fill it in."""

    def act(name: str, whatever: Any) -> str:
        """Act."""
        return f"{name} {whatever.call_id}"

    act.__annotations__["whatever"] = annotation
    tools = Toolset.of(act)
    assert list(tools["act"].parameters["properties"]) == ["name"]
    assert (await tools.call("act", {"name": "x"}, call_id="call_1")).value == "x call_1"
    forged = await tools.call("act", {"name": "x", "whatever": {"call_id": "forged"}})
    assert forged.code == "invalid_arguments"
    assert "whatever" in forged.wire


class Injection(BaseModel):
    """A user's own class with a telling name."""

    dose: int = 1


@pytest.mark.promise("agentflow-20")
def test_a_default_hides_nothing() -> None:
    """My class is called Injection, and a parameter that has one as its default is still the model's."""

    @tool
    def treat(injection: Injection = Injection()) -> int:  # noqa: B008
        """Treat somebody."""
        return injection.dose

    assert list(treat.parameters["properties"]) == ["injection"]


@pytest.mark.promise("agentflow-44")
async def test_options_have_one_spelling() -> None:
    """I give a name where a function belongs and am told at once; options that I spell right take effect."""
    misplaced: Any = "calculator"
    with pytest.raises(ToolDefinitionError, match="'calculator'"):
        tool(misplaced)
    made = tool(plain, name="calculator", timeout=5)
    assert isinstance(made, Tool)
    assert (made.name, made.timeout) == ("calculator", 5.0)
