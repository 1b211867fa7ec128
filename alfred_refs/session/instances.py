"""Identity of instances: refs shown, refs pending for the flush.

What the instances of a session show and accept in their key attributes.

>>> recipe = session.scalars(select(Recipe)).first()
>>> recipe.id, recipe.__dict__["id"]
('recipe_1', UUID('a508000d-9b55-40f0-8886-dbdd88bd2de2'))
>>> plan.recipe_id = "recipe_1"             # at once, if the ref is at hand
>>> session.add(MealPlan(recipe_id="recipe_1"))    # at the flush

`attributes` has the descriptors that a mapped class gets, once an application; they ask the
`Boundary` of the session, which keeps what it has shown. `pending` has the refs that wait for a
flush, `tracking` the instances that were loaded and their labels. `collections` and `sqlmodel` are
other ways by which keys leave an instance: dictionaries keyed by an attribute, pydantic's dumps.

Refs that the program gives, where the session takes keys: now, or at the next flush.

    session.get(Recipe, "recipe_1")            now: one round trip for all that one call gives
    plan = MealPlan(recipe_id="recipe_1")      pending: an object has no session to ask, and
    session.add(plan); session.flush()         neither does setting an attribute any I/O

What is pending is text under an attribute that the program has set; its name is noted with the
instance's state, and a flush resolves all of it in one round trip, or is refused by one bad ref.
Text that was loaded is a key, and is left alone.

The instances of one session: which it has taken in, the keys they hold, and their labels.

An instance is tracked by the weak reference that its state has, so what the program drops is gone
from here too. Its keys are met with all others that nobody has met, in the order of loading. What
its row is called is told to the store when refs are minted, or when the transaction has ended.
Nothing is loaded here, and nothing looked up.

The attribute boundary of one session: what its instances show, and what they accept.

Instances come in as the session loads, saves or is given them; each belongs to the boundary for
life, so its attributes read as refs after `close()` too. Keys come in and refs go out, minted
together for all that was loaded; refs come in and keys go out, at once or, for new objects, at the
flush.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast
from weakref import WeakSet, ref

from sqlalchemy import BindParameter
from sqlalchemy.orm import Session

from alfred_refs import sqla
from alfred_refs.conversation.alternates import AlternateRefs
from alfred_refs.conversation.caches import ExpectedRef
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import UnknownRefError
from alfred_refs.mapping.entities import ClassKeys, Entities
from alfred_refs.mapping.key_columns import KeyColumn, Label, keys_in, texts_in, with_keys
from alfred_refs.mapping.keys import EntityKey, Key, draft_named, token_of
from alfred_refs.session.attributes import (
    PickledRefs,
    RefAttribute,
    RefList,
    instrument_once,
    is_set,
)
from alfred_refs.sqla import BOUNDARY, Rows, State, WeakInstance
from alfred_refs.statements import Show, shower, shower_of_column
from alfred_refs.store import Gone

_TEXTS = "alfred_refs_texts"  # of a state: names of the attributes whose refs are not resolved yet
_ROWS = "alfred_refs_rows"  # of a state: attribute → token of a value → primary key of its row

Held = tuple[State, str, KeyColumn, Any]
"""An instance, the name of an attribute of it, what that holds, and its value."""


class PendingRefs:
    """Puts keys in place of the refs that one session is given, at once or when it is flushed.

    Each raises `BadRefError` for a ref that cannot be used, and has changed nothing then.

    Args:
        conversation: as the session sees it.
        session: whose instances wait; a state tells so by its `hash_key`.
    """

    def __init__(self, conversation: SessionConversation, session: int) -> None:
        self._entities = conversation.entities
        self._conversation = conversation
        self._session = session
        self._new: dict[State, None] = {}

    def _keys_of(self, values: Iterable[tuple[KeyColumn, Any]]) -> Mapping[ExpectedRef, Key]:
        """Return the keys of all texts in values: at most one round trip."""
        found = [want for column, value in values for want in requested_refs(column, value)]
        if not found:
            return {}
        return dict(zip(found, self._conversation.resolve_pairs(found), strict=True))

    # Given to a call

    def value(self, column: KeyColumn | None, value: Any) -> Any:
        """Return a value of a column, `None` where that holds data, with keys in place of refs."""
        if column is None:
            return value
        return with_keys(column, value, self._keys_of([(column, value)]))

    def identity(self, class_: type[Any], ident: Any) -> Any:
        """Return an identity, as `Session.get` takes it, with keys in place of refs.

        One text, where a key has several columns, is the ref of a row.
        """
        keys = self._entities.of_class(class_)
        if isinstance(ident, Mapping):
            return {name: self.value(keys.primary.get(name), part) for name, part in ident.items()}
        if isinstance(ident, Sequence) and not isinstance(ident, str):
            # as many as were given: if that is too many, SQLAlchemy says so
            columns = itertools.chain(keys.identity, itertools.repeat(None))
            return tuple(map(self.value, columns, ident))
        if not isinstance(ident, str) or len(keys.identity) == 1:
            return self.value(keys.identity[0], ident)
        entity = self._entities.name_of(class_)
        [key] = self._conversation.resolve_pairs([(ident, entity)])
        if not isinstance(key, tuple):  # one column's, which has refs of the same entity
            raise UnknownRefError(ident, entity)
        parts = zip(keys.identity, key, strict=True)
        return tuple(part if held is None else held.from_key(part) for held, part in parts)

    def records(
        self, class_: type[Any], records: Iterable[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return copies of records of a class with keys in place of refs."""
        columns = self._entities.of_class(class_).all
        copies = [dict(record) for record in records]
        held = [(copy, name) for copy in copies for name in copy.keys() & columns.keys()]
        keys = self._keys_of([(columns[name], copy[name]) for copy, name in held])
        for copy, name in held:
            copy[name] = with_keys(columns[name], copy[name], keys)
        return copies

    def put_keys(self, states: Iterable[State], names: Container[str] | None = None) -> None:
        """Put keys in place of refs in attributes of instances, of these names, waiting or not."""
        self._put(self._with_keys(each for state in states for each in self.held(state, names)))

    @contextmanager
    def lent_keys(self, states: Iterable[State]) -> Iterator[None]:
        """Put keys in place of refs in other people's instances while they are merged."""
        held = [each for state in states for each in self.held(state)]
        self._put(self._with_keys(held))
        try:
            yield
        finally:
            self._put((state, name, value) for state, name, _, value in held)

    # Kept for the flush

    def add(self, state: State, name: str) -> None:
        """Have the text that an attribute is set to wait."""
        setattr(state, _TEXTS, {*names_of_texts(state), name})
        self._new[state] = None

    def add_all(self, state: State, names: Container[str] | None = None) -> None:
        """Have all texts wait that the program has set attributes to, or those of these names."""
        texts = {name for _, name, _, _ in self.held(state, names)}
        if texts:
            state.__dict__[_TEXTS] = texts
            self._new[state] = None

    def held(self, state: State, names: Container[str] | None = None) -> list[Held]:
        """Return what attributes of an instance hold that are refs as text, those of these names.

        So is text that the program has set: text that was loaded is a key.
        """
        return [
            (state, name, column, value)
            for name, column in self._entities.of_class(state.class_).all.items()
            if texts_in(column, value := state.dict.get(name)) and is_set(state, name)
            if names is None or name in names
        ]

    def waiting(self) -> list[Held]:
        """Return what attributes of the session's instances hold and wait with."""
        return [each for state in self._mine() for each in self.held(state, names_of_texts(state))]

    def resolve(self, waiting: Iterable[Held]) -> list[State]:
        """Put keys in place of what `waiting()` returned, and return the states of instances."""
        self._put(self._with_keys(waiting))
        mine = self._mine()
        for state in mine:
            state.__dict__.pop(_TEXTS, None)
        self._new.clear()
        return mine

    def forget_left(self) -> None:
        """Forget the instances that are not the session's any more."""
        self._new = dict.fromkeys(self._mine())

    def _mine(self) -> list[State]:
        return [state for state in self._new if state.session_id == self._session]

    def _with_keys(self, held: Iterable[Held]) -> list[tuple[State, str, Any]]:
        """Return what attributes hold once their texts are keys: at most one round trip."""
        held = list(held)
        keys = self._keys_of([(column, value) for _, _, column, value in held])
        return [
            (state, name, with_keys(column, value, keys)) for state, name, column, value in held
        ]

    def _put(self, values: Iterable[tuple[State, str, Any]]) -> None:
        for state, name, value in values:
            state.dict[name] = value


