"""The JSON format of exported conversations.

`to_json` writes it for `Conversation.export()`, and `from_json` reads it for
`RefRegistry.import_conversation()`. It contains only JSON's own values, and keys as text with
their type, so no JSON library rounds a number:

    {"format": "alfred_refs.conversation", "version": 6,
     "id": "chat-7", "owner": "ann", "turn": 3, "begun_at": "2026-11-22T10:00:00+00:00",
     "last": {"recipe": 2},
     "refs": [{"ref": "recipe_1", "key": "uuid:a508000d-9b55-40f0-8886-dbdd88bd2de2",
               "label": "Butter Chicken"},
              {"ref": "recipe_2", "key": ["int:12", "str:b"], "gone": "was deleted"}],
     "last_drafts": {"recipe": 1},
     "tables": {"recipe": "recipes"},
     "drafts": [{"ref": "gen_recipe_1", "content": {"name": "Soup"}, "label": "Soup", "turn": 1,
                 "edited": 3, "version": 2, "state": "pending"}],
     "activity": [{"ref": "recipe_1", "action": "read", "actor": "model", "first_turn": 1,
                   "last_turn": 2, "fields": ["name"]}],
     "steps": [{"turn": 2, "number": 1, "content": {"action": "step_complete"}}],
     "calls": [{"number": 1, "turn": 2, "tool": "db_update", "state": "done", "actor": "model",
                "arguments": {"table": "recipes"}, "asked_at": "2026-11-22T10:01:00+00:00"}],
     "changes": [{"call": 1, "place": 1, "table": "recipes", "action": "updated",
                  "ref": "recipe_1", "key": {"id": "a508000d-9b55-40f0-8886-dbdd88bd2de2"},
                  "before": {"name": "Chicken"}, "after": {"name": "Butter Chicken"}}]}

A draft has a `key` too, if one is reserved for its row, and a call its other values, as far as it
has them. Versions added: 2 drafts, 3 `tables` (the tables of the entities), 4 activity and
steps, 6 calls and changes. Version 5 has the names of the fields that a model was shown, where 4
had their values. All versions can be read.

>>> data = chat.export()
>>> data["refs"][0]["ref"], data["last"]
('line_1', {'line': 2, 'recipe': 2})
>>> from_json({**data, "version": 9})
Traceback (most recent call last):
    ...
alfred_refs.errors.ExportFormatError: the conversation was exported in version 9 of the format, ...

Limits:

- An export contains keys: it is for trusted code, never for a model.
- An import may come from anywhere, so all of it is checked before any of it is used. An error
  names fields and refs, never keys or values that may be keys.
- This module loads pydantic, so it is imported when it is used.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from alfred_refs.conversation.draft_content import to_text
from alfred_refs.errors import DraftContentError, ExportFormatError
from alfred_refs.mapping.keys import MAX_NUMBER, Key, Ref, encode, is_entity_name, parse_ref
from alfred_refs.mapping.labels import clean_label
from alfred_refs.store import (
    Action,
    ActivityEntry,
    Actor,
    CallEntry,
    CallState,
    ChangeAction,
    ChangeEntry,
    DraftEntry,
    DraftState,
    Entry,
    Exported,
    Gone,
    StepEntry,
    json_text,
)

FORMAT = "alfred_refs.conversation"
VERSION = 6
_OLDEST_VERSION = 1

LONGEST_TEXT = 10_000
"""The most characters of a text that an import accepts, such as a reason or a name."""

# Writing


def to_json(exported: Exported) -> dict[str, Any]:
    """Return a conversation as JSON values."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "id": exported.id,
        "owner": exported.owner,
        "turn": exported.turn,
        "begun_at": exported.begun_at.astimezone(UTC).isoformat(),
        "last": dict(sorted(exported.last.items())),
        "refs": [_ref_to_json(entry) for entry in exported.entries],
        "last_drafts": dict(sorted(exported.last_drafts.items())),
        "tables": dict(sorted(exported.tables.items())),
        "drafts": [_draft_to_json(draft) for draft in exported.drafts],
        "activity": [_activity_to_json(entry) for entry in exported.activity],
        "steps": [
            {"turn": step.turn, "number": step.number, "content": json.loads(step.content)}
            for step in exported.steps
        ],
        "calls": [_values_to_json(call) for call in exported.calls],
        "changes": [_values_to_json(change) for change in exported.changes],
    }


