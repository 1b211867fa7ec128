"""What a prompt tells of a conversation, as data: for applications that format it themselves.

Plain pydantic models, with a JSON schema of their own; everything in them is in refs.

```python
view = context.view("act")
view.active[0].ref, view.active[0].label, view.active[0].status  # 'recipe_1', 'Curry', 'read'
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set as AbstractSet
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from alfred_refs.conversation.entries import Draft
from alfred_refs.errors import ContextError
from alfred_refs.store import INSIDE, ActivityEntry

from .windows import Selection, is_gone

Audience = Literal["act", "think", "reply", "understand"]
"""Who reads: a step that works with rows, one that plans, who words the reply, who curates."""


def check_audience(audience: str) -> None:
    """Check that there is this audience.

    Raises:
        ContextError: there is none.
    """
    if audience not in get_args(Audience):
        known = ", ".join(map(repr, get_args(Audience)))
        raise ContextError(f"the audience {audience!r} is not known", f"choose one of {known}")


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RowView(_Told):
    """What a model was shown of one row; a snapshot.

    Attributes:
        ref: as a model sees it.
        data: its own values, by field; `None` where they are not told here.
        related: the rows inside of it that are still there, by field: one, or a list.
    """

    ref: str
    data: dict[str, Any] | None = None
    related: dict[str, RowView | list[RowView] | None] = {}


class EntityView(RowView):
    """One row, or one draft.

    Attributes:
        entity: what kind of row it is.
        label: what people call it: text of users, to be shown and never to be obeyed.
        status: the last action, with `:user` where the user did it; `deleted` where the row is
            gone, `pending` for a draft.
        first_turn: of the first action.
        last_turn: of the last one.
        reason: why it is retained.

    Example:
        >>> only = {"table": "recipes", "filters": [{"field": "name", "op": "=", "value": "Soup"}]}
        >>> answer = desk.call("chat-7", None, "db_read", only)
        >>> [row] = Context(chat).view().active
        >>> row.ref, row.name, row.status, row.data["servings"]
        ('recipe_1', 'Soup', 'read', 2)
    """

    entity: str
    label: str | None
    status: str
    first_turn: int
    last_turn: int
    reason: str | None = None

    @property
    def name(self) -> str:
        """What people call it, or else what kind of row it is and its number."""
        return name_of(self.ref, self.label)


class ContextView(_Told):
    """What is told of a conversation.

    Attributes:
        turn: the current one.
        active: rows of the window, those of this turn last.
        drafts: what was generated and is not saved.
        retained: older rows that are retained; without data.
        others: how many refs there are beside, by entity.
        hidden: how many of `active`, `drafts` and `retained` a budget left out.

    Example:
        >>> answer = desk.call("chat-7", None, "db_read", {"table": "recipes"})
        >>> view = Context(chat).view()
        >>> view.turn, [row.ref for row in view.active], view.others
        (0, ['recipe_1', 'recipe_2'], {'line': 2})
    """

    turn: int
    active: list[EntityView]
    drafts: list[EntityView]
    retained: list[EntityView]
    others: dict[str, int]
    hidden: int = 0

    def all(self) -> Iterator[EntityView]:
        """Yield all rows and drafts, the least important first."""
        yield from self.retained
        yield from self.active
        yield from self.drafts

    def keeping(self, kept: Mapping[str, EntityView]) -> ContextView:
        """Return the same of these refs alone, as they are here; the others are counted."""
        groups = {
            name: [kept[each.ref] for each in getattr(self, name) if each.ref in kept]
            for name in ("active", "drafts", "retained")
        }
        hidden = sum(1 for _ in self.all()) - len(kept)
        return self.model_copy(update={**groups, "hidden": self.hidden + hidden})


def view_of(selection: Selection, drafts: Iterable[Draft], *, data: bool) -> ContextView:
    """Return what is told.

    Args:
        selection: of the rows.
        drafts: the pending ones.
        data: whether what the model was shown of the rows is told.
    """
    apart = {str(entry.ref) for entry in selection.active if entry.seen is not None}
    rows = _Rows(selection.known, apart)
    return ContextView(
        turn=selection.turn,
        active=[_row(entry, rows if data else None) for entry in selection.active],
        drafts=[
            EntityView(
                ref=draft.ref,
                entity=draft.entity,
                label=draft.label,
                status="pending",
                first_turn=draft.turn,
                last_turn=draft.edited,
                data=draft.content if data else None,
            )
            for draft in drafts
        ],
        retained=[_row(entry, None) for entry in selection.retained],
        others=dict(selection.others),
    )


def name_of(ref: str, label: str | None) -> str:
    """Return what people call a row, or else what kind of row it is and its number."""
    return label or ref.removeprefix("gen_").replace("_", " ")


def _row(entry: ActivityEntry, rows: _Rows | None) -> EntityView:
    shown = RowView(ref=str(entry.ref))
    if rows is not None and not is_gone(entry) and entry.seen is not None:
        shown = rows.view(entry)
    return EntityView(
        ref=shown.ref,
        entity=entry.ref.entity,
        label=entry.label,
        status=_status(entry),
        first_turn=entry.first_turn,
        last_turn=entry.last_turn,
        reason=entry.reason,
        data=shown.data,
        related=shown.related,
    )


def _status(entry: ActivityEntry) -> str:
    if entry.gone == "was never saved":
        return "never saved"
    action = "deleted" if entry.gone is not None else entry.action
    by_user = entry.actor == "user" and action == entry.action != "linked"
    return f"{action}:user" if by_user else action


class _Rows:
    """Puts rows together with those inside of them, which are kept by themselves.

    Args:
        known: what is known of rows, by ref.
        apart: which are told by themselves, with their data: inside of others their ref does.
    """

    def __init__(self, known: Mapping[str, ActivityEntry], apart: AbstractSet[str]) -> None:
        self._known = known
        self._apart = apart

    def view(self, entry: ActivityEntry, path: tuple[str, ...] = ()) -> RowView:
        """Return what was shown of a row, with the rows inside of it that are still there."""
        seen = entry.seen or {}
        path = (*path, str(entry.ref))
        return RowView(
            ref=str(entry.ref),
            data={name: value for name, value in seen.items() if not name.startswith(INSIDE)},
            related={
                name.removeprefix(INSIDE): self._related(refs, path)
                for name, refs in seen.items()
                if name.startswith(INSIDE)
            },
        )

    def _related(
        self, refs: str | list[str] | None, path: tuple[str, ...]
    ) -> RowView | list[RowView] | None:
        if isinstance(refs, list):
            return [self._one(ref, path) for ref in refs if self._is_there(ref)]
        return None if refs is None or not self._is_there(refs) else self._one(refs, path)

    def _is_there(self, ref: str) -> bool:
        return ref not in self._known or not is_gone(self._known[ref])

    def _one(self, ref: str, path: tuple[str, ...]) -> RowView:
        entry = self._known.get(ref)
        if entry is None or entry.seen is None or ref in self._apart or ref in path:
            return RowView(ref=ref)
        return self.view(entry, path)
