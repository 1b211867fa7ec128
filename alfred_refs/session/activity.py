"""What is done in a session that says by whom, kept for prompts: `RefSession(by="model")`.

What tools have shown and what transactions have written comes in; the conversation is told once,
after a call or a commit and in the way of neither. What was rolled back was never done. A session
that does not say by whom has none of this.

```python
with sessions(conversation=chat, by="user") as session:  # a screen of the application's own
    session.get(Recipe, "recipe_1").minutes = 25
    session.commit()
chat.activity().entries[0].action  # 'updated', by the user
```
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy.exc import SQLAlchemyError

from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.store import Activity, Actor

_log = logging.getLogger("alfred_refs")

Done = dict[EntityKey, Activity]
"""What was done with rows, by their keys: the last thing that counts, of each."""

MOST = 1_000
"""Of so many rows a transaction at most: nobody prompts a model with more."""

_WEIGHTS = {"linked": 0, "read": 1}  # what is written weighs more


def add(done: Done, more: Iterable[Activity]) -> None:
    """Add what was done later: what was written counts for more than what was read.

    Of very many rows the first are kept.
    """
    for each in more:
        known = done.get(each.key)
        if known is None:
            if len(done) < MOST:
                done[each.key] = each
            continue
        last = each if _WEIGHTS.get(each.action, 2) >= _WEIGHTS.get(known.action, 2) else known
        seen = {**(known.seen or {}), **(each.seen or {})} or None
        heads = {**(known.heads or {}), **(each.heads or {})} or None
        label = each.label or known.label
        shown = each.shown or known.shown
        done[each.key] = replace(last, seen=seen, heads=heads, label=label, shown=shown)


class ActivityLog:
    """What is done in one session.

    Args:
        conversation: which is told.
        actor: on whose behalf.
    """

    def __init__(self, conversation: SessionConversation, actor: Actor) -> None:
        self._conversation = conversation
        self._actor = actor
        self._done: Done = {}
        self._calls = 0
        conversation.on_deleted = self._deleted

    def _deleted(self, pairs: Iterable[EntityKey]) -> None:
        """Keep that rows are gone, to be told with what is done next or when that is over."""
        add(self._done, [Activity(pair, "deleted") for pair in pairs])

    @contextmanager
    def together(self) -> Iterator[None]:
        """Tell once of all that is done inside the `with`, when it is over."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self.tell(())

    def tell(self, done: Iterable[Activity]) -> None:
        """Tell what was done: one round trip, or none where nothing was.

        What has been done is done: where it cannot be noted, that is logged and not raised.
        """
        add(self._done, done)
        if self._calls or not self._done:
            return
        told, self._done = self._done, {}
        try:
            self._conversation.note([*told.values()], self._actor)
        except SQLAlchemyError:
            _log.warning("could not note what was done with the rows of %d refs", len(told))
