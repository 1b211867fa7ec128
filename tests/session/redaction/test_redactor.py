"""Words and values of errors, without a database: what servers and drivers may say."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from alfred_refs import RefPolicy
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.keys import Key
from alfred_refs.session.redaction import ColumnCatalogue, ErrorFields, Redactor
from tests.models import Box, MealPlan, Order, OrderLine, Person, Recipe

KNOWN = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")
OTHER = uuid.UUID("c69607bb-1f55-4d1e-9d6c-0f4c2f9d7a11")


class Names:
    """Knows a recipe, and two kinds of rows with one number."""

    def refs_by_entity(self, key: Key) -> Mapping[str, str]:
        """Return the refs of a key."""
        known: dict[Key, dict[str, str]] = {
            KNOWN: {"recipe": "recipe_1"},
            41: {"order": "order_7", "guest": "guest_2"},
            42: {"order": "order_8"},
        }
        return known.get(key, {})

    def text_keys(self) -> list[str]:
        """Return keys that are text."""
        return ["Zubrowka", "a+b"]


def redactor(
    fault: ErrorFields | None = None, *classes: type[Any], policy: Any = None
) -> Redactor:
    """Return the redactor of an application that has used these classes."""
    entities = Entities(policy or RefPolicy())
    for class_ in classes or (Recipe, MealPlan, Order, OrderLine, Person, Box):
        entities.of_class(class_)
    return Redactor(Names(), ColumnCatalogue(entities), fault or ErrorFields())


LEFT_OUT = "(values left out: there may be keys among them)"
ORDERS = ErrorFields("23505", "public", "orders")
LINES = ErrorFields("23505", "public", "order_lines")
LINES_KEY = ErrorFields("23503", "public", "order_lines", "order_lines_order_id_fkey")
PLANS_KEY = ErrorFields("23503", "public", "meal_plans", "meal_plans_instead_of_fkey")
NO_NULL = ErrorFields("23502", "public", "orders")


@pytest.mark.parametrize(
    ("fault", "said", "shown"),
    [
        (ORDERS, "Key (id)=(41) already exists.", "Key (id)=(order_7) already exists."),
        (ORDERS, "Key (id)=(43) already exists.", "Key (id)=(<key>) already exists."),
        (LINES, "Key (order_id, position)=(41, 3)", "Key (order_id, position)=(order_7, 3)"),
        (LINES, "Key (order_id, note)=(41, a, b)", "Key (order_id, note)=(<key>)"),
        (LINES, "Key (lower(note))=(41)", "Key (lower(note))=(<key>)"),
        (LINES, "Key (order_id)=(null)", "Key (order_id)=(null)"),
        (LINES_KEY, 'Key (order_id)=(41) is not there"', 'Key (order_id)=(order_7) is not there"'),
        (LINES_KEY, "Key (id)=(41) is still there", "Key (id)=(order_7) is still there"),
        (PLANS_KEY, f"Key (instead_of)=({KNOWN})", "Key (instead_of)=(recipe_1)"),
        (PLANS_KEY, f"Key (id)=({OTHER}) is still", "Key (id)=(<key>) is still"),
        (ErrorFields(), "Key (id)=(41) already exists.", "Key (id)=(<key>) already exists."),
        (ORDERS, "Schlüssel »(id)=(41)« existiert.", "Schlüssel »(id)=(order_7)« existiert."),
        (
            NO_NULL,
            "DETAIL:  Fehlgeschlagene Zeile enthält (41, a).\nTIP:  x",
            f"DETAIL:  Fehlgeschlagene Zeile enthält {LEFT_OUT}.\nTIP:  x",
        ),
        (ErrorFields(), "Failing row contains (41, a\nb).", f"Failing row contains {LEFT_OUT}."),
    ],
)
def test_details_are_worded_by_column(fault: ErrorFields, said: str, shown: str) -> None:
    """In any language, and from either side of a foreign key."""
    assert redactor(fault).database_text(said) == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("order 42 of 2 is late", "order <key> of 2 is late"),
        ("order 42.", "order <key>."),
        ("$42 and order_42 and 42.5 and x42", "$42 and order_42 and 42.5 and x42"),
        ("function late(integer) line 42 at RAISE", "function late(integer) line 42 at RAISE"),
        (f"x\nLINE 1: ...where id = '{str(KNOWN)[:12]}...\n        ^", "x"),
        ("x\nLINE 42: select no\n               ^", "x\nLINE 42: select no\n               ^"),
        (f"no {KNOWN}, no {OTHER.hex}", "no recipe_1, no <key>"),
    ],
)
def test_free_text_shows_no_number_that_is_a_key(said: str, shown: str) -> None:
    """A number alone does not tell whose key it is, so it has no name."""
    assert redactor().database_text(said) == shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("id", 41, "order_7"),
        ("id_1", 41, "order_7"),
        ("orders_id", 42, "order_8"),
        ("id__0", 41, "order_7"),
        ("id_m1", [41, 42, 43], ["order_7", "order_8", "<key>"]),
        ("id", "41", "order_7"),
        ("number", 41, 41),
        ("number_1", 41, 41),
        ("pk_1", 41, "<key>"),
        ("param_1", 41, "<key>"),
        ("param_1", True, True),
        ("number", KNOWN, "recipe_1"),
        ("number", {"at": [str(KNOWN), 41]}, {"at": ["recipe_1", 41]}),
        ("number", f"see {KNOWN}", "see recipe_1"),
        ("number", dt.date(2024, 1, 1), dt.date(2024, 1, 1)),
        ("number", KNOWN.bytes, "<bytes>"),
        ("number", object(), "<object>"),
    ],
)
def test_values_are_shown_by_their_parameters_name(name: str, value: Any, shown: Any) -> None:
    """Of the tables that the statement names."""
    statement = "select * from orders where id = %(id_1)s"

    assert redactor().parameters({name: value}, statement) == {name: shown}


def test_values_by_position_have_the_statements_names() -> None:
    """Where there are as many of them: a statement may have been drawn out."""
    sql, names = "insert into orders (id, number)", ["id", "number"]

    assert redactor().parameters((41, 5), sql, names) == ("order_7", 5)
    assert redactor().parameters([(41, 5)], sql, names) == [("order_7", 5)]
    assert redactor().parameters((41, 5), sql, ["id"]) == ("<key>", "<key>")
    assert redactor().parameters((41, KNOWN), sql) == ("<key>", "recipe_1")


def test_without_integer_keys_integers_are_shown() -> None:
    """They cannot be keys."""
    redact = redactor(policy=RefPolicy(key_types=("uuid",)))

    assert redact.parameters({"param_1": 41}, "select 1") == {"param_1": 41}
    assert redact.database_text("order 42 of 2") == "order 42 of 2"
    assert redact.orm_text(f"key {(dict, (5,), None)}") == f"key {(dict, (5,), None)}"
    refused = redactor(NO_NULL, policy=RefPolicy(key_types=("uuid",)))
    failing = "Failing row contains (41, null)."
    assert refused.database_text(failing) == failing
    for hidden in (
        f"Failing row contains ({KNOWN}, 1).",
        "Failing row contains (a508000d..., 1).",
    ):
        assert "a508000d" not in refused.database_text(hidden)


def test_a_key_of_the_statement_is_known_in_its_texts() -> None:
    """By the ref of the column that it was compared with."""
    redact = redactor()
    redact.parameters({"id_1": 41}, "select 1 from orders")

    assert redact.database_text("41 is late") == "order_7 is late"

    redact.parameters({"guest": 41}, "select 1 from orders")
    assert redact.database_text("41 is late") == "<key> is late"


def test_an_excerpt_of_what_the_program_wrote_is_kept() -> None:
    """A part of the statement that is shown anyway, unless it ends inside a key."""
    redact = redactor()
    redact.statement = "select 'x' from recipes where id = 'recipe_1' and no"
    kept = "x\nLINE 1: select 'x' from reci...\n         ^"

    assert redact.database_text(kept) == kept
    assert redact.database_text("x\nLINE 1: ...e2' and no\n          ^") == "x"


def test_texts_that_were_met_as_keys_are_hidden() -> None:
    """As whole redact."""
    assert redactor().database_text("to Zubrowka, a+b; Zubrowkan") == "to <key>, <key>; Zubrowkan"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"key {(Recipe, (KNOWN,), None)} is", f"key {(Recipe, ('recipe_1',), None)} is"),
        (f"key {(Order, (42,), None)} is", f"key {(Order, ('order_8',), None)} is"),
        (f"key {(Order, (43,), None)} is", f"key ({Order}, (<key>,), None) is"),
        (f"key {(OrderLine, (41, 3), None)}", f"key {(OrderLine, ('order_7', 3), None)}"),
        (f"key {(Person, (str(OTHER),), 'x')}", f"key ({Person}, (<key>,), 'x')"),
        (f"key {(dict, (5,), None)} is", "key (<class 'dict'>, (<key>,), None) is"),
        ("1 row of 42", "1 row of 42"),
    ],
)
def test_identities_are_worded_by_class(said: str, shown: str) -> None:
    """As SQLAlchemy prints them."""
    assert redactor().orm_text(said) == shown


@pytest.mark.parametrize(
    "unit",
    ["(", "(=", "Key (a)=(", "contains (", "(<class 'a'>, (", "41 ", "Zubrowka ", "line 1 at "],
)
def test_a_long_text_is_redacted_in_linear_time(unit: str) -> None:
    """One that is searched again from each of its characters would take minutes."""
    text = unit * (100_000 // len(unit))

    assert "Zubrowka" not in redactor(NO_NULL).database_text(text)
    assert "Zubrowka" not in redactor().orm_text(text) or "Zubrowka" in unit


def test_a_detail_is_found_after_other_brackets_and_signs() -> None:
    """The columns begin at the first bracket after the last `=`."""
    said = "a (b) = c, Key (id)=(41) (x"

    assert redactor(ORDERS).database_text(said) == "a (b) = c, Key (id)=(order_7) (x"
