"""Of which table an entity's refs are, so that they are used for no other.

Nothing waits but for the moment in which the counters get a column, and nothing is written anew:
counters from before say nothing of a table until the next ref of their entity is minted.

It finds nothing to do where `RefRegistry.create_tables()` has made the newest tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

adds = ("alfred_refs_counter", "table_name")
rewrites_rows = False

# What mints locks a conversation's row first: it waits here, and holds nothing else yet.
STOP_MINTING = "LOCK TABLE alfred_refs_conversation IN EXCLUSIVE MODE"


def upgrade() -> None:
    op.execute(STOP_MINTING)
    op.add_column(
        "alfred_refs_counter",
        sa.Column(
            "table_name",
            sa.Text(),
            comment="whose rows the refs are of, with its schema; null: not known",
        ),
        if_not_exists=True,
    )


def downgrade() -> None:
    op.execute(STOP_MINTING)
    op.drop_column("alfred_refs_counter", "table_name")
