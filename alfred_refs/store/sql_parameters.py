"""What the statements of the Postgres store share: parameters, whose conversation it is, kinds.

The prefix `p_` keeps parameters apart from columns, whose names SQLAlchemy reserves in inserts and
updates.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Integer,
    LargeBinary,
    SmallInteger,
    Text,
    Uuid,
    bindparam,
    cast,
    exists,
    false,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB

from .tables import conversations, counters
from .values import NOTED_EVERY, Address

conversation = bindparam("p_conversation", type_=Uuid)
id_ = bindparam("p_id", type_=Text)
owner = bindparam("p_owner", type_=Text)
entity = bindparam("p_entity", type_=Text)
number = bindparam("p_number", type_=Integer)
limit = bindparam("p_limit", type_=Integer)
gone = bindparam("p_gone", type_=Text)
entities = bindparam("p_entities", type_=ARRAY(Text))
keys = bindparam("p_keys", type_=ARRAY(LargeBinary))
labels = bindparam("p_labels", type_=ARRAY(Text))
numbers = bindparam("p_numbers", type_=ARRAY(Integer))
contents = bindparam("p_contents", type_=ARRAY(Text))
versions = bindparam("p_versions", type_=ARRAY(Integer))
tables = bindparam("p_tables", type_=Text)  # JSON: of each entity, as far as that is known

here = conversations.c.conversation == conversation
is_mine = conversations.c.owner.is_not_distinct_from(owner)
mine = exists().where(here, is_mine)
is_unnoted = conversations.c.used_at < func.now() - NOTED_EVERY

kind = (
    select(counters.c.kind)
    .where(counters.c.conversation == conversation, counters.c.entity == entity)
    .scalar_subquery()
)

tables_of_refs = (
    select(is_mine.label("mine"), counters.c.entity, counters.c.table_name)
    .select_from(conversations)
    .outerjoin(counters, counters.c.conversation == conversations.c.conversation)
    .where(here)
)


def table_of(entity: ColumnElement[str]) -> ColumnElement[str]:
    """Return the table for whose rows an entity's refs are used; null if that is not known."""
    told: ColumnElement[str] = cast(tables, JSONB)[entity].astext
    return told


# whether the refs of a counter are of the table for which they are used, as far as is known
is_of_table = (counters.c.table_name == table_of(counters.c.entity)).is_distinct_from(false())
is_of_another = exists().where(counters.c.conversation == conversation, ~is_of_table)


_highest_kind = (
    select(func.coalesce(func.max(counters.c.kind), 0))
    .where(counters.c.conversation == conversation)
    .scalar_subquery()
)


def next_kinds(among_new: ColumnElement[int]) -> ColumnElement[int]:
    """Return the kinds of entities that are new to the conversation, whose row must be locked.

    Args:
        among_new: the number of each among those that are new together, from 1.
    """
    return (_highest_kind + among_new).cast(SmallInteger)


def named(address: Address) -> dict[str, Any]:
    """Return the parameters that name a conversation and its owner."""
    return {"p_conversation": address.digest, "p_owner": address.owner}


def begun(address: Address) -> dict[str, Any]:
    """Return the parameters of a statement that may begin the conversation."""
    return named(address) | {"p_id": address.id}
