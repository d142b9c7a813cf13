"""The history of the database's schema, as alembic's scripts. :func:`handrail.store.upgrade` runs them."""
