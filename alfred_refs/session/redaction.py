"""Redaction: exceptions that leave a session have refs in place of keys.

    IntegrityError: Key (recipe_id)=(a508000d-9b55-40f0-8886-dbdd88bd2de2) is not present
    IntegrityError: Key (recipe_id)=(recipe_1) is not present

An exception is changed in place, with its causes, its context, the members of a group and the
driver's own exception. It keeps class, SQLSTATE and traceback; messages, arguments, parameters and
details are redacted. A key that has no ref in this process, or may belong to several columns, is
shown as `HIDDEN`:

>>> from sqlalchemy.exc import IntegrityError
>>> session.add(Line(recipe_id="recipe_1", position=1, text="salt", id="line_1"))
>>> try:
...     session.flush()
... except IntegrityError as error:
...     print(str(error.orig).splitlines()[-1].strip())
DETAIL:  Key (id)=(line_1) already exists.

Exceptions come from two places. A connection calls `redact_driver_error` for every error of its
driver, by the event `handle_error`. The session calls `ErrorRedaction.hide` for exceptions of
SQLAlchemy and of the application's code inside it. Connections without a session are left alone.

`ColumnCatalogue` finds the columns that a name in an error may belong to, `Redactor` changes texts
and values. No I/O: only refs that this process has cached are shown, and nothing is minted. Errors
in the metadata do not raise here.

Limits: local variables in the frames of a traceback have keys, and so has `diag` of psycopg2.
Where it is unknown whether a value is a key, it is hidden.
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
from sqlalchemy.exc import DataError, NoReferenceError, SQLAlchemyError, StatementError

from alfred_refs import sqla
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import RefError, SetupError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn
from alfred_refs.mapping.keys import Key, KeyType, parse_ref, spells_uuid
from alfred_refs.mapping.text import HIDDEN, WordReplacer, redact_keys
from alfred_refs.session.instances import Boundary

# An attribute of a connection: the sessions that work on it. An execution option would be seen by
# listeners, and be passed to eager loaders.
_SESSIONS = "alfred_refs_sessions"
# An attribute of an exception that is redacted: a second time would hide its refs.
_REDACTED = "_alfred_refs_worded"

# Attributes of drivers' exceptions that hold sentences; others hold names and codes.
_SENTENCES = {"message", "detail", "hint", "context", "internal_query", "query", "pgerror"}
_SENTENCE_FIELDS = {ord(field) for field in "MDHWq"}  # the same, in PostgreSQL's wire protocol

# errors in a driver's code that makes Python values
_UNREADABLE = (ValueError, OverflowError)

RedactText = Callable[[str], str]


# Sessions and connections


class ErrorRedaction:
    """The redaction of one session's errors.

    Args:
        boundary: of the session's instances.

    Attributes:
        is_disconnected: whether a connection was lost in this transaction: the server may have
            committed it or not.
        has_errors: whether the driver has raised an error in this transaction.
        connections: the connections that the session works on.
    """

    def __init__(self, boundary: Boundary) -> None:
        self.boundary = boundary
        self.is_disconnected = False
        self.has_errors = False
        self.connections: list[Connection] = []

    def watch(self, connection: Connection) -> None:
        """Note that the session begins to work on a connection."""
        # first, before listeners of the application that log the error
        sqla.prepend_error_listener(connection, redact_driver_error)
        others = vars(connection).get(_SESSIONS, ())
        if self not in others:
            vars(connection)[_SESSIONS] = (*others, self)
            self.connections.append(connection)

    def unwatch(self) -> None:
        """Note that the session's transaction is over, on all its connections."""
        self.is_disconnected = self.has_errors = False
        for connection in self.connections:
            # the application may go on with the connection, in other sessions
            sessions = vars(connection)[_SESSIONS]
            vars(connection)[_SESSIONS] = tuple(each for each in sessions if each is not self)
        self.connections.clear()

    def is_aborted(self) -> bool:
        """Return whether a commit will roll back on one of the connections.

        PostgreSQL does that after an error in the transaction.
        """
        return any(map(sqla.is_aborted, self.connections))

    @contextmanager
    def redacting(self) -> Iterator[None]:
        """Redact exceptions raised inside the `with`."""
        try:
            yield
        except Exception as error:
            self.hide(error)
            raise

    def hide(self, *errors: BaseException) -> None:
        """Redact exceptions, unless the session shows raw keys."""
        if not self.boundary.raw:
            _redact(errors, self.boundary.conversation, self.boundary.conversation)

    def redact_again(self, error: BaseException) -> BaseException:
        """Return the redacted error of a flush that was raised while the session showed raw keys.

        SQLAlchemy quotes it in each `PendingRollbackError`.
        """
        if _REDACTED in vars(error):
            return error
        again = SQLAlchemyError(str(error))
        _redact([again], self.boundary.conversation, self.boundary.conversation, by_driver=True)
        return again


