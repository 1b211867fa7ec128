"""The attribute boundary of one session: what its instances show, and what they accept.

Instances come in as the session loads, saves or is given them; each belongs to the boundary for
life, so its attributes read as refs after `close()` too. Keys come in and refs go out, minted
together for all that was loaded; refs come in and keys go out, at once or, for new objects, at the
flush.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, cast
from weakref import WeakSet

from sqlalchemy import BindParameter
from sqlalchemy.orm import Session

from alfred_refs import sqla
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.key_column import KeyColumn, keys_in, texts_in
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.mapping.refs import draft_named
from alfred_refs.session.alternate_keys import Alternates, Held
from alfred_refs.sqla import BOUNDARY, Rows, State
from alfred_refs.statements import shower
from alfred_refs.store import Gone

from .attributes import Carried, RefAttribute, RefList, instrumented, is_set
from .pending import PendingRefs, names_of_texts, wanted
from .tracking import HeldKeys, Labelled, LoadedInstances, states_of


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
        self.conversation = SessionConversation(conversation, self)
        self.alternates = Alternates(self.conversation, session)
        self._entities = self.conversation.entities
        self._by_alternate = self.looks_ahead = self._entities.may_have_alternates()
        self.showers: dict[RefAttribute, Callable[[Any], Any]] = {}
        self.numbered: dict[RefAttribute, Mapping[int, str]] = {}
        self.classes: set[type[Any]] = set()
        self._with_alternates: set[type[Any]] = set()
        self._instances = LoadedInstances()
        self.loaded = self._instances.new
        self._held = HeldKeys(self._entities, self.alternates)
        self.labelled = Labelled(self._entities, self.conversation, self._held)
        self.pending = PendingRefs(self._entities, self.alternates, self._session)
        self._fetching = 0
        self._fetched = 0  # of those loaded, how many were there before
        self._left = WeakSet[State]()
        self._has_left = False  # some instance since the last transaction

    def show_keys(self, raw: bool) -> None:
        """Have key attributes show and accept keys as they are, or refs again."""
        self.raw = raw
        self.look_anew()

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

    def fetched(self, rows: Rows) -> None:
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
        keys = instrumented(class_, self._entities)
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
        self.look_anew()

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
        self.alternates.remember(self._held.alternate(resolved))

    def put_text(self, state: State, name: str, text: Any) -> None:
        """Have an attribute hold refs as text again, which waits as before it was resolved."""
        state.dict[name] = text
        self.pending.add(state, name)

    def take_in(self, states: Iterable[State]) -> None:
        """Take in instances that are saved at once, without a flush.

        Raises:
            BadRefError: a ref in one cannot be used.
        """
        states = list(states)
        self.pending.put_keys(states)
        for state in states:
            self.enter(state)
        self.alternates.remember(self._held.alternate(states))

    def wait_for_rows(self, state: State) -> None:
        """Note that an instance was loaded anew, so that its alternate keys may name others."""
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
        if waits and not self.alternates.has_met_refs(wanted(column, value)):
            self.pending.add(state, attribute.key)
            return value
        given, value = value, self.pending.value(column, value)
        names_of_texts(state).discard(attribute.key)
        if column.by is not None and texts_in(column, given):
            self.alternates.remember([(state, attribute.key, column, value)])
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
            self.alternates.remember([held])
        self._meet(self.alternates.remembered(held))
        return self.alternates.shower(held, RefList)(held[3])

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

    def carried(self, state: State) -> Carried:
        """Return what shows an instance's refs elsewhere: at most one round trip."""
        columns = self._entities.of_class(state.class_).all
        held = {each[1]: each for each in self._held.attributes(state, columns)}
        keys = {name: self._held.pairs(each) for name, each in held.items()}
        self._meet([pair for pairs in keys.values() for pair in pairs])
        refs = {
            name: (held[name][3], self._shower(held[name])(held[name][3]))
            for name, pairs in keys.items()
            if pairs or isinstance(held[name][3], list)
        }
        return Carried(state.class_, columns, refs)

    def _shower(self, held: Held) -> Callable[[Any], Any]:
        column = held[2]
        is_plain = column.by is None
        return shower(column, self.conversation) if is_plain else self.alternates.shower(held)

    def look_anew(self) -> None:
        """Have what all attributes show looked up anew."""
        self.showers, self.numbered = {}, {}

    # Keys that are met together

    def _meet(self, pairs: Collection[EntityKey]) -> bool:
        """Make sure that keys can be shown, together with those of all instances loaded so far.

        Returns:
            whether one of them could not be shown before.
        """
        if self.conversation.has_met(pairs):
            return False
        self.conversation.make_room()
        self._meet_new(pairs)
        return True

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

    def new_keys(self, alternates: Alternates | None = None) -> list[EntityKey]:
        """Return the keys of the instances loaded since the last time: primary keys first."""
        self.remember_new(alternates)
        states = self._instances.take_new()
        self._fetched = 0
        if self._left:
            states = [each for each in states if each.persistent or each not in self._left]
        if self.labelled:
            self.labelled.note(states)
        return self._held.of_all(states)

    def remember_new(self, alternates: Alternates | None = None) -> None:
        """Look up which rows the alternate keys name of instances loaded since the last time."""
        if self._instances.waiting:
            waiting = self._instances.take_waiting()
            (alternates or self.alternates).remember(self._held.alternate(waiting))

    def make_room(self) -> None:
        """Let go of refs that no instance shows, if there are many; never during a fetch."""
        if self._fetching:
            return
        if self.alternates.rows:
            self.alternates.trim()
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
    found = sqla.attribute_behind(parameter)
    if found is None:
        return False
    state, name = found
    if isinstance(getattr(state, BOUNDARY, None), Boundary):
        return name not in names_of_texts(state)
    return not is_set(state, name)
