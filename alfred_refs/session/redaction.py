"""Redaction of keys in exceptions of the driver and the ORM.

Errors without keys: each exception that leaves a session has refs in their place.

    IntegrityError: Key (recipe_id)=(a508000d-9b55-40f0-8886-dbdd88bd2de2) is not present
    IntegrityError: Key (recipe_id)=(recipe_1) is not present

`errors` finds the exceptions, with all that hangs on them, and words them in place; `wording` puts
refs into their sentences and parameters; `columns` tells which key columns a name in them means.
A key that has no ref in this process is hidden.

Which key columns a name in an error may mean.

An error names columns and parameters as text: `Key (recipe_id)=(...)`, `{'recipe_id_1': ...}`.
What the metadata tells of them goes out: the `KeyColumn`, that it is data, or that it cannot be
told. Only tables that the application has used, and those beside them in their metadata, are
known. No I/O, and a mistake in the metadata is not raised here: an error is being worded.

The words and values of an error, with refs in place of keys.

Text and parameters that have keys come in; copies go out in which every key reads as its ref, or
as `HIDDEN` where it has none, where it cannot be told which entity it is of, and where it cannot
be told whether it is a key. Hiding too much is a nuisance, hiding too little is not allowed.
Nothing is minted and nothing is asked: only what the conversation has met in this process.

No error shows a key: exceptions that leave a session are worded anew, in place.

An exception comes in with all that hangs on it: cause, context, members, the driver's own. It
keeps its class, its SQLSTATE and its traceback; its text, arguments, parameters and details have
refs in place of keys. Two ways lead here: the engine tells of every error of the driver, wherever
it is raised (`hide_keys`), and the session of what SQLAlchemy raises by itself. Errors of
connections that belong to no session are not looked at. Nothing is minted, nothing is asked.

Limits: local variables in a traceback's frames, and the `diag` of psycopg2, have keys.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol, cast

from sqlalchemy import Column, Connection, ForeignKeyConstraint, Table
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import NoReferenceError, SQLAlchemyError, StatementError

from alfred_refs import sqla
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import RefError, SetupError
from alfred_refs.mapping import keys
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn
from alfred_refs.mapping.keys import HIDDEN, Key, KeyType, parse_ref, spells_uuid
from alfred_refs.session.instances import Boundary

# `id_1`, `id_1_2` (a list), `id__0` and `id_m1` (many records) are parameters for a column `id`
_NUMBERED = re.compile(r"_[m_]?\d+$")

_FOREIGN_KEY_VIOLATION = "23503"


class UnknownMeaning(Enum):
    """What a name means if it is not a key column."""

    DATA = "data"
    UNKNOWN = "unknown"


Meaning = KeyColumn | UnknownMeaning


@dataclass(frozen=True, slots=True)
class ErrorFields:
    """What a database error says of itself, field by field; `None` where it says nothing."""

    sqlstate: str | None = None
    schema: str | None = None
    table: str | None = None
    constraint: str | None = None


class ColumnCatalogue:
    """The application's columns by the names that errors have for them."""

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self._tables = entities.met_tables()

    def has_keys_of(self, key_type: KeyType) -> bool:
        """Tell whether there may be keys of a type; without any table known there may."""
        if key_type not in self._entities.policy.key_types:
            return False
        columns = [column for table in self._tables for column in table.columns]
        meanings = map(self._meaning, columns)
        return not columns or any(
            m is UnknownMeaning.UNKNOWN or (isinstance(m, KeyColumn) and m.key_type == key_type)
            for m in meanings
        )

    def of_parameter(self, name: str | None, statement: str | None) -> Meaning:
        """Return what a parameter of a statement is compared with or stored in."""
        words = set(re.findall(r"\w+", statement or ""))
        tables = [table for table in self._tables if table.name in words]
        while name:
            columns = [
                c
                for table in tables
                for c in table.columns
                if name in (c.name, c.key, f"{table.name}_{c.name}")
            ]
            if columns:
                return _common_meaning([self._meaning(column) for column in columns])
            shorter = _NUMBERED.sub("", name)
            name = None if shorter == name else shorter
        return UnknownMeaning.UNKNOWN

    def of_detail(self, names: Sequence[str], fault: ErrorFields) -> list[Meaning]:
        """Return what the columns are that a violated constraint has values for.

        A foreign key may be violated from either side: the columns are those of the table that
        has it, or those that it references.
        """
        found = [
            columns
            for table in self._tables
            if table.name == fault.table and table.schema in (None, fault.schema)
            for columns in _columns_of_constraint(table, names, fault)
        ]
        if not found:
            return [UnknownMeaning.UNKNOWN] * len(names)
        meanings = [[self._meaning(column) for column in columns] for columns in found]
        return [_common_meaning(list(one)) for one in zip(*meanings, strict=True)]

    def of_identity(self, path: str) -> list[Meaning] | None:
        """Return what the primary key of a class holds, named as in `<class 'path'>`."""
        classes = sqla.classes_at_path(path)
        if len(classes) != 1:
            return None
        try:
            identity = self._entities.of_class(classes[0]).identity
        except SetupError:
            return None
        return [column or UnknownMeaning.DATA for column in identity]

    def _meaning(self, column: Column[Any] | None) -> Meaning:
        if column is None:
            return UnknownMeaning.UNKNOWN
        try:
            # an import in the midst of an error may fail, and take the error's place
            if not self._entities.is_named(column):
                return UnknownMeaning.UNKNOWN
            return self._entities.of_column(column) or UnknownMeaning.DATA
        except SetupError:
            return UnknownMeaning.UNKNOWN


