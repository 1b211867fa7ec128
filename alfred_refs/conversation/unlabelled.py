"""Refs of a conversation that came without a label, though their rows may have one.

A foreign key is minted without the row that it names. When that row is read, its label is known;
here is remembered for which refs it is worth telling the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from alfred_refs.mapping.keys import EntityKey
from alfred_refs.store import Entry

_MOST = 10_000  # remembered; what is beyond stays without a label


class Unlabelled(set[EntityKey]):
    """The keys of such refs."""

    def note(self, entries: Collection[Entry], has_labels: Callable[[str], bool]) -> None:
        """Note which refs have no label.

        Args:
            entries: what the store said of refs.
            has_labels: tells whether rows of an entity may have labels.
        """
        entities = {e for e in {entry.ref.entity for entry in entries} if has_labels(e)}
        if entities and len(self) < _MOST:
            self.update(
                (entry.ref.entity, entry.key)
                for entry in entries
                if entry.label is None and entry.ref.entity in entities
            )
