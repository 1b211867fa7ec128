"""A session's view of its conversation: a cache of its own, and the drafts that it is saving.

A `RefSession` uses a `SessionConversation` in place of the `Conversation` that it was given.
It differs in four ways:

- **Its own cache.** Refs that the session's instances show must stay readable without a round trip
  as long as the instances live, like the identity map itself. So the session keeps a cache that no
  other session replaces. It changes to another one in `make_room()`, at the start of a statement,
  of a chunk of rows or of the look-up of a new key: never between caching keys and reading refs.
- **Its transaction.** Drafts whose rows the session has flushed are saved as far as the session is
  concerned, and pending for everybody else until the COMMIT (`saving`).
- **Its tables.** The session can query: it looks for rows that were gone (`find_rows`), chooses
  the refs that an error may offer (`select_suggestions`), and works under one
  `schema_translate_map`.
- **Alternate keys.** `mint`, `refs_of` and `resolve_pairs` put the rows of alternate keys in their
  place (`alternates`).

>>> draft = chat.draft(Recipe, {"name": "Stew"})
>>> session.add(session.get(Recipe, draft.ref))
>>> session.flush()
>>> view = session.own_view
>>> view.read_drafts([draft.ref])[0].state, chat.read_drafts([draft.ref])[0].state
('saved', 'pending')

Limits:

- One view serves one session, on one thread at a time.
- The schemas can change as long as no ref and no instance of the session is in use.
- It has no `fork`, `forget`, `export` and `scrub`: use the conversation for these.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from sqlalchemy.orm import Session

from alfred_refs.conversation.alternates import AlternateKeys
from alfred_refs.conversation.caches import ExpectedRef, RefCache
from alfred_refs.conversation.conversation import ActivityMap, Conversation
from alfred_refs.conversation.drafts import Draft
from alfred_refs.conversation.refs import Suggestions
from alfred_refs.errors import SavedDraftError, SetupError
from alfred_refs.mapping.keys import EntityKey, Key, Ref, parse_ref
from alfred_refs.mapping.labels import clean_label
from alfred_refs.sqla import Schemas
from alfred_refs.store import NO_LABELS, Address, DraftEntry, Entry, Gone


class Viewer(Protocol):
    """Keeps the refs that the instances of a session show: the session's boundary."""

    def invalidate(self) -> None:
        """Drop all views of the cache that were taken before."""
        ...

    def keys_of_instances(self) -> list[EntityKey]:
        """Return the keys that living instances may show."""
        ...

    def has_rows(self) -> bool:
        """Return whether the session has persistent instances."""
        ...


SuggestionFilter = Callable[["SessionConversation", Collection[str]], Collection[str]]
"""Filters refs to those that an error may suggest."""

FindRows = Callable[["SessionConversation", Collection[EntityKey]], Mapping[EntityKey, bool]]
"""Returns the keys whose rows exist, each with whether the row is committed."""


# Refs of new rows in a dry run: their numbers are far above those that are minted.
_FIRST_OF_DRY_RUN = 900_000_001
_DRY_RUN_REF = re.compile(r"\b[a-z][a-z0-9_]*_9\d{8}\b")


class DryRunDraftError(Exception):
    """Drafts were to be written in a dry run."""


