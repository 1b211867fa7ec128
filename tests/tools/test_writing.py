"""Writing: what is stored, what is refused, and that a call is done whole or not at all."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import (
    AsyncRefSession,
    Conversation,
    RefPolicy,
    RefRegistry,
    RefSession,
    SetupError,
)
from alfred_refs.tools import Hooks, ToolError, Toolset, Writing
from alfred_refs.tools.creating import deduplicate_records
from alfred_refs.tools.payload import Record
from tests.tools.conftest import MODELS, Call, by
from tests.tools.models import Cuisine, Dish, Part

SOUP = by("name", "Soup")


def stored(engine: Engine, column: Any = Dish.name) -> list[Any]:
    """Return what a plain session finds in a column."""
    with Session(engine) as plain:
        return list(plain.scalars(select(column).order_by(column)))


# What is stored


def test_every_kind_of_value_is_stored_and_shown_alike(call: Call) -> None:
    """What a model gives comes back as it is, or as the column has it."""
    given = {
        "name": "A \x00B",
        "servings": "4",
        "rating": 4.5,
        "price": "12.50",
        "is_vegan": True,
        "course": "MAIN",
        "cooked_on": "2026-05-01",
        "seen_at": "2026-05-01T18:30:00",
        "spice": 3,
        "tags": ["x", None, "y\x00"],
        "extra": {"a\x00": [1, {"b": None}]},
        "device": "0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a",
        "cuisine_id": "",
        "alike": [],
    }
    [row] = call("db_create", table="dishes", data=given)["rows"]

    assert row == {
        "id": "dish_1",
        "name": "A B",
        "code": None,
        "servings": 4,
        "rating": 4.5,
        "price": 12.5,
        "is_vegan": True,
        "course": "MAIN",
        "cooked_on": "2026-05-01",
        "seen_at": "2026-05-01T18:30:00Z",
        "spice": 3,
        "tags": ["x", None, "y"],
        "extra": {"a": [1, {"b": None}]},
        "device": "<key_1>",
        "cuisine_id": None,
        "second_cuisine_id": None,
        "parent_id": None,
        "alike": [],
    }


@pytest.mark.usefixtures("dishes")
def test_a_document_is_stored_though_python_holds_it_for_equal(call: Call, tables: Engine) -> None:
    """1, 1.0 and true are others in JSON."""
    for extra in ({"spicy": 1}, {"spicy": True}, {"spicy": 1.0}):
        call("db_update", table="dishes", filters=SOUP, data={"extra": extra})
        with Session(tables) as plain:
            found = plain.scalar(select(Dish.extra).where(Dish.name == "Soup"))
        assert repr(found) == repr(extra)


def test_lists_of_refs_are_stored_as_keys(
    call: Call, dishes: dict[str, uuid.UUID], tables: Engine
) -> None:
    """And shown as refs."""
    call("db_read", table="dishes", order_by="name")
    answer = call("db_update", table="dishes", filters=SOUP, data={"alike": ["dish_2", "dish_1"]})

    assert answer["rows"][0]["alike"] == ["dish_2", "dish_1"]
    assert [dishes["Korma"], dishes["Curry"]] in stored(tables, Dish.alike)


def test_a_value_that_does_not_fit_is_refused(call: Call, tables: Engine) -> None:
    """With what the column takes; the value is not repeated, and nothing is stored."""
    cases: list[tuple[str, Any]] = [
        ("servings", "four"),
        ("servings", True),
        ("servings", 2**31),
        ("spice", 40_000),
        ("rating", float("nan")),
        ("price", "much"),
        ("is_vegan", "perhaps"),
        ("course", "dessert"),
        ("cooked_on", 5),
        ("cooked_on", "yesterday"),
        ("name", 5),
        ("name", ["a"]),
        ("code", "too long"),
        ("tags", "hot"),
        ("tags", [["hot"]]),
        ("device", "dish_1"),
        ("cuisine_id", 5),
        ("cuisine_id", ["cuisine_1"]),
        ("alike", "dish_1"),
    ]
    for field, value in cases:
        error = call("db_create", table="dishes", data=[{"name": "A"}, {field: value}])["error"]

        assert (error["code"], error["field"]) == ("invalid_value", field), value
        assert stored(tables) == []


def test_a_number_beyond_its_column_is_told_by_the_database(call: Call, tables: Engine) -> None:
    """Where the type does not say what fits."""
    error = call("db_create", table="dishes", data={"price": 1e12})["error"]

    assert error["code"] == "invalid_value"
    assert "number" in error["message"]
    assert stored(tables) == []


@pytest.mark.parametrize("field", ["id", "photo", "nothing", "__class__", "parts", "cuisine"])
def test_what_is_not_for_a_model_to_write_is_refused(call: Call, field: str) -> None:
    """In the words for what is not there, and the columns that it may write are listed.

    But new rows may have related ones inside.
    """
    ways: list[tuple[str, dict[str, Any]]] = [("db_update", {"filters": SOUP})]
    ways += [] if field in ("parts", "cuisine") else [("db_create", {})]
    for tool, arguments in ways:
        error = call(tool, table="dishes", data={field: "x"}, **arguments)["error"]
        assert (error["code"], error["column"]) == ("unknown_column", field)
        assert "name" in error["columns"]
        assert "id" not in error["columns"]


def test_what_a_row_must_have_is_asked_for(call: Call) -> None:
    """When it is made, and when it is changed."""
    assert call("db_create", table="parts", data={"note": "x"})["error"] == {
        "code": "missing_value",
        "message": "a row of 'parts' needs a value for 'dish_id'; give it and call again",
        "table": "parts",
        "columns": ["dish_id"],
    }
    changed = call(
        "db_update",
        table="parts",
        filters=[{"field": "note", "op": "is_null"}],
        data={"position": None},
    )
    assert changed["error"]["code"] == "missing_value"


# Which rows


@pytest.mark.usefixtures("dishes")
def test_a_write_without_a_filter_is_refused(call: Call, tables: Engine) -> None:
    """Empty, missing or malformed, and nothing is changed."""
    cases: list[Any] = [None, [], {}, "all", [[]], [{}], [{"and": []}]]
    for tool in ["db_update", "db_delete"]:
        for filters in cases:
            arguments: dict[str, Any] = {} if tool == "db_delete" else {"data": {"name": "x"}}
            if filters is not None:
                arguments["filters"] = filters
            error = call(tool, table="dishes", **arguments)["error"]

            expected = "missing_filter" if filters in (None, []) else "invalid_arguments"
            assert error["code"] == expected, filters
            assert stored(tables) == ["Curry", "Korma", "Soup"]


@pytest.mark.usefixtures("dishes")
def test_no_row_is_said_to_be_none(call: Call) -> None:
    """Zero rows are not success: the answer says so, and hooks of writing are not asked."""
    nobody = by("name", "Nobody")
    note = ["no row matches the filters; nothing was changed"]

    assert call("db_update", table="dishes", filters=nobody, data={"spice": 1}) == {
        "table": "dishes",
        "rows": [],
        "count": 0,
        "notes": note,
    }
    assert call("db_delete", table="dishes", filters=nobody) == {
        "table": "dishes",
        "deleted": [],
        "count": 0,
        "notes": note,
    }


@pytest.mark.usefixtures("dishes")
@pytest.mark.parametrize(
    ("expect", "column", "actual"),
    [("Korma", "label", "Soup"), ({"servings": 4}, "servings", None)],
)
def test_a_write_to_another_row_than_expected_is_stopped(
    call: Call, tables: Engine, expect: Any, column: str, actual: Any
) -> None:
    """By its label or its values; the message says what the row has."""
    call("db_read", table="dishes", order_by="name")
    for tool, arguments in (("db_delete", {}), ("db_update", {"data": {"name": "x"}})):
        error = call(tool, table="dishes", filters=SOUP, expect=expect, **arguments)["error"]
        assert error["code"] == "unexpected_row"
        assert (error["ref"], error["column"], error["actual"]) == ("dish_3", column, actual)

    assert "Soup" in stored(tables)
    done = call("db_delete", table="dishes", filters=SOUP, expect={"name": "Soup"})
    assert done["count"] == 1


@pytest.mark.usefixtures("dishes")
def test_an_expectation_that_cannot_be_told_is_refused(call: Call) -> None:
    """Of a column that is not there, a value that does not fit, a table without labels."""
    for expect, code in (
        ({"nothing": 1}, "unknown_column"),
        ({"servings": "x"}, "invalid_value"),
        ([], "invalid_arguments"),
    ):
        error = call("db_delete", table="dishes", filters=SOUP, expect=expect)["error"]
        assert error["code"] == code
    rice = by("note", "rice")
    unlabelled = call("db_delete", table="parts", filters=rice, expect="rice")
    assert unlabelled["error"]["code"] == "invalid_arguments"


@pytest.mark.usefixtures("dishes")
def test_one_call_changes_so_many_rows(session: RefSession, tables: Engine) -> None:
    """More are refused, whatever is done with them."""
    toolset = Toolset(MODELS, max_written=2)
    all_rows = [{"field": "name", "op": "is_not_null"}]
    for tool, arguments in (
        ("db_delete", {"filters": all_rows}),
        ("db_update", {"filters": all_rows, "data": {"name": "x"}}),
        ("db_create", {"data": [{}, {}, {}]}),
    ):
        error = toolset.call(session, tool, {"table": "dishes", **arguments})["error"]
        assert (error["code"], error["most"]) == ("too_many_rows", 2)
    assert error["message"] == (  # of new rows there are no filters to narrow
        "more than 2 rows are given, and one db_create makes at most 2; nothing was changed; make "
        "several calls of it"
    )
    assert stored(tables) == ["Curry", "Korma", "Soup"]


def test_a_row_that_changes_meanwhile_is_looked_at_again(
    call: Call, dishes: dict[str, uuid.UUID], tables: Engine, session: RefSession
) -> None:
    """What is expected is compared with the row as it is when it is locked."""
    session.expire_on_commit = False
    call("db_read", table="dishes", order_by="name")
    other = Session(tables)
    other.execute(update(Dish).where(Dish.id == dishes["Soup"]).values(servings=9))
    answers: list[dict[str, Any]] = []
    filters = by("id", "dish_3")

    def delete() -> None:
        answers.append(
            call("db_delete", table="dishes", filters=filters, expect={"servings": None})
        )

    waiting = threading.Thread(target=delete)
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    other.commit()
    other.close()
    waiting.join()
    assert answers[0]["error"]["actual"] == 9


# All or nothing


def test_a_batch_is_stored_whole_or_not_at_all(call: Call, tables: Engine) -> None:
    """If one row is refused, by us or by the database, none is there."""
    twice = call("db_create", table="dishes", data=[{"code": "a"}, {"code": "a"}])["error"]
    assert (twice["code"], twice["columns"]) == ("conflict", ["code"])
    bad = call("db_create", table="dishes", data=[{"name": "A"}, {"cuisine_id": "cuisine_9"}])
    assert bad["error"]["code"] == "unknown_ref"
    assert stored(tables) == []
    assert call("db_create", table="dishes", data={"name": "B"})["count"] == 1


def test_a_call_is_a_transaction_of_its_own(
    call: Call, session: RefSession, tables: Engine
) -> None:
    """Which is committed; inside one of the caller's it is a savepoint."""
    call("db_create", table="dishes", data={"name": "A"})
    assert not session.in_transaction()
    assert stored(tables) == ["A"]

    session.begin()
    call("db_create", table="dishes", data={"name": "B"})
    refused = call("db_create", table="dishes", data={"servings": 0})
    assert refused["error"]["code"] == "check_failed"
    call("db_create", table="dishes", data={"name": "C"})
    assert stored(tables) == ["A"]
    session.commit()
    assert stored(tables) == ["A", "B", "C"]


