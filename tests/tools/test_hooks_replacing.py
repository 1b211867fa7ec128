"""Hooks that put something else in the place of what they were given, or choose the rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alfred_refs import Conversation, ForeignRowError, Ownership, RefSession, SetupError
from alfred_refs.tools import Hooks, Reading, Toolset, Writing
from alfred_refs.tools.arguments import DbRead, FilterClause
from tests import owned
from tests.fix_owned import World
from tests.tools.conftest import MODELS, anns, counted
from tests.tools.models import Dish, Part, Serving

Named = dict[str, Any]
Record = dict[str, Any]

KORMA = [{"field": "name", "op": "=", "value": "Korma"}]


class Replacing(Hooks):
    """Put other records in the place of those given, by a function of the list."""

    def __init__(self, replace: Callable[[list[Record]], None]) -> None:
        self._replace = replace

    def before_write(self, write: Writing) -> None:
        """Replace them, in the list that there is."""
        self._replace(write.records)


def shout(records: list[Record]) -> None:
    """Put new records in the place of all, with names in capitals."""
    records[:] = [{**record, "name": record["name"].upper()} for record in records]


def called(
    session: RefSession, replace: Callable[[list[Record]], None], tool: str, /, **asked: Any
) -> Named:
    """Call a tool on dishes, with a hook that replaces records."""
    toolset = Toolset(
        MODELS, hooks={Dish: [Replacing(replace)]}, deduplicate={Dish: ["name"]}, expect="optional"
    )
    return counted(toolset, session, tool, {"table": "dishes", **asked})


def names(answer: Named) -> list[str]:
    """Return what the rows of an answer are called."""
    return [row["name"] for row in answer["rows"]]


def test_rows_that_a_hook_adds_and_takes_out_are_those_that_are_made(
    session: RefSession, tables: Engine
) -> None:
    """Where they are of no drafts, as many as it likes; what it took out is nowhere."""

    def add(records: list[Record]) -> None:
        records[:] = [{"name": "first"}, *records[1:], {"name": "last"}]

    answer = called(session, add, "db_create", data=[{"name": "dal"}, {"name": "raita"}])
    assert names(answer) == ["first", "raita", "last"]
    with Session(tables) as plain:
        assert {*plain.scalars(select(Dish.name))} == {"first", "raita", "last"}


def test_records_of_a_hook_are_told_apart_as_those_of_a_model(session: RefSession) -> None:
    """What is the same once the hook is through is merged."""
    answer = called(session, shout, "db_create", data=[{"name": "dal"}, {"name": "DAL"}])

    assert (names(answer), answer["merged"]) == (["DAL"], [[1, 2]])


def test_what_a_hook_leaves_must_be_complete(
    session: RefSession, conversation: Conversation, dishes: Named
) -> None:
    """The records that are there in the end are looked at, and not those that were."""
    korma = conversation.refer(Dish, dishes["Korma"])
    new = {"table": "parts", "data": {"dish_id": korma}}

    def empty(records: list[Record]) -> None:
        records[0] = {}

    def fill(records: list[Record]) -> None:
        records[0] = {"dish_id": korma}

    for replace, data, fault in ((empty, new["data"], "missing_value"), (fill, {}, None)):
        toolset = Toolset(MODELS, hooks={Part: [Replacing(replace)]}, expect="optional")
        answer = toolset.call(session, "db_create", {**new, "data": data})
        assert answer.get("error", {}).get("code") == fault


def test_a_change_is_what_the_hook_has_put_in_its_place(
    session: RefSession, conversation: Conversation, dishes: Named, tables: Engine
) -> None:
    """With refs in it, as the model gives them, and without what it gave."""
    cuisine = conversation.refer("cuisine", dishes["Thai"])

    def otherwise(records: list[Record]) -> None:
        records[0] = {"servings": records[0]["servings"] + 1, "cuisine_id": cuisine}

    data = {"servings": 6, "spice": 3}
    [row] = called(session, otherwise, "db_update", filters=KORMA, data=data)["rows"]

    assert (row["servings"], row["spice"], row["_cuisine_id_label"]) == (7, None, "Thai")
    with Session(tables) as plain:
        assert plain.get_one(Dish, dishes["Korma"]).cuisine_id == dishes["Thai"]


def test_a_list_of_its_own_will_do_for_each_verb(session: RefSession) -> None:
    """`records` may be set, and not only changed; a delete has none, and goes on."""

    class Setting(Hooks):
        def before_write(self, write: Writing) -> None:
            write.records = [{"name": "set"} for _ in write.records] or [{"name": "nothing"}]

    toolset = Toolset(MODELS, hooks={Dish: [Setting()]}, expect="optional")
    by_id = [{"field": "id", "op": "=", "value": "dish_1"}]
    for tool, asked in (
        ("db_create", {"data": {"name": "dal"}}),
        ("db_update", {"data": {"name": "dahl"}, "filters": by_id}),
    ):
        assert names(counted(toolset, session, tool, {"table": "dishes", **asked})) == ["set"]
    gone = counted(toolset, session, "db_delete", {"table": "dishes", "filters": by_id})
    assert gone["deleted"] == ["dish_1"]
    assert session.scalars(select(Dish.name)).all() == []


# Drafts


@pytest.fixture
def drafts(conversation: Conversation) -> list[str]:
    """Three drafts of dishes."""
    dal, naan = {"name": "dal", "servings": 1}, {"name": "naan", "servings": 3}
    made: list[Named] = [dal, {"name": "raita"}, naan]
    return [conversation.draft(Dish, content).ref for content in made]


def saved(session: RefSession, refs: list[str]) -> list[tuple[str | None, int | None]]:
    """Return the rows that drafts have become."""
    rows = [session.get_one(Dish, ref) for ref in refs]
    return [(row.name, row.servings) for row in rows]


def test_drafts_become_what_the_hook_has_put_in_their_place(
    session: RefSession, drafts: list[str]
) -> None:
    """Each its own: a record is of the draft whose place it takes."""
    answer = called(session, shout, "db_create", from_draft=drafts)

    assert names(answer) == ["DAL", "RAITA", "NAAN"]
    assert saved(session, drafts) == [("DAL", 1), ("RAITA", None), ("NAAN", 3)]


def test_a_replaced_record_may_stand_among_moved_ones(
    session: RefSession, drafts: list[str]
) -> None:
    """Those that were moved are known by themselves, and the new one by its place."""

    def mix(records: list[Record]) -> None:
        first, second, third = records
        records[:] = [third, {**second, "name": "new"}, first]

    called(session, mix, "db_create", from_draft=drafts)
    assert saved(session, drafts) == [("dal", 1), ("new", None), ("naan", 3)]


def test_what_a_hook_takes_out_of_a_draft_is_not_saved(
    session: RefSession, drafts: list[str]
) -> None:
    """In the record that it was given, and in another."""

    def less(records: list[Record]) -> None:
        del records[0]["servings"]
        records[2] = {"name": records[2]["name"]}

    called(session, less, "db_create", from_draft=drafts)
    assert saved(session, drafts) == [("dal", None), ("raita", None), ("naan", None)]


def test_a_replaced_record_may_name_another_draft_of_the_call(
    session: RefSession, conversation: Conversation, drafts: list[str]
) -> None:
    """As those of the model may; and of `also` each table has its own hooks."""
    part = conversation.draft(Part, {"dish_id": drafts[0], "note": "salt"}).ref

    def move(records: list[Record]) -> None:
        records[0] = {**records[0], "dish_id": drafts[1]}

    toolset = Toolset(MODELS, hooks={Part: [Replacing(move)]}, expect="optional")
    also = [{"table": "dishes", "from_draft": drafts[:2]}]
    asked = {"table": "parts", "from_draft": part, "also": also}
    answer = toolset.call(session, "db_create", asked)

    assert answer["rows"][0]["dish_id"] == answer["saved"][drafts[1]]


# Reads


class Asking(Hooks):
    """Put another question in the place of the model's."""

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    def before_read(self, read: Reading) -> None:
        """Replace the arguments."""
        read.arguments = read.arguments.model_copy(update=self._changes)


