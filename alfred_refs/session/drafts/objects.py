"""Objects of drafts: what `Session.get` gives for the ref of what is not saved.

A draft's ref comes in; an instance of its content goes out, in no session yet, whose key attribute
has the ref as text. So it knows which draft it is, whatever becomes of its other attributes, and
adding it saves the draft (`saving`). Nothing is sent to its table.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy.orm import Session

from alfred_refs import sqla
from alfred_refs.conversation.draft_fields import class_of, record_of
from alfred_refs.conversation.entries import Draft
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import DraftContentError, DraftRefError, ForeignRowError
from alfred_refs.mapping.refs import draft_named

from .building import Builder


class DraftObjects:
    """The objects of drafts that one session has given.

    Args:
        session: not kept alive.
        conversation: as the session sees it.
    """

    def __init__(self, session: Session, conversation: SessionConversation) -> None:
        self._session = weakref.ref(session)
        self._conversation = conversation
        self._entities = conversation.plans.entities
        # by their refs and versions
        self._built: weakref.WeakValueDictionary[tuple[str, int], Any]
        self._built = weakref.WeakValueDictionary()

    def get(self, class_: type[Any], ident: Any, options: Mapping[str, Any]) -> Any:
        """Return the object of a draft, as `Session.get` would.

        Args:
            class_: that it is wanted as.
            ident: an identity: the draft's ref, or what has it for its only part.
            options: those of `Session.get`.

        Returns:
            `None` where the identity is that of a row, or names a draft whose row is there.

        Raises:
            BadRefError: it is no draft of the conversation and class, or was discarded; or a row
                is to be locked and there is none.
            DraftContentError: it is of another class, or its content does not fit any more.
        """
        ref = _draft_in(ident)
        entity = None if ref is None else self._entities.of_class(class_).own
        if ref is None or entity is None or self._conversation.is_row(ref, entity):
            return None
        [draft] = self._conversation.read_drafts([ref], class_)
        if draft.state != "pending":
            return None
        if options.get("with_for_update"):
            raise DraftRefError(ref, entity)
        of = class_of(class_, draft.content)
        if not issubclass(of, class_):
            raise DraftContentError(
                f"{ref!r} is a draft of class {of.__name__!r}, and not of {class_.__name__!r}",
                "get it as what it is",
            )
        known = self._known(draft, fresh=bool(options.get("populate_existing")))
        return self._build(class_, draft) if known is None else known

    def _known(self, draft: Draft, *, fresh: bool) -> Any:
        """Return the object that is to save a draft, or was made of it as it is now."""
        for instance in cast(Session, self._session()).new:
            [*names] = self._entities.of_class(type(instance)).primary
            if len(names) == 1 and sqla.state_of(instance).dict.get(names[0]) == draft.ref:
                return instance
        made = None if fresh else self._built.get((draft.ref, draft.version))
        return None if made is None or sqla.state_of(made).key is not None else made

    def _build(self, class_: type[Any], draft: Draft) -> Any:
        builder = Builder(self._named)
        record = record_of(class_, draft.content, self._entities)
        [name] = self._entities.of_class(record.model).primary
        instance = builder.build(record, **{name: draft.ref})
        # before what it is related to, which may be related to it
        self._built[draft.ref, draft.version] = instance
        try:
            builder.relate(instance, record)
        except BaseException:
            del self._built[draft.ref, draft.version]
            raise
        return instance

    def _named(self, class_: type[Any], ref: str) -> Any:
        session = cast(Session, self._session())  # which gets the draft
        with session.no_autoflush:
            found = session.get(class_, ref)
        if found is None:  # it is there, and not for the session to see
            raise ForeignRowError(class_.__name__, ref, named=True)
        return found


def _draft_in(ident: Any) -> str | None:
    """Return the draft's ref that an identity is, alone or as the only part of it."""
    parts = [*ident.values()] if isinstance(ident, Mapping) else ident
    if isinstance(parts, list | tuple) and len(parts) == 1:
        parts = parts[0]
    return parts if isinstance(parts, str) and draft_named(parts) is not None else None
