"""The SQL of the Postgres store that is about conversations as a whole.

Parameters are as in `statements`; `p_new` is the digest of a conversation that is made. Statements
that name no conversation are those of `prune`, `conversations` and `stats`, for operators.
"""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnElement,
    Integer,
    Interval,
    Select,
    SmallInteger,
    Table,
    Text,
    Uuid,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    null,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSON, Insert, insert

from . import sql_parameters as p
from .tables import conversations, counters, drafts, mappings

_new = bindparam("p_new", type_=Uuid)
_taken = bindparam("p_taken", type_=SmallInteger)
_turn = bindparam("p_turn", type_=Integer)
_begun_at = bindparam("p_begun_at", type_=conversations.c.begun_at.type)
_after = bindparam("p_after", type_=Uuid)
_of_any = bindparam("p_of_any", type_=Boolean)
_unused_for = cast(bindparam("p_unused_for"), Interval)  # tells the type of null
_chosen = bindparam("p_chosen", type_=ARRAY(Uuid))
_counts = bindparam("p_counts", type_=ARRAY(Integer))
_gones = bindparam("p_gones", type_=ARRAY(Text))
_last_drafts = bindparam("p_last_drafts", type_=ARRAY(Integer))
_turns = bindparam("p_turns", type_=ARRAY(Integer))
_edits = bindparam("p_edits", type_=ARRAY(Integer))
_versions = bindparam("p_versions", type_=ARRAY(Integer))
_states = bindparam("p_states", type_=ARRAY(Text))

# Notes that a conversation is used, unless its row is locked: whoever resolves is not to wait, and
# most who lock it note the same.
_free = (
    select(conversations.c.conversation)
    .where(p.here, p.is_mine, p.is_unnoted)
    .with_for_update(skip_locked=True)
    .correlate(None)
    .scalar_subquery()
)
touch = (
    update(conversations)
    .where(p.here, conversations.c.conversation == _free)
    .values(used_at=func.now())
)


def _copied(table: Table, **changed: ColumnElement[Any]) -> Insert:
    """Copy a conversation's rows of a table, all columns, to the new one."""
    others = [column for column in table.c if column.name not in {"conversation", "kind"}]
    values = [changed.get(column.name, column) for column in others]
    return insert(table).from_select(
        ["conversation", "kind", *(column.name for column in others)],
        select(_new, (table.c.kind + _taken).cast(SmallInteger), *values).where(
            table.c.conversation == p.conversation
        ),
    )


# Fork. While the source's row is locked nothing is minted or marked in it, so that the counters
# and the mappings that these statements see are those of one moment. Counters of the new id that
# were left behind keep their kinds: the others come after them.
fork_conversation = insert(conversations).from_select(
    ["conversation", "id", "owner", "turn"],
    select(_new, p.id_, conversations.c.owner, conversations.c.turn).where(p.here),
)
kinds_taken = select(func.coalesce(func.max(counters.c.kind), 0)).where(
    counters.c.conversation == _new
)
fork_counters = _copied(counters)
fork_mappings = _copied(mappings)
# A draft that is not saved where the branches part is saved in each as a row of its own: a key
# that is reserved for it is the source's.
fork_drafts = _copied(drafts, key=case((drafts.c.state == "saved", drafts.c.key)))

# Forget. The row goes first: who mints meanwhile waits for it, and then begins the conversation
# anew, with the counters that were left.
forget_conversation = (
    delete(conversations).where(p.here, p.is_mine).returning(conversations.c.conversation)
)
forget_mappings = delete(mappings).where(mappings.c.conversation == p.conversation)
forget_drafts = delete(drafts).where(drafts.c.conversation == p.conversation)
# nothing is of a table any more: whoever begins the conversation again says of which
_left: dict[str, Any] = {
    "forgotten": counters.c.last,
    "left_at": func.now(),
    "table_name": null(),
}
leave_counters = update(counters).where(counters.c.conversation == p.conversation).values(**_left)

# Prune. The lock looks at the age again; who is locked by others is in use, or pruned already.
choose_unused = (
    select(conversations.c.conversation)
    .where(
        conversations.c.conversation > _after,
        conversations.c.used_at <= func.now() - _unused_for,
    )
    .order_by(conversations.c.conversation)
    .limit(p.limit)
    .with_for_update(skip_locked=True)
)
prune_conversations = delete(conversations).where(
    conversations.c.conversation == func.any(_chosen)
)
prune_mappings = delete(mappings).where(mappings.c.conversation == func.any(_chosen))
prune_drafts = delete(drafts).where(drafts.c.conversation == func.any(_chosen))
leave_pruned = update(counters).where(counters.c.conversation == func.any(_chosen)).values(**_left)

# A counter whose conversation was begun again stays; the one that is being begun clears `left_at`.
_is_left = and_(
    counters.c.left_at.is_not(None),
    ~exists().where(conversations.c.conversation == counters.c.conversation),
)
_is_left_long = and_(counters.c.left_at <= func.now() - _unused_for, _is_left)
choose_left = (
    select(counters.c.conversation)
    .where(counters.c.conversation > _after, _is_left_long)
    .order_by(counters.c.conversation)
    .limit(p.limit)
)
prune_counters = delete(counters).where(
    counters.c.conversation == func.any(_chosen), _is_left_long
)

# Read.
_kept = counters.c.last - counters.c.forgotten