def test_a_constraint_that_waits_for_the_commit_is_told_too(call: Call, tables: Engine) -> None:
    """The answer is an error, though the statement went well."""
    with tables.begin() as connection:
        connection.exec_driver_sql(
            "alter table dishes add constraint later unique (name) deferrable initially deferred"
        )
    call("db_create", table="dishes", data={"name": "A"})
    error = call("db_create", table="dishes", data={"name": "A"})["error"]

    assert error["code"] == "conflict"
    assert stored(tables) == ["A"]


@pytest.mark.usefixtures("dishes")
def test_what_is_referred_to_cannot_be_deleted(call: Call, tables: Engine) -> None:
    """The message says why, and names no constraint of the database."""
    indian = by("name", "Indian")
    error = call("db_delete", table="cuisines", filters=indian)["error"]

    assert error["code"] == "still_referenced"
    assert "cuisine_id_fkey" not in error["message"]
    assert stored(tables, Cuisine.name) == ["Indian", "Thai"]


def test_what_is_not_there_any_more_cannot_be_referred_to(
    call: Call, dishes: dict[str, uuid.UUID], tables: Engine
) -> None:
    """Though its ref is known: another has deleted the row."""
    call("db_read", table="cuisines", order_by="name")
    with Session(tables) as plain:
        plain.execute(update(Dish).values(cuisine_id=None))
        plain.delete(plain.get_one(Cuisine, dishes["Thai"]))
        plain.commit()
    error = call("db_update", table="dishes", filters=SOUP, data={"cuisine_id": "cuisine_2"})

    assert error["error"]["code"] == "missing_reference"
    assert error["error"]["columns"] == ["cuisine_id"]