def requested_refs(column: KeyColumn, value: Any) -> list[ExpectedRef]:
    """Return the refs in a value of a column, as the conversation is asked for them."""
    return [(text, column.space) for text in texts_in(column, value)]


def names_of_texts(state: State) -> set[str]:
    """Return the names of an instance's attributes whose refs are not resolved yet."""
    return getattr(state, _TEXTS, None) or set()


class HeldKeys:
    """Reads the keys of one session's instances."""

    def __init__(self, conversation: SessionConversation) -> None:
        self._entities = conversation.entities
        self._conversation = conversation

    def of_all(self, states: Collection[State]) -> list[EntityKey]:
        """Return the keys of instances: primary keys first."""
        classes = {each: self._entities.of_class(each) for each in {s.class_ for s in states}}
        primary = (self.of(state, classes[state.class_].primary) for state in states)
        foreign = (self.of(state, classes[state.class_].foreign) for state in states)
        return list(itertools.chain(*primary, *foreign))

    def of(self, state: State, columns: Mapping[str, KeyColumn]) -> Iterator[EntityKey]:
        """Yield the keys in some attributes of an instance."""
        texts = names_of_texts(state)
        for name, column in columns.items():
            if name not in texts:
                yield from self.pairs((state, name, column, state.dict.get(name)))

    def pairs(self, held: Held) -> list[EntityKey]:
        """Return the keys in one attribute."""
        _, _, column, value = held
        return keys_in(column, value) if column.by is None else self.rows_of(held)

    def attributes(self, state: State, columns: Mapping[str, KeyColumn]) -> list[Held]:
        """Return what attributes of an instance hold, but for refs that are not resolved yet."""
        texts = names_of_texts(state)
        return [(state, n, c, state.dict.get(n)) for n, c in columns.items() if n not in texts]

    def alternate(self, states: Iterable[State]) -> Iterator[Held]:
        """Yield what those attributes of instances hold that have alternate keys."""
        for state in states:
            yield from self.attributes(state, self._entities.of_class(state.class_).alternate)

    # The rows of alternate keys are kept with each instance: later a value may be another row's

    def remember_rows(self, held: Iterable[Held], *, other_bind: bool = False) -> None:
        """Keep with instances which rows their alternate keys belong to, if that is not kept yet.

        Args:
            held: the attributes.
            other_bind: whether they were read from another database than the session's. Their rows
                stay unknown.
        """
        new: list[tuple[dict[str, Key | None], EntityKey]] = []
        for state, name, column, value in held:
            kept = _rows_kept(state).setdefault(name, {})
            new += [
                (kept, pair) for pair in keys_in(column, value) if token_of(pair[1]) not in kept
            ]
        alternates = self._conversation.alternates
        if new and not other_bind:
            alternates.look_up([pair for _, pair in new])
        for kept, (space, key) in new:
            row = None if other_bind else alternates.row_of(space, key)
            if row is not None or other_bind:
                kept[token_of(key)] = row

    def rows_of(self, held: Held) -> list[EntityKey]:
        """Return the primary keys of the rows that an attribute's alternate keys belong to."""
        state, name, column, value = held
        rows = _rows_kept(state).get(name, {})
        found = (rows.get(token_of(key)) for _, key in keys_in(column, value))
        return [(column.entity, key) for key in found if key is not None]

    def shower(self, held: Held, listed: type[list[Any]] = list) -> Show:
        """Return the function that puts refs in place of the keys in an attribute."""
        state, name, column, _ = held
        if column.by is None:
            return shower(column, self._conversation, listed)
        rows = {t: key for t, key in _rows_kept(state).get(name, {}).items() if key is not None}
        refs = AlternateRefs(column.by, rows, self._conversation.refs_of(column.entity))
        return shower_of_column(column, refs, listed)


