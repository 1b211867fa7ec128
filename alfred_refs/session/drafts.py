"""Drafts as instances: build, add, save with the flush.

Drafts in a session: read as objects, saved with their rows, and drafts again after a rollback.

A draft's key is decided before its row is inserted, and the registry is told when the row is
committed: see `saving`.

Objects of drafts: what `Session.get` gives for the ref of what is not saved.

>>> recipe = session.get(Recipe, "gen_recipe_1")
>>> recipe.id, recipe in session
('gen_recipe_1', False)

The instance belongs to no session yet and has the draft's ref where its key will be, so that
adding it saves the draft (`saving`). Rows inside the content are new instances; rows that it names
are loaded where a relationship needs the object. Instances are made by whatever `__init__` their
classes have: SQLAlchemy's takes all attributes by name, a dataclass's only some.

What a session does with drafts in new objects: their rows, each once.

    object, whose key attribute has the draft's ref as text
    flush ──▶ key reserved for the draft: 1 round trip ──▶ key in place of the ref ──▶ INSERT
    commit ─▶ the registry is told that the row is there: 1 round trip

Until a transaction ends its drafts are saved for itself alone: their refs name its rows. What is
rolled back, to a savepoint or to the begin, is a draft again, and its object has the draft's ref
again. A crash between the commit and the note is made up for by looking for the row (`settling`).
Whoever else saves the same draft inserts a row of the same key, and is refused by the table.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from graphlib import CycleError, TopologicalSorter
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, cast

from sqlalchemy import Column, Connection, PrimaryKeyConstraint, Table, inspect, select
from sqlalchemy.exc import CircularDependencyError, IntegrityError, InvalidRequestError
from sqlalchemy.orm import InstanceState, Mapper, RelationshipProperty, Session, UOWTransaction

from alfred_refs import sqla
from alfred_refs.conversation.draft_content import NewRow, class_of, parse_content
from alfred_refs.conversation.draft_rows import by_entity, check_new_keys, new_keys
from alfred_refs.conversation.drafts import Draft
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import (
    CircularDraftsError,
    DraftContentError,
    DraftRefError,
    DraftTwiceError,
    ForeignRowError,
    SavedDraftError,
    SetupError,
)
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn, texts_in
from alfred_refs.mapping.keys import EntityKey, Key, draft_named
from alfred_refs.session.instances import Boundary, Held
from alfred_refs.session.transactions import Transactions


def instance_of(model: type[Any], record: Mapping[str, Any]) -> Any:
    """Return a new instance: `__init__` is given what it takes, the rest is set.

    Raises:
        SetupError: `__init__` needs something that is no attribute of the class.
    """
    parameters = signature(model).parameters
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values()):
        return model(**record)
    named = {name: each for name, each in parameters.items() if each.kind in _BY_NAME}
    given = {name: record[name] for name in named if name in record}
    nothing = {
        name: _nothing(model, each)
        for name, each in parameters.items()
        if name not in given
        and each.default is Parameter.empty
        and each.kind is not Parameter.VAR_POSITIONAL
    }
    instance = model(**given, **nothing)
    for name in record.keys() - given.keys():
        setattr(instance, name, record[name])
    return instance


_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _nothing(model: type[Any], parameter: Parameter) -> Any:
    """Return what stands for no value of an attribute: a default of the database, or null."""
    mapper = inspect(model).mapper
    if parameter.kind in _BY_NAME and parameter.name in mapper.attrs:
        relationship = mapper.relationships.get(parameter.name)
        is_many = relationship is not None and relationship.uselist
        return (relationship.collection_class or list)() if is_many else None
    raise SetupError(
        f"class {model.__qualname__!r} cannot be made from a record: its __init__ needs "
        f"{parameter.name!r}, which is no attribute",
        "give it a default, or list the class in read_only",
    )


@dataclass(frozen=True, slots=True)
class Link:
    """One instance that another was said to be related to."""

    instance: Any  # a new one
    name: str  # of its relationship
    other: Any  # what that leads to, new or not
    ref: str | None  # by which the other was named, if it was


class Builder:
    """Makes instances of records; `named` gives those of rows that are named by their refs."""

    def __init__(self, named: Callable[[type[Any], str], Any]) -> None:
        self._named = named
        self.links: list[Link] = []  # all that was put in so far, as it was said
        self._made: dict[int, tuple[NewRow, Any]] = {}  # with the record, or its id is another's
        self._there: set[tuple[int, str, int]] = set()  # said from either side

    def build(self, record: NewRow, **more: Any) -> Any:
        """Return a new instance, without what it is related to.

        Args:
            record: what it has.
            more: values by attribute beside those; they stay, whatever `__init__` makes of them.
        """
        instance = instance_of(record.model, {**record.values, **more})
        for name, value in more.items():
            setattr(instance, name, value)  # an __init__ may make keys of its own
        self._made[id(record)] = record, instance
        return instance

    def made_of(self, record: NewRow) -> Any:
        """Return the instance that was made of a record, that of a row inside another too."""
        return self._made[id(record)][1]

    @property
    def made(self) -> list[tuple[NewRow, Any]]:
        """The records that instances were made of, with these."""
        return [*self._made.values()]

    def relate(self, instance: Any, record: NewRow) -> None:
        """Put in what an instance is related to, at any depth.

        Raises:
            DraftContentError: a row lacks the value by which a collection is to find it.
        """
        mapper: Mapper[Any] = inspect(record.model).mapper
        for name, rows in record.related.items():
            target = mapper.relationships[name].mapper.class_
            for row in rows:
                if isinstance(row, str):
                    other, ref = self._named(target, row), row
                else:
                    other, ref = self.build(row), None
                    self.relate(other, row)
                self.links.append(Link(instance, name, other, ref))
                self._relate(instance, mapper.relationships[name], other)

    def _relate(self, instance: Any, relationship: RelationshipProperty[Any], other: Any) -> None:
        """Relate two instances, once: a list of an association would have a row twice."""
        name = relationship.key
        if relationship.uselist and (id(instance), name, id(other)) in self._there:
            return
        try:
            sqla.set_related(instance, name, other)
        except InvalidRequestError as error:
            if "is not populated" not in str(error):
                raise
            raise DraftContentError(
                f"a row in field {name!r} of a draft lacks the value that tells it apart there",
                "give it that value",
            ) from None
        self._there.add((id(instance), name, id(other)))
        backs = sqla.reverse_of(relationship)
        self._there.update((id(other), back, id(instance)) for back in backs)


class DraftObjects:
    """The objects of drafts that one session, which is not kept alive, has given."""

    def __init__(self, session: Session, conversation: SessionConversation) -> None:
        self._session = weakref.ref(session)
        self._conversation = conversation
        self._entities = conversation.entities
        # by their refs and versions
        self._built: weakref.WeakValueDictionary[tuple[str, int], Any]
        self._built = weakref.WeakValueDictionary()

    def get(self, class_: type[Any], ident: Any, options: Mapping[str, Any]) -> Any:
        """Return the object of a draft, as `Session.get` would with these options.

        Returns:
            `None` where the identity is that of a row, or names a draft whose row is there.

        Raises:
            BadRefError: it is no draft of the conversation and class, or was discarded; or a row
                is to be locked and there is none.
            DraftContentError: it is of another class, or its content does not fit any more.
        """
        ref = _draft_in(ident)
        entity = None if ref is None else self._entities.of_class(class_).own
        if ref is None or entity is None or self._conversation.is_row(ref, entity):
            return None
        [draft] = self._conversation.read_drafts([ref], class_)
        if draft.state != "pending":
            return None
        if options.get("with_for_update"):
            raise DraftRefError(ref, entity)
        of = class_of(class_, draft.content)
        if not issubclass(of, class_):
            raise DraftContentError(
                f"{ref!r} is a draft of class {of.__name__!r}, and not of {class_.__name__!r}",
                "get it as what it is",
            )
        known = self._find_object(draft, fresh=bool(options.get("populate_existing")))
        return self._build(class_, draft) if known is None else known

    def _find_object(self, draft: Draft, *, fresh: bool) -> Any:
        """Return the object that is to save a draft, or was made of it as it is now."""
        for instance in cast(Session, self._session()).new:
            [*names] = self._entities.of_class(type(instance)).primary
            if len(names) == 1 and sqla.state_of(instance).dict.get(names[0]) == draft.ref:
                return instance
        made = None if fresh else self._built.get((draft.ref, draft.version))
        return None if made is None or sqla.state_of(made).key is not None else made

    def _build(self, class_: type[Any], draft: Draft) -> Any:
        builder = Builder(self._named)
        record = parse_content(class_, draft.content, self._entities)
        [name] = self._entities.of_class(record.model).primary
        instance = builder.build(record, **{name: draft.ref})
        # before what it is related to, which may be related to it
        self._built[draft.ref, draft.version] = instance
        try:
            builder.relate(instance, record)
        except BaseException:
            del self._built[draft.ref, draft.version]
            raise
        return instance

    def _named(self, class_: type[Any], ref: str) -> Any:
        session = cast(Session, self._session())  # which gets the draft
        with session.no_autoflush:
            found = session.get(class_, ref)
        if found is None:  # it is there, and not for the session to see
            raise ForeignRowError(class_.__name__, ref, named=True)
        return found


def _draft_in(ident: Any) -> str | None:
    """Return the draft's ref that an identity is, alone or as the only part of it."""
    parts = [*ident.values()] if isinstance(ident, Mapping) else ident
    if isinstance(parts, list | tuple) and len(parts) == 1:
        parts = parts[0]
    return parts if isinstance(parts, str) and draft_named(parts) is not None else None


