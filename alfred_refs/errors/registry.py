"""What the registry cannot do: its conversation is not there, or its database will not."""

from __future__ import annotations

from .root import RefError
from .setup import SetupError


class UnknownConversationError(RefError):
    """The conversation does not exist, or not for the owner it was opened for.

    One that belongs to somebody else reads the same as one that does not exist, and the words are
    right for an operator as well, who asks for no owner.

    Attributes:
        conversation: its id.

    Example:
        >>> registry.conversation("chat-7", owner="ann").resolve("recipe_1")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.registry.UnknownConversationError: conversation 'chat-7' is not
            known here; check its id, and that it is opened for the owner it was begun for, if it
            has one
    """

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(conversation)

    def _wording(self) -> str:
        return (
            f"conversation {self.conversation!r} is not known here; check its id, and that it is "
            "opened for the owner it was begun for, if it has one"
        )


class ConversationExistsError(RefError):
    """A conversation cannot be made under this id, because it is taken or was used before.

    It reads the same whoever has it. After a conversation is forgotten, its numbers are still not
    given to other rows, because a model may remember its refs.

    Attributes:
        conversation: its id.

    Example:
        >>> chat.fork("chat-7")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.registry.ConversationExistsError: conversation 'chat-7' cannot be
            made, because its id is taken or was used before; choose an id that never was
    """

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(conversation)

    def _wording(self) -> str:
        return (
            f"conversation {self.conversation!r} cannot be made, because its id is taken or was "
            "used before; choose an id that never was"
        )


class EntityTableError(SetupError):
    """A conversation has refs of another table's rows under an entity's name.

    One key may be of two rows, in two tables of one name. So refs are of the table for which the
    first was minted: its name, and its schema as `schema_translate_map` has it.

    Attributes:
        conversation: its id.
        entity: whose refs.
        table: which they are of.
        used: for which they were to be used.

    Example:
        >>> raise EntityTableError("chat-7", "recipe", "recipes", "archive.recipes")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.registry.EntityTableError: conversation 'chat-7' has refs of entity
            'recipe' for table 'recipes', and they are to be used for table 'archive.recipes'; open
            a conversation for each tenant, give one entity another name by RefPolicy(names={...}),
            or, if the table was renamed, update table_name in alfred_refs_counter
    """

    def __init__(self, conversation: str, entity: str, table: str, used: str) -> None:
        self.conversation = conversation
        self.entity = entity
        self.table = table
        self.used = used
        super().__init__(
            f"conversation {conversation!r} has refs of entity {entity!r} for table {table!r}, "
            f"and they are to be used for table {used!r}",
            "open a conversation for each tenant, give one entity another name by "
            "RefPolicy(names={...}), or, if the table was renamed, update table_name in "
            "alfred_refs_counter",
        )
        self._data = (conversation, entity, table, used)


class RegistryTablesError(SetupError):
    """The registry's tables are missing, older than this version of the package, or not found.

    PostgreSQL finds none in a schema on which its role has no right.

    Attributes:
        database: the name of the database.

    Example:
        >>> raise RegistryTablesError("shop")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.registry.RegistryTablesError: the registry's tables are missing or
            out of date in database 'shop'; run `alfred-refs migrate URL`, or upgrade the
            application's own Alembic environment if that has registry.metadata; where there are
            none yet, RefRegistry.create_tables() does too; if they are there, the role needs
            usage of their schema, which must be in its search_path
    """

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(
            f"the registry's tables are missing or out of date in database {database!r}",
            "run `alfred-refs migrate URL`, or upgrade the application's own Alembic environment "
            "if that has registry.metadata; where there are none yet, RefRegistry.create_tables() "
            "does too; if they are there, the role needs usage of their schema, which must be in "
            "its search_path",
        )
        self._data = (database,)


class RegistryMigrationError(SetupError):
    """Two would migrate the registry's tables, or one would in a way that loses rows.

    Example:
        >>> from alfred_refs.store.alembic import downgrade
        >>> with revision():
        ...     downgrade("0001", to="0006")
        Traceback (most recent call last):
            ...
        alfred_refs.store.alembic.RefusedMigrationError: a downgrade from revision '0001'
            does not lead to '0006'; give the later one first
    """


class RegistryUnreachableError(SetupError):
    """The registry's database cannot be reached; the driver's error is the `__cause__`.

    Attributes:
        database: its name.

    Example:
        >>> from sqlalchemy import create_engine
        >>> RefRegistry(create_engine("postgresql+psycopg://localhost:1/shop")).stats()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.registry.RegistryUnreachableError: the registry's database 'shop'
            cannot be reached; check that the server runs and takes more connections, and that the
            engine's URL and credentials are right; the cause tells more
    """

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(
            f"the registry's database {database!r} cannot be reached",
            "check that the server runs and takes more connections, and that the engine's URL "
            "and credentials are right; the cause tells more",
        )
        self._data = (database,)


class RegistryBusyError(RefError):
    """All connections of the registry's own pool were in use for as long as it waits for one.

    Attributes:
        database: the name of the database.

    Example:
        >>> raise RegistryBusyError("shop")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.registry.RegistryBusyError: no connection to the registry's database
            'shop' became free in time; try again, or raise the engine's pool_size or pool_timeout,
            which the registry's own pool has too
    """

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(database)

    def _wording(self) -> str:
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

    Example:
        >>> raise RegistryFailedError("could not extend file: No space left on device", "53100")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.registry.RegistryFailedError: the registry's database refused a
            statement: could not extend file: No space left on device (SQLSTATE 53100); nothing was
            changed; make room on the server's disk, then try again
    """

    def __init__(self, reason: str, sqlstate: str | None) -> None:
        self.reason = reason
        self.sqlstate = sqlstate
        super().__init__(reason, sqlstate)

    def _wording(self) -> str:
        return (
            f"the registry's database refused a statement: {self.reason} (SQLSTATE "
            f"{self.sqlstate}); nothing was changed; {self._remedy()}"
        )

    def _remedy(self) -> str:
        state = self.sqlstate or ""
        return next(_REMEDIES[start] for start in _REMEDIES if state.startswith(start))
