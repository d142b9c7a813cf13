"""A registry in a database: SQLite or PostgreSQL, for one tenant or many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

from handrail.errors import MCPEntryError, StoreError
from handrail.mcp.entry import MCPServerEntry
from handrail.naming import is_name

if TYPE_CHECKING:
    from handrail.store import Store

__all__ = ["SQLMCPServerRegistry"]


class SQLMCPServerRegistry:
    """Entries in a database, checked when they are saved, loaded and listed.

    A row that got there in another way is not trusted: one with a shell's command or a private address is
    refused when it is read.

    A secret that an entry holds as ``${env:NAME}`` is stored as that reference. A literal secret is stored as it
    was given, so whoever may read the table may read it; it is never logged, and never part of an error.

    Args:
        store: A store, or the URL of one: ``sqlite:///path``, ``sqlite://`` or ``postgresql://...``.
        tenant: Whose entries these are. A tenant neither sees nor replaces those of another, and None is a
            tenant like any other.

    Raises:
        StoreError: If the URL or the tenant cannot be used.
    """

    def __init__(self, store: Store | str, *, tenant: str | None = None) -> None:
        if tenant is not None and not _is_tenant(tenant):
            raise StoreError(f"the tenant {tenant!r} cannot be used", hint="1 to 255 printable characters, or None")
        self._owns_store = isinstance(store, str)
        self._store = _open(store) if isinstance(store, str) else store
        self._tenant = "" if tenant is None else tenant

    def __repr__(self) -> str:
        return f"SQLMCPServerRegistry({self._store!r}, tenant={self._tenant or None!r})"

    async def __aenter__(self) -> SQLMCPServerRegistry:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def save_server(self, entry: MCPServerEntry | Mapping[str, Any]) -> MCPServerEntry:
        """Store an entry; see :meth:`~handrail.mcp.registry.MCPServerRegistry.save_server`.

        Raises:
            StoreError: If the database fails.
        """
        from handrail.store import mcp_servers, upsert

        checked = MCPServerEntry.parse(entry)
        row = {
            "tenant": self._tenant,
            "id": checked.id,
            "transport": checked.transport.type,
            "entry": json.dumps(checked.reveal(), allow_nan=False),
        }
        async with self._store.transaction() as connection:
            await connection.execute(upsert(connection.dialect.name, mcp_servers, row))
        return checked

    async def load_server(self, server_id: str) -> MCPServerEntry | None:
        """Return an entry, or None; see :meth:`~handrail.mcp.registry.MCPServerRegistry.load_server`.

        Raises:
            StoreError: If the database fails.
        """
        from handrail.store import mcp_servers

        if not is_name(server_id):
            return None
        query = mcp_servers.select().where(*self._key(server_id))
        async with self._store.transaction(write=False) as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else _read(row.id, row.transport, row.entry)

    async def list_servers(self, *, invalid: Literal["raise", "skip"] = "raise") -> list[MCPServerEntry]:
        """Return all entries; see :meth:`~handrail.mcp.registry.MCPServerRegistry.list_servers`.

        Args:
            invalid: What to do where a stored entry cannot be accepted: raise an error that names it, or leave
                it out.

        Raises:
            StoreError: If the database fails.
        """
        from handrail.store import mcp_servers

        query = mcp_servers.select().where(mcp_servers.c.tenant == self._tenant)
        async with self._store.transaction(write=False) as connection:
            rows = (await connection.execute(query)).all()
        entries: list[MCPServerEntry] = []
        # Sorted here, since databases differ in how they order text.
        for row in sorted(rows, key=lambda row: str(row.id)):
            try:
                entries.append(_read(row.id, row.transport, row.entry))
            except MCPEntryError:
                if invalid == "raise":
                    raise
        return entries

    async def delete_server(self, server_id: str) -> bool:
        """Remove an entry; see :meth:`~handrail.mcp.registry.MCPServerRegistry.delete_server`.

        An entry that cannot be read any more can still be removed.

        Raises:
            StoreError: If the database fails.
        """
        from handrail.store import mcp_servers

        if not is_name(server_id):
            return False
        async with self._store.transaction() as connection:
            result = await connection.execute(mcp_servers.delete().where(*self._key(server_id)))
        return result.rowcount > 0

    async def close(self) -> None:
        """Close the connections, if the registry was made from a URL. A store that was given stays open."""
        if self._owns_store:
            await self._store.close()

    def _key(self, server_id: str) -> tuple[Any, Any]:
        from handrail.store import mcp_servers

        return mcp_servers.c.tenant == self._tenant, mcp_servers.c.id == server_id


def _is_tenant(tenant: str) -> bool:
    return 0 < len(tenant) <= 255 and tenant.isprintable()


def _open(url: str) -> Store:
    try:
        from handrail.store import Store
    except ImportError as error:
        raise StoreError(
            f"a registry in a database needs {error.name}, which is not installed",
            hint="pip install 'handrail[sql]'",
        ) from error
    return Store(url)


def _read(server_id: object, transport: object, text: object) -> MCPServerEntry:
    """Check what was found in a row, as strictly as what is saved."""
    known = str(server_id)[:64]
    data = _parse(text)
    if data is None:
        fault = "is not a JSON object"
    elif data.get("id") != server_id:
        fault = "is that of another server"
    else:
        entry = MCPServerEntry.parse(data)
        if entry.transport.type == transport:
            return entry
        fault = f"is not of the kind {str(transport)[:16]!r}"
    raise MCPEntryError(
        f"MCP server entry {known!r}: what is stored {fault}",
        hint="save the entry again, or delete it",
        server=known,
        field="entry",
    )


def _parse(text: object) -> dict[str, Any] | None:
    # The parser's own error holds the whole text.
    try:
        data: object = json.loads(str(text))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", data) if isinstance(data, dict) else None
