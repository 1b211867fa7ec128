"""Objects of drafts: what `Session.get` gives for the ref of what is not saved.

>>> recipe = session.get(Recipe, "gen_recipe_1")
>>> recipe.id, recipe in session
('gen_recipe_1', False)

The instance belongs to no session yet and has the draft's ref where its key will be, so that
adding it saves the draft (`saving`). Rows inside the content are new instances; rows that it names
are loaded where a relationship needs the object. Instances are made by whatever `__init__` their
classes have: SQLAlchemy's takes all attributes by name, a dataclass's only some.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, cast

from sqlalchemy import inspect
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Mapper, RelationshipProperty, Session

from alfred_refs import sqla
from alfred_refs.conversation.draft_fields import Record, class_of, record_of
from alfred_refs.conversation.entries import Draft
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import DraftContentError, DraftRefError, ForeignRowError, SetupError
from alfred_refs.mapping.refs import draft_named


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
        self._made: dict[int, tuple[Record, Any]] = {}  # with the record, or its id is another's
        self._there: set[tuple[int, str, int]] = set()  # said from either side

    def build(self, record: Record, **more: Any) -> Any:
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

    def made_of(self, record: Record) -> Any:
        """Return the instance that was made of a record, that of a row inside another too."""
        return self._made[id(record)][1]

    @property
    def made(self) -> list[tuple[Record, Any]]:
        """The records that instances were made of, with these."""
        return [*self._made.values()]

    def relate(self, instance: Any, record: Record) -> None:
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
                self._put(instance, mapper.relationships[name], other)

    def _put(self, instance: Any, relationship: RelationshipProperty[Any], other: Any) -> None:
        """Relate two instances, once: a list of an association would have a row twice."""
        name = relationship.key
        if relationship.uselist and (id(instance), name, id(other)) in self._there:
            return
        try:
            sqla.put_related(instance, name, other)
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
        known = self._known(draft, fresh=bool(options.get("populate_existing")))
        return self._build(class_, draft) if known is None else known

    def _known(self, draft: Draft, *, fresh: bool) -> Any:
        """Return the object that is to save a draft, or was made of it as it is now."""
        for instance in cast(Session, self._session()).new:
            [*names] = self._entities.of_class(type(instance)).primary
            if len(names) == 1 and sqla.state_of(instance).dict.get(names[0]) == draft.ref:
                return instance
        made = None if fresh else self._built.get((draft.ref, draft.version))
        return None if made is None or sqla.state_of(made).key is not None else made

    def _build(self, class_: type[Any], draft: Draft) -> Any:
        builder = Builder(self._named)
        record = record_of(class_, draft.content, self._entities)
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
