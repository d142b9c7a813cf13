"""Where entries are kept: the seam that a database fills as well, and a registry in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from handrail.errors import MCPEntryError
from handrail.mcp.entry import MCPServerEntry

__all__ = ["InMemoryMCPServerRegistry", "MCPServerRegistry"]


class MCPServerRegistry(Protocol):
    """Entries of MCP servers, by id.

    What is stored is not trusted: an entry is validated when it is saved, loaded and listed, and crosses the
    boundary as a copy.
    """

    async def save_server(self, entry: MCPServerEntry | Mapping[str, Any]) -> MCPServerEntry:
        """Store an entry in place of any other with its id, and return it as it was stored.

        Raises:
            MCPEntryError: If it cannot be accepted. Nothing is stored then.
        """
        ...

    async def load_server(self, server_id: str) -> MCPServerEntry | None:
        """Return an entry, or None where there is none.

        Raises:
            MCPEntryError: If what is stored cannot be accepted.
        """
        ...

    async def list_servers(self) -> list[MCPServerEntry]:
        """Return all entries, in the order of their ids.

        Raises:
            MCPEntryError: If one that is stored cannot be accepted.
        """
        ...

    async def delete_server(self, server_id: str) -> bool:
        """Remove an entry, and tell whether it was there."""
        ...


class InMemoryMCPServerRegistry:
    """A registry for one process.

    Args:
        entries: Entries to begin with.

    Raises:
        MCPEntryError: If one of them cannot be accepted.
    """

    def __init__(self, *entries: MCPServerEntry | Mapping[str, Any]) -> None:
        self._entries: dict[str, MCPServerEntry] = {}
        for entry in entries:
            self.register(entry)

    def register(self, entry: MCPServerEntry | Mapping[str, Any] | None = None, /, **fields: Any) -> MCPServerEntry:
        """Store an entry at once, from an entry, a mapping, or keyword arguments.

        Returns:
            The entry as it was stored.

        Raises:
            MCPEntryError: If it cannot be accepted. Nothing is stored then.
        """
        if (entry is None) is not bool(fields):
            raise MCPEntryError("register takes either one entry or the fields of one", field="entry")
        checked = MCPServerEntry.parse(fields if entry is None else entry)
        self._entries[checked.id] = checked
        return checked.checked_copy()

    async def save_server(self, entry: MCPServerEntry | Mapping[str, Any]) -> MCPServerEntry:
        """Store an entry; see :meth:`MCPServerRegistry.save_server`."""
        return self.register(entry)

    async def load_server(self, server_id: str) -> MCPServerEntry | None:
        """Return an entry, or None; see :meth:`MCPServerRegistry.load_server`."""
        entry = self._entries.get(server_id)
        return None if entry is None else entry.checked_copy()

    async def list_servers(self) -> list[MCPServerEntry]:
        """Return all entries; see :meth:`MCPServerRegistry.list_servers`."""
        return [self._entries[server_id].checked_copy() for server_id in sorted(self._entries)]

    async def delete_server(self, server_id: str) -> bool:
        """Remove an entry; see :meth:`MCPServerRegistry.delete_server`."""
        return self._entries.pop(server_id, None) is not None
