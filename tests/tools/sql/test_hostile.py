"""A corpus of texts that attack, err or ask too much: it may only grow."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic

import pytest

from tests.tools.sql.judge import judge
from tests.tools.sql.world import ANN, BOB, SECRET, World

pytestmark = pytest.mark.slow

CORPUS = Path(__file__).with_name("hostile.txt").read_text("utf-8")
FEWEST = 1080
SLOWEST = 2.0  # seconds

LINES = [line for line in CORPUS.splitlines() if line and not line.startswith("#")]
LONG = {
    "1 MB": "select '" + "x" * 1_000_000 + "'",
    "10,000 parentheses": "select " + "(" * 10_000 + "1" + ")" * 10_000,
    "deep parentheses": "select " + "(" * 39 + "1" + ")" * 39,
    "deep subqueries": "select " + "(select " * 30 + "1" + ")" * 30,
    "deep NOT": "select " + "not " * 900 + "true",
    "deep minus": "select " + "- " * 900 + "1",
    "long sum": "select " + "+".join(["1"] * 900),
    "long OR": "select 1 where " + " or ".join(["1 = 1"] * 400),
    "long list": "select 1 where 1 in (" + ", ".join(["1"] * 900) + ")",
    "many columns": "select " + ", ".join(["name"] * 900) + " from products",
    "many tables": "select 1 from " + ", ".join(f"products p{n}" for n in range(200)),
    "many parts": "with " + ", ".join(f"a{n} as (select 1)" for n in range(150)) + " select 1",
    "deep CASE": "select " + "case when true then " * 200 + "1" + " end" * 200,
    "deep functions": "select " + "lower(" * 39 + "'x'" + ")" * 39,
    "deep coalesce": "select " + "coalesce(" * 39 + "1" + ")" * 39,
    "deep lists": "select "
    + "cardinality(string_to_array(array_to_string(" * 12
    + "array['x']"
    + ", ','), ','))" * 0
    + ")" * 36,
    "deep ||": "select " + "('a' || " * 39 + "'b'" + ")" * 39,
    "deep arithmetic": "select " + "(1 + " * 39 + "1" + ")" * 39,
    "deep windows": "select " + "sum(" * 30 + "1" + ") over ()" * 30,
    "long integer": "select " + "9" * 5_000,
    "long number": "select 1." + "9" * 5_000,
    "long exponent": "select 1e" + "9" * 5_000,
    "long limit": "select 1 limit " + "9" * 5_000,
    "subscripts": "select tags" + "[1]" * 600 + " from products",
    "types": "select " + "date(" * 39 + "1" + ")" * 39,
    "types in subscripts": "select " + "x[date(" * 19 + "1" + ")]" * 19,
    "square brackets": "select " + "array[" * 39 + "1" + "]" * 39,
    "half a surrogate": "select '\ud800'",
    "a NUL": "select 'a\x00b'",
    "an escape": "select '\x1b'",
    "a space of no ASCII": "select\u00a01",
    "letters of no ASCII": "select name from products l\u0131m\u0131t 1",
}


def test_the_corpus_may_only_grow() -> None:
    """Whoever takes a line out of it changes this number."""
    assert len(set(LINES)) >= FEWEST


def test_hostile_texts_are_refused_or_give_the_owner_s_rows(world: World) -> None:
    """None raises, none takes long, and none tells a key or what no model may see."""
    wrong, hidden = [], _hidden(world)
    for line in LINES:
        begun, sql = monotonic(), line[2:]
        if line.startswith("!"):
            told = world.ask(sql)
            is_right = "error" in told
        else:
            verdict = judge(world, sql)
            told, is_right = verdict.told, verdict.outcome == "same"
        text = json.dumps(told).replace(json.dumps(sql)[1:-1], "")
        shown = [each for each in hidden if each in text and each not in sql]
        if not is_right or shown or monotonic() - begun > SLOWEST:
            wrong.append((line, told, shown))

    assert wrong == []


def test_texts_without_measure_are_refused_at_once(world: World) -> None:
    """Long, deep and broken ones, each in less than two seconds, with an answer in any case."""
    for name, sql in LONG.items():
        begun = monotonic()
        told = world.ask(sql)

        assert monotonic() - begun < SLOWEST, name
        assert "rows" in told or told["error"]["code"] in CODES, name


CODES = ("invalid_sql", "invalid_arguments", "invalid_value")


def _hidden(world: World) -> list[str]:
    """Return what ann may be told of by no answer: keys, and what is hidden or bob's."""
    keys = {str(key) for key in world.keys[ANN].values() if not isinstance(key, int)}
    theirs = {str(key) for key in world.keys[BOB].values() if not isinstance(key, int)}
    return [*sorted(keys | theirs), SECRET]