def _rows_kept(state: State) -> dict[str, dict[Any, Key | None]]:
    kept: dict[str, dict[Any, Key | None]] = state.__dict__.setdefault(_ROWS, {})
    return kept


_FEW = 1_000  # loaded instances remembered before looking which of them are still there


class LoadedInstances:
    """What one session has taken in.

    Attributes:
        new: the instances whose keys nobody has met yet, in the order of loading; always the same
            list.
        waiting: those whose alternate keys may name rows that nobody has looked up.
    """

    def __init__(self) -> None:
        # the states' own weak references: with the states, boundary and list would be a ring,
        # and all that a session ever read would wait for the collector
        self.new: list[WeakInstance] = []
        self.waiting: list[WeakInstance] = []
        self._known: list[WeakInstance] = []  # all that are not new
        self._many = self._many_known = _FEW

    def forget_dropped(self) -> None:
        """Forget the new instances that the program has dropped, once there may be many."""
        if len(self.new) > self._many:
            self.new[:] = [there for there in self.new if there() is not None]
            self._many = max(_FEW, 2 * len(self.new))

    def take_new(self) -> list[State]:
        """Return the states of the new instances, which are known from now on."""
        self._known += self.new
        states = states_of(self.new)
        self.new.clear()
        if len(self._known) > self._many_known:
            known = dict.fromkeys(states_of(self._known))
            self._known = weak_references(state.obj for state in known)
            self._many_known = max(_FEW, 2 * len(self._known))
        return states

    def all(self) -> list[State]:
        """Return the states of all instances that are there, each once."""
        return [*dict.fromkeys(states_of([*self._known, *self.new]))]

    def make_new(self, states: Iterable[State]) -> None:
        """Have these instances, and no others, as if they were just loaded."""
        self._known.clear()
        self.new[:] = [state.obj for state in states]

    def forget_states(self) -> None:
        """Keep no instance that has changed and is of no session: its state has it for good."""
        for there in (self.new, self.waiting, self._known):
            there[:] = weak_references(there)

    def take_waiting(self) -> list[State]:
        """Return the states of the instances whose rows are to be looked up, each time once."""
        states = states_of(self.waiting)
        self.waiting.clear()
        return states


