"""What is raised because of an error, or by listeners, shows no key."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, event, insert, select
from sqlalchemy.exc import IntegrityError, PendingRollbackError

from alfred_refs import RefSession
from tests.session.redaction.kitchen import (
    CHEF,
    KNOWN,
    NO_CHEF,
    UNKNOWN,
    Platter,
    everything,
    flush,
    platters,
    shows_no_key,
)


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [
        # stored in columns, by name
        (
            {"id": KNOWN, "chef_id": CHEF, "parent_id": UNKNOWN, "grade": 3, "sides": [KNOWN]},
            {
                "id": "platter_1",
                "chef_id": "chef_1",
                "parent_id": "<key>",
                "grade": 3,
                "sides": ["platter_1"],
            },
        ),
        # data that spells keys
        ({"name": f"after {KNOWN.hex} and {UNKNOWN}"}, {"name": "after platter_1 and <key>"}),
    ],
)
def test_parameters_are_shown_by_what_they_are_stored_in(
    session: RefSession, parameters: dict[str, Any], shown: dict[str, Any]
) -> None:
    """Data stays what it is, and so does an integer beside an integer key."""
    given = dict(parameters)
    with pytest.raises(IntegrityError) as refused:
        session.connection().execute(insert(platters), {"id": KNOWN, "name": None, **parameters})
    seen: Any = refused.value.params

    assert {name: seen[name] for name in shown} == shown
    assert parameters == given
    assert shows_no_key(refused.value)


def test_what_is_raised_after_a_failed_flush_shows_no_key(session: RefSession) -> None:
    """It has the first error's text in its own."""
    with pytest.raises(IntegrityError):
        flush(session, Platter(id=KNOWN))
    with pytest.raises(PendingRollbackError) as caught:
        session.execute(select(Platter.name))

    assert "Key (id)=(platter_1) already exists." in str(caught.value)
    assert shows_no_key(caught.value)


def test_an_error_that_is_wrapped_shows_no_key(session: RefSession) -> None:
    """Whatever the program makes of it while it handles it."""

    def wrap() -> None:
        try:
            flush(session, Platter(id=KNOWN))
        except IntegrityError as error:
            raise RuntimeError(f"no luck: {error}") from error

    with pytest.raises(RuntimeError, match="no luck") as caught:
        wrap()

    assert shows_no_key(caught.value)


def test_a_listener_of_the_program_is_told_without_keys(
    kitchen: Engine, session: RefSession
) -> None:
    """What it makes of an error is raised in place of it."""

    class KitchenError(Exception):
        pass

    @event.listens_for(kitchen, "handle_error")
    def replace(context: Any) -> None:
        raise KitchenError(str(context.original_exception))

    with pytest.raises(KitchenError) as caught:
        session.execute(insert(Platter).values(grade=12, parent_id="platter_1"))
    assert shows_no_key(caught.value)

    session.rollback()
    with pytest.raises(KitchenError) as caught, session.begin():
        session.add(Platter(chef_id=NO_CHEF))
    assert shows_no_key(caught.value)


def test_what_listeners_of_the_session_raise_shows_no_key(session: RefSession) -> None:
    """They are below the session, where there are keys."""

    def refuse(_: Any, __: Any, dish: Platter) -> None:
        raise ValueError(f"not {vars(dish)['id']}", {"id": vars(dish)["id"]}, [UNKNOWN.hex])

    event.listen(Platter, "before_insert", refuse)
    try:
        with pytest.raises(ValueError, match="not platter_1") as caught:
            flush(session, Platter(id=KNOWN))
    finally:
        event.remove(Platter, "before_insert", refuse)

    assert caught.value.args == ("not platter_1", {"id": "platter_1"}, ["<key>"])
    assert shows_no_key(caught.value)


def test_members_of_a_group_show_no_key(session: RefSession) -> None:
    """They are worded as if each had been raised alone."""

    def refuse(*_: Any) -> None:
        raise ExceptionGroup("two", [KeyError(KNOWN), ExceptionGroup("", [OSError(f"{CHEF}")])])

    event.listen(session, "before_flush", refuse)
    with pytest.raises(ExceptionGroup) as caught:
        flush(session, Platter())

    assert str(KNOWN) not in everything(caught.value)
    assert caught.value.exceptions[0].args == ("platter_1",)
