"""What a prompt shows of a conversation: selecting rows, views as data, rendering to Markdown.

>>> from alfred_refs.context import Context
>>> record = chat.activity(3)
>>> selection = select_entries(record, Window(active=3))  # the current turn and the two before
>>> view = view_of(selection, chat.drafts(), data=True)
>>> print(render_view(view, "think"))
Nothing yet.
<BLANKLINE>
Known beside, not listed: 2 line, 2 recipe.

1. `select_entries` takes the activity that the store recorded, and a `Window`: rows used in the
   last turns are active and shown with the data that the model has seen; retained rows are shown
   by name; of the others only the number is shown.
2. `view_of` builds a `ContextView`: pydantic models with a JSON schema, for applications with a
   format of their own. Everything in them is in refs.
3. `render_view` formats a view as Markdown, one line per row. `fit_view` does so within a budget,
   rows of the last turns first, and states how many were left out.

Labels and data are text of users. They are quoted, with every character escaped that could end a
line, a fence or a tag, so that they cannot change the structure of the prompt. All functions here
are pure; the values shown are those that the model saw, which may have changed since.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set as AbstractSet,
)
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from alfred_refs.conversation import Draft
from alfred_refs.errors import ContextError
from alfred_refs.store import INSIDE, KEPT_TURNS, ActivityEntry, ActivityRecord


@dataclass(frozen=True, slots=True)
class Window:
    """How far back a prompt looks.

    Attributes:
        active: turns, with the current one, whose rows are told with their data.
        exchanges: how many exchanges of the conversation, the last, are repeated.
        steps: how many steps of the turn before, the last, are told.

    Raises:
        ContextError: a number is none that a window can have.

    Example:
        >>> answer = desk.call("chat-7", None, "db_read", {"table": "recipes"})
        >>> [chat.begin_turn(), chat.begin_turn()]
        [1, 2]
        >>> [row.ref for row in Context(chat, Window(active=3)).view().active]
        ['recipe_1', 'recipe_2']
        >>> Context(chat, Window(active=1)).view().active
        []
    """

    active: int = 3
    exchanges: int = 3
    steps: int = 2

    def __post_init__(self) -> None:
        """Refuse what would show nothing, or what is not kept."""
        if not 1 <= self.active <= KEPT_TURNS:
            raise ContextError(
                f"a window of {self.active!r} active turns",
                f"give 1 to {KEPT_TURNS}: what models saw is kept for so many",
            )
        if self.exchanges < 0 or self.steps < 0:
            raise ContextError(
                f"a window of {self.exchanges!r} exchanges and {self.steps!r} steps",
                "give 0 for none, or how many",
            )


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that a prompt tells.

    Attributes:
        turn: the current one.
        active: rows of the window, those of earlier turns first; natural order in each turn.
        retained: older ones that are retained, in the same order.
        others: how many refs there are beside, by entity.
        known: all that was noted, by ref: rows that stand inside of others are among them.
    """

    turn: int
    active: Sequence[ActivityEntry] = ()
    retained: Sequence[ActivityEntry] = ()
    others: Mapping[str, int] = field(default_factory=dict)
    known: Mapping[str, ActivityEntry] = field(default_factory=dict)


def is_gone(entry: ActivityEntry) -> bool:
    """Tell whether a row is not there: its ref is marked so, or it was deleted last."""
    return entry.gone is not None or entry.action == "deleted"


def among(record: ActivityRecord, entities: Container[str]) -> ActivityRecord:
    """Return what was noted of the rows of some entities."""
    entries = [entry for entry in record.entries if entry.ref.entity in entities]
    refs = {entity: count for entity, count in record.refs.items() if entity in entities}
    return ActivityRecord(record.turn, entries, refs)


