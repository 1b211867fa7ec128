"""What was done with the rows of a conversation's refs, and what a model last saw of them.

For each ref a store keeps its last action, who did it, its first and last turn, why it is
retained, and a snapshot of its row: what a model was shown, in refs. The steps of an agent are
kept beside: what each did, and the note that it left to the next.

```python
store.note(address, [Activity(("recipe", key), "read", {"name": "Curry"})], "model")
store.activity(address, turns=3).entries[0].action  # 'read'
```
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from alfred_refs.mapping.keys import EntityKey
from alfred_refs.mapping.refs import Ref

Action = Literal["read", "linked", "created", "updated", "deleted", "mentioned"]
"""What was done with a row last; a draft, which has no row yet, was `generated`."""

Actor = Literal["model", "user"]
"""On whose behalf: the model's, by tools, or the user's, in the application's own screens."""

KEPT_TURNS = 10
"""For how many turns snapshots and steps are kept."""

INSIDE = "…"
"""Begins the name of a snapshot's field that has the refs of rows inside of it, or one, or none.

Names of fields come from tables, never from what is in them: no value can pass for such a field.
"""

LARGEST = 20_000
"""Characters of a snapshot, as JSON: what would make it longer begins it anew."""

# what a read of the same turn does not hide
_WRITTEN: frozenset[Action] = frozenset({"created", "updated", "mentioned"})


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that was done with a row.

    Attributes:
        key: of the row.
        action: what was done.
        seen: what the model was shown of the row, by field; `None` where it was not shown.
        heads: of texts and lists that were cut, what was shown; each gives way to what is known.
        label: what people call the row, for a ref that is new.
        shown: whether its ref was shown, so that it has one surely.

    Example:
        >>> from alfred_refs.testing import MemoryStore
        >>> store, address = MemoryStore(), Address("chat-7")
        >>> read = Activity(("recipe", 4711), "read", {"name": "Soup"})
        >>> store.note(address, [read], "model")
        >>> [entry.action for entry in store.activity(address, turns=3).entries]
        ['read']
    """

    key: EntityKey = field(repr=False)
    action: Action
    seen: Mapping[str, Any] | None = None
    heads: Mapping[str, Any] | None = None
    label: str | None = None
    shown: bool = False


@dataclass(frozen=True, slots=True)
class ActivityEntry:
    """What is known of one ref's row.

    Attributes:
        ref: never a draft's.
        gone: why there is no row, `None` as long as there may be one.
        label: what people call the row; `None` where that is not known.
        action: the last one.
        actor: who did it.
        first_turn: of the first action.
        last_turn: of the last one.
        reason: why the ref is retained beyond the window; `None` where it is not.
        demoted: whether it is to be left out though it is in the window.
        seen_turn: when the model last was shown the row; `None` where it never was.
        seen: what it was shown, by field; `None` where that is kept no more.

    Example:
        >>> asked = {"table": "recipes", "columns": ["name"]}
        >>> answer = desk.call("chat-7", None, "db_read", asked)
        >>> [entry, _] = chat.activity(turns=3).entries
        >>> str(entry.ref), entry.action, entry.actor, entry.seen
        ('recipe_1', 'read', 'model', {'id': 'recipe_1', 'name': 'Soup'})
    """

    ref: Ref
    gone: str | None
    label: str | None
    action: Action
    actor: Actor
    first_turn: int
    last_turn: int
    reason: str | None = None
    demoted: bool = False
    seen_turn: int | None = None
    seen: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ActivityRecord:
    """What is known of a conversation's rows at one moment.

    Attributes:
        turn: the current one.
        entries: of the last turns, and those that are retained, in natural order.
        refs: how many refs the conversation has, by entity.

    Example:
        >>> record = chat.activity(turns=3)
        >>> record.turn, list(record.entries), dict(record.refs)
        (0, [], {'recipe': 2, 'line': 2})
    """

    turn: int
    entries: Sequence[ActivityEntry]
    refs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StepEntry:
    """What a step of an agent left.

    Attributes:
        turn: in which it was done.
        number: its number in the turn, from 1.
        content: a JSON object, as text: what was done, in refs, never keys.

    Example:
        >>> store = PostgresStore(engine)
        >>> step = store.add_step(Address("chat-7"), json_text({"note": "recipe_1 is a soup"}))
        >>> step.turn, step.number, step.content
        (0, 1, '{"note":"recipe_1 is a soup"}')
    """

    turn: int
    number: int
    content: str = field(repr=False)


def json_text(value: Any) -> str:
    """Return a value as JSON that a database takes: half of a surrogate pair as an escape.

    Args:
        value: JSON values.

    Returns:
        compact text, with letters as they are.

    Raises:
        ValueError: a number is not finite, or has thousands of digits.

    Example:
        >>> json_text({"name": "Crème", "servings": 2})
        '{"name":"Crème","servings":2}'
        >>> json_text(float("nan"))
        Traceback (most recent call last):
            ...
        ValueError: Out of range float values are not JSON compliant...
    """
    compact = partial(json.dumps, value, allow_nan=False, separators=(",", ":"))
    text = compact(ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a pair, which has no bytes of its own
        return compact()
    return text


def is_covered(known: Action, known_turn: int, new: Action, turn: int) -> bool:
    """Tell whether a row's last action stays what it is.

    A row that is shown because another refers to it is as it was. Reading a row does not hide that
    it was written or mentioned in the same turn.
    """
    if new == "linked":
        return known != "linked"
    return new == "read" and known in _WRITTEN and known_turn == turn


def merged(
    known: Mapping[str, Any] | None,
    seen: Mapping[str, Any] | None,
    heads: Mapping[str, Any] | None,
) -> dict[str, Any] | None:
    """Return a snapshot with what was shown now: the newest value of each field, none lost."""
    if seen is None:
        return None if known is None else dict(known)
    whole = {**(known or {}), **seen}
    for name, head in (heads or {}).items():
        whole.setdefault(name, head)
    return whole
