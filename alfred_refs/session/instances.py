"""The instances of one session: what their key attributes show and accept.

An instance keeps its keys: `recipe.__dict__["id"]`, the identity map and the unit of work have a
UUID. Its key attributes translate (`attributes`), and call the `Boundary` of their session:

    recipe.id                       show     key ─▶ ref; new keys are minted, for all instances
                                             loaded so far at once, in the order of loading
    line.recipe_id = "recipe_1"     accept   ref ─▶ key, or the ref waits for the next flush
    session.add(Line(...))          enter    refs in a new instance wait for the next flush

>>> recipe = session.get(Recipe, "recipe_2")
>>> recipe.id, type(recipe.__dict__["id"]).__name__
('recipe_2', 'UUID')
>>> session.add(line := Line(recipe_id="recipe_2", position=1, text="2 slices"))
>>> line.__dict__["recipe_id"]                         # waits, without a round trip
'recipe_2'
>>> session.flush()
>>> line.id, line.recipe_id, type(line.__dict__["recipe_id"]).__name__
('line_3', 'recipe_2', 'UUID')

A string in a key attribute is a ref if the program has set it: loaded strings are keys. The names
of attributes with refs that wait are kept with the instance's state. A flush resolves all of them
in one round trip, or raises for the first bad one and changes nothing.

An instance belongs to its boundary for life: its attributes show refs after `close()` too. The
session knows it by a weak reference, so an instance that the program drops is collected. Labels
of rows are sent to the store with the next mint, or when the transaction ends.

Limits: nothing is loaded or refreshed to show a ref. `__dict__`, `inspect(recipe).identity` and
attribute history have keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast
from weakref import WeakSet, ref

from sqlalchemy import BindParameter, inspect
from sqlalchemy.orm import Session

from alfred_refs import sqla
from alfred_refs.conversation.alternates import AlternateRefs
from alfred_refs.conversation.caches import ExpectedRef
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import UnknownRefError
from alfred_refs.mapping.entities import ClassKeys, Entities
from alfred_refs.mapping.key_columns import KeyColumn, key_value, keys_in, texts_in, with_keys
from alfred_refs.mapping.keys import (
    EntityKey,
    Key,
    parse_draft_ref,
    parse_ref,
    shown_refs_in,
    token_of,
)
from alfred_refs.mapping.labels import Label
from alfred_refs.session.attributes import (
    PickledRefs,
    RefAttribute,
    RefList,
    instrument_once,
    is_set,
)
from alfred_refs.sqla import BOUNDARY, Rows, State, WeakInstance
from alfred_refs.statements import Renderer, check_data, renderer, renderer_of_column
from alfred_refs.store import Gone

_UNRESOLVED = "alfred_refs_texts"  # of a state: names of the attributes whose refs wait
_ROWS = "alfred_refs_rows"  # of a state: attribute → token of a value → primary key of its row


class AttributeValue(NamedTuple):
    """The value of one key attribute of one instance."""

    state: State
    name: str
    column: KeyColumn
    value: Any


# Refs that come in


class PendingRefs:
    """Puts keys in place of the refs that come into one session, at once or in the next flush.

    Methods that resolve refs raise `BadRefError` for one that cannot be used, and have changed
    nothing then.

    Args:
        conversation: as the session sees it.
        session: the `hash_key` of the session, which its states have as `session_id`.
    """

    def __init__(self, conversation: SessionConversation, session: int) -> None:
        self._entities = conversation.entities
        self._conversation = conversation
        self._session = session
        self._states: dict[State, None] = {}  # with refs that wait; an ordered set

    def _keys_of(self, values: Iterable[tuple[KeyColumn, Any]]) -> Mapping[ExpectedRef, Key]:
        """Return the keys of all refs in values: at most one round trip."""
        wanted = [want for column, value in values for want in requested_refs(column, value)]
        if not wanted:
            return {}
        return dict(zip(wanted, self._conversation.resolve_pairs(wanted), strict=True))

    # Arguments of a call

    def value(self, column: KeyColumn | None, value: Any) -> Any:
        """Return a value with keys in place of refs; without a key column it is data."""
        if column is None:
            return value
        return with_keys(column, value, self._keys_of([(column, value)]))

    def identity(self, class_: type[Any], ident: Any) -> Any:
        """Return an identity, as `Session.get` takes it, with keys in place of refs.

        A single string for a composite primary key is the ref of a row.
        """
        keys = self._entities.of_class(class_)
        if isinstance(ident, Mapping):
            return {name: self.value(keys.primary.get(name), part) for name, part in ident.items()}
        if isinstance(ident, Sequence) and not isinstance(ident, str):
            # too many parts are left to SQLAlchemy, which raises for them
            columns = itertools.chain(keys.identity, itertools.repeat(None))
            return tuple(map(self.value, columns, ident))
        if not isinstance(ident, str) or len(keys.identity) == 1:
            value = self.value(keys.identity[0], ident)
            return self._key_of_subclass(class_, value) if keys.identity[0] is None else value
        entity = self._entities.name_of(class_)
        [key] = self._conversation.resolve_pairs([(ident, entity)])
        primary = inspect(class_).mapper.primary_key
        if not isinstance(key, tuple) or len(key) != len(primary):
            raise UnknownRefError(ident, entity)  # of another class with refs of the same entity
        parts = zip(keys.identity, key, primary, strict=True)
        return tuple(key_value(column, part, own.type) for column, part, own in parts)

    def _key_of_subclass(self, class_: type[Any], ident: Any) -> Any:
        """Return the key for the ref of a concrete subclass's row; another identity is unchanged.

        The base of such classes selects from all of their tables, and has no refs of its own.
        """
        mapper = inspect(class_).mapper
        ref = parse_ref(ident) if isinstance(ident, str) else None
        below = [self._entities.of_class(each.class_) for each in mapper.self_and_descendants]
        if ref is not None and ref.entity in [keys.own_entity for keys in below]:
            [key] = self._conversation.resolve_pairs([(ident, ref.entity)])
            columns = (k.identity[0] for k in below if k.own_entity == ref.entity)
            return cast(KeyColumn, next(columns)).from_key(key)
        check_data(ident, mapper.primary_key[0])
        return ident

    def records(
        self, class_: type[Any], records: Iterable[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return copies of records of a class with keys in place of refs."""
        columns = self._entities.of_class(class_).all
        copies = [dict(record) for record in records]
        cells = [(copy, name) for copy in copies for name in copy.keys() & columns.keys()]
        keys = self._keys_of([(columns[name], copy[name]) for copy, name in cells])
        for copy, name in cells:
            copy[name] = with_keys(columns[name], copy[name], keys)
        return copies

    # Attributes of instances

    def unresolved_values(
        self, state: State, names: Container[str] | None = None
    ) -> list[AttributeValue]:
        """Return the attributes of an instance that have refs, all or only these names."""
        return [
            AttributeValue(state, name, column, value)
            for name, column in self._entities.of_class(state.class_).all.items()
            if texts_in(column, value := state.dict.get(name)) and is_set(state, name)
            if names is None or name in names
        ]

    def resolve_now(self, states: Iterable[State], names: Container[str] | None = None) -> None:
        """Put keys in place of refs in the attributes of instances, all or only these names."""
        self._set(
            self._with_keys(v for state in states for v in self.unresolved_values(state, names))
        )

    @contextmanager
    def keys_during_merge(self, states: Iterable[State]) -> Iterator[None]:
        """Replace refs with keys in merged instances inside the `with`; restore them after it."""
        values = [value for state in states for value in self.unresolved_values(state)]
        self._set(self._with_keys(values))
        try:
            yield
        finally:
            self._set((state, name, value) for state, name, _, value in values)

    # Attributes that wait for the flush

    def add(self, state: State, name: str) -> None:
        """Let the refs in an attribute wait for the next flush."""
        setattr(state, _UNRESOLVED, {*unresolved_names(state), name})
        self._states[state] = None

    def add_all(self, state: State, names: Container[str] | None = None) -> None:
        """Let the refs in attributes, all or only these names, wait for the next flush."""
        unresolved = {value.name for value in self.unresolved_values(state, names)}
        if unresolved:
            state.__dict__[_UNRESOLVED] = unresolved
            self._states[state] = None

    def waiting(self) -> list[AttributeValue]:
        """Return the attributes of the session's instances whose refs wait for the flush."""
        states = self._own_states()
        return [value for s in states for value in self.unresolved_values(s, unresolved_names(s))]

    def resolve(self, waiting: Iterable[AttributeValue]) -> list[State]:
        """Put keys in place of what `waiting()` returned, and return the instances' states."""
        self._set(self._with_keys(waiting))
        states = self._own_states()
        for state in states:
            state.__dict__.pop(_UNRESOLVED, None)
        self._states.clear()
        return states

    def forget_detached(self) -> None:
        """Forget instances that have left the session."""
        self._states = dict.fromkeys(self._own_states())

    def _own_states(self) -> list[State]:
        return [state for state in self._states if state.session_id == self._session]

    def _with_keys(self, values: Iterable[AttributeValue]) -> list[tuple[State, str, Any]]:
        """Resolve the refs in attribute values; this takes at most one round trip."""
        values = list(values)
        keys = self._keys_of([(each.column, each.value) for each in values])
        return [(v.state, v.name, with_keys(v.column, v.value, keys)) for v in values]

    def _set(self, values: Iterable[tuple[State, str, Any]]) -> None:
        for state, name, value in values:
            state.dict[name] = value  # past the attribute events: nothing changes for the row


