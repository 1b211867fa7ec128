"""The content of prompts: select rows, make views as data, render them to Markdown.

>>> from alfred_refs.context import Context
>>> answer = desk.call("chat-7", None, "db_read", {"table": "recipes", "columns": ["name"]})
>>> selection = select_entries(chat.activity(3), Window(active=3))
>>> view = view_of(selection, drafts=[], current=None, data=False)
>>> print(render_view(view, "think"))
- recipe_1 "Soup" (read in turn 0)
- recipe_2 "Toast" (read in turn 0)
<BLANKLINE>
Not listed, and some may be deleted: line (2).

1. `select_entries` takes the activity that the store recorded, and a `Window`: rows used in the
   last turns are active and shown with their values; retained rows are shown by name, and all
   others only as a number.
2. `view_of` makes a `ContextView` of the rows as they are now: pydantic models with a JSON schema,
   for applications with a format of their own. They contain refs and no keys.
3. `render_view` formats a view as Markdown, one line per row. `fit_view` does so within a budget,
   rows of the last turns first, and states how many were left out.

A row in a list of another active row is shown only there, in the order of the list. Every other
nested row is shown with its values once, and then by its ref.

Labels and data are text of users. They are quoted, and characters that could end a line, a fence
or a tag are escaped, so that they cannot change the structure of the prompt. All functions here
are pure; `Context` reads the rows.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set as AbstractSet,
)
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python

from alfred_refs.conversation import Draft
from alfred_refs.errors import ContextError
from alfred_refs.mapping import KEY, parse_ref
from alfred_refs.store import KEPT_TURNS, ActivityEntry, ActivityRecord, CallEntry, CallState
from alfred_refs.tools import CurrentRow, CurrentRows, Plan


@dataclass(frozen=True, slots=True)
class Window:
    """The history that a prompt includes.

    Attributes:
        active: the number of turns, including the current one, whose rows are shown with values.
        exchanges: the number of last exchanges that are repeated; prompts about the user's message
            repeat at least the last one, which contains it.
        steps: the number of last steps of the previous turn that are shown.

    Raises:
        ContextError: a number is out of range.

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
        """Check the numbers."""
        if not 1 <= self.active <= KEPT_TURNS:
            raise ContextError(
                f"a window cannot have {self.active!r} active turns",
                f"give 1 to {KEPT_TURNS}; the shown columns of older turns are not stored",
            )
        if self.exchanges < 0 or self.steps < 0:
            raise ContextError(
                f"a window of {self.exchanges!r} exchanges and {self.steps!r} steps",
                "give 0 for none, or a number",
            )


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that a prompt shows.

    Attributes:
        turn: the number of the current turn.
        active: rows of the window: earlier turns first, in natural order in each turn.
        retained: older rows that are retained, in the same order.
        others: the number of other refs, by entity.
    """

    turn: int
    active: Sequence[ActivityEntry] = ()
    retained: Sequence[ActivityEntry] = ()
    others: Mapping[str, int] = field(default_factory=dict)


def is_gone(entry: ActivityEntry) -> bool:
    """Return whether a row is known not to exist: by its ref, or because it was deleted last."""
    return entry.gone is not None or entry.action == "deleted"


def among(
    record: ActivityRecord, entities: Container[str], *, masked: Container[str]
) -> ActivityRecord:
    """Return the activity on the rows of some entities, without labels of masked entities."""
    entries = [
        replace(entry, label=None) if entry.ref.entity in masked else entry
        for entry in record.entries
        if entry.ref.entity in entities
    ]
    refs = {entity: count for entity, count in record.refs.items() if entity in entities}
    return ActivityRecord(record.turn, entries, refs)


def select_entries(record: ActivityRecord, window: Window) -> Selection:
    """Select the rows that a window shows.

    Rows of earlier turns come first and rows of this turn last, so that prompts of consecutive
    steps share a prefix, which providers cache. A row whose ref was only shown in another row is
    left out. A deleted row is shown as deleted inside the window, and left out outside.
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
    shown = {entry.ref for entry in (*active, *retained)}
    # keys without a row have marks such as `<key_1>`, which the registry counts too
    others = Counter({each: n for each, n in sorted(record.refs.items()) if each != KEY})
    others.subtract(
        entry.ref.entity for entry in record.entries if entry.ref in shown or is_gone(entry)
    )
    return Selection(
        record.turn, active, retained, {entity: n for entity, n in others.items() if n > 0}
    )