class KnownRefs(Protocol):
    """The refs that this process has cached: a conversation, or none."""

    def refs_by_entity(self, key: Key) -> Mapping[str, str]:
        """Return the refs of a key, by entity."""
        ...

    def text_keys(self) -> Iterable[str]:
        """Return the keys that are strings."""
        ...


class _NoRefs:
    """No refs, for errors of a connection on which two conversations work: it may be either's."""

    def refs_by_entity(self, key: Key) -> Mapping[str, str]:
        del key
        return {}

    def text_keys(self) -> Iterable[str]:
        return ()


def redact_driver_error(context: ExceptionContext) -> DataError | None:
    """Redact an error of the driver, if a session works on its connection.

    Listens to `handle_error`.

    Returns:
        the exception to raise instead: a `DataError` for a value that Python cannot hold, such as
        a date of the year 10000. psycopg raises one itself; psycopg2 and asyncpg raise the error
        of `datetime` or `json`.
    """
    connection = context.connection
    sessions: Sequence[ErrorRedaction] = vars(connection).get(_SESSIONS, ()) if connection else ()
    for session in sessions:
        session.has_errors = True
        session.is_disconnected = session.is_disconnected or context.is_disconnect
    if not sessions:
        return None
    if not all(session.boundary.raw for session in sessions):
        compiled = getattr(context.execution_context, "compiled", None)
        conversations = [session.boundary.conversation for session in sessions]
        refs = conversations[0] if len(sessions) == 1 else _NoRefs()
        errors = (context.original_exception, context.sqlalchemy_exception)
        positions = getattr(compiled, "positiontup", None)
        _redact(errors, refs, conversations[0], positions, by_driver=True)
    error = context.original_exception
    is_unreadable = context.execution_context is not None and type(error) in _UNREADABLE
    return DataError(None, None, cast(Exception, error)) if is_unreadable else None


# Exceptions


def _redact(
    errors: Iterable[BaseException | None],
    refs: KnownRefs,
    conversation: SessionConversation,
    positions: Sequence[str] | None = None,
    *,
    by_driver: bool = False,
) -> None:
    chain = _all_exceptions(errors)
    if all(_REDACTED in vars(error) for error in chain):
        return
    redactor = Redactor(refs, ColumnCatalogue(conversation.entities), _error_fields(chain))
    statements = [error for error in chain if isinstance(error, StatementError)]
    # parameters first: their replacements are used for the same values in the messages
    for failed in statements:
        if _REDACTED not in vars(failed):
            failed.params = redactor.parameters(failed.params, failed.statement, positions)
            if failed.statement is not None:
                failed.statement = redactor.statement = redactor.text(failed.statement)
    for error in chain:
        # without a statement, the message is SQLAlchemy's own or the application's
        is_own = isinstance(error, SQLAlchemyError) and not isinstance(error, StatementError)
        is_database = (by_driver or statements) and not is_own
        _redact_exception(
            error, redactor.database_text if is_database else redactor.orm_text, redactor
        )


def _all_exceptions(errors: Iterable[BaseException | None]) -> list[BaseException]:
    """Return exceptions with all that they reference, each once."""
    reached: dict[int, BaseException] = {}
    queue: list[Any] = list(errors)
    while queue:
        error = queue.pop()
        if isinstance(error, BaseException) and id(error) not in reached:
            reached[id(error)] = error
            queue += [error.__cause__, error.__context__, *vars(error).values()]
            queue += getattr(error, "exceptions", ())  # of a group
    return list(reached.values())


@dataclass(frozen=True, slots=True)
class ErrorFields:
    """The fields of a database error; `None` for those that it does not have."""

    sqlstate: str | None = None
    schema: str | None = None
    table: str | None = None
    constraint: str | None = None


def _error_fields(chain: Iterable[BaseException]) -> ErrorFields:
    """Return the fields of the driver's exception: of its `diag`, or its own in asyncpg."""
    fields = ErrorFields()
    for error in chain:
        diagnosis: Any = getattr(error, "diag", error)
        own = ErrorFields(
            getattr(error, "sqlstate", None) or getattr(error, "pgcode", None),
            getattr(diagnosis, "schema_name", None),
            getattr(diagnosis, "table_name", None),
            getattr(diagnosis, "constraint_name", None),
        )
        fields = own if fields.table is None and own != ErrorFields() else fields
    return fields


