"""`Conversation`: turns, activity, scrubbing, forks and exports.

A conversation is the scope of its refs. `RefRegistry.conversation()` opens one without reading
anything, and many objects in many processes may work in the same one. The class is built in
layers:

| class | module | adds |
| --- | --- | --- |
| `RefMap` | `refs` | `resolve`, `refer` |
| `DraftMap` | `drafts` | `draft`, `edit_draft`, `discard_drafts`, ... |
| `ActivityMap` | here | `activity`, `retain`, `add_step`, labels |
| `Conversation` | here | turns, `scrub`, `entries`, `fork`, `forget`, `export` |
| `SessionConversation` | `view` | what one session adds: its cache, its transaction |

>>> key = chat.resolve("recipe_1")
>>> chat.begin_turn()
1
>>> chat.scrub({"text": f"about {key}"})
{'text': 'about recipe_1'}
>>> chat.retain(["recipe_1"], "the user's favourite")
>>> branch = chat.fork("chat-7b")
>>> branch.resolve("recipe_1") == key
True
>>> [entry.ref for entry in chat.entries(Recipe)]
['recipe_1', 'recipe_2']

Activity records the actions on rows (`"read"`, `"created"`, ...), turn by turn. Sessions opened
with `by=` and tools note it, and `alfred_refs.context` makes prompts of it. `calls` are the calls
of tools that are kept: those that wait for a person, and the history.

>>> from alfred_refs.store import NewCall
>>> entry = chat.calls.add(NewCall("db_delete", {"table": "recipes"}, "waiting", "model"))
>>> chat.calls.update(entry.number, "waiting", state="rejected", decided_by="ann").state
'rejected'
>>> chat.calls.update(entry.number, "waiting", state="done") is None
True

Limits:

- `turn` is read once and kept, so all work of one object has one number; open the conversation
  again to see turns that others begin.
- `calls` executes none of them: `alfred_refs.tools` does.
- After `forget`, other processes resolve refs that they have cached until they open it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from sqlalchemy import Connection, Table

from alfred_refs.conversation.caches import Caches
from alfred_refs.conversation.drafts import DraftMap
from alfred_refs.conversation.refs import RefEntry
from alfred_refs.conversation.scrub import Unknown, scrub_value
from alfred_refs.errors import ContextError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.keys import Ref, parse_ref
from alfred_refs.sqla import AsyncFacade, Schemas, async_list_method, async_method, schemas_of
from alfred_refs.store import (
    Activity,
    ActivityRecord,
    Actor,
    Address,
    CallEntry,
    CallState,
    CallValues,
    ChangeEntry,
    NewCall,
    StepEntry,
    Store,
    json_text,
)
from alfred_refs.store.telemetry import Telemetry

_MAX_REASON = 1_000  # characters
_MAX_CALL = 2**31 - 1  # of the column
_MAX_LABELS = 1_000  # refs of an entity whose labels are compared: some milliseconds


class ActivityMap(DraftMap):
    """The part of `Conversation` that records the actions on rows."""

    @property
    def calls(self) -> Calls:
        """The calls that are kept: those that wait for a person, and the history."""
        return Calls(self._store, self._address, self._working_turn)

    def activity(self, turns: int = 3) -> ActivityRecord:
        """Return the actions on rows in the last turns, and on all retained rows.

        Args:
            turns: how many, the current one included.
        """
        return self._store.activity(self._address, turns, self._working_turn)

    def retain(self, refs: Iterable[str], reason: str) -> None:
        """Keep rows in prompts beyond the turns in which they were used.

        Args:
            refs: of the rows.
            reason: why, in some words; keys in it are replaced.

        Raises:
            BadRefError: one cannot be used; none is retained.
        """
        refs = list(dict.fromkeys(refs))
        self.resolve_all(refs)
        clean = str(scrub_value(reason, self.known_refs, self.text_keys()))[:_MAX_REASON]
        self._store.retain(self._address, _parse_refs(refs), clean, "user")

    def demote(self, refs: Iterable[str]) -> None:
        """Leave rows out of prompts, until something is done with them again.

        Args:
            refs: of the rows.

        Raises:
            BadRefError: one is not known.
        """
        self._store.demote(self._address, self._parse_known(refs))

    def drop(self, refs: Iterable[str]) -> None:
        """Delete the activity of rows, and the reasons for which they are retained.

        Their refs stay known.

        Args:
            refs: of the rows.

        Raises:
            BadRefError: one is not known.
        """
        self._store.drop(self._address, self._parse_known(refs))

    def _parse_known(self, refs: Iterable[str]) -> list[Ref]:
        """Parse refs, including refs of deleted rows; raise if one is not known."""
        refs = list(dict.fromkeys(refs))
        known = self.known_keys(refs)
        self.resolve_all([ref for ref in refs if ref not in known])
        return _parse_refs(refs)

    def note_activity(self, activities: Sequence[Activity], actor: Actor) -> None:
        """Record actions on rows: one round trip, or none for an empty list."""
        if activities:
            self._store.note(self._address, activities, actor, self._working_turn)

    def add_step(self, content: Mapping[str, Any]) -> StepEntry:
        """Store the result of an agent's step: JSON values, in which refs replace keys.

            chat.add_step({"type": "read", "note": "recipe_1 wants basil"}).number  # 1

        Args:
            content: JSON values by field. `Context.done` calls this with the fields of a decision.

        Returns:
            the step as it is stored, with its number in the turn.

        Raises:
            ContextError: a part of it has no JSON form.
        """
        try:
            text = json_text(scrub_value(content, self.known_refs, self.text_keys()))
        except ValueError as error:  # infinity and NaN, or an integer of thousands of digits
            raise ContextError(
                f"the content of a step cannot be written as JSON: {error}",
                "give text for it, or null",
            ) from None
        return self._store.add_step(self._address, text, self._working_turn)

    def steps(self, turns: int = 2) -> Sequence[StepEntry]:
        """Return the steps of the last turns, in order.

        Args:
            turns: of how many turns, the current one included.
        """
        return self._store.steps(self._address, turns, self._working_turn)

    def labels_of(self, refs: Iterable[str]) -> dict[str, str | None]:
        """Return the labels of known refs, of rows that exist or not, and of drafts.

        Args:
            refs: any texts; those that are not known refs are left out of the result.

        Returns:
            by ref, what people call the row; `None` where it has no label.
        """
        parsed = _parse_refs(refs)
        rows = [ref for ref in parsed if not ref.draft]
        drafts = [ref for ref in parsed if ref.draft]
        labels: dict[str, str | None] = {}
        if rows:
            entries = self._store.resolve(self._address, rows)
            labels |= {str(ref): entry.label for ref, entry in entries.items()}
        if drafts:
            saved = self._store.read_drafts(self._address, drafts)
            labels |= {str(ref): entry.name for ref, entry in saved.items()}
        return labels

    def namesakes(
        self, labels: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], tuple[str, str]]:
        """Return the first and the last ref of each label that several known rows have.

        Only the last thousand refs of an entity are compared.

        Args:
            labels: pairs of an entity and a label of one of its rows.

        Example:
            chat.namesakes([("recipe", "Soup")])  # {('recipe', 'Soup'): ('recipe_3', 'recipe_9')}
        """
        found = self._store.namesakes(self._address, labels, _MAX_LABELS)
        return {pair: (str(first), str(last)) for pair, (first, last) in found.items()}


def _parse_refs(refs: Iterable[str]) -> list[Ref]:
    return [ref for ref in map(parse_ref, refs) if ref is not None]


class Conversation(ActivityMap):
    """One conversation of one owner, opened by `RefRegistry.conversation()`.

    Attributes:
        id: what the application calls it.
        owner: the tenant or user it belongs to, as text; `None` without one.
        desk: the bound toolset that has opened it, if any; its sessions read the rows of a
            `Context`.

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
        open_conversation: Callable[[Address], Conversation],
        schemas: Schemas = frozenset(),
    ) -> None:
        super().__init__(address, store, entities, caches, telemetry, schemas=schemas)
        self._open = open_conversation
        self.desk: Any = None

    def for_bind(self, bind: Any) -> Conversation:
        """Return the conversation for the rows of an engine with a `schema_translate_map`.

        Sessions use the schemas of their own engine. Methods of a conversation use the schemas of
        the registry's engine.

        Args:
            bind: an `Engine` or a `Connection`, asynchronous ones included.

        Example:
            >>> tenant = engine.execution_options(schema_translate_map={None: "tenant_1"})
            >>> registry.conversation("chat-8").for_bind(tenant).id
            'chat-8'
        """
        schemas = schemas_of(bind)
        return self if schemas == self._schemas else self._under(schemas)

    def _under(self, schemas: Schemas) -> Conversation:
        """Return the conversation for the same tables under another `schema_translate_map`.

        The two have separate caches; the store knows the schemas of each ref.
        """
        conversation = Conversation(
            self._address,
            self._store,
            self._entities,
            self._caches.under(schemas),
            telemetry=self._telemetry,
            open_conversation=self._open,
            schemas=schemas,
        )
        conversation.desk, conversation._turn = self.desk, self._turn
        return conversation

    @property
    def aio(self) -> AsyncConversation:
        """The same methods as coroutines, as in `await chat.aio.resolve("recipe_1")`."""
        return AsyncConversation(self, is_async=self._store.is_async)

    @property
    def turn(self) -> int:
        """The number of the turn this object works in, from 1; 0 before the first.

        Read from the store at first use and then kept, so that all work of a turn has one number
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
        """Copy the conversation for a branch of a chat, and open the copy.

        It has the same owner, refs, drafts and turn, and mints independently from then on: the
        next new row may be `recipe_4` in both, and two different rows. A draft that is not saved
        yet may be saved in both, as two rows.

        Args:
            new_id: of the branch: 1 to 255 printable characters.

        Raises:
            UnknownConversationError: this conversation was not begun: it has neither refs nor
                turns.
            ConversationExistsError: the new id is in use, or was used before.
            ConversationIdError: it cannot identify a conversation.
        """
        new = Address(new_id, self.owner)
        self._reconcile_all()
        self._store.fork(self._address, new_id)
        branch = self._open(new)
        branch.desk = self.desk
        return branch

    def forget(self) -> None:
        """Delete the conversation with all its refs and drafts.

        Its numbers stay in use: if the id is begun again, they continue, and a ref that a model
        remembers is unknown, never another row's. Sessions that are working in it, and other
        processes, show the refs that they have cached until they open the conversation again.

        Raises:
            UnknownConversationError: it was not begun, or is forgotten already.
        """
        self._store.forget(self._address)
        self._caches.forget()
        self._turn = None

    def export(self) -> dict[str, Any]:
        """Return the whole conversation as JSON values, to be stored or moved.

        For trusted code: it contains keys, and needs the protection of a backup of the database.
        `RefRegistry.import_conversation()` reads it.

        Raises:
            UnknownConversationError: it was not begun.
        """
        from alfred_refs.conversation.export import to_json  # noqa: PLC0415  # loads pydantic

        return to_json(self._store.export(self._address))

    def scrub(
        self,
        value: Any,
        *,
        unknown: Unknown = "mask",
        entities: Container[str] | None = None,
    ) -> Any:
        """Return a value without keys, for anything that is about to reach a model.

        Keys are UUIDs in any spelling, also split or truncated, and keys that are text, as far as
        this process has cached them. A bare integer cannot be recognised as a key. Known keys are
        replaced by their refs: at most one round trip.

            chat.scrub(["see A508000D-9B55-40F0-8886-DBDD88BD2DE2"])  # ['see recipe_1']

        Args:
            value: text or JSON values of any depth; dataclasses and models are converted.
            unknown: what to do with a key without a ref: `"mask"` writes `<key>` in its place,
                `"refuse"` raises.
            entities: entities whose refs may be shown, if not all: keys of others are treated as
                keys without a ref.

        Raises:
            KeyShownError: a key has no ref, and `unknown` is `"refuse"`.
        """
        refs_of = partial(self.known_refs, among=entities)
        return scrub_value(value, refs_of, self.text_keys(), unknown)

    def entries(
        self,
        entity: type[Any] | Table | str | None = None,
        *,
        keys: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[RefEntry]:
        """Iterate over the refs in natural order, read from the store page by page.

        Args:
            entity: refs of this entity, mapped class or table only.
            keys: include their keys; for trusted code.
            after: refs after this one only, known or not, to continue a list.
            limit: the largest number; `None` for all.
        """
        name = None if entity is None else self._entities.name_of(entity)
        place = None if after is None else parse_ref(after)
        for entry in self._store.entries(self._address, name, place, limit):
            key = entry.key if keys else None
            ref = entry.ref
            yield RefEntry(str(ref), ref.entity, ref.number, entry.gone, entry.label, key)


class AsyncConversation(AsyncFacade[Conversation]):
    """The methods of a `Conversation` as coroutines; iterators come as lists.

    Example:
        >>> import asyncio
        >>> asyncio.run(chat.aio.begin_turn())
        1
    """

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


class Calls:
    """The calls of one conversation.

    Args:
        store: where they are kept.
        address: of the conversation.
        turn: in which the caller works; `None` for the current one.
    """

    def __init__(self, store: Store, address: Address, turn: int | None) -> None:
        self._store = store
        self._address = address
        self._turn = turn

    def shared_connection(self, connections: Iterable[Connection]) -> Connection | None:
        """Return the connection in whose transaction calls can be stored, if there is one."""
        return next((each for each in connections if self._store.is_on(each)), None)

    def add(
        self,
        new: NewCall,
        changes: Sequence[ChangeEntry] = (),
        connection: Connection | None = None,
    ) -> CallEntry:
        """Store a call; see `Store.add_call`."""
        return self._store.add_call(self._address, new, changes, self._turn, connection)

    def update(
        self,
        number: int,
        expected: CallState,
        changes: Sequence[ChangeEntry] = (),
        connection: Connection | None = None,
        **values: Unpack[CallValues],
    ) -> CallEntry | None:
        """Change a call that is in an expected state; see `Store.update_call`."""
        return self._store.update_call(
            self._address,
            number,
            expected=expected,
            changes=changes,
            connection=connection,
            **values,
        )

    def revert(self, number: int) -> None:
        """Remove the changes of a call that was rolled back; see `Store.revert_call`."""
        self._store.revert_call(self._address, number)

    def lock(self, number: int, connection: Connection | None) -> CallEntry | None:
        """Return a call, locked until the end of a connection's transaction."""
        if connection is None:
            return self.get(number)
        return self._store.lock_call(self._address, number, connection)

    def get(self, number: int) -> CallEntry | None:
        """Return a call by its number; `None` if there is none, or it is no number at all."""
        if type(number) is not int or not 0 < number <= _MAX_CALL:
            return None
        return next(iter(self._store.calls(self._address, numbers=[number])), None)

    def find(self, call_id: str) -> CallEntry | None:
        """Return a call by the framework's id of it."""
        return next(iter(self._store.calls(self._address, call_id=call_id)), None)

    def select(
        self,
        *,
        numbers: Collection[int] | None = None,
        turn: int | None = None,
        ref: str | None = None,
        states: Collection[CallState] | None = None,
        before: int | None = None,
        limit: int = 1_000,
    ) -> Sequence[CallEntry]:
        """Return calls in order; see `Store.calls`."""
        return self._store.calls(
            self._address,
            numbers=numbers,
            turn=turn,
            ref=ref,
            states=states,
            before=before,
            limit=limit,
        )

    def changes(
        self, calls: Collection[int], after: int = 0, limit: int | None = None
    ) -> Sequence[ChangeEntry]:
        """Return the rows that calls have changed, in order; see `Store.changes`."""
        return self._store.changes(self._address, calls, after, limit) if calls else ()
