"""Other kinds of calls: in sequences, forbidden, of what was shown, with NULs, expensive."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, delete, func, update

from alfred_refs import RefRegistry
from alfred_refs.tools import Hooks, Toolset
from alfred_refs.tools.hooks import Writing
from tests.profiles import examples
from tests.tools.fuzz import nuls, rights
from tests.tools.fuzz.costs import CostRound
from tests.tools.fuzz.echoes import EchoRound
from tests.tools.fuzz.found import Found
from tests.tools.fuzz.kinds import KINDS, Place, place_in
from tests.tools.fuzz.measures import timed
from tests.tools.fuzz.nuls import Spoilt
from tests.tools.fuzz.sequences import SequenceRound
from tests.tools.fuzz.world import MODELS, World
from tests.tools.models import Part, Serving


@pytest.fixture
def place(tables: Engine) -> Place:
    """Where rounds are made."""
    return place_in(tables, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sequences", "permits", "echoes", "nuls"])
def test_nothing_comes_of_a_round_that_must_not(place: Place, kind: str) -> None:
    """Whatever the kind: `tests.tools.fuzz` makes more rounds of each."""
    KINDS[kind].run(place, 0, examples(100))

    assert place.found.wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sequences", "permits"])
def test_a_round_makes_the_same_calls_again(place: Place, kind: str) -> None:
    """So that what was found can be looked at."""
    KINDS[kind].run(place, 3, 20)
    once = place.found.done.copy()
    KINDS[kind].run(place, 3, 20)

    assert place.found.done == once + once
    assert once.total() >= 20


class Careless(Hooks):
    """A hook that writes another text than was given, other rows, and takes back what was made."""

    def before_write(self, write: Writing) -> None:
        """Change what is written, and rows besides."""
        for record in write.records:
            record["note"] = f"{record.get('note')}!"
        write.session.execute(update(Serving).values(note=func.concat(Serving.place, "?")))

    def after_write(self, write: Writing, _rows: list[dict[str, Any]]) -> None:
        """Delete all that there is."""
        if write.verb == "create":
            write.session.execute(delete(Part))


def _careless() -> Toolset:
    return Toolset(MODELS, hooks={Part: [Careless()]}, expect="optional")


@pytest.mark.slow
def test_rows_that_are_others_than_was_told_are_found(
    tables: Engine, registry: RefRegistry
) -> None:
    """Such as come of what was never committed, and such as change without a word."""
    found = Found()
    SequenceRound(World(tables), registry, "9", found, _careless()).run(40)

    assert any("rows are not there that were told" in wrong for wrong in found.wrong)
    assert any("rows have changed that no answer told of" in wrong for wrong in found.wrong)


@pytest.mark.slow
def test_a_text_that_is_another_when_it_is_written_back_is_found(tables: Engine) -> None:
    """Whatever it is that changes it."""
    RefRegistry(tables).create_tables()
    found = Found()
    EchoRound(World(tables), "1", found, _careless()).run(40)

    assert any("written back is another: db_update {'table': 'parts'" in w for w in found.wrong)


@pytest.mark.slow
def test_what_takes_too_long_is_found(tables: Engine, registry: RefRegistry) -> None:
    """If a call may take no time at all, each takes too long."""
    found = Found()
    CostRound(World(tables), registry, "4", found, seconds=0.0).run(2)

    assert len([wrong for wrong in found.wrong if "it takes" in wrong]) == 2


def test_what_is_timed_is_work_and_what_is_waited_for(database_url: str) -> None:
    """Of the server; not what other programs do in between."""
    engine = create_engine(database_url)
    with timed(engine) as asleep:
        time.sleep(0.2)
    with timed(engine) as waiting, engine.connect() as connection:
        connection.exec_driver_sql("SELECT pg_sleep(0.2)")
    engine.dispose()

    assert asleep.seconds < 0.2 <= waiting.seconds


PLAN, OTHER, TASK = ("f_plans", "1"), ("f_plans", "2"), ("f_tasks", "3")
MARK, ACCOUNT, ADMIN = ("f_marks", "4"), ("f_accounts", "5"), ("f_accounts", "6")
AUDIT, TRACE, SEAL = ("f_audits", "7"), ("f_traces", "8"), ("f_seals", "9")
MEMO, SLIP, LINK = ("f_memos", "10"), ("f_slips", "11"), ("f_labels_of_plans", "12")
LABEL, OURS, NEW_LINK = ("f_labels", "13"), ("f_tasks", "14"), ("f_labels_of_plans", "113")
BEFORE: rights.Rows = {
    PLAN: {"budget": 1, "name": "a"},
    TASK: {"plan_id": "2"},
    OURS: {"plan_id": "1", "position": 1, "text": "a"},
    MARK: {"text": "a"},
    ACCOUNT: {"kind": "account", "level": None},
    ADMIN: {"kind": "admin", "level": 1, "name": "a"},
    AUDIT: {"plan_id": "1", "text": "a"},
    TRACE: {"plan_id": "1", "text": "a"},
    SEAL: {"trace_id": "8", "text": "a"},
    MEMO: {"plan_id": "1"},
    SLIP: {"plan_id": "1"},
    LINK: {"plan_id": "1", "label_id": "13"},
    LABEL: {"text": "a"},
}
NAMED = {f"{place[0]}_{place[1]}": place for place in [*BEFORE, OTHER]}
ANSWER = {"table": "plans", "rows": ["f_plans_1"]}
GONE = {"table": "plans", "deleted": ["f_plans_1"], "unlinked": ["f_labels_13"]}
LINKS = [{"plan_id": "f_plans_1", "label_id": "f_labels_13"}]
LINKED = {"table": "f_labels_of_plans", "rows": LINKS}
UNLINKED = {"table": "f_labels_of_plans", "deleted": LINKS}
TASKS = {"table": "plans", "row": "f_plans_1", "list": "tasks", "items": {}}
READ_ONLY = "that may only be read, or not even that"
AUDITOR, NO_ADMIN = {"kind": "auditor", "level": 1, "name": "a"}, {"kind": "admin", "level": None}
REWORDED, BROKEN = {"plan_id": None, "text": "b"}, {"trace_id": None, "text": "a"}
INSERTED = f"was inserted {READ_ONLY}"
FOUR_TASKS = {("f_tasks", n): dict[str, Any]() for n in "0123"}
UNLINKED_SLIP, OF_OTHER = {"plan_id": None}, ("f_labels_of_plans", "0")
ALONG = {PLAN: None, AUDIT: {"plan_id": None, "text": "a"}, TRACE: None, MEMO: None, LINK: None}
"""What is there once the plan is deleted, but for the seal."""


@pytest.mark.parametrize(
    ("tool", "answer", "after", "wrong"),
    [
        ("db_update", ANSWER, {PLAN: {"budget": 1, "name": "b"}}, []),
        ("db_read", ANSWER, {PLAN: {"budget": 1, "name": "b"}}, ["changed by a read or an error"]),
        ("db_update", {"error": {}}, {PLAN: None}, ["changed by a read or an error"]),
        ("db_update", ANSWER, {PLAN: {"budget": 2, "name": "a"}}, ["f_plans.budget"]),
        ("db_create", ANSWER, {OTHER: {"budget": 2, "name": "a"}}, ["f_plans.budget"]),
        ("db_create", ANSWER, {OTHER: {"budget": None, "name": "a"}}, []),
        ("db_create", ANSWER, {TASK: None}, ["did more than that: f_tasks"]),
        ("db_update", ANSWER, {TASK: None}, ["did more than that", "nothing is told: f_tasks"]),
        ("db_create", ANSWER, {MARK: {"text": "b"}}, [f"was changed {READ_ONLY}"]),
        ("db_delete", ANSWER, {MARK: None}, [f"was deleted {READ_ONLY}"]),
        ("db_create", ANSWER, {("f_audits", "0"): {}}, [INSERTED]),
        ("db_delete", ANSWER, {ACCOUNT: None}, ["of which nothing is told: f_accounts"]),
        ("db_create", ANSWER, FOUR_TASKS, ["more rows than may be written"]),
        # a row of a class that is not listed, whose base is
        ("db_delete", {"deleted": ["f_accounts_6"]}, {ADMIN: None}, []),
        ("db_delete", {"deleted": ["f_accounts_6"]}, {}, ["tells what was not done: f_accounts"]),
        ("db_update", {"rows": ["f_accounts_6"]}, {ADMIN: AUDITOR}, [f"was changed {READ_ONLY}"]),
        ("db_create", ANSWER, {("f_accounts", "0"): NO_ADMIN}, [INSERTED]),
        # rows of classes that are not listed, as a plan is deleted that they are of
        ("db_delete", GONE, ALONG, []),
        ("db_delete", {**GONE, "unlinked": []}, ALONG, ["nothing is told: f_labels"]),
        ("db_delete", {"deleted": []}, {LINK: None}, [f"was deleted {READ_ONLY}"]),
        ("db_delete", {"deleted": [], "unlinked": ["f_labels_13"]}, {}, ["not done: f_labels"]),
        ("db_delete", {**GONE, "notes": "f_audits_7"}, ALONG, ["no model may use: f_audits"]),
        ("db_delete", GONE, {**ALONG, SLIP: None}, [f"was deleted {READ_ONLY}: f_slips"]),
        ("db_delete", GONE, {**ALONG, SLIP: UNLINKED_SLIP}, [f"was changed {READ_ONLY}: f_slips"]),
        ("db_delete", GONE, {**ALONG, AUDIT: None}, [f"was deleted {READ_ONLY}: f_audits"]),
        ("db_delete", GONE, {**ALONG, AUDIT: REWORDED}, [f"was changed {READ_ONLY}: f_audits"]),
        ("db_delete", GONE, {**ALONG, SEAL: BROKEN}, [f"was changed {READ_ONLY}: f_seals"]),
        ("db_update", ANSWER, {MEMO: None}, [f"was deleted {READ_ONLY}: f_memos"]),
        ("db_update", ANSWER, {LINK: None}, [f"was deleted {READ_ONLY}: f_labels_of_plans"]),
        ("db_create", ANSWER, {OTHER: {"budget": None}, OF_OTHER: {"plan_id": "2"}}, []),
        ("db_create", ANSWER, {OF_OTHER: {"plan_id": "1"}}, [f"{INSERTED}: f_labels_of_plans"]),
        # links by themselves
        ("db_create", LINKED, {NEW_LINK: {"plan_id": "1", "label_id": "13"}}, []),
        ("db_update", LINKED, {NEW_LINK: {"plan_id": "1"}}, ["did more than that: f_labels_of"]),
        ("db_delete", UNLINKED, {}, ["tells what was not done: f_labels_of_plans"]),
        ("db_delete", {**UNLINKED, "deleted": []}, {LINK: None}, [f"was deleted {READ_ONLY}"]),
        # the list of the tasks of a plan: one of them is another plan's
        ("db_edit_list", TASKS, {OURS: None}, []),
        ("db_edit_list", TASKS, {OURS: {"plan_id": "1", "position": 2, "text": "b"}}, []),
        ("db_edit_list", TASKS, {TASK: None}, ["nothing is told: f_tasks"]),
        ("db_edit_list", TASKS, {PLAN: {"budget": 1, "name": "b"}}, ["nothing is told: f_plans"]),
        ("db_edit_list", TASKS, {AUDIT: None}, [f"was deleted {READ_ONLY}: f_audits"]),
        ("db_edit_list", {**TASKS, "preview": True}, {OURS: None}, ["by a preview: f_tasks"]),
        ("db_edit_list", {**TASKS, "deleted_with": ["f_tasks_3"]}, {}, ["not done: f_tasks"]),
    ],
)
def test_what_a_model_may_not_write_is_found(
    tool: str, answer: Any, after: dict[Any, Any], wrong: list[str]
) -> None:
    """Whichever row of whichever class it is."""
    rows = {place: row for place, row in {**BEFORE, **after}.items() if row is not None}
    found = list(rights.wrongs(tool, answer, BEFORE, rows, named=NAMED, most=3))

    assert len(found) == len(wrong)
    assert all(part in each for part, each in zip(wrong, found, strict=True))


ROWS = {"rows": [{"id": "dish_1"}, {"id": "dish_2"}], "notes": ["a NUL was taken out"]}
ANSWERED = "a call is answered in which a NUL has changed what is meant"
SILENT: dict[str, Any] = {"rows": []}


@pytest.mark.parametrize(
    ("answer", "spoilt", "meant", "wrong"),
    [
        (ROWS, Spoilt({}), {"dish_1", "dish_2"}, []),
        (ROWS, Spoilt({}), {"dish_1"}, ["a NUL has made a call wider"]),
        (ROWS, Spoilt({}), set(), ["a NUL has made a call wider"]),
        (ROWS, Spoilt({}), None, []),
        (ROWS, Spoilt({}, same=False), {"dish_1"}, []),
        (SILENT, Spoilt({}), {"dish_1"}, ["a NUL has gone without a word"]),
        (ROWS, Spoilt({}, refused=True), None, [ANSWERED]),
        ({"error": {}}, Spoilt({}, refused=True), None, []),
    ],
)
def test_a_nul_that_changes_what_is_meant_is_found(
    answer: Any, spoilt: Spoilt, meant: set[str] | None, wrong: list[str]
) -> None:
    """And one that goes without a word."""
    assert list(nuls.wrongs(answer, spoilt, meant, "id")) == wrong
