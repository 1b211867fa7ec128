"""A delete takes along, unlinks or refuses what refers to it, and tells; judged by all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from sqlalchemy import Engine

from alfred_refs import RefSession
from alfred_refs.tools import Toolset
from tests.tools.conftest import Watcher
from tests.tools.families import FAMILIES, Family, changes, delete, made, refs_of, rows

ACCESS: Mapping[str, Callable[[Family], dict[str, Any]]] = {
    "writable": lambda f: {"models": [f.top, f.part]},
    "read only": lambda f: {"models": [f.top, f.part], "read_only": [f.part]},
    "unlisted": lambda f: {"models": [f.top]},
    "no delete": lambda f: {"models": [f.top, f.part], "verbs": {f.part: ["create", "update"]}},
    "no update": lambda f: {"models": [f.top, f.part], "verbs": {f.part: ["delete"]}},
    "hidden key": lambda f: {"models": [f.top, f.part], "hidden": [f.part.top_id]},
    "fixed key": lambda f: {"models": [f.top, f.part], "read_only": [f.part.top_id]},
}

# what a model may do to the referring rows -> what it may have done to them
DONE = {
    "writable": {"delete", "unlink", "unlink by default"},
    "read only": set[str](),
    "unlisted": {"delete", "unlink"},
    "no delete": {"unlink", "unlink by default"},
    "no update": {"delete"},
    "hidden key": {"delete"},
    "fixed key": {"delete"},
}

# one for each effect of the mapping, and of the schema
FEW = ("cascade", "plain", "nulled", "gone", "unset", "bare")


@pytest.mark.slow
@pytest.mark.parametrize("access", ACCESS)
def test_what_refers_is_told_or_refused(tables: Engine, session: RefSession, access: str) -> None:
    """Whatever the mapping and the schema say, nothing is changed that is not the model's to."""
    for name in FAMILIES if access == "writable" else FEW:
        each = FAMILIES[name]
        made(tables, each)
        before = rows(tables, each.top, each.part)
        answer = delete(session, Toolset(**ACCESS[access](each)), each.top, "a")
        after = rows(tables, each.top, each.part)
        if each.effect in DONE[access]:
            _check_deleted(session, each, answer, before, after, is_listed=access != "unlisted")
            continue
        error = answer["error"]
        assert (error["code"], before == after) == ("still_referenced", True), name
        if access == "unlisted":
            assert (error["referring"], error["refs"]) == (None, [])
        else:
            assert error["referring"] == f"{name}_parts"
            assert {*error["refs"]} == refs_of(session, each.part, {1, 2})
            assert sorted(error["labels"].values()) == ["part 1", "part 2"]


def _check_deleted(  # a case and what came of it
    session: RefSession,
    each: Family,
    answer: dict[str, Any],
    before: Any,
    after: Any,
    *,
    is_listed: bool,
) -> None:
    """Check that a row went, with what the mapping and the schema say, and that it is told."""
    gone, changed = changes(before[1], after[1])
    assert answer["count"] == 1, each
    assert changes(before[0], after[0]) == ({1}, set())
    assert (gone, changed) == (({1, 2}, set()) if each.effect == "delete" else (set(), {1, 2}))
    told = (gone, changed) if is_listed else (set(), set())
    assert {*answer.get("deleted_with", [])} == refs_of(session, each.part, told[0])
    assert {*answer.get("unlinked", [])} == refs_of(session, each.part, told[1])


def test_what_goes_along_counts(tables: Engine, session: RefSession) -> None:
    """One call changes so many rows, those that it takes along among them."""
    each = FAMILIES["cascade"]
    made(tables, each)
    models = [each.top, each.part]

    error = delete(session, Toolset(models, max_written=2), each.top, "a")["error"]
    assert (error["code"], error["most"]) == ("too_many_rows", 2)
    assert "with those that refer to them" in error["message"]
    assert delete(session, Toolset(models, max_written=3), each.top, "a")["count"] == 1
    assert delete(session, Toolset([each.top], max_written=1), each.top, "b")["count"] == 1


def test_what_is_owned_and_unseen_is_not_read(
    tables: Engine, session: RefSession, sent: list[str]
) -> None:
    """Rows of no toolset that go with others cost no statement; nor where nothing refers."""
    each = FAMILIES["cascade"]
    made(tables, each)
    part = [{"field": "note", "op": "=", "value": "part 3"}]
    toolset = Toolset([each.part])
    sent.clear()
    asked = {"table": "cascade_parts", "filters": part, "expect": {"count": 1}}
    toolset.call(session, "db_delete", asked)
    assert len(sent) == 3  # rows are found, and deleted; the first is any call's

    sent.clear()
    delete(session, Toolset([each.top]), each.top, "b")
    words = [s.split()[0] for s in sent[1:]]
    assert words == ["SELECT", "SELECT", "DELETE"]  # one by the ORM


@pytest.mark.parametrize("name", ["cascade", "gone", "plain", "unset"])
def test_hooks_are_asked_of_what_is_reached(
    tables: Engine, session: RefSession, name: str
) -> None:
    """They know the rows by their refs, may refuse, and may change what loses its reference."""
    each, verb = FAMILIES[name], "delete" if name in ("cascade", "gone") else "update"
    made(tables, each)
    before = rows(tables, each.top, each.part)
    hooks = Watcher(refuses=verb)
    toolset = Toolset([each.top, each.part], hooks={each.part: [hooks]})
    assert delete(session, toolset, each.top, "a")["error"]["code"] == "locked"
    assert rows(tables, each.top, each.part) == before

    hooks = Watcher(note="changed by a hook")
    toolset = Toolset([each.top, each.part], hooks={each.part: [hooks]})
    answer = delete(session, toolset, each.top, "a")
    refs = [f"{name}_part_1", f"{name}_part_2"]
    assert hooks.asked == [(verb, refs, [{"top_id": None}] if verb == "update" else [])]
    assert answer["notes"] == ["asked", "told"]
    notes = [note for _, note, top in rows(tables, each.part)[0].values() if top is None]
    assert notes == (["changed by a hook"] * 2 if verb == "update" else [])
    assert [[row["note"] for row in rows] for _, rows in hooks.told] == [notes]
