"""A list of a mapped class that is edited by position: previewed, applied, kept for history.

    ingredients = EditableList(Recipe, "ingredients")
    edits = [Remove([3]), Remove([5]), Move([2], to=1)]
    preview = ingredients.preview(session, "recipe_1", edits)
    preview.after                                                   # as it will be, by position
    ingredients.apply(session, "recipe_1", edits, expect=preview)   # or DriftError

All edits of a batch are done, or none; each names what was there before the batch. The row whose
list it is is locked, so that of two batches with one preview the second is told that the list is
another one by now. Nothing is committed here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Mapper, Session

from alfred_refs import sqla
from alfred_refs.errors import DriftError, ListError

from .documents import Document
from .edits import Add, Edit, Modify
from .executor import Item, Outcome, execute
from .lists import DocumentLevel, RowLevel, levels_of
from .rows import Place, Writer, places_of, tree_of, values_of

_TOKEN_BYTES = 9  # twelve letters: nobody makes another list of one token by accident


@dataclass(frozen=True, slots=True)
class Preview:
    """What a batch of edits comes to. It has no keys, and may be kept for a history.

    Attributes:
        before: the items as they were, by position.
        after: as they are then.
        token: says which list it was: it is another one when anything in the list is.
    """

    before: Sequence[Any]
    after: Sequence[Any]
    token: str


@dataclass(frozen=True, slots=True)
class _Batch:
    root: Item
    places: Mapping[Item, Place]
    outcome: Outcome
    preview: Preview


class EditableList:
    """A list of the rows of a class, with the lists inside of its items.

    Args:
        model: the mapped class.
        name: an ordered relationship, an array or a column of JSON, and what leads to the lists
            inside, with dots between.
        repair: whether rows of one position, or of none, are taken in the order of their keys;
            they are refused otherwise.

    Raises:
        ListError: there is no such list that could be edited.
    """

    def __init__(self, model: type[Any], name: str, *, repair: bool = False) -> None:
        self.model = model
        self.name = name
        self._levels = levels_of(model, name)
        self._repair = repair

    def items(self, session: Session, of: Any) -> list[Any]:
        """Return the items as they are now, by position: what a model is to be shown."""
        root = tree_of(session, self._row(session, of), self._levels, lock=False, repair=True)
        return values_of(root, self._levels, {})

    def preview(self, session: Session, of: Any, edits: Sequence[Edit]) -> Preview:
        """Return what edits come to; nothing is changed.

        Args:
            session: that reads the row.
            of: the row whose list it is, or its ref.
            edits: in any order.

        Raises:
            PositionError: they cannot be done together.
            ListError: rows have the same position, or none.
        """
        return self._done(session, self._row(session, of), edits, lock=False).preview

    def apply(
        self,
        session: Session,
        of: Any,
        edits: Sequence[Edit],
        *,
        expect: Preview | str | None = None,
    ) -> Preview:
        """Do edits, and return what they came to; they are flushed and not committed.

        Args:
            session: whose transaction it is in.
            of: the row whose list it is, or its ref; locked until the transaction is over.
            edits: in any order.
            expect: a preview or its token: the list must be as it was then.

        Raises:
            PositionError: they cannot be done together.
            DriftError: the list is another one by now.
            ListError: rows have the same position, or none.
        """
        row = self._row(session, of)
        root = tree_of(session, row, self._levels, lock=True, repair=self._repair)
        self._check(root, expect)
        batch = self._batch(root, edits)
        Writer(session, self._levels, batch.places, batch.outcome).write()
        return batch.preview

    def _row(self, session: Session, of: Any) -> Any:
        if not isinstance(of, self.model):
            return session.get_one(self.model, of)
        if of not in session:
            raise ListError(
                f"the {self.model.__qualname__} that has the list is not in the session",
                "give one of this session, or its ref",
            )
        return of

    def _done(self, session: Session, row: Any, edits: Sequence[Edit], *, lock: bool) -> _Batch:
        root = tree_of(session, row, self._levels, lock=lock, repair=self._repair)
        return self._batch(root, edits)

    def _batch(self, root: Item, edits: Sequence[Edit]) -> _Batch:
        places = places_of(root, self._levels)
        before, token = values_of(root, self._levels, {}), self._token(root, places)

        def found(ref: str) -> Sequence[int] | None:
            item = next((each for each in places if _ref_of(each) == ref), None)
            return None if item is None else _path(item, places)

        outcome = execute(
            root, edits, self.name, found=found, unexpected=_unexpected, unfit=self._unfit
        )
        after = values_of(root, self._levels, outcome.modified)
        return _Batch(root, places, outcome, Preview(before, after, token))

    def _check(self, root: Item, expect: Preview | str | None) -> None:
        token = expect.token if isinstance(expect, Preview) else expect
        if token is None or token == self._token(root, places_of(root, self._levels)):
            return
        now = values_of(root, self._levels, {})
        changed = None
        if isinstance(expect, Preview):
            longer = max(len(now), len(expect.before))
            pairs = ((now[n : n + 1], [*expect.before[n : n + 1]]) for n in range(longer))
            changed = [n for n, (new, old) in enumerate(pairs, start=1) if new != old]
        raise DriftError(self.name, now, changed)

    def _token(self, root: Item, places: Mapping[Item, Place]) -> str:
        """Return a digest of all that is in a list, and of which rows they are."""
        keys = [
            sqla.state_of(item.value).mapper.primary_key_from_instance(item.value)
            for item, place in places.items()
            if isinstance(place.level, RowLevel)
        ]
        state = [keys, values_of(root, self._levels, {})]
        text = json.dumps(state, default=str, sort_keys=True)
        return hashlib.blake2s(text.encode(), digest_size=_TOKEN_BYTES).hexdigest()

    def _unfit(self, depth: int, edit: Modify | Add) -> str | None:
        """Return why an item of a level cannot be given what an edit gives it."""
        value = edit.value
        level = self._levels[min(depth, len(self._levels) - 1)]
        if isinstance(level, RowLevel) and depth < len(self._levels):
            if not isinstance(value, Mapping):
                return "is a row: give an object of its fields"
            unknown = [name for name in value if name not in level.columns]
            if unknown:
                return f"has no field {unknown[0]!r} to be given: {', '.join(level.columns)}"
        elif isinstance(level, DocumentLevel) and isinstance(edit, Modify):
            both = [name for name in level.names if isinstance(value, Mapping) and name in value]
            return f"has a list {both[0]!r}: edit that by its own positions" if both else None
        return None


def _ref_of(item: Item) -> str | None:
    """Return what names a row beside its position: its own ref."""
    if isinstance(item.value, Document):
        return None
    mapper: Mapper[Any] = sqla.state_of(item.value).mapper
    column, *others = mapper.primary_key
    shown = getattr(item.value, mapper.get_property_by_column(column).key)
    return shown if isinstance(shown, str) and not others else None


def _path(item: Item, places: Mapping[Item, Place]) -> list[int]:
    path: list[int] = []
    while item in places:
        parent = places[item].parent
        path.insert(0, 1 + (parent.items or []).index(item))
        item = parent
    return path


def _unexpected(item: Item, expect: Any) -> str | None:
    """Return what an item is instead of what is expected."""
    value = item.value.value if isinstance(item.value, Document) else item.value
    if isinstance(value, str | int | float | None):
        return None if value == expect else repr(value)
    fields = value if isinstance(value, Mapping) else vars(value)
    if isinstance(expect, Mapping):
        other = {name: fields.get(name) for name in expect if fields.get(name) != expect[name]}
        return repr(other) if other else None
    texts = [each for each in fields.values() if isinstance(each, str)]
    return None if expect in texts else "another item"