def by_id(value: Any, op: Any = "=") -> list[FilterClause]:
    """Return filters on a row's own ref."""
    return [FilterClause(field="id", op=op, value=value)]


def asked(session: RefSession, hook: Hooks, **arguments: Any) -> list[Named]:
    """Return the rows that dishes are asked for with a hook."""
    toolset = Toolset(MODELS, hooks={Dish: [hook]}, expect="optional")
    given = {"table": "dishes", "columns": ["name"], **arguments}
    rows: list[Named] = toolset.call(session, "db_read", given)["rows"]
    return rows


@pytest.mark.parametrize("place", ["filters", "or_filters"])
def test_a_question_of_a_hook_may_name_a_draft(
    session: RefSession, drafts: list[str], dishes: Named, place: str
) -> None:
    """It is shown, though the model has not named it."""
    assert len(dishes) == 5
    hook = Asking(**{place: by_id(drafts[0])})

    assert asked(session, hook) == [{"id": drafts[0], "name": "dal", "_draft": "pending"}]


def test_a_draft_that_a_hook_asks_no_more_for_is_not_shown(
    session: RefSession, conversation: Conversation, drafts: list[str], dishes: Named
) -> None:
    """Though the model has named it."""
    soup = conversation.refer(Dish, dishes["Soup"])
    filters = [{"field": "id", "op": "=", "value": drafts[0]}]

    naan = {"id": drafts[2], "name": "naan", "_draft": "pending"}
    for ref, row in ((soup, {"id": soup, "name": "Soup"}), (drafts[2], naan)):
        assert asked(session, Asking(filters=by_id(ref)), filters=filters) == [row]