def of_copy(exported: Exported) -> Exported:
    """Return a conversation as a copy, in which calls that wait are expired."""
    return replace(
        exported,
        calls=[
            replace(call, state="expired") if call.state == "waiting" else call
            for call in exported.calls
        ],
    )


def key_to_json(key: Key) -> Any:
    """Return a key as text with its type, or a composite key as a list of such texts."""
    match key:
        case uuid.UUID():
            return f"uuid:{key}"
        case int():
            return f"int:{key}"
        case str():
            return f"str:{key}"
        case _:
            return [key_to_json(part) for part in key]


def _ref_to_json(entry: Entry) -> dict[str, Any]:
    return {
        "ref": str(entry.ref),
        "key": key_to_json(entry.key),
        **_without_nulls(gone=entry.gone, label=entry.label),
    }


def _draft_to_json(draft: DraftEntry) -> dict[str, Any]:
    key = None if draft.key is None else key_to_json(draft.key)
    return {
        "ref": str(draft.ref),
        "content": json.loads(draft.content),
        "turn": draft.turn,
        "edited": draft.edited,
        "version": draft.version,
        "state": draft.state,
        **_without_nulls(label=draft.label, key=key),
    }


def _activity_to_json(entry: ActivityEntry) -> dict[str, Any]:
    return {
        "ref": str(entry.ref),
        "action": entry.action,
        "actor": entry.actor,
        "first_turn": entry.first_turn,
        "last_turn": entry.last_turn,
        **_without_nulls(
            reason=entry.reason,
            demoted=entry.demoted or None,
            fields=None if entry.fields is None else list(entry.fields),
        ),
    }


def _values_to_json(value: CallEntry | ChangeEntry) -> dict[str, Any]:
    """Return the attributes of a call or a change that are not `None`."""
    values = {each.name: getattr(value, each.name) for each in fields(value)}
    return _without_nulls(
        **{
            name: each.astimezone(UTC).isoformat() if isinstance(each, datetime) else each
            for name, each in values.items()
        }
    )


