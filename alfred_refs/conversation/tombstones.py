"""Which rows of a conversation are gone, as far as this process knows.

A ref whose row is gone is shown and not resolved. That does change, unlike a mapping, so it is
kept apart from the caches and shared by all of them. And it must not get lost with one: a key
without a mark that the store calls gone was read here, and its row is back. So there are as many
marks as rows were seen to go; what is read again loses its mark.
"""

from __future__ import annotations

import weakref
from typing import Any

from alfred_refs.mapping.keys import EntityKey, Key, token_of
from alfred_refs.store import Gone

Token = tuple[str, Any]
"""An entity's name and the token of one of its keys."""


class GoneRows:
    """The refs of rows that are gone.

    Every change puts a ref into its new place before it leaves the old one: whoever looks through
    the places in their order, while another thread makes changes, finds it.

    Attributes:
        refs: of rows that are not there.
        back: the key, and the ref if it is known, of rows that were gone and have been read
            since; the store is yet to be told.
        unshown: why rows are gone whose keys have no ref that this process knows of.
    """

    __slots__ = ("_reasons", "back", "refs", "unshown")

    def __init__(self) -> None:
        self.refs: dict[Token, str] = {}
        self.back: dict[Token, tuple[Key, str | None]] = {}
        self.unshown: dict[EntityKey, Gone] = {}
        self._reasons: dict[Token, Gone] = {}

    def ref_of(self, entity: str, token: Any) -> str | None:
        """Return the ref of a row that is gone, or was until it was read."""
        ref = self.refs.get((entity, token))
        return self.back.get((entity, token), (None, None))[1] if ref is None else ref

    def items(self) -> list[tuple[Token, str]]:
        """Return the refs of all rows that are gone, or were until they were read."""
        back = [(token, ref) for token, (_, ref) in [*self.back.items()] if ref is not None]
        return [*self.refs.items(), *back]

    def names_of(self, key: Key) -> dict[str, str]:
        """Return the refs of a key, by entity."""
        token = token_of(key)
        return {entity: ref for (entity, other), ref in self.items() if other == token}

    def lose(self, entity: str, key: Key, ref: str, reason: Gone) -> None:
        """Note why the row of a ref is gone."""
        token = token_of(key)
        self._reasons[entity, token] = reason
        self.refs[entity, token] = ref
        self.back.pop((entity, token), None)

    def lose_unshown(self, pair: EntityKey, reason: Gone, instance: object | None) -> None:
        """Note why a row is gone that no ref is known of.

        Args:
            pair: its key.
            reason: why.
            instance: may show the key as long as it lives; `None` where others may, for ever.
        """
        self.unshown[pair] = reason
        if instance is not None:
            weakref.finalize(instance, self.unshown.pop, pair, None).atexit = False

    def find(self, entity: str, key: Key) -> None:
        """Note that a row was read: if it was gone it is back."""
        token = entity, token_of(key)
        if (entity, key) in self.unshown or token in self.refs:
            self.back[token] = key, self.refs.get(token)
            self.unshown.pop((entity, key), None)
            self.refs.pop(token, None)
            self._reasons.pop(token, None)

    def reason(self, entity: str, key: Key) -> Gone | None:
        """Return why a row is gone, `None` if it is not."""
        return self._reasons.get((entity, token_of(key))) or self.unshown.get((entity, key))

    def is_back(self, entity: str, key: Key) -> bool:
        """Tell whether a row that was gone was read last."""
        return (entity, token_of(key)) in self.back

    def remove(self, entity: str, key: Key) -> None:
        """Note that the store knows that a row is back."""
        self.back.pop((entity, token_of(key)), None)

    def clear(self) -> None:
        """Forget all rows."""
        for kept in (self.refs, self.back, self.unshown, self._reasons):
            kept.clear()
