"""What a model may write, as the application says it: verbs by class, and attributes shown only.

What `Toolset` is given comes in; by class the verbs that a model may do to its rows go out, and
the attributes that are shown and never written. Read once, when the toolset is made; pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

from sqlalchemy import inspect
from sqlalchemy.orm import MANYTOONE, Mapper

from alfred_refs.errors import SetupError

Verb = Literal["create", "update", "delete"]

VERBS: tuple[Verb, ...] = ("create", "update", "delete")
"""All that a model may do to rows beside reading them."""

Attributes = set[tuple[Mapper[Any], str]]
"""Mapped attributes: the class that has each, and its name."""


def permits_of(
    models: Collection[type[Any]],
    read_only: Iterable[Any],
    verbs: Mapping[type[Any], Iterable[Verb]],
) -> tuple[Mapping[type[Any], frozenset[Verb]], Attributes]:
    """Return what a model may do to rows of some classes, and what it does not write of others.

    Args:
        models: the classes that it may use.
        read_only: classes that it may only read, and attributes that are shown and not written.
        verbs: by class, what it may do to rows.

    Raises:
        SetupError: something else is listed, or two things are said of one class.
    """
    listed = list(read_only)
    classes = [each for each in listed if isinstance(each, type)]
    for said, given in (("read_only", classes), ("verbs", verbs)):
        for other in given:
            if other not in models:
                raise SetupError(
                    f"{said} lists {other!r}, which is not among the models", "add it to models"
                )
    permitted = {model: _checked(model, each) for model, each in verbs.items()}
    for model in classes:
        if permitted.setdefault(model, frozenset()):
            raise SetupError(
                f"class {model.__qualname__!r} is in read_only, and verbs gives it some",
                "say it in one of the two",
            )
    attributes = [attribute_of(e, "read_only") for e in listed if not isinstance(e, type)]
    for mapper, name in attributes:
        if not any(inspect(model).mapper.isa(mapper) for model in models):
            raise SetupError(
                f"read_only lists {name!r} of {mapper.class_.__qualname__!r}, which is not among "
                "the models",
                "add it to models",
            )
    return permitted, {each for one in attributes for each in _written_by(*one)}


def attribute_of(attribute: Any, said: str) -> tuple[Mapper[Any], str]:
    """Return which class has an attribute, and its name.

    Raises:
        SetupError: it is none.
    """
    try:
        return attribute.parent.mapper, attribute.key
    except AttributeError:
        raise SetupError(
            f"{said} lists {attribute!r}, which is no mapped attribute",
            f"give attributes of the models: Toolset({said}=[Order.note])",
        ) from None


def is_among(mapper: Mapper[Any], name: str, attributes: Attributes) -> bool:
    """Tell whether an attribute is listed, of the class or of one that it inherits from."""
    return any((each, name) in attributes for each in mapper.iterate_to_root())


def linked_with(mapper: Mapper[Any], name: str) -> Iterator[tuple[Mapper[Any], str]]:
    """Yield the relationships that write the rows of the table between two, as another does."""
    relationship = mapper.relationships.get(name)
    if relationship is not None and relationship.secondary is not None:
        for other in mapper.registry.mappers:
            for each in other.relationships:
                if each.secondary is relationship.secondary:
                    yield other, each.key


def _checked(model: type[Any], given: Iterable[Verb]) -> frozenset[Verb]:
    named = frozenset(given)
    if isinstance(given, str) or not named <= {*VERBS}:
        raise SetupError(
            f"verbs gives {given!r} to {model.__qualname__!r}",
            f"give a list of some of {', '.join(map(repr, VERBS))}",
        )
    return named


def _written_by(mapper: Mapper[Any], name: str) -> Iterable[tuple[Mapper[Any], str]]:
    """Yield an attribute, and what else writes what it says.

    That is with a reference the columns that it is kept in, and with a relationship by way of a
    table between the two, all that are by way of the same.
    """
    yield mapper, name
    relationship = mapper.relationships.get(name)
    if relationship is not None and relationship.direction is MANYTOONE:
        for column in relationship.local_columns:
            yield mapper, mapper.get_property_by_column(column).key
    yield from linked_with(mapper, name)