@pytest.mark.usefixtures("dishes")
def test_cascades_of_the_orm_hold(call: Call, tables: Engine) -> None:
    """What belongs to a row goes with it."""
    call("db_read", table="servings")
    gone = by("note", "first")
    call("db_delete", table="servings", filters=gone)
    curry = by("name", "Curry")
    call("db_delete", table="dishes", filters=curry)
    korma = by("name", "Korma")

    assert call("db_delete", table="dishes", filters=korma)["count"] == 1
    assert stored(tables, Part.note) == []


# Hooks, and what is repeated


def test_hooks_enrich_what_is_written(session: RefSession, tables: Engine) -> None:
    """Before it is checked for what it lacks; after it they see the rows, in the transaction."""

    class Coded(Hooks):
        def before_write(self, write: Writing) -> None:
            for record in write.records:
                record["code"] = str(record.get("name"))[:2]
            write.notes.append(f"coded by {write.verb}")

        def after_write(self, write: Writing, rows: list[dict[str, Any]]) -> None:
            names = write.session.scalars(select(func.count()).select_from(Dish)).one()
            rows[0]["beside"] = names

    toolset = Toolset(MODELS, hooks={Dish: [Coded()]})
    answer = toolset.call(session, "db_create", {"table": "dishes", "data": {"name": "Soup"}})

    assert (answer["rows"][0]["code"], answer["rows"][0]["beside"]) == ("So", 1)
    assert answer["notes"] == ["coded by create"]
    assert stored(tables, Dish.code) == ["So"]


