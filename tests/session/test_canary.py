"""No output of a session contains a key: all values are searched for the keys of all rows."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.orm import InstrumentedAttribute

from alfred_refs import Conversation, RefRegistry, RefSession
from alfred_refs.mapping.lineage import Lineage
from alfred_refs.session import redaction
from alfred_refs.session.attributes import PickledRefs, RefAttribute
from alfred_refs.session.instances import Boundary
from alfred_refs.statements import origins, results, results as rewriting, results as written
from tests.session.outputs import OUTPUTS, Output
from tests.shapes import world

# forms of a key: whole, or its first eight characters
TRACES = {
    trace
    for key in (*world.KEYS.values(), world.NEW, 770_000_199)
    for trace in (str(key)[:8], str(getattr(key, "int", key)))
}


_UUID = re.compile(r"\b(?!dea1ce00)[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


def leaks(value: Any) -> list[str]:
    """Return the texts of a value that contain a key: its str, repr and JSON, at every level.

    Keys made by the database are recognised by their form; one UUID of the rows is not a key.
    """
    written = [*pieces(value), json.dumps(value, default=str)]
    return [p for p in written if _UUID.search(p) or any(trace in p for trace in TRACES)]


def pieces(value: Any) -> Iterator[str]:
    """Yield the str and repr of a value and of all values inside it."""
    if isinstance(value, dict):
        for item in (*value, *value.values()):
            yield from pieces(item)
    elif isinstance(value, list | tuple | set | frozenset) or hasattr(value, "_mapping"):
        for item in value:
            yield from pieces(item)
    else:
        yield str(value)
        yield repr(value)


@pytest.fixture
def heard() -> Iterator[list[Any]]:
    """The events of all registries, as they occur."""
    heard: list[Any] = []
    listener = heard.append
    for name in ("round_trip", "refusal"):
        event.listen(RefRegistry, name, listener)
    yield heard
    for name in ("round_trip", "refusal"):
        event.remove(RefRegistry, name, listener)


@pytest.fixture(params=[False, True], ids=["parameters shown", "parameters hidden"])
def canary(
    request: pytest.FixtureRequest,
    tables: Engine,
    conversation: Conversation,
    caplog: pytest.LogCaptureFixture,
    heard: list[Any],
) -> Iterator[RefSession]:
    """A session on rows with recognisable keys, with and without `hide_parameters`."""
    assert heard == []
    caplog.set_level(logging.DEBUG, logger="alfred_refs")
    world.fill(tables)
    world.mint(conversation)
    engine = create_engine(tables.url, hide_parameters=request.param)
    with RefSession(engine, conversation=conversation) as session:
        yield session
    engine.dispose()


@pytest.mark.slow
@pytest.mark.parametrize("leave", OUTPUTS.values(), ids=list(OUTPUTS))
@pytest.mark.filterwarnings("ignore:Type object .* does not include operator")
def test_no_key_leaves(
    canary: RefSession, leave: Output, caplog: pytest.LogCaptureFixture, heard: list[Any]
) -> None:
    """Values, JSON, exceptions, warnings, log records of any level and events."""
    with warnings.catch_warnings(record=True) as warned:
        out = leave(canary)

    assert out
    assert leaks(out) == []
    assert leaks([str(warning.message) for warning in warned]) == []
    logged = [record.getMessage() for record in [*caplog.get_records("setup"), *caplog.records]]
    assert len(logged) >= len(heard) > 0
    # digits of a duration may be those of an integer key
    events = [dataclasses.asdict(event) | {"seconds": None} for event in heard]
    assert leaks([*logged, *events]) == []


def unchanged(value: Any, *_: object, **__: object) -> Any:
    """Translate nothing."""
    return value


def nothing(*_: object, **__: object) -> None:
    """Do nothing."""


# part that is turned off -> its functions and their replacements, and outputs that must show keys
SWITCHES: dict[str, tuple[list[tuple[object, str, Any]], list[str]]] = {
    "attributes": (
        [(RefAttribute, "__get__", InstrumentedAttribute.__get__)],
        [
            *("instances", "instances_that_were_committed_expired_refreshed", "relationships"),
            *("instances_after_close", "instances_merged_into_another_session"),
            "instances_that_are_new",
        ],
    ),
    "rows": (
        [(results, "with_refs", unchanged)],
        ["rows_in_every_form", "returning", "every_shape"],
    ),
    "expressions": ([(Lineage, "_of_computed", nothing)], ["every_shape"]),
    "values of unknown origin": (
        [
            (origins, "trace_origins", unchanged),
            (rewriting, "render_unknown", lambda *given: given[-1]),
        ],
        ["every_shape"],
    ),
    "results of writes": (
        [(written, "write_info_with_refs", lambda *given: given[-1])],
        ["results_of_writes"],
    ),
    "bulk mappings": (
        [(Boundary, "with_refs", lambda _, __, record: dict(record))],
        ["bulk_operations"],
    ),
    "pickles": (
        [(PickledRefs, "show", lambda _, __, ___, value: value)],
        ["instances_that_were_pickled"],
    ),
    "errors": (
        [(redaction, "_redact", nothing)],
        ["violated_constraints", "failed_statements", "conflicts_in_the_session"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("switch", "leave"), [(switch, name) for switch in SWITCHES for name in SWITCHES[switch][1]]
)
@pytest.mark.parametrize("canary", [False], indirect=True, ids=["parameters shown"])
@pytest.mark.filterwarnings("ignore")
def test_the_search_finds_what_is_not_translated(
    canary: RefSession, switch: str, leave: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one part turned off, the outputs that it covers contain keys."""
    for owner, name, off in SWITCHES[switch][0]:
        monkeypatch.setattr(owner, name, off)

    assert leaks(OUTPUTS[leave](canary)) != []
