"""What is shown can be written back: keys in texts and documents, out and in again."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import pytest
from sqlalchemy import JSON, Engine, delete
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from alfred_refs import AsyncRefSession, EntityNameError, RefRegistry, RefSession
from alfred_refs.errors import KeyColumnError, UnknownRefError
from alfred_refs.mapping.text import whole_keys
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Hooks, Limits, Reading, Toolset, Writing
from tests.fix_session import TravelLog
from tests.tools.conftest import by
from tests.tools.texts.notes import (
    FIRST,
    KEYS,
    OTHER,
    SECOND,
    THIRD,
    WRITTEN,
    Answer,
    Note,
    Order,
    by_id,
    chat_of,
    done,
    keep,
    read,
    refused,
    stored,
    toolset,
)


def test_a_key_with_a_ref_is_shown_by_it_and_others_are_numbered(
    notes: Engine, chat: RefSession
) -> None:
    """In texts, lists, documents and their names; by the rows' refs in the same answer, too."""
    keep(
        notes,
        Note(id=FIRST, title=f"see {SECOND}", tags=[SECOND.hex, f"{OTHER} {THIRD}"]),
        Note(id=SECOND, title=f"see {OTHER}", extra={str(FIRST).upper(): [FIRST.hex.upper()]}),
    )
    first, second = sorted(read(chat), key=lambda row: row["title"], reverse=True)

    assert (first["title"], first["tags"]) == (
        f"see <{second['id']}>",
        [f"<{second['id']}:hex>", "<key_1> <key_2>"] if second["title"] == "see <key_1>" else 0,
    )
    assert second["extra"] == {f"<{first['id']}:upper>": [f"<{first['id']}:HEX>"]}


def test_what_the_registry_knows_decides(notes: Engine, store: TravelLog) -> None:
    """Not what a process has met: one that has met nothing shows the same, in two round trips.

    Of several entities the first is taken of which a model may be shown refs.
    """
    keep(notes, Note(id=FIRST, title=f"see {SECOND}, {THIRD} and {OTHER}"))
    RefRegistry(store=store).conversation("chat-7").refer_pairs(
        [
            *(("order", SECOND), ("note", SECOND), ("author", SECOND)),
            *(("key", THIRD), ("order", str(OTHER))),
        ]
    )
    shown = []
    for _ in range(2):
        conversation = RefRegistry(store=store).conversation("chat-7")
        store.trips.clear()
        [row] = read(RefSession(notes, conversation=conversation))
        shown.append(row["title"])

    assert shown == ["see <note_1>, <key_1> and <order_2>"] * 2
    assert store.trips == ["refer", "refs_of", "refer"]  # the first is of the row's own ref


@pytest.mark.parametrize(
    "key", [str(OTHER), OTHER.hex, str(OTHER).upper(), OTHER.hex.upper(), f"{OTHER.hex}0a"]
)
def test_a_key_that_is_text_is_told_to_the_letter(
    notes: Engine, chat: RefSession, key: str
) -> None:
    """However it is spelt, by the ref of its row alone; so it comes in again."""
    chat_of(chat).refer_pairs([("order", key)])
    keep(notes, Note(id=FIRST, title=f"of {key}"))
    [row] = read(chat)
    data = {"title": row["title"], "tags": [row["title"]]}
    done(chat, "db_update", table="notes", filters=[by_id(row["id"])], data=data)

    assert row["title"] == "of <order_1>"
    assert stored(notes)[FIRST]["tags"] == [f"of {key}"]


@pytest.mark.parametrize("text", ["a < b > c", "<b>", "no keys", "<key>"])
def test_texts_without_keys_ask_nothing(notes: Engine, store: TravelLog, text: str) -> None:
    """Out or in: the registry is asked for the row's own ref alone."""
    keep(notes, Note(id=FIRST, title=text, extra={text: [text]}))
    with RefSession(
        notes, conversation=RefRegistry(store=store).conversation("chat-7")
    ) as session:
        [row] = read(session)
        data = {"title": row["title"], "extra": row["extra"]}
        done(session, "db_update", table="notes", filters=[by_id("note_1")], data=data)

    assert (row["title"], row["extra"]) == (text, {text: [text]})
    assert store.trips == ["refer"]