def test_a_hook_may_refuse_what_matches_no_row(session: RefSession) -> None:
    """It is asked before rows are looked for: it may know why there are none to be changed."""

    class Closed(Hooks):
        def before_write(self, write: Writing) -> None:
            write.notes.append(f"no {write.verb} today")
            if write.verb == "delete":
                raise ToolError("closed", "nothing is deleted today; come again")

    toolset = Toolset(MODELS, hooks={Dish: [Closed()]})
    asked = {"table": "dishes", "filters": by("name", "Soup")}
    updated = toolset.call(session, "db_update", {**asked, "data": {"servings": 1}})
    deleted = toolset.call(session, "db_delete", asked)

    assert updated["notes"] == [
        "no update today",
        "no row matches the filters; nothing was changed",
    ]
    assert deleted["error"]["code"] == "closed"


def test_a_hook_is_given_what_can_be_decided(session: RefSession) -> None:
    """A filter that cannot be, or a ref that names nothing, is refused before."""

    class Never(Hooks):
        def before_write(self, write: Writing) -> None:
            raise AssertionError(write)

    toolset = Toolset(MODELS, hooks={Dish: [Never()]})
    for filter_ in ({"field": "name", "op": "in"}, {"field": "id", "op": "=", "value": "dish_9"}):
        asked = {"table": "dishes", "filters": [filter_]}
        assert "error" in toolset.call(session, "db_delete", asked)


