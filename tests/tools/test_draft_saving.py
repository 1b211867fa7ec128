"""Saving drafts by `db_create`: each once, with its children, in any order, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, func, select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import Conversation, RefRegistry, RefSession, SetupError
from alfred_refs.tools import Hooks, ToolError, Toolset, Writing
from tests import owned
from tests.fix_owned import World
from tests.fix_session import TravelLog
from tests.forks import together
from tests.tools.conftest import MODELS, Call
from tests.tools.models import Dish, Part, Serving

Named = dict[str, Any]


@pytest.fixture
def soup(conversation: Conversation) -> str:
    """A draft of a dish with a part in it."""
    content = {"name": "Soup", "servings": 2, "price": "4.50", "parts": [{"note": "leek"}]}
    return conversation.draft(Dish, content).ref


def pending(conversation: Conversation) -> list[str]:
    """Return the drafts that are not saved."""
    return [draft.ref for draft in conversation.drafts()]


def rows(engine: Engine, model: type[Any]) -> int:
    """Return how many rows a class has."""
    with Session(engine) as plain:
        return plain.scalar(select(func.count()).select_from(model)) or 0


def test_a_draft_becomes_a_row(call: Call, conversation: Conversation, soup: str) -> None:
    """With what is inside; both refs name it from then on."""
    answer = call("db_create", table="dishes", from_draft=soup)

    assert answer["saved"] == {soup: "dish_1"}
    [row] = answer["rows"]
    assert (row["id"], row["name"], row["servings"], row["price"]) == ("dish_1", "Soup", 2, 4.5)
    either = [{"field": "id", "op": "in", "value": [soup, "dish_1"]}]
    read = call("db_read", table="dishes", filters=either, columns=["id", "parts.note"])
    assert read["rows"] == [{"id": "dish_1", "parts": [{"id": "part_1", "note": "leek"}]}]
    assert pending(conversation) == []


def test_a_draft_may_be_changed_as_it_is_saved(
    call: Call, conversation: Conversation, soup: str
) -> None:
    """Its name too, and what is inside; it is known by its ref, and not offered again."""
    conversation.draft(Dish, {"name": "Soup"})
    changes = {"name": "Leek soup", "parts": [{"note": "leek"}, {"note": "salt"}]}
    answer = call("db_create", table="dishes", from_draft=soup, data=changes)
    parts = call("db_read", table="parts", columns=["note"], order_by="note")

    assert (answer["rows"][0]["name"], answer["rows"][0]["servings"]) == ("Leek soup", 2)
    assert [row["note"] for row in parts["rows"]] == ["leek", "salt"]
    assert pending(conversation) == ["gen_dish_2"]


def test_drafts_of_one_name_are_rows_of_their_own(
    call: Call, conversation: Conversation, dishes: Named, soup: str
) -> None:
    """Beside a row of that name, which is nobody's draft."""
    other = conversation.draft(Dish, {"name": "Soup"}).ref
    answer = call("db_create", table="dishes", from_draft=[other, soup])
    third = conversation.draft(Dish, {"name": "Soup"}).ref

    assert answer["saved"] == {other: "dish_1", soup: "dish_2"}
    assert [row["servings"] for row in answer["rows"]] == [None, 2]
    assert pending(conversation) == [third]
    assert "Soup" in dishes


def test_a_draft_without_a_name_is_saved(call: Call, conversation: Conversation) -> None:
    """No column of a class need say what a row is called."""
    dish = conversation.draft(Dish, {}).ref
    part = conversation.draft(Part, {"dish_id": dish, "position": 3}).ref
    call("db_create", table="dishes", from_draft=dish)
    answer = call("db_create", table="parts", from_draft=part)

    assert (answer["rows"][0]["dish_id"], answer["rows"][0]["position"]) == ("dish_1", 3)