def test_marks_that_come_in_are_asked_for_once(notes: Engine, store: TravelLog) -> None:
    """However many there are in a call, and wherever."""
    keep(notes, Note(id=FIRST, title=f"{SECOND} {THIRD}", extra={str(OTHER): 1}))
    [row] = read(RefSession(notes, conversation=RefRegistry(store=store).conversation("chat-7")))
    session = RefSession(notes, conversation=RefRegistry(store=store).conversation("chat-7"))
    data = {"title": row["title"], "extra": row["extra"]}
    store.trips.clear()

    toolset.call(session, "db_create", {"table": "notes", "data": [data, data], "also": []})

    assert store.trips[0] == "resolve"
    assert store.trips.count("resolve") == 1


@pytest.mark.parametrize("found", [True, False])
def test_a_label_has_marks_too(notes: Engine, chat: RefSession, found: bool) -> None:
    """Beside refs and in legends; it can be expected as it is shown, and no other one."""
    keep(notes, Note(id=FIRST, title=f"of {OTHER}"), Note(id=SECOND, about_id=FIRST))
    [row] = read(chat, {"field": "about_id", "op": "is_not_null"})
    legend = Toolset([Note, Order], labels="legend", expect="optional")
    answer = done(chat, "db_read", legend, table="notes", filters=[by_id(row["id"])])

    assert row["_about_id_label"] == "of <key_1>"
    assert answer["labels"] == {row["about_id"]: "of <key_1>"}
    expect = row["_about_id_label"] if found else f"of <{row['id']}>"
    changed = toolset.call(
        chat,
        "db_update",
        {"table": "notes", "filters": [by_id(row["about_id"])], "data": {"tags": []}}
        | {"expect": expect},
    )
    assert ("error" in changed) is not found
    assert found or changed["error"]["actual"] == "of <key_1>"


def test_an_error_shows_what_is_there_as_rows_do(notes: Engine, chat: RefSession) -> None:
    """In data and in words, of keys that are numbers too."""
    keep(notes, Note(id=FIRST, title=f"of {OTHER}", orders={"bought": 7}))
    [row] = read(chat)
    asked = {"table": "notes", "filters": [by_id(row["id"])], "data": {"tags": []}}
    for expect, actual in (
        ({"title": "of <\\key_1>"}, "of <key_1>"),
        ({"orders": {}}, {"bought": "<order_1>"}),
    ):
        error = toolset.call(chat, "db_update", {**asked, "expect": expect})["error"]
        assert (error["code"], error["actual"]) == ("unexpected_row", actual)
        assert not whole_keys(error["message"])
        assert "7" not in error["message"]


def test_one_conversation_is_not_another(notes: Engine, chat: RefSession) -> None:
    """It has other numbers, and a mark of the one stands for nothing in the other."""
    keep(notes, Note(id=FIRST, title=f"of {OTHER}"))
    other = RefSession(notes, conversation=RefRegistry(notes).conversation("chat-8"))
    assert other.conversation is not None
    other.conversation.refer_pairs([("key", SECOND), ("key", THIRD)])
    read(chat)

    assert [row["title"] for row in read(other)] == ["of <key_3>"]
    assert refused(chat, title="of <key_3>")["code"] == "invalid_value"
    assert refused(chat, title="of <note_2>")["code"] == "invalid_value"


def test_forks_and_exports_have_the_same_marks(notes: Engine, chat: RefSession) -> None:
    """And go on with numbers of their own; no list of what is known offers them."""
    keep(notes, Note(id=FIRST, title=f"of {OTHER}"))
    read(chat)
    registry = RefRegistry(notes)
    here = registry.conversation("chat-7")
    for conversation in (
        here.fork("chat-8"),
        RefRegistry(store=MemoryStore()).import_conversation(here.export()),
    ):
        session = RefSession(notes, conversation=conversation)
        [row] = read(session)
        assert row["title"] == "of <key_1>"
        filters = by("id", "key_1")
        error = toolset.call(session, "db_read", {"table": "notes", "filters": filters})["error"]
        assert (error["code"], error["known"]) == ("wrong_entity", ["note_1"])
        filters = by("id", "key_7")
        error = toolset.call(session, "db_read", {"table": "notes", "filters": filters})["error"]
        assert (error["code"], error["known"]) == ("unknown_ref", ["note_1"])
        assert conversation.refs_by_entity(OTHER) == {}
        with pytest.raises(UnknownRefError) as caught:
            conversation.resolve("keys_1")
        assert caught.value.known == ("note_1",)


