"""Questions too large to be answered: refused in words, before they cost anything."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alfred_refs import RefSession
from alfred_refs.tools import Limits, Toolset
from tests.tools.conftest import MODELS, Call
from tests.tools.models import Dish

MANY = {"field": "name", "op": "in", "value": ["x"] * 600}


@pytest.mark.parametrize(
    "arguments",
    [
        {"filters": [MANY, MANY]},
        {"filters": [MANY], "or_filters": [{"not": {"or": [{"and": [MANY]}]}}]},
        {"or_filters": [{"field": "name", "op": "=", "value": "x"}] * 1001},
        {"filters": [{"field": "parent." * 2000 + "name", "op": "=", "value": "x"}]},
        {"filters": [{"field": "parent.parent.parent.parent.parent.name", "op": "is_null"}]},
        {"columns": ["parts.dish.parts.dish.parts.dish"]},
    ],
)
@pytest.mark.usefixtures("dishes")
def test_a_question_without_end_is_refused(
    call: Call, sent: list[str], arguments: dict[str, Any]
) -> None:
    """Of thousands of conditions, or through a table over and over: nothing is sent."""
    answer = call("db_read", table="dishes", **arguments)

    assert answer["error"]["code"] == "invalid_arguments"
    assert sent == []


@pytest.mark.usefixtures("dishes")
def test_the_largest_question_is_answered(call: Call) -> None:
    """A thousand conditions and values, and paths of five names."""
    most = {"field": "name", "op": "in", "value": ["Soup"] * 998}
    path = {"not": {"field": "parent.parent.parent.parent.name", "op": "is_null"}}
    both = call("db_read", table="dishes", filters=[most, path], columns=["parts.dish.parts.note"])

    assert both["count"] == 1


@pytest.mark.parametrize("text", ["_" * 100_000, "dish " * 20_000, "a-" * 50_000, "9" * 100_000])
@pytest.mark.usefixtures("dishes")
def test_a_long_text_in_place_of_a_ref_is_refused_at_once(call: Call, text: str) -> None:
    """Looking for what was meant took minutes, and then the whole was sent back."""
    call("db_read", table="dishes")

    answer = call("db_read", table="dishes", filters=[{"field": "id", "op": "=", "value": text}])

    assert answer["error"]["code"] in ("unknown_ref", "raw_key")
    assert len(str(answer)) < 5_000


@pytest.mark.parametrize(
    "number", [float("nan"), float("-inf"), 10**400, -(10**5000)], ids=range(4)
)
@pytest.mark.parametrize("name", ["extra", "price", "rating", "servings"])
def test_numbers_that_json_has_not_are_refused(call: Call, name: str, number: float) -> None:
    """Infinity and the like, and integers longer than Python prints."""
    answer = call(
        "db_create", table="dishes", data={name: {"n": number} if name == "extra" else number}
    )

    assert answer["error"]["code"] in ("invalid_arguments", "invalid_value")
    assert call("db_read", table="dishes")["count"] == 0


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_time_that_no_driver_reads_is_refused(call: Call, moment: str) -> None:
    """It is beyond the years of Python in another zone, and its row could not be read again."""
    answer = call("db_create", table="dishes", data={"seen_at": moment})

    assert answer["error"]["code"] == "invalid_value"


def test_what_is_wrong_is_repeated_in_part(call: Call) -> None:
    """A name of a million letters is not sent back."""
    answer = call("db_read", table="x" * 1_000_000)

    assert answer["error"]["code"] == "unknown_table"
    assert len(str(answer)) < 5_000


def test_a_text_is_cut_after_keys_are_taken_out(
    session: RefSession, dishes: dict[str, uuid.UUID], tables: Engine
) -> None:
    """Half a key would be shown as what it is, and so would one that names what was cut."""
    key = str(dishes["Soup"])
    with Session(tables) as plain:
        plain.add(Dish(code="keys", name=f"of {key}", extra={key: "long " * 20}))
        plain.commit()
    toolset = Toolset(MODELS, limits=Limits(text=20))

    by_code = [{"field": "code", "op": "=", "value": "keys"}]
    answer = toolset.call(
        session, "db_read", {"table": "dishes", "filters": by_code, "columns": ["name", "extra"]}
    )

    assert answer["rows"] == [
        {"id": "dish_1", "name": "of <key>", "extra": {"<key>": "long long long long "}}
    ]
    assert answer["cut"] == ["dish_1.extra.<key>: 80 more characters"]


@pytest.mark.usefixtures("dishes")
def test_rows_inside_of_rows_are_cut_in_all(session: RefSession) -> None:
    """Through two tables in turn they would be thousands, however few there are."""
    toolset = Toolset(MODELS, limits=Limits(related=5))
    korma = [{"field": "name", "op": "=", "value": "Korma"}]

    answer = toolset.call(
        session,
        "db_read",
        {"table": "dishes", "filters": korma, "columns": ["parts.dish.parts.note"]},
    )

    [row] = answer["rows"]
    assert [len(part["dish"]["parts"]) for part in row["parts"]] == [2, 0]
    assert answer["cut"] == ["dish_1.parts[2].dish.parts: 2 more rows"]
