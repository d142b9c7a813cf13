"""The database: one URL, one transaction for each step, a schema that is looked after, and no secret shown."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import re
import sqlite3
import stat
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from handrail import store as store_module
from handrail.errors import StoreError
from handrail.store import SCHEMA, Store, mcp_servers, metadata, schema_version, upgrade, upsert

ROW: dict[str, Any] = {"tenant": "", "id": "a", "transport": "stdio", "entry": "{}"}
SECRET = "p@ss/w:rd"


async def count(store: Store) -> int:
    async with store.transaction(write=False) as connection:
        return len((await connection.execute(mcp_servers.select())).all())


async def put(store: Store, **fields: str) -> None:
    async with store.transaction() as connection:
        await connection.execute(upsert(connection.dialect.name, mcp_servers, ROW | fields))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'handrail.db'}"


# ---- URLs


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("nonsense", "cannot be read"),
        ("", "cannot be read"),
        (f"postgresql//handrail:{SECRET}@host/db", "cannot be read"),
        (f"mysql://handrail:{SECRET}@host/db", "'mysql'"),
        (f"postgresql+asyncpg://handrail:{SECRET}@host/db", "'postgresql+asyncpg'"),
        ("sqlite:///file.db?mode=ro", "'mode'"),
    ],
)
def test_a_url_that_cannot_be_used(url: str, part: str) -> None:
    """The error says what to write, and shows no password."""
    with pytest.raises(StoreError, match=re.escape(part)) as caught:
        Store(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite://", "sqlite://"),
        ("sqlite:///:memory:", "sqlite://"),
        ("sqlite+aiosqlite:///a/b.db", "sqlite+aiosqlite:///a/b.db"),
        ("postgresql://handrail:hunter2@host:5432/db?sslpassword=hunter3", "postgresql://handrail:***@host:5432/db"),
        ("postgres://host/db", "postgresql://host/db"),
        ("postgresql+psycopg://host/db", "postgresql+psycopg://host/db"),
    ],
)
def test_what_a_store_shows(url: str, shown: str) -> None:
    """A store shows where it is, without a password and without the options of the URL."""
    assert repr(Store(url)) == f"Store({shown!r})"


async def test_a_server_that_is_not_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A connection that fails is a StoreError that names the database and holds no password in any spelling."""
    caplog.set_level(logging.DEBUG)
    store = Store(f"postgresql://handrail:p%40ss%2Fw%3Ard@/db?host={tmp_path}")
    with pytest.raises(StoreError, match="connection") as caught:
        await count(store)
    text = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value)) + caplog.text
    assert SECRET not in text
    assert "p%40ss" not in text
    await store.close()


async def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """A SQLite file that cannot be opened is a StoreError that says where to look."""
    for path in (f"{tmp_path}/none/handrail.db", f"{tmp_path}"):
        async with Store(f"sqlite:///{path}") as store:
            with pytest.raises(StoreError, match="directory exist"):
                await count(store)
        with pytest.raises(StoreError, match="cannot be opened"):
            upgrade(f"sqlite:///{path}")


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """A file of another kind is a StoreError, and stays as it is."""
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but a text that is long enough to look like one\n" * 20)
    before = path.read_bytes()
    async with Store(f"sqlite:///{path}") as store:
        with pytest.raises(StoreError, match="not a database"):
            await count(store)
    assert path.read_bytes() == before


# ---- transactions


async def test_a_block_is_a_transaction(url: str) -> None:
    """A block that ends is committed, one that raises is rolled back, and its own error comes through."""
    async with Store(url) as store:
        await put(store)

        async def work() -> None:
            async with store.transaction() as connection:
                await connection.execute(mcp_servers.delete())
                raise KeyError("mine")

        with pytest.raises(KeyError):
            await work()
        assert await count(store) == 1


async def test_a_statement_that_fails(url: str) -> None:
    """A statement that the database refuses is a StoreError without its values; the block is rolled back."""
    async with Store(url) as store:
        await put(store)

        async def work() -> None:
            async with store.transaction() as connection:
                await connection.execute(mcp_servers.insert().values(**ROW | {"id": "b"}))
                await connection.execute(mcp_servers.insert().values(**ROW | {"entry": SECRET}))

        with pytest.raises(StoreError, match="UNIQUE constraint") as caught:
            await work()
        assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert await count(store) == 1


async def test_upsert_replaces(url: str) -> None:
    """A second row with the same key takes the place of the first."""
    async with Store(url) as store:
        await put(store)
        await put(store, entry='{"a": 1}', transport="http")
        async with store.transaction(write=False) as connection:
            (row,) = (await connection.execute(mcp_servers.select())).all()
        assert (row.entry, row.transport) == ('{"a": 1}', "http")


@pytest.mark.parametrize("memory", [True, False])
async def test_writers_wait_for_each_other(url: str, memory: bool) -> None:
    """Reads and writes in one transaction are not lost to other tasks that do the same."""
    async with Store("sqlite://" if memory else url) as store:
        await put(store, entry="0")

        async def add() -> None:
            async with store.transaction() as connection:
                (row,) = (await connection.execute(mcp_servers.select())).all()
                await asyncio.sleep(0)
                await connection.execute(mcp_servers.update().values(entry=str(int(row.entry) + 1)))

        await asyncio.gather(*(add() for _ in range(20)))
        async with store.transaction(write=False) as connection:
            assert (await connection.execute(mcp_servers.select())).one().entry == "20"


async def test_a_cancelled_block_is_rolled_back(url: str) -> None:
    """Cancelling a task in the middle of a transaction leaves nothing behind, and no lock."""
    async with Store(url) as store:
        await put(store)
        inside = asyncio.Event()

        async def work() -> None:
            async with store.transaction() as connection:
                await connection.execute(mcp_servers.delete())
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await count(store) == 1
        await put(store, id="b")


