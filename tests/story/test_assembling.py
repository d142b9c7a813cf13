"""Assembling: from what an agent lists to what it may call, and everything that is found out before the first token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from handrail import (
    Agent,
    InMemoryMCPServerRegistry,
    MCPConnectionManager,
    Tool,
    ToolContext,
    Toolset,
    mcp_tools,
    resolve,
    run,
    stream,
    tool,
)
from handrail.errors import (
    DefinitionError,
    MCPAccessDeniedError,
    MCPServerNotFoundError,
    PreflightError,
    ToolDefinitionError,
    ToolNotRegisteredError,
    ToolSourceError,
)
from handrail.sources import MCPSource
from handrail.testing import ScriptedModel
from handrail.tools import RemoteResult


class Servers:
    """A resolver with some servers, each with tools that say where they ran.

    Args:
        servers: The names of each server's tools.
        allowed: The agents that may use a server; a server without an entry is open.
    """

    def __init__(
        self, servers: Mapping[str, Sequence[str]], allowed: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.servers = servers
        self.allowed = allowed or {}
        self.asked: list[tuple[str, str | None]] = []
        self.closed = False

    async def resolve_tools(self, sources: Sequence[MCPSource], *, agent_id: str | None = None) -> list[Tool]:
        """Find the tools."""
        found: list[Tool] = []
        for source in sources:
            server = source.server_id
            self.asked.append((server, agent_id))
            if server not in self.servers:
                raise MCPServerNotFoundError(f"no server {server!r} here", server=server)
            if server in self.allowed and agent_id not in self.allowed[server]:
                raise MCPAccessDeniedError(f"{agent_id!r} may not use {server!r}", server=server)
            names = self.servers[server] if source.tool_names is None else source.tool_names
            found += [self._tool(server, name) for name in names]
        return found

    async def close_all(self) -> None:
        """Be closed."""
        self.closed = True

    def _tool(self, server: str, name: str) -> Tool:
        async def send(arguments: dict[str, Any], context: ToolContext) -> RemoteResult:
            return RemoteResult(structured={"server": server, "tool": name})

        return Tool.remote(
            name=name, description=f"Does {name}.", parameters={"type": "object"}, server=server, send=send
        )


@tool
def search(query: str = "") -> str:
    """Search in the shop."""
    return "local"


@tool
def lookup_order(order_id: str = "") -> str:
    """Look up one order."""
    return "packed"


def other_lookup(order_id: str = "") -> str:
    """Look up one order elsewhere."""
    return "elsewhere"


async def ran_at(tools: Toolset, name: str) -> str:
    """Where a tool of a server ran."""
    return (await tools.call(name)).value["server"]


async def start(agent: Agent, tools: list[Any], *, streamed: bool, **options: Any) -> None:
    """Run an agent to its end in one of the two ways."""
    if streamed:
        async for _ in stream(agent, "Go", tools=tools, **options):
            pass
    else:
        await run(agent, "Go", tools=tools, **options)


# Registering


@pytest.mark.promise("cycgraph-2.24", "agentflow-1")
async def test_tools_and_resolvers_in_one_list() -> None:
    """I pass functions, tools and a resolver in one list, and the agent's names find them."""
    model = ScriptedModel([[("lookup_order", {}), ("search", {}), ("fetch", {}), ("count", {"n": 1})], "Done."])
    agent = Agent(model, tools=["lookup_order", "search", "count", mcp_tools("web")])

    def count(n: int) -> int:
        """Count."""
        return n

    result = await run(agent, "Go", tools=[lookup_order, Servers({"web": ["fetch"]}), count, search])
    assert [call.value for call in result.calls] == ["packed", "local", {"server": "web", "tool": "fetch"}, 1]
    assert model.requests[0] == ("lookup_order", "search", "count", "fetch")


@pytest.mark.promise("cycgraph-2.25", "cycgraph-6.12", "flue-31", "flue-34")
@pytest.mark.parametrize("streamed", [False, True], ids=["run", "stream"])
async def test_two_tools_of_one_name_stop_a_run_before_it_starts(streamed: bool) -> None:
    """I register two different tools under one name: an error with the name, and the model is not asked."""
    model = ScriptedModel()
    tools = [lookup_order, tool(other_lookup, name="lookup_order")]
    with pytest.raises(DefinitionError, match="two different tools are called 'lookup_order'"):
        await start(Agent(model), tools, streamed=streamed)
    assert model.requests == []


