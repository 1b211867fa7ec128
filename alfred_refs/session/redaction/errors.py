"""No error shows a key: exceptions that leave a session are worded anew, in place.

An exception comes in with all that hangs on it: cause, context, members, the driver's own. It
keeps its class, its SQLSTATE and its traceback; its text, arguments, parameters and details have
refs in place of keys. Two ways lead here: the engine tells of every error of the driver, wherever
it is raised (`hide_keys`), and the session of what SQLAlchemy raises by itself. Errors of
connections that belong to no session are not looked at. Nothing is minted, nothing is asked.

Limits: local variables in a traceback's frames, and the `diag` of psycopg2, have keys.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from sqlalchemy import Connection
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import SQLAlchemyError, StatementError

from alfred_refs import sqla
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import RefError
from alfred_refs.mapping.keys import Key
from alfred_refs.session.instances.boundary import Boundary

from .columns import Catalogue, Fault
from .wording import Names, Say, Wording

# The attribute of a connection that says which sessions are at work on it: what is an option of
# the connection, listeners and eager loaders see.
_SESSIONS = "alfred_refs_sessions"
# Kept of an exception that is worded anew: once is enough, and twice would be too much.
_WORDED = "_alfred_refs_worded"

# Attributes of drivers' exceptions with sentences in them; others are names and codes.
_SENTENCES = {"message", "detail", "hint", "context", "internal_query", "query", "pgerror"}
_SENTENCE_FIELDS = {ord(field) for field in "MDHWq"}  # the same, in the wire protocol's letters


class Failures:
    """What one session does about keys in errors."""

    def __init__(self, boundary: Boundary) -> None:
        self.boundary = boundary
        self.cut = False  # a connection was lost: nobody knows what the server has done
        self.heard = False  # an error of the driver, in this transaction
        self.connections: list[Connection] = []  # those that the session works on

    def watch(self, connection: Connection) -> None:
        """Note that the session begins to work on a connection."""
        # first, so that no listener of the program makes a text with keys
        sqla.listen_first(connection, hide_keys)
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

    def retold(self, error: BaseException) -> BaseException:
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

    def names_of(self, key: Key) -> Mapping[str, str]:
        del key
        return {}

    def texts(self) -> Iterable[str]:
        return ()


def hide_keys(context: ExceptionContext) -> None:
    """Word an error of the driver anew, if its connection is at work for a session."""
    connection = context.connection
    sessions: Sequence[Failures] = vars(connection).get(_SESSIONS, ()) if connection else ()
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
    wording = Wording(names, Catalogue(conversation.entities), _fault(chain))
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


def _fault(chain: Iterable[BaseException]) -> Fault:
    """Return what the driver's exception says: in its `diag`, or by itself in asyncpg."""
    found = Fault()
    for error in chain:
        diagnosis: Any = getattr(error, "diag", error)
        fault = Fault(
            getattr(error, "sqlstate", None) or getattr(error, "pgcode", None),
            getattr(diagnosis, "schema_name", None),
            getattr(diagnosis, "table_name", None),
            getattr(diagnosis, "constraint_name", None),
        )
        found = fault if found.table is None and fault != Fault() else found
    return found


def _word(error: BaseException, say: Say, wording: Wording) -> None:
    if isinstance(error, RefError) or _WORDED in vars(error):
        return
    error.args = tuple(_worded(argument, say, wording) for argument in error.args)
    for name, value in list(vars(error).items()):
        if name == "_info":
            # of psycopg 3: the server's answer, or what is kept of it in a pickle
            setattr(error, name, _word_fields(error, say))
        elif not (isinstance(error, StatementError) and name in ("params", "statement")):
            words = say if name in _SENTENCES or not isinstance(value, str) else wording.raised
            setattr(error, name, _worded(value, words, wording))
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


def _worded(value: Any, say: Say, wording: Wording) -> Any:
    """Return an argument or attribute of an exception; any other object is as it was."""
    if isinstance(value, str):
        return say(value)
    if type(value) in (list, tuple):
        return type(value)(_worded(element, say, wording) for element in value)
    if type(value) is dict:
        return {key: _worded(element, say, wording) for key, element in value.items()}
    if type(value) is int:
        return wording.met(value)
    return wording.value(value) if isinstance(value, uuid.UUID) else value