State = InstanceState[Any]

_UNIQUE_VIOLATION = "23505"


class DraftSaving:
    """Saves the drafts of a conversation in one session, which is not kept alive."""

    def __init__(self, session: Session, boundary: Boundary, transactions: Transactions) -> None:
        self._session = weakref.ref(session)
        self._boundary = boundary
        self._transactions = transactions
        self._conversation = boundary.conversation
        self._entities = boundary.conversation.entities
        # the new instances of the last flush, by the refs of their drafts
        self._flushed: Mapping[str, State] = {}
        self._conversation.row_finder = SessionRows(session, self._entities)

    def resolve_new(self, flush: UOWTransaction) -> None:
        """Put keys in place of the refs that instances wait with, those of drafts included.

        Raises:
            BadRefError: one cannot be used; all instances stay as they are, and all drafts.
        """
        waiting = self._boundary.pending.waiting()
        held = [each for each in waiting if _drafts_in(*each[2:])]
        if not held:  # the common way
            self._boundary.resolve_new(waiting)
            return
        self._flushed = new = self._new(held)
        pairs = _in_order(held, new)
        drafts = self._reserve_keys(new) if new else {}
        keys = {ref: (draft.entity, cast(Key, draft.key)) for ref, draft in drafts.items()}
        saving = self._conversation.saving
        saving.update(keys)
        try:
            self._boundary.resolve_new(waiting)
        except BaseException:
            for ref in keys:
                del saving[ref]
            raise
        self.resolved(held, keys)
        self._transactions.labelled(self._labels(new, drafts))
        if pairs:
            sqla.save_in_order(flush, pairs)

    def on_end(self) -> None:
        """Forget the last flush: nobody asks of it when its transaction is over."""
        self._flushed = {}

    def resolved(
        self, held: Iterable[Held], keys: Mapping[str, EntityKey] = MappingProxyType({})
    ) -> None:
        """Note what instances held before keys took the place of drafts' refs.

        Args:
            held: by its attributes.
            keys: of the rows that drafts among the instances become, by their refs.
        """
        texts = [
            _Text(state.obj, name, value, state.dict[name])
            for state, name, column, value in held
            if _drafts_in(column, value)
        ]
        if texts:
            self._transactions.saving(keys, partial(self._undo, keys, texts))

    def _new(self, held: Iterable[Held]) -> dict[str, State]:
        """Return the new instances that are to become the rows of drafts, by their refs."""
        new: dict[str, State] = {}
        for state, name, column, value in held:
            keys = self._entities.of_class(state.class_)
            ref = draft_named(value) if isinstance(value, str) else None
            if state.key is not None or name not in keys.primary or ref is None:
                continue
            if keys.own == ref.entity == column.entity:
                if value in new or value in self._conversation.saving:
                    raise DraftTwiceError(value, keys.own)
                new[value] = state
        return new

    def _labels(
        self, new: Mapping[str, State], drafts: Mapping[str, Draft]
    ) -> dict[EntityKey, str]:
        """Return what rows are to be called that were called something else as drafts."""
        labels: dict[EntityKey, str] = {}
        for ref, draft in drafts.items():
            label = self._entities.of_class(new[ref].class_).label
            text = None if label is None else label.of(new[ref].dict)
            if text is not None and text != draft.label:
                labels[draft.entity, cast(Key, draft.key)] = text
        return labels

    def _reserve_keys(self, new: Mapping[str, State]) -> dict[str, Draft]:
        """Return drafts with the keys that new instances get, which are theirs from now on.

        Raises:
            BadRefError: one is no draft that can be saved.
        """
        by_class: dict[type[Any], list[str]] = {}
        for ref, state in new.items():
            by_class.setdefault(state.class_, []).append(ref)
        wanted: dict[str, Key] = {}
        for class_, refs in by_class.items():
            wanted |= zip(refs, self._new_keys(class_, len(refs)), strict=True)
        drafts = self._conversation.reserve_keys(wanted)
        for ref, draft in drafts.items():
            if draft.saved is not None:
                raise SavedDraftError(ref, draft.saved)
        return drafts

    def _new_keys(self, class_: type[Any], count: int) -> list[Key]:
        entities = self._entities
        # there is one: the rows have refs of their own
        column = cast("Column[Any]", entities.primary_of(entities.name_of(class_)))
        check_new_keys(column, class_)
        session = cast(Session, self._session())  # which flushes
        held = cast(KeyColumn, entities.of_column(column))
        with sqla.unconfined_lookup(session):
            where = {"mapper": sqla.mapper_of_table(column.table)}
            connection = session.connection(bind_arguments=where)
            return new_keys(connection, column, held, count)

    def _undo(self, refs: Iterable[str], texts: Sequence[_Text]) -> None:
        """Have what was to become rows of drafts be of drafts again, and what named them."""
        for ref in refs:
            self._conversation.saving.pop(ref, None)
        for text in texts:
            text.put_back(self._boundary)

    def circle(self, error: CircularDependencyError) -> CircularDraftsError | None:
        """Return the error for drafts that name each other by relationships; `None` if none do."""
        states = sqla.states_in_cycle(error)
        refs = [ref for ref, state in self._flushed.items() if state in states]
        return CircularDraftsError(refs) if refs else None

    # What others have saved

    def saved_meanwhile(self, error: IntegrityError) -> SavedDraftError | None:
        """Return the error for a draft that somebody else has saved; `None` if none was.

        Their rows have one key, so the table refuses the second. The transaction is over by then,
        so the first is looked for outside of it.
        """
        refs = [
            ref
            for ref, (entity, _) in self._conversation.saving.items()
            if _violates(error, self._entities.primary_of(entity))
        ]
        for draft in self._conversation.outside().read_drafts(refs):
            if draft.saved is not None:
                return SavedDraftError(draft.ref, draft.saved)
        return None


