"""What people call a row: a line of text beside its ref, such as `Butter Chicken`.

Where it is, the class says (`__ref_label__`), or the policy (`RefPolicy.labels`): the name of an
attribute, or a function of the instance. Attributes as they are loaded come in; a short line of
text goes out, without keys and without control characters, or `None` where it is not known.

Nothing is loaded for a label: a function is given, in place of the instance, a view of what is
loaded already, which has neither keys nor methods. Labels are text of the application's users,
hence to be shown, never to be obeyed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy.orm import ColumnProperty, Mapper

from alfred_refs import sqla
from alfred_refs.errors import LabelError

from .guard import scrub
from .key_column import key_type_of
from .marks import head

LONGEST = 200
"""Characters of a label: more is no name."""

_LOOKED_AT = 10 * LONGEST  # an attribute may be a long text: of the rest nothing is shown

_REMEDY = (
    "name an attribute with a plain column, or give a function of loaded attributes that returns "
    "text, in __ref_label__ or RefPolicy(labels={...})"
)


@dataclass(frozen=True, slots=True)
class Label:
    """Where the label of a class's rows is.

    Attributes:
        read: gives the value from attributes as they are loaded.
        attribute: the name of the one attribute that it is; `None` where a function makes it.
    """

    read: Callable[[Mapping[str, Any]], Any]
    attribute: str | None = None

    def of(self, loaded: Mapping[str, Any]) -> str | None:
        """Return the label of an instance, from its attributes by their names.

        Raises:
            LabelError: the class's function cannot be used.
        """
        text = self._text(loaded)
        return None if text is None else clean(text)

    def reads(self, loaded: Mapping[str, Any], label: str) -> bool:
        """Tell, without making it, that the label of an instance is this one."""
        return self.attribute is not None and loaded.get(self.attribute) == label

    def line(self, loaded: Mapping[str, Any]) -> str | None:
        """Return the same with the keys that are in it, for those who have names for them.

        Raises:
            LabelError: the class's function cannot be used.
        """
        text = self._text(loaded)
        return None if text is None else _short(_line(text))

    def _text(self, loaded: Mapping[str, Any]) -> str | None:
        value = self.read(loaded)
        return value if value is None or type(value) is str else str(value)


def clean(text: str) -> str | None:
    """Return a text as one short line without keys and control characters; nothing is `None`."""
    return _short(scrub(_line(text)))


def _line(text: str) -> str:
    line = " ".join(head(text, _LOOKED_AT).split())
    return line if line.isprintable() else "".join(filter(str.isprintable, line))


def _short(line: str) -> str | None:
    return (line if len(line) <= LONGEST else head(line, LONGEST - 1) + "…") or None


def label_of(mapper: Mapper[Any], given: Any) -> Label:
    """Return the label that a class or the policy gives.

    Raises:
        LabelError: it names no attribute, or one that may hold a key, or is no function.
    """
    if callable(given):
        return Label(partial(_called, given, mapper))
    if not isinstance(given, str):
        raise _wrong(mapper, f"is a {type(given).__name__}")
    attribute = mapper.column_attrs.get(given)
    if attribute is None:
        raise _wrong(mapper, f"is {given!r}, which is no attribute with a column")
    if _may_hold_keys(attribute):
        raise _wrong(mapper, f"is {given!r}, which may hold keys")
    return Label(lambda loaded: loaded.get(given), given)


def _called(
    function: Callable[[Any], Any], mapper: Mapper[Any], loaded: Mapping[str, Any]
) -> str | None:
    try:
        label = function(Loaded(mapper, loaded))
    except _NotLoadedError:
        return None
    except LabelError:
        raise
    except Exception as error:
        raise _wrong(mapper, f"is a function that raised {type(error).__name__}") from error
    if label is None or isinstance(label, str):
        return label
    raise _wrong(mapper, f"is a function that returned a {type(label).__name__}")


class _NotLoadedError(Exception):
    """What a label is made of is not loaded, so that the label is not known."""


class Loaded:
    """An instance as the function of a label sees it: attributes that are loaded, and no key.

    What a relationship has loaded is seen in the same way.
    """

    __slots__ = ("_loaded", "_mapper")

    def __init__(self, mapper: Mapper[Any], loaded: Mapping[str, Any]) -> None:
        self._mapper = mapper
        self._loaded = loaded

    def __getattr__(self, name: str) -> Any:
        attribute = self._mapper.attrs.get(name)
        if attribute is None:
            raise _wrong(self._mapper, f"is a function of {name!r}, which is no mapped attribute")
        if isinstance(attribute, ColumnProperty) and _may_hold_keys(attribute):
            raise _wrong(self._mapper, f"is a function of {name!r}, which may hold keys")
        if name not in self._loaded:
            raise _NotLoadedError
        return _seen(self._loaded[name])


def _seen(value: Any) -> Any:
    """Return what a function may see of an attribute's value: no instance, which could load."""
    if isinstance(value, (list, tuple, set)):
        return [_seen(each) for each in value]
    if isinstance(value, Loaded):
        return value
    if sqla.is_instance(value):
        state = sqla.state_of(value)
        return Loaded(state.mapper, state.dict)
    if isinstance(value, Mapping) and any(map(sqla.is_instance, value.values())):
        raise _NotLoadedError
    return value


def _may_hold_keys(attribute: ColumnProperty[Any]) -> bool:
    return any(
        column.primary_key
        or bool(column.foreign_keys)
        or "ref" in getattr(column, "info", ())
        or key_type_of(column.type) == "uuid"
        for column in attribute.columns
    )


def _wrong(mapper: Mapper[Any], fact: str) -> LabelError:
    return LabelError(f"the label of class {mapper.class_.__qualname__!r} {fact}", _REMEDY)