def test_a_row_may_be_related_to_a_draft_that_comes_later(
    call: Call, conversation: Conversation, dishes: Named
) -> None:
    """Reading the rows that the draft is to have flushes nothing that waits for the draft."""
    assert dishes
    [rice, _] = call("db_read", table="parts", order_by="note")["rows"]
    meal = conversation.draft(Dish, {"name": "Meal", "parts": [rice["id"]]}).ref
    new = {"dish_id": meal, "note": "salad"}
    call("db_create", table="parts", data=new, also=[{"table": "dishes", "from_draft": meal}])

    filters = [{"field": "dish_id", "op": "=", "value": meal}]
    parts = call("db_read", table="parts", filters=filters, order_by="note")["rows"]
    has = [(part["id"], part["note"]) for part in parts]
    assert has == [(rice["id"], "rice"), ("part_3", "salad")]


@pytest.mark.parametrize("first", ["parent", "children"])
def test_parents_and_children_are_saved_in_one_call(
    call: Call, conversation: Conversation, soup: str, first: str
) -> None:
    """In any order: children name the parent by the draft's ref, drafts or not."""
    part = conversation.draft(Part, {"dish_id": soup, "note": "drafted"}).ref
    variant = conversation.draft(Dish, {"name": "Variant", "parent_id": soup}).ref
    given: list[Named] = [
        {"table": "dishes", "from_draft": soup},
        {"table": "parts", "data": [{"dish_id": soup, "note": "new"}]},
        {"table": "parts", "from_draft": part},
        {"table": "servings", "data": {"dish_id": variant, "place": 1}},
        {"table": "dishes", "from_draft": variant},
    ]
    main, *others = given if first == "parent" else given[::-1]
    answer = call("db_create", **main, also=others)

    saved = answer["saved"]
    dish = saved[soup]
    assert set(saved) == {soup, part, variant}
    parts = call("db_read", table="parts", columns=["note", "dish_id"], order_by="note")
    has = [(row["note"], row["dish_id"]) for row in parts["rows"]]
    assert has == [("drafted", dish), ("leek", dish), ("new", dish)]
    tables = [each["table"] for each in [answer, *answer["also"]]]
    assert tables == [each["table"] for each in [main, *others]]
    assert pending(conversation) == []


def test_a_child_that_is_refused_takes_all_with_it(
    call: Call, conversation: Conversation, tables: Engine, soup: str, dishes: Named
) -> None:
    """Nothing is saved, every draft is a draft, and the error speaks of the child's table."""
    before = list(conversation.drafts())
    taken = call("db_create", table="servings", data={"dish_id": "dish_1", "place": 1})
    call("db_read", table="dishes")
    count = rows(tables, Dish)
    twice = {"table": "servings", "data": [{"dish_id": soup, "place": 1}] * 2}
    answer = call("db_create", table="dishes", from_draft=soup, also=[twice])

    assert "error" in taken
    assert (answer["error"]["code"], answer["error"]["table"]) == ("conflict", "servings")
    assert (rows(tables, Dish), rows(tables, Serving)) == (count, 1)
    [after] = conversation.drafts()
    assert (after.content, after.version) == (before[0].content, before[0].version)
    assert "Soup" in dishes
    assert call("db_create", table="dishes", from_draft=soup)["count"] == 1


def test_a_call_that_is_repeated_creates_nothing(call: Call, tables: Engine, soup: str) -> None:
    """After a timeout, say: it is answered with the row, as it is now, and nothing beside it."""
    arguments: Named = {
        "table": "dishes",
        "from_draft": soup,
        "also": [{"table": "parts", "data": {"dish_id": soup, "note": "salt"}}],
    }
    first = call("db_create", **arguments)
    again = call("db_create", **arguments)

    assert again["rows"] == first["rows"]
    assert again["saved"] == first["saved"] == {soup: "dish_1"}
    assert again["also"] == [{"table": "parts", "rows": [], "count": 0}]
    done = "'gen_dish_1' was saved before: nothing was created now"
    assert again["notes"] == [f"{done}; to add more rows, name 'dish_1' in another call"]
    assert (rows(tables, Dish), rows(tables, Part)) == (1, 2)


