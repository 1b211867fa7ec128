"""What calls came to, of whatever kind of round."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Found:
    """What calls came to.

    Attributes:
        done: how often what happened: each tool, each code of an error, each check left out.
        wrong: what must not have happened, as the round, the call and its arguments.
        ways: how often that was in about the same way.
    """

    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)

    def count(self, kind: str, tool: str, answer: Any) -> None:
        """Count what a call of a kind of round was told."""
        code = answer.get("error", {}).get("code", "answered")
        self.done[f"{kind} {tool}: {code}".strip()] += 1

    def tell(self, call: str, wrong: str, tool: str, arguments: Any) -> None:
        """Keep what must not have come of a call.

        Args:
            call: the name of its round, and its number there.
            wrong: what it was.
            tool: that was called.
            arguments: as they were given.
        """
        self.ways[f"{call.split(maxsplit=1)[0]} {tool}: {wrong[:70]}"] += 1
        self.wrong.append(" ".join(f"{call}: {wrong}: {tool} {brief(arguments)}".split()))


def brief(value: Any, most: int = 1_500) -> str:
    """Return a value as Python writes it, as far as that can be read."""
    try:
        return repr(value)[:most]
    except (RecursionError, ValueError):
        return "what cannot be shown: nested too deep, or of too many digits"
