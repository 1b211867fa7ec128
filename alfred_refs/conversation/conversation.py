"""Conversation: turns, activity, scrubbing of text, export.

Put refs in the place of keys in a value that is about to reach a model.

Text or JSON comes in, of any depth; the same goes out without keys. What the registry knows of a
key decides, and it is asked once for the whole value, or not at all where there is no key in it.
What is no JSON, and does not become JSON in one known way, is refused: nobody could tell what a
prompt would show of it.

What was done with the rows of a conversation, and what the steps of an agent left.

It is a part of `Conversation`. Sessions that are opened with `by=` and tools note what is done;
`alfred_refs.context` makes prompts of it.

```python
chat.activity(turns=3).entries[0].action  # 'read'
chat.retain(["recipe_1"], "the user's favourite")
```

A conversation as JSON: what `Conversation.export()` returns and `import_conversation()` takes.

Nothing but JSON's own values is in it, and any JSON library carries it without loss: keys are
text, so that no number is rounded. It holds keys: it is for trusted code, never for a model.

    {"format": "alfred_refs.conversation", "version": 4,
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
                   "last_turn": 2, "seen_turn": 2, "seen": {"name": "Butter Chicken"}}],
     "steps": [{"turn": 2, "number": 1, "content": {"action": "step_complete"}}]}

A draft has the key that is reserved for its row, too, where one is. Version 1 has no drafts,
version 2 no `tables`: whose rows the refs are of; before version 4 there is no activity. `imports`
reads it back.

A conversation: what a ref is valid in.

It resolves and refers by its map (`refmap`), and keeps drafts (`draftmap`). Here it is taken as a
whole: it has turns, branches into others, is listed, moves to another registry, and ends.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set as AbstractSet,
)
from dataclasses import asdict, is_dataclass
from datetime import UTC
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, Literal

from sqlalchemy import Table

from alfred_refs.conversation.drafts import DraftMap
from alfred_refs.conversation.refs import Caches, RefEntry
from alfred_refs.errors import ContextError, KeyShownError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.keys import Key, Ref, found_in, parse_ref, replace_keys
from alfred_refs.sqla import AsyncFacade, Schemas, async_list_method, async_method
from alfred_refs.store import (
    Activity,
    ActivityEntry,
    ActivityRecord,
    Actor,
    Address,
    DraftEntry,
    Entry,
    Exported,
    StepEntry,
    Store,
    json_text,
)
from alfred_refs.store.telemetry import Telemetry

Unknown = Literal["mask", "refuse"]
"""What becomes of a key that has no ref: `<key>` takes its place, or the value is refused."""

DEEPEST = 200
"""Levels of objects and lists: Python's own JSON gives up at some hundreds more."""

_Path = tuple[Any, ...]
_NAME = "(a name)"

# what stays as it is: no text, and none that a key could be written in
_SCALARS = (bool, int, float, Decimal, dt.date, dt.time, dt.timedelta)


def scrub_value(
    value: Any,
    refs_of: Callable[[list[Key]], Mapping[Key, str]],
    words: Sequence[str],
    unknown: Unknown = "mask",
) -> Any:
    """Return a value without keys.

    Args:
        value: text, JSON values, numbers, dates, tuples, sets, dataclasses, models of pydantic.
        refs_of: returns the refs of keys that have one.
        words: keys that are texts themselves, which nothing else tells from words.
        unknown: what becomes of other keys.

    Raises:
        KeyShownError: there is a key without ref, and it is to be refused.
        ContextError: there is something in it that is no JSON, or it is nested too deep.
    """
    texts: list[tuple[_Path, str]] = []

    def gathered(text: str, path: _Path) -> str:
        texts.append((path, text))
        return text

    plain = _rewritten(value, gathered)
    found = [(path, key) for path, text in texts for key in found_in(text)]
    keys = dict.fromkeys(each.key for _, each in found if each.key is not None)
    joined = "\0".join(text for _, text in texts)
    # text that looks like a ref is one, be there a key of the same letters
    there = [word for word in words if word in joined and parse_ref(word) is None]
    if not found and not there:
        return plain
    refs = refs_of([*keys, *there])
    if unknown == "refuse":
        for path, each in found:
            if each.key is None or each.key not in refs:
                raise KeyShownError(_way(path), each.kind, each.masked)
    known = [key for key in refs if isinstance(key, uuid.UUID)]
    longest_first = sorted((word for word in there if word in refs), key=len, reverse=True)
    choices = "|".join(map(re.escape, longest_first))
    pattern = re.compile(rf"(?<![\w-])(?:{choices})(?![\w-])") if choices else None

    def clean(text: str, _: _Path) -> str:
        text = replace_keys(text, refs.get, known)
        return text if pattern is None else pattern.sub(lambda match: refs[match[0]], text)

    return _rewritten(plain, clean)