Audience = Literal["act", "think", "reply", "understand"]
"""The reader: a step that works with rows, a planner, the author of the reply, a curator."""


def check_audience(audience: str) -> None:
    """Check that an audience exists.

    Raises:
        ContextError: it does not exist.
    """
    if audience not in get_args(Audience):
        known = ", ".join(map(repr, get_args(Audience)))
        raise ContextError(f"the audience {audience!r} is not known", f"choose one of {known}")


class _ViewModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RowView(_ViewModel):
    """One row with its values.

    Attributes:
        ref: its ref.
        label: its label: text of users, which is data and never an instruction.
        data: its own values, by field; `None` if they are not shown here.
        related: the rows nested in it, by relationship: one, or a list.
    """

    ref: str
    label: str | None = None
    data: dict[str, Any] | None = None
    related: dict[str, RowView | list[RowView] | None] = {}


class EntityView(RowView):
    """One row, or one draft.

    Attributes:
        entity: the entity of its ref.
        status: the last action, with `:user` if the user did it; `deleted since` if the row was
            deleted after that action, by anyone; `restored` if it was deleted and exists again;
            `never saved` if its transaction was rolled back; `not visible` if it is hidden now;
            `could not be read` if a value of its table cannot be read; `pending` for a draft.
        first_turn: the turn of the first action.
        last_turn: the turn of the last action.
        reason: the reason for retaining it.
        within: the ref of the row whose list contains it, if it is shown there.

    Example:
        >>> only = {"table": "recipes", "filters": [{"field": "name", "op": "=", "value": "Soup"}]}
        >>> answer = desk.call("chat-7", None, "db_read", only)
        >>> [row] = Context(desk.conversation("chat-7", None), toolset=toolset).view().active
        >>> row.ref, row.name, row.status, row.data["servings"]
        ('recipe_1', 'Soup', 'read', 2)
    """

    entity: str
    status: str
    first_turn: int
    last_turn: int
    reason: str | None = None
    within: str | None = None

    @property
    def name(self) -> str:
        """The label, or else the entity and the number; `draft recipe 1` for a draft."""
        return name_of(self.ref, self.label)


class CallView(_ViewModel):
    """A call that needs a person.

    Attributes:
        call: its number.
        tool: its name.
        would: the summary of its plan.
        rows: the labels of the rows that it names, by ref: at most ten.
        more_rows: the number of other rows that it names.
        state: `waiting`, `done`, `rejected`, `expired`, or `doing` if the result is unknown.
        reason: the reason for a rejection, as text of the person; `None` without a reason.
        undone: whether a person has undone it since.

    Example:
        >>> from alfred_refs.tools import Toolset
        >>> rules = {Recipe: ["delete"]}
        >>> careful = Toolset([Recipe, Line], consent=rules, hidden=[Recipe.user_id])
        >>> asking = careful.bind(sessions, registry=registry)
        >>> only = [{"field": "id", "op": "=", "value": "recipe_1"}]
        >>> delete = {"table": "recipes", "filters": only, "expect": "Soup"}
        >>> number = asking.call("chat-7", None, "db_delete", delete).pending
        >>> answer = asking.reject("chat-7", None, number, by="ann", reason="we sell it")
        >>> [call] = asking.context("chat-7").view().calls
        >>> call.would, call.rows, call.state, call.reason
        ('Delete 1 recipe.', {'recipe_1': 'Soup'}, 'rejected', 'we sell it')
    """

    call: int
    tool: str
    would: str
    rows: dict[str, str | None] = {}
    more_rows: int = 0
    state: CallState
    reason: str | None = None
    undone: bool = False


