"""What is too large: questions are refused before they cost anything, documents are cut."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Hooks, Limits, Reading, Toolset, Writing
from alfred_refs.tools.arguments import DbRead, FilterClause
from alfred_refs.tools.serialization import DEPTH_MARK, MAX_DEPTH_SHOWN, limit_depth
from tests.tools.conftest import MODELS, Call
from tests.tools.models import Dish, Part


def of_name(op: str = "=", value: Any = "x") -> dict[str, Any]:
    """Return a condition."""
    return {"field": "name", "op": op, "value": value}


def path(names: int) -> str:
    """Return a path through two tables in turn."""
    return ".".join([*(["parts", "dish"] * names)[: names - 1], "id"])


def steps(count: int, *, names: int = 2, negated: bool = False) -> list[dict[str, Any]]:
    """Return conditions on related rows, of so many steps in all."""
    clauses = [
        {"field": path(names).replace("id", "cuisine_id"), "op": "is_null"}
        for _ in range(count // (names - 1))
    ]
    rest = [{"field": "parts.note", "op": "is_null"}] * (count % (names - 1))
    return [{"not": each} if negated else each for each in (*clauses, *rest)]


def nested(count: int) -> dict[str, Any]:
    """Return groups inside of each other."""
    given: Any = of_name()
    for n in range(count):
        given = [{"and": [given]}, {"or": [given]}, {"not": given}][n % 3]
    return dict(given)


# a relationship -> those of the rows that it leads to
FURTHER = {"": ["parts", "cuisine", "parent"], "parts": ["dish"], "cuisine": []}
FURTHER |= {"dish": FURTHER[""], "parent": FURTHER[""]}


def related(count: int) -> list[str]:
    """Return paths to so many relationships, the shortest first."""
    paths = [""]
    for each in paths:
        if len(paths) > count:
            break
        before = f"{each}." if each else ""
        paths += [f"{before}{name}" for name in FURTHER[each.rpartition(".")[2]]]
    return paths[1 : count + 1]


def drafts(count: int) -> list[dict[str, Any]]:
    """Return a condition that names so many drafts."""
    refs = [f"gen_dish_{n}" for n in range(1, count + 1)]
    return [{"field": "id", "op": "in", "value": refs}]


def containing(value: Any) -> dict[str, Any]:
    """Return a condition on documents."""
    return {"filters": [{"field": "extra", "op": "contains", "value": value}]}


# what a call has -> by how much of that, arguments for a read; and how much it may have
KINDS: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "conditions": (lambda n: {"filters": [of_name()] * n}, 1_000),
    "values": (lambda n: {"filters": [of_name("in", ["x"] * (n - 1))]}, 1_000),
    "or_filters": (lambda n: {"filters": [of_name()], "or_filters": [nested(2)] * (n - 1)}, 1_000),
    "documents": (lambda n: containing([[{"a": 1}]] * (n // 3)), 1_001),
    "lists in documents": (lambda n: containing({"a": [1] * (n - 2)}), 1_000),
    "steps": (lambda n: {"filters": steps(n)}, 32),
    "longer steps": (lambda n: {"filters": steps(n, names=5)}, 32),
    "negated steps": (lambda n: {"filters": steps(n, negated=True)}, 32),
    "longer negated steps": (lambda n: {"filters": steps(n, names=5, negated=True)}, 32),
    "steps, any of them": (lambda n: {"or_filters": steps(n, names=3)}, 32),
    "names": (lambda n: {"filters": [{"field": path(n), "op": "is_not_null"}]}, 5),
    "names in columns": (lambda n: {"columns": [path(n)]}, 5),
    "groups": (lambda n: {"filters": [nested(n)]}, 10),
    "relationships": (lambda n: {"columns": related(n)}, 16),
    "columns": (lambda n: {"columns": ["name"] * n}, 200),
    "order": (lambda n: {"order_by": (["name", "code", "price", "rating"] * n)[:n]}, 16),
    "drafts": (lambda n: {"filters": drafts(n)}, 100),
    "on drafts": (lambda n: {"filters": [*drafts(99), *[of_name()] * (n - 100)]}, 1_000),
}


@pytest.mark.slow
@pytest.mark.usefixtures("dishes")
def test_what_a_budget_admits_is_answered(session: RefSession, conversation: Conversation) -> None:
    """As much as there may be of each kind, within the time that the database has."""
    for n in range(100):
        conversation.draft(Dish, {"name": f"draft {n}"})
    with session.begin():
        session.connection().exec_driver_sql("set statement_timeout = '5s'")
    toolset = Toolset(MODELS, expect="optional")
    for kind, (arguments, most) in KINDS.items():
        answer = toolset.call(session, "db_read", {"table": "dishes", **arguments(most)})

        assert "error" not in answer, kind


# what a call has -> the rows that it gives, by how many
MANY_ROWS: dict[str, Callable[[int], dict[str, Any]]] = {
    "data": lambda n: {"data": [{"name": "x"}] * n},
    "also": lambda n: {"data": {}, "also": [{"table": "dishes", "data": {}}] * (n - 1)},
    "drafts": lambda n: {"from_draft": [f"gen_dish_{m}" for m in range(1, n + 1)]},
}  # fmt: skip


@pytest.mark.parametrize("kind", MANY_ROWS)
def test_rows_to_be_made_are_counted_first(
    session: RefSession, conversation: Conversation, sent: list[str], kind: str
) -> None:
    """Wherever they stand: as many as may be written are, and of more none is looked at."""
    for n in range(100 if kind == "drafts" else 0):
        conversation.draft(Dish, {"name": f"draft {n}"})
    toolset = Toolset(MODELS, expect="optional")
    sent.clear()
    refused = toolset.call(session, "db_create", {"table": "dishes", **MANY_ROWS[kind](101)})
    assert (refused["error"]["code"], sent) == ("too_many_rows", [])

    made = toolset.call(session, "db_create", {"table": "dishes", **MANY_ROWS[kind](100)})
    assert made["count"] + sum(each["count"] for each in made.get("also", [])) == 100


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"data": {"extra": [1] * 60_000}}, "values"),
        ({"data": {"extra": [[[{}]]] * 20_000}}, "values"),
        ({"data": {"name": "x" * 1_000_001}}, "characters"),
        ({"data": {"extra": {"x" * 600_000: "y" * 600_000}}}, "characters"),
        ("[" * 10_000_001, "characters"),
    ],
    ids=["values", "levels", "characters", "names", "text"],
)
def test_arguments_are_not_larger_than_a_model_writes(
    session: RefSession, sent: list[str], arguments: Any, what: str
) -> None:
    """Values at all depths and characters in all, counted as they are looked at first."""
    given = arguments if isinstance(arguments, str) else {"table": "dishes", **arguments}
    error = Toolset(MODELS, expect="optional").call(session, "db_create", given)["error"]

    assert error["code"] == "invalid_arguments"
    assert f" {what}; " in error["message"]
    assert sent == []


@pytest.mark.parametrize(
    "extra",
    [[1] * 49_000, {f"{n}": "x" * 900 for n in range(1_000)}],
    ids=["values", "characters"],
)
def test_a_large_document_is_stored_and_shown(call: Call, extra: Any) -> None:
    """As large as a call may have it."""
    assert call("db_create", table="dishes", data={"extra": extra})["rows"][0]["extra"] == extra


@pytest.mark.usefixtures("dishes")
def test_what_a_hook_puts_in_place_of_arguments_is_counted(session: RefSession) -> None:
    """It asks in the model's name; what a hook includes or adds by itself is its own affair."""

    class Asking(Hooks):
        def before_read(self, read: Reading) -> None:
            read.include.extend(related(17))
            read.conditions.extend([Dish.name != "x"] * 1_001)
            if read.arguments.limit == 1:
                asked = {**read.arguments.model_dump(), "filters": steps(33)}
                read.arguments = DbRead.model_validate(asked)

    toolset = Toolset(MODELS, hooks={Dish: [Asking()]}, expect="optional")
    assert "error" not in toolset.call(session, "db_read", {"table": "dishes", "limit": 2})
    refused = toolset.call(session, "db_read", {"table": "dishes", "limit": 1})
    assert refused["error"]["code"] == "invalid_arguments"


