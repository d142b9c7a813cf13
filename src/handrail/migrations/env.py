"""Where alembic meets the store: the connection is the store's, and so is the transaction."""

from alembic import context

from handrail.store import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