@pytest.mark.promise("cycgraph-2.26")
@pytest.mark.parametrize("entry", ["lookup_order", 5, None, {"mcp": "web"}, mcp_tools("web"), object()])
async def test_what_is_no_implementation_is_refused_on_a_run(entry: Any) -> None:
    """I pass a name or a source where an implementation belongs, and read what belongs there."""
    with pytest.raises(ToolDefinitionError, match="neither a tool nor a resolver"):
        await run(Agent(ScriptedModel()), "Go", tools=[entry])


@pytest.mark.promise("cycgraph-2.27")
async def test_the_same_tool_on_agent_and_run() -> None:
    """I list a tool on the agent and pass it to the run as well; that is one tool."""
    model = ScriptedModel([[("lookup_order", {})], "Done."])
    result = await run(Agent(model, tools=[lookup_order, "lookup_order"]), "Go", tools=[lookup_order, lookup_order])
    assert result.calls[0].value == "packed"
    assert model.requests[0] == ("lookup_order",)


@pytest.mark.promise("cycgraph-2.28", "cycgraph-2.29")
@pytest.mark.parametrize("streamed", [False, True], ids=["run", "stream"])
async def test_nothing_shadows_an_agents_own_tool(streamed: bool) -> None:
    """I pass another tool under the name of the agent's own: it does not take its place, whichever way I run."""
    model = ScriptedModel()
    agent, tools = Agent(model, tools=[lookup_order]), [tool(other_lookup, name="lookup_order")]
    with pytest.raises(DefinitionError, match="'lookup_order'"):
        await start(agent, tools, streamed=streamed)
    with pytest.raises(DefinitionError, match="'lookup_order'"):
        await resolve([lookup_order], tools=tools)
    assert model.requests == []


@pytest.mark.promise("cycgraph-2.30")
async def test_a_name_without_an_implementation_says_where_to_pass_it() -> None:
    """I misspell a name: the error has it, the nearest registered one, and the argument that takes tools."""
    with pytest.raises(ToolNotRegisteredError) as caught:
        await resolve(["lookup_ordr"], tools=[lookup_order, search])
    (problem,) = caught.value.problems
    assert (problem.code, problem.message) == ("tool_not_registered", "the tool 'lookup_ordr' has no implementation")
    assert problem.hint == "pass it as run(..., tools=[...]); did you mean 'lookup_order'?"


@pytest.mark.promise("cycgraph-2.37", "cycgraph-7.10", "cycgraph-6.3", "cycgraph-6.10")
@pytest.mark.parametrize("options", [{}, {"tools": []}, {"tools": [search]}], ids=["nothing", "empty", "others"])
async def test_a_missing_tool_is_never_an_echo(options: dict[str, Any]) -> None:
    """The agent lists a tool that nobody implements: the run does not start, also when I passed no tools at all."""
    model = ScriptedModel([[("lookup_order", {})], "Done."])
    with pytest.raises(PreflightError) as caught:
        await run(Agent(model, name="Order Clerk", tools=["lookup_order"]), "Go", **options)
    (problem,) = caught.value.problems
    assert (problem.where, problem.code) == ("agent 'Order Clerk'", "tool_not_registered")
    assert "'lookup_order'" in problem.message
    assert model.requests == []


# The toolset as a value


@pytest.mark.promise("agentflow-1", "agentflow-2")
async def test_a_toolset_of_functions() -> None:
    """I make a toolset of functions under their own names; of nothing it is empty, and of a number it is refused."""
    tools = Toolset.of(other_lookup, lookup_order)
    assert [one["name"] for one in tools.schemas()] == ["other_lookup", "lookup_order"]
    assert (await tools.call("other_lookup")).value == "elsewhere"
    assert (len(Toolset.of()), Toolset.of().schemas()) == (0, [])
    not_callable: Any = 5
    with pytest.raises(ToolSourceError, match="5 is not a tool source"):
        Toolset.of(other_lookup, not_callable)


@pytest.mark.promise("agentflow-3")
def test_a_toolset_does_not_change() -> None:
    """What I derive from a toolset is another toolset; the first one stays what was checked."""
    tools = Toolset.of(search, lookup_order)
    assert len(tools.filter(names=["search"])) == 1
    assert "find" in tools.rename({"search": "find"})
    assert [one.name for one in tools] == ["search", "lookup_order"]
    assert not hasattr(tools, "add_tool")
    with pytest.raises(ToolDefinitionError, match="'lookup_order'"):
        tools.rename({"search": "lookup_order"})