async def test_a_writer_that_does_not_end(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that waited too long for another process is a StoreError; reading goes on meanwhile."""
    monkeypatch.setattr(store_module, "_BUSY_MS", 50)
    async with Store(url) as store:
        await put(store)
        with contextlib.closing(sqlite3.connect(tmp_path / "handrail.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert await count(store) == 1
            with pytest.raises(StoreError, match="writing for too long"):
                await put(store, id="b")
        await put(store, id="b")


async def test_how_sqlite_is_set_up(tmp_path: Path, url: str) -> None:
    """A file has a write-ahead log and belongs to its owner alone; each connection waits for locks and keeps keys."""
    async with Store(url) as store, store.transaction(write=False) as connection:
        await connection.execute(mcp_servers.select())
        values = [
            (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        ]
        assert values == ["wal", 1, 10_000, 1]
    assert stat.S_IMODE((tmp_path / "handrail.db").stat().st_mode) == 0o600


# ---- loops and threads


def test_connections_end_with_their_loop(url: str) -> None:
    """A store that is never closed leaves no connection and no thread behind when its loop ends."""
    before = threading.active_count()
    store = Store(url)
    for expected in (1, 2, 3):
        asyncio.run(put(store, id=str(expected)))
        assert asyncio.run(count(store)) == expected
    del store
    gc.collect()
    # The loop's own executor leaves idle threads only while the loop is open.
    assert threading.active_count() == before


def test_a_memory_lasts_as_long_as_its_store() -> None:
    """A database in memory outlives an event loop, is no other store's, and is gone when it is closed."""
    store = Store("sqlite://")
    asyncio.run(put(store))
    assert asyncio.run(count(store)) == 1
    assert asyncio.run(count(Store("sqlite://"))) == 0
    asyncio.run(store.close())
    assert asyncio.run(count(store)) == 0


def test_loops_in_threads(url: str) -> None:
    """One store may be used in several threads at once, each with a loop of its own; one of them migrates."""
    store = Store(url)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            asyncio.run(put(store, id=str(number)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert asyncio.run(count(store)) == 6


async def test_a_closed_store_can_be_used_again(url: str) -> None:
    """Closing a store twice is no error, and the next transaction opens it again."""
    store = Store(url)
    await put(store)
    await store.close()
    await store.close()
    assert await count(store) == 1
    await store.close()


# ---- the schema


def test_revisions_are_in_order() -> None:
    """The newest migration is the one that this version works with, and revisions compare as text."""
    config = Config()
    config.set_main_option("script_location", str(store_module.MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert scripts.get_heads() == [SCHEMA] == revisions[:1]
    assert revisions == sorted(revisions, reverse=True)
    assert {len(revision) for revision in revisions} == {4}


def test_migrations_and_tables_agree(tmp_path: Path, url: str) -> None:
    """What the migrations make of an empty database is what the tables in the code say."""
    assert schema_version(url) is None
    assert not (tmp_path / "handrail.db").exists()
    assert upgrade(url) == SCHEMA == schema_version(url)
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True, "include_name": is_ours}
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "table" or name != store_module.VERSION_TABLE


async def test_sqlite_migrates_itself(url: str) -> None:
    """An empty file has its tables after the first transaction; what was in the file before stays."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE theirs (x INTEGER)"))
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num TEXT)"))
        connection.execute(sa.text("INSERT INTO alembic_version VALUES ('theirs')"))
    async with Store(url) as store:
        assert await count(store) == 0
    with engine.begin() as connection:
        assert {"theirs", "mcp_servers"} <= set(sa.inspect(connection).get_table_names())
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar() == "theirs"
    engine.dispose()
    assert schema_version(url) == SCHEMA


async def test_a_failed_migration_leaves_nothing(url: str) -> None:
    """A migration that meets a table of another's by that name is a StoreError, and changes nothing."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE mcp_servers (theirs INTEGER)"))
    async with Store(url) as store:
        for _ in range(2):
            with pytest.raises(StoreError, match="already exists"):
                await count(store)
    with engine.begin() as connection:
        assert sa.inspect(connection).get_table_names() == ["mcp_servers"]
    engine.dispose()


async def test_a_newer_schema_is_refused(url: str) -> None:
    """A database that a newer version wrote is not touched, and the error says what to do."""
    upgrade(url)
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE handrail_schema SET version_num = '9999'"))
    engine.dispose()
    async with Store(url) as store:
        with pytest.raises(StoreError, match="newer Handrail"):
            await count(store)
    with pytest.raises(StoreError, match="newer Handrail"):
        upgrade(url)
    assert schema_version(url) == "9999"


def test_an_up_to_date_database_needs_no_alembic(url: str) -> None:
    """Alembic is loaded to migrate, and not to work; importing handrail or its registry loads no database library."""
    upgrade(url)
    program = f"""
import asyncio, sys
import handrail, handrail.mcp, handrail.mcp.sql_registry
heavy = {{"sqlalchemy", "alembic", "aiosqlite", "psycopg"}} & set(sys.modules)
assert not heavy, heavy
registry = handrail.mcp.sql_registry.SQLMCPServerRegistry({url!r})
assert asyncio.run(registry.list_servers()) == []
assert "alembic" not in sys.modules
assert "psycopg" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_processes_may_migrate_at_once(url: str) -> None:
    """Several processes that open an empty file together all find it migrated."""
    program = f"""
import asyncio
from handrail.mcp.sql_registry import SQLMCPServerRegistry
asyncio.run(SQLMCPServerRegistry({url!r}).list_servers())
"""
    running = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) for _ in range(3)]
    outcomes = [(process.communicate(timeout=60)[1], process.returncode) for process in running]
    assert outcomes == [("", 0)] * 3
