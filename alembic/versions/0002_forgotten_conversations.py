"""Add the columns for forgotten conversations, and labels.

Nothing changes if `RefRegistry.create_tables()` has made the newest tables. The tables may be
partitioned: PostgreSQL changes the partitions with them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

adds = ("alfred_refs_counter", "forgotten")
rewrites_rows = True

# Minting, marking and beginning a turn lock a conversation's row first: they wait here, before
# they hold a lock that is needed below. Resolving waits only while a column is added.
STOP_MINTING = "LOCK TABLE alfred_refs_conversation IN EXCLUSIVE MODE"

# Conversations may have been forgotten before a downgrade to 0001; the missing mappings show how
# many. Tables without the column `entity` are newer, and have the numbers already.
COUNT_FORGOTTEN = """
DO $$
BEGIN
    IF EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = 'alfred_refs_mapping'::regclass AND attname = 'entity'
    ) THEN
        UPDATE alfred_refs_counter AS counter SET forgotten = last - (
            SELECT count(*) FROM alfred_refs_mapping AS mapping
            WHERE mapping.conversation = counter.conversation AND mapping.entity = counter.entity
        );
    END IF;
END $$
"""
MARK_LEFT = """
UPDATE alfred_refs_counter AS counter SET left_at = now() WHERE left_at IS NULL AND NOT EXISTS (
    SELECT FROM alfred_refs_conversation AS conversation
    WHERE conversation.conversation = counter.conversation
)
"""


def upgrade() -> None:
    op.execute(STOP_MINTING)
    op.add_column(
        "alfred_refs_counter",
        sa.Column(
            "forgotten",
            sa.Integer(),
            nullable=False,
            server_default=sa.text("0"),
            comment="how many of the numbers have no mapping any more",
        ),
        if_not_exists=True,
    )
    op.add_column(
        "alfred_refs_counter",
        sa.Column(
            "left_at",
            sa.DateTime(timezone=True),
            comment="when its conversation was forgotten; null: in use since",
        ),
        if_not_exists=True,
    )
    op.execute(COUNT_FORGOTTEN)
    op.execute(MARK_LEFT)
    op.add_column(
        "alfred_refs_mapping",
        sa.Column("label", sa.Text(), comment="what people call the row; null: not known"),
        if_not_exists=True,
    )


def downgrade() -> None:
    op.execute(STOP_MINTING)
    op.drop_column("alfred_refs_mapping", "label")
    op.drop_column("alfred_refs_counter", "left_at")
    op.drop_column("alfred_refs_counter", "forgotten")