def test_drafts_of_a_question_of_a_hook_come_first(
    session: RefSession, conversation: Conversation, drafts: list[str], dishes: Named
) -> None:
    """So many as it says."""
    soup = conversation.refer(Dish, dishes["Soup"])
    hook = Asking(filters=by_id([*drafts, soup], "in"), order_by="name", order_dir="desc", limit=3)
    rows = asked(session, hook, order_by="spice")
    assert [row["name"] for row in rows] == ["dal", "raita", "naan"]
    rows = asked(session, hook, order_by="spice", limit=100)
    assert len(rows) == 3


def test_a_question_of_a_hook_is_checked_as_a_models(
    session: RefSession, drafts: list[str]
) -> None:
    """A draft that is none is told."""
    toolset = Toolset(MODELS, hooks={Dish: [Asking(filters=by_id("gen_dish_9"))]})
    error = toolset.call(session, "db_read", {"table": "dishes"})["error"]

    assert error["code"] == "unknown_draft"
    assert error["known"] == drafts
    assert error["message"] == (
        "'gen_dish_9' is not a known draft of entity 'dish'; pending: 'gen_dish_1' (\"dal\"), "
        "'gen_dish_2' (\"raita\"), 'gen_dish_3' (\"naan\")"
    )


def test_a_whole_question_may_be_new(session: RefSession, drafts: list[str]) -> None:
    """Made by the class of the arguments, as JSON would be."""

    class New(Hooks):
        def before_read(self, read: Reading) -> None:
            named = {"field": "id", "op": "=", "value": drafts[1]}
            read.arguments = DbRead.model_validate(
                {"table": "dishes", "filters": [named], "columns": ["name", "servings"]}
            )

    assert asked(session, New()) == [
        {"id": drafts[1], "name": "raita", "servings": None, "_draft": "pending"}
    ]


@pytest.mark.usefixtures("dishes")
def test_a_question_of_a_hook_may_name_rows_with_several_key_columns(session: RefSession) -> None:
    """By their refs, which are looked up when the hook is through."""
    [row] = Toolset(MODELS).call(session, "db_read", {"table": "servings"})["rows"]
    for op, count in (("in", 1), ("not_in", 0)):
        named = FilterClause(field="_ref", op=op, value=[row["_ref"]])
        toolset = Toolset(MODELS, hooks={Serving: [Asking(filters=[named])]})
        assert toolset.call(session, "db_read", {"table": "servings"})["count"] == count


@pytest.mark.usefixtures("dishes")
def test_a_hook_may_add_a_filter_with_a_ref_in_place(session: RefSession) -> None:
    """The ref is resolved, as in arguments that a hook replaces."""
    [first, *_] = Toolset(MODELS).call(session, "db_read", {"table": "dishes"})["rows"]

    class Adding(Hooks):
        def before_read(self, read: Reading) -> None:
            read.arguments.filters.extend(by_id(first["id"]))

    assert len(asked(session, Adding())) == 1
    counting = {"table": "dishes", "columns": ["count(*)"]}
    answer = Toolset(MODELS, hooks={Dish: [Adding()]}).call(session, "db_read", counting)
    assert answer["totals"] == [{"count(*)": 1}]


# Mistakes of hooks in what no model sees


