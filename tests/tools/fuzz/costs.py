"""Calls that may be expensive, timed and weighed: a small database answers each in a moment.

What counts is how long this process works, and how long the server keeps it waiting; other
programs on the machine may take the processor in between.

Only what is suspicious is called: patterns and documents on drafts, many and long paths, negated
groups, long lists, texts beyond what an index takes, related rows without number.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from alfred_refs import RefError, RefRegistry, RefSession
from alfred_refs.tools import Toolset
from tests.tools.fuzz.calls import Arguments
from tests.tools.fuzz.found import Found, brief
from tests.tools.fuzz.measures import LateError, alarm, peak, reset_peak, timed
from tests.tools.fuzz.mutations import nested
from tests.tools.fuzz.world import MODELS, World
from tests.tools.models import Dish

MOST_SECONDS = 2.0
"""What a call may take."""

MOST_BYTES = 200_000_000
"""By how much a call may make the process grow."""

_PATIENCE = 30  # seconds on the wall, after which a call is given up

_GIVEN_UP = {"error": {"code": "given up"}}

Call = tuple[str, Arguments]


class CostRound:
    """Calls on one filling of the tables.

    Args:
        world: the tables.
        registry: what refs are kept in.
        name: of the round; all choices follow from it.
        found: what calls came to; grows.
        related: how many rows belong to one dish.
        seconds: what a call may take.
    """

    def __init__(
        self,
        world: World,
        registry: RefRegistry,
        name: str,
        found: Found,
        *,
        related: int = 0,
        seconds: float = MOST_SECONDS,
    ) -> None:
        self._name = f"costs {name}"
        self._chance = random.Random(self._name)  # noqa: S311  # choices, not secrets
        self._world = world
        self._found = found
        self._seconds = seconds
        world.fill(self._name)
        self._conversation = registry.conversation(f"{self._name} {uuid.uuid4()}")
        self._toolset = Toolset(MODELS, expect="optional")
        with Session(world.engine) as plain:
            dishes = plain.scalars(select(Dish.id).order_by(Dish.code)).all()
            self._dishes = self._conversation.refer_all(Dish, dishes)
            plain.execute(_MANY, {"dish": dishes[0], "many": related})
            plain.commit()

    def run(self, calls: int) -> None:
        """Make calls."""
        for number in range(calls):
            name, (tool, arguments) = self._next()
            for wrong in self._wrongs(tool, arguments):
                call = f"{self._name} #{number} {name}"
                self._found.tell(call, wrong, tool, brief(arguments, 300))

    def _next(self) -> tuple[str, Call]:
        ways: Sequence[Callable[[], Call]] = [
            self._pattern_on_draft,
            self._document_of_draft,
            self._many_drafts,
            self._many_paths,
            self._negated_paths,
            self._long_list,
            self._deep_groups,
            self._deep_document,
            self._long_text,
            self._many_rows,
            self._related,
            self._order,
            self._pattern,
        ]
        way = self._chance.choice(ways)
        return way.__name__.strip("_"), way()

    # What comes of it

    def _wrongs(self, tool: str, arguments: Arguments) -> Iterator[str]:
        seconds, grown, answer = self._measured(tool, arguments)
        if seconds > self._seconds and answer != _GIVEN_UP:  # the server may have had to wait
            again, more, _ = self._measured(tool, arguments)
            seconds, grown = min(seconds, again), max(grown, more)
        if "raised" in answer:
            yield f"raised {answer.pop('raised')}"
        self._found.count("cost", tool, answer)
        if seconds > self._seconds or answer == _GIVEN_UP:
            yield f"it takes {seconds:.1f} s"
        if grown > MOST_BYTES:
            yield f"it takes {grown / 1e6:.0f} MB"

    def _measured(self, tool: str, arguments: Arguments) -> tuple[float, int, dict[str, Any]]:
        """Make a call, and return how long it took, how much memory, and the answer."""
        session = RefSession(self._world.engine, conversation=self._conversation)
        before = reset_peak()
        try:
            with timed(self._world.engine) as clock, alarm(_PATIENCE):
                answer = self._toolset.call(session, tool, arguments)
        except LateError:
            answer = _GIVEN_UP
            self._world.stop_others()
            session.invalidate()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a find
            answer = {"error": {"code": "raised"}}
            answer["raised"] = f"{type(error).__name__}: {str(error)[:200]}"
            session.rollback()
        session.close()
        return clock.seconds, peak() - before, answer

    # What is called

    def _draft(self, content: Arguments) -> str:
        try:
            return self._conversation.draft(Dish, content).ref
        except RefError:  # it is too large, or too deep
            return self._conversation.draft(Dish, {"name": "x"}).ref

    def _of_draft(self, content: Arguments, *clauses: Arguments) -> Call:
        own = {"field": "id", "op": "=", "value": self._draft(content)}
        return "db_read", {"table": "dishes", "filters": [own, *clauses]}

    def _pattern_on_draft(self) -> Call:
        name = self._chance.choice(["a", "ab", "%", "_", "\\", "é"]) * self._chance.choice(
            [30, 3000]
        )
        return self._of_draft(
            {"name": name}, {"field": "name", "op": "ilike", "value": self._evil()}
        )

    def _evil(self) -> str:
        """Return a pattern that a naive matcher tries in very many ways."""
        piece = self._chance.choice(["%a", "%_", "%", "_%a", "%a%a", "%\\%", "%ab"])
        return piece * self._chance.choice([10, 30, 500]) + self._chance.choice(["b", "%b", "\\"])

    def _pattern(self) -> Call:
        clauses = [
            {"field": self._chance.choice(["name", "parts.note"]), "op": "ilike", "value": p}
            for p in (self._evil() for _ in range(self._chance.choice([1, 20, 200])))
        ]
        return "db_read", {"table": "dishes", "filters": clauses}

    def _document_of_draft(self) -> Call:
        document = nested(self._chance.choice([10, 45, 90]), self._wide())
        given = self._chance.choice([document, [1] * 500, {"a": "x" * 1000}])
        return self._of_draft(
            {"name": "x", "extra": document}, {"field": "extra", "op": "contains", "value": given}
        )

    def _wide(self) -> Any:
        count = self._chance.choice([10, 3_000])
        return self._chance.choice([{f"k{n}": n for n in range(count)}, [{"a": [1]}] * count])

    def _many_drafts(self) -> Call:
        parts = [{"note": "x", "position": n} for n in range(self._chance.choice([3, 500]))]
        content = {"name": "x" * self._chance.choice([1, 2_000]), "parts": parts}
        refs = [self._draft(content) for _ in range(self._chance.choice([2, 40]))]
        clauses: list[Arguments] = [{"field": "id", "op": "in", "value": refs}]
        if self._chance.random() < 0.5:
            op = self._chance.choice(["ilike", "ilike", "in", "not_in"])
            some = [f"note {n}" for n in range(self._chance.choice([10, 40]))]
            value = self._evil() if op == "ilike" else some
            either = [{"field": "parts.note", "op": op, "value": value}] * 20
            clauses.append({"not": {"or": either}})
        return "db_read", {"table": "dishes", "filters": clauses, "order_by": ["name", "code"]}

    def _many_paths(self) -> Call:
        paths = [self._path(self._chance.randrange(1, 6)) for _ in range(600)]
        count = self._chance.choice([10, 100, 600])
        table = self._chance.choice(["dishes", "parts"])
        return "db_read", {"table": table, "columns": paths[:count], "limit": 3}

    def _path(self, length: int) -> str:
        names, at = [], "dish"
        steps = {"dish": [("parent", "dish"), ("parts", "part")], "part": [("dish", "dish")]}
        for _ in range(length):
            name, at = self._chance.choice(steps[at])
            names.append(name)
        return ".".join(names)

    def _negated_paths(self) -> Call:
        count = self._chance.choice([5, 60, 300])
        clauses = []
        for _ in range(count):
            last = self._chance.choice(["name", "id"])
            field = "parent." * self._chance.randrange(1, 5) + last
            clauses.append({"not": {"field": field, "op": "is_null"}})
        filters = self._chance.choice([clauses, [{"or": clauses}], [{"not": {"and": clauses}}]])
        return "db_read", {"table": "dishes", "filters": filters}

    def _long_list(self) -> Call:
        count = self._chance.choice([900, 5_000, 100_000])
        field, value = self._chance.choice(
            [("id", "dish_1"), ("name", "x" * 100), ("servings", 3), ("tags", "hot")]
        )
        op = "contains" if field == "tags" else self._chance.choice(["in", "not_in"])
        clause = {"field": field, "op": op, "value": [value] * count}
        clauses = [clause] * self._chance.choice([1, 50])
        return "db_read", {"table": "dishes", "filters": clauses}

    def _deep_groups(self) -> Call:
        clause: Arguments = {"field": "parts.dish.parts.note", "op": "=", "value": "x"}
        for n in range(self._chance.choice([8, 40])):
            both = [clause, {"field": "name", "op": "!=", "value": "x"}]
            clause = {"not": {"and": both}} if n % 2 else {"or": both}
        return "db_read", {"table": "dishes", "filters": [clause]}

    def _deep_document(self) -> Call:
        document = nested(self._chance.choice([10, 40, 49, 900]), self._wide())
        tool = self._chance.choice(["db_create", "db_update", "db_read"])
        if tool == "db_create":
            return tool, {"table": "dishes", "data": [{"name": "x", "extra": document}] * 20}
        if tool == "db_read":
            clause = {"field": "extra", "op": "contains", "value": document}
            return tool, {"table": "dishes", "filters": [clause]}
        return tool, {**self._all(), "data": {"extra": document}}

    def _long_text(self) -> Call:
        alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
        long = "".join(self._chance.choices(alphabet, k=self._chance.choice([3_000, 9_000])))
        long *= self._chance.choice([1, 100])
        hexadecimal = "0123456789abcdef-" * self._chance.choice([1_000, 20_000])
        text_given = self._chance.choice([long, hexadecimal, "<dish_1>" * 20_000, "<" * 200_000])
        table, column = self._chance.choice([("cuisines", "name"), ("dishes", "name")])
        if self._chance.random() < 0.5:
            return "db_create", {"table": table, "data": {column: text_given}}
        clause = {"field": column, "op": self._chance.choice(["=", "ilike"]), "value": text_given}
        return "db_read", {"table": table, "filters": [clause], "order_by": column}

    def _many_rows(self) -> Call:
        rows = [{"name": f"n{n}"} for n in range(self._chance.choice([90, 101, 5_000]))]
        if self._chance.random() < 0.5:
            return "db_create", {"table": "dishes", "data": rows}
        also = [{"table": "dishes", "data": row} for row in rows]
        return "db_create", {"table": "dishes", "data": rows[0], "also": also}

    def _related(self) -> Call:
        columns = self._chance.choice(
            [["parts"], ["name", "parts.note"], ["parts", "parent.parts"]]
        )
        return "db_read", {"table": "dishes", "columns": columns, "limit": 3, "order_by": "code"}

    def _order(self) -> Call:
        names = self._chance.choice([["name"] * 500, ["name", "code", "servings"] * 30])
        return "db_read", {"table": "dishes", "order_by": names}

    def _all(self) -> Arguments:
        clause = {"field": "id", "op": "in", "value": list(self._dishes)}
        return {"table": "dishes", "filters": [clause]}


_MANY = text(
    "INSERT INTO parts (dish_id, position, note) "
    "SELECT :dish, n, 'note ' || n FROM generate_series(1, :many) AS n"
)
