"""A toolset: what one agent may call; or every problem that stands in the way, at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from handrail import (
    Call,
    CallRequest,
    Decision,
    PreflightError,
    Tool,
    ToolContext,
    ToolError,
    Toolset,
    mcp_tools,
    resolve,
    tool,
)
from handrail.errors import (
    DefinitionError,
    MCPAccessDeniedError,
    MCPConnectError,
    MCPServerNotFoundError,
    MCPTimeoutError,
    RunningLoopError,
    ToolDefinitionError,
    ToolDeniedError,
    ToolExecutionError,
    ToolInputError,
    ToolNotFoundError,
    ToolNotRegisteredError,
    ToolResultError,
    ToolTimeoutError,
)
from handrail.naming import is_name
from handrail.sources import MCPSource
from handrail.tools import RemoteResult
from handrail.toolset import ToolResolver, call_sync, register


@tool(tags={"orders", "safe"})
def lookup_order(order_id: str) -> str:
    """Look up an order."""
    return f"order {order_id}"


@tool(tags={"orders"})
async def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    return f"cancelled {order_id}"


@tool
async def untagged() -> str:
    """Do something."""
    return "done"


def _remote(server: str, name: str) -> Tool:
    async def send(arguments: dict[str, Any], context: ToolContext) -> RemoteResult:
        return RemoteResult(structured=f"{server}/{name}")

    return Tool.remote(name=name, description="Remote.", parameters={"type": "object"}, server=server, send=send)


class Servers:
    """A resolver with some servers; one that is an error raises it.

    Args:
        servers: The tools' names of each server, or the error that asking it raises.
    """

    def __init__(self, **servers: Sequence[str] | Exception) -> None:
        self.servers: Mapping[str, Sequence[str] | Exception] = servers
        self.asked: list[tuple[str, str | None]] = []

    async def resolve_tools(self, sources: Sequence[MCPSource], *, agent_id: str | None = None) -> Sequence[Tool]:
        """Find the tools of the sources."""
        found: list[Tool] = []
        for source in sources:
            self.asked.append((source.server_id, agent_id))
            names = self.servers.get(source.server_id)
            if names is None:
                raise MCPServerNotFoundError(f"no server {source.server_id!r}", server=source.server_id)
            if isinstance(names, Exception):
                raise names
            wanted = names if source.tool_names is None else source.tool_names
            found += [_remote(source.server_id, name) for name in names if name in wanted]
        return found


# A toolset as a value


@pytest.mark.promise("agentflow-1")
def test_a_toolset_holds_tools_by_their_names() -> None:
    """Tools and functions go in; they come out by name, in order."""

    def plain() -> str:
        """Do it."""
        return ""

    toolset = Toolset.of(lookup_order, plain)
    assert list(toolset.tools) == ["lookup_order", "plain"]
    assert [one.name for one in toolset] == ["lookup_order", "plain"]
    assert (len(toolset), "plain" in toolset, "other" in toolset) == (2, True, False)
    assert toolset["lookup_order"] is lookup_order
    assert len(Toolset.of()) == 0


@pytest.mark.promise("agentflow-2")
@pytest.mark.parametrize("wrong", [5, None, object(), 1.5, ["x"]])
def test_what_is_no_tool_is_refused(wrong: Any) -> None:
    """Something that cannot be called does not get into a toolset."""
    with pytest.raises(DefinitionError):
        Toolset.of(wrong)


@pytest.mark.parametrize("name", ["lookup_order", "save_to_memory", "other"])
def test_a_name_alone_is_no_tool(name: str) -> None:
    """A toolset of values has no place to find a name in."""
    with pytest.raises(ToolNotRegisteredError):
        Toolset.of(name)
    with pytest.raises(ToolNotRegisteredError):
        Toolset.of(mcp_tools("time"))


def test_two_tools_of_one_name_are_refused() -> None:
    """NAM-01: the second does not silently replace the first."""
    other = tool(untagged.body, name="lookup_order")
    with pytest.raises(DefinitionError, match="'lookup_order'"):
        Toolset.of(lookup_order, other)
    assert len(Toolset.of(lookup_order, lookup_order)) == 1


@pytest.mark.promise("agentflow-9")
@pytest.mark.promise("agentflow-10")
def test_schemas_are_neutral_and_copies() -> None:
    """``schemas()`` gives name, description and parameters; changing them changes no tool."""
    toolset = Toolset.of(lookup_order)
    schemas = toolset.schemas()
    assert schemas == [
        {
            "name": "lookup_order",
            "description": "Look up an order.",
            "parameters": {
                "type": "object",
                "properties": {"order_id": {"type": "string"}},
                "required": ["order_id"],
                "additionalProperties": False,
            },
        }
    ]
    schemas[0]["parameters"]["properties"].clear()
    assert toolset.schemas() != schemas


@pytest.mark.promise("agentflow-39")
async def test_a_filter_by_tags_holds_at_the_call_too() -> None:
    """Tools with one of the tags stay; those without tags are hidden, and what is hidden cannot be called."""
    toolset = Toolset.of(lookup_order, cancel_order, untagged)
    safe = toolset.filter(tags={"safe"})
    assert list(safe.tools) == ["lookup_order"]
    assert list(toolset.filter(tags="orders").tools) == ["lookup_order", "cancel_order"]
    assert list(toolset.filter(tags=[]).tools) == []
    assert list(toolset.filter(tags={"nobody"}).tools) == []
    assert toolset.filter().tools == toolset.tools
    assert (await safe.call("untagged")).code == "unknown_tool"
    assert (await safe.call("cancel_order", {"order_id": "1"})).code == "unknown_tool"
    assert (await safe.call("lookup_order", {"order_id": "1"})).value == "order 1"
    assert len(toolset) == 3


@pytest.mark.promise("agentflow-39")
def test_tags_may_stand_on_the_function() -> None:
    """``fn.__tags__`` works like ``tags=``, and both together."""

    def look() -> str:
        """Look."""
        return ""

    look.__tags__ = {"safe"}  # pyright: ignore[reportFunctionMemberAccess]
    assert list(Toolset.of(look, untagged).filter(tags={"safe"}).tools) == ["look"]
    assert Toolset.of(tool(look, tags={"more"}))["look"].tags == {"safe", "more"}


def test_a_filter_by_names_refuses_a_name_that_is_not_there() -> None:
    """A misspelt name is an error with the nearest one, not a tool that is quietly missing."""
    toolset = Toolset.of(lookup_order, cancel_order)
    assert list(toolset.filter(names=["cancel_order"]).tools) == ["cancel_order"]
    assert list(toolset.filter(names="cancel_order").tools) == ["cancel_order"]
    assert list(toolset.filter(names=[]).tools) == []
    assert list(toolset.filter(names=["lookup_order"], tags={"safe"}).tools) == ["lookup_order"]
    with pytest.raises(ToolNotRegisteredError, match="'cancel_order'"):
        toolset.filter(names=["cancl_order"])


async def test_a_renamed_tool_answers_to_its_new_name_only() -> None:
    """Advertised and called by the same name; the label keeps the tool's new name, and the original is untouched."""
    toolset = Toolset.of(lookup_order, cancel_order)
    renamed = toolset.rename({"lookup_order": "find", "cancel_order": "lookup_order"})
    assert [schema["name"] for schema in renamed.schemas()] == ["find", "lookup_order"]
    assert (await renamed.call("find", {"order_id": "1"})).value == "order 1"
    assert (await renamed.call("lookup_order", {"order_id": "1"})).value == "cancelled 1"
    assert (await renamed.call("cancel_order", {"order_id": "1"})).code == "unknown_tool"
    assert lookup_order.name == "lookup_order"