@pytest.fixture
def ann(owned_engine: Engine, world: World, ownership: Ownership) -> RefSession:
    """A session of ann's."""
    return RefSession(owned_engine, **anns(world, ownership))


PLAN = [{"field": "id", "op": "=", "value": "plan_1"}]
PLANS = [
    ("db_create", {"table": "plans", "data": {"code": "x"}}),
    ("db_update", {"table": "plans", "data": {"day": 2}, "filters": PLAN}),
]


def giving(name: str, value: Any) -> Replacing:
    """Return a hook that gives a column a value."""

    def give(records: list[Record]) -> None:
        records[0] = {**records[0], name: value}

    return Replacing(give)


@pytest.mark.parametrize(("tool", "arguments"), PLANS)
def test_a_hooks_mistake_in_the_owners_column_is_raised(
    ann: RefSession, world: World, ownership: Ownership, tool: str, arguments: Named
) -> None:
    """The model does not know of it, and could not put it right."""
    hooks = {owned.Plan: [giving("user_id", world.users["bob"])]}
    toolset = Toolset([owned.Recipe, owned.Plan], owner=ownership, hooks=hooks, expect="optional")
    with ann, pytest.raises(ForeignRowError, match="user_id"):
        counted(toolset, ann, tool, arguments)


@pytest.mark.parametrize(("tool", "arguments"), PLANS)
def test_a_hooks_mistake_in_a_hidden_reference_is_raised(
    ann: RefSession, world: World, ownership: Ownership, tool: str, arguments: Named
) -> None:
    """One in a column that the model sees is told: it may be what the model gave."""
    hooks = {owned.Plan: [giving("recipe_id", world.recipes["bob"])]}
    models = [owned.Recipe, owned.Plan]
    hidden = [owned.Plan.recipe_id, owned.Plan.recipe]
    toolset = Toolset(models, owner=ownership, hooks=hooks, expect="optional")
    hiding = Toolset(models, owner=ownership, hooks=hooks, hidden=hidden, expect="optional")
    with ann:
        error = counted(toolset, ann, tool, arguments)["error"]
        assert (error["code"], error["column"]) == ("foreign_row", "recipe_id")
    with ann, pytest.raises(ForeignRowError, match=r"Plan\.recipe_id"):
        counted(hiding, ann, tool, arguments)


def test_a_draft_of_the_programs_with_an_owner_of_its_own_is_not_told(
    ann: RefSession, world: World, ownership: Ownership, plainly: Callable[[Any], list[Any]]
) -> None:
    """A hook that stamps the rows of drafts wrongly is found, and nothing is saved."""
    assert ann.conversation is not None
    draft = ann.conversation.draft(owned.Recipe, {"name": "Soup"}).ref
    hooks = {owned.Recipe: [giving("user_id", world.users["bob"])]}
    toolset = Toolset([owned.Recipe], owner=ownership, hooks=hooks, expect="optional")
    with ann, pytest.raises(ForeignRowError, match=r"Recipe\.user_id"):
        toolset.call(ann, "db_create", {"table": "recipes", "from_draft": draft})

    assert plainly(select(owned.Recipe.name).filter_by(name="Soup")) == []
    assert [each.ref for each in ann.conversation.drafts()] == [draft]