@pytest.mark.promise("agentflow-6")
async def test_any_iterable_is_a_list_of_tools() -> None:
    """I pass generators, and all of their tools are there."""
    model = ScriptedModel([[("lookup_order", {})], "Done."])
    agent = Agent(model, tools=(one for one in ("lookup_order", search)))
    result = await run(agent, "Go", tools=(one for one in [lookup_order]))
    assert model.requests[0] == ("lookup_order", "search")
    assert result.calls[0].value == "packed"


@pytest.mark.promise("flue-30", "flue-3")
async def test_what_is_shown_is_a_clean_copy() -> None:
    """I bring a schema with dialect marks; a provider does not see them, and nobody can change it for others."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"n": {"type": "integer"}},
    }

    def take(data: dict[str, Any]) -> int:
        """Take a number."""
        return data["n"]

    tools = Toolset.of(tool(take, input=schema))
    tools.schemas()[0]["parameters"]["properties"].clear()
    schema["properties"] = {}
    assert tools.schemas()[0]["parameters"]["properties"] == {"n": {"type": "integer"}}
    assert (await tools.call("take", {"n": "x"})).code == "invalid_arguments"
    shown = await seen_by_provider(tools["take"])
    assert "$schema" not in shown
    assert shown["properties"] == {"n": {"type": "integer"}}


async def seen_by_provider(made: Tool) -> dict[str, Any]:
    """The schema of a tool as it goes to a provider that speaks the most common protocol."""
    from handrail.schema.views import view

    return view(made.parameters, "openai").schema


# Preflight


@pytest.mark.promise("cycgraph-6.1", "flue-31")
async def test_nothing_happens_before_the_check() -> None:
    """Something is missing: there was no token, no event and no call of a server before I was told."""
    model, events = ScriptedModel(), list[Any]()
    with pytest.raises(PreflightError):
        await run(Agent(model, tools=["nowhere"]), "Go", on_event=events.append)
    with pytest.raises(PreflightError):
        await start(Agent(model, tools=["nowhere"]), [], streamed=True, on_event=events.append)
    assert (model.requests, events) == ([], [])


@pytest.mark.promise("cycgraph-6.4", "cycgraph-7.7")
async def test_servers_without_a_resolver() -> None:
    """The agent names servers and I passed no manager: I read who lists them, which ones, and what to pass."""
    agent = Agent(ScriptedModel(), name="clerk", tools=[mcp_tools("web"), {"mcp": "files", "tools": ["read"]}])
    with pytest.raises(PreflightError) as caught:
        await run(agent, "Go")
    problems = list(caught.value.problems)
    assert [(one.where, one.code) for one in problems] == [("agent 'clerk'", "mcp_server_not_found")] * 2
    assert [one.message for one in problems] == [
        "no server is registered as 'web'",
        "no server is registered as 'files'",
    ]
    assert "MCPConnectionManager" in str(caught.value)


@pytest.mark.promise("cycgraph-6.8", "cycgraph-6.9", "cycgraph-6.10", "cycgraph-6.11")
async def test_all_problems_at_once() -> None:
    """Six things are wrong: one error of one type has all six, each with its code."""
    resolver = Servers({"admin": ["reset"]}, allowed={"admin": ["root"]})
    agent = Agent(
        "nowhere:nothing", id="clerk",
        tools=["missing", "save_to_memory", "architect_draft_workflow", mcp_tools("admin"), mcp_tools("unknown")],
    )  # fmt: skip
    with pytest.raises(PreflightError) as caught:
        await run(agent, "Go", tools=[resolver])
    assert [one.code for one in caught.value.problems] == [
        "tool_not_registered", "builtin_unavailable", "builtin_unavailable", "mcp_access_denied",
        "mcp_server_not_found", "model_unavailable",
    ]  # fmt: skip
    assert {one.where for one in caught.value.problems} == {"agent 'clerk'"}
    assert all(one.message in str(caught.value) for one in caught.value.problems)


@pytest.mark.promise("cycgraph-6.11")
async def test_a_real_manager_reports_what_it_does_not_know() -> None:
    """I misspell a server's id: the manager's registry does not have it, and the run does not start."""
    async with MCPConnectionManager(InMemoryMCPServerRegistry()) as manager:
        with pytest.raises(PreflightError) as caught:
            await run(Agent(ScriptedModel(), tools=[mcp_tools("web-serch")]), "Go", tools=[manager])
    assert caught.value.problems[0].code == "mcp_server_not_found"


# Precedence and names


@pytest.mark.promise("cycgraph-7.1", "cycgraph-7.2", "cycgraph-7.3")
async def test_local_tools_come_first_and_keep_their_names() -> None:
    """A server offers tools under the names of a built-in and of my own: both are reachable, and mine keep theirs."""
    resolver = Servers({"web": ["search", "save_to_memory", "fetch"]})
    calls: list[tuple[str, dict[str, Any]]] = [
        ("save_to_memory", {"key": "k", "value": 1}),
        ("search", {}),
        ("mcp__web__search", {}),
        ("fetch", {}),
    ]
    model = ScriptedModel([calls, "Done."])
    agent = Agent(model, tools=[mcp_tools("web"), search, "save_to_memory"])
    result = await run(agent, "Go", tools=[resolver], memory={})
    assert sorted(model.requests[0]) == [
        "fetch", "mcp__web__save_to_memory", "mcp__web__search", "save_to_memory", "search",
    ]  # fmt: skip
    assert [call.value for call in result.calls] == [
        {"key": "k", "saved": True}, "local", {"server": "web", "tool": "search"}, {"server": "web", "tool": "fetch"},
    ]  # fmt: skip
    assert [call.label.source for call in result.calls] == ["builtin", "custom_tool", "mcp_tool", "mcp_tool"]
    assert dict(result.memory) == {"k": 1}


@pytest.mark.promise("cycgraph-7.2")
async def test_a_name_is_never_searched_in_servers() -> None:
    """I list a plain name that only a server has: that is a missing tool of mine, not the server's."""
    with pytest.raises(ToolNotRegisteredError, match="'fetch'"):
        await resolve(["fetch", mcp_tools("web")], tools=[Servers({"web": ["fetch"]})])


