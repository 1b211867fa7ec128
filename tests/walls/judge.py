"""What comes of a program in an owned session and behind the policies, and how that may differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy
from sqlalchemy import Result, Row, event, inspect, orm, quoted_name
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, ProgrammingError
from sqlalchemy.orm import Session

from alfred_refs.errors import RefError
from tests.walls import models
from tests.walls.script import Program
from tests.walls.world import contents

NAMES: Mapping[str, Any] = {
    **vars(sqlalchemy),
    **vars(orm),
    "orm_join": orm.join,
    "quoted_name": quoted_name,
    "postgresql": postgresql,
    "upsert": postgresql.insert,
    "array": postgresql.array,
    **{name: value for name, value in vars(models).items() if not name.startswith("_")},
}
_DEPTH = 3  # to which related instances are looked at


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a session writes the keys of rows, and synchronizes instances.

    Attributes:
        key: returns what the session takes for the key of a row, by its class and number.
        reveal: returns the key for what the session shows in its place.
        way: returns the `synchronize_session` of a write. By the criteria of a statement alone,
            SQLAlchemy would change instances of rows that policies let nobody change.
    """

    key: Callable[[str, int], Any] = lambda _, number: number
    reveal: Callable[[Any], Any] = lambda value: value
    way: Callable[[str], str] = lambda way: way


@dataclass(slots=True)
class Outcome:
    """What came of a program.

    Attributes:
        rows: its result, as tuples.
        affected: the row count of a write.
        tables: the rows of all tables afterwards; of a read, `None`.
        error: the exception, if it raised one.
        sent: the statements that were sent.
    """

    rows: Any = None
    affected: int | None = None
    tables: Any = None
    error: Exception | None = None
    sent: list[str] = field(default_factory=list)


def made(program: Program, spelling: Spelling) -> dict[str, Any]:
    """Return what the lines of a program make, by its names."""
    names: dict[str, Any] = {**NAMES, "K": spelling.key, "way": spelling.way}
    exec("\n".join(program.lines), names)  # noqa: S102  # that is what they are for
    return names


def run(
    program: Program, session: Session, spelling: Spelling, names: Mapping[str, Any] | None = None
) -> Outcome:
    """Run a program in a session, and roll back what it did.

    Args:
        program: to run.
        session: to run it in; it is closed afterwards.
        spelling: of the keys in the program.
        names: what the program's lines have made, if they were run before.
    """
    outcome = Outcome()
    with session, _sent(session, outcome.sent):
        try:
            known = {**(names or made(program, spelling)), "way": spelling.way, "session": session}
            exec("\n".join(program.run), known)  # noqa: S102
            _take(outcome, known["result"], program, spelling)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is compared
            outcome.error = error
        if program.writes and outcome.error is None:
            outcome.tables = _contents(session)
        session.rollback()
    return outcome


@contextmanager
def _sent(session: Session, statements: list[str]) -> Iterator[None]:
    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    engine = session.get_bind()
    event.listen(engine, "before_cursor_execute", note)
    yield
    event.remove(engine, "before_cursor_execute", note)


def _take(outcome: Outcome, result: Any, program: Program, spelling: Spelling) -> None:
    """Note the rows of a program's result, and how many it has written."""
    if isinstance(result, Result):
        if program.writes:
            outcome.affected = getattr(result, "rowcount", None)
        returns = getattr(result, "returns_rows", True)
        # the ORM may have had rows returned for itself, which are none of the program's
        result = (result.all() if returns else None) or None
    elif hasattr(result, "all"):
        result = result.all()
    outcome.rows = _shown(result, spelling.reveal, _DEPTH)


def _contents(session: Session) -> Any:
    lift = getattr(session, "unconfined", None)
    if lift is None:
        return contents(session.connection())
    with lift():
        return contents(session.connection())


def _shown(value: Any, reveal: Callable[[Any], Any], depth: int) -> Any:
    """Return a value so that it can be compared: instances by what is loaded of them."""
    if isinstance(value, list | tuple | Row):
        return tuple(_shown(each, reveal, depth) for each in value)
    if isinstance(value, dict):
        return {str(name): _shown(each, reveal, depth) for name, each in value.items()}
    state = inspect(value, raiseerr=False)
    if state is None or not hasattr(state, "mapper"):
        return reveal(value)
    names = {attribute.key for attribute in state.mapper.attrs} & state.dict.keys()
    if depth == 0:
        names &= {state.mapper.get_property_by_column(c).key for c in state.mapper.primary_key}
    found = ((name, _shown(getattr(value, name), reveal, depth - 1)) for name in sorted(names))
    return (type(value).__name__, *found)