class SessionRows:
    """Looks for rows of drafts on a session's own connection, whoever they belong to."""

    def __init__(self, session: Session, entities: Entities) -> None:
        self._session = weakref.ref(session)
        self._entities = entities

    def committed(self, pairs: Iterable[EntityKey]) -> bool:
        """See `Rows.committed`: no outer transaction may yet undo it."""
        session = self._session()
        mappers = [self._mapper(entity) for entity in by_entity(pairs)]
        binds = [session.get_bind(m) for m in mappers if session is not None and m is not None]
        return not any(isinstance(bind, Connection) and bind.in_transaction() for bind in binds)

    def _mapper(self, entity: str) -> Mapper[Any] | None:
        column = self._entities.primary_of(entity)
        return None if column is None else sqla.mapper_of_table(column.table)

    def existing(self, pairs: Collection[EntityKey]) -> Collection[EntityKey]:
        """Return those of these keys that rows have: one query for each entity."""
        session = self._session()
        found: list[EntityKey] = []
        for entity, keys in by_entity(pairs).items():
            column, mapper = self._entities.primary_of(entity), self._mapper(entity)
            held = None if column is None else self._entities.of_column(column)
            if session is None or column is None or held is None or mapper is None:
                continue
            if sqla.can_wait(session.get_bind(mapper).engine):
                values = [held.from_key(key) for key in keys]
                with sqla.unconfined_lookup(session):
                    connection = session.connection(bind_arguments={"mapper": mapper})
                    there = connection.scalars(select(column).where(column.in_(values))).all()
                found += [(entity, held.to_key(value)) for value in there]
        return found


