"""Whatever texts and documents a row has: what is shown of it can be written back as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from sqlalchemy import Engine

from alfred_refs import RefRegistry, RefSession
from alfred_refs.mapping.text import whole_keys
from tests.fix_session import TravelLog
from tests.key_texts import texts
from tests.profiles import examples
from tests.tools.texts.notes import (
    FIRST,
    KEYS,
    SECOND,
    WRITTEN,
    Answer,
    Note,
    by_id,
    chat_of,
    done,
    keep,
    read,
    stored,
)

contents = texts(st.sampled_from(KEYS))
leaves = st.one_of(
    contents, st.integers(-3, 9), st.booleans(), st.none(), st.floats(-1, 1, width=16)
)
documents = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(contents, st.sampled_from(["order_id", "lines"])), inner, max_size=3
        ),
    ),
    max_leaves=6,
)
values = st.fixed_dictionaries(
    {
        "title": st.none() | contents,
        "tags": st.none() | st.lists(st.none() | contents, max_size=3),
        "extra": documents,
        "orders": documents,
        "basket": documents,
        "devices": st.none() | st.lists(st.sampled_from(KEYS), max_size=2),
        "device": st.none() | st.sampled_from(KEYS),
    }
)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, and the names of fields."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from texts_in(each)
    elif isinstance(value, str):
        yield value


def shown_keys(rows: list[Answer]) -> list[str]:
    """Return the keys in rows."""
    shown = [text for row in rows for text in texts_in(row)]
    return [key for text in shown for key in whole_keys(text)]


@settings(
    max_examples=examples(60),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink rows takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    given=st.lists(values, min_size=3, max_size=3),
    met=st.lists(st.sampled_from(KEYS), max_size=3),
    more=st.lists(
        st.tuples(st.sampled_from(["note", "author"]), st.sampled_from(KEYS)), max_size=3
    ),
    number=st.uuids(),
)
def test_what_is_shown_can_be_written_back(
    notes: Engine, store: TravelLog, given: list[Answer], **others: Any
) -> None:
    """All of it: row by row, after others have minted more, into other rows, and into drafts."""
    about = [None, FIRST, SECOND]
    keep(
        notes, *(Note(id=k, about_id=a, **v) for k, a, v in zip(KEYS, about, given, strict=False))
    )
    before = stored(notes)

    def process() -> RefSession:
        """Return a session in a process that has met nothing."""
        conversation = RefRegistry(store=store).conversation(f"chat-{others['number']}")
        return RefSession(notes, conversation=conversation)

    chat_of(process()).refer_all(Note, others["met"])
    rows = read(process())
    assert shown_keys(rows) == []
    chat_of(process()).refer_pairs(others["more"])
    for row in rows:
        write_back(process(), row)
    assert stored(notes) == before
    new = copies(process(), rows)
    keys = [chat_of(process()).resolve_all([row["id"] for row in each]) for each in (new, rows)]
    after = stored(notes)
    assert [after[key] for key in keys[0]] == [before[key] for key in keys[1]]
    draft = chat_of(process()).draft(Note, as_json(given[0]))
    [row] = read(process(), by_id(draft.ref))
    write_back(process(), {name: row[name] for name in ["id", *given[0]]})
    [kept] = chat_of(process()).read_drafts([draft.ref])
    assert kept.content == draft.content


def write_back(session: RefSession, row: Answer) -> None:
    """Give a row what it was shown with, expecting that, and found by that."""
    data = {name: row[name] for name in WRITTEN if name in row}
    filters = [by_id(row["id"])]
    if row["title"] is not None:
        filters.append({"field": "title", "op": "=", "value": row["title"]})
    asked: Answer = {"table": "notes", "filters": filters, "data": data, "expect": data}
    assert done(session, "db_update", **asked)["count"] == 1


def copies(session: RefSession, rows: list[Answer]) -> list[Answer]:
    """Make rows of what others were shown with."""
    data = [{name: row[name] for name in WRITTEN} for row in rows]
    return list(done(session, "db_create", table="notes", data=data)["rows"])


def as_json(content: Answer) -> Answer:
    """Return what a draft has in the place of UUIDs."""
    device, devices = content["device"], content["devices"]
    return content | {
        "device": None if device is None else str(device),
        "devices": None if devices is None else [str(each) for each in devices],
    }