@pytest.mark.promise("cycgraph-7.4")
async def test_two_servers_with_one_tool_name() -> None:
    """Two servers both search: each is there under its server's id; what only one of them has keeps its name."""
    tools = await resolve([mcp_tools("a"), mcp_tools("b")], tools=[Servers({"a": ["search", "x"], "b": ["search"]})])
    assert sorted(one.name for one in tools) == ["a__search", "b__search", "x"]
    assert [await ran_at(tools, name) for name in ("a__search", "b__search", "x")] == ["a", "b", "a"]
    twice = await resolve([mcp_tools("a", only=["x"]), mcp_tools("a", only=["x", "y"])], tools=[Servers({"a": []})])
    assert sorted(one.name for one in twice) == ["x", "y"]


@pytest.mark.promise("cycgraph-7.5")
async def test_no_server_can_take_anothers_name() -> None:
    """A server picks names that look like qualified ones; my tool and every other tool stay reachable."""

    @tool(name="mcp__web__search")
    def mine() -> str:
        """Look like a qualified name."""
        return "mine"

    resolver = Servers({"web": ["search", "b__x"], "a": ["x", "mcp__web__search"], "b": ["x"], "a__b": ["x"]})
    tools = await resolve([mine, search, *(mcp_tools(server) for server in resolver.servers)], tools=[resolver])
    assert len(tools) == 2 + 6
    assert (await tools.call("mcp__web__search")).value == "mine"
    assert (await tools.call("search")).value == "local"
    reached = {tuple((await tools.call(one.name)).value.values()) for one in tools if one.server is not None}
    assert reached == {(server, name) for server, names in resolver.servers.items() for name in names}


@pytest.mark.promise("cycgraph-7.6")
async def test_servers_may_live_in_several_resolvers() -> None:
    """One agent uses servers of two managers; each is asked for what the one before does not know."""
    first, second = Servers({"a": ["x"]}), Servers({"b": ["y"], "a": ["never"]})
    tools = await resolve([mcp_tools("a"), mcp_tools("b")], tools=[first, second], agent_id="clerk")
    assert {one.name: one.server for one in tools} == {"x": "a", "y": "b"}
    assert sorted(first.asked) == [("a", "clerk"), ("b", "clerk")]
    assert second.asked == [("b", "clerk")]


@pytest.mark.promise("cycgraph-7.6")
async def test_another_error_of_a_resolver_is_not_skipped() -> None:
    """The first manager forbids the server; the second one is not a way around that."""
    closed, open_ = Servers({"a": ["x"]}, allowed={"a": []}), Servers({"a": ["x"]})
    with pytest.raises(PreflightError) as caught:
        await resolve([mcp_tools("a")], tools=[closed, open_], agent_id="clerk")
    assert caught.value.problems[0].code == "mcp_access_denied"
    assert open_.asked == []