class Noting(Hooks):
    """Leave a note in reads and writes, and keep the rows that a write shows."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def before_read(self, read: Reading) -> None:
        """Note it, which makes the rows pass through this hook."""
        read.notes.append("parts are archived")
        read.conditions.append(Part.note != "lost")

    def after_write(self, write: Writing, rows: list[Any]) -> None:
        """Note it, and keep the rows."""
        write.notes.append("parts were counted")
        self.rows += rows


def test_hooks_of_nested_rows_note_once(session: RefSession) -> None:
    """Their rows are complete after the write."""
    hooks = Noting()
    toolset = Toolset(MODELS, hooks={Part: [hooks]}, expect="optional")
    data = {"name": "Stew", "parts": [{"note": "rice"}, {"note": "beans"}]}
    answer = toolset.call(session, "db_create", {"table": "dishes", "data": data})

    assert sorted(answer["notes"]) == ["parts are archived", "parts were counted"]
    seen = [(row["id"], row["note"]) for row in hooks.rows]
    assert seen == [("part_1", "rice"), ("part_2", "beans")]


# Rows that a hook chooses: a search of the application's own, in its order


NEAR = {"field": "_semantic", "op": "similar", "value": "something warm"}


class Given(Hooks):
    """Answer any search by the same rows."""

    def __init__(self, keys: Sequence[Any]) -> None:
        self._keys = keys

    def before_read(self, read: Reading) -> None:
        """Give their keys."""
        read.keys = self._keys


def _read(session: RefSession, keys: Sequence[Any], **arguments: Any) -> dict[str, Any]:
    toolset = Toolset([Dish], hooks={Dish: [Given(keys)]})
    return toolset.call(session, "db_read", {"table": "dishes", "columns": ["name"], **arguments})


def test_keys_and_refs_are_read_in_the_order_given(
    session: RefSession, dishes: dict[str, uuid.UUID]
) -> None:
    """A row that is given by both is read once, where it comes first."""
    korma = session.scalars(select(Dish.id).where(Dish.name == "Korma")).one()
    keys = [dishes["Soup"], korma, dishes["Curry"], dishes["Korma"]]
    assert names(_read(session, keys)) == ["Soup", "Korma", "Curry"]


def test_filters_hold_beside_keys(session: RefSession, dishes: dict[str, uuid.UUID]) -> None:
    """What a hook gives must be what the model asks for too."""
    hot = {"field": "tags", "op": "contains", "value": ["hot"]}
    keys = [dishes["Soup"], dishes["Korma"], dishes["Curry"]]
    assert names(_read(session, keys, filters=[NEAR, hot])) == ["Korma", "Curry"]


def test_the_next_page_goes_on_in_the_same_order(
    session: RefSession, dishes: dict[str, uuid.UUID]
) -> None:
    """Page by page, each row comes once, and the last page says that it is."""
    keys = [dishes[name] for name in ("Soup", "Korma", "Curry")]
    first = _read(session, keys, filters=[NEAR], limit=2)
    second = _read(session, keys, filters=[NEAR], limit=2, cursor=first["cursor"])
    assert (names(first), names(second)) == (["Soup", "Korma"], ["Curry"])
    assert (first["more"], second["more"]) == (True, False)


def test_what_is_not_shown_gets_no_ref(
    session: RefSession, conversation: Conversation, dishes: dict[str, uuid.UUID]
) -> None:
    """Of many rows that are near, the model knows those that it has seen, by number and label."""
    _read(session, [dishes[name] for name in ("Soup", "Korma", "Curry")], limit=1)
    known = {entry.ref: entry.label for entry in conversation.entries()}
    assert known == {"dish_1": "Soup"}


def test_no_keys_are_no_rows(session: RefSession, sent: list[str]) -> None:
    """Nothing is near: nothing is sent, and nothing is read."""
    assert _read(session, [], filters=[NEAR])["rows"] == []
    assert [each for each in sent if "dishes" in each] == []


def test_a_key_of_a_row_that_is_gone_is_left_out(
    session: RefSession, dishes: dict[str, uuid.UUID]
) -> None:
    """An index of the application's own may be behind."""
    assert names(_read(session, [uuid.uuid4(), dishes["Soup"]])) == ["Soup"]


def test_a_page_goes_on_after_rows_that_a_hook_has_removed(
    session: RefSession, dishes: dict[str, uuid.UUID]
) -> None:
    """No row is on two pages."""

    class Dropping(Given):
        def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
            rows[:] = [row for row in rows if row["name"] != "Soup"]

    keys = [dishes[name] for name in ("Soup", "Korma", "Curry")]
    toolset = Toolset([Dish], hooks={Dish: [Dropping(keys)]})
    asked = {"table": "dishes", "columns": ["name"], "filters": [NEAR], "limit": 2}
    first = toolset.call(session, "db_read", asked)
    second = toolset.call(session, "db_read", {**asked, "cursor": first["cursor"]})
    assert (names(first), names(second)) == (["Korma"], ["Curry"])


@pytest.mark.parametrize("columns", [None, ["count(*)"], ["place", "count(*)"]])
def test_rows_with_several_key_columns_have_no_keys(
    session: RefSession, columns: list[str] | None
) -> None:
    """Rows, totals and groups."""
    toolset = Toolset([Serving], hooks={Serving: [Given([uuid.uuid4()])]})
    with pytest.raises(SetupError, match="whose rows have several key columns"):
        toolset.call(session, "db_read", {"table": Serving.__tablename__, "columns": columns})
