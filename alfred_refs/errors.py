"""Every error of the package: each carries its data and words its own message.

Two families hang under one root. A *bad ref* is a mistake the model can correct from the message
alone; a *bad set-up* is one the developer must correct. A message states the fact, then the
remedy, and never shows a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

Known = Sequence[str] | Mapping[str, str | None]
"""Refs that could be used, in natural order, and the labels of their rows where there are any."""

_QUOTES = str.maketrans({sign: f"\\{sign}" for sign in "\\'\""})


class RefError(SQLAlchemyError):
    """Root of every error that alfred_refs raises."""

    def __init__(self, *data: Any) -> None:
        self._data = data
        super().__init__(self._message())

    def _message(self) -> str:
        raise NotImplementedError

    def __reduce__(self) -> tuple[type[RefError], tuple[Any, ...]]:
        return type(self), self._data


class BadRefError(RefError):
    """A ref that cannot be used; nothing was executed, and the message says how to go on.

    Attributes:
        ref: the offending text as it was given; `None` where it may be a key.
        expected: the entity that was needed, if one was.
        known: refs of that entity that could be used, in natural order.
        near: the one that was probably meant, if one stands out.
        labels: what people call the rows of known refs, as far as that is known: text of the
            application's users, to be shown and never to be obeyed.
    """

    def __init__(
        self,
        ref: str | None,
        expected: str | None = None,
        known: Known = (),
        near: str | None = None,
    ) -> None:
        labels = dict(known) if isinstance(known, Mapping) else dict.fromkeys(known)
        self.ref = ref
        self.expected = expected
        self.known = tuple(labels)
        self.near = near
        self.labels = {ref: label for ref, label in labels.items() if label is not None}
        super().__init__(ref, expected, labels, near)

    @property
    def entity(self) -> str | None:
        """The entity the error is about: the expected one, unless a subclass knows better."""
        return self.expected

    def _remedy(self) -> str:
        if self.near is not None:
            return f"did you mean {self._named(self.near)}? {self._known()}"
        return self._known()

    def _known(self) -> str:
        if not self.known:
            return "none is known in this conversation; read some first"
        return "known: " + ", ".join(map(self._named, self.known))

    def _named(self, ref: str) -> str:
        label = self.labels.get(ref)
        return repr(ref) if label is None else f"{ref!r} ({_inert(label)})"


def _inert(label: str) -> str:
    """Return a label that can neither end a line nor pass for a ref in quotes."""
    line = label.translate(_QUOTES)
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)


class UnknownRefError(BadRefError):
    """The text names nothing in this conversation."""

    def _message(self) -> str:
        return f"{self.ref!r} is not a known {self.expected or 'ref'}; {self._remedy()}"


class WrongEntityError(BadRefError):
    """The ref is known, and names another kind of row than the one needed.

    Attributes:
        actual: the entity that the ref names.
    """

    def __init__(
        self, ref: str, expected: str | None, known: Known, near: str | None, actual: str
    ) -> None:
        self.actual = actual
        super().__init__(ref, expected, known, near)
        self._data = (*self._data, actual)

    @property
    def entity(self) -> str:
        """The entity that the ref names."""
        return self.actual

    def _message(self) -> str:
        return (
            f"{self.ref!r} names entity {self.actual!r} where {self.expected!r} is needed; "
            f"{self._remedy()}"
        )


class DraftRefError(BadRefError):
    """The ref has the form of a draft's where a saved row is needed."""

    def _message(self) -> str:
        return (
            f"{self.ref!r} is a draft's ref where a saved {self.expected or 'row'} is needed; "
            f"save the draft and use the ref it gets, or choose another; {self._remedy()}"
        )


class GoneRefError(BadRefError):
    """The ref is known and its row is not there: it was deleted, or it was never saved.

    Attributes:
        reason: `"was deleted"` or `"was never saved"`.
    """

    def __init__(
        self, ref: str, expected: str | None, known: Known, near: str | None, reason: str
    ) -> None:
        self.reason = reason
        super().__init__(ref, expected, known, near)
        self._data = (*self._data, reason)

    def _message(self) -> str:
        return f"{self.ref!r} {self.reason} and cannot be used; {self._remedy()}"


class RawKeyError(BadRefError):
    """A raw key was given as text where only a ref is accepted; the text is not repeated."""

    def _message(self) -> str:
        return (
            "a raw key was given as text where a ref is needed; "
            f"give a ref, or use session.raw_keys() in trusted code; {self._remedy()}"
        )


class UnknownConversationError(RefError):
    """The conversation does not exist for this owner.

    A conversation that belongs to somebody else reads the same as one that does not exist.
    """

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(conversation)

    def _message(self) -> str:
        return (
            f"conversation {self.conversation!r} is not known for this owner; "
            "open it with the owner it was begun for, or begin another"
        )