def select_entries(record: ActivityRecord, window: Window) -> Selection:
    """Return what a window shows of what was noted.

    Rows of earlier turns come first and those of this turn last: from step to step a prompt begins
    alike, and a cache of prompts can be used. A row that only stood beside another is left out,
    and one that is gone is told in the window alone: it is deleted there, and nothing outside.
    """
    since = record.turn - window.active
    active, retained = [], []
    for entry in sorted(record.entries, key=lambda entry: (entry.last_turn, entry.ref)):
        if entry.demoted:
            continue
        if entry.last_turn > since and entry.action != "linked":
            active.append(entry)
        elif entry.reason is not None and not is_gone(entry):
            retained.append(entry)
    shown = [*active, *retained]
    others = {
        entity: count - sum(entry.ref.entity == entity for entry in shown)
        for entity, count in sorted(record.refs.items())
    }
    return Selection(
        record.turn,
        active,
        retained,
        {entity: n for entity, n in others.items() if n > 0},
        {str(entry.ref): entry for entry in record.entries},
    )


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


class _ViewModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RowView(_ViewModel):
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


class ContextView(_ViewModel):
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


Count = Callable[[str], int]
"""Returns how many tokens a text has, or characters: whatever a budget is in."""

SNAPSHOT = (
    "The data below is a snapshot of what was read or written before. It is to tell what there is;"
    " read a row again before you change it or rely on its values."
)
NOTHING = "Nothing yet."
_RETAINED = "Older, kept as names; read them for data:"
_RETAINED_NAMES = "From earlier turns:"
_DRAFTS = "Generated and not saved:"

# what the text of a user may not bring: `<product_2>` and `<key>` stand for keys, and are ours
_TAG = re.compile(r"<(?!(?:key|(?:gen_)?[a-z][a-z0-9_]*_[0-9]+)>)")
_JOINERS = "\u200c\u200d"  # that emoji and some scripts are written with


def tokens(text: str) -> int:
    """Estimate how many tokens a text has: a third of its bytes, which is rather too many."""
    return -(-len(text.encode()) // 3)


def quote_json(value: Any) -> str:
    """Return a value as JSON in one line, which ends no line, fence or tag around it."""
    text = _TAG.sub(r"\\u003c", json.dumps(value, ensure_ascii=False))
    return "".join(_escape_sign(sign) for sign in text)


def inert(text: str) -> str:
    """Return a line as it is, but for characters that nobody sees and that change what is seen."""
    return "".join(sign if sign in "`\t" else _escape_sign(sign) for sign in text)


def _escape_sign(sign: str) -> str:
    if sign == "`" or (
        sign not in _JOINERS and unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ):
        return "".join(f"\\u{unit:04x}" for unit in _units(sign))
    return sign


def _units(sign: str) -> Iterable[int]:
    encoded = sign.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(encoded[i : i + 2]) for i in range(0, len(encoded), 2))


def render_view(
    view: ContextView, audience: Audience, budget: int | None = None, count: Count = tokens
) -> str:
    """Return what an audience is told; arguments and errors as of `fitted`."""
    return _text(fit_view(view, audience, budget, count), audience)


def fit_view(
    view: ContextView, audience: Audience, budget: int | None = None, count: Count = tokens
) -> ContextView:
    """Return as much as there is room for, the last first; a row without data before none.

    Args:
        view: of the conversation.
        audience: who reads it.
        budget: how long it may be; `None` for as long as it is.
        count: what the budget is in.

    Raises:
        ContextError: there is no such audience, or the budget has no room for what must be said.
    """
    check_audience(audience)
    if budget is None or count(_text(view, audience)) <= budget:
        return view
    every = [*view.all()]
    fixed = _paragraphs(
        SNAPSHOT if view.active else "",
        _RETAINED if view.retained else "",
        _DRAFTS if view.drafts else "",
        _others(view),
        _omission_note(view.keeping({})),
    )
    room = budget - count(fixed + "\n\n")
    if room < 0:
        raise ContextError(
            f"a budget of {budget!r} has no room even for how many rows there are",
            f"give at least {budget - room}",
        )
    kept: dict[str, EntityView] = {}
    for each in reversed(every):
        for shown in (each, each.model_copy(update={"data": None, "related": {}})):
            size = count(_item(shown, audience) + "\n") + 1
            if size <= room:
                kept[each.ref] = shown
                room -= size
                break
    return view.keeping(kept)


