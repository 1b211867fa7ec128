"""Add activity, with what models were shown of rows, and the steps of agents.

Two new tables: nobody waits, and no row is rewritten.

Nothing changes if `RefRegistry.create_tables()` has made the newest tables. The other tables
may be partitioned; the new ones are not, until the tables are partitioned again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

adds = ("alfred_refs_step", "content")
rewrites_rows = False


# Revision 0007 removes these columns; tables that were made newer do not get them.
COPIES = """
DO $$
BEGIN
    IF EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = 'alfred_refs_activity'::regclass AND attname = 'fields'
    ) THEN
        RETURN;
    END IF;
    ALTER TABLE alfred_refs_activity
        ADD COLUMN IF NOT EXISTS seen_turn integer,
        ADD COLUMN IF NOT EXISTS content json;
    COMMENT ON COLUMN alfred_refs_activity.seen_turn IS
        'when a model was last shown the row; null: never';
    COMMENT ON COLUMN alfred_refs_activity.content IS
        'what a model was shown of the row; refs, never keys';
    CREATE INDEX IF NOT EXISTS alfred_refs_activity_seen
        ON alfred_refs_activity (conversation, seen_turn) WHERE content IS NOT NULL;
END
$$
"""


def upgrade() -> None:
    op.create_table(
        "alfred_refs_activity",
        sa.Column("conversation", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("first_turn", sa.Integer(), nullable=False, comment="of the first action"),
        sa.Column("last_turn", sa.Integer(), nullable=False, comment="of the last action"),
        sa.Column(
            "kind", sa.SmallInteger(), nullable=False, comment="of the entity: see its counter"
        ),
        sa.Column(
            "demoted",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("false"),
            comment="left out of prompts until something is done with it again",
        ),
        sa.Column("action", sa.Text(), nullable=False, comment="the last one"),
        sa.Column("actor", sa.Text(), nullable=False, comment="model or user: who did it"),
        sa.Column("reason", sa.Text(), comment="why the ref is retained; null: it is not"),
        sa.PrimaryKeyConstraint("conversation", "kind", "number"),
        comment="what was done last with the rows of refs, and what a model saw of them",
        if_not_exists=True,
    )
    for name, columns, where in (
        ("turn", ["conversation", "last_turn"], None),
        ("retained", ["conversation", "last_turn"], "reason IS NOT NULL"),
    ):
        op.create_index(
            f"alfred_refs_activity_{name}",
            "alfred_refs_activity",
            columns,
            postgresql_where=None if where is None else sa.text(where),
            if_not_exists=True,
        )
    op.execute(COPIES)
    op.create_table(
        "alfred_refs_step",
        sa.Column("conversation", sa.Uuid(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, comment="in its turn, from 1"),
        sa.Column(
            "content",
            postgresql.JSON(),
            nullable=False,
            comment="what a step did and noted; refs, never keys",
        ),
        sa.PrimaryKeyConstraint("conversation", "turn", "number"),
        comment="what the steps of agents left, for some turns",
        if_not_exists=True,
    )


def downgrade() -> None:
    op.drop_table("alfred_refs_step")
    op.drop_table("alfred_refs_activity")