def requested_refs(column: KeyColumn, value: Any) -> list[ExpectedRef]:
    """Return the refs in a value of a column, each with the `space` in which it is resolved."""
    return [(text, column.space) for text in texts_in(column, value)]


def unresolved_names(state: State) -> set[str]:
    """Return the names of an instance's attributes whose refs wait for the flush."""
    return getattr(state, _UNRESOLVED, None) or set()


def holds_key(parameter: BindParameter[Any]) -> bool:
    """Return whether the value of a parameter is a key rather than a ref, even if it is a string.

    A value is a key if this package has marked it, or if SQLAlchemy reads it from an instance, as
    in `Line.recipe == recipe`. A value that the program has set on the instance and that is not
    flushed yet may be a ref.
    """
    if sqla.is_key_parameter(parameter):
        return True
    attribute = sqla.instance_attribute_of(parameter)
    if attribute is None:
        return False
    state, name = attribute
    if isinstance(getattr(state, BOUNDARY, None), Boundary):
        return name not in unresolved_names(state)
    return not is_set(state, name)


# Keys that instances have


class InstanceKeys:
    """Reads the keys in the attributes of one session's instances.

    Args:
        conversation: as the session sees it.
    """

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
        unresolved = unresolved_names(state)
        for name, column in columns.items():
            if name in unresolved:
                continue
            value = state.dict.get(name)
            if column.alternate is None:
                yield from keys_in(column, value)
            else:
                yield from self.rows_of(AttributeValue(state, name, column, value))

    def attributes(self, state: State, columns: Mapping[str, KeyColumn]) -> list[AttributeValue]:
        """Return some attributes of an instance, without those whose refs wait for the flush."""
        unresolved = unresolved_names(state)
        return [
            AttributeValue(state, name, column, state.dict.get(name))
            for name, column in columns.items()
            if name not in unresolved
        ]

    # Rows of alternate keys. They are kept with each instance: the value of a unique column may
    # belong to another row later, and the instance still shows the ref that it has shown.

    def alternates(self, states: Iterable[State]) -> Iterator[AttributeValue]:
        """Yield the attributes of instances that have alternate keys."""
        for state in states:
            yield from self.attributes(state, self._entities.of_class(state.class_).alternate)

    def remember_rows(
        self, attributes: Iterable[AttributeValue], *, other_bind: bool = False
    ) -> None:
        """Keep with instances to which rows their alternate keys belong, if that is not kept yet.

        Args:
            attributes: those with alternate keys.
            other_bind: whether they were read from another database than the session's. Their rows
                stay unknown.
        """
        new: list[tuple[dict[str, Key | None], EntityKey]] = []
        for state, name, column, value in attributes:
            rows = _rows_by_attribute(state).setdefault(name, {})
            new += [
                (rows, pair) for pair in keys_in(column, value) if token_of(pair[1]) not in rows
            ]
        alternates = self._conversation.alternates
        if new and not other_bind:
            alternates.look_up([pair for _, pair in new])
        for rows, (space, key) in new:
            row = None if other_bind else alternates.row_of(space, key)
            if row is not None or other_bind:
                rows[token_of(key)] = row

    def rows_of(self, attribute: AttributeValue) -> list[EntityKey]:
        """Return the primary keys of the rows that an attribute's alternate keys belong to."""
        state, name, column, value = attribute
        rows = _rows_by_attribute(state).get(name, {})
        keys = (rows.get(token_of(key)) for _, key in keys_in(column, value))
        return [(column.entity, key) for key in keys if key is not None]

    def renderer(self, attribute: AttributeValue, listed: type[list[Any]] = list) -> Renderer:
        """Return the function that puts refs in place of the keys in an attribute."""
        state, name, column, _ = attribute
        if column.alternate is None:
            return renderer(column, self._conversation, listed)
        rows = _rows_by_attribute(state).get(name, {})
        there = {token: key for token, key in rows.items() if key is not None}
        refs = AlternateRefs(column.alternate, there, self._conversation.refs_of(column.entity))
        return renderer_of_column(column, refs, listed)


