r"""Labels: what people call a row, a short line of text such as `Butter Chicken`.

The registry stores the label of each ref, and errors and prompts show it after the ref. A class
declares where its label is (`__ref_label__`), or the policy does (`RefPolicy.labels`): the name
of an attribute, or a function of the instance.

>>> by_name = label_of(Recipe.__mapper__, "name")
>>> by_name.of({"name": "Butter\n Chicken", "servings": 4})
'Butter Chicken'
>>> by_function = label_of(Recipe.__mapper__, lambda recipe: f"{recipe.name}, {recipe.servings}")
>>> by_function.of({"name": "Soup", "servings": 2})
'Soup, 2'
>>> by_function.of({"name": "Soup"}) is None
True
>>> label_of(Recipe.__mapper__, "user_id")
Traceback (most recent call last):
    ...
alfred_refs.errors.LabelError: the label of class 'Recipe' is 'user_id', which may hold keys; ...

- The input is the dictionary of loaded attributes (`InstanceState.dict`). Nothing is loaded for a
  label: if an attribute that it needs is not loaded, the label is `None`, which means unknown.
- A function receives a `LoadedAttributes`, a read-only view without methods, key attributes or
  anything that could emit SQL.
- The output is one line of at most `LONGEST` characters, without control characters; `of`
  replaces keys in it with `<key>`.

Labels are text written by the application's users: they are shown to a model as quoted data and
are never instructions. Labels are not unique, and no row is looked up by its label here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy.orm import ColumnProperty, Mapper

from alfred_refs import sqla
from alfred_refs.errors import LabelError
from alfred_refs.mapping.key_columns import key_type_of
from alfred_refs.mapping.text import head, redact_keys

LONGEST = 200
"""The number of characters of the longest label."""

_MOST_READ = 100  # attributes that a label's function may read while it is examined
_READ = 10 * LONGEST  # characters that are read of an attribute, which may be a long text

_REMEDY = (
    "name an attribute with a plain column, or give a function of loaded attributes that returns "
    "text, in __ref_label__ or RefPolicy(labels={...})"
)


@dataclass(frozen=True, slots=True)
class Label:
    """The source of the labels of a class's rows.

    Attributes:
        read: returns the value; takes the loaded attributes by name.
        attribute: the name of the attribute that holds it; `None` if a function computes it.
    """

    read: Callable[[Mapping[str, Any]], Any]
    attribute: str | None = None

    def of(self, loaded: Mapping[str, Any]) -> str | None:
        """Return the label of an instance, without keys, from its loaded attributes.

        Raises:
            LabelError: the class's function failed, or read an attribute that it may not read.
        """
        text = self._text(loaded)
        return None if text is None else clean_label(text)

    def of_unredacted(self, loaded: Mapping[str, Any]) -> str | None:
        """Return the same label with its keys, for callers that replace them with refs.

        Raises:
            LabelError: the class's function failed, or read an attribute that it may not read.
        """
        text = self._text(loaded)
        return None if text is None else _shorten(_one_line(text))

    def of_shown(self, row: Mapping[str, Any]) -> str | None:
        """Return the label, with its keys, of a row whose values a hook may have replaced.

        It is `None` if a function makes the label, or the value is not a text.
        """
        value = None if self.attribute is None else row.get(self.attribute)
        return _shorten(_one_line(value)) if isinstance(value, str) else None

    def is_unchanged(self, loaded: Mapping[str, Any], label: str) -> bool:
        """Return whether the label's attribute holds exactly this label.

        A cheap test before `of`, on the path of each row that is loaded.
        """
        return self.attribute is not None and loaded.get(self.attribute) == label

    def is_null(self, loaded: Mapping[str, Any]) -> bool:
        """Return whether the label's attribute is loaded and null: the row has no label."""
        name = self.attribute
        return name is not None and name in loaded and loaded[name] is None

    def attributes(self, mapper: Mapper[Any]) -> set[str]:
        """Return the mapped attributes that the label is made of.

        Those of a function are found by calling it, without real values. Its exceptions are
        suppressed.
        """
        found = set[str]() if self.attribute is None else {self.attribute}
        for truth in (True, False):  # of values, for both sides of conditions
            probe = _Probe(truth=truth)
            with suppress(Exception):
                self.read(probe)
            found |= {*probe.names} & {*mapper.attrs.keys()}
        return found

    def _text(self, loaded: Mapping[str, Any]) -> str | None:
        value = self.read(loaded)
        return value if value is None or type(value) is str else str(value)