def test_a_mark_of_a_row_that_is_gone_can_be_written_back(notes: Engine, chat: RefSession) -> None:
    """It is shown so before and after, and stands for the same; the ref itself is refused."""
    keep(notes, Note(id=FIRST, title=f"of {SECOND}", orders=[3]), Note(id=SECOND))
    read(chat)
    before = stored(notes)[FIRST]
    gone, order = chat_of(chat).refer_pairs([("note", SECOND), ("order", 3)])
    with Session(notes) as plain:
        plain.execute(delete(Note).where(Note.id == SECOND))
        plain.execute(delete(Order).where(Order.id == 3))
        plain.commit()
    for process in (chat_of(chat), RefRegistry(notes).conversation("chat-7")):
        process.note_gone([("note", SECOND), ("order", 3)], "was deleted")
        session = RefSession(notes, conversation=process)
        asked = {"table": "notes", "filters": [by_id(gone)]}
        assert toolset.call(session, "db_read", asked)["error"]["code"] == "gone_ref"
        [row] = read(session)
        assert (row["title"], row["orders"]) == (f"of <{gone}>", [f"<{order}>"])
        data = {name: row[name] for name in WRITTEN}
        done(session, "db_update", table="notes", filters=[by_id(row["id"])], data=data)
        assert stored(notes) == {FIRST: before}


def test_a_filter_on_what_is_shown_finds_the_row(notes: Engine, chat: RefSession) -> None:
    """By every operator that takes texts, in groups and through paths too."""
    keep(
        notes,
        Note(id=FIRST, title=f"a {OTHER}", tags=[f"{OTHER}"], extra={OTHER.hex: 1}),
        Note(id=SECOND, title="a <key_1>", tags=["<key_1>"], extra={"<key_1:hex>": 1}),
        Note(id=THIRD, about_id=FIRST),
    )
    rows = [row for row in read(chat) if row["title"] is not None]
    assert [row["title"] for row in rows] in (
        ["a <key_1>", "a <\\key_1>"],
        ["a <\\key_1>", "a <key_1>"],
    )
    for row in rows:
        for met in (
            {"field": "title", "op": "=", "value": row["title"]},
            {"field": "title", "op": "in", "value": [row["title"]]},
            {"field": "title", "op": "ilike", "value": f"%{row['title'][2:]}"},
            {"field": "tags", "op": "contains", "value": row["tags"]},
            {"field": "extra", "op": "contains", "value": row["extra"]},
            {"or": [{"and": [{"not": {"field": "title", "op": "!=", "value": row["title"]}}]}]},
        ):
            assert [each["id"] for each in read(chat, met)] == [row["id"]]
    through = {"field": "about.title", "op": "=", "value": rows[0]["title"]}
    aside = {"field": "about.title", "op": "=", "value": rows[1]["title"]}
    assert [len(read(chat, each)) for each in (through, aside)] in ([1, 0], [0, 1])


# data of a note -> the code of the error for it
FOR_NOTHING: list[tuple[Answer, str]] = [
    ({"title": "of <key_9>"}, "invalid_value"),
    ({"title": "of <nothing_1>"}, "invalid_value"),
    ({"title": "of <key_99999999999>"}, "invalid_value"),
    ({"title": "of <order_1>"}, "invalid_value"),
    ({"title": "all…<cut: 5 more characters>"}, "invalid_value"),
    ({"tags": ["<cut: 5 more characters>"]}, "invalid_value"),
    ({"extra": {"a": [{"<cut: 2 more levels>": 1}]}}, "invalid_value"),
    ({"extra": {"<key_9>": 1}}, "invalid_value"),
    ({"extra": {"<note_1>": 1, str(FIRST): 2}}, "invalid_value"),
    ({"orders": [1]}, "invalid_value"),
    ({"orders": ["<note_1>", "<order_9>"]}, "invalid_value"),
    ({"orders": ["a <order_1>"]}, "invalid_value"),
    ({"orders": ["<bill_1>"]}, "invalid_value"),
    ({"orders": ["<order_1:hex>"]}, "invalid_value"),
    ({"basket": {"sum": "<order_1>"}}, "invalid_value"),
    ({"basket": {"order_id": 1}}, "invalid_value"),
    ({"title": "<gen_note_1>"}, "draft_ref"),
    ({"title": "<gen_note_2>"}, "invalid_value"),
    ({"about_id": "<note_1>"}, "unknown_ref"),
    ({"about_id": "key_1"}, "unknown_ref"),
    ({"device": "<note_9>"}, "invalid_value"),
    ({"device": "note_1"}, "invalid_value"),
    ({"device": "see <note_1>"}, "invalid_value"),
]


