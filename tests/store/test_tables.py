"""A conversation's refs of an entity are of one table: every store refuses another."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from alfred_refs import EntityTableError, PostgresStore
from alfred_refs.mapping.keys import Ref
from alfred_refs.store import Activity, Address, DraftEdit, NewDraft, Store

UNKNOWN = Address("chat-7", "ann")
SHOP = replace(UNKNOWN, table_of={"order": "shop.orders", "item": "items"}.get)
STOCK = replace(UNKNOWN, table_of={"order": "stock.orders", "item": "items"}.get)

ORDER, DRAFT = Ref("order", 1), Ref("order", 1, draft=True)

pytestmark = pytest.mark.tables


@pytest.fixture
def store(any_store: Store) -> Store:
    """A store in which the shop has an order, which was read, and a draft of one."""
    any_store.refer(SHOP, [("order", 7)], {("order", 7): "Soup"})
    any_store.note(SHOP, [Activity(("order", 7), "read")], "model")
    any_store.draft(SHOP, [NewDraft("order", "{}"), NewDraft("item", "{}")])
    return any_store


REFUSED: list[Callable[[Store], object]] = [
    lambda store: store.refer(STOCK, [("order", 8)]),
    lambda store: store.refer(STOCK, [("order", 7)]),
    lambda store: store.refer(STOCK, [("item", 1), ("order", 8)]),
    lambda store: store.resolve(STOCK, [Ref("item", 1), ORDER]),
    lambda store: store.draft(STOCK, [NewDraft("item", "{}"), NewDraft("order", "{}")]),
    lambda store: store.read_drafts(STOCK, [DRAFT]),
    lambda store: list(store.drafts(STOCK, None, ["pending"])),
    lambda store: store.discard_drafts(STOCK, [Ref("item", 1, True), DRAFT]),
    lambda store: store.reserve_keys(STOCK, {DRAFT: 9}),
    lambda store: store.note(STOCK, [Activity(("order", 7), "read")], "model"),
    lambda store: store.activity(STOCK, 3),
]


def test_refs_of_another_table_are_refused(store: Store) -> None:
    """A key is another row's there. Nothing is changed."""
    before = store.export(UNKNOWN)

    for call in REFUSED:
        with pytest.raises(
            EntityTableError, match=r"for table 'shop.orders', but .* 'stock.orders'"
        ):
            call(store)
        assert store.export(UNKNOWN) == before


def test_what_tells_of_rows_and_drafts_passes_those_of_another_table_over(store: Store) -> None:
    """Refs of another table are ignored as unknown ones are."""
    store.mark(STOCK, [("order", 7)], "was deleted")
    store.label(STOCK, {("order", 7): "Cup"})
    edited = store.edit_drafts(STOCK, [DraftEdit(DRAFT, '{"a": 1}')])
    store.reserve_keys(SHOP, {DRAFT: 9})
    store.confirm_drafts(STOCK, [DRAFT])

    entry = store.resolve(SHOP, [ORDER])[ORDER]
    draft = store.read_drafts(SHOP, [DRAFT])[DRAFT]
    assert (entry.gone, entry.label, edited) == (None, "Soup", {})
    assert (draft.content, draft.state) == ("{}", "pending")


def test_who_does_not_know_the_table_uses_any(store: Store) -> None:
    """As operators' commands do, and as it is with entities older than the column."""
    store.refer(UNKNOWN, [("order", 8), ("old", 1)])

    assert store.resolve(UNKNOWN, [ORDER])[ORDER].key == 7
    known = replace(UNKNOWN, table_of={"order": "shop.orders", "old": "olds"}.get)
    other = replace(UNKNOWN, table_of={"old": "others"}.get)
    assert store.refer(known, [("old", 2)])[0].ref == Ref("old", 2)
    with pytest.raises(EntityTableError):
        store.resolve(other, [Ref("old", 1)])


def test_a_table_that_was_renamed_is_told_to_the_registry(engine: Engine) -> None:
    """By the statement that docs/registry.md has."""
    store = PostgresStore(engine)
    old = Address("chat-7", table_of={"recipe": "recipes"}.get)
    store.refer(old, [("recipe", 7)])
    page = Path(__file__).parents[2].joinpath("docs", "registry.md").read_text("utf-8")
    [statement] = re.findall(r"^update alfred_refs_counter .*;$", page, re.MULTILINE)
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)

    moved = replace(old, table_of={"recipe": "kitchen.recipes"}.get)
    assert store.resolve(moved, [Ref("recipe", 1)])[Ref("recipe", 1)].key == 7
    with pytest.raises(EntityTableError):
        store.resolve(old, [Ref("recipe", 1)])


def test_entities_of_one_table_are_shared(store: Store) -> None:
    """Two services that know the same table go on as before."""
    entries = store.refer(SHOP, [("item", 1)]) + store.refer(STOCK, [("item", 2)])

    assert [entry.ref.number for entry in entries] == [1, 2]
    assert len(store.resolve(STOCK, [Ref("item", 1), Ref("item", 2)])) == 2


def test_drafts_say_it_before_there_is_a_row(any_store: Store) -> None:
    """A draft's row is of the same table as its entity's refs."""
    any_store.draft(SHOP, [NewDraft("order", "{}")])

    with pytest.raises(EntityTableError):
        any_store.refer(STOCK, [("order", 7)])


def test_drafts_say_it_of_an_entity_of_before(any_store: Store) -> None:
    """One whose counter is older than the column, and says no table."""
    any_store.refer(UNKNOWN, [("order", 7)])
    any_store.draft(SHOP, [NewDraft("order", "{}")])

    with pytest.raises(EntityTableError):
        any_store.resolve(STOCK, [ORDER])


def test_what_is_imported_again_is_of_the_table_of_its_export(store: Store) -> None:
    """Though its counters were left behind."""
    exported = store.export(SHOP)
    store.forget(SHOP)
    store.restore(SHOP, exported)

    assert store.export(SHOP).tables == exported.tables
    with pytest.raises(EntityTableError):
        store.resolve(STOCK, [ORDER])


def test_a_fork_and_an_import_know_the_tables(store: Store) -> None:
    """They are copied with the counters."""
    store.fork(SHOP, "chat-8")
    store.restore(replace(SHOP, id="chat-9"), store.export(SHOP))

    for id_ in ("chat-8", "chat-9"):
        assert store.export(replace(UNKNOWN, id=id_)).tables == store.export(SHOP).tables
        with pytest.raises(EntityTableError):
            store.resolve(replace(STOCK, id=id_), [ORDER])


@pytest.mark.parametrize("way", ["forget", "prune"])
def test_what_is_forgotten_is_of_no_table(store: Store, way: str) -> None:
    """Whoever begins the conversation again may name another; the numbers go on."""
    if way == "forget":
        store.forget(SHOP)
    else:
        assert next(iter(store.prune(timedelta(), 10))) == 1

    assert [entry.ref for entry in store.refer(STOCK, [("order", uuid.uuid4())])] == [
        Ref("order", 2)
    ]
