"""What was done with the rows of a conversation, and what the steps of an agent left.

It is a part of `Conversation`. Sessions that are opened with `by=` and tools note what is done;
`alfred_refs.context` makes prompts of it.

```python
chat.activity(turns=3).entries[0].action  # 'read'
chat.retain(["recipe_1"], "the user's favourite")
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from alfred_refs.errors import ContextError
from alfred_refs.mapping.refs import Ref, parse_ref
from alfred_refs.store import Activity, ActivityRecord, Actor, StepEntry, json_text

from .drafts import DraftMap
from .scrubbing import scrubbed

_LONGEST_REASON = 1_000  # characters: more is no reason
_LOOKED_AT = 1_000  # refs whose labels are compared: some milliseconds


class ActivityMap(DraftMap):
    """The part of `Conversation` that is about what was done with rows."""

    def activity(self, turns: int = 3) -> ActivityRecord:
        """Return what was done with rows in the last turns, and with all that are retained.

        Args:
            turns: how many, with the current one.
        """
        return self._store.activity(self._address, turns, self._working_turn)

    def retain(self, refs: Iterable[str], reason: str) -> None:
        """Keep telling of these rows by their names, beyond the turns in which they were used.

        Args:
            refs: theirs.
            reason: why, in some words; keys in it are covered.

        Raises:
            BadRefError: one cannot be used; none is retained.
        """
        refs = list(dict.fromkeys(refs))
        self.resolve_all(refs)
        self._store.retain(self._address, _parsed(refs), self._reason(reason), "user")

    def _reason(self, reason: str) -> str:
        return str(scrubbed(reason, self._refs_held, self._texts()))[:_LONGEST_REASON]

    def demote(self, refs: Iterable[str]) -> None:
        """Leave rows out of prompts, until something is done with them again.

        Args:
            refs: theirs.

        Raises:
            BadRefError: one is not known.
        """
        self._store.demote(self._address, self._known(refs))

    def drop(self, refs: Iterable[str]) -> None:
        """Forget what was done with rows, and why they are retained; their refs stay known.

        Args:
            refs: theirs.

        Raises:
            BadRefError: one is not known.
        """
        self._store.drop(self._address, self._known(refs))

    def _known(self, refs: Iterable[str]) -> list[Ref]:
        refs = list(dict.fromkeys(refs))
        held = self._keys_held(refs)
        self.resolve_all([ref for ref in refs if ref not in held])
        return _parsed(refs)

    def _note(self, done: Sequence[Activity], actor: Actor) -> None:
        """Note what was done with rows: one round trip, or none where nothing was."""
        if done:
            self._store.note(self._address, done, actor, self._working_turn)

    def add_step(self, content: Mapping[str, Any]) -> StepEntry:
        """Keep what a step left: JSON values, in which refs take the place of keys.

            chat.add_step({"type": "read", "note": "recipe_1 wants basil"}).number  # 1

        Args:
            content: JSON values by field. `Context.done` calls this with what a decision has.

        Returns:
            the step as it is kept, with its number in the turn.

        Raises:
            ContextError: there is something in it that is no JSON.
        """
        try:
            text = json_text(scrubbed(content, self._refs_held, self._texts()))
        except ValueError as error:  # infinity, which JSON has not, or thousands of digits
            raise ContextError(
                f"what a step left is no JSON: {error}", "give text for it, or null"
            ) from None
        return self._store.add_step(self._address, text, self._working_turn)

    def steps(self, turns: int = 2) -> Sequence[StepEntry]:
        """Return what steps left, the last one at the end.

        Args:
            turns: of how many turns, with the current one.
        """
        return self._store.steps(self._address, turns, self._working_turn)

    def labels_of(self, refs: Iterable[str]) -> dict[str, str | None]:
        """Return the labels of those refs that are known, of rows, gone or not, and of drafts.

        Args:
            refs: any texts; those that are no known ref are left out of the answer.

        Returns:
            by ref, what people call the row; `None` where it has no label.
        """
        parsed = [ref for ref in map(parse_ref, refs) if ref is not None]
        rows = [ref for ref in parsed if not ref.draft]
        drafts = [ref for ref in parsed if ref.draft]
        found: dict[Ref, Any] = {}
        if rows:
            found |= self._store.resolve(self._address, rows)
        if drafts:
            found |= self._store.read_drafts(self._address, drafts)
        return {str(ref): entry.label for ref, entry in found.items()}

    def namesakes(
        self, labels: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], tuple[str, str]]:
        """Return the first and the last ref of those labels that several known rows have.

        The last thousand rows of an entity are looked at.

        Args:
            labels: each after the entity of its rows, as entries show it.

        Example:
            chat.namesakes([("recipe", "Soup")])  # {('recipe', 'Soup'): ('recipe_3', 'recipe_9')}
        """
        found = self._store.namesakes(self._address, labels, _LOOKED_AT)
        return {pair: (str(first), str(last)) for pair, (first, last) in found.items()}


def _parsed(refs: Iterable[str]) -> list[Ref]:
    return [ref for ref in map(parse_ref, refs) if ref is not None]
