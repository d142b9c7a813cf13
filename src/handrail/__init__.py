"""Handrail: tools that LLM agents can be trusted with.

One declaration covers built-in tools, Python functions and MCP servers; everything is checked before the first token;
every call goes through one gate; every result carries where it came from.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from handrail.agent import Agent
    from handrail.calls import Call
    from handrail.errors import HandrailError, PreflightError, Problem, RunError, ToolError
    from handrail.mcp.entry import MCPServerEntry
    from handrail.mcp.manager import MCPConnectionManager
    from handrail.mcp.registry import InMemoryMCPServerRegistry
    from handrail.policy import AllowAll, ApprovalRequest, CallRequest, Decision, Policy
    from handrail.runner import run, run_sync, stream
    from handrail.runs import RunResult
    from handrail.sources import mcp_tools
    from handrail.tools import Link, Media, Text, Tool, ToolContext, ToolResult, define_tool, tool
    from handrail.toolset import ToolResolver, Toolset, resolve

_HOMES = {
    "Agent": "agent",
    "AllowAll": "policy",
    "ApprovalRequest": "policy",
    "Call": "calls",
    "CallRequest": "policy",
    "Decision": "policy",
    "HandrailError": "errors",
    "InMemoryMCPServerRegistry": "mcp.registry",
    "Link": "tools",
    "MCPConnectionManager": "mcp.manager",
    "MCPServerEntry": "mcp.entry",
    "Media": "tools",
    "Policy": "policy",
    "PreflightError": "errors",
    "Problem": "errors",
    "RunError": "errors",
    "RunResult": "runs",
    "Text": "tools",
    "Tool": "tools",
    "ToolContext": "tools",
    "ToolError": "errors",
    "ToolResolver": "toolset",
    "ToolResult": "tools",
    "Toolset": "toolset",
    "define_tool": "tools",
    "mcp_tools": "sources",
    "resolve": "toolset",
    "run": "runner",
    "run_sync": "runner",
    "stream": "runner",
    "tool": "tools",
}

__all__ = [
    "Agent",
    "AllowAll",
    "ApprovalRequest",
    "Call",
    "CallRequest",
    "Decision",
    "HandrailError",
    "InMemoryMCPServerRegistry",
    "Link",
    "MCPConnectionManager",
    "MCPServerEntry",
    "Media",
    "Policy",
    "PreflightError",
    "Problem",
    "RunError",
    "RunResult",
    "Text",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResolver",
    "ToolResult",
    "Toolset",
    "define_tool",
    "mcp_tools",
    "resolve",
    "run",
    "run_sync",
    "stream",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'handrail' has no attribute {name!r}")
    value = getattr(import_module(f"handrail.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