class SessionConversation(ActivityMap):
    """A session's view of a conversation.

    Args:
        conversation: the conversation that the application has opened.
        viewer: shows the refs that are read here; a weak reference is kept.
        session: the session; a weak reference is kept.

    Attributes:
        alternates: the rows of alternate keys.
        entities: the mapped tables and their key columns.
        schemas: the `schema_translate_map` of the session.
        saving: the drafts whose rows the session's transaction has flushed, by ref, with the keys
            of the rows: for the session their refs name these rows.
        select_suggestions: chooses which refs of rows an error may offer; `None` for all.
        on_deleted: called with the keys of rows that are found to be deleted, by anybody.
        find_rows: looks for rows that were gone and may exist again; `None` to not look.
        row_finder: looks for the rows of drafts.
    """

    def __init__(self, conversation: Conversation, viewer: Viewer, session: Session) -> None:
        self._opened = self._outside = conversation
        self._viewer = weakref.ref(viewer)
        self._opened_caches = caches = conversation._caches
        self._own_cache = caches.current
        self._max_size = caches.capacity
        super().__init__(
            conversation._address,
            conversation._store,
            conversation._entities,
            caches,
            conversation._telemetry,
            schemas=conversation._schemas,
        )
        self._is_used = False
        self.entities = self._entities
        self.alternates = AlternateKeys(self._entities, session)
        self.schemas = self._schemas
        self.saving: dict[str, EntityKey] = {}
        self.select_suggestions: SuggestionFilter | None = None
        self.on_deleted: Callable[[Collection[EntityKey]], None] | None = None
        self.find_rows: FindRows | None = None
        self._dry_run_numbers: Iterator[int] | None = None  # of new rows, in a dry run
        self._dry_run_refs: set[str] = set()  # of the last dry run

    telemetry = property(attrgetter("_telemetry"))

    # In C, without a Python frame: the cache is read for every statement and every chunk of rows.
    _cache = property(attrgetter("_own_cache"))

    @property
    def _address(self) -> Address:
        """The address for the store. Reading it fixes the schemas of the session."""
        self._is_used = True
        return self._store_address

    @_address.setter
    def _address(self, address: Address) -> None:
        self._store_address = address

    # Schemas

    def use_schemas(self, schemas: Schemas) -> None:
        """Use refs for rows of these schemas from now on.

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
        self._outside = self._opened._under(schemas)
        self._caches = self._opened_caches.under(schemas)
        self.schemas = self._schemas
        self._own_cache = self._caches.current
        self._is_used = False

    def check_schemas(self, schemas: Schemas) -> None:
        """Check the `schema_translate_map` of a statement, a connection or a listener.

        Raises:
            SetupError: the session has another one.
        """
        if schemas != self._schemas:
            raise SetupError(
                "a statement has another schema_translate_map than its session",
                "give it to the session's engine, or begin with "
                "session.connection(execution_options=...)",
            )

    def outside(self) -> Conversation:
        """Return the conversation as it is outside the session's transaction."""
        return self._outside

    # Turns

    @property
    def _working_turn(self) -> int | None:
        return self._opened._turn

    @property
    def known_turn(self) -> int | None:
        """The turn, if it is known without a round trip."""
        return self._working_turn

    @property
    def turn(self) -> int:
        """See `Conversation.turn`."""
        return self._opened.turn

    def begin_turn(self) -> int:
        """See `Conversation.begin_turn`."""
        return self._opened.begin_turn()

    # The cache

    def make_room(self) -> bool:
        """Change to another cache if this one is too full, or was forgotten.

        The refs that instances show are in the new cache; other refs that were read before may not
        be.

        Returns:
            whether it is another cache.
        """
        if self.alternates.rows:
            self.alternates.trim()
        if self._own_cache is self._caches.current:  # never too full
            return False
        if len(self._own_cache) <= self._max_size and not self._own_cache.forgotten:
            return False
        viewer = self._viewer()
        shown = [] if viewer is None else viewer.keys_of_instances()
        self._own_cache = self._caches.next_after(self._own_cache, shown)
        if viewer is not None:
            viewer.invalidate()
        # twice the refs that were copied: the next copy is due when as many new ones were read
        self._max_size = max(self._caches.capacity, 2 * len(self._own_cache))
        return True

    def mint(self, pairs: Collection[EntityKey]) -> None:
        """Cache the refs of all these keys: at most one round trip, which mints the new ones.

        New values of alternate keys are looked up first. One without a row is left out: it raises
        when it is to be shown.
        """
        if self.alternates.columns:
            pairs = self.alternates.row_keys(pairs)
        self._mint(self._own_cache, pairs)

    @contextmanager
    def dry_run(self) -> Iterator[None]:
        """Store no new refs inside the `with`, because its work is rolled back.

        Keys that have no ref yet get temporary refs, which are valid only inside the `with`.
        Writing drafts raises `DryRunDraftError`.
        """
        before = self._own_cache, self._max_size
        self._dry_run_numbers = itertools.count(_FIRST_OF_DRY_RUN)
        self._dry_run_refs.clear()
        self._own_cache, self._max_size = RefCache(self._caches.gone), sys.maxsize
        viewer = self._viewer()
        if viewer is not None:
            viewer.invalidate()
        try:
            yield
        finally:
            (self._own_cache, self._max_size), self._dry_run_numbers = before, None
            if viewer is not None:
                viewer.invalidate()

    def _mint(self, cache: RefCache, pairs: Iterable[EntityKey]) -> None:
        if self._dry_run_numbers is None:
            super()._mint(cache, pairs)
            return
        new = [pair for pair in dict.fromkeys(pairs) if cache.ref_of(*pair) is None]
        known = self.refs_of_pairs(new)
        for pair in new:
            ref = known.get(pair)
            if ref is None:
                ref = f"{pair[0]}_{next(self._dry_run_numbers)}"
                self._dry_run_refs.add(ref)
            cache.put(*pair, ref)

    def without_dry_run_refs(self, value: Any) -> Any:
        """Return JSON without the refs that new rows had in the last dry run."""

        def replace_ref(word: re.Match[str]) -> str:
            return "a new row" if word[0] in self._dry_run_refs else word[0]

        return json.loads(_DRY_RUN_REF.sub(replace_ref, json.dumps(value)))

    def _check_no_dry_run(self) -> None:
        if self._dry_run_numbers is not None:
            raise DryRunDraftError

    def refs_of(self, space: str) -> Mapping[Any, str]:
        """Return the cached refs by the token of their key: a live, read-only view.

        Args:
            space: an entity, or the `space` of an alternate key.
        """
        by = self.alternates.columns.get(space)
        if by is None:
            return self._own_cache.refs_of(space)
        return self.alternates.refs(by, self._own_cache.refs_of(by.rows.entity))

    def resolve_pairs(self, refs: Sequence[ExpectedRef]) -> list[Key]:
        """See `RefMap.resolve_pairs`; returns unique values for refs wanted as alternate keys.

        Raises:
            UntranslatableError: a row has no value in the unique column.
        """
        if not self.alternates.columns:
            return super().resolve_pairs(refs)
        rows = super().resolve_pairs(self.alternates.by_entity(refs))
        return self.alternates.values_of(refs, rows, self.gone_error)

    def can_resolve(self, refs: Sequence[ExpectedRef]) -> bool:
        """Return whether all these refs can be resolved without a round trip."""
        by_entity = self.alternates.by_entity(refs)
        rows = self.cached_keys(by_entity)
        return rows is not None and all(
            self.alternates.has_value(space, rows[ref])
            for (_, space), ref in zip(refs, by_entity, strict=True)
        )

    def _keep(self, cache: RefCache, entries: Collection[Entry]) -> None:
        super()._keep(cache, entries)
        # the entries of one round trip must fit, or they would be read again each time
        self._max_size = max(self._max_size, 2 * len(entries))

    # Labels

    def cached_label(self, pair: EntityKey) -> str | None:
        """Return the label of a row in the registry, as far as it is cached."""
        return self._own_cache.label_of(*pair)

    def needs_label(self, pair: EntityKey, *, minted: bool) -> bool:
        """Return whether the registry needs the label of a row.

        True if the key has no label yet, or is new (ignored with `minted`).
        """
        if pair in self._caches.unlabelled:
            return True
        return not minted and self._own_cache.ref_of(*pair) is None

    def note_labels(self, labels: Mapping[EntityKey, str | None]) -> None:
        """Keep the labels of rows; they are sent with the next mint, or by `store_labels`."""
        self._labels |= labels

    def note_names(self, names: Mapping[str, str]) -> None:
        """Keep labels that were read for rows of refs; they may have keys."""
        labels: dict[EntityKey, str | None] = {}
        names = self._own_cache.changed_labels(names)  # mostly empty
        for ref, key in self.known_keys(names).items() if names else ():
            parsed, label = parse_ref(ref), clean_label(names[ref])
            if parsed is not None and not parsed.draft and label is not None:
                labels[parsed.entity, key] = label
        self.note_labels(labels)

    def store_labels(
        self, changed: Mapping[EntityKey, str | None], unsure: Collection[EntityKey] = ()
    ) -> None:
        """Send the labels that the registry does not have: at most one round trip.

        Args:
            changed: labels whose change is committed.
            unsure: rows whose noted labels may have been rolled back.
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
                self._own_cache.relabel(*pair, label)

    # Gone rows and bad refs

    def note_gone(self, pairs: Collection[EntityKey], reason: Gone) -> None:
        """See `RefMap.note_gone`; calls `on_deleted` for deleted rows."""
        if self._dry_run_numbers is not None and reason == "was never saved":
            return
        super().note_gone(pairs, reason)
        if self.on_deleted is not None and reason == "was deleted":
            self.on_deleted(pairs)

    def _find_rows(self, pairs: Collection[EntityKey]) -> Mapping[EntityKey, bool]:
        return self.find_rows(self, pairs) if pairs and self.find_rows is not None else {}

    def _suggestions(self) -> Suggestions:
        select = self.select_suggestions
        return replace(
            super()._suggestions(), select=None if select is None else partial(select, self)
        )

    # Drafts

    def is_row(self, ref: str, entity: str) -> bool:
        """Return whether a draft's ref is known to name a row; no round trip."""
        return ref in self.saving or self.cached_keys([(ref, entity)]) is not None

    def draft_all(self, *args: Any, **given: Any) -> list[Draft]:
        """See `DraftMap.draft_all`."""
        self._check_no_dry_run()
        return super().draft_all(*args, **given)

    def edit_drafts(self, contents: Mapping[str, Mapping[str, Any]], **given: Any) -> list[Draft]:
        """See `DraftMap.edit_drafts`; not for a draft that the transaction saves."""
        self._check_no_dry_run()
        self._check_not_saving(contents)
        return super().edit_drafts(contents, **given)

    def discard_drafts(self, refs: Iterable[str]) -> list[Draft]:
        """See `DraftMap.discard_drafts`; not for a draft that the transaction saves."""
        self._check_no_dry_run()
        refs = list(refs)
        self._check_not_saving(refs)
        return super().discard_drafts(refs)

    def _check_not_saving(self, refs: Iterable[str]) -> None:
        """Check that no draft is being saved: after a rollback it must be as it was.

        Raises:
            SavedDraftError: the transaction saves one of them.
        """
        for ref in refs:
            if ref in self.saving:
                error = SavedDraftError(ref, self.refer_pairs([self.saving[ref]])[0])
                raise self._telemetry.record_refusal(self.id, error)

    def end_saving(
        self, saved: Collection[str], labels: Mapping[EntityKey, str | None] = NO_LABELS
    ) -> Collection[EntityKey]:
        """Note at the end of the transaction which of its drafts are saved.

        Args:
            saved: refs of the saved drafts.
            labels: labels that the transaction has changed. The row of a draft is minted with its
                label, or it would be known by the draft's.

        Returns:
            the rows whose labels were stored with their refs.
        """
        pairs = [self.saving[ref] for ref in saved]
        self.saving.clear()
        if not pairs or not self.row_finder.are_committed(pairs):
            return ()
        self.confirm_drafts(saved)
        new = {p: labels[p] for p in pairs if p in labels and self._own_cache.ref_of(*p) is None}
        self._labels |= new
        self.mint(new)
        return new

    def _reconcile(self, drafts: Mapping[Ref, DraftEntry]) -> Mapping[Ref, DraftEntry]:
        # rows of the session's own transaction exist for the session only
        saving = {
            ref: replace(draft, state="saved", key=self.saving[str(ref)][1], row=None)
            for ref, draft in (drafts.items() if self.saving else ())
            if str(ref) in self.saving
        }
        others = super()._reconcile({ref: drafts[ref] for ref in drafts if ref not in saving})
        return {ref: saving.get(ref) or others[ref] for ref in drafts}

    def _fetch(self, cache: RefCache, refs: Sequence[ExpectedRef]) -> dict[ExpectedRef, Key]:
        saving = {
            (ref, entity): self.saving[ref][1]
            for ref, entity in (refs if self.saving else ())
            if ref in self.saving and entity in (None, self.saving[ref][0])
        }
        others = [ref for ref in refs if ref not in saving]
        return saving | super()._fetch(cache, others) if others else saving