class ContextView(_ViewModel):
    """The content of a prompt: the rows, drafts and steps of a conversation.

    Attributes:
        turn: the number of the current turn.
        active: rows of the window; rows of this turn come last.
        drafts: the pending drafts.
        retained: older rows that are retained, without data.
        others: the number of other refs, by entity.
        calls: calls that wait for a person, and calls of the window that a person has decided.
        more_calls: the number of older calls that are not listed, by state.
        hidden: the number of rows and drafts that a budget left out.
        shortened: the number of drafts whose content a budget left out.
        cut: the paths of shortened values, as in an answer of a tool.

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
    calls: list[CallView] = []
    more_calls: dict[CallState, int] = {}
    hidden: int = 0
    shortened: int = 0
    cut: list[str] = []

    def all(self) -> Iterator[EntityView]:
        """Yield all rows and drafts, the least important first."""
        yield from self.retained
        yield from self.active
        yield from self.drafts

    def keeping(
        self, kept: Mapping[str, EntityView], calls: Sequence[CallView] | None = None
    ) -> ContextView:
        """Return the view with only these rows and drafts, and calls; the others are counted."""
        groups = {
            name: [kept[each.ref] for each in getattr(self, name) if each.ref in kept]
            for name in ("active", "drafts", "retained")
        }
        calls = self.calls if calls is None else calls
        listed = {each.call for each in calls}
        more = Counter(self.more_calls)
        more.update(each.state for each in self.calls if each.call not in listed)
        without = sum(
            kept[each.ref].data is None and each.data is not None
            for each in self.drafts
            if each.ref in kept
        )
        numbers = {
            "hidden": self.hidden + sum(1 for _ in self.all()) - len(kept),
            "shortened": self.shortened + without,
        }
        cut = [each for each in self.cut if each.partition(".")[0] in kept]
        left = {"calls": [*calls], "more_calls": dict(more), "cut": cut}
        return self.model_copy(update=groups | numbers | left)

    def split_drafts(self, whole: ContextView) -> tuple[ContextView, ContextView]:
        """Split the view into one without drafts and one with nothing else.

        Args:
            whole: the view that this is a part of.
        """
        hidden = len(whole.drafts) - len(self.drafts)
        rows: dict[str, Any] = {"drafts": [], "hidden": self.hidden - hidden, "shortened": 0}
        drafts = ContextView(
            turn=self.turn,
            active=[],
            drafts=self.drafts,
            retained=[],
            others={},
            hidden=hidden,
            shortened=self.shortened,
        )
        return self.model_copy(update=rows), drafts


_NAMED = 10  # rows of a call that are named


def calls_of(entries: Iterable[CallEntry], since: int) -> list[CallView]:
    """Return the calls that need a person: waiting calls, and calls decided after a turn.

    Their rows have no labels yet.
    """
    entries = [*entries]
    undone = _undone(entries)
    return [
        CallView(
            call=entry.number,
            tool=entry.tool,
            would=plan.asked,
            rows=dict.fromkeys(named[:_NAMED]),
            more_rows=len(named[_NAMED:]),
            state=entry.state,
            reason=entry.reason,
            undone=entry.number in undone,
        )
        for entry in entries
        if entry.token is not None and entry.plan is not None  # needed a person
        if entry.state == "waiting" or entry.turn > since
        for plan in (Plan.model_validate(entry.plan),)
        for named in ([row.ref for row in plan.rows if row.is_named and row.ref],)
    ]


def _undone(entries: Sequence[CallEntry]) -> set[int]:
    """Return the numbers of calls that a person has undone; an undone undo does not count.

    The undo of a turn undoes the calls that were done by then, not those approved later.
    """
    undone: set[int] = set()
    for undo in reversed(entries):
        if undo.undoes is None or undo.state != "done" or undo.number in undone:
            continue
        turn = undo.arguments.get("turn") if isinstance(undo.arguments, dict) else None
        undone |= {undo.undoes} | {
            each.number
            for each in entries
            if each.turn == turn and each.state == "done"
            if each.decided_at and undo.decided_at and each.decided_at < undo.decided_at
        }
    return undone


def view_of(
    selection: Selection,
    drafts: Iterable[Draft],
    current: CurrentRows | None,
    calls: Sequence[CallView] = (),
    *,
    data: bool,
) -> ContextView:
    """Return the view of a selection.

    Args:
        selection: the selection of rows.
        drafts: the pending drafts, without hidden columns.
        data: whether to show drafts with their content.
        current: the current values of rows; `None` if they were not read.
        calls: the calls that need a person.
    """
    nesting = _Nesting(selection.active, {} if current is None else current.rows)
    listed = {str(entry.ref) for entry in (*selection.active, *selection.retained)}
    nested = {ref for each in nesting.views.values() for ref in _nested_refs(each)} - listed
    others = Counter(selection.others)
    others.subtract(parsed.entity for parsed in map(parse_ref, nested) if parsed is not None)
    return ContextView(
        turn=selection.turn,
        active=[_entity_view(entry, current, nesting) for entry in selection.active],
        drafts=[
            EntityView(
                ref=draft.ref,
                entity=draft.entity,
                label=draft.label,
                status="pending",
                first_turn=draft.turn,
                last_turn=draft.edited,
                data=dict(draft.content) if data else None,
            )
            for draft in drafts
        ],
        retained=[_entity_view(entry, current, None) for entry in selection.retained],
        others={entity: count for entity, count in others.items() if count > 0},
        calls=[*calls],
        cut=[] if current is None else list(current.cut),
    )


_UNREADABLE = "could not be read"


def name_of(ref: str, label: str | None) -> str:
    """Return the label of a row, or else its entity and number; of a draft, with that word."""
    name = ref.removeprefix("gen_").replace("_", " ")
    return label or (f"draft {name}" if ref.startswith("gen_") else name)


def _entity_view(
    entry: ActivityEntry, current: CurrentRows | None, nesting: _Nesting | None
) -> EntityView:
    ref = str(entry.ref)
    row = None if current is None else current.rows.get(ref)
    shown = RowView(ref=ref)
    if row is not None and nesting is not None and ref in nesting.views:
        shown = nesting.views[ref]
    status, label = _status(entry, current), entry.label
    if row is not None:
        label = row.label
    elif current is not None and entry.ref.entity in current.masked:
        label = None  # hooks may hide it, and it may be newer than what the model saw
    elif status in ("not visible", _UNREADABLE) and len(entry.fields or ()) <= 1:
        label = None  # only its ref was ever shown
    return EntityView(
        ref=ref,
        entity=entry.ref.entity,
        label=label,
        status=status,
        first_turn=entry.first_turn,
        last_turn=entry.last_turn,
        reason=entry.reason,
        data=shown.data,
        related=shown.related,
        within=None if nesting is None else nesting.parents.get(ref),
    )


def _status(entry: ActivityEntry, current: CurrentRows | None) -> str:
    if entry.gone == "was never saved":
        return "never saved"
    ref = str(entry.ref)
    if current is not None and ref in current.rows:
        if entry.gone is not None or entry.action == "deleted":
            return "restored"
    elif entry.action != "deleted":
        if entry.gone is not None or (current is not None and ref in current.deleted):
            return "deleted since"
        if current is not None:
            return _UNREADABLE if ref in current.unreadable else "not visible"
    by_user = entry.actor == "user" and entry.action != "linked"
    return f"{entry.action}:user" if by_user else entry.action


class _Nesting:
    """Finds the one place where each row is shown with its values.

    Args:
        active: the entries of the rows to show.
        rows: the current rows, by ref.

    Attributes:
        views: the rows that are not shown inside another, by ref.
        parents: for each other active row, the ref of the row whose list shows it.
    """

    def __init__(self, active: Sequence[ActivityEntry], rows: Mapping[str, CurrentRow]) -> None:
        refs = [ref for ref in (str(each.ref) for each in active) if ref in rows]
        self._rows = {ref: rows[ref] for ref in refs}
        self.parents: dict[str, str] = {}
        for ref in refs:
            for parent, child in _list_items(rows[ref]):
                if child in self._rows:
                    self.parents.setdefault(child, parent)
        self._shown = {ref for ref in refs if ref not in self.parents}
        self.views = {ref: self._view(self._rows[ref], ref) for ref in refs if ref in self._shown}
        for ref in refs:  # its parent is only shown by its ref, or inside this row
            if ref not in self._shown:
                del self.parents[ref]
                self._shown.add(ref)
                self.views[ref] = self._view(self._rows[ref], ref)

    def _view(self, row: CurrentRow, ref: str) -> RowView:
        related: dict[str, RowView | list[RowView] | None] = {}
        for name, value in row.related.items():
            if value is None or isinstance(value, CurrentRow):
                related[name] = None if value is None else self._inside(value, ref)
            else:
                related[name] = [self._inside(each, ref) for each in value]
        return RowView(ref=ref, label=row.label, data=dict(row.data), related=related)

    def _inside(self, row: CurrentRow, parent: str) -> RowView:
        if row.ref in self._shown or self.parents.get(row.ref, parent) != parent:
            return RowView(ref=row.ref)
        self._shown.add(row.ref)
        return self._view(self._rows.get(row.ref, row), row.ref)


def _list_items(row: CurrentRow) -> Iterator[tuple[str, str]]:
    """Yield the rows in lists of a row and of its nested rows, as pairs of refs."""
    for value in row.related.values():
        if isinstance(value, CurrentRow):
            yield from _list_items(value)
            continue
        for each in value or ():
            yield row.ref, each.ref
            yield from _list_items(each)


Count = Callable[[str], int]
"""Returns the length of a text, in tokens or characters: the unit of budgets."""

NOTE = (
    "These values are current, and shortened if they are long. Rows inside others are without"
    " nulls. Others may change a row meanwhile: read it again before a change that depends on its"
    " values."
)
NOT_READ = "Only the names of rows are shown here; read a row for its values."
NOTHING = "Nothing yet."
_RETAINED = "Older, kept as names; read them for data:"
_RETAINED_NAMES = "From earlier turns:"
_DRAFTS = "Generated and not saved:"
_CALLS = "Calls that a person decides; do not repeat them:"
_STATES: Mapping[CallState, str] = {
    "waiting": "waits",
    "doing": "approved, and it is not known whether it was done",
    "done": "approved and done",
    "rejected": "rejected",
    "expired": "nobody has decided it in time",
    "refused": "approved, and could not be done any more",
}

# tags that a user's text must not contain; `<product_2:hex>` and `<key>` are marks of keys
_TAG = re.compile(r"<(?!(?:key|(?:gen_)?[a-z][a-z0-9_]*_[0-9]+(?::(?:hex|HEX|upper))?)>)")
_RARE = re.compile(r"[^ -_a-~]")  # non-ASCII, control characters, and the backtick
_JOINERS = "\u200c\u200d"  # used by emoji and some scripts
_EMOJI_STYLE = "\ufe0f"
# The signs of Unicode's Default_Ignorable_Code_Point that no category below has: fillers, and
# selectors of variants, in which any text can be hidden.
_IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)


def tokens(text: str) -> int:
    """Estimate the number of tokens of a text: a third of its bytes, a high estimate."""
    return -(-len(text.encode()) // 3)


def quote_json(value: Any) -> str:
    """Return a value as JSON in one line, escaped so that it cannot end a fence or tag.

    Dates, times and decimals become text, also as names of fields.
    """
    try:
        text = json.dumps(value, ensure_ascii=False)
    except TypeError:
        text = json.dumps(to_jsonable_python(value), ensure_ascii=False)
    text = _TAG.sub(r"\\u003c", text)
    return _RARE.sub(_escape_sign, text)


def inert(text: str) -> str:
    """Escape invisible characters in a line, which could change the display."""
    return _RARE.sub(lambda found: found[0] if found[0] in "`\t" else _escape_sign(found), text)


def _escape_sign(found: re.Match[str]) -> str:
    """Return a character, or its escape if it is a backtick or invisible.

    An emoji may have a selector of its style, and one joiner may follow a letter or an emoji: a
    row of joiners could spell a hidden text.
    """
    sign, before = found[0], found.string[max(found.start() - 1, 0) : found.start()] or " "
    category = unicodedata.category(before)
    if sign in _JOINERS:
        is_shown = before == _EMOJI_STYLE or (category[0] in "LMNS" and not _is_invisible(before))
    elif sign == _EMOJI_STYLE:
        is_shown = category in ("So", "Sm")
    else:
        is_shown = sign != "`" and not _is_invisible(sign)
    return sign if is_shown else "".join(f"\\u{unit:04x}" for unit in _units(sign))


def _is_invisible(sign: str) -> bool:
    in_category = unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return in_category or _IGNORED.match(sign) is not None


def _units(sign: str) -> Iterable[int]:
    encoded = sign.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(encoded[i : i + 2]) for i in range(0, len(encoded), 2))


def render_view(
    view: ContextView, audience: Audience, budget: int | None = None, count: Count = tokens
) -> str:
    """Return a view as Markdown; for arguments and errors, see `fit_view`."""
    return _text(fit_view(view, audience, budget, count), audience)


def fit_view(
    view: ContextView,
    audience: Audience,
    budget: int | None = None,
    count: Count = tokens,
    layout: Callable[[ContextView], str] | None = None,
) -> ContextView:
    """Fit a view into a budget: keep the last rows first, without data if necessary.

    Calls are shortened and left out from the oldest, so that half of the space is for rows. Half
    of that space may be for the content of drafts, if rows need the other half.

    Args:
        view: the view of the conversation.
        audience: the reader of the text.
        budget: the maximum length of its text; `None` for no limit.
        count: measures the text.
        layout: returns the text, if it has more than that of `render_view`, such as headings.

    Raises:
        ContextError: the audience does not exist, or the budget is too small even for the counts.
    """
    check_audience(audience)

    def size_of(fitted: ContextView) -> int:
        return count(_text(fitted, audience) if layout is None else layout(fitted))

    if budget is None or size_of(view) <= budget:
        return view
    least = size_of(view.keeping({}, []))
    if least > budget:
        raise ContextError(
            f"a budget of {budget!r} has no room even for the numbers of rows and calls",
            f"give at least {least}",
        )
    room = budget - least - count(_headings(view, audience) + "\n\n\n")

    def size(item: str) -> int:
        return count(item + "\n") + 1

    entries = {each.ref: each for each in view.all()}
    sizes = {ref: size(_item(each, audience, entries)) for ref, each in entries.items()}
    for ref in _nested_in(view):
        del sizes[ref]  # its parent has its text
    calls = _fit_calls(view, max(room // 2, room - sum(sizes.values())), audience, size)
    room -= sum(size(_decision(each, audience)) for each in calls)
    kept = _fit_entries(
        view, room, sizes, lambda each: size(_item(_without_data(each), audience, entries))
    )
    fitted = view.keeping(kept, calls)
    while size_of(fitted) > budget and (kept or calls):  # texts are not always additive
        if kept:
            kept.popitem()
        else:
            del calls[0]
        fitted = view.keeping(kept, calls)
    return fitted


def _fit_calls(
    view: ContextView, room: int, audience: Audience, size: Callable[[str], int]
) -> list[CallView]:
    """Return the last calls that fit, some of them shortened."""
    fitted: list[CallView] = []
    for call in reversed(view.calls):
        for form in (call, _without_names(call)):
            needed = size(_decision(form, audience))
            if needed <= room:
                fitted.insert(0, form)
                room -= needed
                break
        else:
            break
    return fitted


def _fit_entries(
    view: ContextView,
    room: int,
    sizes: Mapping[str, int],
    size_without_data: Callable[[EntityView], int],
) -> dict[str, EntityView]:
    """Return the last rows and drafts that fit, some without data, the most important first.

    Args:
        view: the view.
        room: the space for them.
        sizes: the size of each that has lines of its own, by ref.
        size_without_data: returns the size of its line without data.
    """
    drafts = {each.ref for each in view.drafts}
    of_rows = sum(size for ref, size in sizes.items() if ref not in drafts)
    for_content = max(room // 2, room - of_rows)  # of drafts
    kept: dict[str, EntityView] = {}
    for each in reversed([each for each in view.all() if each.ref in sizes]):
        shown, needed = each, sizes[each.ref]
        if needed > (min(room, for_content) if each.ref in drafts else room):
            shown, needed = _without_data(each), size_without_data(each)
        if needed <= room:
            kept[each.ref] = shown
            room -= needed
            for_content -= needed
    entries = {each.ref: each for each in view.all()}
    for each in view.active:
        if each.ref in kept and kept[each.ref].data is not None:
            kept |= {ref: entries[ref] for ref in _nested_refs(each) if ref in entries}
    return kept


_SHORT_REASON = 100  # characters


def _without_names(call: CallView) -> CallView:
    """Return a call with the number of its rows, and with whole words of a long reason."""
    reason = call.reason
    if reason is not None and len(reason) > _SHORT_REASON:
        reason = f"{reason[: _SHORT_REASON + 1].rpartition(' ')[0]}…"
    number = len(call.rows) + call.more_rows
    return call.model_copy(update={"rows": {}, "more_rows": number, "reason": reason})


def shown_refs(view: ContextView) -> set[str]:
    """Return the refs of the rows that a view shows with their values."""
    rows = [each for each in view.active if each.data is not None]
    return {each.ref for each in rows} | {ref for each in rows for ref in _nested_refs(each)}


def _without_data(view: EntityView) -> EntityView:
    return view.model_copy(update={"data": None, "related": {}})


def _nested_refs(row: RowView) -> Iterator[str]:
    """Yield the refs of the rows that are nested in a row with their values."""
    for value in row.related.values():
        for each in value if isinstance(value, list) else [value]:
            if each is not None and each.data is not None:
                yield each.ref
                yield from _nested_refs(each)


def _nested_in(view: ContextView) -> set[str]:
    """Return the refs of the rows of a view that are shown inside others."""
    listed = {each.ref for each in view.all()}
    return {ref for each in view.active for ref in _nested_refs(each) if ref in listed}


def _text(view: ContextView, audience: Audience) -> str:
    """Return the text of a view."""
    nested = _nested_in(view)
    entries = {each.ref: each for each in view.active}
    retained, drafts = _groups(audience)

    def group(heading: str, rows: Sequence[EntityView]) -> str:
        shown = [each for each in rows if each.ref not in nested]
        headings = [heading] if heading and rows else []
        return "\n".join([*headings, *(_item(each, audience, entries) for each in shown)])

    others = "" if audience == "reply" else _others(view)
    calls = _decisions(view, audience)
    has_content = any(view.all()) or calls or view.hidden or others
    return _paragraphs(
        _note(view, audience),
        group(retained, view.retained),
        group("", view.active),
        group(drafts, view.drafts),
        calls,
        "" if has_content else NOTHING,
        others,
        _cut_note(view),
        _omission_note(view),
    )


def _groups(audience: Audience) -> tuple[str, str]:
    """Return the headings of retained rows and of drafts."""
    return (_RETAINED_NAMES, "") if audience == "reply" else (_RETAINED, _DRAFTS)


def _headings(view: ContextView, audience: Audience) -> str:
    """Return the headings of a view, and the note on its values."""
    retained, drafts = _groups(audience)
    return _paragraphs(
        _note(view, audience),
        retained if view.retained else "",
        drafts if view.drafts else "",
        _CALLS if view.calls else "",
    )


def _note(view: ContextView, audience: Audience) -> str:
    """Return the note on the values below, for a step that works with rows."""
    there = [each for each in view.active if not _is_deleted(each)]
    if audience != "act" or not there:
        return ""
    return NOTE if any(each.data is not None for each in there) else NOT_READ


def _decisions(view: ContextView, audience: Audience) -> str:
    """Return one line for each call that a person decides, and the number of older ones."""
    lines = [_decision(each, audience) for each in view.calls]
    more = ", ".join(f"{state} ({number})" for state, number in view.more_calls.items())
    older = [f"Older calls that a person decides, not listed: {more}."] if more else []
    return "\n".join([*([_CALLS] if lines else []), *lines, *older])


def _decision(call: CallView, audience: Audience) -> str:
    return (
        f"- call {call.call}, {call.tool}: {quote_json(call.would)}{_rows_of(call, audience)}:"
        f" {_STATES[call.state]}"
        + (", and undone since" if call.undone else "")
        + ("" if call.reason is None else f": {quote_json(call.reason)}")
    )


def _rows_of(call: CallView, audience: Audience) -> str:
    names = [
        quote_json(name_of(ref, label)) if audience == "reply" else ref + _quoted(label)
        for ref, label in call.rows.items()
    ]
    if call.more_rows:
        unit = "row" if call.more_rows == 1 else "rows"
        names.append(f"{call.more_rows} more" if names else f"{call.more_rows} {unit}")
    return f" ({', '.join(names)})" if names else ""


def _quoted(label: str | None) -> str:
    return "" if label is None else f" {quote_json(label)}"


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _item(view: EntityView, audience: Audience, entries: Mapping[str, EntityView]) -> str:
    """Return a row in one line, with its values in the lines below.

    Args:
        view: the row.
        audience: the reader of the text.
        entries: all shown rows, by ref, for the status of nested rows.
    """
    if audience == "reply":
        entity, status = view.entity.replace("_", " "), _describe_status(view.status)
        return f"- {quote_json(view.name)}: {entity}, {status}"
    line = f"- {view.ref}{_quoted(view.label)}{_when(view, audience)}"
    if view.reason is not None and not _is_deleted(view):
        line += f", kept because {quote_json(view.reason)}"
    return line if view.data is None else "\n".join([line, *_data(view, entries)])


def _when(view: EntityView, audience: Audience) -> str:
    status = _describe_status(view.status)
    if view.status == "linked":  # only retained
        return ""
    if view.status in ("not visible", _UNREADABLE, "restored"):
        return f" ({status})"
    if view.status == "deleted since":
        return f" (deleted since turn {view.last_turn})"
    if view.status == "pending":
        return f" (pending since turn {view.first_turn})"
    if audience == "understand" and view.first_turn != view.last_turn:
        return f" ({status}; turns {view.first_turn} to {view.last_turn})"
    return f" ({status} in turn {view.last_turn})"


def _is_deleted(view: EntityView) -> bool:
    return view.status.startswith("deleted")  # by anyone


def _describe_status(status: str) -> str:
    action, _, user = status.removesuffix(" since").partition(":")
    return f"{action} by the user" if user else action


def _data(view: EntityView, entries: Mapping[str, EntityView]) -> Iterator[str]:
    """Yield the line of a row's own values, its nulls, and one for each row of its lists."""
    lists = _lists_of(view)
    label = {name for name, value in (view.data or {}).items() if value == view.label}
    # if several fields equal the label, show all of them
    own = _values(view, without=lists.keys() | (label if len(label) == 1 else set()))
    if own:
        yield f"  {quote_json(own)}"
    nulls = [name for name, value in _own(view).items() if value is None]
    if nulls:
        yield f"  null: {', '.join(map(inert, nulls))}"
    for name, rows in lists.items():
        yield f"  {name}:"
        yield from (f"  - {_inside(row, view.ref, entries)}" for row in rows)


