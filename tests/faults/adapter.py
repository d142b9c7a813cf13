"""The fault cases' view of Handrail: each call of theirs is one call of the public API."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from handrail import Call, Tool, ToolContext, ToolError, Toolset, tool
from handrail.mcp.results import read_result
from handrail.naming import wire_name
from handrail.netguard import url_allowed
from handrail.schema.foreign import import_schema
from handrail.tools import RemoteResult
from handrail.toolset import call_sync


class Outcome:
    """A result in the words of the cases."""

    def __init__(self, result: Any) -> None:
        self.ok, self.cat, self.value = not result.is_error, result.code, result.value
        self.wire, self.msg, self.call_id = result.wire, result.message, result.call_id
        self.as_dict = result.as_dict


class Lib:
    """What the cases call."""

    Context, ToolError, tool = ToolContext, ToolError, staticmethod(tool)

    def build(self, fn: Any, **options: Any) -> Tool:
        if "max_result_chars" in options:
            options["max_result_bytes"] = options.pop("max_result_chars")
        said = fn.__doc__ or type(fn).__call__.__doc__
        if not said or said.startswith("Call self"):
            options.setdefault("description", "A case's tool.")
        return tool(fn, **options)

    def schema(self, t: Tool) -> Any:
        return t.parameters

    def out_schema(self, t: Tool) -> Any:
        return t.output_schema

    async def invoke(self, t: Tool, raw: Any, deps: Any = None) -> Outcome:
        return Outcome(await Toolset.of(t).call(t.name, raw, context=ToolContext(deps=deps)))

    def registry(self, tools: list[Tool]) -> Toolset:
        return Toolset.of(*tools)

    def select(self, registry: Toolset, names: list[str] | None) -> Toolset:
        return registry.filter(names=names)

    async def run_batch(self, registry: Toolset, calls: list[tuple[Any, str, Any]]) -> list[Outcome]:
        results = await registry.call_all([Call(name, raw, call_id) for call_id, name, raw in calls])
        return [Outcome(result) for result in results]

    def run_sync(self, t: Tool, raw: Any) -> Outcome:
        return Outcome(call_sync(Toolset.of(t), t.name, raw))

    def needs_approval(self, t: Tool, raw: Any) -> bool:
        return t.approval_needed(raw)

    def export_name(self, server: str, name: str) -> str:
        return wire_name("mcp", server, name)

    def import_schema(self, schema: Any) -> Any:
        return import_schema(schema)

    def build_remote(self, name: str, schema: Any, send: Any) -> Tool:
        async def forward(arguments: Any, context: ToolContext) -> RemoteResult:
            return read_result("server", await send(arguments))

        return Tool.remote(name=name, description="Remote.", parameters=schema, server="server", send=forward)

    def render_mcp_result(self, answer: Any) -> Outcome:
        async def forward(arguments: Any, context: ToolContext) -> RemoteResult:
            return read_result("server", answer)

        remote = Tool.remote(name="t", description="Remote.", parameters={}, server="server", send=forward)
        with ThreadPoolExecutor(1) as pool:  # the cases ask for it from inside an event loop
            return Outcome(pool.submit(call_sync, Toolset.of(remote), "t").result())

    def url_allowed(self, url: str, resolver: Any) -> bool:
        return url_allowed(url, resolver)
