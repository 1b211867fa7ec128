"""The SQL of the Postgres store that is about drafts.

Every statement names the conversation first. Parameters are as in `statements`, with `p_contents`
as JSON texts, `p_turn` null for the turn that the conversation is in, and null in `p_versions` for
any. Whoever writes does so under the lock of the conversation's row, as those who mint.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    FromClause,
    Integer,
    LargeBinary,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    exists,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSON, insert

from . import sql_parameters as p
from .tables import conversations, counters, drafts, mappings

_after_entity = bindparam("p_after_entity", type_=Text)
_states = bindparam("p_states", type_=ARRAY(Text))

_always: ColumnElement[bool] = literal_column("true")
_turn = func.coalesce(
    bindparam("p_turn", type_=Integer),
    select(conversations.c.turn).where(p.here).correlate(None).scalar_subquery(),
)

# Locks the conversation's row where it is there, and notes that it is used.
lock_used = update(conversations).where(p.here, p.is_mine).values(used_at=func.now())

# Number. A statement of its own after the lock, as `statements.refer` is, and for its reason.
_new = (
    func.unnest(p.entities, p.contents, p.labels)
    .table_valued("entity", "content", "label", with_ordinality="position")
    .render_derived(name="new")
)
_number_in_batch = func.row_number().over(partition_by=_new.c.entity, order_by=_new.c.position)
_counter_of_new = and_(
    counters.c.conversation == p.conversation, counters.c.entity == _new.c.entity
)
_numbered = (
    select(_new.c.position, _new.c.entity, _new.c.content, _new.c.label, counters.c.kind)
    .add_columns(
        (func.coalesce(counters.c.drafts, 0) + _number_in_batch).cast(Integer).label("number")
    )
    .select_from(_new)
    .outerjoin(counters, _counter_of_new)
    .where(p.mine, ~p.is_of_another)
    .cte("numbered")
)
_kind_among_new = func.row_number().over(
    partition_by=_numbered.c.kind.is_(None), order_by=func.min(_numbered.c.position)
)
_count = insert(counters).from_select(
    ["conversation", "entity", "kind", "last", "drafts", "table_name"],
    select(
        p.conversation,
        _numbered.c.entity,
        func.coalesce(_numbered.c.kind, p.next_kinds(_kind_among_new)),
        literal_column("0"),
        func.max(_numbered.c.number),
        p.table_of(_numbered.c.entity),
    ).group_by(_numbered.c.entity, _numbered.c.kind),
)
_counted = (
    _count.on_conflict_do_update(
        index_elements=[counters.c.conversation, counters.c.entity],
        set_={
            "drafts": _count.excluded.drafts,
            "left_at": null(),
            "table_name": func.coalesce(counters.c.table_name, _count.excluded.table_name),
        },
    )
    .returning(counters.c.entity, counters.c.kind)
    .cte("counted")
)
_drafted = (
    insert(drafts)
    .from_select(
        [
            *("conversation", "number", "turn", "edited", "version"),
            *("kind", "state", "content", "label"),
        ],
        select(p.conversation, _numbered.c.number, _turn, _turn, literal_column("1"))
        .add_columns(_counted.c.kind, literal_column("'pending'"))
        .add_columns(cast(_numbered.c.content, JSON), _numbered.c.label)
        .select_from(_numbered)
        .join(_counted, _counted.c.entity == _numbered.c.entity),
    )
    .cte("drafted")
)
draft = (
    select(_numbered.c.position, _numbered.c.number, _turn.label("turn"))
    .order_by(_numbered.c.position)
    .add_cte(_drafted)
)

# Read. What is selected of each is what `drafting` makes an entry of, in this order.
_columns = (
    drafts.c.number,
    cast(drafts.c.content, Text).label("content"),
    *(drafts.c.label, drafts.c.turn, drafts.c.edited, drafts.c.version),
    *(drafts.c.state, drafts.c.key),
)
_named = (
    func.unnest(p.entities, p.numbers)
    .table_valued("entity", "number")
    .render_derived(name="named")
)
_counter_of_named = and_(
    counters.c.conversation == p.conversation, counters.c.entity == _named.c.entity
)
# the draft of that number or the next higher one, for each: see `statements`
_meant = (
    select(*_columns)
    .where(
        drafts.c.conversation == p.conversation,
        drafts.c.kind == counters.c.kind,
        drafts.c.number >= _named.c.number,
    )
    .order_by(drafts.c.number)
    .limit(literal_column("1"))
    .correlate(_named, counters)
    .lateral("meant")
)


def _row_of(found: FromClause, name: str) -> FromClause:
    """Return what is known of the row that a draft is saved as, by one probe of an index."""
    return (
        select(mappings.c.number, mappings.c.gone, mappings.c.label)
        .where(
            mappings.c.conversation == p.conversation,
            mappings.c.kind == counters.c.kind,
            mappings.c.key == found.c.key,
        )
        .limit(literal_column("1"))
        .correlate(counters, found)
        .lateral(name)
    )


def _beside(row: FromClause) -> tuple[Any, ...]:
    names = {"number": "row_number", "gone": "row_gone", "label": "row_label"}
    return tuple(row.c[name].label(other) for name, other in names.items())


_row_meant = _row_of(_meant, "row_meant")
read_drafts = (
    select(p.is_mine.label("mine"), _named.c.entity, counters.c.table_name)
    .add_columns(*_meant.c, *_beside(_row_meant))
    .select_from(conversations)
    .join(_named, _always)
    .outerjoin(counters, _counter_of_named)
    .outerjoin(_meant, _meant.c.number == _named.c.number)
    .outerjoin(_row_meant, _always)
    .where(p.here)
)

# In the order of bytes, whatever the database sorts by: that of Python, in which refs are sorted.
_in_order = counters.c.entity.collate("C")
_listed = (
    select(*_columns)
    .where(
        drafts.c.conversation == p.conversation,
        drafts.c.kind == counters.c.kind,
        drafts.c.number > case((counters.c.entity == _after_entity, p.number), else_=0),
        drafts.c.state == func.any(_states),
    )
    .order_by(drafts.c.number)
    .limit(p.limit)
    .correlate(counters)
    .lateral("listed")
)
_row_listed = _row_of(_listed, "row_listed")
_page = (
    select(counters.c.entity, counters.c.table_name, *_listed.c, *_beside(_row_listed))
    .select_from(counters)
    .join(_listed, _always)
    .outerjoin(_row_listed, _always)
    .where(
        counters.c.conversation == p.conversation,
        counters.c.drafts > 0,
        _in_order >= _after_entity,
        or_(p.entity.is_(None), counters.c.entity == p.entity),
    )
    .order_by(_in_order, _listed.c.number)
    .limit(p.limit)
    .subquery("page")
)
page_of_drafts = (
    select(p.is_mine.label("mine"), *_page.c)
    .select_from(conversations)
    .outerjoin(_page, p.is_mine)
    .where(p.here)
    .order_by(_page.c.entity.collate("C"), _page.c.number)
)

# Edit, all or none. What was done already, by a caller who was not told, is done again.
_edited = (
    func.unnest(p.entities, p.numbers, p.contents, p.labels, p.versions)
    .table_valued("entity", "number", "content", "label", column("version", Integer))
    .render_derived(name="edited")
)
_label = func.coalesce(_edited.c.label, drafts.c.label)
_is_done = and_(
    drafts.c.version == _edited.c.version + 1,
    cast(drafts.c.content, Text) == _edited.c.content,
    drafts.c.label.is_not_distinct_from(_label),
)
_counter_of_edited = and_(
    counters.c.conversation == p.conversation, counters.c.entity == _edited.c.entity
)
_draft_of_edited = and_(
    p.is_of_table,
    drafts.c.conversation == p.conversation,
    drafts.c.kind == counters.c.kind,
    drafts.c.number == _edited.c.number,
)
_may_be_edited = and_(
    drafts.c.state == "pending",
    or_(_edited.c.version.is_(None), drafts.c.version == _edited.c.version, _is_done),
)
_may_not_be_edited = (
    exists()
    .select_from(
        _edited.outerjoin(counters, _counter_of_edited).outerjoin(drafts, _draft_of_edited)
    )
    .where(_may_be_edited.is_not(true()))
    .correlate(None)
)
edit_drafts = (
    update(drafts)
    .where(_counter_of_edited, _draft_of_edited, p.mine, ~_may_not_be_edited)
    .values(
        content=cast(_edited.c.content, JSON),
        label=_label,
        edited=_turn,
        version=func.coalesce(_edited.c.version, drafts.c.version) + 1,
    )
    .returning(_edited.c.entity, *_columns)
)

# Discard, all or none. A key that is reserved stays: the row may yet be saved with it.
_may_not_be_discarded = (
    exists()
    .select_from(
        _named.outerjoin(counters, _counter_of_named).outerjoin(
            _meant, _meant.c.number == _named.c.number
        )
    )
    .where(or_(_meant.c.number.is_(None), _meant.c.state == "saved", ~p.is_of_table))
    .correlate(None)
)
_draft_of_named = and_(
    _counter_of_named,
    p.is_of_table,
    drafts.c.conversation == p.conversation,
    drafts.c.kind == counters.c.kind,
    drafts.c.number == _named.c.number,
)
discard_drafts = (
    update(drafts)
    .where(_draft_of_named, drafts.c.state == "pending", p.mine, ~_may_not_be_discarded)
    .values(state="discarded")
)

# Save. The key is there before the row is: whoever comes second inserts the same one.
_chosen = (
    func.unnest(p.entities, p.numbers, p.keys)
    .table_valued("entity", "number", "key")
    .render_derived(name="chosen")
)
reserve_keys = (
    update(drafts)
    .where(
        counters.c.conversation == p.conversation,
        counters.c.entity == _chosen.c.entity,
        p.is_of_table,
        drafts.c.conversation == p.conversation,
        drafts.c.kind == counters.c.kind,
        drafts.c.number == _chosen.c.number,
        drafts.c.state == "pending",
        drafts.c.key.is_(None),
        p.mine,
    )
    .values(key=cast(_chosen.c.key, LargeBinary))
)
confirm_drafts = (
    update(drafts)
    .where(_draft_of_named, drafts.c.state != "saved", drafts.c.key.is_not(None), p.mine)
    .values(state="saved")
)

# What an earlier attempt left: its row was rolled back, under the key that this one has.
bring_back = (
    update(mappings)
    .where(
        _draft_of_named,
        mappings.c.conversation == p.conversation,
        mappings.c.kind == drafts.c.kind,
        mappings.c.key == drafts.c.key,
        mappings.c.gone == literal_column("'was never saved'"),
        p.mine,
    )
    .values(gone=null())
)