def _rows_by_attribute(state: State) -> dict[str, dict[Any, Key | None]]:
    rows: dict[str, dict[Any, Key | None]] = state.__dict__.setdefault(_ROWS, {})
    return rows


# Instances and labels


_FEW = 1_000  # references kept before dropped instances are removed from a list


class LoadedInstances:
    """The instances that were loaded by one session or added to it, by weak references.

    Attributes:
        new: the instances whose keys are not minted yet, in the order of loading; always the same
            list, as `sqla.watch_loading` appends to it.
        trim_at: the length of `new` at which `forget_dropped` has an effect.
        with_alternates: those whose alternate keys may belong to rows that are not looked up yet.
    """

    def __init__(self) -> None:
        # The states' own weak references. A list of states would keep them alive: then boundary,
        # list and states form a cycle, and all instances wait for the garbage collector.
        self.new: list[WeakInstance] = []
        self.with_alternates: list[WeakInstance] = []
        self._known: list[WeakInstance] = []  # all that are not new
        self.trim_at = self._trim_known = _FEW

    def forget_dropped(self) -> None:
        """Forget new instances that the program has dropped, if there may be many."""
        if len(self.new) > self.trim_at:
            self.new[:] = [each for each in self.new if each() is not None]
            self.trim_at = max(_FEW, 2 * len(self.new))

    def take_new(self) -> list[State]:
        """Return the states of the new instances, which are known from now on."""
        self._known += self.new
        states = states_of(self.new)
        self.new.clear()
        if len(self._known) > self._trim_known:
            known = dict.fromkeys(states_of(self._known))
            self._known = weak_references(state.obj for state in known)
            self._trim_known = max(_FEW, 2 * len(self._known))
        return states

    def all(self) -> list[State]:
        """Return the states of all instances that are alive, each once."""
        return [*dict.fromkeys(states_of([*self._known, *self.new]))]

    def make_new(self, states: Iterable[State]) -> None:
        """Forget all instances, and track these as newly loaded ones."""
        self._known.clear()
        self.new[:] = [state.obj for state in states]

    def forget_states(self) -> None:
        """Replace references that keep a state alive.

        The state of an instance that was changed and has left the session references the instance.
        """
        for references in (self.new, self.with_alternates, self._known):
            references[:] = weak_references(references)

    def take_with_alternates(self) -> list[State]:
        """Return the states of the instances whose alternate keys are to be looked up, once."""
        states = states_of(self.with_alternates)
        self.with_alternates.clear()
        return states


