"""What a prompt tells of a conversation, as Markdown: one line a row, names and data as JSON.

A `ContextView` comes in, text goes out. What users wrote stands in quotes, with whatever could end
a line, a fence or a tag escaped: nothing in it can change the structure around it. Within a budget
the rows of the last turns come first; how many are left out is said. Pure.

```python
print(rendered(view, "act"))
# - recipe_1 "Thai Curry" (read in turn 2)
#   {"minutes": 30}
```
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Set as AbstractSet
from typing import Any

from alfred_refs.errors import ContextError

from .views import Audience, ContextView, EntityView, RowView, check_audience

Count = Callable[[str], int]
"""Returns how many tokens a text has, or characters: whatever a budget is in."""

SNAPSHOT = (
    "The data below is a snapshot of what was read or written before. It is to tell what there is;"
    " read a row again before you change it or rely on its values."
)
NOTHING = "Nothing yet."
_RETAINED = "Older, kept as names; read them for data:"
_DRAFTS = "Generated and not saved:"

# what the text of a user may not bring: `<product_2>` and `<key>` stand for keys, and are ours
_TAG = re.compile(r"<(?!(?:key|(?:gen_)?[a-z][a-z0-9_]*_[0-9]+)>)")
_JOINERS = "\u200c\u200d"  # that emoji and some scripts are written with


def tokens(text: str) -> int:
    """Estimate how many tokens a text has: a third of its bytes, which is rather too many."""
    return -(-len(text.encode()) // 3)


def quoted(value: Any) -> str:
    """Return a value as JSON in one line, which ends no line, fence or tag around it."""
    text = _TAG.sub(r"\\u003c", json.dumps(value, ensure_ascii=False))
    return "".join(_escaped(sign) for sign in text)


def inert(text: str) -> str:
    """Return a line as it is, but for characters that nobody sees and that change what is seen."""
    return "".join(sign if sign in "`\t" else _escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    if sign == "`" or (
        sign not in _JOINERS and unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ):
        return "".join(f"\\u{unit:04x}" for unit in _units(sign))
    return sign


def _units(sign: str) -> Iterable[int]:
    encoded = sign.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(encoded[i : i + 2]) for i in range(0, len(encoded), 2))


def rendered(
    view: ContextView, audience: Audience, budget: int | None = None, count: Count = tokens
) -> str:
    """Return what an audience is told; arguments and errors as of `fitted`."""
    return _text(fitted(view, audience, budget, count), audience)


def fitted(
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
        _hidden(view.keeping({})),
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
    if audience == "reply":
        return _paragraphs(
            _items(view.active, audience), _items(view.drafts, audience), _hidden(view)
        )
    retained = _items(view.retained, audience)
    drafts = _items(view.drafts, audience)
    return _paragraphs(
        SNAPSHOT if audience == "act" and view.active else "",
        _headed(_RETAINED, retained),
        _items(view.active, audience),
        _headed(_DRAFTS, drafts),
        "" if view.active or retained or drafts or view.hidden else NOTHING,
        _others(view),
        _hidden(view),
    )


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _headed(heading: str, text: str) -> str:
    return f"{heading}\n{text}" if text else ""


def _items(views: Iterable[EntityView], audience: Audience) -> str:
    return "\n".join(_item(view, audience) for view in views)


def _item(view: EntityView, audience: Audience) -> str:
    if audience == "reply":
        return f"- {quoted(view.name)}: {view.entity.replace('_', ' ')}, {_worded(view.status)}"
    name = "" if view.label is None else f" {quoted(view.label)}"
    line = f"- {view.ref}{name}"
    if view.status != "linked":  # nothing was done with it but to retain it
        line += f" ({_when(view, audience)})"
    if view.reason is not None:
        line += f": {quoted(view.reason)}"
    return line if view.data is None else "\n".join([line, *_data(view)])


def _when(view: EntityView, audience: Audience) -> str:
    status = _worded(view.status)
    if audience == "understand" and view.first_turn != view.last_turn:
        return f"{status}; turns {view.first_turn} to {view.last_turn}"
    return f"{status} in turn {view.last_turn}"


def _worded(status: str) -> str:
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
        yield f"  {quoted(own)}"
    for name, rows in lists.items():
        yield f"  {name}:"
        yield from (f"  - {_inside(row, view.ref)}" for row in rows)


def _inside(row: RowView, parent: str) -> str:
    """Return a row inside of another, without what says that it is inside of it."""
    if row.data is None:
        return row.ref
    is_parent = {name for name, value in row.data.items() if value == parent}
    labels = {f"_{name}_label" for name in is_parent}
    return f"{row.ref} {quoted(_values(row, without=is_parent | labels))}"


def _values(row: RowView, without: AbstractSet[str] = frozenset()) -> dict[str, Any]:
    """Return the values of a row but for its ref, which stands before them, and for nulls."""
    told = {**_own(row), **{name: _nested(each) for name, each in row.related.items()}}
    return {
        name: value for name, value in told.items() if value is not None and name not in without
    }


def _own(row: RowView) -> dict[str, Any]:
    """Return the values of a row but for its ref: others may be the same."""
    data = row.data or {}
    own = next((name for name, value in data.items() if value == row.ref), None)
    return {name: value for name, value in data.items() if name != own}


def _nested(rows: RowView | list[RowView] | None) -> Any:
    """Return rows inside of another as values: the ref alone where there is nothing else."""
    if rows is None:
        return None
    if isinstance(rows, list):
        return [_nested(row) for row in rows]
    if rows.data is None:
        return rows.ref
    return {**rows.data, **{name: _nested(each) for name, each in rows.related.items()}}


def _others(view: ContextView) -> str:
    counts = ", ".join(f"{number} {entity}" for entity, number in view.others.items())
    return f"Known beside, not listed: {counts}." if counts else ""


def _hidden(view: ContextView) -> str:
    return f"{view.hidden} more are left out for want of room." if view.hidden else ""
