"""Replace the entity's name in each mapping by two bytes, its kind; the counter has the name.

Until the commit nothing is minted or resolved: counters and mappings are locked against reading,
conversations against writing. The mappings and their indexes are rewritten, which takes ten to
thirty seconds for each million, depending on the load, and as much disk space again. Nothing is
lost in either direction. The columns change their types, because a column that is dropped remains
in every row as a null.

Nothing changes if `RefRegistry.create_tables()` has made the newest tables. The tables may be
partitioned, with constraints of any name.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

adds = ("alfred_refs_counter", "kind")
rewrites_rows = True

# In the database, so that it works offline too. One ALTER TABLE computes both columns from the old
# row: the first gets the value of the second, and the second the kind from the counter.
UPGRADE = """
DO $$
DECLARE
    made text;
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = 'alfred_refs_mapping'::regclass AND attname = 'entity'
    ) THEN
        RETURN;
    END IF;
    LOCK alfred_refs_conversation IN EXCLUSIVE MODE;  -- minting locks this table first
    LOCK alfred_refs_counter, alfred_refs_mapping;

    ALTER TABLE alfred_refs_counter ADD kind smallint;
    UPDATE alfred_refs_counter AS counter SET kind = given.kind FROM (
        SELECT conversation, entity,
            row_number() OVER (PARTITION BY conversation ORDER BY entity) AS kind
        FROM alfred_refs_counter
    ) AS given
    WHERE given.conversation = counter.conversation AND given.entity = counter.entity;
    ALTER TABLE alfred_refs_counter
        ALTER kind SET NOT NULL,
        ADD CONSTRAINT alfred_refs_counter_kind UNIQUE (conversation, kind);
    COMMENT ON COLUMN alfred_refs_counter.kind IS
        'what stands for the entity in this conversation''s mappings; never changes';

    FOR made IN
        SELECT conname FROM pg_constraint
        WHERE conrelid = 'alfred_refs_mapping'::regclass AND contype IN ('p', 'u')
    LOOP
        EXECUTE 'ALTER TABLE alfred_refs_mapping DROP CONSTRAINT ' || quote_ident(made);
    END LOOP;
    CREATE FUNCTION alfred_refs_kind(uuid, text) RETURNS smallint STABLE LANGUAGE sql AS
        'SELECT kind FROM alfred_refs_counter WHERE conversation = $1 AND entity = $2';
    ALTER TABLE alfred_refs_mapping
        ALTER entity DROP NOT NULL,
        ALTER number DROP NOT NULL,
        ALTER entity TYPE integer USING number,
        ALTER number TYPE smallint USING alfred_refs_kind(conversation, entity);
    DROP FUNCTION alfred_refs_kind;
    ALTER TABLE alfred_refs_mapping RENAME number TO kind;
    ALTER TABLE alfred_refs_mapping RENAME entity TO number;
    ALTER TABLE alfred_refs_mapping
        ADD PRIMARY KEY (conversation, kind, number),
        ADD CONSTRAINT alfred_refs_mapping_key UNIQUE (conversation, kind, key);
    COMMENT ON COLUMN alfred_refs_mapping.kind IS 'of the entity: see its counter';
END $$
"""

DOWNGRADE = """
DO $$
DECLARE
    made text;
BEGIN
    LOCK alfred_refs_conversation IN EXCLUSIVE MODE;  -- minting locks this table first
    LOCK alfred_refs_counter, alfred_refs_mapping;

    FOR made IN
        SELECT conname FROM pg_constraint
        WHERE conrelid = 'alfred_refs_mapping'::regclass AND contype IN ('p', 'u')
    LOOP
        EXECUTE 'ALTER TABLE alfred_refs_mapping DROP CONSTRAINT ' || quote_ident(made);
    END LOOP;
    CREATE FUNCTION alfred_refs_entity(uuid, smallint) RETURNS text STABLE LANGUAGE sql AS
        'SELECT entity FROM alfred_refs_counter WHERE conversation = $1 AND kind = $2';
    ALTER TABLE alfred_refs_mapping
        ALTER number DROP NOT NULL,
        ALTER kind DROP NOT NULL,
        ALTER number TYPE text USING alfred_refs_entity(conversation, kind),
        ALTER kind TYPE integer USING number;
    DROP FUNCTION alfred_refs_entity;
    COMMENT ON COLUMN alfred_refs_mapping.kind IS NULL;
    ALTER TABLE alfred_refs_mapping RENAME number TO entity;
    ALTER TABLE alfred_refs_mapping RENAME kind TO number;
    ALTER TABLE alfred_refs_mapping
        ADD PRIMARY KEY (conversation, entity, number),
        ADD CONSTRAINT alfred_refs_mapping_key UNIQUE (conversation, entity, key);

    ALTER TABLE alfred_refs_counter DROP kind;
END $$
"""

# changing the types of columns has deleted their statistics
ANALYZE = "ANALYZE alfred_refs_mapping"


def upgrade() -> None:
    op.execute(UPGRADE)
    _comment_on_constants("conversation, kind, number and key")
    op.execute(ANALYZE)


def downgrade() -> None:
    op.execute(DOWNGRADE)
    _comment_on_constants("conversation, entity, number and key")
    op.execute(ANALYZE)


def _comment_on_constants(columns: str) -> None:
    # always: 0001 has set the old comment on tables that existed, too
    op.create_table_comment("alfred_refs_mapping", f"refs and their keys; {columns} never change")