@dataclass(frozen=True, slots=True)
class _Text:
    """A draft's ref in an attribute of an instance, which a key has taken the place of."""

    there: sqla.WeakInstance
    name: str
    text: Any
    key: Any

    def put_back(self, boundary: Boundary) -> None:
        """Put the ref back into the instance, if the program has not put in something else.

        One that was there before the transaction is loaded anew, as all instances are.
        """
        instance = self.there()
        if instance is None:
            return
        state = sqla.state_of(instance)
        if state.key is None and state.dict.get(self.name, self.key) == self.key:
            boundary.put_text(state, self.name, self.text)


def _drafts_in(column: KeyColumn, value: Any) -> list[str]:
    """Return the texts that have the form of a draft's ref."""
    return [text for text in texts_in(column, value) if draft_named(text) is not None]


def _in_order(held: Iterable[Held], new: Mapping[str, State]) -> list[tuple[State, State]]:
    """Return which new rows come before which others, which name them.

    Raises:
        CircularDraftsError: some would have to come before themselves.
    """
    pairs = [
        (new[ref], state)
        for state, _, column, value in held
        for ref in _drafts_in(column, value)
        if ref in new and new[ref] is not state
    ]
    graph: dict[State, set[State]] = {}
    for first, then in pairs:
        graph.setdefault(then, set()).add(first)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = [ref for ref, state in new.items() if state in error.args[1]]
        raise CircularDraftsError(circle) from None
    return pairs


def _violates(error: IntegrityError, primary: Column[Any] | None) -> bool:
    """Tell whether a row was refused because there is one with its primary key."""
    if primary is None or not isinstance(primary.table, Table):
        return False
    constraint: PrimaryKeyConstraint = primary.table.primary_key
    names = (constraint.name, f"{primary.table.name}_pkey")
    fields = sqla.driver_error_fields(error)
    return fields["sqlstate"] == _UNIQUE_VIOLATION and fields.get("constraint_name") in names
