"""Drafts as instances: read by `Session.get`, saved with a flush, drafts again after a rollback.

`session.get` returns a new instance for the ref of a draft that is not saved. It is in no session,
and has the ref where its key will be; adding it saves the draft:

>>> draft = chat.draft(Recipe, {"name": "Stew", "lines": [{"position": 1, "text": "2 carrots"}]})
>>> stew = session.get(Recipe, draft.ref)
>>> stew.id, stew.lines[0].text, stew in session
('gen_recipe_1', '2 carrots', False)
>>> session.add(stew)
>>> session.commit()
>>> session.get(Recipe, "gen_recipe_1") is stew
True
>>> chat.read_drafts(["gen_recipe_1"])[0].state
'saved'

Rows inside the content become new instances; rows that it references are loaded where a
relationship needs the object.

    flush      reserve a key for the draft (1 round trip), put it in place of the ref ─▶ INSERT
    commit     store that the draft is saved (1 round trip)
    rollback   the draft is a draft again, and its instance has the draft's ref again

Until the commit a draft is saved for its own session only. If the process dies between the commit
and the note in the store, the next access to the draft checks whether its row exists. Two sessions
that save the same draft insert the same key: the table refuses the second row.

Limits: the primary key of a class with drafts is one column whose values this package can make.
Content is built by `__init__`: a class whose `__init__` has parameters that are not attributes
cannot have drafts, unless they have defaults.
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
from sqlalchemy.orm import Mapper, RelationshipProperty, Session, UOWTransaction

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
from alfred_refs.mapping.keys import EntityKey, Key, parse_draft_ref
from alfred_refs.session.instances import AttributeValue, Boundary
from alfred_refs.session.transactions import Transactions
from alfred_refs.sqla import State

_UNIQUE_VIOLATION = "23505"

# an entry of `InstanceState.info`, which is pickled with the instance
_CONVERSATION = "alfred_refs.conversation"


# Instances of records


@dataclass(frozen=True, slots=True)
class Link:
    """Two instances that were related."""

    instance: Any  # a new one
    name: str  # of its relationship
    other: Any  # new or loaded
    ref: str | None  # of the other, if the record has one


class Builder:
    """Builds instances of records.

    Args:
        get: returns the instance of a row that a record references, by its class and ref.

    Attributes:
        links: the instances that were related, in the order of the records.
    """

    def __init__(self, get: Callable[[type[Any], str], Any]) -> None:
        self.links: list[Link] = []
        self._get = get
        # by the id of the record; with the record, or its id could be reused
        self._made: dict[int, tuple[NewRow, Any]] = {}
        self._related: set[tuple[int, str, int]] = set()  # from both sides

    def build(self, record: NewRow, **more: Any) -> Any:
        """Return a new instance, without related instances.

        Args:
            record: its values.
            more: values of other attributes; they override those that `__init__` sets.
        """
        instance = instance_of(record.model, {**record.values, **more})
        for name, value in more.items():
            setattr(instance, name, value)  # __init__ may set a key of its own
        self._made[id(record)] = record, instance
        return instance

    def made_of(self, record: NewRow) -> Any:
        """Return the instance that was built of a record."""
        return self._made[id(record)][1]

    @property
    def made(self) -> list[tuple[NewRow, Any]]:
        """The records that instances were built of, with these."""
        return [*self._made.values()]

    def relate(self, instance: Any, record: NewRow) -> None:
        """Relate an instance to the instances of the rows in its record, at any depth.

        Raises:
            DraftContentError: a row lacks the value that is its key in a dictionary collection.
        """
        mapper: Mapper[Any] = inspect(record.model).mapper
        for name, rows in record.related.items():
            relationship = mapper.relationships[name]
            for row in rows:
                if isinstance(row, str):
                    other, ref = self._get(relationship.mapper.class_, row), row
                else:
                    other, ref = self.build(row), None
                    self.relate(other, row)
                self.links.append(Link(instance, name, other, ref))
                self._relate(instance, relationship, other)

    def _relate(self, instance: Any, relationship: RelationshipProperty[Any], other: Any) -> None:
        """Relate two instances once: a many-to-many list would insert the association twice."""
        name = relationship.key
        if relationship.uselist and (id(instance), name, id(other)) in self._related:
            return
        try:
            sqla.set_related(instance, name, other)
        except InvalidRequestError as error:
            # SQLAlchemy's message for a child without the attribute of its dictionary key
            if "is not populated" not in str(error):
                raise
            raise DraftContentError(
                f"a row in field {name!r} of a draft has no value for the key of the dictionary",
                "give the row a value for the attribute that keys the dictionary",
            ) from None
        self._related.add((id(instance), name, id(other)))
        backs = sqla.reverse_of(relationship)
        self._related.update((id(other), back, id(instance)) for back in backs)


def check_init(model: type[Any]) -> None:
    """Check that new rows of a class can be built from records.

    Raises:
        SetupError: its `__init__` needs a parameter that is not an attribute of the class.
    """
    for parameter in signature(model).parameters.values():
        if parameter.default is Parameter.empty and parameter.kind not in _VARIABLE:
            _empty_argument(model, parameter)


def instance_of(model: type[Any], record: Mapping[str, Any]) -> Any:
    """Return a new instance: `__init__` gets its parameters, all other attributes are set.

    The declarative `__init__` accepts all attributes, a dataclass's only some.

    Raises:
        SetupError: `__init__` needs a parameter that is not an attribute of the class.
    """
    parameters = signature(model).parameters
    accepted = _accepted_names(model)
    arguments = {n: each for n, each in record.items() if accepted is None or n in accepted}
    missing = {
        name: _empty_argument(model, each)
        for name, each in parameters.items()
        if name not in arguments and each.default is Parameter.empty and each.kind not in _VARIABLE
    }
    instance = model(**arguments, **missing)
    for name in record.keys() - arguments.keys():
        setattr(instance, name, record[name])
    return instance


def _accepted_names(model: type[Any]) -> set[str] | None:
    """Return the names that `__init__` takes, with the base classes' that get its `**values`.

    `None` if it takes any, as the declarative `__init__` does.
    """
    names = set[str]()
    for class_ in model.__mro__:
        if "__init__" not in vars(class_):
            continue
        _, *parameters = signature(vars(class_)["__init__"]).parameters.values()
        names |= {each.name for each in parameters if each.kind in _BY_NAME}
        if not any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
            return names
    return None


_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_VARIABLE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _empty_argument(model: type[Any], parameter: Parameter) -> Any:
    """Return the argument for an attribute without value: `None`, or an empty collection."""
    mapper = inspect(model).mapper
    if parameter.kind in _BY_NAME and parameter.name in mapper.attrs:
        relationship = mapper.relationships.get(parameter.name)
        is_many = relationship is not None and relationship.uselist
        return (relationship.collection_class or list)() if is_many else None
    raise SetupError(
        f"class {model.__qualname__!r} cannot be built from a record: its __init__ needs "
        f"{parameter.name!r}, which is not an attribute",
        f"give it a default, or let a model make no such rows: "
        f"Toolset(verbs={{{model.__qualname__}: [...]}})",
    )


class DraftObjects:
    """The instances that `Session.get` returns for drafts.

    Args:
        session: not kept alive.
        conversation: as the session sees it.
    """

    def __init__(self, session: Session, conversation: SessionConversation) -> None:
        self._session = weakref.ref(session)
        self._conversation = conversation
        self._entities = conversation.entities
        # by ref and version of the draft
        self._built: weakref.WeakValueDictionary[tuple[str, int], Any]
        self._built = weakref.WeakValueDictionary()

    def get(self, class_: type[Any], ident: Any, options: Mapping[str, Any]) -> Any:
        """Return the instance of a draft, as `Session.get` would with these options.

        Returns:
            `None` if the identity is not a draft's ref, or the draft is saved.

        Raises:
            BadRefError: there is no such draft of the class in the conversation, it was discarded,
                or `with_for_update` is to lock a row that does not exist.
            DraftContentError: it is of another class, or its content is no longer valid.
        """
        ref = _draft_in(ident)
        entity = None if ref is None else self._entities.of_class(class_).own_entity
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
                f"{ref!r} is a draft of class {of.__name__!r}, not of {class_.__name__!r}",
                f"get it as {of.__name__}",
            )
        instance = self._find(draft, fresh=bool(options.get("populate_existing")))
        return self._build(class_, draft) if instance is None else instance

    def _find(self, draft: Draft, *, fresh: bool) -> Any:
        """Return the pending instance of a draft, or the one that was built of its version."""
        for instance in cast(Session, self._session()).new:
            [*names] = self._entities.of_class(type(instance)).primary
            if len(names) == 1 and sqla.state_of(instance).dict.get(names[0]) == draft.ref:
                return instance
        built = None if fresh else self._built.get((draft.ref, draft.version))
        return None if built is None or sqla.state_of(built).key is not None else built

    def _build(self, class_: type[Any], draft: Draft) -> Any:
        builder = Builder(self._get_row)
        record = parse_content(class_, draft.content, self._entities)
        [name] = self._entities.of_class(record.model).primary
        instance = builder.build(record, **{name: draft.ref})
        sqla.state_of(instance).info[_CONVERSATION] = _address_of(self._conversation)
        # before its related instances, which may reference this draft
        self._built[draft.ref, draft.version] = instance
        try:
            builder.relate(instance, record)
        except BaseException:
            del self._built[draft.ref, draft.version]
            raise
        return instance

    def _get_row(self, class_: type[Any], ref: str) -> Any:
        session = cast(Session, self._session())  # alive: this is called by its `get`
        with session.no_autoflush:
            instance = session.get(class_, ref)
        if instance is None:  # the row exists, or `get` had raised: it is another owner's
            raise ForeignRowError(class_.__name__, ref, named=True)
        return instance


def _address_of(conversation: SessionConversation) -> tuple[str, str | None]:
    return conversation.id, conversation.owner


def _draft_in(ident: Any) -> str | None:
    """Return the ref of a draft that is an identity, or the only part of one."""
    parts = [*ident.values()] if isinstance(ident, Mapping) else ident
    if isinstance(parts, list | tuple) and len(parts) == 1:
        parts = parts[0]
    return parts if isinstance(parts, str) and parse_draft_ref(parts) is not None else None


# Saving


class DraftSaving:
    """Saves drafts with the flushes of one session.

    Args:
        session: not kept alive.
        boundary: of its instances.
        transactions: the log of its transactions.
    """

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
        """Put keys in place of the refs that wait for a flush, including refs of drafts.

        Raises:
            BadRefError: one cannot be used; all instances and drafts stay as they are.
        """
        waiting = self._boundary.pending.waiting()
        with_drafts = [each for each in waiting if _drafts_in(each.column, each.value)]
        if not with_drafts:  # the common case
            self._boundary.resolve_new(waiting)
            return
        self._flushed = new = self._new_rows(with_drafts)
        order = _insert_order(with_drafts, new)
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
        self.note_resolved(with_drafts, keys)
        self._transactions.note_labels(self._changed_labels(new, drafts))
        if order:
            sqla.save_in_order(flush, order)

    def note_resolved(
        self,
        attributes: Iterable[AttributeValue],
        keys: Mapping[str, EntityKey] = MappingProxyType({}),
    ) -> None:
        """Note attributes whose drafts' refs are keys now, to put the refs back at a rollback.

        Args:
            attributes: as they were.
            keys: of the rows that drafts among the instances become, by their refs.
        """
        replaced = [
            _ReplacedRef(each.state.obj, each.name, each.value, each.state.dict[each.name])
            for each in attributes
            if _drafts_in(each.column, each.value)
        ]
        if replaced:
            self._transactions.note_drafts(keys, partial(self._undo, keys, replaced))

    def forget_flush(self) -> None:
        """Forget the instances of the last flush, when its transaction is over."""
        self._flushed = {}

    def _new_rows(self, attributes: Iterable[AttributeValue]) -> dict[str, State]:
        """Return the new instances that become the rows of drafts, by their refs.

        Raises:
            DraftTwiceError: two are of one draft.
            SetupError: one is of a draft of another conversation.
        """
        new: dict[str, State] = {}
        for state, name, column, value in attributes:
            keys = self._entities.of_class(state.class_)
            ref = parse_draft_ref(value) if isinstance(value, str) else None
            if state.key is not None or name not in keys.primary or ref is None:
                continue
            if keys.own_entity == ref.entity == column.entity:
                self._check_conversation(state, value)
                if value in new or value in self._conversation.saving:
                    raise DraftTwiceError(value, keys.own_entity)
                new[value] = state
        return new

    def _check_conversation(self, state: State, ref: str) -> None:
        """Check that an instance is of a draft of this conversation, not of one with its number.

        Raises:
            SetupError: it is of another conversation.
        """
        here = _address_of(self._conversation)
        if state.info.get(_CONVERSATION, here) != here:
            raise SetupError(
                f"an object of {ref!r} of another conversation was added to the session",
                f"add it to a session of its conversation, or get {ref!r} in this one",
            )

    def _changed_labels(
        self, new: Mapping[str, State], drafts: Mapping[str, Draft]
    ) -> dict[EntityKey, str]:
        """Return the labels of rows that differ from the labels of their drafts."""
        labels: dict[EntityKey, str] = {}
        for ref, draft in drafts.items():
            label = self._entities.of_class(new[ref].class_).label
            text = None if label is None else label.of(new[ref].dict)
            if text is not None and text != draft.label:
                labels[draft.entity, cast(Key, draft.key)] = text
        return labels

    def _reserve_keys(self, new: Mapping[str, State]) -> dict[str, Draft]:
        """Reserve keys for the drafts of new instances; a draft keeps its key from then on.

        Raises:
            BadRefError: one is not a draft that can be saved.
        """
        by_class: dict[type[Any], list[str]] = {}
        for ref, state in new.items():
            by_class.setdefault(state.class_, []).append(ref)
        keys: dict[str, Key] = {}
        for class_, refs in by_class.items():
            keys |= zip(refs, self._new_keys(class_, len(refs)), strict=True)
        drafts = self._conversation.reserve_keys(keys)
        for ref, draft in drafts.items():
            if draft.saved is not None:
                raise SavedDraftError(ref, draft.saved)
        return drafts

    def _new_keys(self, class_: type[Any], count: int) -> list[Key]:
        entities = self._entities
        # not None: the class has refs of its own
        column = cast("Column[Any]", entities.primary_column_of(entities.name_of(class_)))
        check_new_keys(column, class_)
        session = cast(Session, self._session())  # alive: it flushes
        key_column = cast(KeyColumn, entities.of_column(column))
        with sqla.unconfined_lookup(session):
            where = {"mapper": sqla.mapper_of_table(column.table)}
            connection = session.connection(bind_arguments=where)
            return new_keys(connection, column, key_column, count)

    def _undo(self, refs: Iterable[str], replaced: Sequence[_ReplacedRef]) -> None:
        """Make rows drafts again, and put their refs back."""
        for ref in refs:
            self._conversation.saving.pop(ref, None)
        for each in replaced:
            each.put_back(self._boundary)

    # Errors of a flush

    def cycle(self, error: CircularDependencyError) -> CircularDraftsError | None:
        """Return the error for drafts that reference each other by relationships, if any do."""
        states = sqla.states_in_cycle(error)
        refs = [ref for ref, state in self._flushed.items() if state in states]
        return CircularDraftsError(refs) if refs else None

    def saved_elsewhere(self, error: IntegrityError) -> SavedDraftError | None:
        """Return the error for a draft that another session has saved, if one was.

        Both rows have the same key, so the table has refused the second. The transaction is over
        by then, and the first row is looked up outside it.
        """
        refs = [
            ref
            for ref, (entity, _) in self._conversation.saving.items()
            if _violates(error, self._entities.primary_column_of(entity))
        ]
        for draft in self._conversation.outside().read_drafts(refs):
            if draft.saved is not None:
                return SavedDraftError(draft.ref, draft.saved)
        return None


class SessionRows:
    """Looks up rows of drafts on a session's connection, of all owners.

    Args:
        session: not kept alive.
        entities: which columns hold keys.
    """

    def __init__(self, session: Session, entities: Entities) -> None:
        self._session = weakref.ref(session)
        self._entities = entities

    def are_committed(self, pairs: Iterable[EntityKey]) -> bool:
        """Return whether no transaction outside the session can roll the rows back."""
        session = self._session()
        mappers = [self._mapper(entity) for entity in by_entity(pairs)]
        binds = [session.get_bind(m) for m in mappers if session is not None and m is not None]
        return not any(isinstance(bind, Connection) and bind.in_transaction() for bind in binds)

    def _mapper(self, entity: str) -> Mapper[Any] | None:
        column = self._entities.primary_column_of(entity)
        return None if column is None else sqla.mapper_of_table(column.table)

    def existing(self, pairs: Collection[EntityKey]) -> Collection[EntityKey]:
        """See `RowFinder.existing`: one query for each entity."""
        session = self._session()
        rows: list[EntityKey] = []
        for entity, keys in by_entity(pairs).items():
            column, mapper = self._entities.primary_column_of(entity), self._mapper(entity)
            key_column = None if column is None else self._entities.of_column(column)
            if session is None or column is None or key_column is None or mapper is None:
                continue
            if sqla.can_wait(session.get_bind(mapper).engine):
                values = [key_column.from_key(key) for key in keys]
                with sqla.unconfined_lookup(session):
                    connection = session.connection(bind_arguments={"mapper": mapper})
                    matched = connection.scalars(select(column).where(column.in_(values))).all()
                rows += [(entity, key_column.to_key(value)) for value in matched]
        return rows


@dataclass(frozen=True, slots=True)
class _ReplacedRef:
    """A draft's ref in an attribute of an instance, which a key has replaced."""

    instance: sqla.WeakInstance
    name: str
    ref: Any
    key: Any

    def put_back(self, boundary: Boundary) -> None:
        """Put the ref back into the instance, unless the program has set the attribute.

        A persistent instance is expired by the rollback, and loaded again.
        """
        instance = self.instance()
        if instance is None:
            return
        state = sqla.state_of(instance)
        if state.key is None and state.dict.get(self.name, self.key) == self.key:
            boundary.put_ref_back(state, self.name, self.ref)