def test_changes_of_a_draft_that_is_a_row_are_not_dropped(call: Call, soup: str) -> None:
    """The model is told that they were not applied, and how to; that alone, as no row is new."""
    call("db_create", table="dishes", from_draft=soup)
    again = call("db_create", table="dishes", from_draft=soup, data={"name": "Broth"})

    assert again["notes"] == [
        "'gen_dish_1' was saved before: nothing was created now",
        "'data' was not applied; to change the row, call db_update with 'dish_1'",
    ]


def test_drafts_that_are_rows_are_not_saved_with_others(
    call: Call, conversation: Conversation, soup: str
) -> None:
    """That is no repetition: the model is told which one to leave out."""
    other = conversation.draft(Dish, {"name": "Other"}).ref
    call("db_create", table="dishes", from_draft=soup)
    answer = call("db_create", table="dishes", from_draft=[soup, other])

    assert answer["error"]["ref"] == soup
    assert "was saved as 'dish_1'" in answer["error"]["message"]
    assert pending(conversation) == [other]


def test_a_draft_that_is_saved_meanwhile_is_answered_with_its_row(
    call: Call, conversation: Conversation, tables: Engine, soup: str
) -> None:
    """By another process, between the reservation and the insert."""
    other = sessionmaker(tables, class_=RefSession)

    def save(*_: object) -> None:
        with other(conversation=conversation) as session:
            session.add(session.get(Dish, soup))
            session.commit()

    event.listen(tables, "before_cursor_execute", save, once=True)
    answer = call("db_create", table="dishes", from_draft=soup, data={"name": "Late"})

    assert (answer["rows"][0]["name"], answer["saved"]) == ("Soup", {soup: "dish_1"})
    assert (rows(tables, Dish), rows(tables, Part)) == (1, 1)


def create(begin: Barrier, url: str) -> Any:
    """Save the draft with a part in a process, and return the answer."""
    engine = create_engine(url)
    also = [{"table": "parts", "data": {"dish_id": "gen_dish_1", "note": "salt"}}]
    arguments = {"table": "dishes", "from_draft": "gen_dish_1", "also": also}
    with RefSession(engine, conversation=RefRegistry(engine).conversation("chat-7")) as session:
        begin.wait()
        return Toolset(MODELS, expect="optional").call(session, "db_create", arguments)


@pytest.mark.slow
@pytest.mark.once
def test_processes_that_save_a_draft_together_make_one_row(tables: Engine, soup: str) -> None:
    """Both are answered with it, and its children are there once."""
    url = tables.url.render_as_string(hide_password=False)
    answers = [ended.result for ended in together(create, [(url,), (url,)])]

    assert [answer["saved"] for answer in answers] == 2 * [{soup: "dish_1"}]
    assert sorted(len(answer["also"][0]["rows"]) for answer in answers) == [0, 1]
    assert (rows(tables, Dish), rows(tables, Part)) == (1, 2)


SECRET = {"table": "secrets", "data": {}}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ({"from_draft": "gen_dish_9"}, None, "'gen_dish_9' is not a known draft"),
        ({"from_draft": "gen_dish_2"}, None, "'gen_dish_2' was discarded"),
        ({"from_draft": "gen_part_1"}, "wrong_entity", "'gen_part_1' names entity 'part' where"),
        ({"from_draft": "dish_1"}, None, "'dish_1' is not a known draft"),
        ({"from_draft": ["gen_dish_1"] * 2}, "invalid_arguments", "it names a draft twice"),
        ({}, "invalid_arguments", "at 'data': give data, or from_draft"),
        ({"from_draft": "gen_dish_1", "data": [{}]}, "invalid_arguments", "as one object"),
        ({"from_draft": ["gen_dish_1"], "data": {}}, "invalid_arguments", "give one draft"),
        ({"from_draft": "gen_dish_1", "data": {"nme": 1}}, "unknown_column", "'nme'"),
        ({"from_draft": "gen_dish_1", "data": {"id": "dish_1"}}, "unknown_column", "'id'"),
        ({"from_draft": "gen_dish_1", "data": {"servings": "x"}}, "invalid_value", "'servings'"),
        ({"from_draft": "gen_dish_1", "data": {"parts": [{"x": 1}]}}, "unknown_column", "'x'"),
        (
            {"from_draft": "gen_dish_1", "data": {"parent_id": "gen_dish_3"}},
            "draft_ref",
            "'gen_dish_3' is a draft's ref where a saved dish is needed; save",
        ),
        ({"from_draft": "gen_dish_1", "also": [SECRET]}, "unknown_table", "secrets"),
    ],
)
def test_what_cannot_be_saved_is_told(
    call: Call, conversation: Conversation, arguments: Named, code: str | None, said: str
) -> None:
    """In words from which a model can go on; nothing was changed."""
    for content in ({"name": "Soup"}, {}, {"name": "Other"}):
        conversation.draft(Dish, content)
    conversation.draft(Part, {})
    conversation.discard_drafts(["gen_dish_2"])
    answer = call("db_create", table="dishes", **arguments)

    assert said in answer["error"]["message"]
    assert code in (None, answer["error"]["code"])
    assert call("db_read", table="dishes")["count"] == 0
    assert pending(conversation) == ["gen_dish_1", "gen_dish_3", "gen_part_1"]