def _redact_exception(error: BaseException, redact: RedactText, redactor: Redactor) -> None:
    if isinstance(error, RefError) or _REDACTED in vars(error):
        return
    error.args = tuple(_redact_argument(argument, redact, redactor) for argument in error.args)
    for name, value in list(vars(error).items()):
        if name == "_info":
            # of psycopg 3: the result of libpq, or a dictionary after unpickling
            setattr(error, name, _redact_server_fields(error, redact))
        elif not (isinstance(error, StatementError) and name in ("params", "statement")):
            is_sentence = name in _SENTENCES or not isinstance(value, str)
            by = redact if is_sentence else redactor.orm_text
            setattr(error, name, _redact_argument(value, by, redactor))
    if isinstance(getattr(error, "pgerror", None), str):  # of psycopg2: read-only members, in C
        state = {"pgerror": redact(cast(Any, error).pgerror), "pgcode": cast(Any, error).pgcode}
        cast(Any, error).__setstate__(state)
    setattr(error, _REDACTED, True)


def _redact_server_fields(error: BaseException, redact: RedactText) -> Any:
    """Return the server's fields of a psycopg 3 error as a dictionary, which `diag` can read.

    An unpickled error has the same.
    """
    fields = cast(Any, error).__reduce__()[2]["_info"]
    if fields is None:
        return None
    return {
        field: redact(value.decode(errors="replace")).encode()
        if value and field in _SENTENCE_FIELDS
        else value
        for field, value in fields.items()
    }


def _redact_argument(value: Any, redact: RedactText, redactor: Redactor) -> Any:
    """Return an argument or attribute of an exception; objects of other types are unchanged."""
    if isinstance(value, str):
        return redact(value)
    if type(value) in (list, tuple):
        return type(value)(_redact_argument(element, redact, redactor) for element in value)
    if type(value) is dict:
        return {key: _redact_argument(each, redact, redactor) for key, each in value.items()}
    if type(value) is int:
        return redactor.number(value)
    return redactor.value(value) if isinstance(value, uuid.UUID) else value


# The columns of an error

# `id_1`, `id_1_2` (in a list), `id__0` and `id_m1` (of many records) are parameters for `id`
_NUMBERED = re.compile(r"_[m_]?\d+$")

_FOREIGN_KEY_VIOLATION = "23503"


class UnknownMeaning(Enum):
    """The meaning of a name that does not belong to a key column."""

    DATA = "data"
    UNKNOWN = "unknown"


Meaning = KeyColumn | UnknownMeaning


class ColumnCatalogue:
    """The application's columns, by their names in errors.

    An error has names as text: `Key (recipe_id)=(...)`, `{'recipe_id_1': ...}`. Only tables that
    the application has used, and others of their metadata, are known.

    Args:
        entities: which columns hold keys.
    """

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self._tables = entities.used_tables()

    def has_keys_of(self, key_type: KeyType) -> bool:
        """Return whether there may be keys of a type; there may if no table is known."""
        if key_type not in self._entities.policy.key_types:
            return False
        columns = [column for table in self._tables for column in table.columns]
        meanings = map(self._meaning, columns)
        return not columns or any(
            m is UnknownMeaning.UNKNOWN or (isinstance(m, KeyColumn) and m.key_type == key_type)
            for m in meanings
        )

    def of_parameter(self, name: str | None, statement: str | None) -> Meaning:
        """Guess from a parameter's name and the statement's tables whether its value is a key.

        A name such as `recipe_id_1` belongs to column `recipe_id`. A name that belongs to no
        column is `UNKNOWN`.
        """
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

    def of_detail(self, names: Sequence[str], fields: ErrorFields) -> list[Meaning]:
        """Return the columns of the values in the DETAIL of a violated constraint.

        A foreign key is violated from either side: the columns are its own, or those that it
        references.
        """
        candidates = [
            columns
            for table in self._tables
            if table.name == fields.table and table.schema in (None, fields.schema)
            for columns in _columns_of_constraint(table, names, fields)
        ]
        if not candidates:
            return [UnknownMeaning.UNKNOWN] * len(names)
        meanings = [[self._meaning(column) for column in columns] for columns in candidates]
        return [_common_meaning(list(one)) for one in zip(*meanings, strict=True)]

    def may_have_keys(self, fields: ErrorFields) -> bool:
        """Return whether a row of the error's table may have keys in it."""
        columns = [
            column
            for table in self._tables
            if table.name == fields.table and table.schema in (None, fields.schema)
            for column in table.columns
        ]
        data = UnknownMeaning.DATA
        return not columns or any(self._meaning(column) is not data for column in columns)

    def of_identity(self, path: str) -> list[Meaning] | None:
        """Return the primary key of a class by its path, as in `<class 'path'>`."""
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
            # the name of an entity may need an import, which could fail and replace the error
            if not self._entities.has_name(column):
                return UnknownMeaning.UNKNOWN
            return self._entities.of_column(column) or UnknownMeaning.DATA
        except SetupError:
            return UnknownMeaning.UNKNOWN