def test_what_stands_for_nothing_is_refused(notes: Engine, chat: RefSession) -> None:
    """Before anything is stored or looked for; by filters and expectations too."""
    keep(notes, Note(id=FIRST, title="as it was"))
    chat_of(chat).refer_all(Order, [1])
    chat_of(chat).refer_pairs([("bill", 1)])
    chat_of(chat).draft(Note, {"title": "pending"})
    for data, code in FOR_NOTHING:
        assert refused(chat, **data)["code"] == code, data
        assert stored(notes)[FIRST]["title"] == "as it was"
        asked = {"table": "notes", "filters": [by_id("note_1")], "data": {"tags": []}}
        error = toolset.call(chat, "db_update", {**asked, "expect": data})["error"]
        assert error["code"] in (code, "unexpected_row")
        name, value = next(iter(data.items()))
        op = "=" if name in ("title", "tags", "about_id", "device") else "contains"
        filters = by(name, value, op)
        error = toolset.call(chat, "db_delete", {"table": "notes", "filters": filters})["error"]
        assert error["code"] == code


def test_a_column_of_uuids_without_a_target_is_shown_as_a_text(
    notes: Engine, chat: RefSession
) -> None:
    """By the ref of a row that has the key, or by a number; marks are taken everywhere."""
    keep(notes, Note(id=FIRST, title="1", device=SECOND), Note(id=SECOND, title="2", device=OTHER))
    first, second = sorted(read(chat), key=lambda row: row["title"])
    assert (first["device"], second["device"]) == (f"<{second['id']}>", "<key_1>")

    for row, op in ((first, "="), (second, "in"), (second, "!=")):
        value = [row["device"]] if op == "in" else row["device"]
        found = read(chat, {"field": "device", "op": op, "value": value})
        assert [each["id"] for each in found] == [
            first["id"] if (row is second) == (op == "!=") else second["id"]
        ]
    write: Answer = {"table": "notes", "filters": [by_id(first["id"])]}
    swapped = {"device": "<key_1>", "devices": [f"<{first['id']}>"]}
    [row] = done(chat, "db_update", **write, data=swapped, expect={"device": first["device"]})[
        "rows"
    ]
    assert (row["device"], row["devices"]) == ("<key_1>", [f"<{first['id']}>"])
    assert stored(notes)[FIRST]["device"] == OTHER
    error = toolset.call(chat, "db_update", {**write, "data": {}, "expect": first})["error"]
    assert all(str(key) not in str(error) for key in KEYS)
    new = {"title": "3", "device": first["device"]}
    draft = done(chat, "db_create", table="notes", data=new, draft=True)["rows"][0]
    assert draft["device"] == first["device"]
    saved = done(chat, "db_create", table="notes", from_draft=draft["id"])["rows"][0]
    assert saved["device"] == first["device"]
    groups = done(chat, "db_read", table="notes", columns=["device", "count(*)"])["totals"]
    assert {each["device"] for each in groups} == {"<key_1>", first["device"]}


def test_sql_shows_and_takes_marks_of_uuids(notes: Engine, chat: RefSession) -> None:
    """In columns of UUIDs and of texts, as filters do."""
    keep(notes, Note(id=FIRST, title=f"of {OTHER}", device=SECOND), Note(id=SECOND, device=OTHER))
    with_sql = Toolset([Note, Order], sql=True)
    asked = "select id, device from notes order by title"
    rows = dict(done(chat, "db_query", with_sql, sql=asked)["rows"])
    ref, device = next(iter(rows.items()))
    assert rows == {ref: device, device.strip("<>"): "<key_1>"}

    for condition in (f"device = '{device}'", f"device in ('{device}')", "title = 'of <key_1>'"):
        sql = f"select id from notes where {condition}"
        assert done(chat, "db_query", with_sql, sql=sql)["rows"] == [[ref]]
    error = with_sql.call(
        chat, "db_query", {"sql": "select id from notes where device = '<key_9>'"}
    )["error"]
    assert error["code"] == "invalid_value"


