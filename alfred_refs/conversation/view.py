"""A session's view of its conversation.

A conversation as one session sees it, with a cache of the session's own.

What the instances of a session show stays readable for them as long as they live, like the
identity map of the session: without a round trip, whoever else works in the conversation and
however much the session reads. What it has met beside that is let go when it is too much. So the
session has a cache that nobody takes from under it. It goes on with another one at times of its
own: when a statement, a chunk of rows or a look at a new key begins, never between the keys that
it meets and the refs that it reads.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from alfred_refs.conversation.conversation import ActivityMap, Conversation
from alfred_refs.conversation.refs import Draft, ExpectedRef, RefCache, Suggestions
from alfred_refs.errors import SavedDraftError, SetupError
from alfred_refs.mapping.keys import EntityKey, Key, Ref
from alfred_refs.sqla import Schemas
from alfred_refs.store import NO_LABELS, Address, DraftEntry, Entry, Gone


class Viewer(Protocol):
    """What keeps views of refs for the instances of a session: its boundary."""

    def invalidate(self) -> None:
        """Keep no view that was taken before."""
        ...

    def keys_of_instances(self) -> list[EntityKey]:
        """Return the keys that living instances may show."""
        ...

    def has_rows(self) -> bool:
        """Tell whether there are instances of rows."""
        ...


Offers = Callable[["SessionConversation", Collection[str]], Collection[str]]
"""Chooses which refs of rows an error may offer."""

Tables = Callable[["SessionConversation", Collection[EntityKey]], Mapping[EntityKey, bool]]
"""Returns which of some keys rows have, and whether nothing can undo that."""


class SessionConversation(ActivityMap):
    """One session's side of a conversation.

    Args:
        conversation: which the application has opened.
        viewer: shows the refs that are read here; not kept alive.

    Attributes:
        entities: which columns hold keys.
        schemas: the `schema_translate_map` under which the tables are read.
        saving: the drafts that the session's transaction has saved, as far as it has come, with
            the keys of their rows: to the session their refs name these.
        offers: chooses which refs of rows an error may offer; `None` for all.
        on_deleted: is told which rows are found deleted, whoever has deleted them.
        tables: looks for rows that were gone; `None` where they stay so.
    """

    def __init__(self, conversation: Conversation, viewer: Viewer) -> None:
        self._whole = self._outside = conversation
        self._viewer = weakref.ref(viewer)
        self._shared = caches = conversation._caches
        self._mine = caches.current
        self._most = caches.capacity
        super().__init__(
            *(conversation._address, conversation._store, conversation._entities, caches),
            conversation._telemetry,
            schemas=conversation._schemas,
        )
        self._is_used = False
        self.entities = self._entities
        self.schemas = self._schemas
        self.saving: dict[str, EntityKey] = {}
        self.offers: Offers | None = None
        self.on_deleted: Callable[[Collection[EntityKey]], None] | None = None
        self.tables: Tables | None = None

    telemetry = property(attrgetter("_telemetry"))

    # the cache of the session, the same until `make_room()`; no call: each statement asks for it
    _cache = property(attrgetter("_mine"))

    @property
    def _address(self) -> Address:
        """For the store: whoever asks it has decided under which schemas."""
        self._is_used = True
        return self._sent_to

    @_address.setter
    def _address(self, address: Address) -> None:
        self._sent_to = address

    def use_schemas(self, schemas: Schemas) -> None:
        """Use refs for the rows of these schemas from now on.

        Raises:
            SetupError: refs or instances of others are in use.
        """
        if schemas == self._schemas:
            return
        viewer = self._viewer()
        if self._is_used or (viewer is not None and viewer.has_rows()):
            raise SetupError(
                "a session in a conversation has changed its schema_translate_map",
                "open a session for each, on an engine with that option, or begin it with "
                "session.connection(execution_options=...)",
            )
        self._use_schemas(schemas)
        self._outside = self._whole._under(schemas)
        self._caches = self._shared.under(schemas)
        self.schemas = self._schemas
        self._mine = self._caches.current
        self._is_used = False

    def check_schemas(self, schemas: Schemas) -> None:
        """Check what a statement, a connection or a listener says of schemas.

        Raises:
            SetupError: they are not those of the session.
        """
        if schemas != self._schemas:
            raise SetupError(
                "a statement is for another schema_translate_map than that of its session",
                "give it to the session's engine, or begin with "
                "session.connection(execution_options=...)",
            )

    @property
    def _working_turn(self) -> int | None:
        return self._whole._turn

    @property
    def turn(self) -> int:
        """See `Conversation.turn`."""
        return self._whole.turn

    def begin_turn(self) -> int:
        """See `Conversation.begin_turn`."""
        return self._whole.begin_turn()

    def make_room(self) -> bool:
        """Go on with another cache if this one has too much in it, or was forgotten.

        What instances show is there too; other refs that were read before are not to be expected
        in it.

        Returns:
            whether it is another cache.
        """
        if self._mine is self._caches.current:  # never too full
            return False
        if len(self._mine) <= self._most and not self._mine.forgotten:
            return False
        viewer = self._viewer()
        taken = [] if viewer is None else viewer.keys_of_instances()
        self._mine = self._caches.after(self._mine, taken)
        if viewer is not None:
            viewer.invalidate()
        # twice what is taken along, so that it is taken along once for as much that is new
        self._most = max(self._caches.capacity, 2 * len(self._mine))
        return True

    def mint(self, pairs: Collection[EntityKey]) -> None:
        """Make sure that all these keys can be shown: at most one round trip to mint."""
        self._mint(self._mine, pairs)

    def needs_label(self, pair: EntityKey, *, minted: bool) -> bool:
        """Tell whether the label of a row is wanted: its key is known without one, or new here.

        With `minted`, keys that are new are left out.
        """
        if pair in self._caches.unlabelled:
            return True
        return not minted and self._mine.ref_of(*pair) is None

    def note_labels(self, labels: Mapping[EntityKey, str]) -> None:
        """Note what rows are called: told when they are minted, or else by `store_labels`."""
        self._labels |= labels

    def cached_label(self, pair: EntityKey) -> str | None:
        """Return what the registry calls a row, as far as it is known here."""
        return self._mine.label_of(*pair)

    def store_labels(
        self, changed: Mapping[EntityKey, str], unsure: Collection[EntityKey] = ()
    ) -> None:
        """Tell the store labels that it lacks or has otherwise: at most one trip.

        Args:
            changed: those that have been changed for good.
            unsure: of which rows those that were read may have been undone.
        """
        noted, self._labels = self._labels, {}
        unlabelled = self._caches.unlabelled
        labels = {
            pair: label
            for pair, label in noted.items()
            if pair in unlabelled
            or (pair not in unsure and self.cached_label(pair) not in (None, label))
        }
        labels |= changed
        if labels:
            self._store.label(self._address, labels)
            unlabelled.difference_update(labels)
            for pair, label in labels.items():
                self._mine.relabel(*pair, label)

    def refs_of(self, entity: str) -> Mapping[Any, str]:
        """Return the refs met so far, by the token of their key: a live view, to be read only."""
        return self._mine.refs_of(entity)

    # Drafts

    def outside(self) -> Conversation:
        """Return the conversation as it is outside of the session's transaction."""
        return self._outside

    def note_gone(self, pairs: Collection[EntityKey], reason: Gone) -> None:
        """Note why there are no rows for these keys; see `RefMap.note_gone`."""
        super().note_gone(pairs, reason)
        if self.on_deleted is not None and reason == "was deleted":
            self.on_deleted(pairs)

    def is_row(self, ref: str, entity: str) -> bool:
        """Tell whether a draft's ref names a row already, as far as is known here."""
        return ref in self.saving or self.cached_keys([(ref, entity)]) is not None

    def edit_drafts(self, contents: Mapping[str, Mapping[str, Any]], **given: Any) -> list[Draft]:
        """See `DraftMap.edit_drafts`; a draft that the transaction saves is a row."""
        self._check_not_saving(contents)
        return super().edit_drafts(contents, **given)

    def discard_drafts(self, refs: Iterable[str]) -> list[Draft]:
        """See `DraftMap.discard_drafts`; a draft that the transaction saves is a row."""
        refs = list(refs)
        self._check_not_saving(refs)
        return super().discard_drafts(refs)

    def _check_not_saving(self, refs: Iterable[str]) -> None:
        """Check that what is rolled back is a draft as it was.

        Raises:
            SavedDraftError: one is saved, as far as the session is concerned.
        """
        for ref in refs:
            if ref in self.saving:
                error = SavedDraftError(ref, self.refer_pairs([self.saving[ref]])[0])
                raise self._telemetry.refused(self.id, error)

    def end_saving(
        self, saved: Collection[str], labels: Mapping[EntityKey, str] = NO_LABELS
    ) -> Collection[EntityKey]:
        """Note that the transaction is over, and which of its drafts are saved.

        Args:
            saved: their refs.
            labels: what rows are called whose labels have changed. A draft's row gets a ref with
                its label, or it would be known by the draft's.

        Returns:
            of which of these rows the store knows the label then.
        """
        pairs = [self.saving[ref] for ref in saved]
        self.saving.clear()
        if not pairs or not self.row_finder.committed(pairs):
            return ()
        self.confirm_drafts(saved)
        new = {p: labels[p] for p in pairs if p in labels and self._mine.ref_of(*p) is None}
        self._labels |= new
        self.mint(new)
        return new

    def _settled(self, drafts: Mapping[Ref, DraftEntry]) -> Mapping[Ref, DraftEntry]:
        # rows of the session's own transaction are there for itself, and for nobody else yet
        mine = {
            ref: replace(draft, state="saved", key=self.saving[str(ref)][1], row=None)
            for ref, draft in (drafts.items() if self.saving else ())
            if str(ref) in self.saving
        }
        others = super()._settled({ref: drafts[ref] for ref in drafts if ref not in mine})
        return {ref: mine.get(ref) or others[ref] for ref in drafts}

    def _fetch(self, cache: RefCache, wanted: Sequence[ExpectedRef]) -> dict[ExpectedRef, Key]:
        mine = {
            (ref, entity): self.saving[ref][1]
            for ref, entity in (wanted if self.saving else ())
            if ref in self.saving and entity in (None, self.saving[ref][0])
        }
        others = [want for want in wanted if want not in mine]
        return mine | super()._fetch(cache, others) if others else mine

    def _rows_back(self, pairs: Collection[EntityKey]) -> Mapping[EntityKey, bool]:
        return self.tables(self, pairs) if pairs and self.tables is not None else {}

    def _suggestions(self) -> Suggestions:
        offers = self.offers
        chosen = None if offers is None else partial(offers, self)
        return replace(super()._suggestions(), chosen=chosen)

    def _keep(self, cache: RefCache, entries: Collection[Entry]) -> None:
        super()._keep(cache, entries)
        # what is read at one go must fit, or it would be asked for each time
        self._most = max(self._most, 2 * len(entries))