def _drafts_in(column: KeyColumn, value: Any) -> list[str]:
    """Return the strings in a value that have the form of a draft's ref."""
    return [text for text in texts_in(column, value) if parse_draft_ref(text) is not None]


def _insert_order(
    attributes: Iterable[AttributeValue], new: Mapping[str, State]
) -> list[tuple[State, State]]:
    """Return pairs of new instances: the first must be inserted before the second.

    The unit of work sorts by relationships, and does not see foreign keys that are set by value.

    Raises:
        CircularDraftsError: they reference each other.
    """
    pairs = [
        (new[ref], state)
        for state, _, column, value in attributes
        for ref in _drafts_in(column, value)
        if ref in new and new[ref] is not state
    ]
    graph: dict[State, set[State]] = {}
    for first, then in pairs:
        graph.setdefault(then, set()).add(first)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = [ref for ref, state in new.items() if state in error.args[1]]
        raise CircularDraftsError(cycle) from None
    return pairs


def _violates(error: IntegrityError, primary: Column[Any] | None) -> bool:
    """Return whether an INSERT was refused because there is a row with the same primary key."""
    if primary is None or not isinstance(primary.table, Table):
        return False
    constraint: PrimaryKeyConstraint = primary.table.primary_key
    names = (constraint.name, f"{primary.table.name}_pkey")  # PostgreSQL's default
    fields = sqla.driver_error_fields(error)
    return fields["sqlstate"] == _UNIQUE_VIOLATION and fields.get("constraint_name") in names