def test_what_looks_like_a_mark_is_written_with_a_backslash(
    notes: Engine, chat: RefSession
) -> None:
    """As the error says; it is shown so again."""
    keep(notes, Note(id=FIRST))
    assert "a backslash after '<'" in refused(chat, title="<h_1>")["message"]
    data = {"title": "<\\h_1> <\\cut: 5 more characters>"}
    asked: Answer = {"table": "notes", "filters": [by_id("note_1")], "data": data}
    [row] = done(chat, "db_update", **asked)["rows"]

    assert stored(notes)[FIRST]["title"] == "<h_1> <cut: 5 more characters>"
    assert row["title"] == data["title"]


def test_integers_in_documents_are_keys_where_the_column_says_so(
    notes: Engine, chat: RefSession
) -> None:
    """All of them, or those of some members at any depth; others are data, as is text."""
    orders = {"first": 3, "more": [2, [3], True, 2.5, "3"]}
    basket = {"order_id": 2, "sum": 2, "of": [{"lines": [3, {"sum": 3}], "order_id": None}]}
    keep(notes, Note(id=FIRST, orders=orders, basket=basket), Note(id=SECOND, title="other"))
    before = stored(notes)[FIRST]
    [row] = read(chat, {"field": "title", "op": "is_null"})

    assert row["orders"] == {
        "first": "<order_1>",
        "more": ["<order_2>", ["<order_1>"], True, 2.5, "3"],
    }
    assert row["basket"] == {
        "order_id": "<order_2>",
        "sum": 2,
        "of": [{"lines": ["<order_1>", {"sum": 3}], "order_id": None}],
    }
    data = {"orders": row["orders"], "basket": row["basket"]}
    other = by("title", "other")
    done(chat, "db_update", table="notes", filters=other, data=data, expect={"count": 1})
    after = stored(notes)[SECOND]
    assert (after["orders"], after["basket"]) == (before["orders"], before["basket"])
    part = {"field": "basket", "op": "contains", "value": {"order_id": "<order_2>"}}
    assert len(read(chat, part)) == 2


@pytest.mark.parametrize("target", [5, "nowhere.id", "orders_of_notes.name", "orders_of_notes.x"])
def test_a_declaration_that_says_nothing_is_refused(target: Any) -> None:
    """When the toolset is made; to a session the column is data."""

    class Own(DeclarativeBase):
        metadata = Order.metadata

    class Odd(Own):
        __tablename__ = f"odd_{uuid.uuid4().hex}"
        id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
        extra: Mapped[Any] = mapped_column(JSON, info={"ref": target})

    with pytest.raises(KeyColumnError, match="in its documents"):
        Toolset([Odd], expect="optional")
    Own.metadata.remove(Own.metadata.tables[Odd.__tablename__])


def test_the_entity_of_keys_in_texts_is_reserved() -> None:
    """No class can have its name, and no program can mint under it."""

    class Own(DeclarativeBase):
        pass

    class Key(Own):
        __tablename__ = "keys"
        id: Mapped[uuid.UUID] = mapped_column(primary_key=True)

    with pytest.raises(EntityNameError, match="__ref_name__"):
        Toolset([Key], expect="optional")
    with pytest.raises(EntityNameError, match="reserved for keys in texts"):
        RefRegistry(store=MemoryStore()).conversation("chat-7").refer("key", 7)


def test_marks_stand_for_keys_wherever_texts_are_given(notes: Engine, chat: RefSession) -> None:
    """In or-filters, in other rows of the same call, and in what is searched for by meaning."""
    meant: list[str | None] = []

    class Search(Hooks):
        def before_read(self, read: Reading) -> None:
            meant.append(read.semantic)
            read.answer_empty("nothing like that")

    keep(notes, Note(id=FIRST, title=f"of {OTHER}"))
    [row] = read(chat)
    is_it = {"field": "title", "op": "=", "value": row["title"]}
    assert done(chat, "db_read", table="notes", or_filters=[is_it])["count"] == 1
    data = {"title": row["title"]}
    done(chat, "db_create", table="notes", data=data, also=[{"table": "notes", "data": [data]}])
    assert [note["title"] for note in stored(notes).values()] == [f"of {OTHER}"] * 3
    similar = {"field": "_semantic", "op": "similar", "value": row["title"]}
    read(chat, similar, tools=Toolset([Note, Order], hooks={Note: [Search()]}, expect="optional"))
    assert meant == [f"of {OTHER}"]


