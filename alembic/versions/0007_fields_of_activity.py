"""Replace what models were shown of rows by the names of the columns and relationships shown.

The stored values are deleted: prompts read rows when they are made. Until a row is used again,
prompts show its default columns. No row is rewritten, and the table is locked for a moment.

Nothing changes if `RefRegistry.create_tables()` has made the newest tables.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

adds = ("alfred_refs_activity", "fields")
rewrites_rows = False


def upgrade() -> None:
    # the index on seen_turn goes with its column
    op.execute("""
        ALTER TABLE alfred_refs_activity
            DROP COLUMN IF EXISTS content,
            DROP COLUMN IF EXISTS seen_turn,
            ADD COLUMN IF NOT EXISTS fields text[]
    """)
    _comment(
        "COLUMN alfred_refs_activity.fields", "columns and relationships that a model was shown"
    )
    _comment(
        "TABLE alfred_refs_activity",
        "what was done last with the rows of refs, and which fields a model saw",
    )


def downgrade() -> None:
    op.execute("""
        ALTER TABLE alfred_refs_activity
            DROP COLUMN fields,
            ADD COLUMN seen_turn integer,
            ADD COLUMN content json
    """)
    _comment(
        "COLUMN alfred_refs_activity.seen_turn", "when a model was last shown the row; null: never"
    )
    _comment(
        "COLUMN alfred_refs_activity.content",
        "what a model was shown of the row; refs, never keys",
    )
    _comment(
        "TABLE alfred_refs_activity",
        "what was done last with the rows of refs, and what a model saw of them",
    )
    op.execute(
        "CREATE INDEX alfred_refs_activity_seen ON alfred_refs_activity"
        " (conversation, seen_turn) WHERE content IS NOT NULL"
    )


def _comment(on: str, text: str) -> None:
    op.execute(f"COMMENT ON {on} IS '{text}'")
