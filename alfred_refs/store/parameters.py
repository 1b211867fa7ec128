"""What the statements of the Postgres store share: their parameters, and whose conversation it is.

The prefix `p_` keeps parameters apart from columns, whose names SQLAlchemy reserves in inserts and
updates.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ARRAY, Integer, LargeBinary, Text, Uuid, bindparam, exists, func

from .tables import conversations
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
numbers = bindparam("p_numbers", type_=ARRAY(Integer))

here = conversations.c.conversation == conversation
is_mine = conversations.c.owner.is_not_distinct_from(owner)
mine = exists().where(here, is_mine)
is_unnoted = conversations.c.used_at < func.now() - NOTED_EVERY


def named(address: Address) -> dict[str, Any]:
    """Return the parameters that name a conversation and its owner."""
    return {"p_conversation": address.digest, "p_owner": address.owner}


def begun(address: Address) -> dict[str, Any]:
    """Return the parameters of a statement that may begin the conversation."""
    return named(address) | {"p_id": address.id}