def _lists_of(row: RowView) -> dict[str, list[RowView]]:
    """Return the lists of a row that contain rows with values, by name."""
    return {
        name: rows
        for name, rows in row.related.items()
        if isinstance(rows, list) and any(each.data is not None for each in rows)
    }


def _inside(row: RowView, parent: str, entries: Mapping[str, EntityView]) -> str:
    """Format a row of a list in one line, without the ref of its parent row."""
    if row.data is None:
        return row.ref
    entry = entries.get(row.ref)
    when = "" if entry is None or entry.status == "read" else _when(entry, "act")
    of_parent = {name for name, value in row.data.items() if value == parent}
    of_parent |= {f"_{name}_label" for name in of_parent}
    values = _values(row, without=of_parent)
    name = "" if row.label in values.values() else _quoted(row.label)
    return f"{row.ref}{name}{when} {quote_json(values)}"


def _values(row: RowView, without: AbstractSet[str] = frozenset()) -> dict[str, Any]:
    """Return the values of a row without nulls and without its ref, which are shown apart."""
    nested = {name: _nested_values(each) for name, each in row.related.items()}
    values = {**_own(row), **nested}
    return {
        name: value for name, value in values.items() if value is not None and name not in without
    }


def _own(row: RowView) -> dict[str, Any]:
    """Return the values of a row without its ref column."""
    data = row.data or {}
    own = next((name for name, value in data.items() if value == row.ref), None)
    return {name: value for name, value in data.items() if name != own}


def _nested_values(rows: RowView | list[RowView] | None) -> Any:
    """Return nested rows as values; a row without values becomes its ref."""
    if rows is None:
        return None
    if isinstance(rows, list):
        return [_nested_values(row) for row in rows]
    if rows.data is None:
        return rows.ref
    return {**rows.data, **{name: _nested_values(each) for name, each in rows.related.items()}}


def _others(view: ContextView) -> str:
    counts = ", ".join(f"{entity} ({number})" for entity, number in view.others.items())
    return f"Not listed, and some may be deleted: {counts}." if counts else ""


def _cut_note(view: ContextView) -> str:
    return f"Cut: {'; '.join(map(inert, view.cut))}." if view.cut else ""


def _omission_note(view: ContextView) -> str:
    parts = [
        f"{view.hidden} of the rows and drafts" if view.hidden else "",
        f"the content of {view.shortened} of the drafts" if view.shortened else "",
    ]
    text = ", and ".join(part for part in parts if part)
    return f"Left out to save space: {text}." if text else ""