def _common_meaning(meanings: list[Meaning]) -> Meaning:
    """Return the meaning of a name that several tables have."""
    first, *others = meanings
    if isinstance(first, KeyColumn):
        same = all(
            isinstance(m, KeyColumn) and (m.space, m.key_type) == (first.space, first.key_type)
            for m in others
        )
        return first if same else UnknownMeaning.UNKNOWN
    return first if all(m is first for m in others) else UnknownMeaning.UNKNOWN


def _columns_of_constraint(
    table: Table, names: Sequence[str], fields: ErrorFields
) -> list[list[Column[Any] | None]]:
    """Return the columns that an error about a constraint of a table may name."""
    if fields.sqlstate != _FOREIGN_KEY_VIOLATION:
        columns = {column.name: column for column in table.columns}
        return [[columns.get(name) for name in names]]
    constraints = table.foreign_key_constraints
    named = [c for c in constraints if fields.constraint in (c.name, _default_name(c))]
    sides = [side for constraint in named or constraints for side in _sides(constraint)]
    return [list(side) for side in sides if [column.name for column in side] == list(names)]


def _default_name(constraint: ForeignKeyConstraint) -> str:
    """Return PostgreSQL's name for a foreign key that was created without one."""
    columns = "_".join(column.name for column in constraint.columns)
    return f"{constraint.table.name}_{columns}_fkey"


def _sides(constraint: ForeignKeyConstraint) -> list[list[Column[Any]]]:
    try:
        referenced = [element.column for element in constraint.elements]
    except NoReferenceError:
        referenced = []
    return [list(constraint.columns), referenced]


# Texts and values

# types whose values are never keys, and print nothing else
_PLAIN = (bool, float, Decimal, dt.date, dt.time, dt.timedelta, type(None))

# PostgreSQL begins each part but the first with a word, in the server's language
_PARTS = re.compile(r"^(?=[^\W\d_]+: {2})", re.MULTILINE)
# `Key (id, position)=(5, 2) already exists`
# (each text between two `=` is searched once, from its first bracket)
_DETAIL = re.compile(
    r"(?:\A|=)[^=(]*+(?P<detail>\((?P<names>[^=]*)\)=\((?P<values>.*)\))", re.DOTALL
)
# the values of all columns, in the order of the database: which belongs to which column is unknown
# (searched before the last bracket)
_ROW = re.compile(r"(?P<said>contains|^[^\W\d_]+: {2}[^(]*) \(.*", re.DOTALL)
_ROW_VIOLATIONS = {"23502", "23514", "44000"}  # not null, check, check option
_ROW_LEFT_OUT = "(values left out: there may be keys among them)"
# an excerpt of the statement with a caret under it; some drivers send it with values inlined
_EXCERPT = re.compile(r"\n(LINE \d+: )(.*)\n *\^")
_VALUE = re.compile(r"'|(?<![\w$])\d")
_NUMBER = re.compile(r"(?<![\w.$])\d+(?!\w|\.\d)")
_PLACE = re.compile(r"\b(?:LINE \d+:|line \d+ at )")
# SQLAlchemy's identity of an instance, and its message about a row that an INSERT returned
_IDENTITY = re.compile(
    r"\(<class '(?P<path>[^']+)'>, \((?P<values>(?:(?!\(<class ').)*?)\), (?:None|[^()]*)\)"
)
_SENTINEL = re.compile(
    r"(?<=result set to parameter sets; key )(?:(?P<key>.*)(?= was not found\. There)|.*)"
)


