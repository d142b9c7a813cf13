"""Entries of MCP servers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of entries."""
    op.create_table(
        "mcp_servers",
        sa.Column("tenant", sa.String(255), primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("transport", sa.String(16), nullable=False),
        sa.Column("entry", sa.Text, nullable=False),
    )
    op.create_index("ix_mcp_servers_transport", "mcp_servers", ["transport"])


def downgrade() -> None:
    """Drop the table of entries."""
    op.drop_table("mcp_servers")