def weak_references(loaded: Iterable[WeakInstance]) -> list[WeakInstance]:
    """Return references to the instances that are there which do not lead to their states.

    That of a state has the state to call when its instance is gone.
    """
    return [ref(each) for there in loaded if (each := there()) is not None]


def states_of(loaded: Iterable[WeakInstance]) -> list[State]:
    """Return the states of the instances that are still there."""
    return [sqla.state_of(each) for there in loaded if (each := there()) is not None]


class LabelledClasses(WeakSet[type[Any]]):
    """The classes met so far that have labels; false as long as none has."""

    def __init__(
        self, entities: Entities, conversation: SessionConversation, held: HeldKeys
    ) -> None:
        super().__init__()
        self._entities = entities
        self._conversation = conversation
        self._held = held

    def note(self, states: Iterable[State], *, minted: bool = False) -> None:
        """Note labels that the registry lacks or has otherwise, as far as they are loaded.

        With `minted`, those are left out whose keys are new: they are told as these are minted.
        """
        noted = {}
        for state, keys, label in self._among(states):
            for pair in self._held.of(state, keys.primary):
                known = self._conversation.cached_label(pair)
                if known is not None and label.reads(state.dict, known):
                    continue  # as it most often is
                if known is not None or self._conversation.needs_label(pair, minted=minted):
                    noted[pair] = label.of(state.dict)
        self._conversation.note_labels({p: each for p, each in noted.items() if each is not None})

    def changed(self, instances: Iterable[object]) -> dict[EntityKey, str]:
        """Return the labels that a flush has changed, of those instances."""
        changed: dict[EntityKey, str] = {}
        for state, keys, source in self._among(map(sqla.state_of, instances)):
            label = source.of(state.dict)
            if label is not None and label != source.of(sqla.committed_values(state)):
                changed |= dict.fromkeys(self._held.of(state, keys.primary), label)
        return changed

    def _among(self, states: Iterable[State]) -> Iterator[tuple[State, ClassKeys, Label]]:
        """Yield those instances whose classes have labels, with what says where."""
        known: dict[type[Any], ClassKeys | None] = {}
        for state in states:
            class_ = state.class_
            if class_ not in known:
                known[class_] = self._entities.of_class(class_) if class_ in self else None
            keys = known[class_]
            if keys is not None and keys.label is not None:
                yield state, keys, keys.label


