"""Add calls of tools, with the rows that they changed.

Two new tables: nobody waits, and no row is rewritten.

Nothing changes if `RefRegistry.create_tables()` has made the newest tables. The other tables
may be partitioned; the new ones are not, until the tables are partitioned again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

adds = ("alfred_refs_change", "after")
rewrites_rows = False


def upgrade() -> None:
    time, json = sa.DateTime(timezone=True), postgresql.JSON()
    op.create_table(
        "alfred_refs_call",
        sa.Column("conversation", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, comment="1, 2, ... in the conversation"),
        sa.Column("turn", sa.Integer(), nullable=False, comment="in which it was called"),
        sa.Column("asked_at", time, nullable=False, server_default=sa.func.now()),
        sa.Column("decided_at", time, comment="when it stopped waiting, or was done"),
        sa.Column("expires_at", time, comment="null: it waits for ever"),
        sa.Column("seconds", sa.Double(), comment="how long it took"),
        sa.Column("undoes", sa.Integer(), comment="the number of the call that it undoes"),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Text(),
            nullable=False,
            comment="waiting, doing, done, rejected or expired; "
            "waiting is expired after expires_at",
        ),
        sa.Column("actor", sa.Text(), nullable=False, comment="model or user: who called it"),
        sa.Column("acting_user", sa.Text(), comment="on whose behalf; null: not known"),
        sa.Column("call_id", sa.Text(), comment="the id that the framework gave it; null: none"),
        sa.Column("decided_by", sa.Text(), comment="who decided; null: nobody"),
        sa.Column("reason", sa.Text(), comment="why it was rejected"),
        sa.Column("token", sa.Text(), comment="what binds a decision to the plan"),
        sa.Column("arguments", json, comment="refs, never keys; null: deleted by age, or erased"),
        sa.Column("plan", json, comment="what it would change; refs, never keys"),
        sa.Column("answer", json, comment="what it returned; refs, never keys"),
        sa.PrimaryKeyConstraint("conversation", "number"),
        comment="calls of tools that changed rows, or wait for a decision",
        if_not_exists=True,
    )
    _index("alfred_refs_call_id", ["conversation", "call_id"], "call_id IS NOT NULL", unique=True)
    _index("alfred_refs_call_waiting", ["asked_at"], "state = 'waiting'")
    op.create_table(
        "alfred_refs_change",
        sa.Column("conversation", sa.Uuid(), nullable=False),
        sa.Column("call", sa.Integer(), nullable=False, comment="the number of the call"),
        sa.Column("place", sa.Integer(), nullable=False, comment="in the call"),
        sa.Column("table_name", sa.Text(), nullable=False, comment="of the row, with its schema"),
        sa.Column("ref", sa.Text(), comment="of the row; null: it has none"),
        sa.Column(
            "label", sa.Text(), comment="what people called the row; null: not known, or deleted"
        ),
        sa.Column("action", sa.Text(), nullable=False, comment="created, updated or deleted"),
        sa.Column("key", json, nullable=False, comment="the primary key of the row, by column"),
        sa.Column(
            "before", json, comment="values before the call; null: a new row, or deleted by age"
        ),
        sa.Column(
            "after", json, comment="values after it; null: a deleted row, or deleted by age"
        ),
        sa.PrimaryKeyConstraint("conversation", "call", "place"),
        comment="rows that calls changed",
        if_not_exists=True,
    )
    _index("alfred_refs_change_ref", ["conversation", "ref"], "ref IS NOT NULL")


def _index(name: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    table = name.rpartition("_")[0]
    op.create_index(
        *(name, table, columns),
        unique=unique,
        postgresql_where=sa.text(where),
        if_not_exists=True,
    )


def downgrade() -> None:
    op.drop_table("alfred_refs_change")
    op.drop_table("alfred_refs_call")