def test_columns_that_no_model_sees_are_not_saved_by_it(
    session: RefSession, conversation: Conversation
) -> None:
    """Though the program, which sees them, has put them into a draft; nor rows of such tables."""
    toolset = Toolset([Dish, Part], hidden=[Dish.spice], read_only=[Part], expect="optional")
    spicy = conversation.draft(Dish, {"spice": 3}).ref
    parted = conversation.draft(Dish, {"parts": [{"note": "x"}]}).ref

    first = toolset.call(session, "db_create", {"table": "dishes", "from_draft": spicy})
    second = toolset.call(session, "db_create", {"table": "dishes", "from_draft": parted})
    assert first["error"]["code"] == "invalid_content"
    assert second["error"]["code"] == "read_only_table"
    assert pending(conversation) == [spicy, parted]


def test_hooks_see_drafts_as_new_rows(session: RefSession, soup: str) -> None:
    """With values as columns have them, which they may change; a repetition writes nothing."""
    seen: list[Any] = []

    class Enrich(Hooks):
        def before_write(self, write: Writing) -> None:
            seen.append([dict(record) for record in write.records])
            for record in write.records:
                record["servings"] = 8

        def after_write(self, write: Writing, rows: list[dict[str, Any]]) -> None:
            seen.append([write.verb, *(row["id"] for row in rows)])

    toolset = Toolset(MODELS, hooks={Dish: [Enrich()]}, expect="optional")
    for _ in range(2):
        answer = toolset.call(session, "db_create", {"table": "dishes", "from_draft": soup})
    assert answer["rows"][0]["servings"] == 8
    assert [list(seen[0][0]), seen[1:]] == [["name", "servings", "price"], [["create", "dish_1"]]]


def test_a_call_in_a_transaction_of_the_programs_may_be_undone(
    session: RefSession, call: Call, conversation: Conversation, tables: Engine, soup: str
) -> None:
    """Until then its drafts are rows to the session, and drafts to everybody else."""
    with session.begin():
        call("db_create", table="dishes", from_draft=soup)
        by_ref = [{"field": "id", "op": "=", "value": soup}]
        read = call("db_read", table="dishes", filters=by_ref)
        assert [row["id"] for row in read["rows"]] == ["dish_1"]
        assert "_draft" not in read["rows"][0]
        assert call("db_create", table="dishes", from_draft=soup)["saved"] == {soup: "dish_1"}
        assert pending(conversation) == [soup]
        session.rollback()

    assert pending(conversation) == [soup]
    assert call("db_create", table="dishes", from_draft=soup)["saved"] == {soup: "dish_1"}
    assert rows(tables, Dish) == 1


