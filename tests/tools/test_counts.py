"""A write whose filters name no row by ref states how many rows it reaches."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, Uuid, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from alfred_refs import Conversation, RefRegistry, RefSession
from alfred_refs.tools import DbUpdate, Hooks, Toolset, Writing
from alfred_refs.tools.call import ExpectMode
from alfred_refs.tools.filters import bind_filters
from alfred_refs.tools.preconditions import split_reach
from tests.tools.conftest import MODELS, servings
from tests.tools.models import Dish, Part

HOT = {"field": "tags", "op": "contains", "value": ["hot"]}  # Curry and Korma
INDIAN = {"field": "cuisine_id", "op": "=", "value": "cuisine_1"}


def code_of(answer: dict[str, Any]) -> Any:
    """Return the code of an answer's error."""
    return answer.get("error", {}).get("code")


@pytest.mark.usefixtures("shown")
def test_a_write_by_criteria_gives_the_number_of_its_rows(session: RefSession) -> None:
    """It is refused without, with the number, and with another number; nothing is changed then."""
    toolset = Toolset(MODELS)
    update = {"table": "dishes", "filters": [HOT], "data": {"servings": 9}}
    error = toolset.call(session, "db_update", update)["error"]
    assert (error["code"], error["count"], error["fields"]) == ("unconfirmed_count", 2, ["expect"])
    assert '{"count": 2}' in error["message"]
    error = toolset.call(session, "db_update", {**update, "expect": {"count": 3}})["error"]
    assert (error["code"], error["actual"], error["expected"]) == ("unexpected_count", 2, 3)
    assert servings(session) == [2, 4, None]
    assert toolset.call(session, "db_update", {**update, "expect": {"count": 2}})["count"] == 2
    assert servings(session) == [9, 9, None]
    soup = {"table": "dishes", "filters": [{"field": "name", "op": "=", "value": "Soup"}]}
    assert code_of(toolset.call(session, "db_delete", soup)) == "unconfirmed_count"
    assert toolset.call(session, "db_delete", {**soup, "expect": {"count": 1}})["count"] == 1


@pytest.mark.usefixtures("shown")
def test_a_toolset_that_requires_nothing_requires_no_number(session: RefSession) -> None:
    """One that is given is compared all the same."""
    toolset = Toolset(MODELS, expect="optional")
    update = {"table": "dishes", "filters": [HOT], "data": {"servings": 9}}
    error = toolset.call(session, "db_update", {**update, "expect": {"count": 3}})["error"]
    assert (error["code"], servings(session)) == ("unexpected_count", [2, 4, None])
    assert toolset.call(session, "db_update", update)["count"] == 2


ONE = {"field": "id", "op": "=", "value": "dish_1"}
SOUP = {"field": "name", "op": "=", "value": "Soup"}
VEGAN = {"field": "is_vegan", "op": "is_null"}


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize(
    ("filters", "needed"),
    [
        ([ONE], False),
        ([ONE, VEGAN], False),
        ([{"and": [VEGAN, ONE]}], False),
        ([{"or": [ONE, INDIAN]}], False),
        ([{"not": {"field": "id", "op": "!=", "value": "dish_1"}}], False),
        ([{"not": {"or": [SOUP, {"field": "id", "op": "not_in", "value": ["dish_1"]}]}}], False),
        ([{"field": "cuisine.id", "op": "in", "value": ["cuisine_1"]}], False),
        ([{"field": "id", "op": "in", "value": ["dish_1", "dish_2"]}], False),
        ([VEGAN], True),
        ([{"or": [ONE, VEGAN]}], True),
        ([{"not": ONE}], True),
        ([{"not": {"and": [VEGAN, {"not": ONE}]}}], True),
        ([{"field": "id", "op": "!=", "value": "dish_1"}], True),
        ([{"field": "id", "op": "not_in", "value": ["dish_1"]}], True),
        ([{"field": "cuisine_id", "op": "in", "value": ["cuisine_1", None]}], True),
        ([{"field": "cuisine_id", "op": "=", "value": None}], True),
        ([{"field": "cuisine_id", "op": "is_not_null"}], True),
        ([{"field": "cuisine.name", "op": "=", "value": "Thai"}], True),
        ([{"field": "name", "op": "in", "value": ["dish_1", "Curry"]}], True),
    ],
)
def test_filters_need_the_number_unless_all_rows_are_named(
    session: RefSession, filters: list[dict[str, Any]], needed: bool
) -> None:
    """By their own refs or by those of rows that they refer to."""
    update = {"table": "dishes", "filters": filters, "data": {"servings": 9}}
    toolset = Toolset(MODELS, expect="optional")
    asked = DbUpdate(**update)
    reach, _ = split_reach(asked, bind_filters(asked, toolset.tables.by_name("dishes")))
    assert reach.is_required is needed
    count = toolset.call(session, "db_update", update)["count"]
    assert 0 < count <= 3
    update["expect"] = {"count": count}  # may always be given
    assert toolset.call(session, "db_update", update)["count"] == count


