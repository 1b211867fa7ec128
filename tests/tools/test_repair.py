"""NUL characters: left out of texts that are stored, with a word; refused everywhere else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import select

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import ToolError, Toolset
from alfred_refs.tools.arguments import parse_arguments, repair_arguments
from tests.models import Person
from tests.tools.conftest import Call, by
from tests.tools.models import Dish, Part
from tests.tools.test_filters import EACH_TIME, Kitchen, kitchen

__all__ = ["kitchen"]

BY_NAME = by("name", "Korma")
BY_REF = by("id", "dish_1")
NUL = "\x00"

MISPLACED: list[tuple[str, dict[str, Any]]] = [
    ("db_read", {"table": "dish\x00es"}),
    ("db_read", {"table": "dishes", "limit\x00": 3}),
    ("db_read", {"table": "dishes", "filters": BY_NAME, "filters\x00": BY_REF}),
    ("db_read", {"table": "dishes", "columns": ["name\x00"]}),
    ("db_read", {"table": "dishes", "order_by": "name\x00"}),
    ("db_read", {"table": "dishes", "cursor": NUL}),
    ("db_read", {"table": "dishes", "filters": [{**BY_NAME[0], "value": "Korma\x00"}]}),
    ("db_read", {"table": "dishes", "filters": [{**BY_NAME[0], "op": "=\x00"}]}),
    ("db_read", {"table": "dishes", "or_filters": [{"not": {**BY_REF[0], "value": NUL}}]}),
    ("db_read", {"table": "dishes", "filters": by("extra", {"\x00": 1}, "contains")}),
    ("db_delete", {"table": "dishes", "filters": [{**BY_REF[0], "op": "!=", "value": NUL}]}),
    ("db_delete", {"table": "dishes", "filters": BY_REF, "filters\x00": BY_NAME}),
    ("db_delete", {"table": "dishes", "filters": BY_REF, "expect": "Korma\x00"}),
    ("db_delete", {"table": "dishes", "filters": BY_REF, "expect": {"name\x00": "Korma"}}),
    ("db_update", {"table": "dishes", "filters": BY_REF, "data": {"name\x00": "x"}}),
    ("db_update", {"table": "dishes", "filters": BY_REF, "data": {"name": "x", "name\x00": "y"}}),
    ("db_update", {"table": "dishes", "filters": BY_REF, "data": {"cuisine_id": NUL}}),
    ("db_update", {"table": "dishes", "filters": BY_REF, "data": {"alike": ["dish_1\x00"]}}),
    ("db_update", {"table": "dishes", "filters": BY_REF, "data": {"course": "MAIN\x00"}}),
    ("db_update", {"table": "dishes", "filters": BY_REF, "data": {"servings": "1\x002"}}),
    ("db_update", {"table": "dishes", "filters": BY_REF, "data": {"extra": {"a": 1, "a\x00": 2}}}),
    ("db_create", {"table": "dishes", "data": [{"name": "x"}, {"cuisine_id": NUL}]}),
    ("db_create", {"table": "dishes", "data": {}, "also": [{"table": "parts\x00", "data": {}}]}),
    ("db_create", {"table": "dishes", "from_draft": "gen_dish_1\x00"}),
    (
        "db_create",
        {"table": "dishes", "data": {}, "also": [{"table": "parts", "data": {"dish_id": NUL}}]},
    ),
]


def test_a_nul_is_refused_where_it_is_no_text_to_be_stored(kitchen: Kitchen) -> None:
    """In names, refs, filters and whatever else decides what is meant: nothing is done."""
    for tool, arguments in MISPLACED:
        before = stored(kitchen.session)
        answer = kitchen.toolset.call(kitchen.session, tool, arguments)

        assert answer["error"]["code"] in ("invalid_arguments", "invalid_value"), arguments
        assert NUL not in json.dumps(answer, ensure_ascii=False)
        assert stored(kitchen.session) == before


def test_no_negation_arises_from_an_empty_text(kitchen: Kitchen) -> None:
    """It is null in a column of refs, and what is not null would be all rows."""
    cases: list[dict[str, Any]] = [
        {"op": "!=", "value": ""},
        {"op": "neq", "value": ""},
        {"op": "not_in", "value": [""]},
        {"op": "not_in", "value": ["dish_1", ""]},
    ]
    for field in ["id", "cuisine_id", "parts.dish_id"]:
        for widened in cases:
            turned = {"!=": "=", "neq": "=", "not_in": "in"}[widened["op"]]
            clause = {"field": field, **widened}
            before = stored(kitchen.session)
            for filter_ in (clause, {"or": [{"not": {**clause, "op": turned}}]}):
                asked = {"table": "dishes", "filters": [filter_]}
                answer = kitchen.toolset.call(kitchen.session, "db_delete", asked)
                assert answer["error"]["code"] in ("invalid_filter", "wrong_entity")
            assert stored(kitchen.session) == before


def test_an_empty_text_is_null_in_columns_of_refs(kitchen: Kitchen) -> None:
    """What is stored, and what is looked for."""
    none = kitchen.call(
        "db_read", table="dishes", filters=[{"field": "cuisine_id", "op": "is_null"}]
    )
    for op, value in (("=", ""), ("in", [""])):
        clause = {"field": "cuisine_id", "op": op, "value": value}
        assert kitchen.call("db_read", table="dishes", filters=[clause]) == none
    changed = kitchen.call("db_update", table="dishes", filters=BY_REF, data={"cuisine_id": ""})
    assert [row["cuisine_id"] for row in changed["rows"]] == [None]


def test_it_is_said_where_nuls_were_left_out(call: Call) -> None:
    """By column, whatever they were in there, and of all rows together."""
    rows = [
        {"name": "a\x00\x00b", "extra": {"k\x00": [{"n": "\x00"}]}},
        {"name": "\x00c", "tags": ["t\x00"]},
    ]
    answer = call("db_create", table="dishes", data=rows)

    assert [(r["name"], r["extra"], r["tags"]) for r in answer["rows"]] == [
        ("ab", {"k": [{"n": ""}]}, None),
        ("c", None, ["t"]),
    ]
    assert answer["notes"] == [
        "3 NUL characters were left out of 'name'",
        "2 NUL characters were left out of 'extra'",
        "1 NUL character was left out of 'tags'",
    ]
    part = {"table": "parts", "data": {"dish_id": "dish_1", "note": "\x00"}}
    also = call("db_create", table="dishes", data={"name": "d"}, also=[part])
    assert also["notes"] == ["1 NUL character was left out of 'parts.note'"]


def test_a_draft_is_repaired_as_a_row_is(
    session: RefSession, conversation: Conversation, call: Call
) -> None:
    """In what is nested in it too; a name of a column there is refused."""
    conversation.draft(Dish, {"name": "Dal"})
    this = by("id", "gen_dish_1")
    nested = {"name": "D\x00al", "parts": [{"note": "len\x00tils", "position": 1}]}
    answer = call("db_update", table="dishes", filters=this, data=nested)

    assert answer["notes"] == [
        "1 NUL character was left out of 'name'",
        "1 NUL character was left out of 'parts.note'",
    ]
    assert answer["rows"][0]["parts"][0]["note"] == "lentils"
    named = call("db_update", table="dishes", filters=this, data={"parts": [{"note\x00": "x"}]})
    assert named["error"]["code"] == "invalid_arguments"
    people = Toolset([Person], expect="optional")
    conversation.draft(Person, {})
    mine = by("id", "gen_person_1")
    kind = {"table": "people", "filters": mine, "data": {"kind": "co\x00ok"}}
    assert people.call(session, "db_update", kind)["error"]["code"] == "invalid_value"


VALID: list[tuple[str, dict[str, Any]]] = [
    (
        "db_create",
        {
            "table": "dishes",
            "data": [
                {"name": "Dal", "tags": ["hot"], "extra": {"a": {"b": "c"}}, "course": "MAIN"},
                {"name": "Rice", "cuisine_id": "cuisine_1", "cooked_on": "2026-05-01"},
            ],
            "also": [{"table": "parts", "data": {"dish_id": "dish_1", "note": "salt"}}],
        },
    ),
    (
        "db_update",
        {
            "table": "dishes",
            "filters": [{"not": {"field": "code", "op": "=", "value": "c3"}}, *BY_REF],
            "data": {"name": "Dal", "extra": {"a": ["b"]}, "parent_id": "dish_2"},
        },
    ),
    ("db_delete", {"table": "parts", "filters": [{**BY_REF[0], "op": "!=", "value": "part_1"}]}),
]


def texts_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all texts in a JSON value; that of a name ends in `None`."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield (*path, name, None)
            yield from texts_of(each, (*path, name))
    elif isinstance(value, list):
        for n, each in enumerate(value):
            yield from texts_of(each, (*path, n))
    elif isinstance(value, str):
        yield path


def with_nul(given: Any, path: tuple[Any, ...], place: int) -> Any:
    """Return a JSON value with a NUL in one of its texts."""
    if not path:
        return f"{given[:place]}{NUL}{given[place:]}"
    name, *rest = path
    if rest == [None]:
        return {with_nul(n, (), place) if n == name else n: each for n, each in given.items()}
    changed = copy.copy(given)
    changed[name] = with_nul(given[name], tuple(rest), place)
    return changed


def stored(session: RefSession) -> list[Any]:
    """Return what dishes and parts have that a model gives them, without new keys."""
    dishes = select(Dish.name, Dish.code, Dish.course, Dish.tags, Dish.extra, Dish.cuisine_id,
                    Dish.parent_id, Dish.cooked_on)  # fmt: skip
    parts = select(Part.note, Part.position, Part.dish_id)
    rows = [*session.execute(dishes), *session.execute(parts)]
    session.expire_all()
    return sorted(map(repr, rows))


def done(kitchen: Kitchen, tool: str, arguments: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """Return the answer of a call and what is stored after it, and undo it."""
    session = kitchen.session
    with session.begin() as transaction:
        answer = kitchen.toolset.call(session, tool, arguments)
        rows = stored(session)
        transaction.rollback()
    return answer, rows


@pytest.mark.slow
@EACH_TIME
@given(
    which=st.integers(0, len(VALID) - 1),
    places=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), min_size=1, max_size=2),
)
def test_a_call_with_nuls_does_the_same_and_says_so_or_nothing(
    kitchen: Kitchen, which: int, places: list[tuple[int, int]]
) -> None:
    """Wherever they are: what is done is what the call without them does."""
    tool, valid = VALID[which]
    changed = valid
    for n, place in places:
        paths = list(texts_of(changed))
        changed = with_nul(changed, paths[n % len(paths)], place)
    kitchen.session.rollback()
    answer, rows = done(kitchen, tool, changed)

    with kitchen.session.begin():
        before = stored(kitchen.session)
    if "error" in answer:
        assert answer["error"]["code"] in ("invalid_arguments", "invalid_value")
        assert rows == before
    else:
        meant, expected = done(kitchen, tool, valid)
        assert "error" not in meant
        assert rows == expected
        noted = [int(note.split()[0]) for note in answer["notes"]]
        assert sum(noted) == len(places)
        assert all("left out of" in note for note in answer["notes"])


@pytest.mark.parametrize(
    "text",
    [
        '{"table": "dishes", "limit": 1, "limit": 2}',
        '{"table": "dishes", "filters": [{"field": "name", "op": "=", "value": 1, "value": 2}]}',
        '{"table": "dishes", "filters": [{"or": [], "or": []}]}',
        '{"table": "dishes", "table": "dishes"}',
        '{"table": "dishes", "\\u0000": 1, "\\u0000": 2}',
    ],
)
def test_a_name_given_twice_in_text_is_refused(text: str) -> None:
    """One of the two would be dropped: a condition, or a value."""
    with pytest.raises(ToolError, match="has a name twice") as caught:
        parse_arguments(text)
    assert caught.value.code == "invalid_arguments"
    assert NUL not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 1_000_000, "values"),
        ("[" + "1," * 50_000 + "1]", "more than 50,000 values"),
        ("[" + "[]" * 50_001, "more than 50,000 values"),
        ('{"a": ' + "9" * 5_000 + "}", "more than 1024 bits"),
        ('{"a": -' + "9" * 400 + "}", "more than 1024 bits"),
        ('"' + "," * 5, "not valid JSON"),
        ("\\" * 200_000, "not valid JSON"),
        ('\\"' * 200_000, "not valid JSON"),
        (b"\xff", "not valid JSON"),
    ],
)
def test_text_is_refused_for_what_is_wrong_with_it(text: str | bytes, words: str) -> None:
    """And counted before there is an object for each of its values."""
    with pytest.raises(ToolError, match=words) as caught:
        parse_arguments(text)
    assert caught.value.code == "invalid_arguments"


def test_text_that_is_nested_deep_is_refused() -> None:
    """As it is read or, by a Python that reads it, as it is looked through."""
    with pytest.raises(ToolError, match="nested more than 50 levels"):
        repair_arguments(parse_arguments("[" * 24_000 + "]" * 24_000))


@pytest.mark.parametrize(
    "value", ["," * 200_000, "[{" * 100_000, '\\",' * 100_000, "é\n" * 9, [1] * 49_000]
)
def test_signs_inside_texts_are_not_counted(value: Any) -> None:
    """Of a text that is a value, whatever it is about."""
    for ensure_ascii in (True, False):
        text = json.dumps({"data": value}, ensure_ascii=ensure_ascii)
        assert parse_arguments(text) == parse_arguments(text.encode()) == {"data": value}


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(("name", "made"), [("rating", lambda v: v), ("extra", lambda v: [v])])
def test_a_number_that_json_has_not_is_refused(
    call: Call, name: str, made: Any, value: float
) -> None:
    """With what is wrong with it: a text may have it as 1e999."""
    error = call("db_create", table="dishes", data={name: made(value)})["error"]
    assert (error["code"], error["field"]) == ("invalid_value", name)
    assert "finite" in error["message"]
    assert parse_arguments('{"a": 1e999}') == {"a": float("inf")}
