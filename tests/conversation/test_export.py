"""A conversation as JSON: nothing is lost, and nothing else gets in."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from alfred_refs import ExportFormatError
from alfred_refs.conversation.export import from_json, to_json
from alfred_refs.mapping.keys import MAX_NUMBER, Key, Ref
from alfred_refs.store import (
    Action,
    ActivityEntry,
    Actor,
    Address,
    CallEntry,
    CallState,
    ChangeAction,
    ChangeEntry,
    DraftEntry,
    Entry,
    Exported,
    StepEntry,
    json_text,
)
from alfred_refs.store.memory import MemoryStore

UUID = "c69607bb-58f6-4a8e-9a43-8b9a3c3e2b10"

PARTS = st.uuids() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]))
KEYS: st.SearchStrategy[Key] = st.recursive(
    PARTS, lambda parts: st.lists(parts, max_size=3).map(tuple), max_leaves=4
)
LABELS = st.sampled_from([None, "Soup", "'ключ' (2)"])
CONTENTS = st.sampled_from(["{}", '{"name":"ключ","n":[1e+22,null]}'])
DRAFT_TURNS = st.integers(0, MAX_NUMBER)
# label, turn, edited, version, state and key of a draft
DRAFTED = (
    *(LABELS, DRAFT_TURNS, DRAFT_TURNS, st.integers(1, MAX_NUMBER)),
    *(st.just("pending"), st.none() | PARTS),
)
GONE = st.sampled_from([None, "was deleted", "was never saved"])


TABLE_NAMES = st.sampled_from(["recipes", "tenant_a.recipes", "Weird names. Here"])


TURNS = st.integers(0, 99)
LEFT = st.sampled_from(["{}", json_text({"note": "ключ"}), json_text({"note": "\ud800 \0"})])
PLACES = st.tuples(TURNS, st.integers(1, 9))
ACTIVITY = st.builds(
    ActivityEntry,
    st.just(Ref("recipe", 1)),
    *(st.none(), st.none()),
    st.sampled_from(get_args(Action)),
    st.sampled_from(get_args(Actor)),
    *(TURNS, TURNS),
    st.none() | st.just("liked"),
    st.booleans(),
    st.none() | st.sampled_from([[], ["name", "size"]]),
)


NAMES = st.none() | st.sampled_from(["ann", "ключ"])
JSON: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, "\0", [], {"note": "\ud800 \0 ключ", "n": [1e22, None]}]
)
MOMENTS = st.datetimes(timezones=st.just(UTC))
CALLS = st.builds(
    CallEntry,
    *(st.just(1), TURNS, st.just("db_update"), JSON),
    st.sampled_from(get_args(CallState)),
    st.sampled_from(get_args(Actor)),
    *(NAMES, st.none(), JSON, NAMES, JSON, st.none() | st.integers(1, 9), NAMES, NAMES),
    *(MOMENTS, st.none() | MOMENTS, st.none(), st.none() | st.floats(0, 9)),
)
IMAGES = st.none() | st.sampled_from([{}, {"a": None, "ключ": "\ud800 \0"}])
CHANGES = st.builds(
    ChangeEntry,
    *(st.just(1), st.just(1), TABLE_NAMES, st.sampled_from([None, "recipe_1"]), LABELS),
    st.sampled_from(get_args(ChangeAction)),
    *(IMAGES.map(lambda image: image or {}), IMAGES, IMAGES),
)


@st.composite
def called(draw: st.DrawFn) -> tuple[list[CallEntry], list[ChangeEntry]]:
    """Draw calls with what they changed: numbers with gaps, ids or none."""
    calls = [
        replace(draw(CALLS), number=number, call_id=draw(st.sampled_from([None, str(number)])))
        for number in sorted(draw(st.sets(st.integers(1, 9), max_size=3)))
    ]
    changes = [
        replace(draw(CHANGES), call=call.number, place=place)
        for call in calls
        for place in sorted(draw(st.sets(st.integers(0, 9), max_size=2)))
    ]
    return calls, changes


CALLED = called()


@st.composite
def conversations(draw: st.DrawFn) -> Exported:
    """Draw a conversation: all types of keys, numbers with gaps, counters that are ahead."""
    entries, last = [], {}
    for entity in draw(st.sets(st.sampled_from(["meal_plan", "recipe", "x"]))):
        keys = draw(st.lists(KEYS, unique_by=repr, max_size=5))
        numbers = st.integers(1, MAX_NUMBER)
        taken = draw(st.lists(numbers, unique=True, min_size=len(keys), max_size=len(keys)))
        for number, key in zip(taken, keys, strict=True):
            ref, gone = Ref(entity, number), draw(GONE)
            entries.append(Entry(ref, key, gone, draw(LABELS)))  # type: ignore[arg-type]
        last[entity] = draw(st.integers(max([*taken, 1]), MAX_NUMBER))
    moment = draw(st.datetimes(timezones=st.just(UTC)))
    owner = draw(st.none() | st.just("ann"))
    turn = draw(st.integers(0, MAX_NUMBER))
    entries.sort(key=lambda entry: entry.ref)
    last_drafts = draw(st.dictionaries(st.sampled_from(["meal", "recipe"]), st.integers(3, 9)))
    drafts = [
        draw(st.builds(DraftEntry, st.just(Ref(entity, number, draft=True)), CONTENTS, *DRAFTED))
        for entity in sorted(last_drafts)
        for number in sorted(draw(st.sets(st.integers(1, 3))))
    ]
    reserved = {(d.ref.entity, repr(d.key)): d for d in drafts}  # one draft a key
    drafts = [d for d in drafts if d.key is None or reserved[d.ref.entity, repr(d.key)] is d]
    tables = draw(st.dictionaries(st.sampled_from([*last, *last_drafts, "x"]), TABLE_NAMES))
    known = {entity: tables[entity] for entity in tables if entity in last | last_drafts}
    refs = sorted({entry.ref for entry in entries})
    done = draw(st.lists(ACTIVITY, max_size=len(refs)))
    activity = [replace(each, ref=ref) for each, ref in zip(done, refs, strict=False)]
    places = sorted(draw(st.sets(PLACES, max_size=3)))
    steps = [StepEntry(*place, draw(LEFT)) for place in places]
    return Exported(
        *("chat-7", owner, turn, moment, last, entries, last_drafts, drafts, known),
        *(activity, steps, *draw(CALLED)),
    )


def an_export(**changes: Any) -> dict[str, Any]:
    """Return an export of two recipes, with changes."""
    refs = [
        {"ref": "recipe_1", "key": f"uuid:{UUID}", "label": "Soup"},
        {"ref": "recipe_2", "key": ["int:12", "str:b"], "gone": "was deleted"},
    ]
    return {
        "format": "alfred_refs.conversation",
        "version": 6,
        "id": "chat-7",
        "owner": "ann",
        "turn": 3,
        "begun_at": "2026-11-22T10:00:00+00:00",
        "last": {"recipe": 2},
        "refs": refs,
        "last_drafts": {"recipe": 3},
        "tables": {"recipe": "recipes"},
        "drafts": [
            {
                "ref": "gen_recipe_1",
                "content": {"name": "Soup", "n": 1e22},
                "turn": 1,
                "edited": 3,
                "version": 2,
                "state": "pending",
                "label": "Soup",
            },
            {
                "ref": "gen_recipe_3",
                "content": {},
                "turn": 2,
                "edited": 2,
                "version": 1,
                "state": "saved",
                "key": f"uuid:{UUID}",
            },
        ],
        "activity": [
            {
                "ref": "recipe_1",
                "action": "read",
                "actor": "model",
                "first_turn": 1,
                "last_turn": 2,
                "reason": "liked",
                "fields": ["name", "steps"],
            }
        ],
        "steps": [{"turn": 2, "number": 1, "content": {"action": "step_complete"}}],
        "calls": [
            {
                "number": 2,
                "turn": 1,
                "tool": "db_delete",
                "arguments": {"ids": ["recipe_2"]},
                "state": "done",
                "actor": "model",
                "user": "ann",
                "call_id": "call_1",
                "plan": {"text": "Delete 1 recipe"},
                "token": "t",
                "answer": 0,
                "undoes": 1,
                "decided_by": "eve",
                "reason": "of course",
                "asked_at": "2026-11-22T10:00:00+00:00",
                "decided_at": "2026-11-22T10:00:01+00:00",
                "expires_at": "2026-11-23T10:00:00+00:00",
                "seconds": 0.5,
            },
            {
                "number": 3,
                "turn": 1,
                "tool": "undo",
                "state": "waiting",
                "actor": "user",
                "asked_at": "2026-11-22T10:00:00+00:00",
            },
        ],
        "changes": [
            {
                "call": 2,
                "place": 1,
                "table": "recipes",
                "ref": "recipe_2",
                "label": "Soup",
                "action": "deleted",
                "key": {"a": "12", "b": "b"},
                "before": {"name": "Soup", "note": None},
            },
            {"call": 2, "place": 2, "table": "x", "action": "created", "key": {}, "after": {}},
        ],
    } | changes


def with_ref(**changes: Any) -> dict[str, Any]:
    """Return an export whose second ref has changes."""
    first, second = an_export()["refs"]
    return an_export(refs=[first, second | changes])


@settings(suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
@given(conversations())
def test_what_is_exported_comes_back_as_it_was(exported: Exported) -> None:
    """Through text, and through a store: to the type of each key and each counter."""
    data = to_json(exported)
    store = MemoryStore()

    read = from_json(json.loads(json.dumps(data)))
    address = Address(exported.id, exported.owner)
    store.restore(address, read)

    assert read == exported
    assert [repr(e.key) for e in read.entries] == [repr(e.key) for e in exported.entries]
    assert to_json(store.export(address)) == data


def test_the_format_is_what_the_documentation_says() -> None:
    """An export of version 1 can be read for ever."""
    exported = Exported(
        *("chat-7", "ann", 3, datetime(2026, 11, 22, 10, tzinfo=UTC), {"recipe": 2}),
        [
            Entry(Ref("recipe", 1), uuid.UUID(UUID), None, "Soup"),
            Entry(Ref("recipe", 2), (12, "b"), "was deleted"),
        ],
        {"recipe": 3},
        [
            DraftEntry(
                *(Ref("recipe", 1, draft=True), '{"name":"Soup","n":1e+22}', "Soup", 1, 3, 2)
            ),
            DraftEntry(
                *(Ref("recipe", 3, draft=True), "{}", None, 2, 2, 1, "saved"), uuid.UUID(UUID)
            ),
        ],
        {"recipe": "recipes"},
        [
            ActivityEntry(
                *(Ref("recipe", 1), None, None, "read", "model", 1, 2, "liked", False),
                ["name", "steps"],
            )
        ],
        [StepEntry(2, 1, '{"action":"step_complete"}')],
        [
            CallEntry(
                *(2, 1, "db_delete", {"ids": ["recipe_2"]}, "done", "model", "ann", "call_1"),
                *({"text": "Delete 1 recipe"}, "t", 0, 1, "eve", "of course"),
                datetime(2026, 11, 22, 10, tzinfo=UTC),
                datetime(2026, 11, 22, 10, 0, 1, tzinfo=UTC),
                datetime(2026, 11, 23, 10, tzinfo=UTC),
                0.5,
            ),
            CallEntry(
                *(3, 1, "undo", None, "waiting", "user", None, None, None, None, None, None),
                *(None, None, datetime(2026, 11, 22, 10, tzinfo=UTC), None, None, None),
            ),
        ],
        [
            ChangeEntry(
                *(2, 1, "recipes", "recipe_2", "Soup", "deleted", {"a": "12", "b": "b"}),
                *({"name": "Soup", "note": None}, None),
            ),
            ChangeEntry(2, 2, "x", None, None, "created", {}, None, {}),
        ],
    )

    assert to_json(exported) == an_export()
    assert from_json(an_export()) == exported
    older = an_export(version=5)
    del older["calls"], older["changes"]
    exported = replace(exported, calls=[], changes=[])
    assert from_json(older) == exported
    copied = with_activity(seen_turn=2, seen={"name": "Soup", "…steps": ["step_1"]})
    del copied["activity"][0]["fields"], copied["calls"], copied["changes"]
    assert from_json(copied | {"version": 4}) == exported
    older["version"] = 3
    del older["activity"], older["steps"]
    exported = replace(exported, activity=[], steps=[])
    assert from_json(older) == exported
    older["version"] = 2
    del older["tables"]
    assert from_json(older) == replace(exported, tables={})
    del older["drafts"], older["last_drafts"]
    assert from_json(older | {"version": 1}) == replace(
        exported, tables={}, last_drafts={}, drafts=[]
    )


def with_activity(**changes: Any) -> dict[str, Any]:
    """Return an export whose activity has changes."""
    [activity] = an_export()["activity"]
    return an_export(activity=[activity | changes])


def with_draft(**changes: Any) -> dict[str, Any]:
    """Return an export whose second draft has changes."""
    first, second = an_export()["drafts"]
    return an_export(drafts=[first, second | changes])


def with_call(**changes: Any) -> dict[str, Any]:
    """Return an export whose first call has changes."""
    first, second = an_export()["calls"]
    return an_export(calls=[first | changes, second])


def with_change(**changes: Any) -> dict[str, Any]:
    """Return an export whose first change has changes."""
    first, second = an_export()["changes"]
    return an_export(changes=[first | changes, second])


def test_a_label_that_comes_in_is_cleaned() -> None:
    """No key in a label of an edited export is stored; drafts may lack a label and a key."""
    assert from_json(with_ref(label=f"Soup\n{UUID}")).entries[1].label == "Soup <key>"
    read = from_json(with_draft(label=f"Soup\n{UUID}"))

    assert [draft.label for draft in read.drafts] == ["Soup", "Soup <key>"]
    assert [draft.key is None for draft in read.drafts] == [True, False]


DEEP: list[Any] = []
for _ in range(2000):
    DEEP = [DEEP]

FOREIGN: list[Any] = [None, [], "{}", {}, {"format": 1}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *((data, "this is not a conversation") for data in FOREIGN),
        (an_export(version=7), "in version 7 of the format, and .* knows those up to 6; install"),
        (with_activity(ref="recipe_9"), "has activity of 'recipe_9', and no such ref"),
        (with_activity(action="eaten"), r"cannot be read: activity\[0\].action"),
        (with_activity(seen=[1]), r"cannot be read: activity\[0\].seen"),
        (with_activity(fields=["a\0"]), r"cannot be read: activity\[0\].fields\[0\]"),
        (an_export(steps=[{"turn": 1, "number": 0, "content": {}}]), r"read: steps\[0\].number"),
        (with_call(number=3), "has a call or a change twice"),
        (with_call(number=4), "has changes of call 2, and no such call"),
        (with_call(number=0), r"cannot be read: calls\[0\].number"),
        (with_call(number=MAX_NUMBER + 1), r"cannot be read: calls\[0\].number"),
        (with_call(state="eaten"), r"cannot be read: calls\[0\].state"),
        (with_call(tool="a\0"), r"cannot be read: calls\[0\].tool"),
        (with_call(user="\ud800"), r"cannot be read: calls\[0\].user"),
        (with_call(arguments=float("nan")), r"cannot be read: calls\[0\].arguments"),
        (with_call(plan=DEEP), r"cannot be read: calls\[0\].plan"),
        (with_call(answer=uuid.UUID(UUID)), r"cannot be read: calls\[0\].answer"),
        (with_call(asked_at="2026-11-22T10:00:00"), r"cannot be read: calls\[0\].asked_at"),
        (with_call(seconds=float("inf")), r"cannot be read: calls\[0\].seconds"),
        (with_call(more=1), r"a field that is not known: calls\[0\].more"),
        (
            an_export(
                calls=[an_export()["calls"][1] | {"call_id": "a", "number": n} for n in (2, 3)]
            ),
            "has a call or a change twice",
        ),
        (with_change(place=2), "has a call or a change twice"),
        (with_change(call=9), "has changes of call 9, and no such call"),
        (with_change(place=-1), r"cannot be read: changes\[0\].place"),
        (with_change(table="a\0"), r"cannot be read: changes\[0\].table"),
        (with_change(ref=UUID), r"cannot be read: changes\[0\].ref"),
        (with_change(action="read"), r"cannot be read: changes\[0\].action"),
        (with_change(key={"a": 1}), r"cannot be read: changes\[0\].key.a"),
        (with_change(before=[]), r"cannot be read: changes\[0\].before"),
        (an_export(tables={"recipe": 7}), "cannot be read: tables.recipe"),
        (an_export(tables={"recipe": ""}), "cannot be read: tables.recipe"),
        (an_export(tables={"recipe": "a\0"}), "cannot be read: tables.recipe"),
        (an_export(tables={"order": "orders"}), "has a table of entity 'order', and no number"),
        (an_export(version="1"), "cannot be read: version"),
        (an_export(version=True), "cannot be read: version"),
        (an_export(labels={}), "has a field that is not known: labels"),
        (with_ref(colour="red"), r"has a field that is not known: refs\[1\].colour"),
        (with_ref(label=7), r"has a value that cannot be read: refs\[1\].label"),
        (an_export(turn=-1), "cannot be read: turn"),
        (an_export(turn="3"), "cannot be read: turn"),
        (an_export(id=7), "cannot be read: id"),
        (an_export(begun_at="2026-11-22T10:00:00"), "cannot be read: begun_at"),
        (an_export(begun_at=7), "cannot be read: begun_at"),
        (an_export(last={"recipe": 1}), "has 'recipe_2', and 1 as the last number of entity"),
        (an_export(last={"order": 2}), "has 'recipe_1', and None as the last number of entity"),
        (an_export(last={"recipe": 0}), "cannot be read: last.recipe"),
        (an_export(last={"recipe": 2.0}), "cannot be read: last.recipe"),
        (an_export(last={"recipe": MAX_NUMBER + 1}), "cannot be read: last.recipe"),
        (an_export(last={"recipe": 2, "gen_x": 1}), "cannot be read: last"),
        (an_export(refs={}), "cannot be read: refs"),
        (an_export(refs=["recipe_1"]), r"cannot be read: refs\[0\]"),
        (an_export(refs=[{"ref": "recipe_1"}]), r"lacks a field: refs\[0\].key"),
        ({"format": "alfred_refs.conversation", "version": 1}, "lacks a field: id"),
        (with_ref(ref="recipe_1"), "has 'recipe_1' twice"),
        (with_ref(ref="recipe_0"), r"cannot be read: refs\[1\].ref"),
        (with_ref(ref="recipe_02"), r"cannot be read: refs\[1\].ref"),
        (with_ref(ref="gen_recipe_2"), r"cannot be read: refs\[1\].ref"),
        (with_ref(ref=f"recipe_{MAX_NUMBER + 1}"), r"cannot be read: refs\[1\].ref"),
        (with_ref(ref=2), r"cannot be read: refs\[1\].ref"),
        (with_ref(gone="was eaten"), r"cannot be read: refs\[1\].gone"),
        (with_ref(key=f"uuid:{UUID}"), "has one key for 'recipe_1' and 'recipe_2'"),
        (an_export(drafts={}), "cannot be read: drafts"),
        (an_export(last_drafts={"recipe": 0}), "cannot be read: last_drafts.recipe"),
        (an_export(last_drafts={}), "has 'gen_recipe_1', and None as the last number"),
        (an_export(last_drafts={"recipe": 2}), "has 'gen_recipe_3', and 2 as the last number"),
        (with_draft(ref="recipe_3"), r"cannot be read: drafts\[1\].ref"),
        (with_draft(ref="gen_gen_recipe_3"), r"cannot be read: drafts\[1\].ref"),
        (with_draft(ref="gen_recipe_1"), "has 'gen_recipe_1' twice"),
        (with_draft(content=[]), r"cannot be read: drafts\[1\].content"),
        (with_draft(content={"a": "\0"}), r"cannot be read: drafts\[1\].content"),
        (with_draft(content={"a": float("nan")}), r"cannot be read: drafts\[1\].content"),
        (with_draft(turn=-1), r"cannot be read: drafts\[1\].turn"),
        (with_draft(version=0), r"cannot be read: drafts\[1\].version"),
        (with_draft(state="gone"), r"cannot be read: drafts\[1\].state"),
        (with_draft(key=UUID), r"cannot be read: drafts\[1\].key"),
        (with_draft(key=None), r"has 'gen_recipe_3' saved without a key|cannot be read"),
        (with_draft(more=1), r"a field that is not known: drafts\[1\].more"),
        (
            an_export(drafts=[d | {"key": f"uuid:{UUID}"} for d in an_export()["drafts"]]),
            "has one key for 'gen_recipe_1' and 'gen_recipe_3'",
        ),
        # a key may be anywhere
        (an_export(**{UUID: 1}), "a field that is not known"),
        (an_export(last={UUID: 1}), "cannot be read: last"),
        (an_export(last={UUID.replace("-", ""): "x"}), "cannot be read: last"),
        (with_ref(**{UUID: 1}), "a field that is not known"),
        (with_ref(ref=UUID), r"cannot be read: refs\[1\].ref"),
        (an_export(id=uuid.UUID(UUID)), "cannot be read: id"),
        (an_export(refs=[{"ref": "recipe_1", "key": "int:1", UUID: 2}]), "is not known"),
    ],
)
def test_what_is_foreign_newer_or_malformed_is_refused(data: Any, message: str) -> None:
    """The error names the field, and repeats no key."""
    with pytest.raises(ExportFormatError, match=message) as caught:
        from_json(data)

    assert UUID[:8] not in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        *(
            UUID,
            f"uuid:{UUID.upper()}",
            f"uuid:{{{UUID}}}",
            f"uuid:{UUID[:8]}",
            "uuid:",
            "bytes:a",
        ),
        *(
            "int:07",
            "int:-0",
            "int: 7",
            "int:7.0",
            "int:\N{ARABIC-INDIC DIGIT SEVEN}",
            "int:",
            "str:\ud800",
            77001,
            True,
        ),
        *(None, {}, {"uuid": UUID}, [77001], [f"uuid:{UUID}", "77001"], DEEP),
    ],
)
def test_a_key_that_is_written_in_another_way_is_refused(key: Any) -> None:
    """There is one way to write a key, and an error never repeats one."""
    with pytest.raises(ExportFormatError, match=r"cannot be read: refs\[1\].key") as caught:
        from_json(with_ref(key=key))

    assert UUID[:8] not in str(caught.value).lower()
    assert "77001" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