def _rewritten(value: Any, change: Callable[[str, _Path], str], path: _Path = ()) -> Any:
    """Return a value as JSON values, each text in it changed, names of fields too.

    Args:
        value: any.
        change: is given each text, with the way to it.
        path: the way to the value.

    Raises:
        ContextError: there is something in it that is no JSON, or it is nested too deep.
    """
    if len(path) > DEEPEST:
        raise ContextError(
            f"a value is nested more than {DEEPEST} levels deep", "give what a model can read"
        )
    value = _json(value)
    if isinstance(value, str):
        return change(value, path)
    if isinstance(value, list):
        return [_rewritten(each, change, (*path, n)) for n, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    made: dict[Any, Any] = {}
    for name, each in value.items():
        shown = _rewritten(name, change, (*path, _NAME))
        if isinstance(shown, dict | list):
            raise _no_json(name)
        made[_free(shown, made)] = _rewritten(each, change, (*path, name))
    return made


def _json(value: Any) -> Any:
    """Return a value as text, a list, a dictionary, or what is none of them and no key."""
    match _to_plain(value):
        case str() | uuid.UUID() as text:
            return str(text)
        case Mapping() as names:
            return dict(names)
        case bytes() | bytearray() | memoryview():
            raise _no_json(value)
        case Sequence() | AbstractSet() as several:
            return [*several]
        case scalar if scalar is None or isinstance(scalar, _SCALARS):
            return scalar
        case _:
            raise _no_json(value)


def _to_plain(value: Any) -> Any:
    """Return what a dataclass, a model of pydantic or a member of an enumeration holds."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _no_json(value: Any) -> ContextError:
    return ContextError(
        f"a value of type {type(value).__name__} is no JSON",
        "give text, JSON values, dataclasses or models of pydantic",
    )


def _free(name: Any, taken: Mapping[Any, Any]) -> Any:
    """Return a name of a field that is not taken: two keys may be masked alike."""
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name} ({number})"
    return free


def _way(path: _Path) -> str:
    """Return the way to a value, as one writes it; a name that is a key is not repeated."""
    if not path:
        return "the text"
    steps = (
        f"[{step}]" if isinstance(step, int) else f".{_NAME if found_in(str(step)) else step}"
        for step in path
    )
    return "".join(steps).lstrip(".")


_LONGEST_REASON = 1_000  # characters: more is no reason
_LOOKED_AT = 1_000  # refs whose labels are compared: some milliseconds


class ActivityMap(DraftMap):
    """The part of `Conversation` that is about what was done with rows."""

    def activity(self, turns: int = 3) -> ActivityRecord:
        """Return what was done with rows in the last turns, and with all that are retained.

        Args:
            turns: how many, with the current one.
        """
        return self._store.activity(self._address, turns, self._working_turn)

    def retain(self, refs: Iterable[str], reason: str) -> None:
        """Keep telling of these rows by their names, beyond the turns in which they were used.

        Args:
            refs: theirs.
            reason: why, in some words; keys in it are covered.

        Raises:
            BadRefError: one cannot be used; none is retained.
        """
        refs = list(dict.fromkeys(refs))
        self.resolve_all(refs)
        self._store.retain(self._address, _parse_refs(refs), self._reason(reason), "user")

    def _reason(self, reason: str) -> str:
        return str(scrub_value(reason, self.known_refs, self.text_keys()))[:_LONGEST_REASON]

    def demote(self, refs: Iterable[str]) -> None:
        """Leave rows out of prompts, until something is done with them again.

        Args:
            refs: theirs.

        Raises:
            BadRefError: one is not known.
        """
        self._store.demote(self._address, self._known(refs))

    def drop(self, refs: Iterable[str]) -> None:
        """Forget what was done with rows, and why they are retained; their refs stay known.

        Args:
            refs: theirs.

        Raises:
            BadRefError: one is not known.
        """
        self._store.drop(self._address, self._known(refs))

    def _known(self, refs: Iterable[str]) -> list[Ref]:
        refs = list(dict.fromkeys(refs))
        held = self.known_keys(refs)
        self.resolve_all([ref for ref in refs if ref not in held])
        return _parse_refs(refs)

    def note_activity(self, done: Sequence[Activity], actor: Actor) -> None:
        """Note what was done with rows: one round trip, or none where nothing was."""
        if done:
            self._store.note(self._address, done, actor, self._working_turn)

    def add_step(self, content: Mapping[str, Any]) -> StepEntry:
        """Keep what a step left: JSON values, in which refs take the place of keys.

            chat.add_step({"type": "read", "note": "recipe_1 wants basil"}).number  # 1

        Args:
            content: JSON values by field. `Context.done` calls this with what a decision has.

        Returns:
            the step as it is kept, with its number in the turn.

        Raises:
            ContextError: there is something in it that is no JSON.
        """
        try:
            text = json_text(scrub_value(content, self.known_refs, self.text_keys()))
        except ValueError as error:  # infinity, which JSON has not, or thousands of digits
            raise ContextError(
                f"what a step left is no JSON: {error}", "give text for it, or null"
            ) from None
        return self._store.add_step(self._address, text, self._working_turn)

    def steps(self, turns: int = 2) -> Sequence[StepEntry]:
        """Return what steps left, the last one at the end.

        Args:
            turns: of how many turns, with the current one.
        """
        return self._store.steps(self._address, turns, self._working_turn)

    def labels_of(self, refs: Iterable[str]) -> dict[str, str | None]:
        """Return the labels of those refs that are known, of rows, gone or not, and of drafts.

        Args:
            refs: any texts; those that are no known ref are left out of the answer.

        Returns:
            by ref, what people call the row; `None` where it has no label.
        """
        parsed = [ref for ref in map(parse_ref, refs) if ref is not None]
        rows = [ref for ref in parsed if not ref.draft]
        drafts = [ref for ref in parsed if ref.draft]
        found: dict[Ref, Any] = {}
        if rows:
            found |= self._store.resolve(self._address, rows)
        if drafts:
            found |= self._store.read_drafts(self._address, drafts)
        return {str(ref): entry.label for ref, entry in found.items()}

    def namesakes(
        self, labels: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], tuple[str, str]]:
        """Return the first and the last ref of those labels that several known rows have.

        The last thousand rows of an entity are looked at.

        Args:
            labels: each after the entity of its rows, as entries show it.

        Example:
            chat.namesakes([("recipe", "Soup")])  # {('recipe', 'Soup'): ('recipe_3', 'recipe_9')}
        """
        found = self._store.namesakes(self._address, labels, _LOOKED_AT)
        return {pair: (str(first), str(last)) for pair, (first, last) in found.items()}


def _parse_refs(refs: Iterable[str]) -> list[Ref]:
    return [ref for ref in map(parse_ref, refs) if ref is not None]


FORMAT = "alfred_refs.conversation"
VERSION = 4


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
    }


def key_to_json(key: Key) -> Any:
    """Return a key as text that tells its type, or a list of such texts."""
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
    value = {"ref": str(entry.ref), "key": key_to_json(entry.key)}
    beside = {"gone": entry.gone, "label": entry.label}
    return value | {name: said for name, said in beside.items() if said is not None}


def _draft_to_json(draft: DraftEntry) -> dict[str, Any]:
    value = {
        "ref": str(draft.ref),
        "content": json.loads(draft.content),
        "turn": draft.turn,
        "edited": draft.edited,
        "version": draft.version,
        "state": draft.state,
    }
    key = None if draft.key is None else key_to_json(draft.key)
    beside = {"label": draft.label, "key": key}
    return value | {name: said for name, said in beside.items() if said is not None}


def _activity_to_json(entry: ActivityEntry) -> dict[str, Any]:
    value = {
        "ref": str(entry.ref),
        "action": entry.action,
        "actor": entry.actor,
        "first_turn": entry.first_turn,
        "last_turn": entry.last_turn,
    }
    beside = {
        "reason": entry.reason,
        "demoted": entry.demoted or None,
        "seen_turn": entry.seen_turn,
        "seen": entry.seen,
    }
    return value | {name: said for name, said in beside.items() if said is not None}


class Conversation(ActivityMap):
    """One conversation of one owner, opened by `RefRegistry.conversation()`.

    Attributes:
        id: what the application calls it.
        owner: on whose behalf it is held, as text; `None` without one.

    Example:
        >>> chat = registry.conversation("chat-7")
        >>> key = chat.resolve("recipe_1")
        >>> chat.refer(Recipe, key)
        'recipe_1'
        >>> chat.scrub(f"the recipe {key}")
        'the recipe recipe_1'
        >>> chat.begin_turn()
        1
    """

    def __init__(
        self,
        address: Address,
        store: Store,
        entities: Entities,
        caches: Caches,
        *,
        telemetry: Telemetry,
        opened: Callable[[Address], Conversation],
        schemas: Schemas = frozenset(),
    ) -> None:
        super().__init__(address, store, entities, caches, telemetry, schemas=schemas)
        self._opened = opened

    def _under(self, schemas: Schemas) -> Conversation:
        """Return the conversation for those who read the same tables in other schemas.

        What one of the two has met the other asks the store for, which knows the tables.
        """
        return Conversation(
            *(self._address, self._store, self._entities, self._caches.under(schemas)),
            telemetry=self._telemetry,
            opened=self._opened,
            schemas=schemas,
        )

    @property
    def aio(self) -> AsyncConversation:
        """The same for those who await, as in `await chat.aio.resolve("recipe_1")`."""
        return AsyncConversation(self, is_async=self._store.is_async)

    @property
    def turn(self) -> int:
        """The number of the turn this object works in, from 1; 0 before the first.

        Asked of the store at first use and then kept, so that all work of a turn has one number
        however many turns begin meanwhile.
        """
        if self._turn is None:
            self._turn = self._store.turn(self._address)
        return self._turn

    def begin_turn(self) -> int:
        """Begin the next turn and return its number."""
        self._turn = self._store.begin_turn(self._address)
        return self._turn

    def fork(self, new_id: str) -> Conversation:
        """Make a conversation that goes on from here, for a branch of a chat, and open it.

        It has the same owner, refs, drafts and turn, and mints from then on for itself: the next
        new row may be `recipe_4` in both, and two different ones. A draft that is not saved yet
        may be saved in both, as two rows.

        Args:
            new_id: of the branch: 1 to 255 printable characters.

        Raises:
            UnknownConversationError: this conversation was not begun: it has neither refs nor
                turns.
            ConversationExistsError: the new id is taken, or was used before.
            ConversationIdError: it cannot identify a conversation.
        """
        new = Address(new_id, self.owner)
        self._settle_all()
        self._store.fork(self._address, new_id)
        return self._opened(new)

    def forget(self) -> None:
        """Remove the conversation with all its refs and drafts, for good.

        Its numbers stay taken: if the id is begun again, they go on, and a ref that a model
        remembers is unknown, never another row's. Sessions that are at work in it, and other
        processes, go on showing what they have met, until they open the conversation anew.

        Raises:
            UnknownConversationError: it was not begun, or is forgotten already.
        """
        self._store.forget(self._address)
        self._caches.forget()
        self._turn = None

    def export(self) -> dict[str, Any]:
        """Return the whole conversation as JSON values, to be kept or moved.

        For trusted code: it holds keys, and is to be kept like a backup of the database.
        `RefRegistry.import_conversation()` takes it.

        Raises:
            UnknownConversationError: it was not begun.
        """
        return to_json(self._store.export(self._address))

    def scrub(
        self,
        value: Any,
        *,
        unknown: Unknown = "mask",
        entities: Container[str] | None = None,
    ) -> Any:
        """Return a value without keys, for whatever is about to reach a model.

        Found are UUIDs in any spelling, split or cut ones too, and keys that are texts, as far as
        this process has met them; bare integers are no keys by their look. Of what is known the
        ref takes the place: at most one round trip.

            chat.scrub(["see A508000D-9B55-40F0-8886-DBDD88BD2DE2"])  # ['see recipe_1']

        Args:
            value: text or JSON values of any depth; dataclasses and models become such.
            unknown: what becomes of a key without ref: `"mask"` puts `<key>` in its place,
                `"refuse"` raises.
            entities: whose refs may be told, if not all: other keys are as if they had none.

        Raises:
            KeyShownError: there is a key without ref, and it is to be refused.
        """
        return scrub_value(
            value, partial(self.known_refs, among=entities), self.text_keys(), unknown
        )

    def entries(
        self, entity: type[Any] | Table | str | None = None, *, keys: bool = False
    ) -> Iterator[RefEntry]:
        """Yield what is known of each ref, in natural order, read from the store page by page.

        Args:
            entity: of refs of this entity, mapped class or table only.
            keys: with their keys; for trusted code.
        """
        name = None if entity is None else self._entities.name_of(entity)
        for entry in self._store.entries(self._address, name):
            key = entry.key if keys else None
            ref = entry.ref
            yield RefEntry(str(ref), ref.entity, ref.number, entry.gone, entry.label, key)


class AsyncConversation(AsyncFacade[Conversation]):
    """What a `Conversation` does, awaited; what it iterates over comes as a list."""

    async def turn(self) -> int:
        """Return `Conversation.turn`."""
        return await self.run(lambda: self.sync.turn)

    begin_turn = async_method(Conversation.begin_turn)
    resolve = async_method(Conversation.resolve)
    resolve_all = async_method(Conversation.resolve_all)
    refer = async_method(Conversation.refer)
    refer_all = async_method(Conversation.refer_all)
    scrub = async_method(Conversation.scrub)
    entries = async_list_method(Conversation.entries)
    labels_of = async_method(Conversation.labels_of)
    namesakes = async_method(Conversation.namesakes)

    draft = async_method(Conversation.draft)
    drafts = async_list_method(Conversation.drafts)
    read_drafts = async_method(Conversation.read_drafts)
    edit_draft = async_method(Conversation.edit_draft)
    edit_drafts = async_method(Conversation.edit_drafts)
    discard_drafts = async_method(Conversation.discard_drafts)

    activity = async_method(Conversation.activity)
    retain = async_method(Conversation.retain)
    demote = async_method(Conversation.demote)
    drop = async_method(Conversation.drop)
    add_step = async_method(Conversation.add_step)
    steps = async_method(Conversation.steps)

    fork = async_method(Conversation.fork)
    forget = async_method(Conversation.forget)
    export = async_method(Conversation.export)
