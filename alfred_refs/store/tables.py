"""The registry's tables. `alembic/` makes them; `alembic check` keeps the two the same.

Every key and index starts with the conversation, so that the tables can be partitioned by it.
A conversation that is forgotten leaves its counters behind: a digest, names of entities and
numbers, so that no number is ever given to another row or draft.
In the mappings, of which there are very many, two bytes stand for the entity: its kind, which the
conversation's counters name. A name of any length weighs nothing there.
There is no foreign key between them: PostgreSQL would check it for each row that is minted, and
the conversation's row is locked, hence present, while any is.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSON

metadata = MetaData()

conversations = Table(
    "alfred_refs_conversation",
    metadata,
    Column("conversation", Uuid, primary_key=True, comment="digest of the id"),
    Column("id", Text, nullable=False),
    Column("owner", Text, comment="null: a conversation without owner"),
    Column("turn", Integer, nullable=False, server_default=text("0")),
    Column("begun_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("used_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    comment="conversations; the row is the lock under which refs are numbered",
)

counters = Table(
    "alfred_refs_counter",
    metadata,
    Column("conversation", Uuid, primary_key=True),
    Column("entity", Text, primary_key=True),
    Column("last", Integer, nullable=False, comment="the highest number ever given"),
    Column(
        "forgotten",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="how many of the numbers have no mapping any more",
    ),
    Column(
        "left_at",
        DateTime(timezone=True),
        comment="when its conversation was forgotten; null: in use since",
    ),
    Column(
        "kind",
        SmallInteger,
        nullable=False,
        comment="what stands for the entity in this conversation's mappings; never changes",
    ),
    Column(
        "drafts",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="the highest number ever given to a draft",
    ),
    Column(
        "table_name",
        Text,
        comment="whose rows the refs are of, with its schema; null: not known",
    ),
    UniqueConstraint("conversation", "kind", name="alfred_refs_counter_kind"),
    comment="the highest number of each entity: never falls, so no number is given twice",
)

# The columns are in an order that leaves nothing to pad.
mappings = Table(
    "alfred_refs_mapping",
    metadata,
    Column("conversation", Uuid, nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", SmallInteger, nullable=False, comment="of the entity: see its counter"),
    Column("key", LargeBinary, nullable=False, comment="u, i, s or t, then the key's bytes"),
    Column("gone", Text, comment="why the row is not there; null: it may be"),
    Column("label", Text, comment="what people call the row; null: not known"),
    PrimaryKeyConstraint("conversation", "kind", "number"),
    UniqueConstraint("conversation", "kind", "key", name="alfred_refs_mapping_key"),
    comment="refs and their keys; conversation, kind, number and key never change",
)

# Few and large, where mappings are many and small. `json`, because `jsonb` would give back other
# values than it was given: 1e22 as an integer, and fields in another order.
drafts = Table(
    "alfred_refs_draft",
    metadata,
    Column("conversation", Uuid, nullable=False),
    Column("number", Integer, nullable=False),
    Column("turn", Integer, nullable=False, comment="in which it was generated"),
    Column("edited", Integer, nullable=False, comment="the turn of its last edit"),
    Column("version", Integer, nullable=False, comment="1, and one more with each edit"),
    Column("kind", SmallInteger, nullable=False, comment="of the entity: see its counter"),
    Column("state", Text, nullable=False, comment="pending, saved or discarded"),
    Column("content", JSON, nullable=False, comment="what was generated; refs, never keys"),
    Column("label", Text, comment="what people are to call the row; null: not known"),
    Column("key", LargeBinary, comment="of its row, as in mappings; null: none is reserved"),
    PrimaryKeyConstraint("conversation", "kind", "number"),
    # of reserved ones alone: nobody reads by it, and a server without statistics would do so
    Index(
        "alfred_refs_draft_key",
        *("conversation", "kind", "key"),
        unique=True,
        postgresql_where=text("key IS NOT NULL"),
    ),
    comment="content that was generated; once reserved a key never changes",
)

# The order of fields in a snapshot is that in which a model saw them: hence `json`.
activity = Table(
    "alfred_refs_activity",
    metadata,
    Column("conversation", Uuid, nullable=False),
    Column("number", Integer, nullable=False),
    Column("first_turn", Integer, nullable=False, comment="of the first action"),
    Column("last_turn", Integer, nullable=False, comment="of the last action"),
    Column("seen_turn", Integer, comment="when a model was last shown the row; null: never"),
    Column("kind", SmallInteger, nullable=False, comment="of the entity: see its counter"),
    Column(
        "demoted",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="left out of prompts until something is done with it again",
    ),
    Column("action", Text, nullable=False, comment="the last one"),
    Column("actor", Text, nullable=False, comment="model or user: who did it"),
    Column("reason", Text, comment="why the ref is retained; null: it is not"),
    Column("content", JSON, comment="what a model was shown of the row; refs, never keys"),
    PrimaryKeyConstraint("conversation", "kind", "number"),
    Index("alfred_refs_activity_turn", "conversation", "last_turn"),
    Index(
        "alfred_refs_activity_retained",
        *("conversation", "last_turn"),
        postgresql_where=text("reason IS NOT NULL"),
    ),
    Index(
        "alfred_refs_activity_seen",
        *("conversation", "seen_turn"),
        postgresql_where=text("content IS NOT NULL"),
    ),
    comment="what was done last with the rows of refs, and what a model saw of them",
)

steps = Table(
    "alfred_refs_step",
    metadata,
    Column("conversation", Uuid, primary_key=True),
    Column("turn", Integer, primary_key=True),
    Column("number", Integer, primary_key=True, comment="in its turn, from 1"),
    Column("content", JSON, nullable=False, comment="what a step did and noted; refs, never keys"),
    comment="what the steps of agents left, for some turns",
)