@pytest.mark.usefixtures("shown")
def test_a_label_or_values_that_all_rows_have_do_not_give_the_number(session: RefSession) -> None:
    """They may be given with it, and labels by ref too."""
    toolset = Toolset(MODELS)
    update: dict[str, Any] = {
        "table": "dishes",
        "filters": [{"field": "name", "op": "=", "value": "Soup"}],
        "data": {"servings": 9},
    }
    for expect in ("Soup", {"servings": None}, {}):
        answer = toolset.call(session, "db_update", {**update, "expect": expect})
        assert code_of(answer) == "unconfirmed_count", expect
    given = {**update, "expect": {"servings": 3, "count": 1}}
    assert code_of(toolset.call(session, "db_update", given)) == "unexpected_row"
    given["expect"] = {"servings": None, "count": 1}
    assert toolset.call(session, "db_update", given)["count"] == 1
    update["filters"] = [INDIAN]
    given = {**update, "expect": {"cuisine_1": "Indian", "count": 2}}
    assert code_of(toolset.call(session, "db_update", given)) == "unexpected_count"
    given["expect"] = {"cuisine_1": "Indian", "count": 1}
    assert toolset.call(session, "db_update", given)["count"] == 1
    update["filters"] = [{"not": INDIAN}]
    given = {**update, "expect": {"cuisine_1": "Indian"}}
    assert code_of(toolset.call(session, "db_update", given)) == "unconfirmed_count"


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("count", [-1, True, "2", 1.5, None, [2]])
def test_a_number_of_rows_is_a_whole_number(session: RefSession, count: Any) -> None:
    """What is not is refused before anything is read."""
    update = {"table": "dishes", "filters": [HOT], "data": {"servings": 9}}
    error = Toolset(MODELS).call(session, "db_update", {**update, "expect": {"count": count}})
    assert (code_of(error), error["error"]["field"]) == ("invalid_value", "expect.count")


@pytest.mark.usefixtures("shown")
def test_a_write_that_matches_nothing_needs_no_number(session: RefSession) -> None:
    """It is answered as such; rows that were expected are missing, and that is refused."""
    delete = {"table": "dishes", "filters": [{"field": "servings", "op": ">", "value": 99}]}
    toolset = Toolset(MODELS)
    assert toolset.call(session, "db_delete", delete)["count"] == 0
    assert toolset.call(session, "db_delete", {**delete, "expect": {"count": 0}})["count"] == 0
    error = toolset.call(session, "db_delete", {**delete, "expect": {"count": 2}})["error"]
    assert (error["code"], error["actual"]) == ("unexpected_count", 0)


@pytest.mark.usefixtures("shown")
def test_rows_that_go_with_others_are_not_counted(session: RefSession) -> None:
    """The number is of the rows that the filters match."""
    mild = {"field": "tags", "op": "contains", "value": ["mild"]}
    toolset = Toolset(MODELS)
    curry = {"field": "name", "op": "=", "value": "Curry"}
    first = {"field": "note", "op": "=", "value": "first"}
    for table, where in (("dishes", curry), ("servings", first)):
        delete = {"table": table, "filters": [where], "expect": {"count": 1}}
        assert toolset.call(session, "db_delete", delete)["count"] == 1
    delete = {"table": "dishes", "filters": [mild], "expect": {"count": 1}}
    answer = toolset.call(session, "db_delete", delete)
    assert (answer["count"], len(answer["deleted_with"])) == (1, 2)


@pytest.mark.usefixtures("shown")
def test_the_number_is_of_the_rows_that_are_changed(session: RefSession, tables: Engine) -> None:
    """Another transaction changes one of them while the write waits for its lock."""
    update = {"table": "dishes", "filters": [HOT], "data": {"servings": 9}}
    update["expect"] = {"count": 2}
    answers: list[dict[str, Any]] = []
    session.commit()
    with tables.connect() as other:
        other.execute(text("update dishes set tags = '{cold}' where name = 'Curry'"))
        thread = threading.Thread(
            target=lambda: answers.append(Toolset(MODELS).call(session, "db_update", update))
        )
        thread.start()
        with tables.connect() as watching:
            waiting = "select count(*) from pg_locks where not granted"
            while not watching.scalar(text(waiting)):
                watching.rollback()
        other.commit()
    thread.join()
    [answer] = answers
    assert (code_of(answer), answer["error"]["actual"]) == ("unexpected_count", 1)
    assert servings(session) == [2, 4, None]