def clean_label(text: str) -> str | None:
    """Return a text as one short line without keys and control characters, `None` if empty."""
    return _shorten(redact_keys(_one_line(text)))


def _one_line(text: str) -> str:
    line = " ".join(head(text, _READ).split())
    return line if line.isprintable() else "".join(filter(str.isprintable, line))


def _shorten(line: str) -> str | None:
    return (line if len(line) <= LONGEST else head(line, LONGEST - 1) + "…") or None


def label_of(mapper: Mapper[Any], declared: Any) -> Label:
    """Return the label that a class or the policy declares.

    Raises:
        LabelError: the declaration names no column attribute, names one that may hold keys, or
            is neither a name nor a function.
    """
    if callable(declared):
        return Label(partial(_call, declared, mapper))
    if not isinstance(declared, str):
        raise _label_error(mapper, f"is a {type(declared).__name__}")
    attribute = mapper.column_attrs.get(declared)
    if attribute is None:
        raise _label_error(mapper, f"is {declared!r}, which is not an attribute with a column")
    if _may_hold_keys(attribute):
        raise _label_error(mapper, f"is {declared!r}, which may hold keys")
    return Label(lambda loaded: loaded.get(declared), declared)


def _call(
    function: Callable[[Any], Any], mapper: Mapper[Any], loaded: Mapping[str, Any]
) -> str | None:
    try:
        label = function(LoadedAttributes(mapper, loaded))
    except _NotLoadedError:
        return None
    except LabelError:
        raise
    except Exception as error:
        raise _label_error(mapper, f"is a function that raised {type(error).__name__}") from error
    if label is None or isinstance(label, str):
        return label
    raise _label_error(mapper, f"is a function that returned a {type(label).__name__}")


class _NotLoadedError(Exception):
    """The function of a label read an attribute that is not loaded."""


class LoadedAttributes:
    """An instance as the function of a label sees it: its loaded attributes, without keys.

    Related instances are wrapped in the same way.
    """

    __slots__ = ("_loaded", "_mapper")

    def __init__(self, mapper: Mapper[Any], loaded: Mapping[str, Any]) -> None:
        self._mapper = mapper
        self._loaded = loaded

    def __getattr__(self, name: str) -> Any:
        attribute = self._mapper.attrs.get(name)
        if attribute is None:
            raise _label_error(
                self._mapper, f"is a function of {name!r}, which is not a mapped attribute"
            )
        if isinstance(attribute, ColumnProperty) and _may_hold_keys(attribute):
            raise _label_error(self._mapper, f"is a function of {name!r}, which may hold keys")
        if name not in self._loaded:
            raise _NotLoadedError
        return _without_instances(self._loaded[name])


class _Probe(Mapping[str, Any]):
    """The loaded attributes of no row: any attribute, with values that support most operations.

    Attributes:
        names: the attributes that were read.
    """

    def __init__(self, *, truth: bool) -> None:
        self.names: list[str] = []
        self._truth = truth

    def __contains__(self, _: object) -> bool:
        return True

    def __getitem__(self, name: str) -> Any:
        self.names.append(name)
        if len(self.names) > _MOST_READ:
            raise RecursionError("the function of a label does not end")
        return _Value(self)

    def __len__(self) -> int:
        return self._truth

    def __iter__(self) -> Iterator[str]:
        return iter(())


class _Value:
    """A value of a `_Probe`, and everything that is read of it."""

    def __init__(self, probe: _Probe) -> None:
        self._probe = probe

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._probe[""]

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = __call__
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __neg__ = __abs__ = __call__
    __lt__ = __le__ = __gt__ = __ge__ = __call__

    def __getitem__(self, _: Any) -> Any:
        return self._probe[""]

    def __format__(self, _: str) -> str:
        return ""

    def __bool__(self) -> bool:
        return bool(self._probe)

    def __len__(self) -> int:
        return len(self._probe)

    def __int__(self) -> int:
        return len(self._probe)

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def _without_instances(value: Any) -> Any:
    """Wrap the instances in an attribute's value: reading their attributes could emit SQL."""
    if isinstance(value, (list, tuple, set)):
        return [_without_instances(each) for each in value]
    if isinstance(value, LoadedAttributes):
        return value
    if sqla.is_instance(value):
        state = sqla.state_of(value)
        return LoadedAttributes(state.mapper, state.dict)
    # a dictionary collection (`attribute_keyed_dict`): its names may be keys
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


def _label_error(mapper: Mapper[Any], fact: str) -> LabelError:
    return LabelError(f"the label of class {mapper.class_.__qualname__!r} {fact}", _REMEDY)