def _common_meaning(meanings: list[Meaning]) -> Meaning:
    """Return the one meaning of a name in several tables."""
    first, *others = meanings
    if isinstance(first, KeyColumn):
        same = all(
            isinstance(m, KeyColumn) and (m.space, m.key_type) == (first.space, first.key_type)
            for m in others
        )
        return first if same else UnknownMeaning.UNKNOWN
    return first if all(m is first for m in others) else UnknownMeaning.UNKNOWN


def _columns_of_constraint(
    table: Table, names: Sequence[str], fault: ErrorFields
) -> list[list[Column[Any] | None]]:
    """Return which columns of which tables an error about a table's constraint may name."""
    if fault.sqlstate != _FOREIGN_KEY_VIOLATION:
        columns = {column.name: column for column in table.columns}
        return [[columns.get(name) for name in names]]
    constraints = table.foreign_key_constraints
    named = [c for c in constraints if fault.constraint in (c.name, _default_name(c))]
    sides = [side for constraint in named or constraints for side in _sides(constraint)]
    return [list(side) for side in sides if [column.name for column in side] == list(names)]


def _default_name(constraint: ForeignKeyConstraint) -> str:
    """Return what PostgreSQL calls a foreign key that was given no name."""
    columns = "_".join(column.name for column in constraint.columns)
    return f"{constraint.table.name}_{columns}_fkey"


def _sides(constraint: ForeignKeyConstraint) -> list[list[Column[Any]]]:
    try:
        referenced = [element.column for element in constraint.elements]
    except NoReferenceError:
        referenced = []
    return [list(constraint.columns), referenced]


# Values that say no more than they print, and print no more than they are.
_PLAIN = (bool, float, Decimal, dt.date, dt.time, dt.timedelta, type(None))

# PostgreSQL begins each part but the first with a word, in the server's language
_PARTS = re.compile(r"^(?=[^\W\d_]+: {2})", re.MULTILINE)
# `Key (id, position)=(5, 2) already exists`
_DETAIL = re.compile(r"\((?P<names>[^=]*)\)=\((?P<values>.*)\)", re.DOTALL)
# the values of all columns, in the order that the database has them: not to be taken apart
_ROW = re.compile(r"(?P<said>contains|^[^\W\d_]+: {2}[^(]*) \(.*\)", re.DOTALL)
_ROW_VIOLATIONS = {"23502", "23514", "44000"}  # not null, check, check option
_ROW_LEFT_OUT = "(values left out: there may be keys among them)"
# a piece of the statement, which some drivers send with the values in it, and a caret under it
_EXCERPT = re.compile(r"\n(LINE \d+: )(.*)\n *\^")
_VALUE = re.compile(r"'|(?<![\w$])\d")
_NUMBER = re.compile(r"(?<![\w.$])\d+(?!\w|\.\d)")
_PLACE = re.compile(r"\b(?:LINE \d+:|line \d+ at )")
# SQLAlchemy's identity of an instance, and its complaint about a row that an insert returned
_IDENTITY = re.compile(r"\(<class '(?P<path>[^']+)'>, \((?P<values>.*?)\), (?:None|[^()]*)\)")
_SENTINEL = re.compile(r"(?<=result set to parameter sets; key )(.*)(?= was not found\. There)")


