"""Questions too large to be answered: refused in words, before they cost anything."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Hooks, Limits, Reading, Toolset
from alfred_refs.tools.arguments import DbRead, FilterClause
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


# what a call has -> by how much of that, arguments for a read; and how much it may have
KINDS: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "conditions": (lambda n: {"filters": [of_name()] * n}, 1_000),
    "values": (lambda n: {"filters": [of_name("in", ["x"] * (n - 1))]}, 1_000),
    "or_filters": (
        lambda n: {"filters": [of_name()], "or_filters": [nested(2)] * (n - 1)},
        1_000,
    ),
    "documents": (
        lambda n: {
            "filters": [{"field": "extra", "op": "contains", "value": [[{"a": 1}]] * (n // 3)}]
        },
        1_001,
    ),
    "lists in documents": (
        lambda n: {
            "filters": [{"field": "extra", "op": "contains", "value": {"a": [1] * (n - 2)}}]
        },
        1_000,
    ),
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
            answer = call(
                "db_create",
                table="dishes",
                data={name: {"n": number} if name == "extra" else number},
            )

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
    answer = toolset.call(
        session, "db_read", {"table": "dishes", "filters": by_code, "columns": ["name", "extra"]}
    )

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
    korma = [{"field": "name", "op": "=", "value": "Korma"}]

    answer = toolset.call(
        session,
        "db_read",
        {"table": "dishes", "filters": korma, "columns": ["parts.dish.parts.note"]},
    )

    [row] = answer["rows"]
    assert [len(part["dish"]["parts"]) for part in row["parts"]] == [2, 0]
    assert answer["cut"] == ["dish_1.parts[2].dish.parts: 2 more rows"]
