"""Rows that a hook chooses: a search of the application's own, in its order."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import select

from alfred_refs import Conversation, RefSession, SetupError
from alfred_refs.tools import Hooks, Reading, Toolset
from tests.tools.models import Dish, Serving

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


def _names(answer: dict[str, Any]) -> list[str]:
    return [row["name"] for row in answer["rows"]]


def test_keys_and_refs_are_read_in_the_order_given(
    session: RefSession, dishes: dict[str, uuid.UUID]
) -> None:
    """A row that is given by both is read once, where it comes first."""
    korma = session.scalars(select(Dish.id).where(Dish.name == "Korma")).one()
    keys = [dishes["Soup"], korma, dishes["Curry"], dishes["Korma"]]
    assert _names(_read(session, keys)) == ["Soup", "Korma", "Curry"]


def test_filters_hold_beside_keys(session: RefSession, dishes: dict[str, uuid.UUID]) -> None:
    """What a hook gives must be what the model asks for too."""
    hot = {"field": "tags", "op": "contains", "value": ["hot"]}
    keys = [dishes["Soup"], dishes["Korma"], dishes["Curry"]]
    assert _names(_read(session, keys, filters=[NEAR, hot])) == ["Korma", "Curry"]


def test_the_next_page_goes_on_in_the_same_order(
    session: RefSession, dishes: dict[str, uuid.UUID]
) -> None:
    """Page by page, each row comes once, and the last page says that it is."""
    keys = [dishes[name] for name in ("Soup", "Korma", "Curry")]
    first = _read(session, keys, filters=[NEAR], limit=2)
    second = _read(session, keys, filters=[NEAR], limit=2, cursor=first["cursor"])
    assert (_names(first), _names(second)) == (["Soup", "Korma"], ["Curry"])
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
    assert _names(_read(session, [uuid.uuid4(), dishes["Soup"]])) == ["Soup"]


class Dropped(Given):
    """Remove one of the rows after the read."""

    def after_read(self, read: Reading, rows: list[dict[str, Any]]) -> None:
        """Remove the row."""
        del read
        rows[:] = [row for row in rows if row["name"] != "Soup"]


def test_a_page_goes_on_after_rows_that_a_hook_has_removed(
    session: RefSession, dishes: dict[str, uuid.UUID]
) -> None:
    """No row is on two pages."""
    keys = [dishes[name] for name in ("Soup", "Korma", "Curry")]
    toolset = Toolset([Dish], hooks={Dish: [Dropped(keys)]})
    asked = {"table": "dishes", "columns": ["name"], "filters": [NEAR], "limit": 2}
    first = toolset.call(session, "db_read", asked)
    second = toolset.call(session, "db_read", {**asked, "cursor": first["cursor"]})
    assert (_names(first), _names(second)) == (["Korma"], ["Curry"])


@pytest.mark.parametrize("columns", [None, ["count(*)"], ["place", "count(*)"]])
def test_rows_with_several_key_columns_have_no_keys(
    session: RefSession, columns: list[str] | None
) -> None:
    """Rows, totals and groups."""
    toolset = Toolset([Serving], hooks={Serving: [Given([uuid.uuid4()])]})
    with pytest.raises(SetupError, match="whose rows have several key columns"):
        toolset.call(session, "db_read", {"table": Serving.__tablename__, "columns": columns})
