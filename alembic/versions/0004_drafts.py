"""Add drafts: generated content that is not saved.

Others wait only while the counters get a column, and no row is rewritten.

Nothing changes if `RefRegistry.create_tables()` has made the newest tables. The other tables
may be partitioned; the new one is not, until the tables are partitioned again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

adds = ("alfred_refs_draft", "content")
rewrites_rows = False

# Minting locks a conversation's row first: it waits here, before it holds another lock.
STOP_MINTING = "LOCK TABLE alfred_refs_conversation IN EXCLUSIVE MODE"

# raised by the database, so that it works offline too
REFUSE_TO_LOSE_DRAFTS = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM alfred_refs_draft) THEN
        RAISE EXCEPTION 'the registry has drafts, which a downgrade below 0004 would lose; '
            'forget their conversations and try again; if you empty alfred_refs_draft instead, '
            'refs of drafts in chats name nothing, and new drafts get their numbers';
    END IF;
END $$
"""

# Counters of entities that have only drafts: before 0004 every counter had a ref.
DELETE_COUNTERS_OF_DRAFTS = "DELETE FROM alfred_refs_counter WHERE last = 0"


def upgrade() -> None:
    op.execute(STOP_MINTING)
    op.add_column(
        "alfred_refs_counter",
        sa.Column(
            "drafts",
            sa.Integer(),
            nullable=False,
            server_default=sa.text("0"),
            comment="the highest number ever given to a draft",
        ),
        if_not_exists=True,
    )
    op.create_table(
        "alfred_refs_draft",
        sa.Column("conversation", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        _column("turn", sa.Integer(), "in which it was generated"),
        _column("edited", sa.Integer(), "the turn of its last edit"),
        _column("version", sa.Integer(), "1, and one more with each edit"),
        _column("kind", sa.SmallInteger(), "of the entity: see its counter"),
        _column("state", sa.Text(), "pending, saved or discarded"),
        _column("content", postgresql.JSON(), "what was generated; refs, never keys"),
        sa.Column("label", sa.Text(), comment="what people are to call the row; null: not known"),
        sa.Column(
            "key",
            sa.LargeBinary(),
            comment="of its row, as in mappings; null: none is reserved",
        ),
        sa.PrimaryKeyConstraint("conversation", "kind", "number"),
        comment="content that was generated; once reserved a key never changes",
        if_not_exists=True,
    )
    op.create_index(
        "alfred_refs_draft_key",
        "alfred_refs_draft",
        ["conversation", "kind", "key"],
        unique=True,
        postgresql_where=sa.text("key IS NOT NULL"),
        if_not_exists=True,
    )


def downgrade() -> None:
    op.execute(STOP_MINTING)
    op.execute(REFUSE_TO_LOSE_DRAFTS)
    op.drop_table("alfred_refs_draft")
    op.execute(DELETE_COUNTERS_OF_DRAFTS)
    op.drop_column("alfred_refs_counter", "drafts")


def _column(name: str, type_: sa.types.TypeEngine[object], comment: str) -> sa.Column[object]:
    return sa.Column(name, type_, nullable=False, comment=comment)
