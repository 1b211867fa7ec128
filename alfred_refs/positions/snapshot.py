"""A list as it is at one moment: its items by position, and a token that tells it from any other.

    snapshot = Snapshot.read(session, recipe, levels_of(Recipe, "ingredients"), lock=True)
    snapshot.before       # [{'food': 'leek', 'quantity': '2'}, ...]
    snapshot.token        # 'fbn1Kx0cRz2Q': another one as soon as anything in the list is another

Values have neither keys nor positions of their own: a history may keep them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlalchemy.orm import Mapper, Session

from alfred_refs import sqla
from alfred_refs.errors import DriftError

from .documents import Document, read, written
from .lists import DocumentLevel, Level, RowLevel
from .resolving import Item
from .rows import tree_of

_TOKEN_BYTES = 9  # eighteen letters: nobody makes another list of one token by accident


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item is in a snapshot.

    Attributes:
        parent: in whose list.
        number: which of it, from 1.
        depth: how many lists are around that.
        level: which list that is.
    """

    parent: Item
    number: int
    depth: int
    level: Level


@dataclass
class Snapshot:
    """What a row's list is when it is read.

    Attributes:
        root: has the items; edits are done in it.
        levels: of lists.
        places: where each item was.
        before: what the list had, by position.
    """

    root: Item
    levels: Sequence[Level]
    places: Mapping[Item, Place] = field(init=False)
    before: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.places = dict(_places(self.root, self.levels, 0))
        self.before = self.values({})

    @cached_property
    def token(self) -> str:
        """A digest of which list it is, of all that was in it, and of which rows they were.

        Rows count by what the session shows of their keys, refs in a `RefSession`: a digest of
        integers could be tried out by whoever has it.
        """
        rows = [item for item, place in self.places.items() if isinstance(place.level, RowLevel)]
        keys = [
            [getattr(item.value, name) for name in _key_names(item.value)]
            for item in (self.root, *rows)
        ]
        names = [type(self.root.value).__qualname__, *map(_name_of, self.levels)]
        text = json.dumps([names, keys, self.before], default=str, sort_keys=True)
        return hashlib.blake2s(text.encode(), digest_size=_TOKEN_BYTES).hexdigest()

    @classmethod
    def read(
        cls,
        session: Session,
        row: Any,
        levels: Sequence[Level],
        *,
        lock: bool,
        repair: bool = False,
    ) -> Snapshot:
        """Return what a row's list is now; see `tree_of`."""
        return cls(tree_of(session, row, levels, lock=lock, repair=repair), levels)

    def check(self, name: str, token: str, before: Sequence[Any] | None = None) -> None:
        """Check that a list is what it was when it had a token.

        Args:
            name: of the list.
            token: that it had.
            before: what it had then, if that is at hand.

        Raises:
            DriftError: it is another one.
        """
        if token == self.token:
            return
        changed = None
        if before is not None:
            longer, now = max(len(self.before), len(before)), self.before
            pairs = ((now[n : n + 1], [*before[n : n + 1]]) for n in range(longer))
            changed = [n for n, (new, old) in enumerate(pairs, start=1) if new != old]
        raise DriftError(name, self.before, changed)

    def values(self, modified: Mapping[Item, Any]) -> list[Any]:
        """Return what the list has by now, once some items are changed."""
        return _values(self.root, self.levels, modified)

    def path_of(self, ref: str) -> Sequence[int] | None:
        """Return the path of the row that has a ref of its own; `None` if there is none."""
        item = self._by_ref.get(ref)
        return None if item is None else self.path(item)

    def path(self, item: Item) -> Sequence[int]:
        """Return where an item was."""
        path: list[int] = []
        while item in self.places:
            place = self.places[item]
            path.insert(0, place.number)
            item = place.parent
        return path

    @cached_property
    def _by_ref(self) -> dict[str, Item]:
        return {
            ref: item
            for item, place in self.places.items()
            if isinstance(place.level, RowLevel) and (ref := ref_of(item.value)) is not None
        }


def ref_of(row: Any) -> str | None:
    """Return what names a row beside its position, if a ref does: that of its only key column."""
    name, *others = _key_names(row)
    shown = getattr(row, name)
    return shown if isinstance(shown, str) and not others else None


def _name_of(level: Level) -> Sequence[str]:
    return [level.name] if isinstance(level, RowLevel) else [level.column, *level.names]


def _key_names(row: Any) -> list[str]:
    mapper: Mapper[Any] = sqla.state_of(row).mapper
    return [mapper.get_property_by_column(column).key for column in mapper.primary_key]


def _places(parent: Item, levels: Sequence[Level], depth: int) -> Iterator[tuple[Item, Place]]:
    level = levels[min(depth, len(levels) - 1)]  # the last has all lists inside of documents
    for number, item in enumerate(parent.items or (), start=1):
        yield item, Place(parent, number, depth, level)
        if item.items:
            yield from _places(item, levels, depth + 1)


def _values(item: Item, levels: Sequence[Level], modified: Mapping[Item, Any]) -> list[Any]:
    level, *rest = levels
    return [_value(each, level, rest, modified) for each in item.items or ()]


def _value(item: Item, level: Level, rest: Sequence[Level], modified: Mapping[Item, Any]) -> Any:
    if isinstance(level, DocumentLevel):
        return written(item, modified)
    if isinstance(item.value, level.model):
        value = {name: getattr(item.value, name) for name in level.columns}
    else:  # a new one
        value = dict(item.value)
    value |= modified.get(item, {})
    if rest and item.items is not None:
        inside = rest[0].name if isinstance(rest[0], RowLevel) else rest[0].column
        value[inside] = (
            document_of(item, rest[0], modified)
            if isinstance(rest[0], DocumentLevel)
            else _values(item, rest, modified)
        )
    return value


def document_of(item: Item, level: DocumentLevel, modified: Mapping[Item, Any]) -> Any:
    """Return the value of a column whose lists are edited."""
    root = read(getattr(item.value, level.column), level.names)
    if root.items is None:  # an array that is null
        return [written(each, modified) for each in item.items or ()] or None
    root.items = item.items
    return written(root, modified)


def field_of(item: Item) -> Mapping[str, Any] | None:
    """Return the fields of an item; `None` if it has none."""
    if isinstance(item.value, Document):
        value = item.value.value
        return value if isinstance(value, Mapping) else None
    # not its dictionary, in which a RefSession leaves the keys
    return {name: getattr(item.value, name) for name in sqla.state_of(item.value).dict}
