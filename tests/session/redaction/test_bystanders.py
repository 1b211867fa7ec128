"""Redaction leaves plain sessions, connections, listeners and the registry alone."""

from __future__ import annotations

import gc
import weakref

import pytest
from sqlalchemy import Engine, event, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import Conversation, RefRegistry, RefSession
from alfred_refs.mapping import key_columns
from alfred_refs.session.redaction import redact_driver_error
from alfred_refs.store.memory import MemoryStore
from tests.fix_session import TravelLog
from tests.models import Recipe, devices
from tests.session.redaction.kitchen import CHEF, KNOWN, Platter, flush, shows_no_key


def test_raw_keys_leaves_errors_as_they_are(session: RefSession) -> None:
    """Trusted code sees what it asked for."""
    with session.raw_keys(), pytest.raises(IntegrityError) as caught:
        flush(session, Platter(id=KNOWN))

    assert f"Key (id)=({KNOWN}) already exists." in str(caught.value)


def test_an_error_of_a_plain_session_is_as_it_was(
    kitchen: Engine, conversation: Conversation
) -> None:
    """On the same engine and, once the other is done, on the same connection."""
    with kitchen.connect() as connection:
        for bind in (kitchen, connection):
            with RefSession(bind, conversation=conversation) as session:
                with pytest.raises(IntegrityError) as caught:
                    flush(session, Platter(id=KNOWN))
                assert shows_no_key(caught.value)
            for plain in (Session(bind), RefSession(bind)):
                with plain, pytest.raises(IntegrityError) as caught:
                    plain.execute(insert(Platter), {"id": KNOWN, "chef_id": CHEF})
                assert f"Key (id)=({KNOWN}) already exists." in str(caught.value)
                assert caught.value.params["chef_id"] == CHEF  # type: ignore[index, call-overload]


def test_an_engine_is_listened_to_once(kitchen: Engine, conversation: Conversation) -> None:
    """Before listeners of the program, which would be told of keys."""
    event.listen(kitchen, "handle_error", lambda _: None)
    for _ in range(3):
        with RefSession(kitchen, conversation=conversation) as session:
            session.connection()
    first, *others = kitchen.dialect.dispatch.handle_error

    assert first is redact_driver_error
    assert redact_driver_error not in others


def test_two_conversations_on_one_connection_name_no_key(
    kitchen: Engine, conversation: Conversation
) -> None:
    """It cannot be told whose the error is, so neither's refs are shown."""
    other = RefRegistry(store=MemoryStore()).conversation("chat-8")
    with (
        kitchen.connect() as connection,
        RefSession(connection, conversation=conversation) as first,
        RefSession(connection, conversation=other) as second,
    ):
        for session in (first, second):
            session.connection()
        with pytest.raises(IntegrityError, match=r"Key .id.=.<key>. already exists") as caught:
            first.connection().execute(insert(Platter).values(id=KNOWN))
        assert shows_no_key(caught.value)
        first.rollback()
        with pytest.raises(IntegrityError, match=r"Key .id.=.<key>. already exists"):
            second.connection().execute(insert(Platter).values(id=KNOWN))


@pytest.mark.slow
def test_a_session_keeps_no_connection(kitchen: Engine, conversation: Conversation) -> None:
    """What it has noted of one goes with the transaction."""
    with RefSession(kitchen, conversation=conversation) as session:
        connection = weakref.ref(session.connection())
        session.rollback()
        gc.collect()

        assert connection() is None


def test_an_error_asks_the_registry_for_nothing(kitchen: Engine, store: TravelLog) -> None:
    """What this process has not met has no name in it."""
    conversation = RefRegistry(store=store).conversation("chat-7")
    with RefSession(kitchen, conversation=conversation) as session:
        with pytest.raises(IntegrityError, match=r"Key .id.=.<key>. already exists"):
            flush(session, Platter(id=KNOWN))
        session.rollback()

    assert "refer" not in store.trips


def test_an_error_imports_nothing(
    sessions: sessionmaker[RefSession],
    conversation: Conversation,
    recipes: list[Recipe],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What would have to be named by a library first is hidden: an import here may fail."""
    key = recipes[0].id
    with sessions(conversation=conversation) as session:
        assert session.scalars(select(Recipe)).first() is not None
        monkeypatch.setattr(key_columns, "singular", pytest.fail)
        connection = session.connection()
        connection.execute(insert(devices).values(id=key))

        with pytest.raises(IntegrityError, match=r"Key \(id\)=\(<key>\) already exists"):
            connection.execute(insert(devices).values(id=key))