def test_conditions_of_the_program_are_not_counted(
    session: RefSession, conversation: Conversation, tables: Engine
) -> None:
    """A prompt may show many rows, and a hook may name many that others lead to."""

    class Listing(Hooks):
        def before_read(self, read: Reading) -> None:
            if read.nested:
                only = FilterClause(field="id", op="in", value=refs)
                read.arguments = DbRead(table="dishes", filters=[only])

    with Session(tables) as plain, plain.begin():
        dishes = [Dish(name=str(n)) for n in range(1_001)]
        plain.add_all([*dishes, Part(dish=dishes[0], note="rice")])
        plain.flush()
        refs = conversation.refer_all(Dish, [dish.id for dish in dishes])
    shown = Toolset(MODELS).reread(session, {ref: ["name"] for ref in refs}, {})
    assert shown.rows.keys() == {*refs}
    hooked = Toolset(MODELS, hooks={Dish: [Listing()]})
    asked = {"table": "parts", "columns": ["note", "dish.name"]}
    [part] = hooked.call(session, "db_read", asked)["rows"]
    assert part["dish"]["name"] == "0"


@pytest.mark.usefixtures("dishes")
def test_more_is_refused_before_anything_is_done(session: RefSession, sent: list[str]) -> None:
    """One more of any kind: nothing is sent, and the error says of what there is too much."""
    for kind, (arguments, most) in KINDS.items():
        call = {"table": "dishes", **arguments(most + 1)}
        error = Toolset(MODELS, expect="optional").call(session, "db_read", call)["error"]

        assert error["code"] == "invalid_arguments", kind
        assert "they have more than " in error["message"]
        assert sent == []


