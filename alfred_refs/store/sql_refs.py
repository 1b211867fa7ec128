"""The SQL of the Postgres store: every statement names the conversation first.

Statements take their values as parameters: `p_conversation` and `p_owner` always; `p_id` where a
conversation may be begun; `p_entities` with `p_keys` or `p_numbers` as parallel arrays, so that a
statement has one shape for one row and for a thousand. What is about a conversation as a whole is
in `lifetime_statements`.
"""

from __future__ import annotations

from sqlalchemy import (
    Integer,
    LargeBinary,
    and_,
    case,
    column,
    exists,
    false,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from . import sql_parameters as p
from .tables import conversations, counters, drafts, mappings

# (a shorter array is filled up with nulls: where there are no labels, an empty one does)
_wanted = (
    func.unnest(p.entities, p.keys, p.labels)
    .table_valued("entity", "key", "label", with_ordinality="position")
    .render_derived(name="wanted")
)
_counter_of_wanted = and_(
    counters.c.conversation == p.conversation, counters.c.entity == _wanted.c.entity
)
_mapping_of_wanted = and_(
    mappings.c.conversation == p.conversation,
    mappings.c.kind == counters.c.kind,
    mappings.c.key == _wanted.c.key,
)

# What is known of each wanted key: one probe of an index for each, because of the limit. As a
# join, it would be planned for a conversation of average size, and read a large one whole.
_met = (
    select(mappings.c.number, mappings.c.gone, mappings.c.label)
    .where(_mapping_of_wanted)
    .limit(literal_column("1"))
    .correlate(_wanted, counters)
    .lateral("met")
)
_wanted_and_met = _wanted.outerjoin(counters, _counter_of_wanted).outerjoin(
    _met, literal_column("true")
)


# Lets processes that start together make the tables one after the other. The number stands for
# them among the advisory locks of the database.
lock_tables = select(func.pg_advisory_xact_lock(int.from_bytes(b"alf_refs")))

# Locks the conversation's row, and makes it if need be, but only where some key is new: a result
# whose keys are all known writes nothing, unless it is to be noted that the conversation is used.
_is_new = exists().select_from(_wanted_and_met).where(_met.c.number.is_(None))
_begun = insert(conversations).from_select(
    ["conversation", "id", "owner"],
    select(p.conversation, p.id_, p.owner).where(
        or_(_is_new, exists().where(p.here, p.is_unnoted))
    ),
)
lock = _begun.on_conflict_do_update(
    index_elements=[conversations.c.conversation],
    # the default of a new row: now, which Citus refuses to be called here
    set_={"used_at": _begun.excluded.used_at},
    where=p.is_mine,
)

# Locks it in any case, for keys that `lock` found known, and that are not: meanwhile the
# conversation was forgotten.
_begun_always = insert(conversations).values(conversation=p.conversation, id=p.id_, owner=p.owner)
lock_always = _begun_always.on_conflict_do_update(
    index_elements=[conversations.c.conversation],
    set_={"used_at": _begun_always.excluded.used_at},
    where=p.is_mine,
)

# Numbers the new keys, and gives new entities a kind, if the conversation's row is locked, or can
# be without waiting. Must be a statement of its own after `lock`: under READ COMMITTED a statement
# keeps the snapshot from before it waited, so only the next one sees what was minted meanwhile.
_lock = (
    select(conversations.c.conversation)
    .where(p.here, p.is_mine)
    .with_for_update(skip_locked=True)
    .cte("locked")
)
_seen = (
    select(_wanted.c.position, _wanted.c.entity, _wanted.c.key, _met.c.number, _met.c.gone)
    .add_columns(_met.c.label, _wanted.c.label.label("given"))
    .add_columns(counters.c.kind, counters.c.last)
    .select_from(_wanted_and_met)
    .where(p.mine, ~p.is_of_another)
    .cte("seen")
)
_number_in_batch = func.row_number().over(partition_by=_seen.c.entity, order_by=_seen.c.position)
_fresh = (
    select(
        _seen.c.position,
        _seen.c.entity,
        _seen.c.kind,
        _seen.c.key,
        _seen.c.given,
        (func.coalesce(_seen.c.last, 0) + _number_in_batch).cast(Integer).label("number"),
    )
    # a case is evaluated row by row: the lock is not taken where no key is new
    .where(case((_seen.c.number.is_(None), exists(select(_lock.c.conversation))), else_=false()))
    .cte("fresh")
)
_kind_among_new = func.row_number().over(
    partition_by=_fresh.c.kind.is_(None), order_by=func.min(_fresh.c.position)
)
_count = insert(counters).from_select(
    ["conversation", "entity", "kind", "last", "table_name"],
    select(
        p.conversation,
        _fresh.c.entity,
        func.coalesce(_fresh.c.kind, p.next_kinds(_kind_among_new)),
        func.max(_fresh.c.number),
        p.table_of(_fresh.c.entity),
    ).group_by(_fresh.c.entity, _fresh.c.kind),
)
_counted = (
    _count.on_conflict_do_update(
        index_elements=[counters.c.conversation, counters.c.entity],
        set_={
            "last": _count.excluded.last,
            "left_at": null(),
            "table_name": func.coalesce(counters.c.table_name, _count.excluded.table_name),
        },
    )
    .returning(counters.c.entity, counters.c.kind)
    .cte("counted")
)
_minted = (
    insert(mappings)
    .from_select(
        ["conversation", "number", "kind", "key", "label"],
        select(p.conversation, _fresh.c.number, _counted.c.kind, _fresh.c.key, _fresh.c.given)
        .select_from(_fresh)
        .join(_counted, _counted.c.entity == _fresh.c.entity),
    )
    .cte("minted")
)

refer = union_all(
    select(_seen.c.position, _seen.c.number, _seen.c.gone, _seen.c.label, false()).where(
        _seen.c.number.is_not(None)
    ),
    select(_fresh.c.position, _fresh.c.number, null(), _fresh.c.given, true()),
).add_cte(_minted)

_named = (
    func.unnest(p.entities, p.numbers)
    .table_valued("entity", "number")
    .render_derived(name="named")
)
# The mapping of that number or the next higher one, for each: the order leaves no choice of index,
# which would be a guess where the server has no statistics yet.
_meant = (
    select(mappings.c.number, mappings.c.key, mappings.c.gone, mappings.c.label)
    .where(
        mappings.c.conversation == p.conversation,
        mappings.c.kind == counters.c.kind,
        mappings.c.number >= _named.c.number,
    )
    .order_by(mappings.c.number)
    .limit(literal_column("1"))
    .correlate(_named, counters)
    .lateral("meant")
)

resolve = (
    select(p.is_mine.label("mine"), p.is_unnoted.label("unnoted"))
    .add_columns(_named.c.entity, _named.c.number, counters.c.table_name)
    .add_columns(_meant.c.key, _meant.c.gone, _meant.c.label)
    .select_from(conversations)
    .join(_named, literal_column("true"))
    .outerjoin(
        counters,
        and_(counters.c.conversation == p.conversation, counters.c.entity == _named.c.entity),
    )
    .outerjoin(_meant, _meant.c.number == _named.c.number)
    .where(p.here)
)

# What a key names, of each entity that the conversation has: one probe of an index for each.
_sought = (
    func.unnest(p.keys).table_valued(column("key", LargeBinary)).render_derived(name="sought")
)
_number_sought = (
    select(mappings.c.number)
    .where(
        mappings.c.conversation == p.conversation,
        mappings.c.kind == counters.c.kind,
        mappings.c.key == _sought.c.key,
    )
    .limit(literal_column("1"))
    .correlate(_sought, counters)
    .lateral("number_sought")
)
_found = (
    select(_sought.c.key, counters.c.entity, _number_sought.c.number)
    .select_from(_sought)
    .join(counters, counters.c.conversation == p.conversation)
    .join(_number_sought, literal_column("true"))
    .subquery("found")
)
refs_of = (
    select(p.is_mine.label("mine"), _found.c.key, _found.c.entity, _found.c.number)
    .select_from(conversations)
    .outerjoin(_found, literal_column("true"))
    .where(p.here)
)

_there = and_(
    mappings.c.conversation == p.conversation,
    mappings.c.kind == p.kind,
    mappings.c.gone.is_(None),
    p.mine,
)
_number_column = mappings.c.number
_listed = select(_number_column, mappings.c.label)
_below = _listed.where(_there, _number_column < p.number)
_above = _listed.where(_there, _number_column >= p.number)
_around = union_all(
    _below.order_by(_number_column.desc()).limit(p.limit).subquery().select(),
    _above.order_by(_number_column).limit(p.limit).subquery().select(),
).subquery()

known = (
    select(_around.c.number, _around.c.label)
    .order_by(func.abs(_around.c.number - p.number), _around.c.number)
    .limit(p.limit)
)

_last = (
    select(_number_column, mappings.c.label, mappings.c.gone)
    .where(mappings.c.conversation == p.conversation, mappings.c.kind == p.kind, p.mine)
    .order_by(_number_column.desc())
    .limit(p.limit)
    .subquery()
)
labelled = (
    select(_last.c.number, _last.c.label)
    .where(_last.c.label.is_not(None), _last.c.gone.is_(None))
    .order_by(_last.c.number.desc())
)

entities = (
    select(p.is_mine.label("mine"), counters.c.entity, counters.c.last)
    .select_from(conversations)
    .outerjoin(
        counters,
        and_(
            counters.c.conversation == conversations.c.conversation,
            counters.c.last > counters.c.forgotten,
        ),
    )
    .where(p.here)
)

# Locks the conversation's row where it is there. Whoever writes several rows of a conversation
# does so under this lock: two that locked the rows themselves, each in an order of its own, would
# wait for each other.
lock_begun = select(conversations.c.conversation).where(p.here, p.is_mine).with_for_update()

# Whoever was rolled back may say so after somebody else has saved the same draft.
_is_saved = exists().where(
    drafts.c.conversation == p.conversation,
    drafts.c.kind == mappings.c.kind,
    drafts.c.key == mappings.c.key,
    drafts.c.state == "saved",
)
_may_be_marked = or_(p.gone.is_distinct_from("was never saved"), ~_is_saved)
mark = (
    update(mappings)
    .where(
        _counter_of_wanted, _mapping_of_wanted, mappings.c.gone.is_distinct_from(p.gone), p.mine
    )
    .where(_may_be_marked, p.is_of_table)
    .values(gone=p.gone)
)

label = (
    update(mappings)
    .where(_counter_of_wanted, _mapping_of_wanted, p.mine, p.is_of_table)
    .where(mappings.c.label.is_distinct_from(_wanted.c.label))
    .values(label=_wanted.c.label)
)

_first_turn = insert(conversations).values(
    conversation=p.conversation, id=p.id_, owner=p.owner, turn=1
)
begin_turn = _first_turn.on_conflict_do_update(
    index_elements=[conversations.c.conversation],
    set_={"turn": conversations.c.turn + 1, "used_at": _first_turn.excluded.used_at},
    where=p.is_mine,
).returning(conversations.c.turn)

turn = select(p.is_mine.label("mine"), conversations.c.turn).where(p.here)