Say = Callable[[str], str]
"""Words a text anew."""


class Names(Protocol):
    """What keys are called: a conversation, or nothing at all."""

    def refs_by_entity(self, key: Key) -> Mapping[str, str]:
        """Return the refs of a key, by entity."""
        ...

    def text_keys(self) -> Iterable[str]:
        """Return the keys that are text."""
        ...


class Wording:
    """How one error, and all that belongs to it, is worded.

    Parameters go first: what they hold for a key is then hidden in the text too.
    """

    def __init__(self, names: Names, catalogue: ColumnCatalogue, fault: ErrorFields) -> None:
        self._names = names
        self._catalogue = catalogue
        self._fault = fault
        self._numbers = catalogue.has_keys_of("integer")
        self._strings = catalogue.has_keys_of("string")
        self._given: dict[str, str] = {}  # keys of the statement, as text → what stands for them

    def ref(self, key: Key, entity: str | None = None) -> str:
        """Return what stands for a key; without an entity only if there is no doubt."""
        names = self._names.refs_by_entity(key)
        if entity is not None and entity in names:
            return names[entity]
        sure = len(names) == 1 and (entity is None or isinstance(key, uuid.UUID))
        return next(iter(names.values())) if sure else HIDDEN

    def _key(self, key: Key, meaning: Meaning) -> str:
        """Return what stands for a key of a column; an alternate key may be another row's."""
        if not isinstance(meaning, KeyColumn):
            return self.ref(key)
        return self.ref(key, meaning.entity) if meaning.by is None else HIDDEN

    def parameters(
        self, given: Any, statement: str | None, positions: Sequence[str] | None = None
    ) -> Any:
        """Return a copy of a statement's parameters, or of a list of them.

        Args:
            given: mappings by name, or sequences by position.
            statement: the SQL that they belong to.
            positions: their names in order, if they have no names themselves.
        """
        if isinstance(given, Mapping):
            return {
                name: self.value(value, self._catalogue.of_parameter(name, statement))
                for name, value in given.items()
            }
        if not isinstance(given, list | tuple):
            return None if given is None else HIDDEN
        if given and all(isinstance(one, Mapping | list | tuple) for one in given):
            return [self.parameters(one, statement, positions) for one in given]
        fits = positions is not None and len(positions) == len(given)
        names = positions if positions is not None and fits else [None] * len(given)
        meanings = [self._catalogue.of_parameter(name, statement) for name in names]
        return tuple(map(self.value, given, meanings))

    def value(self, value: Any, meaning: Meaning = UnknownMeaning.DATA) -> Any:
        """Return what stands for a value, as JSON would have it or as it is."""
        if isinstance(value, Mapping):
            return {self.value(k): self.value(v, meaning) for k, v in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(element, meaning) for element in value]
        return self._single(value, meaning)

    def _single(self, value: Any, meaning: Meaning) -> Any:
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, uuid.UUID):
            return self._key(uuid.UUID(int=value.int), meaning)
        if isinstance(value, str):
            return self._text_value(value, meaning)
        if isinstance(value, int):
            return self._number(value, meaning)
        return f"<{type(value).__name__}>"

    def _number(self, value: int, meaning: Meaning) -> Any:
        if meaning is UnknownMeaning.DATA or (
            meaning is UnknownMeaning.UNKNOWN and not self._numbers
        ):
            return value
        shown = self._key(value, meaning) if isinstance(meaning, KeyColumn) else HIDDEN
        return self._give(str(value), shown)

    def _give(self, key: str, shown: str) -> str:
        """Remember what stands for a key; of one that stands for two rows it cannot be told."""
        same = self._given.setdefault(key, shown) == shown
        self._given[key] = shown if same else HIDDEN
        return shown

    def _text_value(self, value: str, meaning: Meaning) -> str:
        if isinstance(meaning, KeyColumn):
            return self._key_text(value, meaning)
        if meaning is UnknownMeaning.UNKNOWN and self._strings and not spells_uuid(value):
            return HIDDEN
        return keys.scrub(value, self.ref)

    def _key_text(self, value: str, column: KeyColumn) -> str:
        """Return what stands for the text of a key; a ref stays one."""
        ref = parse_ref(value)
        if value == HIDDEN or (ref is not None and ref.entity == column.entity):
            return value
        if column.key_type == "uuid":
            return self._key(uuid.UUID(value), column) if spells_uuid(value) else HIDDEN
        if column.key_type == "integer":
            return self._key(int(value), column) if value.isdecimal() else HIDDEN
        return self._give(value, self._key(value, column))

    def sent(self, text: str) -> str:
        """Return what the database or its driver says."""
        text = _EXCERPT.sub(lambda piece: "" if _VALUE.search(piece[2]) else piece[0], text)
        return "".join(map(self._part, _PARTS.split(text)))

    def _part(self, text: str) -> str:
        if detail := _DETAIL.search(text):
            before, after = text[: detail.start()], text[detail.end() :]
            return self.free(before) + self._detail(detail) + self.free(after)
        if self._fault.sqlstate in _ROW_VIOLATIONS or "row contains (" in text:
            text = _ROW.sub(rf"\g<said> {_ROW_LEFT_OUT}", text)
        return self.free(text)

    def _detail(self, detail: re.Match[str]) -> str:
        names = detail["names"].split(", ")
        values = detail["values"].split(", ")
        meanings = self._catalogue.of_detail([name.strip('"') for name in names], self._fault)
        if len(values) != len(names):  # a value with a comma in it
            return f"({detail['names']})=({HIDDEN})"
        shown = map(self._detail_value, values, meanings)
        return f"({detail['names']})=({', '.join(shown)})"

    def _detail_value(self, value: str, meaning: Meaning) -> str:
        if value == "null":
            return value
        if meaning is UnknownMeaning.UNKNOWN and self._numbers and value.isdecimal():
            return HIDDEN
        return self._text_value(value, meaning)

    def free(self, text: str) -> str:
        """Return text in which a key is known by its look, or because it was met before."""
        text = keys.scrub(text, self.ref)
        for key in [*self._given, *self._names.text_keys()]:
            if key in text and not key.isdecimal():
                shown = self._given.get(key, HIDDEN).replace("\\", r"\\")
                text = re.sub(rf"(?<!\w){re.escape(key)}(?!\w)", shown, text)
        return _NUMBER.sub(self._met_number, text) if self._numbers else text

    def met(self, number: int) -> int | str:
        """Return what stands for a number if it was a key of the statement, or else itself."""
        return self._given.get(str(number), number)

    def _met_number(self, number: re.Match[str]) -> str:
        """Hide a number that is a key, wherever it is not one of a line."""
        digits = number[0]
        place = _PLACE.search(number.string, max(0, number.start() - 5))
        if place is not None and place.start() <= number.start() < place.end():
            return digits
        known = digits in self._given or self._names.refs_by_entity(int(digits))
        return self._given.get(digits, HIDDEN) if known else digits

    def raised(self, text: str) -> str:
        """Return what SQLAlchemy says without the database, or anybody else."""
        text = keys.scrub(text, self.ref)
        return _SENTINEL.sub(self._sentinel, _IDENTITY.sub(self._identity, text))

    def _identity(self, identity: re.Match[str]) -> str:
        values = identity["values"].removesuffix(",").split(", ")
        meanings = self._catalogue.of_identity(identity["path"])
        if meanings is None or len(meanings) != len(values):
            meanings = [UnknownMeaning.UNKNOWN] * len(values)
        shown = map(self._identity_value, values, meanings)
        return f"({identity['path']}, ({', '.join(shown)}))"

    def _identity_value(self, value: str, meaning: Meaning) -> str:
        if isinstance(meaning, KeyColumn):
            return self._key_text(value.strip("'\""), meaning)
        return HIDDEN if meaning is UnknownMeaning.UNKNOWN else value

    def _sentinel(self, said: re.Match[str]) -> str:
        for number in _NUMBER.findall(said[0]):
            self._given.setdefault(number, HIDDEN)
        return HIDDEN


