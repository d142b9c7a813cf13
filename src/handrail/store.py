"""The database: SQLite or PostgreSQL behind one URL, one set of tables, one transaction for each step.

This is the only module that imports SQLAlchemy, and nothing imports it before a database is used. Statements are
built from the tables below, so that a caller needs no import of its own::

    store = Store("sqlite:///handrail.db")
    async with store.transaction() as connection:
        await connection.execute(mcp_servers.delete().where(mcp_servers.c.id == "time"))

SQLite migrates itself at the first transaction. A PostgreSQL schema changes only when an operator says so, with
:func:`upgrade`; until then a store refuses to work on an old one.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import uuid
import weakref
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, quote_plus

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Dialect
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool

from handrail.errors import StoreError

__all__ = ["SCHEMA", "Store", "mcp_servers", "metadata", "schema_version", "upgrade", "upsert"]

SCHEMA = "0001"
"""The revision of the schema that this version of Handrail works with: the newest in ``migrations/versions``."""

VERSION_TABLE = "handrail_schema"
"""Where a database says which revision it has. Not alembic's own name, which the application may be using."""

MIGRATIONS = Path(__file__).with_name("migrations")

_BUSY_MS = 10_000
_WRITES = "handrail_writes"
_UPGRADE_KEY = 0x68616E647261696C
_upgrading = threading.Lock()


