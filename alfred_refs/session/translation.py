"""What a session in a conversation has beside a plain one: refs for its keys, keys for its refs.

    boundary       what its instances show, and what they accept        (`instances`)
    transactions   what becomes of the rows that it writes              (`transactions`)
    objects        of drafts, which `get` has given                     (`drafts`)
    saving         of drafts, by new objects                            (`drafts`)
    failures       its errors, with refs in place of keys               (`redaction`)

`path` translates its statements, and `events` says when each of these is asked. A plain session
has none: `session._translation` is `None`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast
from weakref import ref

from sqlalchemy import Column, CursorResult, inspect
from sqlalchemy.exc import CircularDependencyError, IntegrityError
from sqlalchemy.orm import ORMExecuteState, Session

from alfred_refs import sqla
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.keys import EntityKey, token_of
from alfred_refs.mapping.naming import root_of
from alfred_refs.statements import Plans
from alfred_refs.store import Actor

from .activity import ActivityLog
from .drafts import DraftObjects, DraftSaving
from .instances.boundary import Boundary
from .missing_rows import Fates, Identity
from .redaction.errors import Failures
from .transactions import Transactions


class Translation:
    """The refs and keys of one session.

    Args:
        conversation: what its refs are valid in.
        session: not kept alive.
        by: on whose behalf it works, if that is to be kept.

    Attributes:
        conversation: the same, as the session sees it.
        plans: what is decided of the application's statements.
        sought: looks whether the rows are there that the statement names which is being executed.
        fetched: see `Boundary.fetched`.
        hide: see `Failures.hide`.
    """

    __slots__ = (
        *("boundary", "conversation", "failures", "fetched", "hide"),
        *("objects", "plans", "saving", "sought", "transactions"),
    )

    def __init__(
        self, conversation: Conversation, session: Session, by: Actor | None = None
    ) -> None:
        self.boundary = Boundary(conversation, session)
        self.conversation = self.boundary.conversation
        self.conversation.tables = partial(_look_for, ref(session))
        self.conversation.work_under(sqla.schemas_of_session(session))
        log = None if by is None else ActivityLog(self.conversation, by)
        self.transactions = Transactions(self.conversation, log)
        self.objects = DraftObjects(session, self.conversation)
        self.saving = DraftSaving(session, self.boundary, self.transactions)
        self.failures = Failures(self.boundary)
        self.plans = self.conversation.entities.memo(Plans)
        self.sought: Callable[[], None] | None = None
        # no calls of their own: they are asked for each chunk of rows, and each exception
        self.fetched = self.boundary.fetched
        self.hide = self.failures.hide

    def watch_identities(self, session: Session) -> None:
        """Take in what the session loads, and word why it refuses an instance.

        A session that is emptied has another identity map, and is to be watched anew.
        """
        sqla.watch_loading(session, self.boundary)
        sqla.watch_adding(session, self.hide)

    # Statements

    def begin(self, execution: ORMExecuteState) -> None:
        """Begin a statement: what it may change is forgotten, and there is room for what it shows.

        Raises:
            SetupError: it is for another schema than those in which the session's refs name rows.
        """
        boundary = self.boundary
        if not execution.is_select:
            boundary.alternates.forget()
            if execution.is_insert or execution.is_update or execution.is_delete:
                self.transactions.writing()
        boundary.make_room()
        for connection in self.failures.connections:
            self._check_schemas(connection.get_execution_options())
        if "schema_translate_map" in execution.execution_options:  # else the connection says
            self._check_schemas(execution.execution_options)

    def executed(self, result: CursorResult[Any]) -> None:
        """Look at what a statement came to: for which schemas it was sent, and what it found.

        A listener may have said for which.

        Raises:
            SetupError: for others than those in which the session's refs name rows.
            GoneRefError: it found none of the rows that it names by their refs.
        """
        options = result.context.execution_options
        if "schema_translate_map" in options or self.conversation.schemas:
            self.conversation.check_schemas(sqla.schemas_in(options))
        if self.sought is not None and result.rowcount == 0:
            self.sought()

    def _check_schemas(self, options: Mapping[str, Any]) -> None:
        if "schema_translate_map" in options or self.conversation.schemas:
            self.conversation.check_schemas(sqla.schemas_in(options))

    def check_schemas(self) -> None:
        """Check in which schemas the session's connections work by now.

        Raises:
            SetupError: in others than those in which the session's refs name rows.
        """
        for connection in self.failures.connections:
            self._check_schemas(connection.get_execution_options())

    # Identities

    def identify(
        self, session: Session, entity: Any, identity: Any, options: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """Have refs in an identity stand for keys; that of a draft gives an object of its content.

        The object is in no session yet: adding it saves the draft. Until then it is the same
        object each time, as long as the program keeps it and nobody edits the draft.

        Raises:
            BadRefError: a ref in the identity cannot be used.
            DraftContentError: a draft is of another class, or what it has does not fit any more.
        """
        mapper = getattr(inspect(entity, raiseerr=False), "mapper", None)
        asked = {
            **getattr(session, "execution_options", {}),
            **options.get("execution_options", {}),
        }
        if self.boundary.raw or mapper is None or asked.get("raw_keys"):
            return None, identity
        made = self.objects.get(mapper.class_, identity, options)
        if made is not None:
            return made, identity
        keys = self.boundary.pending.identity(mapper.class_, identity)
        given = options.get("options")
        self.plans.check(given if isinstance(given, Iterable) else ())
        return None, keys

    def missed(
        self, session: Session, entity: Any, given: Any, identity: Any, options: Mapping[str, Any]
    ) -> None:
        """Look whether the row of a ref is there, of which nothing was found.

        Raises:
            GoneRefError: it is not.
        """
        named, values = _parts_of(given), _parts_of(identity)
        if given is identity or len(named) != 1 or not isinstance(named[0], str):
            return
        entities = self.conversation.entities
        mapper = root_of(inspect(entity).mapper)
        keys = entities.of_class(mapper.class_)
        if keys.own is None and len(values) == 1:  # the key of another entity's row
            return
        primary = Identity(cast("Sequence[Column[Any]]", mapper.primary_key), keys.identity)
        fates = Fates(session, self.conversation, options.get("bind_arguments"))
        fates.check(entities.name_of(mapper.class_), primary, {named[0]: primary.key_of(values)})

    # Errors

    def not_flushed(self, error: Exception) -> None:
        """Raise what a flush has failed by, where drafts tell more of it than the database.

        Raises:
            SavedDraftError: somebody else has saved a draft meanwhile.
            CircularDraftsError: drafts name each other by relationships.
        """
        if isinstance(error, IntegrityError):
            saved = self.saving.saved_meanwhile(error)
            if saved is not None:
                raise saved from error
        if isinstance(error, CircularDependencyError):
            circle = self.saving.circle(error)
            if circle is not None:
                raise circle from None

    def named(self, column: Any, value: Any) -> str | None:
        """Return the ref of the row that a value of a column names, if this process knows it."""
        found = self.conversation.entities.of_column(column)
        if found is None or found.array or found.by is not None:
            return None
        return self.conversation.refs_of(found.entity).get(token_of(found.to_key(value)))


def _look_for(
    session: ref[Session], conversation: SessionConversation, pairs: Collection[EntityKey]
) -> Mapping[EntityKey, bool]:
    """See `conversation.view.Tables`."""
    found = session()
    return {} if found is None else Fates(found, conversation).back(pairs)


def _parts_of(ident: Any) -> list[Any]:
    """Return the parts of an identity as `Session.get` takes it."""
    if isinstance(ident, Mapping):
        return [*ident.values()]
    is_whole = isinstance(ident, str) or not isinstance(ident, Sequence)
    return [ident] if is_whole else [*ident]