def test_a_hook_that_fails_undoes_the_call(session: RefSession, tables: Engine) -> None:
    """What it raises is not the model's fault, and is raised."""

    class Broken(Hooks):
        def after_write(self, *_: object) -> None:
            raise ZeroDivisionError

    toolset = Toolset(MODELS, hooks={Dish: [Broken()]})
    with pytest.raises(ZeroDivisionError):
        toolset.call(session, "db_create", {"table": "dishes", "data": {"name": "Soup"}})
    assert stored(tables) == []


def test_the_last_of_equal_rows_wins(session: RefSession, tables: Engine) -> None:
    """Where that is asked for; what became one is reported, counted from 1."""
    rows = [
        {"name": "A", "servings": 1},
        {"name": "B", "servings": 2},
        {"name": "A", "servings": 3},
    ]
    asked = {"table": "dishes", "data": rows}
    answer = Toolset(MODELS, deduplicate={Dish: ["name"]}).call(session, "db_create", asked)

    assert [(row["name"], row["servings"]) for row in answer["rows"]] == [("A", 3), ("B", 2)]
    assert answer["merged"] == [[1, 3]]
    assert "merged" not in Toolset(MODELS).call(session, "db_create", asked)
    assert stored(tables) == ["A", "A", "A", "B", "B"]


def test_rows_without_a_value_are_not_the_same() -> None:
    """As in a unique constraint: two lines of which nobody knows the ingredient are two lines."""
    records: list[Record] = [{"a": 1, "b": None}, {"a": 1}, {"a": 1, "b": None}]
    assert deduplicate_records(records, ["a", "b"]) == (records, [])


# What a model may use


@pytest.mark.parametrize("table", ["secrets", "nothing", "", "dishes; drop table dishes", "Dish"])
def test_a_table_that_is_not_allowed_reads_as_one_that_is_not_there(
    call: Call, table: str
) -> None:
    """Word by word, for every verb."""
    expected = {
        "error": {
            "code": "unknown_table",
            "message": f"there is no table {table!r}; use one of 'dishes', 'parts', 'cuisines', "
            "'servings'",
            "table": table,
            "tables": ["dishes", "parts", "cuisines", "servings"],
        }
    }
    for tool, arguments in (
        ("db_read", {}),
        ("db_create", {"data": {}}),
        ("db_update", {"filters": SOUP, "data": {"a": 1}}),
        ("db_delete", {"filters": SOUP}),
    ):
        assert call(tool, table=table, **arguments) == expected


@pytest.mark.usefixtures("dishes")
def test_a_hidden_column_reads_as_one_that_is_not_there(session: RefSession) -> None:
    """In filters, columns, order, payloads and paths; and it is not shown."""
    toolset = Toolset(MODELS, hidden=[Dish.code, Dish.parts])

    def told(tool: str, **arguments: Any) -> dict[str, Any]:
        answer = toolset.call(session, tool, {"table": "dishes", **arguments})
        assert "code" not in answer.get("error", {}).get("columns", [])
        return answer

    asked = {"field": "code", "op": "is_null"}
    for answer in (
        told("db_read", filters=[asked]),
        told("db_read", columns=["code"]),
        told("db_read", order_by="code"),
        told("db_read", columns=["parts"]),
        told("db_read", filters=[{"field": "parts.note", "op": "is_null"}]),
        told("db_create", data={"code": "x"}),
        told("db_update", filters=SOUP, data={"code": "x"}),
        told("db_delete", filters=SOUP, expect={"code": None}),
    ):
        assert answer["error"]["code"] == "unknown_column"
    assert all("code" not in row for row in told("db_read")["rows"])


@pytest.mark.usefixtures("dishes")
def test_a_table_may_be_read_only(session: RefSession) -> None:
    """It is read, and every write is refused."""
    toolset = Toolset(MODELS, read_only=[Dish])
    assert toolset.call(session, "db_read", {"table": "dishes"})["count"] == 3
    for tool, arguments in (
        ("db_create", {"data": {}}),
        ("db_update", {"filters": SOUP, "data": {"name": "x"}}),
        ("db_delete", {"filters": SOUP}),
    ):
        answer = toolset.call(session, tool, {"table": "dishes", **arguments})
        assert answer["error"]["code"] == "read_only_table"