@pytest.mark.parametrize(
    "names",
    [
        {"nothing": "x"},
        {"lookup_order": "has space"},
        {"lookup_order": "cancel_order"},
        {"lookup_order": "x" * 65},
        {"lookup_order": "save_to_memory"},
    ],
)
def test_a_rename_that_cannot_work_is_refused(names: dict[str, str]) -> None:
    """An unknown old name, an illegal new one, and one that is taken."""
    with pytest.raises((ToolNotRegisteredError, ToolDefinitionError)):
        Toolset.of(lookup_order, cancel_order).rename(names)


# Calls


async def test_a_call_takes_a_mapping_text_or_nothing() -> None:
    """Arguments may be what a program has or what a model sends."""
    toolset = Toolset.of(lookup_order, untagged)
    for arguments in ({"order_id": "1"}, '{"order_id": "1"}'):
        assert (await toolset.call("lookup_order", arguments)).value == "order 1"
    empty: list[object] = [None, {}, "", "{}", "null"]
    for nothing in empty:
        assert (await toolset.call("untagged", nothing)).value == "done"


@pytest.mark.promise("agentflow-24")
async def test_a_call_may_raise_instead() -> None:
    """Each failure has its own exception, which carries the result."""

    @tool(timeout=0.001)
    async def fail(how: str) -> Any:
        """Fail in some way."""
        if how == "hang":
            await asyncio.Event().wait()
        if how == "mcp":
            raise MCPTimeoutError("late", server="s")
        if how == "server":
            raise MCPConnectError("no", server="s")
        if how == "say":
            raise ToolError("said")
        if how == "break":
            raise KeyError("x")
        return float("nan")

    class Deny:
        async def decide(self, request: CallRequest) -> Decision:
            return Decision("deny")

    toolset = Toolset.of(fail, tool(fail.body, name="asks", needs_approval=True))
    cases: list[tuple[str, Any, type[Exception], str]] = [
        ("none", {}, ToolNotFoundError, "unknown_tool"),
        ("fail", {}, ToolInputError, "invalid_arguments"),
        ("fail", {"how": "hang"}, ToolTimeoutError, "timeout"),
        ("fail", {"how": "mcp"}, ToolTimeoutError, "mcp_timeout"),
        ("fail", {"how": "server"}, ToolExecutionError, "mcp_connect"),
        ("fail", {"how": "say"}, ToolExecutionError, "tool_error"),
        ("fail", {"how": "break"}, ToolExecutionError, "tool_error"),
        ("fail", {"how": "nan"}, ToolResultError, "bad_result"),
        ("asks", {"how": "say"}, ToolDeniedError, "needs_approval"),
    ]
    for name, arguments, kind, code in cases:
        with pytest.raises(kind) as raised:
            await toolset.call(name, arguments, raise_on_error=True)
        assert type(raised.value) is kind
        error: Any = raised.value
        assert error.result.code == code
        assert error.context["tool"] == name
        assert error.context["call_id"] == error.result.call_id
        assert (await toolset.call(name, arguments)).code == code
    with pytest.raises(ToolDeniedError):
        await toolset.call("fail", {"how": "say"}, policy=Deny(), raise_on_error=True)
    fine = await Toolset.of(untagged).call("untagged", raise_on_error=True)
    assert fine.value == "done"


