"""What of a conversation a prompt tells: the rows of the last turns, and what is retained.

What the store has noted comes in; out comes which rows are active, with what the model saw of
them, which are retained as names alone, and how many there are beside. Pure.

```python
Window(active=3)  # the current turn and the two before
```
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from alfred_refs.errors import ContextError
from alfred_refs.store import KEPT_TURNS, ActivityEntry, ActivityRecord


@dataclass(frozen=True, slots=True)
class Window:
    """How far back a prompt looks.

    Attributes:
        active: turns, with the current one, whose rows are told with their data.
        exchanges: how many exchanges of the conversation, the last, are repeated.
        steps: how many steps of the turn before, the last, are told.

    Raises:
        ContextError: a number is none that a window can have.

    Example:
        >>> answer = desk.call("chat-7", None, "db_read", {"table": "recipes"})
        >>> [chat.begin_turn(), chat.begin_turn()]
        [1, 2]
        >>> [row.ref for row in Context(chat, Window(active=3)).view().active]
        ['recipe_1', 'recipe_2']
        >>> Context(chat, Window(active=1)).view().active
        []
    """

    active: int = 3
    exchanges: int = 3
    steps: int = 2

    def __post_init__(self) -> None:
        """Refuse what would show nothing, or what is not kept."""
        if not 1 <= self.active <= KEPT_TURNS:
            raise ContextError(
                f"a window of {self.active!r} active turns",
                f"give 1 to {KEPT_TURNS}: what models saw is kept for so many",
            )
        if self.exchanges < 0 or self.steps < 0:
            raise ContextError(
                f"a window of {self.exchanges!r} exchanges and {self.steps!r} steps",
                "give 0 for none, or how many",
            )


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that a prompt tells.

    Attributes:
        turn: the current one.
        active: rows of the window, those of earlier turns first; natural order in each turn.
        retained: older ones that are retained, in the same order.
        others: how many refs there are beside, by entity.
        known: all that was noted, by ref: rows that stand inside of others are among them.
    """

    turn: int
    active: Sequence[ActivityEntry] = ()
    retained: Sequence[ActivityEntry] = ()
    others: Mapping[str, int] = field(default_factory=dict)
    known: Mapping[str, ActivityEntry] = field(default_factory=dict)


def is_gone(entry: ActivityEntry) -> bool:
    """Tell whether a row is not there: its ref is marked so, or it was deleted last."""
    return entry.gone is not None or entry.action == "deleted"


def among(record: ActivityRecord, entities: Container[str]) -> ActivityRecord:
    """Return what was noted of the rows of some entities."""
    entries = [entry for entry in record.entries if entry.ref.entity in entities]
    refs = {entity: count for entity, count in record.refs.items() if entity in entities}
    return ActivityRecord(record.turn, entries, refs)


def selected(record: ActivityRecord, window: Window) -> Selection:
    """Return what a window shows of what was noted.

    Rows of earlier turns come first and those of this turn last: from step to step a prompt begins
    alike, and a cache of prompts can be used. A row that only stood beside another is left out,
    and one that is gone is told in the window alone: it is deleted there, and nothing outside.
    """
    since = record.turn - window.active
    active, retained = [], []
    for entry in sorted(record.entries, key=lambda entry: (entry.last_turn, entry.ref)):
        if entry.demoted:
            continue
        if entry.last_turn > since and entry.action != "linked":
            active.append(entry)
        elif entry.reason is not None and not is_gone(entry):
            retained.append(entry)
    shown = [*active, *retained]
    others = {
        entity: count - sum(entry.ref.entity == entity for entry in shown)
        for entity, count in sorted(record.refs.items())
    }
    return Selection(
        record.turn,
        active,
        retained,
        {entity: n for entity, n in others.items() if n > 0},
        {str(entry.ref): entry for entry in record.entries},
    )