def test_a_cursor_has_no_key_and_stays_as_it_is(notes: Engine, chat: RefSession) -> None:
    """It goes on after a text with a key in it."""
    keep(notes, *(Note(id=key, title=f"of {n} {OTHER}") for n, key in enumerate(KEYS[:3])))
    asked: Answer = {"table": "notes", "columns": ["title"], "order_by": "title", "limit": 1}
    titles: list[str] = []
    cursor: Answer = {}
    for _ in range(3):
        answer = done(chat, "db_read", **asked, **cursor)
        titles += [row["title"] for row in answer["rows"]]
        if answer["more"]:
            cursor = {"cursor": answer["cursor"]}
            assert whole_keys(base64.urlsafe_b64decode(answer["cursor"] + "==").decode()) == []

    assert titles == [f"of {n} <key_1>" for n in range(3)]


def test_hooks_have_texts_as_they_are_stored(notes: Engine, chat: RefSession) -> None:
    """In arguments, records and rows; what they make of them is shown as all else."""
    seen: list[Any] = []

    class Curious(Hooks):
        def before_read(self, read: Reading) -> None:
            seen.extend(clause.value for clause in read.clauses())

        def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
            seen.extend(row["title"] for row in rows)
            rows[0]["more"] = f"{rows[0]['title']} <key_1>"

        def before_write(self, write: Writing) -> None:
            seen.extend(record["title"] for record in write.records)

    curious = Toolset([Note, Order], hooks={Note: [Curious()]}, expect="optional")
    keep(notes, Note(id=FIRST, title=f"of {OTHER}"))
    [row] = read(chat, tools=curious)
    [again] = read(chat, {"field": "title", "op": "=", "value": row["title"]}, tools=curious)
    data = {"title": again["title"]}
    done(chat, "db_update", curious, table="notes", filters=[by_id("note_1")], data=data)

    assert seen == [f"of {OTHER}"] * 5  # the last is the row of the update's answer
    assert (again["title"], again["more"]) == ("of <key_1>", "of <key_1> <\\key_1>")


def test_a_drafts_content_is_written_back(notes: Engine, chat: RefSession) -> None:
    """With what is nested in it, and when it is saved."""
    inside = [{"title": f"in {OTHER.hex}", "extra": {"a": "<key_1>"}}]
    content = {"title": f"of {OTHER}", "orders": [2], "inside": inside}
    draft = chat_of(chat).draft(Note, content)
    [row] = read(chat, by_id(draft.ref))
    shown = [{name: each[name] for name in ("title", "extra")} for each in row["inside"]]

    assert (row["title"], row["orders"]) == ("of <key_1>", ["<order_1>"])
    assert shown == [{"title": "in <key_1:hex>", "extra": {"a": "<\\key_1>"}}]
    data = {"title": row["title"], "orders": row["orders"], "inside": shown}
    update: Answer = {"table": "notes", "filters": [by_id(draft.ref)], "data": data}
    done(chat, "db_update", **update, expect={"title": row["title"]})
    [kept] = chat_of(chat).read_drafts([draft.ref])
    assert kept.content == content
    done(chat, "db_update", **update, expect="of <key_1>")
    save: Answer = {"table": "notes", "from_draft": draft.ref, "data": {"tags": [row["title"]]}}
    done(chat, "db_create", **save)
    rows = {each["title"]: each for each in stored(notes).values()}
    assert rows[f"of {OTHER}"]["tags"] == [f"of {OTHER}"]
    assert rows[f"in {OTHER.hex}"]["extra"] == {"a": "<key_1>"}


