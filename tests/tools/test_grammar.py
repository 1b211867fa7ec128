"""A filter says all that it takes to decide it, or nothing is done on its account."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Hooks, Reading, Toolset, Writing
from alfred_refs.tools.arguments import DbRead, FilterClause
from tests.tools.conftest import MODELS, Call
from tests.tools.models import Dish
from tests.tools.oracle import Filter
from tests.tools.test_filters import CLAUSES, EACH_TIME, FILTERS, Kitchen, clause, kitchen

__all__ = ["kitchen"]

DRAFT = "gen_dish_1"
NULLS = ("is_null", "is_not_null")


def misshapen(given: Filter) -> list[Filter]:
    """Return a clause with operands of other shapes than its operator takes."""
    value = given["value"]
    shapes: list[Any] = [{"a": value}, {}, [[value]], [{}]]
    if given["op"] in NULLS:
        shapes += [0, 1, "true", "", [True]]
    elif given["op"] in ("in", "not_in"):
        shapes += [[], value[0], "dish_1", 5]
    elif given["op"] == "contains":
        shapes += [[], None, [None], 5, [1]]
    else:
        shapes += [[value], []]
    shapes += [None, 5, True] if given["op"] == "ilike" else []
    shapes += [None] if given["op"] in (">", "<", ">=", "<=") else []
    return [{**given, "value": each} for each in shapes]


# clauses each of which has one defect, in whatever group they stand
DEFECTS: st.SearchStrategy[Filter] = st.one_of(
    CLAUSES.filter(lambda given: given["op"] not in NULLS).map(
        lambda given: {"field": given["field"], "op": given["op"]}  # nothing to compare with
    ),
    CLAUSES.flatmap(lambda given: st.sampled_from(misshapen(given))),
    CLAUSES.map(lambda given: {**given, "field": f"{given['field']}.name"}),
    CLAUSES.map(lambda given: {**given, "field": f"{given['field']}x"}),
    CLAUSES.map(lambda given: {**given, "op": "similar"}),
    st.builds(
        lambda path, given: {**given, "field": path},
        st.sampled_from(["parts", "cuisine", "parent", "parent.parts", "parts.dish"]),
        CLAUSES,
    ),
    st.builds(
        clause,
        st.sampled_from(["id", "cuisine_id", "parent_id", "parts.cuisine_id", "servings"]),
        st.sampled_from(["ilike", "contains"]),
        st.sampled_from(["%", "dish_1", ["dish_1"]]),
    ),
    st.builds(clause, st.sampled_from(["id", "parent_id"]), st.just(">"), st.just("dish_1")),
)
OF_ROWS = st.sampled_from(["id", "parent_id"])
NO_ROWS = st.sampled_from(["", DRAFT, "dish_99", "cuisine_1", "dish_1 (Korma)"])
NOT_ROWS: st.SearchStrategy[Filter] = st.one_of(
    st.builds(clause, OF_ROWS, st.sampled_from(["!=", "neq"]), NO_ROWS),
    st.builds(lambda field, no: clause(field, "not_in", ["dish_1", no]), OF_ROWS, NO_ROWS),
)
GROUPS = ("alone", "and", "or", "not", "not or", "twice not")


def placed(group: str, wrong: Filter, others: list[Filter]) -> list[Filter]:
    """Return filters with a wrong one among others, in a group."""
    match group:
        case "and" | "or":
            return [{group: [*others, wrong]}]
        case "not":
            return [*others, {"not": wrong}]
        case "not or":
            return [{"not": {"or": [wrong, *others]}}]
        case "twice not":
            return [{"not": {"not": wrong}}, *others]
    return [*others, wrong]


class Asked(Hooks):
    """Notes that it was asked."""

    def __init__(self) -> None:
        self.count = 0

    def before_read(self, read: Reading) -> None:
        """Note it, unless an error reads which names it may show."""
        self.count += not read.nested

    def before_write(self, _: Writing) -> None:
        """Note it."""
        self.count += 1


class Watched:
    """Calls tools on the dishes, and tells what came of it."""

    def __init__(self, kitchen: Kitchen, sent: list[str]) -> None:
        self.hook = Asked()
        self.toolset = Toolset(MODELS, hooks={Dish: [self.hook]}, expect="optional")
        self._kitchen = kitchen
        self._sent = sent
        self._rows = self._read()

    def _read(self) -> list[Any]:
        with Session(self._kitchen.engine) as plain:
            found = select(Dish.code, Dish.name, Dish.spice).order_by(Dish.code)
            return list(map(tuple, plain.execute(found)))

    def refuses(self, tool: str, filters: list[Filter], *, unasked: bool) -> bool:
        """Tell whether a call is refused, without a statement, and unchanged all rows."""
        self._sent.clear()
        self.hook.count = 0
        more = {"data": {"spice": 5}} if tool == "db_update" else {}
        arguments = {"table": "dishes", "filters": filters, **more}
        answer = self.toolset.call(self._kitchen.session, tool, arguments)
        statements = [each for each in self._sent if "dishes" in each or "parts" in each]
        is_asked = self.hook.count > 0 and unasked
        return "error" in answer and not statements and not is_asked and self._read() == self._rows


@pytest.fixture
def watched(kitchen: Kitchen, sent: list[str], conversation: Conversation) -> Watched:
    """A toolset with a hook, on two dozen dishes and a draft."""
    conversation.draft(Dish, {"name": "Dal"})
    return Watched(kitchen, sent)


TOOLS = st.sampled_from(["db_read", "db_update", "db_delete"])


@EACH_TIME
@given(
    tool=TOOLS, wrong=DEFECTS, others=st.lists(FILTERS, max_size=2), group=st.sampled_from(GROUPS)
)
def test_one_defect_refuses_the_call(
    watched: Watched, tool: str, wrong: Filter, others: list[Filter], group: str
) -> None:
    """Before a hook is asked or anything is executed, whatever stands beside it."""
    assert watched.refuses(tool, placed(group, wrong, others), unasked=True)


@pytest.mark.slow
@EACH_TIME
@given(
    tool=TOOLS,
    wrong=NOT_ROWS,
    others=st.lists(CLAUSES, max_size=2),
    group=st.sampled_from(["alone", "and", "or", "twice not"]),
)
def test_what_rows_are_not_is_a_row(
    watched: Watched, tool: str, wrong: Filter, others: list[Filter], group: str
) -> None:
    """A negation names rows that are there: else it would mean all of them."""
    assert watched.refuses(tool, placed(group, wrong, others), unasked=True)


def test_what_is_wrong_is_told(call: Call) -> None:
    """With what would be right."""
    cases: list[tuple[Filter, str]] = [
        (clause("parts", "=", "part_1"), "leads to rows of 'parts' and to none of their columns"),
        (clause("parts", "is_null"), "name a column of theirs, such as 'parts.position'"),
        (clause("parent.parts", "=", 1), "such as 'parent.parts.position'"),
        (clause("name.x", "=", "a"), "goes on after 'name', a column, which leads to no other"),
        (clause("cuisine.name.x", "=", "a"), "goes on after 'cuisine.name', a column"),
        (clause("nothing", "=", 1), "table 'dishes' has no column 'nothing' to use here"),
        (clause("nothing.name", "=", 1), "table 'dishes' has no column 'nothing' to use here"),
        (clause("parts.", "=", 1), "table 'parts' has no column '' to use here"),
        ({"field": "name", "op": "!="}, "on 'name' has no value for '!='; give one, or use"),
        ({"field": "id", "op": "!="}, "on 'id' has no value for '!='; give one, or use"),
        ({"not": {"field": "id", "op": "="}}, "on 'id' has no value for '='; give one, or use"),
        ({"field": "name", "op": "ilike"}, "on 'name' has no value for 'ilike'"),
        ({"field": "_ref", "op": "="}, "on '_ref' has no value for '='"),
        (clause("id", "ilike", "%"), "cannot be 'ilike': the column has a ref of dish"),
        (clause("id", "!=", ""), "excludes a row by an empty string; give a ref, or null"),
        ({"not": clause("id", "in", [""])}, "excludes a row by an empty string"),
        ({"not": clause("parts.dish_id", "=", "")}, "excludes a row by an empty string"),
        (clause("alike", "!=", [""]), "the value given for 'alike' does not fit"),
        (clause("id", "!=", ["dish_1"]), "the value given for 'id' does not fit"),
    ]
    for filter_, message in cases:
        table = "servings" if filter_.get("field") == "_ref" else "dishes"
        assert message in call("db_read", table=table, filters=[filter_])["error"]["message"]


@pytest.mark.usefixtures("dishes")
def test_null_is_a_value_where_it_is_given(call: Call) -> None:
    """In equalities and lists; and an empty text is null where it widens nothing."""

    def count(*filters: Filter) -> int:
        found: int = call("db_read", table="dishes", filters=list(filters))["count"]
        return found

    cuisine = "cuisine_id"
    assert [count(clause(cuisine, op, None)) for op in ("=", "!=", "neq")] == [1, 2, 2]
    assert [count(clause(cuisine, op, [None])) for op in ("in", "not_in")] == [1, 2]
    assert count(clause("id", "!=", None)) == 3
    assert [count(clause(cuisine, "=", "")), count(clause(cuisine, "in", [""]))] == [1, 1]
    assert [count({"field": "name", "op": op}) for op in NULLS] == [0, 3]


@pytest.mark.usefixtures("dishes")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (FilterClause(field="id", op="!="), "has no value for '!='"),
        (FilterClause(field="id", op="!=", value=""), "by an empty string"),
        (FilterClause(field="nothing.name", op="=", value=1), "no column 'nothing'"),
    ],
)
@pytest.mark.parametrize("in_place", [False, True])
def test_what_a_hook_asks_for_is_checked_too(
    session: RefSession, sent: list[str], wrong: FilterClause, message: str, in_place: bool
) -> None:
    """Whether it gives other arguments, or changes those that there are."""

    class Careless(Hooks):
        def before_read(self, read: Reading) -> None:
            if in_place:
                read.arguments.filters.append(wrong)
            else:
                read.arguments = DbRead(table="dishes", filters=[wrong])

    toolset = Toolset(MODELS, hooks={Dish: [Careless()]}, expect="optional")
    answer = toolset.call(session, "db_read", {"table": "dishes"})

    assert message in answer["error"]["message"]
    assert [each for each in sent if "dishes" in each] == []


def test_a_filter_is_looked_at_before_its_refs(call: Call, store: Any, tables: Engine) -> None:
    """Nothing is asked of the registry for one that cannot be decided."""
    del tables
    store.trips.clear()
    wrong = [clause("id", "in", ["dish_1", DRAFT]), clause("servings", "ilike", "%")]

    assert call("db_delete", table="dishes", filters=wrong)["error"]["code"] == "invalid_filter"
    assert store.trips == []