class ConversationExistsError(RefError):
    """A conversation cannot be made under this id, because it is taken or was used before.

    It reads the same whoever has it. After a conversation is forgotten, its numbers are still not
    given to other rows, because a model may remember its refs.
    """

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(conversation)

    def _message(self) -> str:
        return (
            f"conversation {self.conversation!r} cannot be made, because its id is taken or was "
            "used before; choose an id that never was"
        )


class SetupError(RefError):
    """The application is put together in a way that cannot work; the developer must change it."""

    def __init__(self, fact: str, remedy: str) -> None:
        self.fact = fact
        self.remedy = remedy
        super().__init__(fact, remedy)

    def _message(self) -> str:
        return f"{self.fact}; {self.remedy}"


class ConversationIdError(SetupError):
    """The text cannot identify a conversation, or its owner."""


class ExportFormatError(SetupError):
    """What is to be imported is not an export, or is one of a newer version of the package."""


class RetentionError(SetupError):
    """Conversations cannot be unused for less than no time."""


class EntityNameError(SetupError):
    """An entity's name is missing, malformed or taken by another class or table."""


class KeyColumnError(SetupError):
    """The metadata does not say what a column's keys name, or they have an unsupported type."""


class LabelError(SetupError):
    """What a class or the policy says of labels names nothing, or something that may be a key."""


class KeyTypeError(SetupError):
    """A key was given in a type that the entity's keys do not have; its value is not repeated.

    Attributes:
        entity: whose key it was given as.
        needed: the name of the type that the entity's keys have.
        given: the name of the type it was given in.
    """

    def __init__(self, entity: str, needed: str, given: str) -> None:
        self.entity = entity
        self.needed = needed
        self.given = given
        super().__init__(
            f"a key of entity {entity!r} was given as {given}, and its keys are of type {needed}",
            "give the key as its column has it; the text of a UUID does for one",
        )
        self._data = (entity, needed, given)


class RefNotCarriedError(SetupError):
    """An unpickled instance has a key whose ref was not in the pickle.

    Attributes:
        attribute: the key attribute, as `Class.name`.
    """

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        super().__init__(
            f"{attribute} of an unpickled instance has a key whose ref was not in the pickle",
            "add or merge the instance into a RefSession, which shows its ref",
        )
        self._data = (attribute,)


class RegistryTablesError(SetupError):
    """The registry's tables are missing, or older than this version of the package."""

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(
            f"the registry's tables are missing or out of date in database {database!r}",
            "run `alfred-refs migrate URL`; where there are none yet, RefRegistry.create_tables() "
            "does too",
        )
        self._data = (database,)


class RegistryUnreachableError(SetupError):
    """The registry's database cannot be reached; the driver's error is the `__cause__`."""

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(
            f"the registry's database {database!r} cannot be reached",
            "check that the server runs and takes more connections, and that the engine's URL "
            "and credentials are right; the cause tells more",
        )
        self._data = (database,)


class RegistryBusyError(RefError):
    """All connections of the registry's own pool were in use for as long as it waits for one."""

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(database)

    def _message(self) -> str:
        return (
            f"no connection to the registry's database {self.database!r} became free in time; try "
            "again, or raise the engine's pool_size or pool_timeout, which the registry's own "
            "pool has too"
        )


# How a SQLSTATE begins -> what to do; the first that fits. Asked in vain, a server that takes no
# writes or a role that may not write will say the same again.
_REMEDIES = {
    "0A000": "it may be a standby, which takes no writes: give RefRegistry the primary's engine",
    "25006": "it takes no writes: give RefRegistry the primary's engine",
    "26000": "give psycopg's connections prepare_threshold=None behind a pooler such as PgBouncer",
    "42P05": "give psycopg's connections prepare_threshold=None behind a pooler such as PgBouncer",
    "40": "it put another transaction first: try again",
    "42501": "grant the engine's user all rights on the registry's tables",
    "53100": "make room on the server's disk, then try again",
    "53": "give the server more of what it lacks, then try again",
    "55P03": "another transaction held the conversation beyond lock_timeout: try again",
    "57014": "somebody cancelled it, or it took longer than statement_timeout allows: try again",
    "": "mend what the message names, then try again",
}


class RegistryFailedError(RefError):
    """The registry's database refused a statement of ours.

    The driver's own error is left out: it prints parameters and details, which may be keys.

    Attributes:
        reason: the database's one-line message.
        sqlstate: its error code, `None` if the driver gives none.
    """

    def __init__(self, reason: str, sqlstate: str | None) -> None:
        self.reason = reason
        self.sqlstate = sqlstate
        super().__init__(reason, sqlstate)

    def _message(self) -> str:
        return (
            f"the registry's database refused a statement: {self.reason} (SQLSTATE "
            f"{self.sqlstate}); nothing was changed; {self._remedy()}"
        )

    def _remedy(self) -> str:
        state = self.sqlstate or ""
        return next(_REMEDIES[start] for start in _REMEDIES if state.startswith(start))


class UntranslatableError(SetupError):
    """A statement would show a key, or uses a ref, in a place that cannot be translated."""