def _text(view: ContextView, audience: Audience) -> str:
    retained = _items(view.retained, audience)
    drafts = _items(view.drafts, audience)
    reply = audience == "reply"
    return _paragraphs(
        SNAPSHOT if audience == "act" and view.active else "",
        _with_heading(_RETAINED_NAMES if reply else _RETAINED, retained),
        _items(view.active, audience),
        drafts if reply else _with_heading(_DRAFTS, drafts),
        "" if view.active or retained or drafts or view.hidden else NOTHING,
        "" if reply else _others(view),
        _omission_note(view),
    )


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _with_heading(heading: str, text: str) -> str:
    return f"{heading}\n{text}" if text else ""


def _items(views: Iterable[EntityView], audience: Audience) -> str:
    return "\n".join(_item(view, audience) for view in views)


def _item(view: EntityView, audience: Audience) -> str:
    if audience == "reply":
        entity, status = view.entity.replace("_", " "), _describe_status(view.status)
        return f"- {quote_json(view.name)}: {entity}, {status}"
    name = "" if view.label is None else f" {quote_json(view.label)}"
    line = f"- {view.ref}{name}"
    if view.status != "linked":  # nothing was done with it but to retain it
        line += f" ({_when(view, audience)})"
    if view.reason is not None:
        line += f": {quote_json(view.reason)}"
    return line if view.data is None else "\n".join([line, *_data(view)])


def _when(view: EntityView, audience: Audience) -> str:
    status = _describe_status(view.status)
    if audience == "understand" and view.first_turn != view.last_turn:
        return f"{status}; turns {view.first_turn} to {view.last_turn}"
    return f"{status} in turn {view.last_turn}"


def _describe_status(status: str) -> str:
    action, _, user = status.partition(":")
    return f"{action} by the user" if user else action


def _data(view: EntityView) -> Iterator[str]:
    """Yield lines: the row's own values, then each list of rows inside of it, a line a row."""
    lists = {
        name: rows
        for name, rows in view.related.items()
        if isinstance(rows, list) and any(row.data is not None for row in rows)
    }
    label = {name for name, value in (view.data or {}).items() if value == view.label}
    own = _values(view, without=label | lists.keys())
    if own:
        yield f"  {quote_json(own)}"
    for name, rows in lists.items():
        yield f"  {name}:"
        yield from (f"  - {_inside(row, view.ref)}" for row in rows)


def _inside(row: RowView, parent: str) -> str:
    """Return a row inside of another, without what says that it is inside of it."""
    if row.data is None:
        return row.ref
    is_parent = {name for name, value in row.data.items() if value == parent}
    labels = {f"_{name}_label" for name in is_parent}
    return f"{row.ref} {quote_json(_values(row, without=is_parent | labels))}"


def _values(row: RowView, without: AbstractSet[str] = frozenset()) -> dict[str, Any]:
    """Return the values of a row but for its ref, which stands before them, and for nulls."""
    told = {**_own(row), **{name: _nested_values(each) for name, each in row.related.items()}}
    return {
        name: value for name, value in told.items() if value is not None and name not in without
    }


def _own(row: RowView) -> dict[str, Any]:
    """Return the values of a row but for its ref: others may be the same."""
    data = row.data or {}
    own = next((name for name, value in data.items() if value == row.ref), None)
    return {name: value for name, value in data.items() if name != own}


def _nested_values(rows: RowView | list[RowView] | None) -> Any:
    """Return rows inside of another as values: the ref alone where there is nothing else."""
    if rows is None:
        return None
    if isinstance(rows, list):
        return [_nested_values(row) for row in rows]
    if rows.data is None:
        return rows.ref
    return {**rows.data, **{name: _nested_values(each) for name, each in rows.related.items()}}


def _others(view: ContextView) -> str:
    counts = ", ".join(f"{number} {entity}" for entity, number in view.others.items())
    return f"Known beside, not listed: {counts}." if counts else ""


def _omission_note(view: ContextView) -> str:
    return f"{view.hidden} more are left out for want of room." if view.hidden else ""