def test_a_draft_is_the_owners_when_it_is_saved(owned_engine: Engine, world: World) -> None:
    """And its content may not name the owner, nor what others own."""
    registry = RefRegistry(owned_engine)
    registry.create_tables()
    chat = registry.conversation("chat-7", owner=world.users["ann"])
    ownership = owned.ownership()
    toolset = Toolset([owned.Recipe, owned.Line], owner=ownership, expect="optional")
    theirs = chat.refer(owned.Recipe, world.recipes["bob"])
    bob = chat.refer(owned.User, world.users["bob"])
    fine = chat.draft(owned.Recipe, {"name": "Soup", "lines": [{"text": "leek"}]}).ref
    copy = chat.draft(owned.Recipe, {"name": "Copy", "parent_id": theirs}).ref
    stolen = chat.draft(owned.Recipe, {"name": "Stolen", "user_id": bob}).ref
    ann = ownership.of(world.users["ann"])
    with RefSession(owned_engine, conversation=chat, owner=ann) as session:
        answers = {
            ref: toolset.call(session, "db_create", {"table": "recipes", "from_draft": ref})
            for ref in (fine, copy, stolen)
        }

    assert answers[fine]["rows"][0]["name"] == "Soup"
    assert answers[copy]["error"]["code"] == "foreign_row"
    assert answers[stolen]["error"]["code"] == "invalid_content"
    assert pending(chat) == [copy, stolen]
    with Session(owned_engine) as plain:
        saved = plain.scalars(select(owned.Recipe).filter_by(name="Soup")).one()
        assert saved.user_id == world.users["ann"]


def test_saving_costs_little(
    call: Call, registry: RefRegistry, soup: str, sent: list[str], store: TravelLog
) -> None:
    """Three round trips to the registry for drafts; a row is inserted and read again."""
    sent.clear()
    before = registry.counts.round_trips
    call("db_create", table="dishes", from_draft=soup)

    words = [statement.split()[0] for statement in sent]
    # the first limits the time
    assert words == ["SELECT", "INSERT", "INSERT", "SELECT"]
    assert registry.counts.round_trips - before <= 4  # read, reserve, mint, confirm
    assert store.trips == ["read_drafts", "refer"]


def test_a_draft_cannot_be_saved_in_another_table_after_it_was_read(call: Call, soup: str) -> None:
    """Though the call has read it for its own table already."""
    also = [{"table": "parts", "from_draft": soup, "expect": "Soup"}]
    given = {"table": "dishes", "from_draft": soup, "expect": "Soup", "also": also}
    assert call("db_create", **given)["error"]["code"] == "wrong_entity"


def test_a_saved_draft_whose_row_was_deleted_is_not_saved_again(call: Call, soup: str) -> None:
    """The error speaks of the draft that the call names, and says how to go on."""
    [row] = call("db_create", table="dishes", from_draft=soup)["rows"]
    only = [{"field": "id", "op": "=", "value": row["id"]}]
    call("db_delete", table="dishes", filters=only, expect=row["name"])
    error = call("db_create", table="dishes", from_draft=soup)["error"]
    assert (error["code"], error["ref"]) == ("gone_ref", soup)
    assert f"was saved as {row['id']!r}, which was deleted since" in error["message"]
    assert "give its values in 'data'" in error["message"]


def test_a_draft_is_read_once_for_its_label_and_its_content(
    session: RefSession, conversation: Conversation, store: TravelLog
) -> None:
    """`expect` and the write use the same reading of it."""
    soup = conversation.draft(Dish, {"name": "Soup"}).ref
    toolset = Toolset(MODELS)
    by_ref = [{"field": "id", "op": "=", "value": soup}]
    for tool, arguments in (
        ("db_update", {"filters": by_ref, "data": {"servings": 2}}),
        ("db_create", {"from_draft": soup}),
    ):
        store.trips.clear()
        asked = {"table": "dishes", "expect": {"name": "Soup"}, **arguments}
        assert toolset.call(session, tool, asked).get("count") == 1, tool
        assert store.trips.count("read_drafts") == 1


class Inside(Hooks):
    """Looks at parts, wherever they are made."""

    def __init__(self) -> None:
        """Have seen nothing."""
        self.seen: list[Any] = []

    def before_write(self, write: Writing) -> None:
        """Enrich the parts, by other records than were given; refuse one."""
        self.seen.append([record.get("note") for record in write.records])
        if {"note": "poison"} in write.records:
            raise ToolError("poisonous", "no poison; leave it out")
        write.records = [{**record, "position": 7} for record in write.records]

    def after_write(self, write: Writing, rows: list[dict[str, Any]]) -> None:
        """Say what was made."""
        write.notes.append(f"{len(rows)} parts by hooks")


