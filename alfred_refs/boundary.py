"""The attribute boundary of one session: what its instances show, and what they accept.

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

from sqlalchemy import BindParameter
from sqlalchemy.orm import InstanceState, Session

from . import sqla
from .alternates import Alternates, Held, forget_reloaded
from .cache import Wanted
from .columns import KeyColumn
from .conversation import Conversation
from .entities import ClassKeys
from .instances import BOUNDARY, RefAttribute, UuidAttribute, instrument
from .keys import Key
from .labels import Label
from .listing import RefList
from .pickled import Carried, is_set
from .rewriting import shower
from .session_conversation import SessionConversation
from .sqla import Rows, There
from .store import EntityKey
from .values import keys_in, texts_in, with_keys

_TEXTS = "alfred_refs_texts"  # of a state: names of the attributes whose refs are not resolved yet
_FEW = 1_000  # loaded instances remembered before looking which of them are still there

State = InstanceState[Any]


class Boundary:
    """What the instances of one session show and accept.

    Args:
        conversation: what the refs are valid in.
        session: whose instances they are; a state tells so by its `hash_key`.

    Attributes:
        conversation: the same, as the session sees it.
        alternates: the same, where alternate keys are keys like others.
        eager: whether keys are minted inside the call that fetches or flushes them, and refs that
            this process has not met are resolved at the flush: no attribute does I/O.
        showers: what gives the ref of a key, for the attributes shown so far.
        numbered: the refs by the number of their UUID, for the same attributes as far as they
            have UUIDs.
        classes: those that have been met and have no alternate keys.
        labelled: those that have been met and have labels, with what that says.
        loaded: the instances whose keys nobody has met yet, in the order of loading.
    """

    def __init__(self, conversation: Conversation, session: Session) -> None:
        self.eager = False
        self._raw = False
        self._session = session.hash_key
        self.conversation = SessionConversation(conversation, self)
        self.alternates = Alternates(self.conversation, session)
        self._entities = conversation.plans.entities
        self._by_alternate = self._entities.may_have_alternates()
        self.showers: dict[RefAttribute, Callable[[Any], Any]] = {}
        self.numbered: dict[RefAttribute, Mapping[int, str]] = {}
        self.classes: set[type[Any]] = set()
        self.labelled: dict[type[Any], tuple[ClassKeys, Label]] = {}
        self._with_alternates: set[type[Any]] = set()
        # the states' own weak references: with the states, boundary and list would be a ring,
        # and all that a session ever read would wait for the collector
        self.loaded: list[There] = []
        self._known: list[There] = []  # all others
        self._waiting: list[There] = []  # for the rows of their alternate keys
        self._many = self._many_known = _FEW
        self._new: dict[State, None] = {}
        self._fetching = 0

    @property
    def raw(self) -> bool:
        """Whether key attributes show and accept keys as they are."""
        return self._raw

    @raw.setter
    def raw(self, raw: bool) -> None:
        self._raw = raw
        self.look_anew()

    @property
    def looks_ahead(self) -> bool:
        """Whether something is asked for when instances are fetched or flushed."""
        return self.eager or self._by_alternate

    def enter(self, state: Any) -> None:
        """Take in an instance that the session loads or is given; its row may come later."""
        if state.class_ not in self.classes and state.class_ not in self._with_alternates:
            self._instrument(state.class_)
        state.alfred_refs = self
        self.loaded.append(state.obj)
        if state.class_ in self._with_alternates:
            self._waiting.append(state.obj)
        self.fetched()

    def fetched(self) -> None:
        """Forget the instances that the program has dropped, once there may be many of them."""
        if len(self.loaded) > self._many:
            self.loaded[:] = [there for there in self.loaded if there() is not None]
            self._many = max(_FEW, 2 * len(self.loaded))

    def _instrument(self, class_: type[Any]) -> None:
        columns = self._entities.of_class(class_).all
        instrument(class_, columns)
        for name, column in columns.items():
            attribute = getattr(class_, name)
            if type(attribute) is RefAttribute and column.has_uuids:
                attribute.__class__ = UuidAttribute
        keys = self._entities.of_class(class_)
        if keys.label is not None:
            self.labelled[class_] = keys, keys.label
        if keys.alternate:
            forget_reloaded(class_)
            self._with_alternates.add(class_)
        else:
            self.classes.add(class_)

    def make_room(self) -> None:
        """Let go of refs that no instance shows, if there are many; never during a fetch."""
        if not self._fetching and self.alternates.make_room() and self.eager:
            # none is new if they were taken along, all are if the conversation was forgotten
            self._meet_new([])

    def look_anew(self) -> None:
        """Have what all attributes show looked up anew."""
        self.showers, self.numbered = {}, {}

    def keys_of_instances(self) -> list[EntityKey]:
        """Return the keys that instances may show: from now on all of them are as just loaded."""
        states = dict.fromkeys(_states_of([*self._known, *self.loaded]))
        mine = [state for state in states if getattr(state, BOUNDARY, None) is self]
        self._known.clear()
        self.loaded[:] = [state.obj for state in mine]
        return self._keys_of_all(mine)

    def _forget_dead(self) -> None:
        self._known = [state.obj for state in dict.fromkeys(_states_of(self._known))]
        self._many_known = max(_FEW, 2 * len(self._known))

    def enter_new(self, state: State, *, flushing: bool = False) -> None:
        """Take in an instance made by the program: its key attributes may have refs as text.

        They are resolved at the next flush, all together: adding an object does no I/O. During a
        flush, to which an object may be added by a `before_flush` of the application's, they are
        resolved at once.

        Args:
            state: of the instance.
            flushing: whether the session is in a flush.

        Raises:
            BadRefError: one cannot be used; only during a flush.
        """
        self.enter(state)
        if self._raw:
            return
        if flushing:
            for _, name, value in self._resolved([state]):
                state.dict[name] = value
            return
        texts = {name for name, _, _ in self._unresolved(state)}
        if texts:
            state.__dict__[_TEXTS] = texts
            self._new[state] = None

    def _unresolved(self, state: State) -> Iterator[tuple[str, KeyColumn, Any]]:
        """Yield the attributes that the program has set to text, which is a ref.

        Text that was loaded is a key.
        """
        for name, column in self._entities.of_class(state.class_).all.items():
            value = state.dict.get(name)
            if texts_in(column, value) and is_set(state, name):
                yield name, column, value

    def resolve_new(self) -> None:
        """Put keys in place of the refs that instances were made with: at most one round trip.

        Raises:
            BadRefError: one cannot be used; all instances stay as they are.
        """
        waiting = [state for state in self._new if state.session_id == self._session]
        for state, name, value in self._resolved(waiting, _names_of_texts):
            state.dict[name] = value
        for state in waiting:
            state.__dict__.pop(_TEXTS, None)
        self._new.clear()
        self.alternates.remember(self._alternates_in(waiting))

    def take_in(self, states: Iterable[State]) -> None:
        """Take in instances that are saved at once, without a flush.

        Raises:
            BadRefError: a ref in one cannot be used.
        """
        states = list(states)
        for state, name, value in self._resolved(states):
            state.dict[name] = value
        for state in states:
            self.enter(state)
        self.alternates.remember(self._alternates_in(states))

    @contextmanager
    def lent_keys(self, states: Iterable[State]) -> Iterator[None]:
        """Put keys in place of refs in other people's instances while they are merged.

        Raises:
            BadRefError: one cannot be used.
        """
        resolved = self._resolved(states)
        before = [state.dict[name] for state, name, _ in resolved]
        for state, name, value in resolved:
            state.dict[name] = value
        try:
            yield
        finally:
            for (state, name, _), value in zip(resolved, before, strict=True):
                state.dict[name] = value

    def _resolved(
        self, states: Iterable[State], names: Callable[[State], Container[str]] | None = None
    ) -> list[tuple[State, str, Any]]:
        """Return what unresolved attributes, of these names, hold once their texts are keys."""
        found = [
            (state, *rest)
            for state in states
            for rest in self._unresolved(state)
            if names is None or rest[0] in names(state)
        ]
        keys = self._keys_of([(column, value) for _, _, column, value in found])
        return [
            (state, name, with_keys(column, value, keys)) for state, name, column, value in found
        ]

    def with_keys(
        self, class_: type[Any], records: Iterable[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return copies of records of a class with keys in place of refs.

        Raises:
            BadRefError: one cannot be used.
        """
        columns = self._entities.of_class(class_).all
        copies = [dict(record) for record in records]
        held = [(copy, name) for copy in copies for name in copy.keys() & columns.keys()]
        keys = self._keys_of([(columns[name], copy[name]) for copy, name in held])
        for copy, name in held:
            copy[name] = with_keys(columns[name], copy[name], keys)
        return copies

    def with_refs(self, class_: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a record of a class with refs in place of keys."""
        columns = self._entities.of_class(class_).all
        held = [name for name in record if name in columns and record[name] is not None]
        self.alternates.make_room()
        self.alternates.meet(
            [pair for name in held for pair in keys_in(columns[name], record[name])]
        )
        shown = {n: shower(columns[n], self.alternates)(record[n]) for n in held}
        return {**record, **shown}

    def _keys_of(self, values: Iterable[tuple[KeyColumn, Any]]) -> Mapping[Wanted, Key]:
        """Return the keys of all texts in values: at most one round trip."""
        wanted = [want for column, value in values for want in _wanted(column, value)]
        return dict(zip(wanted, self.alternates.resolve_wanted(wanted), strict=True))

    def identity(self, class_: type[Any], ident: Any) -> Any:
        """Return an identity, as `Session.get` takes it, with keys in place of refs.

        Raises:
            BadRefError: a text in it is no ref that can be used.
        """
        keys = self._entities.of_class(class_)
        if isinstance(ident, Mapping):
            return {n: self._key(keys.primary.get(n), value) for n, value in ident.items()}
        if isinstance(ident, Sequence) and not isinstance(ident, str):
            # as many as were given: if that is too many, SQLAlchemy says so
            columns = itertools.chain(keys.identity, itertools.repeat(None))
            return tuple(map(self._key, columns, ident))
        return self._key(keys.identity[0], ident)

    def _key(self, column: KeyColumn | None, value: Any) -> Any:
        return value if column is None else self._accepted(column, value)

    def _accepted(self, column: KeyColumn, value: Any) -> Any:
        return with_keys(column, value, self._keys_of([(column, value)]))

    def show(self, attribute: RefAttribute, instance: object, value: Any) -> Any:
        """Return what stands for the value of an attribute that `showers` has no answer for.

        A key met for the first time is minted together with those of all instances loaded so far,
        so that they are numbered in the order of loading, in one round trip.
        """
        column = self._column(attribute)
        if self._raw or column is None:
            return value
        state = sqla.state_of(instance)
        is_text = attribute.key in _names_of_texts(state) and is_set(state, attribute.key)
        if is_text or not keys_in(column, value):
            return value
        if column.by is not None:
            return self._show_alternate((state, attribute.key, column, value))
        self._meet(keys_in(column, value))
        show = self.showers[attribute] = shower(column, self.conversation, RefList)
        if column.has_uuids:
            self.numbered[attribute] = self.conversation.refs_of(column.entity)
        return show(value)

    def _meet(self, pairs: Collection[EntityKey]) -> None:
        """Make sure that keys can be shown, together with those of all instances loaded so far."""
        if not self.eager:
            self.conversation.confirm_back()
        if not self.conversation.has_met(pairs):
            self.conversation.make_room()
            self._meet_new(pairs)

    def _show_alternate(self, held: Held) -> Any:
        """Return what stands for an alternate key, by the row that it named when it was loaded."""
        if held[0].session_id == self._session:
            self.alternates.remember([held])
        self._meet(self.alternates.remembered(held))
        return self.alternates.shower(held, RefList)(held[3])

    def met(self, chunks: Iterator[Rows], alternates: Alternates | None = None) -> Iterator[Rows]:
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
                self.look_ahead(alternates)
            yield rows

    def enter_all(self, instances: Iterable[object]) -> None:
        """Take in instances that have changed, and may have new keys."""
        for instance in instances:
            self.enter(sqla.state_of(instance))

    def look_ahead(self, alternates: Alternates | None = None) -> None:
        """Look up, and mint if wanted, the keys of instances loaded since the last time."""
        (alternates or self.alternates).make_room()
        self.remember_new(alternates)
        if self.eager:
            self._meet_new([], alternates)

    def _meet_new(self, more: Iterable[EntityKey], alternates: Alternates | None = None) -> None:
        """Mint the keys of instances loaded since the last time, and more, in one round trip.

        Where that fails, they are minted together the next time, not one by one.
        """
        loaded = [*self.loaded]
        try:
            self.conversation.meet([*self.new_keys(alternates), *more])
        except BaseException:
            if not self.loaded:
                self.loaded.extend(loaded)
            raise

    def wait_for_rows(self, state: State) -> None:
        """Note that an instance was loaded anew, so that its alternate keys may name others."""
        self._waiting.append(state.obj)

    def remember_new(self, alternates: Alternates | None = None) -> None:
        """Look up which rows the alternate keys name of instances loaded since the last time.

        Args:
            alternates: what looks them up, where the statement has its own.
        """
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            held = self._alternates_in(_states_of(waiting))
            (alternates or self.alternates).remember(held)

    def _alternates_in(self, states: Iterable[State]) -> Iterator[Held]:
        for state in states:
            yield from self._held(state, self._entities.of_class(state.class_).alternate)

    def _held(self, state: State, columns: Mapping[str, KeyColumn]) -> list[Held]:
        """Return what attributes of an instance hold, but for refs that are not resolved yet."""
        texts = _names_of_texts(state)
        return [(state, n, c, state.dict.get(n)) for n, c in columns.items() if n not in texts]

    def new_keys(self, alternates: Alternates | None = None) -> list[EntityKey]:
        """Return the keys of the instances loaded since the last time: primary keys first."""
        self.remember_new(alternates)
        self._known += self.loaded
        states = _states_of(self.loaded)
        self.loaded.clear()
        if len(self._known) > self._many_known:
            self._forget_dead()
        if self.labelled:
            self._note_labels(states)
        return self._keys_of_all(states)

    def _keys_of_all(self, states: Collection[State]) -> list[EntityKey]:
        classes = {state.class_: self._entities.of_class(state.class_) for state in states}
        primary = (self._keys(state, classes[state.class_].primary) for state in states)
        foreign = (self._keys(state, classes[state.class_].foreign) for state in states)
        return list(itertools.chain(*primary, *foreign))

    def _note_labels(self, states: Iterable[State], *, minted: bool = False) -> None:
        """Note labels that the registry lacks, as far as they are loaded."""
        noted = {}
        for state in states:
            if state.class_ not in self.labelled:
                continue
            keys, label = self.labelled[state.class_]
            for pair in self._keys(state, keys.primary):
                if self.conversation.lacks_label(pair, minted=minted):
                    noted[pair] = label.of(state.dict)
        self.conversation.note_labels({p: each for p, each in noted.items() if each is not None})

    def learn_labels(self) -> None:
        """Note labels of refs that have none, before what is loaded may expire."""
        if self.labelled and self.conversation.has_unlabelled:
            self._note_labels(_states_of(self.loaded), minted=True)

    def changed_labels(self, instances: Iterable[object]) -> dict[EntityKey, str]:
        """Return the labels that a flush has changed, of those instances."""
        changed: dict[EntityKey, str] = {}
        for state in map(sqla.state_of, instances):
            if state.class_ not in self.labelled:
                continue
            keys, source = self.labelled[state.class_]
            label = source.of(state.dict)
            if label is not None and label != source.of(sqla.loaded_before(state)):
                changed |= dict.fromkeys(self._keys(state, keys.primary), label)
        return changed

    def _keys(self, state: State, columns: Mapping[str, KeyColumn]) -> Iterator[EntityKey]:
        texts = _names_of_texts(state)
        for name, column in columns.items():
            if name not in texts:
                yield from self._pairs((state, name, column, state.dict.get(name)))

    def _pairs(self, held: Held) -> list[EntityKey]:
        _, _, column, value = held
        return keys_in(column, value) if column.by is None else self.alternates.remembered(held)

    def carried(self, state: State) -> Carried:
        """Return what shows an instance's refs elsewhere: at most one round trip."""
        columns = self._entities.of_class(state.class_).all
        held = {each[1]: each for each in self._held(state, columns)}
        keys = {name: self._pairs(each) for name, each in held.items()}
        self._meet([pair for pairs in keys.values() for pair in pairs])
        refs = {
            name: (held[name][3], self._shower(held[name])(held[name][3]))
            for name, pairs in keys.items()
            if pairs or isinstance(held[name][3], list)
        }
        return Carried(state.class_, columns, refs, instrument)

    def _shower(self, held: Held) -> Callable[[Any], Any]:
        column = held[2]
        is_plain = column.by is None
        return shower(column, self.conversation) if is_plain else self.alternates.shower(held)

    def accept(self, attribute: RefAttribute, instance: object, value: Any) -> Any:
        """Return what an attribute keeps when the program sets it: the key that a ref names.

        Raises:
            BadRefError: the text is no ref that can be used; the attribute stays as it is.
        """
        column = self._column(attribute)
        state = sqla.state_of(instance)
        if self._raw or column is None:
            _names_of_texts(state).discard(attribute.key)
            return value
        waits = self.eager or (column.by is not None and state.session_id != self._session)
        waits = waits and not sqla.is_flushing(state.session)
        if waits and not self.alternates.has_met_refs(_wanted(column, value)):
            setattr(state, _TEXTS, {*_names_of_texts(state), attribute.key})
            self._new[state] = None
            return value
        given, value = value, self._accepted(column, value)
        _names_of_texts(state).discard(attribute.key)
        if column.by is not None and texts_in(column, given):
            self.alternates.remember([(state, attribute.key, column, value)])
        return value

    def _column(self, attribute: RefAttribute) -> KeyColumn | None:
        return self._entities.of_class(cast("type[Any]", attribute.class_)).all.get(attribute.key)


def _wanted(column: KeyColumn, value: Any) -> list[Wanted]:
    return [(text, column.space) for text in texts_in(column, value)]


def _states_of(loaded: Iterable[There]) -> list[State]:
    """Return the states of the instances that are still there."""
    return [sqla.state_of(each) for there in loaded if (each := there()) is not None]


def _states_in(rows: Rows) -> Iterator[State]:
    """Yield the states of instances: a row may be one itself, or have some among its values."""
    for row in rows:
        for value in row if isinstance(row, tuple) else (row,):
            state: Any = getattr(value, "_sa_instance_state", None)
            if hasattr(state, BOUNDARY):
                yield state


def _names_of_texts(state: State) -> set[str]:
    return getattr(state, _TEXTS, None) or set()


def holds_key(parameter: BindParameter[Any]) -> bool:
    """Tell whether a parameter's value is a key, though it may be text: it is an instance's own.

    So it is where an instance is compared with a relationship; only what the program has set on
    the instance, and nobody has resolved yet, is a ref.
    """
    found = sqla.attribute_behind(parameter)
    if found is None:
        return False
    state, name = found
    if isinstance(getattr(state, BOUNDARY, None), Boundary):
        return name not in _names_of_texts(state)
    return not is_set(state, name)
