"""MCP servers as a source of tools: entries, a registry, and connections that survive real servers.

A *registry* holds what an operator trusts: commands, addresses and secrets, by the server's id. Agents see
ids and tool names only. A *manager* resolves ids to tools, and keeps one connection for each server in use.

Nothing here loads the ``mcp`` package: :mod:`handrail.mcp.session` does, when the first connection opens.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handrail.mcp.breaker import BreakerOptions
    from handrail.mcp.config import LoadedConfig, dump_mcp_config, load_mcp_config
    from handrail.mcp.defaults import register_default_mcp_servers
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
    from handrail.mcp.sql_registry import SQLMCPServerRegistry

__all__ = [
    "BreakerOptions",
    "HTTPTransport",
    "InMemoryMCPServerRegistry",
    "LoadedConfig",
    "MCPConnectionManager",
    "MCPServerEntry",
    "MCPServerRegistry",
    "SQLMCPServerRegistry",
    "SSETransport",
    "StdioTransport",
    "allow_commands",
    "check_literal_url",
    "dump_mcp_config",
    "load_mcp_config",
    "register_default_mcp_servers",
]

_HOMES = {
    "BreakerOptions": "breaker",
    "HTTPTransport": "entry",
    "InMemoryMCPServerRegistry": "registry",
    "LoadedConfig": "config",
    "MCPConnectionManager": "manager",
    "MCPServerEntry": "entry",
    "MCPServerRegistry": "registry",
    "SQLMCPServerRegistry": "sql_registry",
    "SSETransport": "entry",
    "StdioTransport": "entry",
    "allow_commands": "entry",
    "check_literal_url": "entry",
    "dump_mcp_config": "config",
    "load_mcp_config": "config",
    "register_default_mcp_servers": "defaults",
}


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