# The attribute of a connection that says which sessions are at work on it: what is an option of
# the connection, listeners and eager loaders see.
_SESSIONS = "alfred_refs_sessions"
# Kept of an exception that is worded anew: once is enough, and twice would be too much.
_WORDED = "_alfred_refs_worded"

# Attributes of drivers' exceptions with sentences in them; others are names and codes.
_SENTENCES = {"message", "detail", "hint", "context", "internal_query", "query", "pgerror"}
_SENTENCE_FIELDS = {ord(field) for field in "MDHWq"}  # the same, in the wire protocol's letters


class ErrorRedaction:
    """What one session does about keys in errors."""

    def __init__(self, boundary: Boundary) -> None:
        self.boundary = boundary
        self.cut = False  # a connection was lost: nobody knows what the server has done
        self.heard = False  # an error of the driver, in this transaction
        self.connections: list[Connection] = []  # those that the session works on

    def watch(self, connection: Connection) -> None:
        """Note that the session begins to work on a connection."""
        # first, so that no listener of the program makes a text with keys
        sqla.prepend_error_listener(connection, hide_keys)
        others = vars(connection).get(_SESSIONS, ())
        if self not in others:
            vars(connection)[_SESSIONS] = (*others, self)
            self.connections.append(connection)

    def unwatch(self) -> None:
        """Note that the session's transaction is over, on all its connections."""
        self.cut = self.heard = False
        for connection in self.connections:
            # it may be the program's own, and others may use it
            sessions = vars(connection)[_SESSIONS]
            vars(connection)[_SESSIONS] = tuple(each for each in sessions if each is not self)
        self.connections.clear()

    def aborted(self) -> bool:
        """Tell whether the server will roll back what is committed on one of the connections.

        It does only if an error was heard.
        """
        return any(map(sqla.is_aborted, self.connections))

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Word anew what is raised inside the `with`."""
        try:
            yield
        except Exception as error:
            self.hide(error)
            raise

    def redact_again(self, error: BaseException) -> BaseException:
        """Return what an error is told as once more, when the program wants no keys any more."""
        if _WORDED in vars(error):
            return error
        again = SQLAlchemyError(str(error))
        _hide([again], self.boundary.conversation, self.boundary.conversation, sent=True)
        return again

    def hide(self, *errors: BaseException) -> None:
        """Word errors anew, with all that hangs on them, unless the program wants keys."""
        if not self.boundary.raw:
            _hide(errors, self.boundary.conversation, self.boundary.conversation)


class _NoNames:
    """Calls no key by a name: of two conversations on one connection, either may be meant."""

    def refs_by_entity(self, key: Key) -> Mapping[str, str]:
        del key
        return {}

    def text_keys(self) -> Iterable[str]:
        return ()


def hide_keys(context: ExceptionContext) -> None:
    """Word an error of the driver anew, if its connection is at work for a session."""
    connection = context.connection
    sessions: Sequence[ErrorRedaction] = vars(connection).get(_SESSIONS, ()) if connection else ()
    for session in sessions:
        session.heard = True
        session.cut = session.cut or context.is_disconnect
    if not sessions or all(session.boundary.raw for session in sessions):
        return
    compiled = getattr(context.execution_context, "compiled", None)
    conversations = [session.boundary.conversation for session in sessions]
    names = conversations[0] if len(sessions) == 1 else _NoNames()
    errors = (context.original_exception, context.sqlalchemy_exception)
    positions = getattr(compiled, "positiontup", None)
    _hide(errors, names, conversations[0], positions, sent=True)


def _hide(
    errors: Iterable[BaseException | None],
    names: Names,
    conversation: SessionConversation,
    positions: Sequence[str] | None = None,
    *,
    sent: bool = False,
) -> None:
    chain = _chain(errors)
    if all(_WORDED in vars(error) for error in chain):
        return
    wording = Wording(names, ColumnCatalogue(conversation.entities), _fault(chain))
    statements = [error for error in chain if isinstance(error, StatementError)]
    for failed in statements:
        if _WORDED not in vars(failed):
            failed.params = wording.parameters(failed.params, failed.statement, positions)
            failed.statement = None if failed.statement is None else wording.free(failed.statement)
    for error in chain:
        # without a statement, SQLAlchemy speaks for itself, or the program's own code does
        own = isinstance(error, SQLAlchemyError) and not isinstance(error, StatementError)
        _word(error, wording.sent if (sent or statements) and not own else wording.raised, wording)


def _chain(errors: Iterable[BaseException | None]) -> list[BaseException]:
    """Return exceptions and all that hang on them, each once."""
    found: dict[int, BaseException] = {}
    waiting: list[Any] = list(errors)
    while waiting:
        error = waiting.pop()
        if isinstance(error, BaseException) and id(error) not in found:
            found[id(error)] = error
            waiting += [error.__cause__, error.__context__, *vars(error).values()]
            waiting += getattr(error, "exceptions", ())  # of a group
    return list(found.values())


def _fault(chain: Iterable[BaseException]) -> ErrorFields:
    """Return what the driver's exception says: in its `diag`, or by itself in asyncpg."""
    found = ErrorFields()
    for error in chain:
        diagnosis: Any = getattr(error, "diag", error)
        fault = ErrorFields(
            getattr(error, "sqlstate", None) or getattr(error, "pgcode", None),
            getattr(diagnosis, "schema_name", None),
            getattr(diagnosis, "table_name", None),
            getattr(diagnosis, "constraint_name", None),
        )
        found = fault if found.table is None and fault != ErrorFields() else found
    return found