def test_a_text_that_is_cut_says_so_and_is_not_taken_back(notes: Engine, chat: RefSession) -> None:
    """In data, filters and expectations; what only looks so comes through."""
    keep(
        notes,
        Note(id=FIRST, title=f"<cut: 5 more characters> {OTHER} and more", tags=["long " * 9]),
    )
    short = Toolset([Note, Order], limits=Limits(text=30), expect="optional")
    [row] = read(chat, tools=short)

    assert row["title"] == "<\\cut: 5 more characters> …<cut: 45 more characters>"
    assert row["tags"] == ["long " * 6 + "…<cut: 15 more characters>"]
    filters = [by_id(row["id"])]
    for wrong in (
        {"data": {"tags": row["tags"]}},
        {"data": {"tags": []}, "expect": {"title": row["title"]}},
        {"data": {"tags": []}, "expect": row["title"]},
        {"data": {"tags": []}, "filters": by("title", row["title"])},
    ):
        asked = {"table": "notes", "filters": filters, **wrong}
        error = short.call(chat, "db_update", asked)["error"]
        assert (error["code"], "cut" in error["message"]) == ("invalid_value", True)


@pytest.mark.slow
async def test_an_asynchronous_session_does_the_same(notes: Engine) -> None:
    """Out and in."""
    keep(notes, Note(id=FIRST, title=f"of {OTHER} and {FIRST}", orders=[2]))
    before = stored(notes)
    engine = create_async_engine(notes.url.set(drivername="postgresql+asyncpg"))
    conversation = RefRegistry(engine).conversation("chat-7")
    async with AsyncRefSession(engine, conversation=conversation) as session:
        [row] = (await toolset.call_async(session, "db_read", {"table": "notes"}))["rows"]
        assert row["title"] == "of <key_1> and <note_1>"
        data = {"title": row["title"], "orders": row["orders"]}
        asked = {"table": "notes", "filters": [by_id("note_1")], "data": data}
        assert (await toolset.call_async(session, "db_update", asked))["count"] == 1
    await engine.dispose()

    assert stored(notes) == before


def test_a_ref_without_brackets_in_a_document_is_text_and_is_noted(
    notes: Engine, chat: RefSession
) -> None:
    """If a key is possible there; in columns of text, and in filters, it is never noted."""
    keep(notes, Note(id=FIRST, title="a"))
    read(chat)
    done(chat, "db_read", table="orders_of_notes")
    text = "in angle brackets it stands for the row's key"
    for data, noted in (
        ({"extra": {"x": ["note_1", "note_9", "order_1", "the note_1"]}}, ["'note_1' in 'extra'"]),
        ({"basket": {"order_id": "order_1"}}, ["'order_1' in 'basket'"]),
        ({"orders": ["<order_1>"], "title": "note_1", "tags": ["note_1"]}, []),
    ):
        answer = done(chat, "db_update", table="notes", filters=[by_id("note_1")], data=data)
        assert answer.get("notes", []) == [f"{each} is stored as text; {text}" for each in noted]
        made = done(chat, "db_create", table="notes", data={"title": "b", **data})
        assert len(made.get("notes", [])) == len(noted)
    contains = {"field": "extra", "op": "contains", "value": {"x": "note_1"}}
    assert "notes" not in done(chat, "db_read", table="notes", filters=[contains])


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        (
            "<key_1>",
            "'key_1' is a key in a text whose row is not known, and no ref; read the note",
        ),
        (
            "<note_1>",
            "refs are given without angle brackets, and 'note_1' has them; did you mean 'note_1'",
        ),
    ],
)
def test_a_mark_is_no_ref(notes: Engine, chat: RefSession, given: str, fact: str) -> None:
    """In filters, data and SQL; the error writes it as texts do."""
    keep(notes, Note(id=FIRST, title=f"of {OTHER}"))
    read(chat)
    with_sql = Toolset([Note, Order], expect="optional", sql=True)
    by_mark = {"field": "about_id", "op": "=", "value": given}
    update = {"filters": [by_id("note_1")], "data": {"about_id": given}}
    for tool, asked in (
        ("db_read", {"table": "notes", "filters": [by_mark]}),
        ("db_read", {"table": "notes", "filters": [by_id(given)]}),
        ("db_update", {"table": "notes", **update}),
        ("db_query", {"sql": f"select id from notes where id = '{given}'"}),
    ):
        error = with_sql.call(chat, tool, asked)["error"]
        assert (error["code"], error["ref"]) == ("unknown_ref", given.strip("<>"))
        assert error["message"].startswith(fact)