class _Hidden(str):
    """A text that no log of a driver shows."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class HiddenText(sa.types.TypeDecorator[str]):
    """A text that may hold secrets: never shown where statements, parameters or rows are logged."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Hide a value on its way to the driver."""
        return None if value is None else _Hidden(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Hide a value on its way back."""
        return None if value is None else _Hidden(value)


metadata = sa.MetaData()

mcp_servers = sa.Table(
    "mcp_servers",
    metadata,
    # An absent tenant is the empty text: NULL cannot be part of a key.
    sa.Column("tenant", sa.String(255), primary_key=True),
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("transport", sa.String(16), nullable=False, index=True),
    # JSON as text: what was saved comes back as it was, in the same order, also where jsonb would refuse it.
    sa.Column("entry", HiddenText, nullable=False),
)
"""Entries of MCP servers, by tenant and id. See :mod:`handrail.mcp.sql_registry`."""


def upsert(dialect: str, table: sa.Table, values: Mapping[str, object]) -> sa.Executable:
    """Build the statement that inserts a row, or replaces the one that has its primary key.

    Args:
        dialect: The name of the connection's dialect.
        table: The table.
        values: A value for each column.
    """
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement = insert(table).values(values)
    keys = [column.name for column in table.primary_key.columns]
    changed = {name: statement.excluded[name] for name in values if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


class _Address:
    """A database's URL: as the drivers take it, and as it may be shown."""

    def __init__(self, url: str) -> None:
        parsed = _parse(url)
        self.secrets = _secrets(parsed)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.is_memory = self.is_sqlite and parsed.database in (None, "", ":memory:")
        shown = parsed.set(query={}).render_as_string(hide_password=True)
        self.shown = "sqlite://" if self.is_memory else shown
        if self.is_memory:
            parsed = parsed.set(
                database=f"file:handrail-{uuid.uuid4().hex}",
                query={"mode": "memory", "cache": "shared", "uri": "true"},
            )
        self.path = None if self.is_memory or not self.is_sqlite else Path(str(parsed.database))
        self.asynchronous = parsed.set(drivername="sqlite+aiosqlite" if self.is_sqlite else "postgresql+psycopg")
        self.synchronous = parsed.set(drivername="sqlite+pysqlite" if self.is_sqlite else "postgresql+psycopg")

    def hold(self) -> sqlite3.Connection:
        """Open a database in memory, which lasts as long as the connection."""
        where = f"{self.synchronous.database}?mode=memory&cache=shared"
        return sqlite3.connect(where, uri=True, check_same_thread=False)

    def failure(self, error: SQLAlchemyError) -> StoreError:
        """Say what went wrong, without the values that it went wrong with."""
        text = _words(error)
        for secret in self.secrets:
            text = text.replace(secret, "***")
        hint = "another process has been writing for too long" if "database is locked" in text else None
        return StoreError(f"the database {self.shown} failed: {text}", hint=hint, database=self.shown)


def _parse(url: str) -> URL:
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    forms = "write sqlite:///path/to/file.db, sqlite:// (in memory) or postgresql://user@host/database"
    if parsed is None:
        raise StoreError("the database URL cannot be read", hint=forms)
    if parsed.drivername == "postgres":
        parsed = parsed.set(drivername="postgresql")
    if parsed.drivername not in ("sqlite", "sqlite+aiosqlite", "postgresql", "postgresql+psycopg"):
        raise StoreError(f"the database URL has the scheme {parsed.drivername!r}", hint=forms)
    if parsed.get_backend_name() == "sqlite" and parsed.query:
        raise StoreError(f"the database URL has the option {next(iter(parsed.query))!r}", hint="SQLite takes none")
    return parsed


def _secrets(url: URL) -> tuple[str, ...]:
    found = [str(url.password)] if url.password else []
    found += [str(value) for key, value in url.query.items() if "pass" in key.lower()]
    return tuple(
        dict.fromkeys(form for secret in found if secret for form in (secret, quote(secret), quote_plus(secret)))
    )


def _words(error: SQLAlchemyError) -> str:
    original = error.orig if isinstance(error, DBAPIError) else None
    if original is None:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    # PostgreSQL's primary message holds no values of rows; its details do.
    primary: object = getattr(getattr(original, "diag", None), "message_primary", None)
    text = primary if isinstance(primary, str) else str(original).strip().partition("\n")[0]
    return f"{type(original).__name__}: {text}"


class Store:
    """A database, for any number of tasks, and for one event loop after another.

    Connections belong to the loop in which they were opened, and are closed when it ends. A database in memory
    (``sqlite://``) lasts until the store is closed; it takes one transaction at a time, so one inside of another
    waits for ever.

    Args:
        url: ``sqlite:///path``, ``sqlite://`` or ``postgresql://...``. Its password is never shown.

    Raises:
        StoreError: If the URL cannot be used, or a driver is not installed.
    """

    def __init__(self, url: str) -> None:
        self._address = _Address(url)
        self._engines: dict[asyncio.AbstractEventLoop, _Engine] = {}
        self._release: weakref.finalize[Any, Any] | None = None
        self._checked = False

    def __repr__(self) -> str:
        return f"Store({self._address.shown!r})"

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def transaction(self, *, write: bool = True) -> AsyncGenerator[AsyncConnection]:
        """Open a transaction: committed at the end of the block, rolled back when it raises.

        Args:
            write: Whether the block may write. SQLite has one writer at a time, and the others wait for it here
                rather than fail in the middle.

        Raises:
            StoreError: If the database fails, or its schema is not the one of this version.
        """
        try:
            held = self._here()
            await self._check(held)
            async with held.engine.connect() as connection:
                await connection.execution_options(**{_WRITES: write})
                async with connection.begin():
                    yield connection
        except SQLAlchemyError as error:
            raise self._address.failure(error) from None

    async def close(self) -> None:
        """Close the connections of this event loop. The store may be used again; one in memory begins empty."""
        held = self._engines.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held.end()
        if self._release is not None:
            self._release()
            self._release, self._checked = None, False

    def _here(self) -> _Engine:
        loop = asyncio.get_running_loop()
        if (held := self._engines.get(loop)) is None:
            if self._address.is_memory and self._release is None:
                self._release = weakref.finalize(self, self._address.hold().close)
            for other in [other for other in self._engines if other.is_closed()]:
                del self._engines[other]
            held = self._engines[loop] = _Engine(self._address)
        return held

    async def _check(self, held: _Engine) -> None:
        async with held.lock:
            await held.keep(self._engines)
            if self._checked:
                return
            _create(self._address)
            async with held.engine.connect() as connection:
                await connection.execution_options(**{_WRITES: False})
                revision = await connection.run_sync(_revision)
            if revision != SCHEMA:
                if not self._address.is_sqlite or _is_newer(revision):
                    raise _wrong_schema(self._address, revision)
                # In a thread: loading alembic takes a second, and another process may be migrating.
                await asyncio.to_thread(_upgrade, self._address)
            self._checked = True


class _Engine:
    """The connections of one event loop."""

    def __init__(self, address: _Address) -> None:
        self.lock = asyncio.Lock()
        self.engine = _open(address)
        self._keeper: AsyncGenerator[None] | None = None

    async def keep(self, engines: dict[asyncio.AbstractEventLoop, _Engine]) -> None:
        """See to it that the connections are closed before the loop is.

        A loop that ends closes its asynchronous generators first: the one moment at which connections that
        nobody closed can still be closed properly.
        """
        if self._keeper is None:
            self._keeper = _until_the_end(self.engine, engines)
            await anext(self._keeper)

    async def end(self) -> None:
        """Close the connections."""
        if self._keeper is not None:
            await self._keeper.aclose()
        await self.engine.dispose()


async def _until_the_end(
    engine: AsyncEngine, engines: dict[asyncio.AbstractEventLoop, _Engine]
) -> AsyncGenerator[None]:
    loop = asyncio.get_running_loop()
    try:
        yield
    finally:
        engines.pop(loop, None)
        await engine.dispose()


def _open(address: _Address) -> AsyncEngine:
    options: dict[str, Any] = {"hide_parameters": True}
    if address.is_memory:
        # Connections that share a memory lock each other's tables, and do not wait.
        options |= {"poolclass": AsyncAdaptedQueuePool, "pool_size": 1, "max_overflow": 0}
    if not address.is_sqlite:
        options |= {"pool_pre_ping": True, "connect_args": _connect_args(address)}
    with _drivers(address):
        engine = create_async_engine(address.asynchronous, **options)
    _prepare(engine.sync_engine, address)
    return engine


@contextmanager
def _blocking(address: _Address, *, write: bool = True) -> Generator[sa.Connection]:
    """One transaction on a connection of its own, for a thread."""
    try:
        arguments = {} if address.is_sqlite else _connect_args(address)
        with _drivers(address):
            engine = sa.create_engine(
                address.synchronous, poolclass=NullPool, hide_parameters=True, connect_args=arguments
            )
        _prepare(engine, address)
        with engine.connect() as connection:
            connection.execution_options(**{_WRITES: write})
            with connection.begin():
                yield connection
    except SQLAlchemyError as error:
        raise address.failure(error) from None


@contextmanager
def _drivers(address: _Address) -> Generator[None]:
    try:
        yield
    except ImportError as error:
        raise StoreError(
            f"the database {address.shown} needs {error.name}, which is not installed",
            hint="pip install 'handrail[sql]'",
        ) from error


def _connect_args(address: _Address) -> dict[str, Any]:
    return {} if "connect_timeout" in address.asynchronous.query else {"connect_timeout": 10}


def _prepare(engine: sa.Engine, address: _Address) -> None:
    if not address.is_sqlite:
        return

    def connected(connection: Any, _record: object) -> None:
        # The driver begins no transaction by itself then; the next function does.
        connection.isolation_level = None
        cursor = connection.cursor()
        try:
            for pragma in (f"busy_timeout = {_BUSY_MS}", "synchronous = NORMAL", "foreign_keys = ON"):
                cursor.execute(f"PRAGMA {pragma}")
            cursor.close()
        except BaseException:
            # The file is no database. Nobody else closes a connection that was never handed out.
            connection.close()
            raise

    def begun(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, True)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)