def weak_references(instances: Iterable[WeakInstance]) -> list[WeakInstance]:
    """Return new weak references to the living instances.

    `InstanceState.obj` does not serve: its callback is a bound method that keeps the state alive.
    """
    return [ref(instance) for each in instances if (instance := each()) is not None]


def states_of(instances: Iterable[WeakInstance]) -> list[State]:
    """Return the states of the instances that are alive."""
    return [sqla.state_of(instance) for each in instances if (instance := each()) is not None]


class LabelledClasses(WeakSet[type[Any]]):
    """The classes used so far whose rows have labels.

    Args:
        entities: which columns hold keys and labels.
        conversation: as the session sees it.
        keys: reads the keys of instances.

    Attributes:
        is_foreign: returns whether an instance may be a row of another owner, whose label must not
            be stored in this conversation; `None` in a session without owner.
    """

    is_foreign: Callable[[State], bool] | None = None

    def __init__(
        self, entities: Entities, conversation: SessionConversation, keys: InstanceKeys
    ) -> None:
        super().__init__()
        self._entities = entities
        self._conversation = conversation
        self._keys = keys

    def note(self, states: Iterable[State], *, minted: bool = False) -> None:
        """Note loaded labels that the registry lacks or has otherwise, for the next mint.

        With `minted`, rows without a ref are left out: their labels are noted when it is minted.
        """
        labels: dict[EntityKey, str | None] = {}
        for state, keys, source in self._among(states):
            for pair in self._keys.of(state, keys.primary):
                known = self._conversation.cached_label(pair)
                if known is not None and source.is_unchanged(state.dict, known):
                    continue  # the common case
                if known is not None or self._conversation.needs_label(pair, minted=minted):
                    label = source.of(state.dict)
                    if label is not None or (known is not None and source.is_null(state.dict)):
                        labels[pair] = label
        self._conversation.note_labels(labels)

    def changed_labels(self, instances: Iterable[object]) -> dict[EntityKey, str | None]:
        """Return the labels that a flush has changed; `None` for one that is null now."""
        changed: dict[EntityKey, str | None] = {}
        for state, keys, source in self._among(map(sqla.state_of, instances)):
            label = source.of(state.dict)
            is_known = label is not None or source.is_null(state.dict)
            if is_known and label != source.of(sqla.committed_values(state)):
                changed |= dict.fromkeys(self._keys.of(state, keys.primary), label)
        return changed

    def _among(self, states: Iterable[State]) -> Iterator[tuple[State, ClassKeys, Label]]:
        """Yield the instances whose classes have labels, with the source of the label."""
        known: dict[type[Any], ClassKeys | None] = {}
        for state in states:
            class_ = state.class_
            if class_ not in known:
                known[class_] = self._entities.of_class(class_) if class_ in self else None
            keys = known[class_]
            if keys is None or keys.label is None:
                continue
            if self.is_foreign is None or not self.is_foreign(state):
                yield state, keys, keys.label