class Boundary:
    """What the instances of one session show and accept.

    Args:
        conversation: what the refs are valid in.
        session: whose instances they are; a state tells so by its `hash_key`.

    Attributes:
        conversation: the same, as the session sees it.
        eager: whether keys are minted inside the call that fetches or flushes them, and refs that
            this process has not met are resolved at the flush: no attribute does I/O.
        showers: what gives the ref of a key, for the attributes shown so far.
        numbered: the refs by the number of their UUID, for the same attributes as far as they
            have UUIDs.
        raw: whether key attributes show and accept keys as they are.
        looks_ahead: whether something is asked for when instances are fetched or flushed.
        classes: those that have been met and have no alternate keys.
        labelled: those that have been met and have labels.
        loaded: the instances whose keys nobody has met yet, in the order of loading.
        pending: puts keys in place of refs that are given.
    """

    def __init__(self, conversation: Conversation, session: Session) -> None:
        self.eager = False
        self.raw = False
        self._session = session.hash_key
        self.conversation = SessionConversation(conversation, self, session)
        self._entities = self.conversation.entities
        self._by_alternate = self.looks_ahead = self._entities.may_have_alternates()
        self.showers: dict[RefAttribute, Callable[[Any], Any]] = {}
        self.numbered: dict[RefAttribute, Mapping[int, str]] = {}
        self.classes: set[type[Any]] = set()
        self._with_alternates: set[type[Any]] = set()
        self._instances = LoadedInstances()
        self.loaded = self._instances.new
        self._held = HeldKeys(self.conversation)
        self.labelled = LabelledClasses(self._entities, self.conversation, self._held)
        self.pending = PendingRefs(self.conversation, self._session)
        self._fetching = 0
        self._fetched = 0  # of those loaded, how many were there before
        self._left = WeakSet[State]()
        self._has_left = False  # some instance since the last transaction

    def show_keys(self, raw: bool) -> None:
        """Have key attributes show and accept keys as they are, or refs again."""
        self.raw = raw
        self.invalidate()

    def mint_when_fetched(self, eager: bool) -> None:
        """Have keys minted inside the call that fetches or flushes them, or when looked at."""
        self.eager = eager
        self.looks_ahead = eager or self._by_alternate

    # Taking in

    def enter(self, state: Any) -> None:
        """Take in an instance that the session loads or is given; its row may come later."""
        if state.class_ not in self.classes and state.class_ not in self._with_alternates:
            self._meet_class(state.class_)
        setattr(state, BOUNDARY, self)
        self.loaded.append(state.obj)
        if state.class_ in self._with_alternates:
            self._instances.waiting.append(state.obj)

    def after_fetch(self, rows: Rows) -> None:
        """Note what rows are called that were just fetched.

        Some were there before, and have been refreshed. Those that the program has dropped are
        forgotten, once there may be many of them.
        """
        if self.labelled:
            new = states_of(self.loaded[self._fetched :])
            self.labelled.note(dict.fromkeys([*new, *_states_in(rows)]), minted=True)
        self._instances.forget_dropped()
        self._fetched = len(self.loaded)

    def _meet_class(self, class_: type[Any]) -> None:
        keys = instrument_once(class_, self._entities)
        if keys.label is not None:
            self.labelled.add(class_)
        (self._with_alternates if keys.alternate else self.classes).add(class_)

    def forget_classes(self) -> None:
        """Forget the classes met so far: the program may drop them, and keep the session.

        Those that it uses again are met again.
        """
        self.classes.clear()
        self._with_alternates.clear()
        self.pending.forget_left()
        if self._has_left:
            self._has_left = False
            self._instances.forget_states()
        self.invalidate()

    def enter_new(self, state: State, *, flushing: bool = False) -> list[Held]:
        """Take in an instance made by the program: its key attributes may have refs as text.

        They are resolved at the next flush, all together: adding an object does no I/O. During a
        flush, to which an object may be added by a `before_flush` of the application's, they are
        resolved at once.

        Returns:
            what was resolved at once, as it was before.

        Raises:
            BadRefError: one cannot be used; only during a flush.
        """
        # of one that was in a session before it is known which texts are refs: others are keys
        known = isinstance(getattr(state, BOUNDARY, None), Boundary)
        texts = names_of_texts(state) if known else None
        self.enter(state)
        self._instances.forget_dropped()  # those that are loaded, once all are fetched
        self._left.discard(state)
        if self.raw:
            return []
        if not flushing:
            self.pending.add_all(state, texts)
            return []
        held = self.pending.held(state, texts)
        self.pending.put_keys([state], texts)
        return held

    def resolve_at_once(self, state: State) -> None:
        """Put keys in place of the refs that one instance waits with: it is about to load by them.

        Raises:
            BadRefError: one cannot be used.
        """
        self.pending.put_keys([state], names_of_texts(state))

    def leave(self, state: State) -> None:
        """Note that an instance is of no row: it was rolled back, deleted, or never flushed.

        It may have the key that its row has had. That gets a ref when it is looked at, and not
        with the keys of others: the ref would be known, with a label, though nobody has seen it.
        """
        self._left.add(state)
        self._has_left = True

    def resolve_new(self, waiting: Iterable[Held]) -> None:
        """Put keys in place of the refs that instances wait with: at most one round trip.

        Raises:
            BadRefError: one cannot be used; all instances stay as they are.
        """
        resolved = self.pending.resolve(waiting)
        self._held.remember_rows(self._held.alternate(resolved))

    def put_text(self, state: State, name: str, text: Any) -> None:
        """Have an attribute hold refs as text again, which waits as before it was resolved."""
        state.dict[name] = text
        self.pending.add(state, name)

    def adopt(self, states: Iterable[State]) -> None:
        """Take in instances that are saved at once, without a flush.

        Raises:
            BadRefError: a ref in one cannot be used.
        """
        states = list(states)
        self.pending.put_keys(states)
        for state in states:
            self.enter(state)
        self._held.remember_rows(self._held.alternate(states))

    def refreshed(self, state: State, names: Iterable[str] | None) -> None:
        """Forget which rows the alternate keys in attributes, or in all, belonged to."""
        kept = _rows_kept(state)
        for name in list(kept) if names is None else list(names):
            kept.pop(name, None)
        self._instances.waiting.append(state.obj)

    # Refs that are given

    def accept(self, attribute: RefAttribute, instance: object, value: Any) -> Any:
        """Return what an attribute keeps when the program sets it: the key that a ref names.

        Raises:
            BadRefError: the text is no ref that can be used; the attribute stays as it is.
        """
        column = self._column(attribute)
        state = sqla.state_of(instance)
        if self.raw or column is None:
            names_of_texts(state).discard(attribute.key)
            return value
        waits = self.eager or (column.by is not None and state.session_id != self._session)
        # it may be saved by the next flush
        waits = waits or any(draft_named(text) for text in texts_in(column, value))
        waits = waits and not sqla.is_flushing(state.session)
        if waits and not self.conversation.can_resolve(requested_refs(column, value)):
            self.pending.add(state, attribute.key)
            return value
        given, value = value, self.pending.value(column, value)
        names_of_texts(state).discard(attribute.key)
        if column.by is not None and texts_in(column, given):
            self._held.remember_rows([(state, attribute.key, column, value)])
        return value

    def _column(self, attribute: RefAttribute) -> KeyColumn | None:
        return self._entities.of_class(cast("type[Any]", attribute.class_)).all.get(attribute.key)

    # Keys that are shown

    def show(self, attribute: RefAttribute, instance: object, value: Any) -> Any:
        """Return what stands for the value of an attribute that `showers` has no answer for.

        A key met for the first time is minted together with those of all instances loaded so far,
        so that they are numbered in the order of loading, in one round trip.
        """
        column = self._column(attribute)
        if self.raw or column is None:
            return value
        state = sqla.state_of(instance)
        is_text = attribute.key in names_of_texts(state) and is_set(state, attribute.key)
        if is_text or not keys_in(column, value):
            return value
        if column.by is not None:
            return self._show_alternate((state, attribute.key, column, value))
        is_new = self._meet(keys_in(column, value))
        if is_new and state in self._left and not state.session_id:
            self._note_gone(state, attribute.key)
        show = self.showers[attribute] = shower(column, self.conversation, RefList)
        if column.has_uuids:
            self.numbered[attribute] = self.conversation.refs_of(column.entity)
        return show(value)

    def _note_gone(self, state: State, name: str) -> None:
        """Note what became of the row of an instance, if this attribute has its key."""
        keys = self._entities.of_class(state.class_)
        if keys.own is not None and name in keys.primary:
            reason: Gone = "was deleted" if state.was_deleted else "was never saved"
            self.conversation.note_gone([*self._held.of(state, keys.primary)], reason)

    def _show_alternate(self, held: Held) -> Any:
        """Return what stands for an alternate key, by the row that it named when it was loaded."""
        if held[0].session_id == self._session:
            self._held.remember_rows([held])
        self._meet(self._held.rows_of(held))
        return self._held.shower(held, RefList)(held[3])

    def with_refs(self, class_: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a record of a class with refs in place of keys."""
        columns = self._entities.of_class(class_).all
        held = [name for name in record if name in columns and record[name] is not None]
        self.conversation.make_room()
        self.conversation.mint(
            [pair for name in held for pair in keys_in(columns[name], record[name])]
        )
        shown = {n: shower(columns[n], self.conversation)(record[n]) for n in held}
        return {**record, **shown}

    def pickled_refs(self, state: State) -> PickledRefs:
        """Return what shows an instance's refs elsewhere: at most one round trip."""
        columns = self._entities.of_class(state.class_).all
        held = {each[1]: each for each in self._held.attributes(state, columns)}
        keys = {name: self._held.pairs(each) for name, each in held.items()}
        self._meet([pair for pairs in keys.values() for pair in pairs])
        refs = {
            name: (held[name][3], self._held.shower(held[name])(held[name][3]))
            for name, pairs in keys.items()
            if pairs or isinstance(held[name][3], list)
        }
        return PickledRefs(state.class_, columns, refs)

    def invalidate(self) -> None:
        """Have what all attributes show looked up anew."""
        self.showers, self.numbered = {}, {}

    # Keys that are met together

    def _meet(self, pairs: Collection[EntityKey]) -> bool:
        """Make sure that keys can be shown, together with those of all instances loaded so far.

        Returns:
            whether one of them could not be shown before.
        """
        if self.conversation.has_cached(pairs):
            return False
        self.conversation.make_room()
        self._meet_new(pairs)
        return True

    def met(self, chunks: Iterator[Rows], *, other_bind: bool = False) -> Iterator[Rows]:
        """Yield chunks of rows once the keys of all that was loaded with them are minted.

        What loads inside another load, as `selectinload()` does, is left to the outermost, so
        that it is one round trip. Instances that were there before may have been refreshed.
        """
        while True:
            self._fetching += 1
            try:
                rows = next(chunks, None)
            finally:
                self._fetching -= 1
            if rows is None:
                return
            if not self._fetching:
                if self.eager:
                    self.loaded += [state.obj for state in _states_in(rows)]
                self.look_ahead(other_bind=other_bind)
            yield rows

    def look_ahead(self, *, other_bind: bool = False) -> None:
        """Look up, and mint if wanted, the keys of instances loaded since the last time."""
        self.conversation.make_room()
        self._remember_new_rows(other_bind=other_bind)
        if self.eager:
            self._meet_new([])

    def _meet_new(self, more: Iterable[EntityKey]) -> None:
        """Mint the keys of instances loaded since the last time, and more, in one round trip.

        Where that fails, they are minted together the next time, not one by one.
        """
        loaded = [*self.loaded]
        try:
            self.conversation.mint([*self.new_keys(), *more])
        except BaseException:
            if not self.loaded:
                self.loaded.extend(loaded)
            raise

    def new_keys(self, *, other_bind: bool = False) -> list[EntityKey]:
        """Return the keys of the instances loaded since the last time: primary keys first."""
        self._remember_new_rows(other_bind=other_bind)
        states = self._instances.take_new()
        self._fetched = 0
        if self._left:
            states = [each for each in states if each.persistent or each not in self._left]
        if self.labelled:
            self.labelled.note(states)
        return self._held.of_all(states)

    def _remember_new_rows(self, *, other_bind: bool) -> None:
        """Look up the rows of the alternate keys of instances loaded since the last time."""
        if self._instances.waiting:
            waiting = self._held.alternate(self._instances.take_waiting())
            self._held.remember_rows(waiting, other_bind=other_bind)

    def make_room(self) -> None:
        """Let go of refs that no instance shows, if there are many; never during a fetch."""
        if self._fetching:
            return
        if self.conversation.make_room() and self.eager:
            # none is new if they were taken along, all are if the conversation was forgotten
            self._meet_new([])

    def keys_of_instances(self) -> list[EntityKey]:
        """Return the keys that instances may show: from now on all of them are as just loaded."""
        states = self._instances.all()
        mine = [state for state in states if getattr(state, BOUNDARY, None) is self]
        self._instances.make_new(mine)
        return self._held.of_all(mine)

    def has_rows(self) -> bool:
        """Tell whether there are instances of rows."""
        return any(
            state.key is not None and getattr(state, BOUNDARY, None) is self
            for state in self._instances.all()
        )

    # What rows are called

    def learn_labels(self) -> None:
        """Note what rows are called that were read, before what is loaded may expire."""
        if self.labelled:
            self.labelled.note(states_of(self.loaded), minted=True)


def _states_in(rows: Rows) -> Iterator[State]:
    """Yield the states of instances: a row may be one itself, or have some among its values."""
    attribute = sqla.STATE
    for row in rows:
        for value in row if isinstance(row, tuple) else (row,):
            state: Any = getattr(value, attribute, None)
            if hasattr(state, BOUNDARY):
                yield state


def holds_key(parameter: BindParameter[Any]) -> bool:
    """Tell whether a parameter's value is a key, though it may be text: it is an instance's own.

    So it is where an instance is compared with a relationship; only what the program has set on
    the instance, and nobody has resolved yet, is a ref. And so it is where the package says so.
    """
    if sqla.is_key_parameter(parameter):
        return True
    found = sqla.instance_attribute_of(parameter)
    if found is None:
        return False
    state, name = found
    if isinstance(getattr(state, BOUNDARY, None), Boundary):
        return name not in names_of_texts(state)
    return not is_set(state, name)