@pytest.mark.usefixtures("shown")
def test_the_number_is_of_the_rows_after_the_hooks(session: RefSession) -> None:
    """A hook that changes what matches, changes the number."""

    class Cooling(Hooks):
        def before_write(self, write: Writing) -> None:
            curry = write.session.query(Dish).filter_by(name="Curry").one()
            curry.tags = ["cold"]

    toolset = Toolset(MODELS, hooks={Dish: [Cooling()]})
    update = {"table": "dishes", "filters": [HOT], "data": {"servings": 9}}
    assert toolset.call(session, "db_update", update)["error"]["count"] == 1
    error = toolset.call(session, "db_update", {**update, "expect": {"count": 2}})["error"]
    assert (error["code"], error["actual"]) == ("unexpected_count", 1)
    assert toolset.call(session, "db_update", {**update, "expect": {"count": 1}})["count"] == 1


@pytest.mark.usefixtures("shown")
def test_drafts_are_counted_too(session: RefSession, conversation: Conversation) -> None:
    """They are named by refs, so the number may be given."""
    for name in ("Dal", "Raita"):
        conversation.draft(Dish, {"name": name})
    both = {"field": "id", "op": "in", "value": ["gen_dish_1", "gen_dish_2"]}
    dal = {"field": "name", "op": "=", "value": "Dal"}
    update: dict[str, Any] = {"table": "dishes", "filters": [both], "data": {"servings": 3}}
    toolset = Toolset(MODELS, expect="optional")
    assert toolset.call(session, "db_update", {**update, "expect": {"count": 2}})["count"] == 2
    update["filters"].append(dal)
    error = toolset.call(session, "db_update", {**update, "expect": {"count": 2}})["error"]
    assert (error["code"], error["actual"]) == ("unexpected_count", 1)


class Base(DeclarativeBase):
    """Tables of this module."""


class Stock(Base):
    """Has a column called `count`, and a name."""

    __tablename__ = "stock"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    count: Mapped[int]


def test_a_column_called_count_is_meant_where_rows_are_named(
    tables: Engine, registry: RefRegistry
) -> None:
    """And the number of rows where they are not."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain, plain.begin():
        plain.add_all([Stock(name="Rice", count=7), Stock(name="Oats", count=7)])
    toolset = Toolset([Stock])
    with RefSession(tables, conversation=registry.conversation("stock")) as session:
        toolset.call(session, "db_read", {"table": "stock", "order_by": "name"})
        by_ref = [{**ONE, "value": "stock_1"}]
        one = {"table": "stock", "filters": by_ref, "data": {"name": "Bran"}}
        error = toolset.call(session, "db_update", {**one, "expect": {"count": 1}})["error"]
        assert (error["code"], error["column"], error["actual"]) == ("unexpected_row", "count", 7)
        assert toolset.call(session, "db_update", {**one, "expect": {"count": 7}})["count"] == 1
        seven = {"field": "count", "op": "=", "value": 7}
        delete = {"table": "stock", "filters": [seven]}
        error = toolset.call(session, "db_delete", {**delete, "expect": {"count": 7}})["error"]
        assert (error["code"], error["actual"]) == ("unexpected_count", 2)
        assert toolset.call(session, "db_delete", {**delete, "expect": {"count": 2}})["count"] == 2


@pytest.mark.parametrize("expect", ["required", "optional"])
def test_schemas_ask_for_it(expect: ExpectMode) -> None:
    """Of every toolset that changes or deletes rows; `db_delete` refers to `db_update`."""

    def described(toolset: Toolset) -> dict[str, str]:
        schemas = toolset.schemas("json_schema")
        given = {each["title"]: each["properties"].get("expect", {}) for each in schemas}
        return {tool: each.get("description", "") for tool, each in given.items()}

    both = described(Toolset(MODELS, expect=expect))
    assert "{'count': n}" in both["db_update"]
    assert both["db_delete"].startswith("as in db_update")
    only = Toolset(MODELS, expect=expect, verbs={each: ["delete"] for each in MODELS})
    assert "{'count': n}" in described(only)["db_delete"]


@pytest.mark.usefixtures("dishes")
def test_what_may_not_be_done_is_refused_before_the_number_is_asked_for(
    session: RefSession,
) -> None:
    """The number would not help: what the error says to do is done by the next call."""
    toolset = Toolset(MODELS, read_only=[Part])
    for name, code in (("Korma", "still_referenced"), ("Curry", "unconfirmed_count")):
        named = [{"field": "name", "op": "=", "value": name}]
        answer = toolset.call(session, "db_delete", {"table": "dishes", "filters": named})
        assert code_of(answer) == code