async def test_a_call_may_be_made_in_somebody_s_name() -> None:
    """The context's run, agent, instance, user, deps and memory are passed on; the call's own id is its own."""
    seen: list[ToolContext] = []

    @tool
    async def look(context: ToolContext) -> None:
        """Look."""
        seen.append(context)

    mine = ToolContext[Any]("outer", "run_9", "clerk", "customer_1", "other", {"d": 1}, {"name": "Ann"}, {"m": 2})
    await Toolset.of(look).call("look", call_id="inner", context=mine)
    [context] = seen
    assert (context.call_id, context.tool, context.run_id, context.agent_id) == ("inner", "look", "run_9", "clerk")
    assert (context.instance_id, context.deps, context.user, context.memory) == (
        "customer_1", {"d": 1}, {"name": "Ann"}, {"m": 2},
    )  # fmt: skip


async def test_several_calls_come_back_in_order() -> None:
    """``call_all`` is a whole turn."""
    requests = [Call("untagged"), Call("nothing"), Call("lookup_order", {"order_id": "1"}, "c")]
    results = await Toolset.of(lookup_order, untagged).call_all(requests)
    assert [result.code for result in results] == [None, "unknown_tool", None]
    assert results[2].call_id == "c"


def test_a_call_from_code_that_is_not_async() -> None:
    """``call_sync`` runs a loop of its own."""
    assert call_sync(Toolset.of(lookup_order), "lookup_order", {"order_id": "1"}).value == "order 1"


async def test_a_synchronous_call_inside_of_a_loop_says_what_to_write() -> None:
    """LOO-01: in a notebook the error gives the line to write instead, and leaves no coroutine behind."""
    with pytest.raises(RunningLoopError, match=r"await toolset.call\(...\)"):
        call_sync(Toolset.of(lookup_order), "lookup_order", {"order_id": "1"})