# Verdicts

Verdict = tuple[str, str | None]
"""The kind of an outcome, to be counted, and what is wrong with it, if anything."""

_WRITING = ("INSERT", "UPDATE", "DELETE", "WITH")
# of shared rows, an owned session fetches what is written, whatever is asked for
_CANNOT = "Could not evaluate current criteria"


def verdict(program: Program, walled: Outcome, judged: Outcome, before: Any) -> Verdict:
    """Judge what came of a program.

    Args:
        program: that was run.
        walled: its outcome in the owned session.
        judged: its outcome behind the policies.
        before: the rows of all tables before it.
    """
    if isinstance(walled.error, RefError):
        return _refused(program, walled.error, walled, judged)
    if walled.error is not None:
        return _failed(walled.error, judged)
    if judged.error is not None:
        return _passed(walled, judged.error, before)
    kind = "the same, written" if program.writes else "the same, read"
    return kind, next(_differences(program, walled, judged), None)


def _differences(program: Program, walled: Outcome, judged: Outcome) -> Iterator[str]:
    if not _are_alike(program, walled.rows, judged.rows):
        yield f"other rows: {walled.rows!r:.600} where policies show {judged.rows!r:.600}"
    counts = walled.affected, judged.affected
    if None not in counts and counts[0] != counts[1]:
        yield f"{counts[0]} rows written where policies let {counts[1]}"
    if walled.tables != judged.tables:
        ours, theirs = set(walled.tables), set(judged.tables)
        yield f"other contents: {sorted(ours - theirs)!r:.500} / {sorted(theirs - ours)!r:.500}"


def _are_alike(program: Program, ours: Any, theirs: Any) -> bool:
    if program.ordered or not isinstance(ours, tuple) or not isinstance(theirs, tuple):
        return bool(ours == theirs)
    return Counter(map(repr, ours)) == Counter(map(repr, theirs))


def _refused(program: Program, error: RefError, walled: Outcome, judged: Outcome) -> Verdict:
    """Look at what was refused: nothing must have been written by a statement before."""
    both = " as by policies" if judged.error is not None else ""
    kind = f"refused{both}: {type(error).__name__}: {_generally(str(error))}"
    written = [s for s in walled.sent if s.lstrip().upper().startswith(_WRITING)]
    if written and len(program.run) == 1:
        return kind, f"refused after {written[0]!r:.300}"
    return kind, None


def _generally(message: str) -> str:
    """Return what is refused, without what is this one's own."""
    parts: Sequence[str] = message.partition(" cannot be ")[0].split("'")
    return "'".join(part if n % 2 == 0 else "…" for n, part in enumerate(parts))[:60]


def _failed(error: Exception, judged: Outcome) -> Verdict:
    """Look at an error that is not ours: behind the policies there must be one of its kind."""
    name = _kind(error)
    if judged.error is None:
        return f"failed: {name}", f"{name}: {str(error)[:500]} where policies have none"
    other, told = _kind(judged.error), str(judged.error)
    # PostgreSQL may meet another of the mistakes of a statement first
    is_like = isinstance(error, ProgrammingError) and isinstance(judged.error, ProgrammingError)
    is_like |= other in {name, "InsufficientPrivilege"}
    if not is_like and _CANNOT not in told:
        both = f"{name} where policies have {other}: {str(error)[:300]} / {told[:300]}"
        return f"failed: {name}", both
    return f"failed as by policies: {name}", None


def _kind(error: Exception) -> str:
    return type(error.orig if isinstance(error, DBAPIError) else error).__name__


def _passed(walled: Outcome, error: Exception, before: Any) -> Verdict:
    """Look at what went through where policies have an error."""
    name, told = _kind(error), str(error)
    if "USING expression" in told and walled.tables == before:
        return "an upsert of another's row left it as it is, where policies have an error", None
    if _CANNOT in told:
        return "synchronized by fetching, where SQLAlchemy cannot evaluate", None
    return f"went through: {name}", f"went through where policies have {name}: {told[:400]}"