def _create(address: _Address) -> None:
    """Create a database's file for its owner alone, since it may hold secrets.

    The asynchronous driver is not left to find out that it cannot be opened: it leaves a thread behind then.
    """
    path = address.path
    if path is None or (path.is_file() and os.access(path, os.R_OK)):
        return
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        # Another process was faster, or what is there cannot be read.
        failure = None if path.is_file() and os.access(path, os.R_OK) else "not a file that this process may read"
    except OSError as error:
        failure = error.strerror
    else:
        failure = None
    if failure is not None:
        raise StoreError(
            f"the database {address.shown} cannot be opened: {failure}",
            hint="does the directory exist, and may this process write to it?",
            database=address.shown,
        )


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return None if found is None else str(found)


def _is_newer(revision: str | None) -> bool:
    return revision is not None and revision > SCHEMA


def _wrong_schema(address: _Address, revision: str | None) -> StoreError:
    found = f"has the revision {revision!r}" if revision else "is empty"
    return StoreError(
        f"the schema of {address.shown} {found}, and this version of Handrail works with {SCHEMA!r}",
        hint="install a newer Handrail" if _is_newer(revision) else "run: handrail db upgrade",
        database=address.shown,
    )


def schema_version(url: str) -> str | None:
    """Return the revision of a database's schema, or None where Handrail has no tables.

    Raises:
        StoreError: If the database cannot be read.
    """
    address = _Address(url)
    if address.path is not None and not address.path.exists():
        return None
    with _blocking(address, write=False) as connection:
        return _revision(connection)


def upgrade(url: str) -> str:
    """Bring the schema of a database up to date, in one transaction. Blocks; several processes may do it at once.

    Returns:
        The revision that it has now.

    Raises:
        StoreError: If the database fails, or was written by a newer version of Handrail.
    """
    address = _Address(url)
    _create(address)
    _upgrade(address)
    return SCHEMA


def _upgrade(address: _Address) -> None:
    if address.path is not None:
        _use_write_ahead_log(address.path)
    # Alembic keeps the migration that is under way in a global variable.
    with _upgrading, _blocking(address) as connection:
        if not address.is_sqlite:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_KEY})
        revision = _revision(connection)
        if _is_newer(revision):
            raise _wrong_schema(address, revision)
        if revision != SCHEMA:
            _migrate(connection)


def _migrate(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _use_write_ahead_log(path: Path) -> None:
    """Let readers and a writer work side by side. The file remembers it."""
    try:
        with closing(sqlite3.connect(path, timeout=_BUSY_MS / 1000)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error:
        return  # another process is at it, or the migration will say what is wrong with the file