async def test_a_synchronous_call_in_a_thread_is_fine() -> None:
    """LOO-03: a tool's RuntimeError about event loops is the tool's, in a thread too."""

    @tool
    def odd() -> str:
        """Fail oddly."""
        raise RuntimeError("no running event loop here")

    result = await asyncio.to_thread(call_sync, Toolset.of(odd), "odd")
    assert result.code == "tool_error"


# Registration


@pytest.mark.promise("cycgraph-2.24")
def test_tools_and_resolvers_are_given_in_one_list() -> None:
    """They are told apart by what they do."""
    servers = Servers()

    def plain() -> str:
        """Do it."""
        return ""

    registered = register([lookup_order, servers, plain])
    assert list(registered.tools) == ["lookup_order", "plain"]
    assert registered.resolvers == (servers,)
    assert isinstance(servers, ToolResolver)


@pytest.mark.promise("cycgraph-2.25")
@pytest.mark.promise("cycgraph-6.12")
def test_two_different_tools_of_one_name_are_refused_before_any_run() -> None:
    """The error names the tool."""
    other = tool(untagged.body, name="lookup_order")
    with pytest.raises(ToolDefinitionError, match="'lookup_order'"):
        register([lookup_order, other])


@pytest.mark.promise("cycgraph-2.27")
def test_the_same_tool_twice_is_fine() -> None:
    """On the agent and in the run, or twice in one list: one tool."""

    def plain() -> str:
        """Do it."""
        return ""

    assert list(register([lookup_order, lookup_order], beside={"lookup_order": lookup_order}).tools) == ["lookup_order"]
    assert list(register([plain, plain]).tools) == ["plain"]


@pytest.mark.parametrize("wrong", ["lookup_order", {"mcp": "time"}, mcp_tools("time"), 5, None])
def test_a_run_takes_implementations_only(wrong: Any) -> None:
    """Names and sources belong to the agent; the error says so."""
    with pytest.raises(ToolDefinitionError, match="belong to the agent"):
        register([wrong])


# Resolution


@pytest.mark.promise("cycgraph-7.1")
async def test_built_ins_tools_and_servers_are_found_each_in_its_place() -> None:
    """One list of the agent; each entry is served by its own kind."""
    servers = Servers(time=["now", "zone"])
    toolset = await resolve(
        ["lookup_order", untagged, mcp_tools("time", only=["now"])], tools=[lookup_order, servers], agent_id="clerk"
    )
    assert list(toolset.tools) == ["lookup_order", "untagged", "now"]
    assert servers.asked == [("time", "clerk")]
    assert (await toolset.call("now")).value == "time/now"


async def test_everything_that_is_missing_is_said_at_once() -> None:
    """A missing tool, an unavailable built-in, an unknown server and a refused one: one error, with all places."""
    servers = Servers(bank=MCPAccessDeniedError("clerk may not use bank", server="bank"))
    with pytest.raises(PreflightError) as raised:
        await resolve(
            ["lookup_ordr", "save_to_memory", mcp_tools("tme"), mcp_tools("bank")],
            tools=[lookup_order, servers], where="agent 'clerk'",
        )  # fmt: skip
    problems = raised.value.problems
    assert [problem.code for problem in problems] == [
        "tool_not_registered", "builtin_unavailable", "mcp_server_not_found", "mcp_access_denied",
    ]  # fmt: skip
    assert {problem.where for problem in problems} == {"agent 'clerk'"}
    assert "did you mean 'lookup_order'?" in str(problems[0])


async def test_a_missing_tool_alone_has_its_own_error() -> None:
    """Where only names are missing, the error says so by its type."""
    with pytest.raises(ToolNotRegisteredError, match=r"run\(\.\.\., tools="):
        await resolve(["nothing"])
    with pytest.raises(PreflightError, match="pass an MCPConnectionManager"):
        await resolve([mcp_tools("time")])


async def test_an_optional_server_that_is_missing_is_told_to_the_model() -> None:
    """The run goes on without it, and the model knows that it is not there."""
    servers = Servers(time=MCPConnectError("down", server="time"), web=["fetch"])
    toolset = await resolve([mcp_tools("time", optional=True), mcp_tools("web")], tools=[servers])
    assert list(toolset.tools) == ["fetch"]
    assert toolset.notes == ("The tools of time are not available at the moment.",)
    assert toolset.filter(tags=[]).notes == toolset.rename({"fetch": "get"}).notes == toolset.notes