def _word(error: BaseException, say: Say, wording: Wording) -> None:
    if isinstance(error, RefError) or _WORDED in vars(error):
        return
    error.args = tuple(_redact_argument(argument, say, wording) for argument in error.args)
    for name, value in list(vars(error).items()):
        if name == "_info":
            # of psycopg 3: the server's answer, or what is kept of it in a pickle
            setattr(error, name, _word_fields(error, say))
        elif not (isinstance(error, StatementError) and name in ("params", "statement")):
            words = say if name in _SENTENCES or not isinstance(value, str) else wording.raised
            setattr(error, name, _redact_argument(value, words, wording))
    if isinstance(getattr(error, "pgerror", None), str):  # of psycopg2, in C
        state = {"pgerror": say(cast(Any, error).pgerror), "pgcode": cast(Any, error).pgcode}
        cast(Any, error).__setstate__(state)
    setattr(error, _WORDED, True)


def _word_fields(error: BaseException, say: Say) -> Any:
    """Return the server's answer to psycopg 3 as a dictionary without keys.

    That is what its pickles have, so that `diag` goes on working.
    """
    fields = cast(Any, error).__reduce__()[2]["_info"]
    if fields is None:
        return None
    return {
        field: say(value.decode(errors="replace")).encode()
        if value and field in _SENTENCE_FIELDS
        else value
        for field, value in fields.items()
    }


def _redact_argument(value: Any, say: Say, wording: Wording) -> Any:
    """Return an argument or attribute of an exception; any other object is as it was."""
    if isinstance(value, str):
        return say(value)
    if type(value) in (list, tuple):
        return type(value)(_redact_argument(element, say, wording) for element in value)
    if type(value) is dict:
        return {key: _redact_argument(element, say, wording) for key, element in value.items()}
    if type(value) is int:
        return wording.met(value)
    return wording.value(value) if isinstance(value, uuid.UUID) else value
