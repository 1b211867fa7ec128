"""`RefSession`: a `Session` that accepts refs wherever it accepts keys, and shows refs.

Its methods are here; what it does on its way is in `events`, hook by hook. A statement's refs
become keys, SQLAlchemy executes it, and keys in its rows become refs (`path`). Instances belong to
the session's `Boundary`: they keep their keys, their attributes show refs (`instances`). Between
the two everything works on keys: identity map, unit of work, cascades and lazy loading are
SQLAlchemy's own, untouched.

    sessions = sessionmaker(engine, class_=RefSession)
    with sessions(conversation=registry.conversation("chat-7")) as session:
        session.get(Recipe, "recipe_1")

Limits: a ref is translated where its value meets a key unchanged, compared with it or stored in
its column, and refused wherever else it would meet a key. A key is shown as its ref where it
stands as it is: by itself, as text, or in a list, a JSON document or a bundle. What is computed
from keys is refused, and so is a value that may be a key where neither the statement nor the
server tells its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from sqlalchemy import Connection, event, inspect
from sqlalchemy.orm import InstanceState, Session

from alfred_refs import sqla
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.registry import RefRegistry
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import OwnershipError, SetupError, UnconfinedError
from alfred_refs.owners import Confinement, OwnedFlush, Owner, confined_records
from alfred_refs.store import Activity, Actor

from .events import TranslatedSession, confine
from .instances.boundary import Boundary
from .translation import Translation
from .visible_refs import Offered

T = TypeVar("T")


class RefSession(TranslatedSession):
    """A `Session` in which a language model's refs stand for keys.

    Args:
        bind: as for `Session`.
        conversation: what the refs are valid in, or, where `registry` is given, its id. Without
            one this is a plain `Session`.
        registry: opens the conversation named by an id; usually an argument of `sessionmaker`.
        owner: to whose rows the session keeps; without one it confines nothing. A conversation
            named by its id is held for this owner.
        by: on whose behalf it works, `"model"` or `"user"`: what it does with rows is then kept
            in the conversation, for prompts.
        session_arguments: as for `Session`.

    Raises:
        SetupError: a conversation is named by its id and there is no registry.
        OwnershipError: `owner` is none, or the conversation is held for another, or for nobody.
    """

    def __init__(
        self,
        bind: Any = None,
        *,
        conversation: Conversation | str | None = None,
        registry: RefRegistry | None = None,
        owner: Owner | None = None,
        by: Actor | None = None,
        **session_arguments: Any,
    ) -> None:
        # by its name: a session class beside ours may take something else first
        super().__init__(bind=bind, **session_arguments)
        if not isinstance(owner, Owner | None):
            raise OwnershipError(
                f"the owner of a session is given as {type(owner).__name__}",
                "give ownership.of(...), which says whose rows are whose too",
            )
        if isinstance(conversation, str):
            if registry is None:
                raise SetupError(
                    "a conversation was given by its id to a session without registry",
                    "give registry.conversation(id), or registry=... to the sessionmaker",
                )
            held_for = None if owner is None else str(owner.value)
            conversation = registry.conversation(conversation, owner=held_for)
        if by not in (None, *get_args(Actor)):
            raise SetupError(f"a session works by {by!r}", "give 'model', 'user' or nothing")
        self._conversation = conversation
        if conversation is not None:
            self._translation = Translation(conversation, self, by)
            self._translation.watch_identities(self)
        if owner is not None:
            self._confine(owner)

    def _confine(self, owner: Owner) -> None:
        translation = self._translation
        if translation is None:
            self._confinement = Confinement(owner)
        else:
            held_for = translation.conversation.owner
            if held_for != str(owner.value):
                whose = "nobody in particular" if held_for is None else "another owner"
                raise OwnershipError(
                    f"the conversation of a session that has an owner is held for {whose}",
                    "give its id and registry=..., which holds it for that owner, or open it with "
                    "registry.conversation(id, owner=...)",
                )
            self._confinement = Confinement(owner, translation.named)
            translation.conversation.offers = Offered(self, self._confinement)
        event.listen(self, "do_orm_execute", confine)

    @property
    def _boundary(self) -> Boundary | None:
        return None if self._translation is None else self._translation.boundary

    @property
    def conversation(self) -> Conversation | None:
        """What the session's refs are valid in, chosen when the session is made."""
        return self._conversation

    @property
    def own_view(self) -> SessionConversation | None:
        """The conversation as the session itself sees it.

        The refs of drafts that its transaction has saved name their rows here, and nowhere else
        before it is committed.
        """
        return None if self._translation is None else self._translation.conversation

    @contextmanager
    def activity(self) -> Iterator[list[Activity] | None]:
        """Keep what is done inside the `with` at once, and what a model was shown of it.

        Yields:
            a list, to which is added what the model was shown; `None` where nothing is kept,
                as nobody said by whom the session works.
        """
        translation = self._translation
        log = None if translation is None else translation.transactions.log
        if translation is None or log is None:
            yield None
            return
        seen: list[Activity] = []
        with log.together():
            yield seen
            translation.transactions.showed(seen)

    @property
    def owner(self) -> Owner | None:
        """To whose rows the session keeps."""
        return None if self._confinement is None else self._confinement.owner

    @property
    def mint_when_fetched(self) -> bool:
        """Whether keys are minted as they are fetched or flushed, and not when looked at.

        `AsyncRefSession` sets it: there an attribute can be read only without I/O.
        """
        return self._boundary is not None and self._boundary.eager

    @mint_when_fetched.setter
    def mint_when_fetched(self, eager: bool) -> None:
        if self._boundary is not None:
            self._boundary.mint_when_fetched(eager)

    @contextmanager
    def raw_keys(self) -> Iterator[None]:
        """Show and accept keys as they are inside the `with`: for trusted application code."""
        translation = self._translation
        if translation is None:
            yield
            return
        before = translation.boundary.raw
        translation.boundary.show_keys(True)
        try:
            yield
        finally:
            translation.boundary.show_keys(before)
            if not before:
                # SQLAlchemy tells the error of a flush again, to whoever goes on without rollback
                sqla.replace_flush_error(self, translation.failures.retold)

    @contextmanager
    def unconfined(self) -> Iterator[None]:
        """Confine nothing to the owner's rows inside the `with`: for trusted application code.

        What is changed inside must be flushed inside. What waits for a flush by then is the
        owner's as before, whenever it is flushed.
        """
        if self._confinement is None:
            yield
            return
        with self._confinement.trusted(self):
            yield

    def connection(self, *args: Any, **options: Any) -> Connection:
        """See `Session.connection`; not for a session that has an owner.

        Raises:
            UnconfinedError: what is executed on the connection itself cannot be confined.
        """
        if self._confinement is not None and not self._confinement.lifted:
            raise UnconfinedError("what is executed on session.connection()")
        return super().connection(*args, **options)

    def expunge_all(self) -> None:
        """See `Session.expunge_all`."""
        super().expunge_all()
        if self._translation is not None:
            self._translation.watch_identities(self)

    def hide_keys(self, error: Exception) -> None:
        """Put refs in place of keys in an exception, and in all that hangs on it.

        What leaves the session by itself is worded so already; this is for code around it.

        >>> session.hide_keys(error)  # ValueError("no stock for 1f0b…")
        >>> str(error)
        'no stock for recipe_1'
        """
        if self._translation is not None:
            self._translation.hide(error)

    if TYPE_CHECKING:

        def get(self, entity: Any, ident: Any, **options: Any) -> Any:
            """See `Session.get`: for a type checker, key attributes are those of the mapping."""

    def enable_relationship_loading(self, obj: object) -> None:
        """See `Session.enable_relationship_loading`; foreign keys of the object may be refs.

        Raises:
            BadRefError: one of them cannot be used.
        """
        super().enable_relationship_loading(obj)
        if self._boundary is not None:
            self._boundary.resolve_at_once(sqla.state_of(obj))

    def merge(self, instance: T, **options: Any) -> T:
        """See `Session.merge`; key attributes of the instance may have refs.

        Raises:
            BadRefError: one of them cannot be used.
        """
        with self._merging([instance]):
            return super().merge(instance, **options)

    if hasattr(Session, "merge_all"):  # since SQLAlchemy 2.1

        def merge_all(self, instances: Iterable[T], **options: Any) -> Sequence[T]:
            """See `Session.merge_all`; key attributes of the instances may have refs.

            Raises:
                BadRefError: one of them cannot be used.
            """
            instances = list(instances)
            with self._merging(instances):
                return super().merge_all(instances, **options)

    def _merging(self, instances: Iterable[object]) -> AbstractContextManager[None]:
        """Have key attributes of instances, and of what they lead to, hold keys meanwhile."""
        translation = self._translation
        if translation is None or translation.boundary.raw:
            return nullcontext()
        found = (inspect(instance, raiseerr=False) for instance in instances)
        states = [state for state in found if isinstance(state, InstanceState)]
        cascaded = (s.mapper.cascade_iterator("merge", s) for s in states)
        every = dict.fromkeys([*states, *(each[2] for some in cascaded for each in some)])
        return self._merging_keys(translation, every)

    @contextmanager
    def _merging_keys(
        self, translation: Translation, states: Iterable[InstanceState[Any]]
    ) -> Iterator[None]:
        lent = translation.boundary.pending.lent_keys(states)
        with translation.failures.hidden(), lent, self.raw_keys():
            yield

    def bulk_save_objects(self, objects: Iterable[object], *args: Any, **options: Any) -> None:
        """See `Session.bulk_save_objects`; key attributes of the objects may have refs."""
        objects = list(objects)
        if self._translation is not None:
            self._translation.transactions.writing()
            self._translation.boundary.take_in(map(sqla.state_of, objects))
        if self._confinement is not None and not self._confinement.lifted:
            OwnedFlush(self._confinement, self).save(objects)
        super().bulk_save_objects(objects, *args, **options)

    def bulk_insert_mappings(
        self, mapper: Any, mappings: Iterable[dict[str, Any]], *args: Any, **options: Any
    ) -> None:
        """See `Session.bulk_insert_mappings`; values of key columns may be refs."""
        given = list(mappings)
        records = self._records(mapper, given, new=True)
        super().bulk_insert_mappings(mapper, records, *args, **options)
        for mapping, record in zip(given, records, strict=True):
            new = {name: record[name] for name in record.keys() - mapping.keys()}
            shown = self._boundary and self._boundary.with_refs(inspect(mapper).class_, new)
            mapping.update(shown or new)

    def bulk_update_mappings(self, mapper: Any, mappings: Iterable[dict[str, Any]]) -> None:
        """See `Session.bulk_update_mappings`; values of key columns may be refs."""
        super().bulk_update_mappings(mapper, self._records(mapper, list(mappings), new=False))

    def _records(
        self, mapper: Any, given: list[dict[str, Any]], *, new: bool
    ) -> list[dict[str, Any]]:
        mapped = getattr(inspect(mapper, raiseerr=False), "mapper", None)
        if mapped is None:
            return given
        if self._translation is not None:
            self._translation.transactions.writing()
            if not self._translation.boundary.raw:
                given = self._translation.boundary.pending.records(mapped.class_, given)
        if self._confinement is not None and not self._confinement.lifted:
            given = confined_records(self._confinement, self, mapped, given, new=new)
        return given
