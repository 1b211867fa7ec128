"""What a model is told when it errs is for a model: no key, and no advice for developers."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Toolset
from tests.tools.conftest import MODELS, Call
from tests.tools.models import Cuisine, Dish, Part
from tests.tools.test_cursors import encoded

Named = dict[str, Any]
Asked = tuple[str, Named]

# what only those who write programs could act on, or what only those who wrote ours know
ADVICE = re.compile(
    r"raw_keys|info=|RefPolicy|Ref(Session|Registry|Error)|Toolset|Ownership|__\w+__|trusted code"
    r"|unconfined|execution_options|sqlalchemy|psycopg|asyncpg|pydantic|\bPython\b|\bsession\b"
    r"|\bhooks?\b|\bmapp(ed|er|ing)\b|\bclass(es)?\b|\battribute|\binstance|\bhidden\b"
    r"|\bread_only=|\w+\(\)|\w+Error\b|Exception|Traceback|<class|object at|DETAIL|SQLSTATE"
    r"|\bSELECT\b|\bINSERT\b|\bUPDATE\b|\bDELETE FROM\b|https?://|\bdict\b|\bstr\b|\bUUID\("
    r"|discriminator|polymorphic|primary key|foreign key"
)

FORMS: list[Callable[[uuid.UUID], str]] = [
    *(str, lambda key: key.hex, lambda key: str(key).upper(), lambda key: f"{{{key}}}"),
    *(lambda key: f"dish {key}", lambda key: f"dish_{key.hex}", lambda key: f" {key}\n"),
]


def told(answer: Named) -> str:
    """Return the text of an answer, once it is known to be an error that speaks to a model."""
    text = json.dumps(answer, ensure_ascii=False)
    assert "error" in answer, text
    assert [match[0] for match in ADVICE.finditer(answer["error"]["message"])] == [], text
    assert [match[0] for match in ADVICE.finditer(text)] == [], text
    return text


def by(field: str, op: str, value: Any) -> list[Named]:
    """Return one filter."""
    return [{"field": field, "op": op, "value": value}]


def written(filters: list[Named], table: str = "dishes") -> Iterator[Asked]:
    """Yield calls of all tools that take filters."""
    data = {"note": "x"} if table in ("parts", "servings") else {"spice": 1}
    yield "db_read", {"table": table, "filters": filters}
    yield "db_update", {"table": table, "filters": filters, "data": data}
    yield "db_delete", {"table": table, "filters": filters}


def filtered(key: str) -> Iterator[Asked]:
    """Yield calls with a key wherever a filter takes a ref."""
    own = ("id", "cuisine_id", "parent_id")
    for field in (*own, "parts.id", "parts.dish_id", "parent.parent_id"):
        for op, value in (("=", key), ("!=", key), ("in", [key]), ("not_in", ["dish_1", key])):
            yield from written(by(field, op, value))
    yield from written(by("alike", "contains", [key]))
    yield from written(by("alike", "=", [key]))
    yield from written(by("_ref", "=", key), "servings")
    yield from written(by("_ref", "in", [key]), "servings")
    yield from written(by("dish_id", "=", key), "servings")
    for group in ({"not": by("id", "=", key)[0]}, {"or": by("parent_id", "=", key)}):
        yield from written([group])
    yield "db_read", {"table": "dishes", "or_filters": by("id", "=", key)}


def stored(key: str) -> Iterator[Asked]:
    """Yield calls with a key wherever a row or a draft takes a ref."""
    drafted = by("id", "=", "gen_dish_1")
    part = {"table": "parts", "data": {"dish_id": "dish_1"}}
    lists: list[Named] = [{"alike": [key]}, {"alike": ["dish_1", key]}]
    for data in ({"cuisine_id": key}, {"parent_id": key}, *lists):
        yield "db_create", {"table": "dishes", "data": data}
        yield "db_create", {"table": "dishes", "data": [{}, data]}
        yield "db_create", {**part, "also": [{"table": "dishes", "data": data}]}
        yield "db_update", {"table": "dishes", "data": data, "filters": by("id", "=", "dish_1")}
        yield "db_update", {"table": "dishes", "data": data, "filters": drafted}
        yield "db_create", {"table": "dishes", "from_draft": "gen_dish_1", "data": data}
    parts: list[Named] = [{"parts": [key]}, {"parts": [{"cuisine_id": key}]}]
    for related in ({"cuisine": key}, {"parent": key}, *parts):
        yield "db_update", {"table": "dishes", "data": related, "filters": drafted}
        yield "db_create", {"table": "dishes", "from_draft": "gen_dish_1", "data": related}
    yield "db_create", {"table": "servings", "data": {"dish_id": key, "place": 7}}
    for given in (key, [key], ["gen_dish_1", key]):
        yield "db_create", {"table": "dishes", "from_draft": given}
    also = [{"table": "dishes", "from_draft": key}]
    yield "db_create", {"table": "dishes", "data": {}, "also": also}


def elsewhere(key: str) -> Iterator[Asked]:
    """Yield calls with a key where no ref can stand."""
    one = by("id", "=", "dish_1")
    for expect in ({"id": key}, {"cuisine_id": key}, {"alike": [key]}, key, {key: 1}):
        for filters in (one, by("id", "=", "gen_dish_1")):
            yield "db_delete", {"table": "dishes", "filters": filters, "expect": expect}
            asked = {"table": "dishes", "filters": filters, "data": {"spice": 1}, "expect": expect}
            yield "db_update", asked
    yield "db_read", {"table": key}
    yield key, {"table": "dishes"}
    yield "db_read", {"table": "dishes", "columns": [key]}
    yield "db_read", {"table": "dishes", "columns": [f"parts.{key}"]}
    yield "db_read", {"table": "dishes", "order_by": key}
    yield "db_read", {"table": "dishes", "cursor": key}
    yield "db_read", {"table": "dishes", "cursor": encoded({"question": key, "ref": key})}
    yield "db_read", {"table": "dishes", key: 1}
    yield from written(by(key, "=", 1))
    yield from written(by(f"parts.{key}", "=", 1))
    yield "db_read", {"table": "dishes", "filters": by("name", key, 1)}
    yield "db_create", {"table": "dishes", "data": {key: 1}}
    yield "db_create", {"table": "dishes", "data": {"id": key}}
    yield "db_update", {"table": "dishes", "data": {"id": key}, "filters": one}
    draft = by("id", "=", "gen_dish_1")
    yield "db_update", {"table": "dishes", "data": {key: 1}, "filters": draft}
    for name in ("servings", "price", "cooked_on", "course", "seen_at", "is_vegan", "code"):
        yield "db_create", {"table": "dishes", "data": {name: key}}


@pytest.fixture
def known(
    session: RefSession, dishes: Named, toolset: Toolset, conversation: Conversation
) -> Iterator[Named]:
    """The keys of rows that have refs; beside them a draft, a discarded and a saved one."""
    for table, order in (("cuisines", "name"), ("dishes", "name"), ("parts", "note")):
        toolset.call(session, "db_read", {"table": table, "order_by": order})
    for name in ("Draft", "Discarded", "Saved"):
        conversation.draft(Dish, {"name": name})
    conversation.draft(Part, {"dish_id": "dish_1"})
    conversation.discard_drafts(["gen_dish_2"])
    toolset.call(session, "db_create", {"table": "dishes", "from_draft": "gen_dish_3"})
    yield dishes
    assert [draft.ref for draft in conversation.drafts()] == ["gen_dish_1", "gen_part_1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("places", "form"),
    [(stored, 0), (elsewhere, 0), *((filtered, form) for form in range(len(FORMS)))],
)
def test_a_key_is_neither_repeated_nor_explained_to_developers(
    session: RefSession,
    toolset: Toolset,
    known: Named,
    places: Callable[[str], Iterator[Asked]],
    form: int,
) -> None:
    """Wherever a model may give one, in whatever form, of a row or of none; nothing is changed."""
    for key in (known["Korma"], *([] if form else [uuid.uuid4()])):
        for tool, arguments in places(FORMS[form](key)):
            text = told(toolset.call(session, tool, arguments))
            assert key.hex not in re.sub(r"\W", "", text).lower(), (tool, arguments)


def test_a_key_is_told_as_a_key(session: RefSession, toolset: Toolset, known: Named) -> None:
    """In the words for models, whole, with what may be given instead."""
    asked = {"table": "dishes", "filters": by("id", "=", str(known["Korma"]))}
    for tool, more in (("db_read", {}), ("db_update", {"data": {"spice": 1}}), ("db_delete", {})):
        error = toolset.call(session, tool, {**asked, **more})["error"]
        assert (error["code"], error["ref"]) == ("raw_key", None)
        known_ones = (
            """'dish_1' ("Curry"), 'dish_2' ("Korma"), 'dish_3' ("Soup"), 'dish_4' ("Saved")"""
        )
        fact = "a database key cannot be used here"
        assert error["message"] == f"{fact}; give a ref; known: {known_ones}"


# Every other mistake

TREE = {"not": {"and": [{"or": [{"field": "name", "op": "is_null"}]}]}}

# reads of dishes, and of other tables
READS: list[Named] = [
    *({"limit": -1}, {"limit": "x"}, {"limit": True}),
    *({"columns": ["photograph"]}, {"columns": ["parts.photograph"]}, {"columns": "name"}),
    {"columns": ["parts.dish.parts.dish.parts.note"]},
    *({"order_by": "tags"}, {"order_by": "cuisine_id"}, {"order_by": "photograph"}),
    *({"order_by": 1}, {"order_by": [1]}, {"order_dir": "up"}),
    *({"cursor": "x"}, {"cursor": encoded({"question": "x", "ref": "dish_1"})}),
    {"cursor": encoded({"question": "x", "shown": -1})},
    *({"filter": []}, {"filters": [{}]}, {"filters": [TREE, {"and": []}]}),
    *({"filters": [{"not": []}, {"or": [1]}]}, {"filters": ["name = 'x'"]}),
    {"filters": 1001 * by("name", "=", "x")},
    {"filters": by("_semantic", "similar", "warm")},
    {"filters": [{"not": by("_semantic", "similar", "warm")[0]}]},
    *({"filters": by("_semantic", "=", "warm")}, {"filters": by("name", "similar", "warm")}),
    *({"table": "secrets"}, {"table": 1}),
    {"table": "servings", "filters": by("_ref", "ilike", "x")},
    {"table": "servings", "filters": by("_ref", "=", "serving_9")},
    {"table": "servings", "filters": by("_ref", "=", "dish_1")},
    {"table": "servings", "filters": by("_ref", "in", [1])},
]

FILTERS: list[tuple[str, str, Any]] = [
    *(("id", "=", ref) for ref in ("dish_9", "cuisine_1", "dish_5")),
    *(("id", "=", ref) for ref in ("gen_dish_9", "gen_dish_2", "gen_part_1")),
    *(("id", "ilike", "%"), ("id", ">", "dish_1")),
    *(("cuisine_id", "=", "gen_dish_1"), ("cuisine_id", "=", 7)),
    *(("cuisine.name", ">", None), ("cuisine.nom", "=", "x"), ("kitchen.name", "=", "x")),
    *(("parts", "=", "x"), ("servings", "=", "four"), ("servings", "in", [])),
    *(("servings", "in", 4), ("servings", "contains", [4]), ("servings", ">", None)),
    *(("servings", "is_null", 4), ("name", "ilike", None), ("name", "ilike", "x\\")),
    *(("name", "like", "x"), ("name", "=", {"a": 1}), ("cooked_on", "<", "yesterday")),
    *(("seen_at", "<", "once"), ("price", "=", "1,5"), ("course", "=", "dessert")),
    *(("is_vegan", "=", "perhaps"), ("tags", "contains", [None]), ("tags", "contains", [1])),
    *(("extra", "=", {}), ("extra", "contains", None), ("photo", "=", "x"), ("device", "=", "x")),
]

NEW: list[Named] = [
    *({"photograph": 1}, {"id": "dish_1"}, {"photo": "x"}, {"name": 7}),
    *({"code": "too long for it"}, {"servings": 2**40}, {"spice": 2**20}, {"rating": "x"}),
    *({"course": "dessert"}, {"tags": "hot"}, {"tags": [["hot"]]}, {"cuisine_id": "Indian"}),
    *({"cuisine_id": "cuisine_9"}, {"cuisine_id": "dish_1"}, {"parent_id": "gen_dish_2"}),
    *({"alike": ["dish_9"]}, {"alike": "dish_1"}, {"device": "x"}, {"seen_at": "at ten"}),
]

REFUSED_BY_THE_DATABASE: list[Named] = [{"code": "taken"}, {"servings": 0}, {"price": 10**9}]

DRAFTED: list[Named] = [
    *({"parts": "x"}, {"parts": [1]}, {"parts": [{"photograph": 1}]}, {"parts": ["dish_1"]}),
    *({"parts": [{"dish_id": "cuisine_1"}]}, {"parent": {"name": 7}}),
    *({"cuisine": ["cuisine_1"]}, {"cuisine": "cuisine_9"}, {"cuisine": "gen_dish_1"}),
]


def asking() -> Iterator[Asked]:
    """Yield calls that ask for what cannot be answered."""
    yield "db_drop", {"table": "dishes"}
    yield from (("db_read", {"table": "dishes", **asked}) for asked in READS)
    for given in FILTERS:
        yield from written(by(*given))


def creating() -> Iterator[Asked]:
    """Yield calls that would store what cannot be stored."""
    one, draft = by("id", "=", "dish_1"), by("id", "=", "gen_dish_1")
    for data in [*NEW, *REFUSED_BY_THE_DATABASE, *DRAFTED]:
        yield "db_create", {"table": "dishes", "data": data}
        yield "db_update", {"table": "dishes", "filters": one, "data": data}
        if data not in REFUSED_BY_THE_DATABASE:
            yield "db_update", {"table": "dishes", "filters": draft, "data": data}
        yield "db_create", {"table": "dishes", "from_draft": "gen_dish_1", "data": data}
    for given in ("gen_dish_9", "gen_dish_2", "gen_part_1", "dish_1", ["gen_dish_1"] * 2, [], 1):
        yield "db_create", {"table": "dishes", "from_draft": given}
    shapeless: list[Named] = [{}, {"data": []}, {"data": 1}, {"data": [1]}]
    for asked in (*shapeless, {"data": {}, "from_draft": ["x"]}):
        yield "db_create", {"table": "dishes", **asked}
    yield "db_create", {"table": "parts", "data": {"note": "of nothing"}}
    yield "db_create", {"table": "servings", "data": {"dish_id": "dish_2", "place": 1}}
    yield "db_create", {"table": "dishes", "data": {}, "also": [{"table": "secrets", "data": {}}]}


def writing() -> Iterator[Asked]:
    """Yield calls that would change what they may not."""
    draft, mixed = "gen_dish_1", by("id", "in", ["dish_1", "gen_dish_1"])
    part = by("id", "=", "part_1")
    for tool, more in (("db_update", {"data": {"spice": 1}}), ("db_delete", {})):
        yield tool, {"table": "dishes", **more}
        for filters in ([], mixed, by("name", "is_not_null", None)):
            yield tool, {"table": "dishes", "filters": filters, **more}
        for expect in ("Soup", {"servings": 9}, {"photograph": 1}, {"servings": "x"}, 5):
            for ref in ("dish_1", draft):
                filters = by("id", "=", ref)
                yield tool, {"table": "dishes", "filters": filters, "expect": expect, **more}
    yield "db_delete", {"table": "parts", "filters": part, "expect": "rice"}
    yield "db_delete", {"table": "dishes", "filters": by("id", "=", "dish_2")}
    yield "db_delete", {"table": "cuisines", "filters": by("name", "=", "Indian")}
    for data in ({"dish_id": None}, {"dish_id": "dish_9"}, {"dish_id": draft}, {}):
        yield "db_update", {"table": "parts", "filters": part, "data": data}


@pytest.mark.slow
def test_no_mistake_is_answered_with_advice_for_developers(
    session: RefSession, known: Named, tables: Engine
) -> None:
    """Whatever a model gets wrong, of whatever kind; nothing is changed by it."""
    with Session(tables) as plain:
        plain.get_one(Dish, known["Soup"]).code = "taken"
        plain.commit()
    toolset = Toolset(MODELS, max_written=2, expect="optional")
    gone = toolset.call(session, "db_create", {"table": "dishes", "data": {"name": "Gone"}})
    by_ref = by("id", "=", gone["rows"][0]["id"])
    assert toolset.call(session, "db_delete", {"table": "dishes", "filters": by_ref})["count"] == 1
    codes = set()
    for tool, arguments in (*asking(), *creating(), *writing()):
        answer = toolset.call(session, tool, arguments)
        told(answer)
        codes.add(answer["error"]["code"])
    assert len(codes) >= 23, codes


def test_what_cannot_be_changed_is_answered_without_advice(
    session: RefSession, known: Named
) -> None:
    """What is hidden or may be read only is nothing that the model could do something about."""
    assert known
    hidden = [Dish.spice, Dish.parent]
    toolset = Toolset(MODELS, read_only=[Cuisine, Part], hidden=hidden, expect="optional")
    draft, name = by("id", "=", "gen_dish_1"), by("name", "is_not_null", None)
    for tool, asked in (
        ("db_create", {"table": "cuisines", "data": {"name": "x"}}),
        ("db_update", {"table": "cuisines", "filters": name, "data": {"name": "x"}}),
        ("db_delete", {"table": "cuisines", "filters": name}),
        ("db_create", {"table": "dishes", "data": {"spice": 1}}),
        ("db_update", {"table": "dishes", "filters": draft, "data": {"spice": 1}}),
        ("db_update", {"table": "dishes", "filters": draft, "data": {"parent": "dish_1"}}),
        ("db_update", {"table": "dishes", "filters": draft, "data": {"parts": [{"note": "x"}]}}),
        ("db_read", {"table": "dishes", "filters": by("parent.name", "=", "x")}),
        ("db_read", {"table": "dishes", "columns": ["spice"]}),
        ("db_delete", {"table": "dishes", "filters": by("id", "=", "dish_2")}),
    ):
        told(toolset.call(session, tool, asked))


ALSO = {"table": "dishes", "from_draft": 1}


@pytest.mark.parametrize(
    ("tool", "arguments", "field", "wanted"),
    [
        ("db_read", {"filters": [{"not": []}]}, "filters.0.not", "an object"),
        ("db_read", {"filters": ["x"]}, "filters.0", "an object"),
        ("db_read", {"columns": "name"}, "columns", "a list"),
        ("db_read", {"order_by": 1}, "order_by", "text"),
        ("db_read", {"order_by": [1]}, "order_by.0", "text"),
        ("db_create", {"from_draft": 1}, "from_draft", "text"),
        ("db_create", {"data": {}, "also": [ALSO]}, "also.0.from_draft", "a list"),
        ("db_delete", {"filters": by("id", "=", "dish_1"), "expect": 5}, "expect", "an object"),
    ],
)
def test_shapes_are_told_in_words_of_json(
    call: Call, tool: str, arguments: Named, field: str, wanted: str
) -> None:
    """Not by the names that types have in the language that checks them."""
    error = call(tool, table="dishes", **arguments)["error"]

    assert (error["code"], error["field"]) == ("invalid_arguments", field)
    assert error["message"] == (
        f"the arguments do not fit the tool at {field!r}: input should be {wanted}; look at its "
        "schema and call again"
    )


def test_a_field_that_is_called_as_a_type_is_told_by_its_name(call: Call) -> None:
    """It is the model's own name, and no type's."""
    assert call("db_read", table="dishes", str=1)["error"]["field"] == "str"
    clause = {"field": "name", "op": "is_null", "str": 1}
    error = call("db_read", table="dishes", filters=[clause])["error"]
    assert error["field"] == "filters.0.str"