@pytest.mark.parametrize("text", ["_" * 100_000, "dish " * 20_000, "a-" * 50_000, "9" * 100_000])
@pytest.mark.usefixtures("dishes")
def test_a_long_text_in_place_of_a_ref_is_refused_at_once(call: Call, text: str) -> None:
    """Looking for what was meant took minutes, and then the whole was sent back."""
    call("db_read", table="dishes")

    answer = call("db_read", table="dishes", filters=[{"field": "id", "op": "=", "value": text}])

    assert answer["error"]["code"] in ("unknown_ref", "raw_key")
    assert len(str(answer)) < 5_000


def test_numbers_that_json_has_not_are_refused(call: Call) -> None:
    """Infinity and the like, and integers longer than Python prints."""
    for number in [float("nan"), float("-inf"), 10**400, -(10**5000)]:
        for name in ["extra", "price", "rating", "servings"]:
            data = {name: {"n": number} if name == "extra" else number}
            answer = call("db_create", table="dishes", data=data)

            assert answer["error"]["code"] in ("invalid_arguments", "invalid_value")
            assert call("db_read", table="dishes")["count"] == 0


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_time_that_no_driver_reads_is_refused(call: Call, moment: str) -> None:
    """It is beyond the years of Python in another zone, and its row could not be read again."""
    answer = call("db_create", table="dishes", data={"seen_at": moment})

    assert answer["error"]["code"] == "invalid_value"


def test_what_is_wrong_is_repeated_in_part(call: Call) -> None:
    """A name of nearly a million letters is not sent back."""
    answer = call("db_read", table="x" * 900_000)

    assert answer["error"]["code"] == "unknown_table"
    assert len(str(answer)) < 5_000


def test_a_text_is_cut_before_a_key_or_after_it(
    session: RefSession, dishes: dict[str, uuid.UUID], tables: Engine
) -> None:
    """Half a key would be shown as what it is; what was cut says so."""
    key = str(dishes["Soup"])
    with Session(tables) as plain:
        plain.add(Dish(code="keys", name=f"of {key}", extra={key: "long " * 20}))
        plain.commit()
    toolset = Toolset(MODELS, limits=Limits(text=20), expect="optional")

    by_code = [{"field": "code", "op": "=", "value": "keys"}]
    asked = {"table": "dishes", "filters": by_code, "columns": ["name", "extra"]}
    answer = toolset.call(session, "db_read", asked)

    assert answer["rows"] == [
        {
            "id": "dish_1",
            "name": "of …<cut: 36 more characters>",
            "extra": {"<key_1>": "long long long long …<cut: 80 more characters>"},
        }
    ]
    assert answer["cut"] == [
        "dish_1.name: 36 more characters",
        "dish_1.extra.<key_1>: 80 more characters",
    ]


@pytest.mark.usefixtures("dishes")
def test_rows_inside_of_rows_are_cut_in_all(session: RefSession) -> None:
    """Through two tables in turn they would be thousands, however few there are."""
    toolset = Toolset(MODELS, limits=Limits(related=5), expect="optional")
    asked = {
        "table": "dishes",
        "filters": [of_name(value="Korma")],
        "columns": ["parts.dish.parts.note"],
    }
    answer = toolset.call(session, "db_read", asked)

    [row] = answer["rows"]
    assert [len(part["dish"]["parts"]) for part in row["parts"]] == [2, 0]
    assert answer["cut"] == ["dish_1.parts[2].dish.parts: 2 more rows"]


# Documents that are nested too deep: shown as far as they can be written back


SOUP = [{"field": "name", "op": "=", "value": "Soup"}]


def document(levels: int, inner: Any = 1) -> Any:
    """Return a document of lists and objects in turn, so many levels deep."""
    for n in range(levels):
        inner = [inner] if n % 2 else {"in": inner}
    return inner


def depth_of(value: Any) -> int:
    """Return how many levels a document has."""
    levels = 0
    while isinstance(value, list | dict):
        value = value[0] if isinstance(value, list) else next(iter(value.values()))
        levels += 1
    return levels


