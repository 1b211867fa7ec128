"""Record the table of an entity's refs, so that they are used for no other table.

Others wait only while the counters get a column, and no row is rewritten: the table of an existing
counter is unknown until the next ref of its entity is minted.

Nothing changes if `RefRegistry.create_tables()` has made the newest tables.
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

# Minting locks a conversation's row first: it waits here, before it holds another lock.
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