def _without_nulls(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# Reading

_REMEDY = "give what Conversation.export() returned, unchanged"
_MAX_TABLE_NAME = 127  # a table's name with its schema: 63 bytes each
_MAX_KEY_DEPTH = 8  # levels of composite keys
_MAX_FIELD_NAME = 255
_RELATED = "…"  # before version 5, first character of a relationship's name
_FIELD = re.compile(r"[a-z][a-z_]{0,30}", re.ASCII)
_INTEGER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def from_json(data: Any) -> Exported:
    """Return the conversation that `to_json` wrote.

    Raises:
        ExportFormatError: the data does not come from `to_json`; the message does not repeat a
            key.
    """
    _check_version(data)
    try:
        export = _Export.model_validate(data)
    except ValidationError as error:
        raise _first_error(error) from None
    entries = [Entry(each.ref, each.key, each.gone, each.label) for each in export.refs]
    drafts = [each.entry() for each in export.drafts]
    for named, last in ((entries, export.last), (drafts, export.last_drafts)):
        _check_numbers([each.ref for each in named], last)
        _check_keys([(each.ref, each.key) for each in named if each.key is not None])
    for entity in export.tables.keys() - export.last.keys() - export.last_drafts.keys():
        raise ExportFormatError(
            f"the export has a table of entity {entity!r}, and no number", _REMEDY
        )
    _check_calls(export.calls, export.changes)
    known = {entry.ref for entry in entries}
    for activity in export.activity:
        if activity.ref not in known:
            raise ExportFormatError(
                f"the export has activity of {str(activity.ref)!r}, and no such ref", _REMEDY
            )
    by_number = sorted(export.calls, key=lambda each: each.number)
    return Exported(
        id=export.id,
        owner=export.owner,
        turn=export.turn,
        begun_at=export.begun_at,
        last=export.last,
        entries=entries,
        last_drafts=export.last_drafts,
        drafts=drafts,
        tables=export.tables,
        activity=[each.entry() for each in sorted(export.activity, key=lambda each: each.ref)],
        steps=[
            StepEntry(each.turn, each.number, each.content)
            for each in sorted(export.steps, key=lambda each: (each.turn, each.number))
        ],
        calls=[CallEntry(**dict(each)) for each in by_number],
        changes=[
            ChangeEntry(**dict(each))
            for each in sorted(export.changes, key=lambda each: (each.call, each.place))
        ],
    )


def _check_version(data: Any) -> None:
    """Check format and version first: the fields of a newer version are not known here."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ExportFormatError("this is not a conversation that alfred_refs exported", _REMEDY)
    version = data.get("version")
    if type(version) is int and version > VERSION:
        raise ExportFormatError(
            f"the conversation was exported in version {version} of the format, and this "
            f"package knows those up to {VERSION}",
            "install a newer alfred-refs",
        )


def _key_from_json(value: Any, depth: int = 0) -> Key:
    """Return a key from its only valid form; errors do not repeat it."""
    if isinstance(value, list) and depth < _MAX_KEY_DEPTH:
        return tuple(_key_from_json(part, depth + 1) for part in value)
    kind, _, text = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind == "uuid" and str(uuid.UUID(text)) == text:
        return uuid.UUID(text)
    if kind == "int" and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "str" and text.encode() is not None:  # raises for a lone surrogate
        return text
    raise ValueError("not a key")


def _ref_from_json(text: Any, *, draft: bool = False) -> Ref:
    ref = parse_ref(text) if isinstance(text, str) else None
    if ref is None or ref.draft is not draft or not is_entity_name(ref.entity):
        raise ValueError("not a ref")
    return ref


def _content_from_json(value: Any) -> str:
    try:
        return to_text(value)
    except DraftContentError:
        raise ValueError("not a draft's content") from None


def _document_from_json(value: Any) -> str:
    """Return an object as JSON text, with any characters that the store accepts."""
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004  # pydantic does not catch TypeError
    return json_text(value)


def _json_from_json(value: Any) -> Any:
    """Return JSON values that the store can hold."""
    try:
        json_text(value)
    except (TypeError, RecursionError):
        raise ValueError("not JSON") from None
    return value


def _text(text: str) -> str:
    if "\0" in text or text.encode() is None:  # raises for a lone surrogate
        raise ValueError("not text")
    return text


def _text_of_ref(text: str) -> str:
    ref = parse_ref(text)
    if ref is None or not is_entity_name(ref.entity):
        raise ValueError("not a ref")
    return text


def _datetime(value: Any) -> datetime:
    if not isinstance(value, str):
        raise ValueError("not a datetime")  # noqa: TRY004  # pydantic does not catch TypeError
    return datetime.fromisoformat(value)


def _entity_name(text: str) -> str:
    if not is_entity_name(text):
        raise ValueError("not an entity's name")
    return text


def _name(text: str, longest: int) -> str:
    if not 0 < len(text) <= longest or not text.isprintable():
        raise ValueError("not a name")
    return text


def _names_of_values(fields: Any) -> Any:
    """Return the names of the fields in a copy of a row, as versions before 5 had it."""
    if not isinstance(fields, dict):
        return fields
    return [name.removeprefix(_RELATED) for name in fields if isinstance(name, str)]


_EntityName = Annotated[str, AfterValidator(_entity_name)]
_Turn = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
_Count = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
_Text = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_text)]
_Json = Annotated[Any, BeforeValidator(_json_from_json)]
_Time = Annotated[AwareDatetime, BeforeValidator(_datetime)]
_Image = Annotated[dict[str, str | None], BeforeValidator(_json_from_json)]
_FieldNames = list[Annotated[str, AfterValidator(partial(_name, longest=_MAX_FIELD_NAME))]]
_TableName = Annotated[str, AfterValidator(partial(_name, longest=_MAX_TABLE_NAME))]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Ref(_Strict):
    ref: Annotated[Any, BeforeValidator(_ref_from_json)]
    key: Annotated[Any, BeforeValidator(_key_from_json)]
    gone: Gone | None = None
    label: Annotated[str, AfterValidator(clean_label)] | None = None


class _Draft(_Strict):
    ref: Annotated[Any, BeforeValidator(partial(_ref_from_json, draft=True))]
    content: Annotated[Any, BeforeValidator(_content_from_json)]
    turn: _Turn
    edited: _Turn
    version: _Count
    state: DraftState
    label: Annotated[str, AfterValidator(clean_label)] | None = None
    key: Annotated[Any, BeforeValidator(_key_from_json)] = None

    def entry(self) -> DraftEntry:
        if self.state == "saved" and self.key is None:
            raise ExportFormatError(
                f"the export has {str(self.ref)!r} saved without a key", _REMEDY
            )
        return DraftEntry(**dict(self))


class _Activity(_Strict):
    ref: Annotated[Any, BeforeValidator(_ref_from_json)]
    action: Action
    actor: Actor
    first_turn: _Turn
    last_turn: _Turn
    reason: Annotated[str, Field(max_length=LONGEST_TEXT)] | None = None
    demoted: bool = False
    fields: _FieldNames | None = None
    # before version 5, a copy of the row that the model was shown, and when
    seen: Annotated[_FieldNames | None, BeforeValidator(_names_of_values)] = None
    seen_turn: _Turn | None = None

    def entry(self) -> ActivityEntry:
        values = {name: value for name, value in self if name not in ("seen", "seen_turn")}
        fields = self.seen if self.fields is None else self.fields
        return ActivityEntry(**{**values, "gone": None, "label": None, "fields": fields})


class _Step(_Strict):
    turn: _Turn
    number: _Count
    content: Annotated[Any, BeforeValidator(_document_from_json)]


class _Call(_Strict):
    number: _Count
    turn: _Turn
    tool: _Text
    arguments: _Json = None
    state: CallState
    actor: Actor
    user: _Text | None = None
    call_id: _Text | None = None
    plan: _Json = None
    token: _Text | None = None
    answer: _Json = None
    undoes: _Count | None = None
    decided_by: _Text | None = None
    reason: _Text | None = None
    asked_at: _Time
    decided_at: _Time | None = None
    expires_at: _Time | None = None
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class _Change(_Strict):
    call: _Count
    place: Annotated[int, Field(ge=0, le=MAX_NUMBER)]
    table: _TableName
    ref: Annotated[str, AfterValidator(_text_of_ref)] | None = None
    label: Annotated[str, AfterValidator(clean_label)] | None = None
    action: ChangeAction
    key: _Image
    before: _Image | None = None
    after: _Image | None = None


class _Export(_Strict):
    format: Literal["alfred_refs.conversation"]
    version: Annotated[int, Field(ge=_OLDEST_VERSION, le=VERSION)]
    id: str
    owner: str | None
    turn: _Turn
    begun_at: _Time
    last: dict[_EntityName, _Count]
    refs: list[_Ref]
    last_drafts: dict[_EntityName, _Count] = {}
    tables: dict[_EntityName, _TableName] = {}
    drafts: list[_Draft] = []
    activity: list[_Activity] = []
    steps: list[_Step] = []
    calls: list[_Call] = []
    changes: list[_Change] = []


def _check_calls(calls: Sequence[_Call], changes: Sequence[_Change]) -> None:
    numbers = {call.number for call in calls}
    ids = [call.call_id for call in calls if call.call_id is not None]
    places = {(change.call, change.place) for change in changes}
    if (len(numbers), len(set(ids)), len(places)) != (len(calls), len(ids), len(changes)):
        raise ExportFormatError("the export has a call or a change twice", _REMEDY)
    for number in sorted({change.call for change in changes} - numbers):
        raise ExportFormatError(
            f"the export has changes of call {number!r}, and no such call", _REMEDY
        )


def _check_numbers(refs: Iterable[Ref], last: Mapping[str, int]) -> None:
    seen = set()
    for ref in refs:
        if ref in seen:
            raise ExportFormatError(f"the export has {str(ref)!r} twice", _REMEDY)
        if ref.number > last.get(ref.entity, 0):
            raise ExportFormatError(
                f"the export has {str(ref)!r}, and {last.get(ref.entity)!r} as the last number "
                f"of entity {ref.entity!r}",
                _REMEDY,
            )
        seen.add(ref)


def _check_keys(pairs: Iterable[tuple[Ref, Key]]) -> None:
    refs: dict[bytes, Ref] = {}
    for ref, key in pairs:
        token = ref.entity.encode() + b"\0" + encode(key)  # 7 and "7" are two keys
        if token in refs:
            raise ExportFormatError(
                f"the export has one key for {str(refs[token])!r} and {str(ref)!r}", _REMEDY
            )
        refs[token] = ref


def _first_error(error: ValidationError) -> ExportFormatError:
    """Return the error for the first invalid value: its path, never the value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = "".join(map(_path_part, first["loc"])).removeprefix(".") or "all of it"
    if first["type"] == "extra_forbidden":
        return ExportFormatError(f"the export has a field that is not known: {path}", _REMEDY)
    if first["type"] == "missing":
        return ExportFormatError(f"the export lacks a field: {path}", _REMEDY)
    return ExportFormatError(f"the export has a value that cannot be read: {path}", _REMEDY)


def _path_part(part: Any) -> str:
    """Return a step of a path for an error, without text that may be a key."""
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _FIELD.fullmatch(part) else ".(unnamed)"
