"""Create the registry's tables.

Tables that `RefRegistry.create_tables()` has made are left as they are: `if_not_exists=True`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

adds = ("alfred_refs_mapping", "key")
rewrites_rows = False

# raised by the database, so that it works offline too
REFUSE_TO_LOSE_MAPPINGS = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM alfred_refs_mapping) THEN
        RAISE EXCEPTION 'the registry has mappings, which a downgrade to base would lose; '
            'export the conversations that are to come back, forget all, and try again';
    END IF;
END $$
"""


def upgrade() -> None:
    op.create_table(
        "alfred_refs_conversation",
        sa.Column("conversation", sa.Uuid(), nullable=False, comment="digest of the id"),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), comment="null: a conversation without owner"),
        sa.Column("turn", sa.Integer(), nullable=False, server_default=sa.text("0")),
        _timestamp("begun_at"),
        _timestamp("used_at"),
        sa.PrimaryKeyConstraint("conversation"),
        comment="conversations; the row is the lock under which refs are numbered",
        if_not_exists=True,
    )
    op.create_table(
        "alfred_refs_counter",
        sa.Column("conversation", sa.Uuid(), nullable=False),
        sa.Column("entity", sa.Text(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False, comment="the highest number ever given"),
        sa.PrimaryKeyConstraint("conversation", "entity"),
        comment="the highest number of each entity: never falls, so no number is given twice",
        if_not_exists=True,
    )
    op.create_table(
        "alfred_refs_mapping",
        sa.Column("conversation", sa.Uuid(), nullable=False),
        sa.Column("entity", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column(
            "key", sa.LargeBinary(), nullable=False, comment="u, i, s or t, then the key's bytes"
        ),
        sa.Column("gone", sa.Text(), comment="why the row is not there; null: it may be"),
        sa.PrimaryKeyConstraint("conversation", "entity", "number"),
        sa.UniqueConstraint("conversation", "entity", "key", name="alfred_refs_mapping_key"),
        comment="refs and their keys; conversation, entity, number and key never change",
        if_not_exists=True,
    )


def downgrade() -> None:
    op.execute(REFUSE_TO_LOSE_MAPPINGS)
    op.drop_table("alfred_refs_mapping")
    op.drop_table("alfred_refs_counter")
    op.drop_table("alfred_refs_conversation")


def _timestamp(name: str) -> sa.Column[object]:
    now = sa.text("now()")
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=now)
