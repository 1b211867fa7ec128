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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from alfred_refs.errors import ListError

from .edits import Add, Edit, Modify
from .executor import execute
from .lists import Level, kept, levels_of, unfit
from .resolving import Item, Rules, UnfitError
from .snapshot import Snapshot, field_of
from .writing import Plan, plan_of, write


@dataclass(frozen=True, slots=True)
class Preview:
    """What a batch of edits comes to. It has no keys, and may be kept for a history.

    Attributes:
        before: the items as they were, by position.
        after: as they are then.
        token: says which list it was: it is another one when anything in the list is. Of what was
            applied without one it is `None`.
    """

    before: Sequence[Any]
    after: Sequence[Any]
    token: str | None


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
        row = self._row(session, of)
        return Snapshot.read(session, row, self._levels, lock=False, repair=True).before

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
        snapshot = self._snapshot(session, of, lock=False)
        after, _ = self._edited(snapshot, edits)
        return Preview(snapshot.before, after, snapshot.token)

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
        snapshot = self._snapshot(session, of, lock=True)
        token = expect.token if isinstance(expect, Preview) else expect
        if token is not None:
            before = expect.before if isinstance(expect, Preview) else None
            snapshot.check(self.name, token, before)
        after, plan = self._edited(snapshot, edits)
        write(session, plan)
        return Preview(snapshot.before, after, token)

    def _snapshot(self, session: Session, of: Any, *, lock: bool) -> Snapshot:
        row = self._row(session, of)
        return Snapshot.read(session, row, self._levels, lock=lock, repair=self._repair)

    def _row(self, session: Session, of: Any) -> Any:
        if not isinstance(of, self.model):
            return session.get_one(self.model, of)
        if of not in session:
            raise ListError(
                f"the {self.model.__qualname__} that has the list is not in the session",
                "give one of this session, or its ref",
            )
        return of

    def _edited(self, snapshot: Snapshot, edits: Sequence[Edit]) -> tuple[list[Any], Plan]:
        """Return what edits come to, and how that is written."""
        outcome = execute(snapshot.root, edits, self.name, _Rules(snapshot, self._levels))
        return snapshot.values(outcome.modified), plan_of(snapshot, outcome)


class _Rules(Rules):
    """What is known of items from their mapping."""

    def __init__(self, snapshot: Snapshot, levels: Sequence[Level]) -> None:
        self._snapshot = snapshot
        self._levels = levels

    def path_of(self, ref: str) -> Sequence[int] | None:
        return self._snapshot.path_of(ref)

    def unexpected(self, item: Item, depth: int, expect: Any) -> str | None:  # noqa: ARG002
        return instead_of(item, expect)

    def kept(self, depth: int) -> str | None:
        return kept(self._levels, depth)

    def fitted(self, edit: Modify | Add, depth: int) -> Any:
        why = unfit(self._levels, depth, edit)
        if why is not None:
            raise UnfitError(why)
        return edit.value


def instead_of(item: Item, expect: Any) -> str | None:
    """Return what an item is instead of a text, or of values by field; `None` if it is that."""
    fields = field_of(item)
    if fields is None:
        value = item.value.value
        return None if value == expect else repr(value)
    if isinstance(expect, Mapping):
        other = {name: fields.get(name) for name in expect if fields.get(name) != expect[name]}
        return repr(other) if other else None
    texts = [each for each in fields.values() if isinstance(each, str)]
    return None if expect in texts else "another item"
