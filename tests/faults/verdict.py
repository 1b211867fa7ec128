"""Compare the workers' logs with the databases, without I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Line = Mapping[str, Any]
"""A line of a worker's log; see `worker`."""

Place = tuple[str, str]
"""A conversation and an entity."""

# errors under terminated connections and timeouts
EXPECTED = frozenset(
    {
        "RegistryBusyError",
        "RegistryFailedError 55P03",  # lock_timeout
        "RegistryFailedError 57014",  # statement_timeout
        "RegistryUnreachableError",
    }
)


@dataclass(frozen=True, slots=True)
class Kept:
    """The contents of the databases after a campaign.

    Attributes:
        keys: pairs of number and key, by conversation and entity; a number may occur twice.
        last: the counters.
        rows: the key of each row of the application, by its name.
    """

    keys: Mapping[Place, Sequence[tuple[int, Any]]]
    last: Mapping[Place, int]
    rows: Mapping[str, Any]


@dataclass(slots=True)
class Verdict:
    """Counts of events, errors and broken promises.

    Attributes:
        done: events, by name.
        errors: errors that workers received, by name.
        wrong: broken promises, by name; all are 0 for a correct registry.
        examples: of broken promises.
    """

    done: dict[str, int] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether no promise was broken."""
        return not any(self.wrong.values())

    def count(self, wrong: str, cases: Iterable[object]) -> None:
        """Count cases of a broken promise, and keep a few as examples."""
        found = list(cases)
        self.wrong[wrong] = self.wrong.get(wrong, 0) + len(found)
        self.examples += [f"{wrong}: {case}" for case in found[:3]]


def verdict_on(lines: Sequence[Line], kept: Kept) -> Verdict:
    """Compare the workers' logs with the databases."""
    verdict = Verdict()
    by_kind = Counter(line["what"] for line in lines)
    verdict.done["refs handed out"] = by_kind["given"]
    verdict.done["refs kept"] = sum(map(len, kept.keys.values()))
    verdict.done["turns begun"] = by_kind["turn"]
    verdict.done["rows saved"] = by_kind["saved"]
    verdict.done["rows rolled back"] = by_kind["undone"]
    verdict.done["transactions cut"] = by_kind["cut"]
    verdict.errors.update(line["error"] for line in lines if line["what"] == "failed")
    _count_errors(verdict, lines)
    _count_refs(verdict, [line for line in lines if line["what"] == "given"], kept)
    _count_numbers(verdict, kept)
    _count_turns(verdict, [line for line in lines if line["what"] == "turn"])
    _count_rows(verdict, lines, kept)
    return verdict


def _count_errors(verdict: Verdict, lines: Sequence[Line]) -> None:
    told = [line for line in lines if line["what"] == "failed" and line["error"] not in EXPECTED]
    verdict.count("unexpected errors", told)
    verdict.count("untyped errors", (line for line in lines if line["what"] == "broke"))
    verdict.count("refs lost", (line for line in lines if line["what"] == "lost"))


def _count_refs(verdict: Verdict, given: Sequence[Line], kept: Kept) -> None:
    """Check that each ref has one key and each key one ref, in logs and databases."""
    keys: dict[tuple[str, str], set[Any]] = {}
    refs: dict[tuple[str, str, Any], set[str]] = {}
    for line in given:
        key = _hashable(line["key"])
        keys.setdefault((line["conversation"], line["ref"]), set()).add(key)
        refs.setdefault((line["conversation"], line["entity"], key), set()).add(line["ref"])
    there = {
        (conversation, f"{entity}_{number}", key)
        for (conversation, entity), numbered in kept.keys.items()
        for number, key in numbered
    }
    handed = {(*place, key) for place, found in keys.items() for key in found}
    verdict.count("refs lost", handed - there)
    verdict.count("refs of two keys", (ref for ref, found in keys.items() if len(found) > 1))
    verdict.count("keys with two refs", (key for key, found in refs.items() if len(found) > 1))


def _count_numbers(verdict: Verdict, kept: Kept) -> None:
    for place, numbered in kept.keys.items():
        numbers = [number for number, _ in numbered]
        last = max(numbers, default=0)
        verdict.count("gaps", ((place, n) for n in set(range(1, last + 1)) - set(numbers)))
        twice = [number for number, times in Counter(numbers).items() if times > 1]
        again = [key for key, times in Counter(key for _, key in numbered).items() if times > 1]
        verdict.count("duplicates", ((place, case) for case in [*twice, *again]))
        wrong = [(place, last)] if kept.last.get(place) != last else []
        verdict.count("counters beside the last number", wrong)


def _count_turns(verdict: Verdict, lines: Sequence[Line]) -> None:
    turns = Counter((line["conversation"], line["turn"]) for line in lines)
    verdict.count("turns begun twice", (turn for turn, times in turns.items() if times > 1))


def _count_rows(verdict: Verdict, lines: Sequence[Line], kept: Kept) -> None:
    """Check that the application's transactions were committed or rolled back as logged."""
    verdict.count("transactions harmed", (line for line in lines if line["what"] == "harmed"))
    for line in lines:
        if line["what"] == "saved" and kept.rows.get(line["name"]) != line["key"]:
            verdict.count("transactions harmed", [line])
        if line["what"] == "undone" and line["name"] in kept.rows:
            verdict.count("transactions harmed", [line])


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key