# The boundary


def _is_text_key(column: KeyColumn, value: Any) -> bool:
    """Return whether a value is text in the place of a key that is text, and no ref."""
    return isinstance(value, str) and column.holds(value) and parse_ref(value) is None


def _may_have_ref(value: Any) -> bool:
    """Return whether a value for an attribute that cannot be translated is a ref, or has one."""
    is_ref = isinstance(value, str) and parse_ref(value) is not None
    return is_ref or any(shown_refs_in(value))


class Boundary:
    """Translates the key attributes of one session's instances.

    Args:
        conversation: in which refs are valid.
        session: not kept alive.

    Attributes:
        conversation: the conversation as the session sees it.
        pending: puts keys in place of refs that come in.
        raw: whether attributes show and accept keys unchanged (`session.raw_keys()`).
        in_flush: whether attributes show keys, because a flush calls the application's listeners.
        eager: whether keys are minted in the call that fetches or flushes them, and refs that this
            process has not cached wait for the flush, so that no attribute does I/O.
        looks_ahead: whether anything is looked up or minted when instances are fetched or flushed.
        renderers: the functions that return the ref of a key, for the attributes read so far.
        refs_by_number: the refs by the number of their UUID, for those attributes that have UUIDs.
        loaded: the instances whose keys are not minted yet, in the order of loading.
        classes: the classes used so far that have no alternate keys.
        labelled_classes: the classes used so far that have labels.
    """

    def __init__(self, conversation: Conversation, session: Session) -> None:
        self.eager = False
        self.raw = False
        self.in_flush = False
        self._session = session.hash_key
        self.conversation = SessionConversation(conversation, self, session)
        self._entities = self.conversation.entities
        self._by_alternate = self.looks_ahead = self._entities.may_have_alternate_keys()
        self.renderers: dict[RefAttribute, Callable[[Any], Any]] = {}
        self.refs_by_number: dict[RefAttribute, Mapping[int, str]] = {}
        self._kept = self.renderers, self.refs_by_number  # of before a flush
        self.classes: set[type[Any]] = set()
        self._with_alternates: set[type[Any]] = set()
        self._instances = LoadedInstances()
        self.loaded = self._instances.new
        self._keys = InstanceKeys(self.conversation)
        self.labelled_classes = LabelledClasses(self._entities, self.conversation, self._keys)
        self.pending = PendingRefs(self.conversation, self._session)
        self._depth = 0  # of fetches inside each other
        self._fetched = 0  # how many of `loaded` were there after the last chunk
        self._rowless = WeakSet[State]()  # instances that lost their row, or never had one
        self._has_rowless = False  # since the last transaction

    def show_keys(self, raw: bool) -> None:
        """Show and accept keys unchanged, or refs again."""
        self.raw = raw
        self.invalidate()

    def begin_flush(self) -> None:
        """Show keys, which listeners of a flush send on its connection, until `end_flush`."""
        self._kept = self.renderers, self.refs_by_number
        self.renderers, self.refs_by_number = {}, {}
        self.in_flush = True

    def end_flush(self) -> None:
        """Show refs again; does nothing outside a flush."""
        if self.in_flush:
            self.in_flush = False
            self.renderers, self.refs_by_number = self._kept

    def mint_when_fetched(self, eager: bool) -> None:
        """Mint refs when keys are fetched or flushed, or when attributes are read."""
        self.eager = eager
        self.looks_ahead = eager or self._by_alternate

    # Instances that come in

    def enter(self, state: Any) -> None:
        """Take in an instance that is loaded or added, before its attributes are loaded."""
        if state.class_ not in self.classes and state.class_ not in self._with_alternates:
            self._add_class(state.class_)
        setattr(state, BOUNDARY, self)
        self.loaded.append(state.obj)
        if state.class_ in self._with_alternates:
            self._instances.with_alternates.append(state.obj)

    def _add_class(self, class_: type[Any]) -> None:
        keys = instrument_once(class_, self._entities)
        if keys.label is not None:
            self.labelled_classes.add(class_)
        (self._with_alternates if keys.alternate else self.classes).add(class_)

    def forget_classes(self) -> None:
        """Forget the classes used so far, as the program may drop them and keep the session."""
        self.classes.clear()
        self._with_alternates.clear()
        self.pending.forget_detached()
        if self._has_rowless:
            self._has_rowless = False
            self._instances.forget_states()
        self.invalidate()

    def enter_new(self, state: State, *, flushing: bool = False) -> list[AttributeValue]:
        """Take in an instance that the program adds; strings in its key attributes are refs.

        Their refs wait for the next flush: adding an instance does no I/O. An application's
        `before_flush` may add instances during a flush; their refs are resolved at once.

        Returns:
            the attributes that were resolved at once, with the refs that they had.

        Raises:
            BadRefError: a ref cannot be used; only during a flush.
            KeyColumnError: an attribute that cannot be translated is set to a ref.
        """
        # An instance that was in a session before has refs in these attributes alone
        known = isinstance(getattr(state, BOUNDARY, None), Boundary)
        names = unresolved_names(state) if known else None
        self.enter(state)
        self._instances.forget_dropped()  # for loaded instances, `after_fetch` does it
        self._rowless.discard(state)
        if self.raw:
            return []
        keys = self._entities.of_class(state.class_)
        for name in keys.refused:
            if is_set(state, name) and _may_have_ref(state.dict.get(name)):
                keys.check_readable(name)
        if not flushing:
            self.pending.add_all(state, names)
            return []
        attributes = self.pending.unresolved_values(state, names)
        self.pending.resolve_now([state], names)
        return attributes

    def resolve_at_once(self, state: State) -> None:
        """Put keys in place of an instance's waiting refs, before it loads relationships by them.

        Raises:
            BadRefError: one cannot be used.
        """
        self.pending.resolve_now([state], unresolved_names(state))

    def convert_written(self, states: Iterable[State]) -> None:
        """Convert keys that a flush has written to the Python types of their columns.

        A default may return text for a UUID, which the driver takes. After the event `after_flush`
        SQLAlchemy makes the identity of the instance, which must be equal to the identity of the
        row when it is loaded.
        """
        checked: dict[type[Any], list[tuple[str, KeyColumn]]] = {}
        for state in states:
            columns = checked.get(state.class_)
            if columns is None:
                is_known = state.class_ in self.classes or state.class_ in self._with_alternates
                every = self._entities.of_class(state.class_).all if is_known else {}
                columns = [pair for pair in every.items() if pair[1].has_one_type]
                checked[state.class_] = columns
            values = state.dict
            for name, column in columns:
                value = values.get(name)
                if value is not None and isinstance(value, str) is not column.as_text:
                    values[name] = column.convert(value)

    def leave(self, state: State) -> None:
        """Note that an instance has no row: rolled back, deleted, or expunged before its flush.

        Its attributes may still hold the key of that row. Such a key is minted only when the
        attribute is read. If it were minted together with other keys, the conversation would have
        a ref, with a label, that nobody has seen.
        """
        self._rowless.add(state)
        self._has_rowless = True

    def resolve_new(self, waiting: Iterable[AttributeValue]) -> None:
        """Put keys in place of refs that wait for the flush: at most one round trip.

        Raises:
            BadRefError: one cannot be used; all instances stay as they are.
        """
        states = self.pending.resolve(waiting)
        self._keys.remember_rows(self._keys.alternates(states))

    def put_ref_back(self, state: State, name: str, value: Any) -> None:
        """Replace the key in an attribute by the refs that it had, which wait again."""
        state.dict[name] = value
        self.pending.add(state, name)

    def adopt(self, states: Iterable[State]) -> None:
        """Take in instances that are saved at once, without a flush.

        Raises:
            BadRefError: a ref in one cannot be used.
        """
        states = list(states)
        self.pending.resolve_now(states)
        for state in states:
            self.enter(state)
        self._keys.remember_rows(self._keys.alternates(states))

    def forget_rows(self, state: State, names: Iterable[str] | None) -> None:
        """Forget the rows of the alternate keys in attributes; `None` for all attributes."""
        rows = _rows_by_attribute(state)
        for name in list(rows) if names is None else list(names):
            rows.pop(name, None)
        self._instances.with_alternates.append(state.obj)

    # Attributes that are set

    def accept(self, attribute: RefAttribute, instance: object, value: Any) -> Any:
        """Return the value that an attribute keeps when the program sets it.

        Raises:
            BadRefError: a ref cannot be used; the attribute stays as it is.
        """
        column = self._column(attribute)
        state = sqla.state_of(instance)
        if column is None and not self.raw and _may_have_ref(value):
            self._check_readable(attribute)
        if self.raw or column is None or (self.in_flush and _is_text_key(column, value)):
            unresolved_names(state).discard(attribute.key)
            return value
        waits = self.eager or (column.alternate is not None and state.session_id != self._session)
        # the next flush may save the draft, and decides its key
        waits = waits or any(parse_draft_ref(text) for text in texts_in(column, value))
        waits = waits and not sqla.is_flushing(state.session)
        if waits and not self.conversation.can_resolve(requested_refs(column, value)):
            self.pending.add(state, attribute.key)
            return value
        key = self.pending.value(column, value)
        unresolved_names(state).discard(attribute.key)
        if column.alternate is not None and texts_in(column, value):
            self._keys.remember_rows([AttributeValue(state, attribute.key, column, key)])
        return key

    def _check_readable(self, attribute: RefAttribute) -> None:
        class_ = cast("type[Any]", attribute.class_)
        self._entities.of_class(class_).check_readable(attribute.key)

    def _column(self, attribute: RefAttribute) -> KeyColumn | None:
        return self._entities.of_class(cast("type[Any]", attribute.class_)).all.get(attribute.key)

    # Attributes that are read

    def show(self, attribute: RefAttribute, instance: object, value: Any) -> Any:
        """Return the ref for an attribute's value that `renderers` cannot look up.

        A new key is minted together with the keys of all instances loaded so far, in one round
        trip, so that rows are numbered in the order of loading.

        Raises:
            KeyColumnError: the attribute cannot be translated.
        """
        column = self._column(attribute)
        if column is None and not self.raw:
            self._check_readable(attribute)
        if self.raw or self.in_flush or column is None:
            return value
        state = sqla.state_of(instance)
        is_ref = attribute.key in unresolved_names(state) and is_set(state, attribute.key)
        if is_ref or not keys_in(column, value):
            return value
        if column.alternate is not None:
            return self._show_alternate(AttributeValue(state, attribute.key, column, value))
        is_new = self._mint(keys_in(column, value))
        if is_new and state in self._rowless and not state.session_id:
            self._note_gone(state, attribute.key)
        show = self.renderers[attribute] = renderer(column, self.conversation, RefList)
        if column.has_uuids:
            self.refs_by_number[attribute] = self.conversation.refs_of(column.entity)
        return show(value)

    def _note_gone(self, state: State, name: str) -> None:
        """Note that the row of an instance does not exist, if this attribute has its key."""
        keys = self._entities.of_class(state.class_)
        if keys.own_entity is not None and name in keys.primary:
            reason: Gone = "was deleted" if state.was_deleted else "was never saved"
            self.conversation.note_gone([*self._keys.of(state, keys.primary)], reason)

    def _show_alternate(self, attribute: AttributeValue) -> Any:
        """Return the ref of the row that an alternate key belonged to when it was loaded."""
        if attribute.state.session_id == self._session:
            self._keys.remember_rows([attribute])
        self._mint(self._keys.rows_of(attribute))
        return self._keys.renderer(attribute, RefList)(attribute.value)

    def with_refs(self, class_: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a record of a class with refs in place of keys."""
        columns = self._entities.of_class(class_).all
        names = [name for name in record if name in columns and record[name] is not None]
        self.conversation.make_room()
        self.conversation.mint(
            [pair for name in names for pair in keys_in(columns[name], record[name])]
        )
        refs = {n: renderer(columns[n], self.conversation)(record[n]) for n in names}
        return {**record, **refs}

    def pickled_refs(self, state: State) -> PickledRefs:
        """Return the refs that an instance takes into a pickle: at most one round trip."""
        keys_of_class = self._entities.of_class(state.class_)
        attributes = self._keys.attributes(state, keys_of_class.all)
        keys = [
            keys_in(each.column, each.value)
            if each.column.alternate is None
            else self._keys.rows_of(each)
            for each in attributes
        ]
        self._mint([pair for pairs in keys for pair in pairs])
        refs = {
            each.name: (each.value, self._keys.renderer(each)(each.value))
            for each, pairs in zip(attributes, keys, strict=True)
            if pairs or isinstance(each.value, list)
        }
        return PickledRefs(state.class_, [*keys_of_class.all, *keys_of_class.refused], refs)

    def invalidate(self) -> None:
        """Drop the cached functions and refs of attributes."""
        self.renderers, self.refs_by_number = {}, {}
        self._kept = {}, {}

    # Keys that are minted together

    def _mint(self, pairs: Collection[EntityKey]) -> bool:
        """Mint refs for keys, and for the keys of all instances loaded so far.

        Returns:
            whether one of the keys had no cached ref.
        """
        if self.conversation.has_cached(pairs):
            return False
        self.conversation.make_room()
        self._mint_loaded(pairs)
        return True

    def _mint_loaded(self, more: Iterable[EntityKey] = ()) -> None:
        """Mint refs for instances loaded since the last time, and for more keys: one round trip.

        If that fails, the instances count as new again.
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
        if self._rowless:
            states = [each for each in states if each.persistent or each not in self._rowless]
        if self.labelled_classes:
            self.labelled_classes.note(states)
        return self._keys.of_all(states)

    def _remember_new_rows(self, *, other_bind: bool) -> None:
        """Look up the rows of the alternate keys of instances loaded since the last time."""
        if self._instances.with_alternates:
            attributes = self._keys.alternates(self._instances.take_with_alternates())
            self._keys.remember_rows(attributes, other_bind=other_bind)

    # Rows that are fetched

    def after_fetch(self, rows: Rows) -> None:
        """Note the labels of a chunk of rows; some of its instances may have been refreshed."""
        if self.labelled_classes:
            new = states_of(self.loaded[self._fetched :])
            self.labelled_classes.note(dict.fromkeys([*new, *_states_in(rows)]), minted=True)
        if len(self.loaded) > self._instances.trim_at:
            self._instances.forget_dropped()
        self._fetched = len(self.loaded)

    def mint_chunks(self, chunks: Iterator[Rows], *, other_bind: bool = False) -> Iterator[Rows]:
        """Yield chunks of rows once refs are minted for all instances that were loaded with them.

        `selectinload()` fetches inside the fetch of a chunk. The outermost mints for all, so that
        it is one round trip.
        """
        while True:
            self._depth += 1
            try:
                rows = next(chunks, None)
            finally:
                self._depth -= 1
            if rows is None:
                return
            if not self._depth:
                if self.eager:  # instances that were there before may have been refreshed
                    self.loaded += [state.obj for state in _states_in(rows)]
                self.look_ahead(other_bind=other_bind)
            yield rows

    def look_ahead(self, *, other_bind: bool = False) -> None:
        """Look up rows of alternate keys, and mint refs if eager, of newly loaded instances."""
        self.conversation.make_room()
        self._remember_new_rows(other_bind=other_bind)
        if self.eager:
            self._mint_loaded()

    def note_labels(self) -> None:
        """Note the labels of rows that were loaded, before their attributes may expire."""
        if self.labelled_classes:
            self.labelled_classes.note(states_of(self.loaded), minted=True)

    # Room in the cache of refs

    def make_room(self) -> None:
        """Drop cached refs that no instance shows, if there are many; never during a fetch."""
        if self._depth:
            return
        if self.conversation.make_room() and self.eager:
            # if the conversation was forgotten, its instances have no refs: attributes do no I/O
            self._mint_loaded()

    def keys_of_instances(self) -> list[EntityKey]:
        """Return the keys that instances may show; all instances count as new from now on."""
        states = self._instances.all()
        own = [state for state in states if getattr(state, BOUNDARY, None) is self]
        self._instances.make_new(own)
        return self._keys.of_all(own)

    def has_rows(self) -> bool:
        """Return whether there are instances of rows."""
        return any(
            state.key is not None and getattr(state, BOUNDARY, None) is self
            for state in self._instances.all()
        )


def _states_in(rows: Rows) -> Iterator[State]:
    """Yield the states of instances in rows: as the row itself, or among its values."""
    attribute = sqla.STATE
    for row in rows:
        for value in row if isinstance(row, tuple) else (row,):
            state: Any = getattr(value, attribute, None)
            if hasattr(state, BOUNDARY):
                yield state