async def test_the_next_resolver_is_asked_when_one_does_not_know_a_server() -> None:
    """Servers of one agent may live in several resolvers; any other error is final."""
    first, second = Servers(a=["one"]), Servers(a=["never"], b=["two"])
    toolset = await resolve([mcp_tools("a"), mcp_tools("b")], tools=[first, second])
    assert list(toolset.tools) == ["one", "two"]
    assert second.asked == [("b", None)]
    broken = Servers(a=MCPConnectError("down", server="a"))
    with pytest.raises(PreflightError, match="down"):
        await resolve([mcp_tools("a")], tools=[broken, second])


async def test_a_server_s_tool_never_takes_a_local_name() -> None:
    """PIN-06: the local tool keeps its name and is the one that runs; the server's is qualified."""
    servers = Servers(fun=["lookup_order", "play"])
    toolset = await resolve([lookup_order, mcp_tools("fun")], tools=[servers])
    assert list(toolset.tools) == ["lookup_order", "mcp__fun__lookup_order", "play"]
    assert (await toolset.call("lookup_order", {"order_id": "1"})).value == "order 1"
    assert (await toolset.call("mcp__fun__lookup_order")).value == "fun/lookup_order"


async def test_one_name_on_two_servers_is_qualified_on_both() -> None:
    """Nobody wins by coming first."""
    servers = Servers(bank=["transfer", "balance"], fun=["transfer"])
    toolset = await resolve([mcp_tools("bank"), mcp_tools("fun")], tools=[servers])
    assert list(toolset.tools) == ["bank__transfer", "balance", "fun__transfer"]
    assert (await toolset.call("fun__transfer")).value == "fun/transfer"


async def test_one_server_listed_twice_is_one_server() -> None:
    """A tool that two entries of the list name is there once, under its plain name."""
    servers = Servers(time=["now", "zone"])
    toolset = await resolve([mcp_tools("time"), mcp_tools("time", only=["now"])], tools=[servers])
    assert list(toolset.tools) == ["now", "zone"]


async def test_a_prefix_may_be_asked_for() -> None:
    """Every server's tool can carry the name of its server."""
    servers = Servers(time=["now"])
    toolset = await resolve([untagged, mcp_tools("time")], tools=[servers], prefix="always")
    assert list(toolset.tools) == ["untagged", "mcp__time__now"]
    with pytest.raises(ToolDefinitionError, match="'allways'"):
        await resolve([], prefix="allways")  # pyright: ignore[reportArgumentType]


async def test_names_stay_apart_however_servers_choose_them() -> None:
    """Servers cannot make two tools equal, or take another's qualified name: each tool keeps a legal one of its own."""

    @tool(name="mcp__a__x")
    async def local() -> str:
        """Stand in the way."""
        return "local"

    @tool(name="x")
    async def plain() -> str:
        """Stand in the way."""
        return "plain"

    servers = Servers(a=["x", "b__c", "mcp__a__x"], a__b=["c"], b=["x", "a__x", "b__c", "mcp__a__x"])
    toolset = await resolve([local, plain, mcp_tools("a"), mcp_tools("a__b"), mcp_tools("b")], tools=[servers])
    assert len(toolset) == 2 + 3 + 1 + 4
    assert all(is_name(name) for name in toolset.tools)
    assert {name: one.name for name, one in toolset.tools.items()} == {name: name for name in toolset.tools}
    values = [(await toolset.call(name)).value for name in toolset.tools]
    assert sorted(values) == sorted(
        ["local", "plain", "a/x", "a/b__c", "a/mcp__a__x", "a__b/c", "b/x", "b/a__x", "b/b__c", "b/mcp__a__x"]
    )
    assert (await toolset.call("mcp__a__x")).value == "local"
    assert (await toolset.call("x")).value == "plain"


async def test_tags_of_an_agent_filter_what_was_found() -> None:
    """Untagged tools, and those of servers, are not offered once tags are asked for."""
    toolset = await resolve(
        [lookup_order, cancel_order, untagged, mcp_tools("time")], tools=[Servers(time=["now"])], tags={"safe"}
    )
    assert list(toolset.tools) == ["lookup_order"]