@pytest.mark.promise("cycgraph-7.9")
async def test_a_run_does_not_close_what_it_was_given() -> None:
    """I share one resolver between runs, of which one fails: it stays open until I close it."""
    resolver = Servers({"web": ["fetch"]})
    agent = Agent(ScriptedModel([[("fetch", {})], "Done."]), tools=[mcp_tools("web")])
    await asyncio.gather(run(agent, "Go", tools=[resolver]), run(agent, "Go", tools=[resolver]))
    with pytest.raises(PreflightError):
        await run(agent.replace(tools=["nowhere"]), "Go", tools=[resolver])
    async for _ in stream(agent, "Go", tools=[resolver]):
        pass
    assert not resolver.closed


# Lists replace lists


@pytest.mark.promise("cycgraph-8.2")
async def test_an_empty_list_replaces_a_full_one() -> None:
    """I give a copy of the agent an empty list: it has no tools, and the original keeps its own."""
    model = ScriptedModel()
    agent = Agent(model, tools=[lookup_order, "save_to_memory"])
    await run(agent.replace(tools=[]), "Go", tools=[lookup_order], memory={})
    await run(agent.replace(tools=[search]), "Go", memory={})
    await run(agent, "Go", memory={})
    assert model.requests == [(), ("search",), ("lookup_order", "save_to_memory")]


@pytest.mark.promise("cycgraph-8.4")
async def test_tools_are_found_anew_for_each_run() -> None:
    """I take an agent's access away between two runs, and the second one does not start."""
    resolver = Servers({"admin": ["reset"]}, allowed={"admin": ["ops"]})
    agent = Agent(ScriptedModel([[("reset", {})], "Done."]), id="ops", tools=[mcp_tools("admin")])
    assert (await run(agent, "Go", tools=[resolver])).calls[0].value == {"server": "admin", "tool": "reset"}
    with pytest.raises(PreflightError):
        await run(agent.replace(id="intern"), "Go", tools=[resolver])
    resolver.allowed = {"admin": []}
    with pytest.raises(PreflightError) as caught:
        await run(agent, "Go", tools=[resolver])
    assert caught.value.problems[0].code == "mcp_access_denied"
    assert resolver.asked == [("admin", "ops"), ("admin", "intern"), ("admin", "ops")]


# Tags


def tagged() -> list[Callable[..., str]]:
    """Functions with tags as the page sets them, and one without."""

    def search_web() -> str:
        """Search the web."""
        return "found"

    def read_file() -> str:
        """Read a file."""
        return "content"

    def untagged() -> str:
        """Do something."""
        return "done"

    search_web.__tags__ = {"safe", "web"}  # pyright: ignore[reportFunctionMemberAccess]
    read_file.__tags__ = {"filesystem"}  # pyright: ignore[reportFunctionMemberAccess]
    return [search_web, read_file, untagged]


@pytest.mark.promise("agentflow-39", "agentflow-40", "agentflow-42")
async def test_an_agent_with_a_filter() -> None:
    """I tag functions and let an agent use the safe ones: it sees no other, and cannot call any other either."""
    model = ScriptedModel([[("search_web", {}), ("read_file", {}), ("untagged", {})], "Done."])
    result = await run(Agent(model, tools=tagged(), tags={"safe"}), "Go")
    assert model.requests[0] == ("search_web",)
    assert [call.code for call in result.calls] == [None, "unknown_tool", "unknown_tool"]


@pytest.mark.promise("agentflow-39", "agentflow-40", "agentflow-42")
async def test_a_filtered_toolset() -> None:
    """Tags of the decorator and of the function count together; an empty filter leaves nothing, none leaves all."""
    search_web, read_file, untagged = tagged()
    tools = Toolset.of(tool(search_web, tags={"slow"}), read_file, untagged)
    names = {
        key: [one.name for one in tools.filter(tags=tags)]
        for key, tags in {
            "safe": {"safe"},
            "slow": {"slow"},
            "both": {"slow", "filesystem"},
            "none": set[str](),
        }.items()
    }
    assert names == {"safe": ["search_web"], "slow": ["search_web"], "both": ["search_web", "read_file"], "none": []}
    assert len(tools.filter(tags=None)) == 3
    assert (await tools.filter(tags={"safe"}).call("untagged")).code == "unknown_tool"


@pytest.mark.promise("agentflow-41")
async def test_a_filter_holds_for_servers_too() -> None:
    """Nobody marked the server's tools as safe, so a filter for safe ones leaves them out."""
    search_web, *_ = tagged()
    resolver = Servers({"web": ["fetch"]})
    assert [one.name for one in await resolve([search_web, mcp_tools("web")], tools=[resolver])] == [
        "search_web",
        "fetch",
    ]
    filtered = await resolve([search_web, mcp_tools("web")], tools=[resolver], tags={"safe"})
    assert [one.name for one in filtered] == ["search_web"]