def _infos(conversation: ColumnElement[uuid.UUID]) -> Select[Any]:
    """Select what is known of conversations, with the counters of this one or of each."""
    refs = (
        select(
            func.array_agg(counters.c.entity, type_=ARRAY(Text)).label("entities"),
            func.array_agg(_kept, type_=ARRAY(Integer)).label("counts"),
        )
        .where(counters.c.conversation == conversation, _kept > 0)
        .lateral("refs")
    )
    infos = select(conversations, p.is_mine.label("mine"), refs.c.entities, refs.c.counts)
    return infos.select_from(conversations.join(refs, true()))


describe = _infos(p.conversation).where(p.here)
# Which are listed is decided at once, by digests in their order; what is known of each is read
# page by page: no order of pages would hold while conversations are being used.
_is_listed = and_(
    or_(_unused_for.is_(None), conversations.c.used_at <= func.now() - _unused_for),
    or_(_of_any, p.is_mine),
)
choose_last_used = (
    select(conversations.c.conversation)
    .where(_is_listed)
    .order_by(conversations.c.used_at.desc(), conversations.c.conversation)
    .limit(p.limit)
)
count_listed = select(func.count()).select_from(conversations).where(_is_listed)
page_of_conversations = _infos(conversations.c.conversation).where(
    conversations.c.conversation == func.any(_chosen)
)
page_of_entries = (
    select(mappings.c.number, mappings.c.key, mappings.c.gone, mappings.c.label)
    .where(
        mappings.c.conversation == p.conversation,
        mappings.c.kind == p.kind,
        mappings.c.number > p.number,
        p.mine,
    )
    .order_by(mappings.c.number)
    .limit(p.limit)
)
last_numbers = (
    select(counters.c.entity, counters.c.last, counters.c.drafts, counters.c.table_name)
    .where(counters.c.conversation == p.conversation)
    .order_by(counters.c.entity)
)

# Restore.
restore_conversation = insert(conversations).values(
    conversation=p.conversation, id=p.id_, owner=p.owner, turn=_turn, begun_at=_begun_at
)
_numbered = (
    func.unnest(p.entities, p.numbers, _counts, _last_drafts)
    .table_valued("entity", "last", "kept", "drafts")
    .render_derived(name="numbered")
)
restore_counters = insert(counters).from_select(
    ["conversation", "entity", "last", "forgotten", "kind", "drafts", "table_name"],
    select(p.conversation, _numbered.c.entity, _numbered.c.last).add_columns(
        _numbered.c.last - _numbered.c.kept,
        p.next_kinds(func.row_number().over(order_by=_numbered.c.entity)),
        _numbered.c.drafts,
        p.table_of(_numbered.c.entity),
    ),
)
_highest = func.greatest(counters.c.last, restore_counters.excluded.last)
continue_counters = restore_counters.on_conflict_do_update(
    index_elements=[counters.c.conversation, counters.c.entity],
    set_={
        "last": _highest,
        "forgotten": _highest
        - restore_counters.excluded.last
        + restore_counters.excluded.forgotten,
        "drafts": func.greatest(counters.c.drafts, restore_counters.excluded.drafts),
        "left_at": null(),
        "table_name": restore_counters.excluded.table_name,
    },
)
_entries = (
    func.unnest(p.entities, p.numbers, p.keys, _gones, p.labels)
    .table_valued("entity", "number", "key", "gone", "label")
    .render_derived(name="entries")
)
restore_mappings = insert(mappings).from_select(
    ["conversation", "kind", "number", "key", "gone", "label"],
    select(p.conversation, counters.c.kind, _entries.c.number)
    .add_columns(_entries.c.key, _entries.c.gone, _entries.c.label)
    .join_from(
        _entries,
        counters,
        and_(counters.c.conversation == p.conversation, counters.c.entity == _entries.c.entity),
    ),
)
_generated = (
    func.unnest(
        *(p.entities, p.numbers, _turns, _edits, _versions, _states),
        *(p.contents, p.labels, p.keys),
    )
    .table_valued(
        *("entity", "number", "turn", "edited", "version", "state"),
        *("content", "label", "key"),
    )
    .render_derived(name="generated")
)
restore_drafts = insert(drafts).from_select(
    [
        *("conversation", "kind", "number", "turn", "edited", "version", "state"),
        *("content", "label", "key"),
    ],
    select(p.conversation, counters.c.kind, _generated.c.number)
    .add_columns(_generated.c.turn, _generated.c.edited, _generated.c.version)
    .add_columns(_generated.c.state, cast(_generated.c.content, JSON))
    .add_columns(_generated.c.label, _generated.c.key)
    .join_from(
        _generated,
        counters,
        and_(counters.c.conversation == p.conversation, counters.c.entity == _generated.c.entity),
    ),
)

# Count.
count_conversations = select(func.count()).select_from(conversations)
count_refs = select(counters.c.entity, func.sum(_kept).cast(BigInteger)).group_by(
    counters.c.entity
)
count_gone = select(func.count()).where(mappings.c.gone.is_not(None))
count_left = select(func.count()).where(_is_left)
count_drafts = (
    select(drafts.c.state, func.count().label("drafts"))
    .group_by(drafts.c.state)
    .order_by(drafts.c.state)
)
# A partitioned table has its room in its partitions.
room = text(
    """
    SELECT CAST(sum(pg_table_size(part)) AS bigint), CAST(sum(pg_indexes_size(part)) AS bigint)
    FROM unnest(CAST(:p_relations AS regclass[])) AS whole
    CROSS JOIN LATERAL (
        SELECT whole AS part UNION SELECT relid FROM pg_partition_tree(whole)
    ) AS parts
    """
)
