"""New instances of mapped classes, made of records by whatever `__init__` the classes have.

A class and values by attribute come in; an instance goes out. SQLAlchemy's own `__init__` takes
all attributes by name, a dataclass's only some and needs others, and an application's may be any.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any

from sqlalchemy import inspect

from alfred_refs.errors import SetupError


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
    needed = [each for name, each in parameters.items() if _is_needed(each) and name not in given]
    instance = model(**given, **{each.name: _nothing(model, each) for each in needed})
    for name in record.keys() - given.keys():
        setattr(instance, name, record[name])
    return instance


_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _is_needed(parameter: Parameter) -> bool:
    return parameter.default is Parameter.empty and parameter.kind is not Parameter.VAR_POSITIONAL


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
