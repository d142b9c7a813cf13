"""The store on a real PostgreSQL server: upgrades, errors without passwords, and a server that restarts."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from handrail import store as store_module
from handrail.errors import StoreError
from handrail.mcp.sql_registry import SQLMCPServerRegistry
from handrail.store import SCHEMA, Store, mcp_servers, metadata, schema_version, upgrade
from support.postgres import PASSWORD, PostgresServer, postgres

__all__ = ["postgres"]

pytestmark = pytest.mark.real


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database() as opened:
        yield opened


async def test_a_schema_changes_only_when_told(url: str) -> None:
    """A database without the tables is refused with the command to run; after it, the same store works."""
    async with SQLMCPServerRegistry(url) as registry:
        for _ in range(2):
            with pytest.raises(StoreError, match="is empty") as caught:
                await registry.list_servers()
            assert caught.value.hint == "run: handrail db upgrade"
        assert schema_version(url) is None
        assert upgrade(url) == SCHEMA == schema_version(url)
        assert upgrade(url) == SCHEMA
        assert await registry.list_servers() == []


async def test_a_schema_of_another_revision_is_refused(url: str) -> None:
    """An older schema asks for the upgrade, a newer one for a newer version; neither is touched."""
    upgrade(url)
    for revision, hint in (("0000", "run: handrail db upgrade"), ("9999", "install a newer Handrail")):
        await execute(url, f"UPDATE handrail_schema SET version_num = '{revision}'")
        async with Store(url) as store:
            with pytest.raises(StoreError, match=revision) as caught:
                async with store.transaction():
                    raise AssertionError("not reached")
            assert caught.value.hint == hint
        assert schema_version(url) == revision


async def execute(url: str, statement: str) -> None:
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text(statement))


def test_migrations_and_tables_agree(url: str) -> None:
    """What the migrations make of an empty database is what the tables in the code say."""
    upgrade(url)
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=sa.NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True, "include_name": is_ours}
        )
        assert compare_metadata(context, metadata) == []


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "table" or name != store_module.VERSION_TABLE


def test_operators_may_upgrade_at_once(url: str) -> None:
    """Several upgrades of one empty database at the same time all succeed."""
    done: list[str] = []
    threads = [threading.Thread(target=lambda: done.append(upgrade(url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == [SCHEMA] * 4


async def test_a_wrong_password(postgres: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    """A refused log-in is a StoreError that says so, and shows neither the wrong password nor the right one."""
    caplog.set_level(logging.DEBUG)
    store = Store(postgres.url(password="wr0ng-canary"))
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        async with store.transaction():
            raise AssertionError("not reached")
    text = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert "wr0ng-canary" not in text
    assert PASSWORD not in text + repr(Store(postgres.url()))
    await store.close()


async def test_a_refused_row_is_not_shown(url: str) -> None:
    """An error of the server does not repeat the values of the row that it refused."""
    upgrade(url)
    async with Store(url) as store:
        with pytest.raises(StoreError, match="null value") as caught:
            async with store.transaction() as connection:
                await connection.execute(
                    mcp_servers.insert().values(tenant="", id="a", transport=None, entry="canary-row")
                )
        assert "canary-row" not in "".join(traceback.format_exception(caught.value))


async def test_a_connection_that_the_server_ended(url: str) -> None:
    """A registry goes on working after the server has ended its idle connections."""
    upgrade(url)
    async with SQLMCPServerRegistry(url) as registry:
        assert await registry.list_servers() == []
        await execute(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        assert await registry.list_servers() == []