def test_a_toolset_that_does_not_fit_is_refused(session: RefSession, tables: Engine) -> None:
    """When it is made, or when it is first used."""
    for wrong in (
        lambda: Toolset([Dish, Dish]),
        lambda: Toolset([Dish], read_only=[Part]),
        lambda: Toolset([Dish], hooks={Part: []}),
        lambda: Toolset([Dish], deduplicate={Part: []}),
        lambda: Toolset([Dish], hidden=["code"]),
        lambda: Toolset([Dish], labels="some"),  # type: ignore[arg-type]
        lambda: Toolset([Dish]).call(RefSession(tables), "db_read", {"table": "dishes"}),
        lambda: Toolset([Dish], policy=RefPolicy(key_types=())).call(
            session, "db_read", {"table": "dishes"}
        ),
    ):
        with pytest.raises(SetupError):
            wrong()


# Other sessions


@pytest.mark.usefixtures("dishes")
async def test_an_async_session_does_the_same(aio: AsyncRefSession, toolset: Toolset) -> None:
    """With either driver: reading, writing, and what is refused."""
    read = await toolset.call_async(aio, "db_read", {"table": "dishes", "order_by": "name"})
    assert [row["id"] for row in read["rows"]] == ["dish_1", "dish_2", "dish_3"]
    assert read["rows"][0]["_cuisine_id_label"] == "Thai"

    made = await toolset.call_async(
        aio, "db_create", {"table": "dishes", "data": {"parent_id": "dish_3", "code": "a"}}
    )
    assert made["rows"][0]["_parent_id_label"] == "Soup"
    again = await toolset.call_async(aio, "db_create", {"table": "dishes", "data": {"code": "a"}})
    assert (again["error"]["code"], again["error"]["columns"]) == ("conflict", ["code"])
    deep = await toolset.call_async(
        aio, "db_read", {"table": "dishes", "columns": ["parent.parts"], "filters": SOUP}
    )
    assert deep["rows"] == [{"id": "dish_3", "parent": None}]


@pytest.mark.usefixtures("dishes")
def test_tools_of_two_conversations_do_not_mix(
    registry: RefRegistry, sessions: sessionmaker[RefSession]
) -> None:
    """A ref of the one is unknown in the other, and errors offer none of it."""
    toolset = Toolset(MODELS)
    with sessions(conversation=registry.conversation("a")) as one:
        toolset.call(one, "db_read", {"table": "dishes"})
    with sessions(conversation=registry.conversation("b")) as two:
        named = by("id", "dish_1")
        error = toolset.call(two, "db_delete", {"table": "dishes", "filters": named})["error"]
    assert (error["code"], error["known"]) == ("unknown_ref", [])


def test_arguments_may_be_text(toolset: Toolset, session: RefSession) -> None:
    """As clients hand them on; what is no JSON, or no object, is refused."""
    assert toolset.call(session, "db_read", '{"table": "cuisines"}')["rows"] == []
    for wrong in ("{", "[]", "null", '"x"', "5", "[" * 100_000, '{"table": "\ud800"}'):
        error = toolset.call(session, "db_read", wrong)["error"]
        assert error["code"] == "invalid_arguments"


@pytest.mark.usefixtures("dishes")
def test_a_raw_key_is_refused_and_not_repeated(
    call: Call, dishes: dict[str, uuid.UUID], conversation: Conversation
) -> None:
    """Wherever a ref may stand, in any spelling."""
    key = dishes["Korma"]
    for spelled in (str(key), key.hex, str(key).upper(), f"{{{key}}}", str(key)[:13]):
        for tool, arguments in (
            ("db_read", {"filters": by("id", spelled)}),
            ("db_delete", {"filters": by("id", [spelled], "in")}),
            ("db_create", {"data": {"parent_id": spelled}}),
            ("db_read", {"filters": by(spelled, 1)}),
            ("db_read", {spelled: 1}),
        ):
            answer = call(tool, table="dishes", **arguments)
            assert answer["error"]["code"] in (
                "raw_key",
                "unknown_ref",
                "unknown_column",
                "invalid_arguments",
            )
            if len(spelled) > 20:
                assert spelled not in str(answer)
    assert conversation.cached_refs(key) == []
