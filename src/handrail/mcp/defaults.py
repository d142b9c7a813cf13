"""Two servers that most agents can use: a web search, and one that fetches a page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from handrail.errors import MCPEntryError
from handrail.mcp.entry import MCPServerEntry
from handrail.mcp.registry import MCPServerRegistry
from handrail.naming import did_you_mean

__all__ = ["register_default_mcp_servers"]

_SERVERS: tuple[dict[str, Any], ...] = (
    {
        "id": "web-search",
        "name": "Web search",
        "description": "Search the web with Brave Search. Needs the variable BRAVE_API_KEY.",
        "transport": {
            "type": "stdio",
            "command": "npx",
            "args": ["--silent", "-y", "@modelcontextprotocol/server-brave-search"],
            "env": {"BRAVE_API_KEY": "${env:BRAVE_API_KEY}"},
        },
    },
    {
        "id": "fetch",
        "name": "Fetch",
        "description": "Fetch a page and read it as Markdown.",
        "transport": {"type": "stdio", "command": "uvx", "args": ["mcp-server-fetch"]},
    },
)


async def register_default_mcp_servers(
    registry: MCPServerRegistry,
    *,
    only: Collection[str] | None = None,
    exclude: Collection[str] = (),
    allowed_agents: Sequence[str] | None = None,
) -> list[str]:
    """Save the default servers, in place of what the registry has under their ids.

    The API key of the search stays a reference: the variable is read when the server starts.

    Args:
        registry: Where to save them.
        only: The ids to save: of ``web-search`` and ``fetch``. None means both, an empty list neither.
        exclude: Ids that are not saved, even where ``only`` names them.
        allowed_agents: The agents that may use them. None means everyone, an empty list nobody.

    Returns:
        The ids that were saved.

    Raises:
        MCPEntryError: If an id is unknown, or the entries cannot be accepted. Nothing is saved then.
    """
    known = [server["id"] for server in _SERVERS]
    for name in (*(only or ()), *exclude):
        if name not in known:
            raise MCPEntryError(
                f"there is no default MCP server {name!r}", hint=did_you_mean(name, known), server=name, field="id"
            )
    entries = [
        MCPServerEntry.parse(server | {"allowed_agents": allowed_agents})
        for server in _SERVERS
        if (only is None or server["id"] in only) and server["id"] not in exclude
    ]
    for entry in entries:
        await registry.save_server(entry)
    return [entry.id for entry in entries]
