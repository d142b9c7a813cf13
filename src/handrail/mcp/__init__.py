"""MCP servers as a source of tools: entries, a registry, and connections that survive real servers.

A *registry* holds what an operator trusts: commands, addresses and secrets, by the server's id. Agents see
ids and tool names only. A *manager* resolves ids to tools, and keeps one connection for each server in use.

Nothing here loads the ``mcp`` package: :mod:`handrail.mcp.session` does, when the first connection opens.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handrail.mcp.entry import (
        HTTPTransport,
        MCPServerEntry,
        SSETransport,
        StdioTransport,
        allow_commands,
        check_literal_url,
    )
    from handrail.mcp.manager import MCPConnectionManager
    from handrail.mcp.registry import InMemoryMCPServerRegistry, MCPServerRegistry

__all__ = [
    "HTTPTransport",
    "InMemoryMCPServerRegistry",
    "MCPConnectionManager",
    "MCPServerEntry",
    "MCPServerRegistry",
    "SSETransport",
    "StdioTransport",
    "allow_commands",
    "check_literal_url",
]

_HOMES = {
    "HTTPTransport": "entry",
    "InMemoryMCPServerRegistry": "registry",
    "MCPConnectionManager": "manager",
    "MCPServerEntry": "entry",
    "MCPServerRegistry": "registry",
    "SSETransport": "entry",
    "StdioTransport": "entry",
    "allow_commands": "entry",
    "check_literal_url": "entry",
}


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