def test_hooks_see_the_rows_inside_drafts(
    session: RefSession, conversation: Conversation, soup: str
) -> None:
    """They go through nobody else's hands, so what holds for such rows must hold there."""
    hooks = Inside()
    toolset = Toolset(MODELS, hooks={Part: [hooks]}, expect="optional")
    poison = conversation.draft(Dish, {"parts": [{"note": "poison"}]}).ref

    answer = toolset.call(session, "db_create", {"table": "dishes", "from_draft": soup})
    refused = toolset.call(session, "db_create", {"table": "dishes", "from_draft": poison})

    assert answer["notes"] == ["1 parts by hooks"]
    assert session.scalars(select(Part.position)).all() == [7]
    assert (refused["error"]["code"], pending(conversation)) == ("poisonous", [poison])
    assert hooks.seen == [["leek"], ["poison"]]


def test_hooks_know_what_drafts_hold(
    session: RefSession, conversation: Conversation, soup: str
) -> None:
    """By the refs that records may name, of all that the call saves, as they are to be saved."""
    seen: list[Any] = []

    class Looking(Hooks):
        def before_write(self, write: Writing) -> None:
            seen.append((write.records, dict(write.drafts)))

    toolset = Toolset(MODELS, hooks={Part: [Looking()]}, expect="optional")
    part = conversation.draft(Part, {"dish_id": soup}).ref
    new = {"table": "parts", "data": {"dish_id": soup}}
    drafted = {"table": "parts", "from_draft": part}
    changes = {"parts": [{"note": "salt"}]}
    asked = {"table": "dishes", "from_draft": soup, "data": changes, "also": [new, drafted]}
    answer = toolset.call(session, "db_create", asked)

    dish = {"name": "Soup", "servings": 2, "price": "4.50", "parts": [{"note": "salt"}]}
    contents = {soup: dish, part: {"dish_id": soup}}
    of_soup = [{"dish_id": soup}]
    assert "error" not in answer
    assert seen == [(of_soup, contents), (of_soup, contents), ([{"note": "salt"}], contents)]


def test_a_conflict_of_another_kind_is_not_tried_again(
    session: RefSession, conversation: Conversation
) -> None:
    """Hooks are asked once, and the model is told."""
    hooks = Inside()
    toolset = Toolset(MODELS, hooks={Part: [hooks]}, expect="optional")
    ref = conversation.draft(Dish, {"code": "x", "parts": [{"note": "leek"}]}).ref
    toolset.call(session, "db_create", {"table": "dishes", "data": {"code": "x"}})

    answer = toolset.call(session, "db_create", {"table": "dishes", "from_draft": ref})
    assert (answer["error"]["code"], answer["error"]["columns"]) == ("conflict", ["code"])
    assert hooks.seen == [["leek"]]
    assert pending(conversation) == [ref]


def double(records: list[Named]) -> None:
    """Add to the records."""
    records *= 2


def leave(records: list[Named]) -> None:
    """Put one record in the place of another: as many as there were, and one draft without."""
    records[0] = records[1]


@pytest.mark.parametrize("change", [double, leave])
def test_a_hook_may_not_add_to_drafts_or_take_some_out(
    session: RefSession, conversation: Conversation, change: Callable[[list[Named]], None]
) -> None:
    """Which record would be of which draft."""

    class Changing(Hooks):
        def before_write(self, write: Writing) -> None:
            change(write.records)

    refs = [conversation.draft(Dish, {"name": name}).ref for name in ("Soup", "Dal")]
    toolset = Toolset(MODELS, hooks={Dish: [Changing()]}, expect="optional")
    with pytest.raises(SetupError, match="a hook of 'Dish' changed how many records there are"):
        toolset.call(session, "db_create", {"table": "dishes", "from_draft": refs})
    assert pending(conversation) == refs
