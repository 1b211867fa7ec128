"""Import of exported conversations (pydantic: loaded when used).

A conversation read back from JSON, as `export` writes it.

It may come from anywhere: all of it is checked before any of it is used. An error names fields and
refs, never keys or what may be one.

>>> from_json({**data, "version": 9})
ExportFormatError: the conversation was exported in version 9 of the format, and this package ...
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
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

from alfred_refs.conversation.conversation import FORMAT, VERSION
from alfred_refs.conversation.draft_fields import to_text
from alfred_refs.errors import DraftContentError, ExportFormatError
from alfred_refs.mapping.key_columns import clean
from alfred_refs.mapping.keys import MAX_NUMBER, Key, Ref, encode, is_entity_name, parse_ref
from alfred_refs.store import (
    Action,
    ActivityEntry,
    Actor,
    DraftEntry,
    DraftState,
    Entry,
    Exported,
    Gone,
    StepEntry,
    json_text,
)

_OLDEST = 1
_REMEDY = "give what Conversation.export() returned, unchanged"
_LONGEST = 127  # a table's name with its schema: 63 bytes each
_DEEPEST = 8  # how far composite keys may be nested
_FIELD = re.compile(r"[a-z][a-z_]{0,30}", re.ASCII)
_INTEGER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def from_json(data: Any) -> Exported:
    """Return the conversation that `to_json` made the values of.

    Raises:
        ExportFormatError: it made none such; the message does not repeat a key.
    """
    _check_version(data)
    try:
        read = _Export.model_validate(data)
    except ValidationError as error:
        raise _first_fault(error) from None
    entries = [Entry(each.ref, each.key, each.gone, each.label) for each in read.refs]
    drafts = [each.entry() for each in read.drafts]
    for found, last in ((entries, read.last), (drafts, read.last_drafts)):
        _check_numbers([each.ref for each in found], last)
        _check_keys([(each.ref, each.key) for each in found if each.key is not None])
    for entity in read.tables.keys() - read.last.keys() - read.last_drafts.keys():
        raise ExportFormatError(
            f"the export has a table of entity {entity!r}, and no number", _REMEDY
        )
    known = {entry.ref for entry in entries}
    for done in read.activity:
        if done.ref not in known:
            raise ExportFormatError(
                f"the export has activity of {str(done.ref)!r}, and no such ref", _REMEDY
            )
    return Exported(
        *(read.id, read.owner, read.turn, read.begun_at, read.last, entries),
        *(read.last_drafts, drafts, read.tables),
        [each.entry() for each in sorted(read.activity, key=lambda each: each.ref)],
        [
            StepEntry(each.turn, each.number, each.content)
            for each in sorted(read.steps, key=lambda each: (each.turn, each.number))
        ],
    )


def _key_from_json(value: Any, depth: int = 0) -> Key:
    """Return a key from the one way in which it is written; errors do not repeat it."""
    if isinstance(value, list) and depth < _DEEPEST:
        return tuple(_key_from_json(part, depth + 1) for part in value)
    kind, _, text = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind == "uuid" and str(uuid.UUID(text)) == text:
        return uuid.UUID(text)
    if kind == "int" and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "str" and text.encode() is not None:  # a lone surrogate has no bytes
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
    """Return an object as text: what models were shown and said, be it in any characters."""
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004  # pydantic wants it
    return json_text(value)


def _moment(value: Any) -> datetime:
    if not isinstance(value, str):
        raise ValueError("not a moment")  # noqa: TRY004  # pydantic wants it
    return datetime.fromisoformat(value)


def _entity_name(text: str) -> str:
    if not is_entity_name(text):
        raise ValueError("not an entity's name")
    return text


def _table_name(text: str) -> str:
    if not 0 < len(text) <= _LONGEST or not text.isprintable():
        raise ValueError("not a table's name")
    return text


_Name = Annotated[str, AfterValidator(_entity_name)]
_Turn = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
_Count = Annotated[int, Field(ge=1, le=MAX_NUMBER)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Ref(_Strict):
    ref: Annotated[Any, BeforeValidator(_ref_from_json)]
    key: Annotated[Any, BeforeValidator(_key_from_json)]
    gone: Gone | None = None
    label: Annotated[str, AfterValidator(clean)] | None = None


class _Draft(_Strict):
    ref: Annotated[Any, BeforeValidator(partial(_ref_from_json, draft=True))]
    content: Annotated[Any, BeforeValidator(_content_from_json)]
    turn: _Turn
    edited: _Turn
    version: _Count
    state: DraftState
    label: Annotated[str, AfterValidator(clean)] | None = None
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
    reason: Annotated[str, Field(max_length=10_000)] | None = None
    demoted: bool = False
    seen_turn: _Turn | None = None
    seen: Annotated[Any, BeforeValidator(_document_from_json)] = None

    def entry(self) -> ActivityEntry:
        fields = {**dict(self), "seen": None if self.seen is None else json.loads(self.seen)}
        return ActivityEntry(gone=None, label=None, **fields)


class _Step(_Strict):
    turn: _Turn
    number: _Count
    content: Annotated[Any, BeforeValidator(_document_from_json)]


class _Export(_Strict):
    format: Literal["alfred_refs.conversation"]
    version: Annotated[int, Field(ge=_OLDEST, le=VERSION)]
    id: str
    owner: str | None
    turn: _Turn
    begun_at: Annotated[AwareDatetime, BeforeValidator(_moment)]
    last: dict[_Name, _Count]
    refs: list[_Ref]
    last_drafts: dict[_Name, _Count] = {}
    tables: dict[_Name, Annotated[str, AfterValidator(_table_name)]] = {}
    drafts: list[_Draft] = []
    activity: list[_Activity] = []
    steps: list[_Step] = []


def _check_version(data: Any) -> None:
    """Tell what is foreign or newer before anything is said of its fields."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ExportFormatError("this is not a conversation that alfred_refs exported", _REMEDY)
    version = data.get("version")
    if type(version) is int and version > VERSION:
        raise ExportFormatError(
            f"the conversation was exported in version {version} of the format, and this "
            f"package knows those up to {VERSION}",
            "install a newer alfred-refs",
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


def _first_fault(error: ValidationError) -> ExportFormatError:
    """Return what is said of the first thing wrong: where it is, never what it is."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = "".join(map(_path_part, first["loc"])).removeprefix(".") or "the whole"
    if first["type"] == "extra_forbidden":
        return ExportFormatError(f"the export has a field that is not known: {place}", _REMEDY)
    if first["type"] == "missing":
        return ExportFormatError(f"the export lacks a field: {place}", _REMEDY)
    return ExportFormatError(f"the export has a value that cannot be read: {place}", _REMEDY)


def _path_part(part: Any) -> str:
    """Return a part of a place, unless it is text that nobody knows, which may be a key."""
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _FIELD.fullmatch(part) else ".(unnamed)"
