"""Reading drafts: what is not saved is answered without its table, and beside rows that are."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from alfred_refs import Conversation, RefSession
from alfred_refs.store import Address, NewDraft
from alfred_refs.tools import Hooks, Limits, Reading, Toolset
from tests.fix_session import TravelLog
from tests.models import Cook, Guest, Person
from tests.profiles import examples
from tests.tools.conftest import MODELS, Call
from tests.tools.models import Cuisine, Dish
from tests.tools.test_filters import CLAUSES, EACH_TIME, Kitchen, kitchen

__all__ = ["kitchen"]

FIRST, SECOND = "gen_dish_1", "gen_dish_2"


def by_id(*refs: str, field: str = "id") -> dict[str, Any]:
    """Return a filter on refs."""
    return {"field": field, "op": "in", "value": list(refs)}


def shown(answer: dict[str, Any], name: str = "id") -> list[Any]:
    """Return what the rows of an answer have in a column."""
    return [row[name] for row in answer["rows"]]


def keep(store: TravelLog, **content: Any) -> None:
    """Keep content as a draft of a dish, whether or not it fits the class of today."""
    store.draft(Address("chat-7", None), [NewDraft("dish", json.dumps(content))])


def save(conversation: Conversation, ref: str, key: uuid.UUID) -> None:
    """Note that a draft is saved as a row that is there."""
    conversation.reserve_keys({ref: key})
    conversation.confirm_drafts([ref])


# What is shown


def test_a_draft_is_shown_like_a_row(call: Call, conversation: Conversation) -> None:
    """What it has in its columns, null in the others, what is nested in it, and that it is one."""
    parts = [{"note": "rice", "position": 1}, {"note": "sauce"}]
    conversation.draft(Dish, {"name": "Dal", "cooked_on": "2026-05-01", "parts": parts})

    answer = call("db_read", table="dishes", filters=[by_id(FIRST)])

    [row] = answer["rows"]
    names = [name for name in row if row[name] is not None]
    assert names == ["id", "name", "cooked_on", "_draft", "parts"]
    assert {"code", "cuisine_id", "alike"} < row.keys()
    assert (row["id"], row["_draft"], row["cooked_on"]) == (FIRST, "pending", "2026-05-01")
    nothing = {"id": None, "dish_id": None, "cuisine_id": None}
    assert row["parts"] == [
        {**nothing, "position": 1, "note": "rice"},
        {**nothing, "position": None, "note": "sauce"},
    ]
    assert (answer["count"], answer["more"]) == (1, False)


def test_columns_say_what_is_shown(call: Call, conversation: Conversation) -> None:
    """The ref is always there; what is nested only where it is named."""
    content = {"name": "Dal", "servings": 2, "parts": [{"note": "rice", "position": 1}]}
    conversation.draft(Dish, {**content, "cuisine": {"name": "Indian"}})
    asked = {"table": "dishes", "filters": [by_id(FIRST)]}

    [narrow] = call("db_read", **asked, columns=["servings"])["rows"]
    [wide] = call("db_read", **asked, columns=["name", "parts.note", "cuisine"])["rows"]

    assert narrow == {"id": FIRST, "servings": 2, "_draft": "pending"}
    assert wide["parts"] == [{"id": None, "note": "rice"}]
    assert wide["cuisine"] == {"id": None, "name": "Indian"}


def test_what_is_hidden_of_rows_is_hidden_of_drafts(session: RefSession, store: TravelLog) -> None:
    """Columns and tables that no model may use, whatever the content has."""
    keep(store, name="Dal", price=2, parts=[{"note": "rice"}], old="a column that was")
    toolset = Toolset([Dish], hidden=[Dish.price])
    asked = {"table": "dishes", "filters": [by_id(FIRST)]}
    [row] = toolset.call(session, "db_read", asked)["rows"]

    assert row["name"] == "Dal"
    assert not {"price", "parts", "old"} & row.keys()


def test_keys_in_a_draft_are_hidden(
    call: Call, conversation: Conversation, dishes: dict[str, uuid.UUID], store: TravelLog
) -> None:
    """A known one by its ref, any other by a mark, in columns of refs and in texts."""
    known, other = conversation.refer(Dish, dishes["Korma"]), uuid.uuid4()
    texts = {"name": f"like {dishes['Korma']}", "extra": {"by": [str(other)]}}
    keep(store, **texts, parent_id=str(dishes["Korma"]), cuisine_id=77)

    [row] = call("db_read", table="dishes", filters=[by_id(FIRST)])["rows"]

    assert (row["name"], row["extra"]) == (f"like <{known}>", {"by": ["<key_1>"]})
    assert (row["parent_id"], row["cuisine_id"]) == (known, "<key>")


def test_refs_in_a_draft_have_labels(
    call: Call, conversation: Conversation, dishes: dict[str, uuid.UUID]
) -> None:
    """Those of rows, of drafts, and of what was a draft, which is shown as its row."""
    thai = conversation.refer(Cuisine, dishes["Thai"])
    conversation.draft(Cuisine, {"name": "Indian"})
    save(conversation, "gen_cuisine_1", dishes["Indian"])
    indian = conversation.refer(Cuisine, dishes["Indian"])
    conversation.draft(Dish, {"name": "Dal"})
    parts = [{"note": "rice", "cuisine_id": "gen_cuisine_1"}]
    refs = {"parent_id": FIRST, "cuisine_id": "gen_cuisine_1", "second_cuisine_id": thai}
    conversation.draft(Dish, {"name": "Tarka Dal", **refs, "parts": parts})

    [row] = call("db_read", table="dishes", filters=[by_id(SECOND)])["rows"]

    assert [row[name] for name in refs] == [FIRST, indian, thai]
    assert [row[f"_{name}_label"] for name in refs] == ["Dal", "Indian", "Thai"]
    [part] = row["parts"]
    assert (part["cuisine_id"], part["_cuisine_id_label"]) == (indian, "Indian")


def test_rows_that_a_draft_names_are_shown_by_their_refs(
    call: Call, conversation: Conversation, dishes: dict[str, uuid.UUID]
) -> None:
    """Beside what is nested, and in the column that will have them."""
    thai = conversation.refer(Cuisine, dishes["Thai"])
    korma = conversation.refer(Dish, dishes["Korma"])
    parts = call("db_read", table="parts")["rows"]
    conversation.draft(Dish, {"cuisine": thai, "parts": [parts[0]["id"], {"note": "rice"}]})
    conversation.draft(Dish, {"parent": FIRST, "parts": [{"dish": korma}]})

    first, second = call("db_read", table="dishes", filters=[by_id(FIRST, SECOND)])["rows"]
    of_thai = {"field": "cuisine_id", "op": "=", "value": thai}
    found = call("db_read", table="dishes", filters=[by_id(FIRST, SECOND), of_thai])

    assert first["cuisine"] == first["cuisine_id"] == thai
    assert first["_cuisine_id_label"] == "Thai"
    assert [first["parts"][0], first["parts"][1]["note"]] == [parts[0]["id"], "rice"]
    assert (second["parent_id"], second["parts"][0]["dish_id"]) == (FIRST, korma)
    assert shown(found) == [FIRST]


def test_a_draft_is_of_its_class(session: RefSession, conversation: Conversation) -> None:
    """As rows are, where the rows of several classes are of one entity."""
    conversation.draft(Cook, {"stars": 2})
    conversation.draft(Guest, {})
    refs = ["gen_person_1", "gen_person_2"]
    toolset = Toolset([Person, Cook])

    def read(table: str) -> list[Any]:
        asked = {"table": table, "filters": [by_id(*refs)]}
        return shown(toolset.call(session, "db_read", asked))

    assert (read("people"), read("cooks")) == (refs, refs[:1])


def test_labels_of_drafts_stand_in_the_legend(
    session: RefSession, conversation: Conversation
) -> None:
    """Where labels come once for an answer; or nowhere."""
    conversation.draft(Dish, {"name": "Dal"})
    conversation.draft(Dish, {"parent_id": FIRST})
    asked = {"table": "dishes", "filters": [by_id(SECOND)]}

    legend = Toolset(MODELS, labels="legend").call(session, "db_read", asked)
    none = Toolset(MODELS, labels="none").call(session, "db_read", asked)

    assert legend["labels"] == {FIRST: "Dal"}
    assert "labels" not in none
    assert "_parent_id_label" not in none["rows"][0]


def test_a_draft_that_refers_to_what_is_gone_is_shown(
    call: Call, conversation: Conversation, store: TravelLog
) -> None:
    """With the refs that it has, and without labels for those."""
    conversation.draft(Dish, {"name": "Dal"})
    keep(store, parent_id=FIRST, cuisine_id="cuisine_9", alike=["gen_x_1"])
    conversation.discard_drafts([FIRST])

    [row] = call("db_read", table="dishes", filters=[by_id(SECOND)])["rows"]

    assert (row["parent_id"], row["cuisine_id"], row["alike"]) == (FIRST, "cuisine_9", ["gen_x_1"])
    assert not [name for name in row if name.endswith("_label")]


def test_what_is_long_is_cut(session: RefSession, conversation: Conversation) -> None:
    """As in rows: texts, what is nested, and the answer as a whole."""
    five = [{"note": str(n)} for n in range(5)]
    conversation.draft(Dish, {"name": "x" * 50, "parts": five})
    conversation.draft(Dish, {"name": "y" * 50})
    asked = {"table": "dishes", "columns": ["name", "parts"], "filters": [by_id(FIRST, SECOND)]}
    limits = Limits(rows=3, characters=60, text=10)

    answer = Toolset(MODELS, limits=limits).call(session, "db_read", asked)

    name, parts = "gen_dish_1.name: 40 more characters", "gen_dish_1.parts: 2 more rows"
    assert shown(answer, "name") == ["x" * 10 + "…<cut: 40 more characters>"]
    assert (answer["cut"][:2], answer["more"]) == ([name, parts], True)
    next_page = {**asked, "cursor": answer["cursor"]}
    rest = Toolset(MODELS, limits=limits).call(session, "db_read", next_page)
    assert shown(rest, "name") == ["y" * 10 + "…<cut: 40 more characters>"]
    assert not rest["more"]


def test_related_rows_are_limited_in_all(session: RefSession, conversation: Conversation) -> None:
    """Those of drafts and rows together; and what is not shown is in no legend."""
    conversation.draft(Cuisine, {"name": "Indian"})
    conversation.draft(Cuisine, {"name": "Thai"})
    for n in (1, 2):
        parts = [{"note": "x" * 20, "cuisine_id": f"gen_cuisine_{n}"}] * 2
        conversation.draft(Dish, {"name": str(n), "parts": parts})
    asked = {"table": "dishes", "columns": ["parts"], "filters": [by_id(FIRST, SECOND)]}
    few = Toolset(MODELS, limits=Limits(related=3)).call(session, "db_read", asked)
    short = Toolset(MODELS, limits=Limits(characters=100), labels="legend")

    assert [len(row["parts"]) for row in few["rows"]] == [2, 1]
    assert few["cut"] == ["gen_dish_2.parts: 1 more rows"]
    answer = short.call(session, "db_read", asked)
    assert (shown(answer), answer["labels"]) == ([FIRST], {"gen_cuisine_1": "Indian"})


def test_uuids_that_are_no_keys_are_covered(call: Call, store: TravelLog) -> None:
    """In a column of their own as inside of a text."""
    device = str(uuid.uuid4())
    keep(store, device=device)
    keep(store, device=f"see {device}")
    read = call("db_read", table="dishes", columns=["device"], filters=[by_id(FIRST, SECOND)])

    assert shown(read, "device") == ["<key_1>", "see <key_1>"]


# What it costs


@pytest.mark.usefixtures("dishes")
def test_reading_a_draft_sends_no_statement(
    call: Call, conversation: Conversation, sent: list[str], store: TravelLog
) -> None:
    """It is answered by the registry, in one round trip, in whatever groups it is named."""
    conversation.draft(Dish, {"name": "Dal"})
    conversation.draft(Dish, {"name": "Naan"})
    sent.clear()
    store.trips.clear()
    named = {"field": "id", "op": "=", "value": FIRST}
    dal, naan = ({"field": "name", "op": "=", "value": name} for name in ("Dal", "Naan"))

    for filters in (
        [named],
        [by_id(FIRST, SECOND), dal],
        [{"or": [named, {"and": [by_id(SECOND), dal]}]}],
        [{"not": {"or": [{"not": named}, naan]}}],
        [by_id(FIRST, SECOND), {"not": naan}],
        [{"not": {"field": "id", "op": "!=", "value": FIRST}}],
    ):
        assert shown(call("db_read", table="dishes", filters=filters)) == [FIRST]
    asked = {"or_filters": [named, by_id(SECOND)], "order_by": "servings"}
    either = call("db_read", table="dishes", **asked)
    assert shown(either) == [FIRST, SECOND]
    assert either["notes"] == ["drafts come first, by their numbers: 'order_by' is for rows"]
    assert [each for each in sent if "dishes" in each] == []
    assert store.trips == ["read_drafts"] * 7
    conversation.draft(Dish, {"parent_id": FIRST})
    store.trips.clear()
    call("db_read", table="dishes", filters=[by_id(FIRST, "gen_dish_3")])
    assert store.trips == ["read_drafts"]


@pytest.mark.usefixtures("dishes")
def test_without_drafts_nothing_is_asked_of_them(
    call: Call, store: TravelLog, sent: list[str]
) -> None:
    """A read of rows takes the statements and round trips that it took."""
    call("db_read", table="dishes", order_by="name")
    store.trips.clear()
    sent.clear()
    call("db_read", table="dishes", columns=["name"], filters=[by_id("dish_1", "dish_2")])

    assert store.trips == []
    assert len([each for each in sent if "dishes" in each]) == 1


# Drafts among rows


@pytest.fixture
def both(kitchen: Kitchen, conversation: Conversation) -> Kitchen:
    """Two dozen dishes, and drafts of as many that have the same values."""
    rows = kitchen.call("db_read", table="dishes", order_by="code")["rows"]
    for row in rows:
        content = {
            name: each for name, each in row.items() if not name.endswith(("_label", "_labels"))
        }
        del content["id"]
        conversation.draft(Dish, {**content, "code": f"d{row['code'][1:]}"})
    return kitchen


ORDERED = ["name", "servings", "spice", "rating", "price", "is_vegan", "course", "cooked_on"]
NAMED = [by_id(*(f"{kind}_{n}" for n in range(1, 25) for kind in ("gen_dish", "dish")))]


def pages(kitchen: Kitchen, size: int, **asked: Any) -> list[Any]:
    """Return the rows of all pages."""
    rows: list[Any] = []
    cursor = None
    for _ in range(50):
        answer = kitchen.call("db_read", **asked, limit=size, cursor=cursor)
        rows += answer["rows"]
        assert len(answer["rows"]) <= size
        if not answer["more"]:
            break
        cursor = answer["cursor"]
    return rows


@pytest.mark.slow
@settings(EACH_TIME, max_examples=examples(30))  # each is some ten pages
@given(
    by=st.lists(st.sampled_from(ORDERED), max_size=3),
    direction=st.sampled_from(["asc", "desc"]),
    size=st.integers(1, 20),
)
def test_drafts_come_before_the_rows(
    both: Kitchen, by: list[str], direction: str, size: int
) -> None:
    """By their numbers; the order that is asked for is that of the rows, page by page."""
    asked = {"table": "dishes", "order_by": by, "order_dir": direction, "columns": ["code"]}
    rows = both.call("db_read", **asked)["rows"]

    every = both.call("db_read", **asked, filters=NAMED)["rows"]
    drafts = [f"gen_dish_{n}" for n in range(1, 25)]
    assert [row["id"] for row in every] == [*drafts, *(row["id"] for row in rows)]
    assert pages(both, size, **asked, filters=NAMED) == every


def test_drafts_add_no_statement_to_a_read_of_rows(
    both: Kitchen, sent: list[str], store: TravelLog
) -> None:
    """Nor does a page that they fill read any rows."""
    asked = {"table": "dishes", "filters": NAMED, "columns": ["code"], "order_by": "name"}
    pages(both, 40, **asked)
    sent.clear()
    both.call("db_read", **asked)
    assert len([each for each in sent if "dishes" in each]) == 1
    sent.clear()
    store.trips.clear()
    both.call("db_read", **asked, limit=20)
    assert [each for each in sent if "dishes" in each] == []
    assert store.trips == ["read_drafts"]


def test_a_draft_that_is_saved_between_pages_hides_no_other(
    call: Call, conversation: Conversation, dishes: dict[str, uuid.UUID]
) -> None:
    """The cursor knows which draft was the last."""
    for name in ("Dal", "Naan", "Raita"):
        conversation.draft(Dish, {"name": name})
    asked = {"table": "dishes", "filters": [by_id(FIRST, SECOND, "gen_dish_3")], "limit": 1}

    first = call("db_read", **asked)
    save(conversation, FIRST, dishes["Soup"])
    second = call("db_read", **asked, cursor=first["cursor"])
    third = call("db_read", **asked, cursor=second["cursor"])
    row = call("db_read", **asked, cursor=third["cursor"])

    names = [shown(each, "name") for each in (first, second, third, row)]
    assert names == [["Dal"], ["Naan"], ["Raita"], ["Soup"]]
    assert not row["more"]


@pytest.mark.usefixtures("dishes")
def test_no_limit_is_no_drafts(call: Call, conversation: Conversation, sent: list[str]) -> None:
    """And tells whether there would be some."""
    conversation.draft(Dish, {"name": "Dal"})
    sent.clear()
    answer = call("db_read", table="dishes", filters=[by_id(FIRST)], limit=0)

    assert answer == {"table": "dishes", "rows": [], "count": 0, "more": True}
    assert [each for each in sent if "dishes" in each] == []


# What filters mean


@pytest.mark.slow
@EACH_TIME
@given(either=st.booleans(), asked=st.data())
def test_a_filter_finds_drafts_as_it_finds_rows(
    both: Kitchen, asked: st.DataObject, either: bool
) -> None:
    """Where they are named: the draft with the values of a row is found if the row is."""
    drawn = asked.draw(st.lists(CLAUSES, min_size=1, max_size=3))
    clauses = [each for each in drawn if "." not in each["field"] and each["field"] != "id"]
    rest = {"or_filters": clauses} if either else {}
    filters = NAMED if either else [*NAMED, *clauses]
    answer = both.call("db_read", table="dishes", columns=["code"], filters=filters, **rest)
    codes = shown(answer, "code")

    rows = [code[1:] for code in codes if code.startswith("c")]
    drafts = [code[1:] for code in codes if code.startswith("d")]
    assert sorted(rows) == sorted(drafts)


@pytest.mark.usefixtures("dishes")
def test_a_draft_is_answered_only_where_it_is_named(
    call: Call, conversation: Conversation
) -> None:
    """And named it is where rows are chosen by their refs: not even there it is to be left out."""
    conversation.draft(Dish, {"name": "Dal"})
    named = {"field": "id", "op": "=", "value": FIRST}
    asked = {"table": "dishes", "order_by": "name"}

    assert shown(call("db_read", **asked), "name") == ["Curry", "Korma", "Soup"]
    either = call("db_read", **asked, or_filters=[named, {"not": by_id("dish_1")}])
    assert shown(either, "name") == ["Dal", "Korma", "Soup"]
    for filter_ in (
        {**named, "op": "!="},
        {"field": "id", "op": "not_in", "value": [FIRST, "dish_1"]},
        {"not": named},
        {"or": [named, {"not": named}]},
    ):
        error = call("db_read", **asked, filters=[by_id(FIRST), filter_])["error"]
        assert (error["code"], error["ref"]) == ("draft_ref", FIRST)


def test_what_was_a_draft_is_its_row(
    call: Call, conversation: Conversation, dishes: dict[str, uuid.UUID]
) -> None:
    """Alone, and in the references of drafts, by whichever of its refs it is asked for."""
    conversation.draft(Dish, {"name": "Dal"})
    save(conversation, FIRST, dishes["Soup"])
    conversation.draft(Dish, {"name": "Tarka Dal", "parent_id": FIRST, "alike": [FIRST]})
    row = conversation.refer(Dish, dishes["Soup"])

    assert shown(call("db_read", table="dishes", filters=[by_id(FIRST)])) == [row]
    for ref in (FIRST, row):
        of_parent = {"field": "parent_id", "op": "=", "value": ref}
        alike = {"field": "alike", "op": "contains", "value": [ref]}
        answer = call("db_read", table="dishes", filters=[by_id(SECOND), of_parent, alike])
        assert shown(answer, "parent_id") == [row]


# What is refused


@pytest.mark.parametrize(
    ("filters", "code"),
    [
        ([by_id("gen_dish_9")], "unknown_draft"),
        ([by_id("gen_cuisine_1")], "wrong_entity"),
        ([by_id(SECOND)], "discarded_draft"),
        ([by_id("gen_cuisine_1", field="cuisine_id")], "draft_ref"),
        ([by_id(FIRST), by_id(FIRST, field="parent_id")], "draft_ref"),
        ([by_id("gen_part_1", field="parts.id")], "unknown_draft"),
        ([by_id(FIRST, field="parent.id")], "draft_ref"),
        ([by_id(FIRST), by_id(FIRST, field="parent.id")], "draft_ref"),
        ([by_id(FIRST), {"field": "cuisine.name", "op": "=", "value": "x"}], "invalid_filter"),
        ([by_id(FIRST), {"field": "spice", "op": "=", "value": 1}], "invalid_value"),
        ([by_id(FIRST), {"field": "_semantic", "op": "similar", "value": "x"}], "invalid_filter"),
    ],
)
def test_what_cannot_be_read_of_drafts_is_refused(
    session: RefSession,
    conversation: Conversation,
    store: TravelLog,
    filters: list[Any],
    code: str,
) -> None:
    """A ref that names no draft, one where a row is needed, and what a draft cannot answer."""

    class Search(Hooks):
        def before_read(self, read: Reading) -> None:
            read.keys = []

    keep(store, cuisine_id="cuisine_1", spice="hot")
    conversation.draft(Dish, {})
    conversation.draft(Cuisine, {})
    conversation.discard_drafts([SECOND])
    searches = any(each["field"] == "_semantic" for each in filters)
    toolset = Toolset(MODELS, hooks={Dish: [Search()]} if searches else {})
    answer = toolset.call(session, "db_read", {"table": "dishes", "filters": filters})

    assert answer["error"]["code"] == code


# Hooks


@pytest.mark.usefixtures("dishes")
def test_hooks_see_rows_alone(session: RefSession, conversation: Conversation) -> None:
    """Drafts stand before the rows that they have changed, or are left out where all is."""
    seen: list[Any] = []

    class Marking(Hooks):
        def before_read(self, read: Reading) -> None:
            if read.arguments.limit == 5:
                read.answer_empty("closed")

        def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
            seen.extend(row["name"] for row in rows)
            for row in rows:
                row["marked"] = True

    conversation.draft(Dish, {"name": "Dal"})
    toolset = Toolset(MODELS, hooks={Dish: [Marking()]})
    some = {"or": [by_id(FIRST), {"field": "name", "op": "is_not_null"}]}
    asked = {"table": "dishes", "filters": [some], "order_by": "name"}
    answer = toolset.call(session, "db_read", asked)
    empty = toolset.call(session, "db_read", {**asked, "limit": 5})

    assert seen == ["Curry", "Korma", "Soup", "Korma"]  # at last as the label of a parent
    assert shown(answer, "name") == ["Dal", "Curry", "Korma", "Soup"]
    assert [row.get("marked") for row in answer["rows"]] == [None, True, True, True]
    assert (empty["rows"], empty["notes"]) == ([], ["closed"])