class Redactor:
    """Redacts the texts and values of one error.

    Redact parameters first: their replacements are used in the texts too.

    Args:
        refs: the refs that may be shown.
        catalogue: the columns that names in the error may belong to.
        fields: of the database error.

    Attributes:
        statement: the statement that failed, redacted.
    """

    def __init__(self, refs: KnownRefs, catalogue: ColumnCatalogue, fields: ErrorFields) -> None:
        self._refs = refs
        self._catalogue = catalogue
        self._fields = fields
        self._has_numbers = catalogue.has_keys_of("integer")
        self._has_strings = catalogue.has_keys_of("string")
        self.statement = ""
        self._shown: dict[str, str] = {}  # keys of the statement, as text → their replacements

    def ref(self, key: Key, entity: str | None = None) -> str:
        """Return the ref of a key, or `HIDDEN`; without an entity, there must be one ref only."""
        refs = self._refs.refs_by_entity(key)
        if entity is not None and entity in refs:
            return refs[entity]
        is_sure = len(refs) == 1 and (entity is None or isinstance(key, uuid.UUID))
        return next(iter(refs.values())) if is_sure else HIDDEN

    # Values

    def parameters(
        self, parameters: Any, statement: str | None, positions: Sequence[str] | None = None
    ) -> Any:
        """Return a redacted copy of a statement's parameters, or of a list of them.

        Args:
            parameters: mappings by name, or sequences by position.
            statement: the SQL.
            positions: the names of parameters by position.
        """
        if isinstance(parameters, Mapping):
            return {
                name: self.value(value, self._catalogue.of_parameter(name, statement))
                for name, value in parameters.items()
            }
        if not isinstance(parameters, list | tuple):
            return None if parameters is None else HIDDEN
        if parameters and all(isinstance(one, Mapping | list | tuple) for one in parameters):
            return [self.parameters(one, statement, positions) for one in parameters]
        fits = positions is not None and len(positions) == len(parameters)
        names = positions if positions is not None and fits else [None] * len(parameters)
        meanings = [self._catalogue.of_parameter(name, statement) for name in names]
        kind = list if isinstance(parameters, list) else tuple
        return kind(map(self.value, parameters, meanings))

    def value(self, value: Any, meaning: Meaning = UnknownMeaning.DATA) -> Any:
        """Return a redacted value: plain, a collection of plain values, or `HIDDEN`."""
        if isinstance(value, Mapping):
            return {self.value(k): self.value(v, meaning) for k, v in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            kind = next(k for k in (list, tuple, set, frozenset) if isinstance(value, k))
            return kind(self.value(element, meaning) for element in value)
        return value if isinstance(value, _PLAIN) else self._scalar(value, meaning)

    def _scalar(self, value: Any, meaning: Meaning) -> Any:
        if isinstance(value, uuid.UUID):
            return self._key(uuid.UUID(int=value.int), meaning)  # drivers have subclasses
        if isinstance(value, str):
            return self._string(value, meaning)
        if isinstance(value, int):
            return self._integer(value, meaning)
        return f"<{type(value).__name__}>"  # its repr may have keys

    def number(self, number: int) -> int | str:
        """Return a number, or its replacement if it is a key of the statement."""
        return self._shown.get(str(number), number)

    def _key(self, key: Key, meaning: Meaning) -> str:
        """Return the ref of a key, or `HIDDEN`; an alternate key may be another row's now."""
        if not isinstance(meaning, KeyColumn):
            return self.ref(key)
        return self.ref(key, meaning.entity) if meaning.alternate is None else HIDDEN

    def _integer(self, value: int, meaning: Meaning) -> Any:
        if meaning is UnknownMeaning.DATA or (
            meaning is UnknownMeaning.UNKNOWN and not self._has_numbers
        ):
            return value
        shown = self._key(value, meaning) if isinstance(meaning, KeyColumn) else HIDDEN
        return self._remember(str(value), shown)

    def _remember(self, key: str, shown: str) -> str:
        """Remember the replacement of a key; in texts it is hidden if two rows have the key."""
        same = self._shown.setdefault(key, shown) == shown
        self._shown[key] = shown if same else HIDDEN
        return shown

    def _string(self, value: str, meaning: Meaning) -> str:
        if isinstance(meaning, KeyColumn):
            return self._key_text(value, meaning)
        if meaning is UnknownMeaning.UNKNOWN and self._has_strings and not spells_uuid(value):
            return HIDDEN
        return redact_keys(value, self.ref)

    def _key_text(self, value: str, column: KeyColumn) -> str:
        """Return the replacement of a key as text; a ref is unchanged."""
        ref = parse_ref(value)
        if value == HIDDEN or (ref is not None and ref.entity == column.entity):
            return value
        if column.key_type == "uuid":
            return self._key(uuid.UUID(value), column) if spells_uuid(value) else HIDDEN
        if column.key_type == "integer":
            return self._key(int(value), column) if value.isdecimal() else HIDDEN
        return self._remember(value, self._key(value, column))

    # Texts

    def text(self, text: str) -> str:
        """Return text without keys: UUIDs, keys of the statement, and cached keys."""
        text = redact_keys(text, self.ref)
        keys = (key for key in (*self._shown, *self._refs.text_keys()) if key in text)
        shown = {key: self._shown.get(key, HIDDEN) for key in keys if not key.isdecimal()}
        text = WordReplacer(shown).replace(text)
        return _NUMBER.sub(self._number_in_text, text) if self._has_numbers else text

    def _number_in_text(self, number: re.Match[str]) -> str:
        """Hide a number that is a key, unless it is a line number."""
        digits = number[0]
        start, end = max(0, number.start() - len("LINE ")), number.end() + len(" at ")
        place = _PLACE.search(number.string, start, end)
        if place is not None and place.start() <= number.start() < place.end():
            return digits
        is_key = digits in self._shown or self._refs.refs_by_entity(int(digits))
        return self._shown.get(digits, HIDDEN) if is_key else digits

    def database_text(self, text: str) -> str:
        """Return a message of the database or its driver."""
        text = _EXCERPT.sub(self._excerpt, text)
        return "".join(map(self._part, _PARTS.split(text)))

    def _excerpt(self, excerpt: re.Match[str]) -> str:
        """Leave out an excerpt with values, unless the program wrote them into the statement."""
        is_shown = excerpt[2].strip(".") in self.statement or not _VALUE.search(excerpt[2])
        return excerpt[0] if is_shown else ""

    def _part(self, text: str) -> str:
        if detail := _DETAIL.search(text):
            before, after = text[: detail.start("detail")], text[detail.end() :]
            return self.text(before) + self._detail(detail) + self.text(after)
        if self._fields.sqlstate in _ROW_VIOLATIONS or "row contains (" in text:
            before, _, after = text.rpartition(")")
            row = _ROW.search(before)
            if row and ("..." in row[0] or self._catalogue.may_have_keys(self._fields)):
                text = f"{before[: row.start()]}{row['said']} {_ROW_LEFT_OUT}{after}"
        return self.text(text)

    def _detail(self, detail: re.Match[str]) -> str:
        names = detail["names"].split(", ")
        values = detail["values"].split(", ")
        meanings = self._catalogue.of_detail([name.strip('"') for name in names], self._fields)
        if len(values) != len(names):  # a value with a comma in it
            return f"({detail['names']})=({HIDDEN})"
        shown = map(self._detail_value, values, meanings)
        return f"({detail['names']})=({', '.join(shown)})"

    def _detail_value(self, value: str, meaning: Meaning) -> str:
        if value == "null":
            return value
        if meaning is UnknownMeaning.UNKNOWN and self._has_numbers and value.isdecimal():
            return HIDDEN
        return self._string(value, meaning)

    def orm_text(self, text: str) -> str:
        """Return the message of an exception of SQLAlchemy or the application, without keys."""
        text = redact_keys(text, self.ref)
        return _SENTINEL.sub(self._sentinel, _IDENTITY.sub(self._identity, text))

    def _identity(self, identity: re.Match[str]) -> str:
        """Replace the keys of an identity, and nothing else of it."""
        values = identity["values"].removesuffix(",").split(", ")
        meanings = self._catalogue.of_identity(identity["path"])
        if meanings is None or len(meanings) != len(values):
            meanings = [UnknownMeaning.UNKNOWN] * len(values)
        shown = ", ".join(map(self._identity_value, values, meanings))
        comma = "," * identity["values"].endswith(",")
        start, end = (place - identity.start() for place in identity.span("values"))
        return identity[0][:start] + shown + comma + identity[0][end:]

    def _identity_value(self, value: str, meaning: Meaning) -> str:
        if isinstance(meaning, KeyColumn):
            shown = self._key_text(value.strip("'\""), meaning)
            return shown if shown == HIDDEN else repr(shown)
        may_be_key = meaning is UnknownMeaning.UNKNOWN and (self._has_numbers or self._has_strings)
        return HIDDEN if may_be_key else value

    def _sentinel(self, match: re.Match[str]) -> str:
        if match["key"] is None:
            return match[0]
        for number in _NUMBER.findall(match[0]):
            self._shown.setdefault(number, HIDDEN)
        return HIDDEN