@pytest.fixture(params=[MAX_DEPTH_SHOWN + 1, 260, 900])
def deep(tables: Engine, dishes: dict[str, Any], request: pytest.FixtureRequest) -> int:
    """A document in a row, saved by a plain session: how many levels it has."""
    levels: int = request.param
    document = '{"in":' * levels + "1" + "}" * levels
    with Session(tables) as plain:
        given = {"it": document, "id": dishes["Soup"]}
        plain.execute(text("update dishes set extra = cast(:it as jsonb) where id = :id"), given)
        plain.commit()
    return levels


@pytest.mark.usefixtures("deep")
def test_a_document_is_cut_where_it_is_nested_too_deep(call: Call) -> None:
    """By every verb, and beside rows that are whole: it is said where."""
    read = call("db_read", table="dishes", order_by="name")
    changed = call("db_update", table="dishes", filters=SOUP, data={"servings": 3})

    shown = {row["name"]: row["extra"] for row in read["rows"]}
    assert (shown["Curry"], depth_of(shown["Soup"])) == (None, MAX_DEPTH_SHOWN)
    assert json.dumps(shown["Soup"], ensure_ascii=False).count(DEPTH_MARK) == 1
    assert read["cut"] == [f"dish_3.extra: more than {MAX_DEPTH_SHOWN} levels"]
    assert (changed["count"], len(changed["cut"])) == (1, 1)


def test_what_is_expected_of_it_is_not_there(call: Call, deep: int) -> None:
    """A deep document is not what a model can give, and nothing is raised."""
    expect = {"extra": document(40)}
    answer = call("db_delete", table="dishes", filters=SOUP, expect=expect)

    assert answer["error"]["code"] == "unexpected_row"
    assert depth_of(answer["error"]["actual"]) <= deep


@pytest.mark.usefixtures("dishes")
def test_what_is_shown_whole_can_be_written_back(call: Call) -> None:
    """The deepest too, in a list of new rows."""
    deepest = document(MAX_DEPTH_SHOWN)
    created = call("db_create", table="dishes", data=[{"name": "deep", "extra": deepest}])
    [row] = created["rows"]

    assert row["extra"] == deepest
    assert "cut" not in created
    assert call("db_create", table="dishes", data=[{"extra": row["extra"]}])["count"] == 1


def test_a_document_of_a_draft_is_cut_too(conversation: Conversation, call: Call) -> None:
    """As those of rows are."""
    conversation.draft(Dish, {"name": "Dal", "extra": document(MAX_DEPTH_SHOWN + 1)})
    this = [{"field": "id", "op": "=", "value": "gen_dish_1"}]
    answer = call("db_read", table="dishes", filters=this)

    assert depth_of(answer["rows"][0]["extra"]) == MAX_DEPTH_SHOWN
    assert answer["cut"] == [f"gen_dish_1.extra: more than {MAX_DEPTH_SHOWN} levels"]


class Deep(Hooks):
    """Adds to rows what is nested too deep."""

    def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
        """Add it."""
        for row in rows:
            row["more"] = document(5_000)
            row["parts"] = document(5_000)

    def after_write(self, write: Writing, rows: list[dict[str, Any]]) -> None:
        """Add it, and say so at length."""
        self.after_read(Reading(write.session, write.model, arguments=None), rows)  # type: ignore[arg-type]
        write.notes.append(document(5_000))


@pytest.mark.usefixtures("dishes")
def test_what_a_hook_adds_is_cut_too(session: RefSession) -> None:
    """In rows, in place of related ones, and in notes."""
    toolset = Toolset(MODELS, hooks={Dish: [Deep()]})
    asked: dict[str, Any] = {"table": "dishes", "filters": SOUP, "columns": ["name", "parts"]}
    read = toolset.call(session, "db_read", asked)
    asked |= {"data": {"servings": 3}, "expect": {"count": 1}}
    del asked["columns"]
    changed = toolset.call(session, "db_update", asked)

    [row] = read["rows"]
    assert (depth_of(row["more"]), depth_of(row["parts"])) == (
        MAX_DEPTH_SHOWN,
        MAX_DEPTH_SHOWN + 2,
    )
    levels = f"more than {MAX_DEPTH_SHOWN} levels"
    assert read["cut"] == [f"dish_1.parts.in: {levels}", f"dish_1.more: {levels}"]
    assert depth_of(changed["rows"][0]["more"]) == MAX_DEPTH_SHOWN
    assert depth_of(changed["notes"]) == MAX_DEPTH_SHOWN


VALUES: list[Any] = [1, "x", document(5), [document(5), (1,)], {}, [[], {}]]


@pytest.mark.parametrize("value", VALUES)
def test_what_is_not_too_deep_is_left_as_it_is(value: Any) -> None:
    """The very same object."""
    rest, is_cut = limit_depth(value, 7)

    assert rest is value
    assert not is_cut
