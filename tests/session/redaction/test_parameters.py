"""The parameters that an error shows have refs for keys."""

from __future__ import annotations

import pytest
from sqlalchemy import bindparam, insert, select, text
from sqlalchemy.exc import DBAPIError, StatementError

from alfred_refs import RefSession
from tests.session.redaction.kitchen import CHEF, KNOWN, Platter, shows_no_key


def test_a_parameter_whose_name_tells_nothing_is_hidden(session: RefSession) -> None:
    """It may be a key, if the application has keys of its type."""
    query = text("select 1 / :zero from platters where chef_id = :a and id = :b and name = :c")
    with pytest.raises(DBAPIError) as caught:
        session.connection().execute(query, {"zero": 0, "a": CHEF, "b": KNOWN, "c": "x"}).all()

    assert caught.value.params == {"zero": "<key>", "a": "<key>", "b": "platter_1", "c": "x"}


def test_a_value_that_cannot_be_bound_shows_no_key(session: RefSession) -> None:
    """The error is the statement's, and nothing is sent."""
    query = select(Platter.name).where(
        Platter.id == bindparam("id"), Platter.chef_id == bindparam("chef")
    )
    with pytest.raises(StatementError, match="required for bind parameter 'chef'") as caught:
        session.execute(query, {"id": "platter_1", "other": CHEF})

    assert type(caught.value) is StatementError
    assert shows_no_key(caught.value)


def test_objects_among_parameters_are_shown_by_their_type(session: RefSession) -> None:
    """What they print cannot be told: a JSON document has keys, or pieces of them."""

    class Opaque:
        def __repr__(self) -> str:
            return str(KNOWN)[:18]

    with pytest.raises(StatementError) as caught:
        session.connection().execute(insert(Platter), {"id": KNOWN, "name": Opaque()})

    assert "<Opaque>" in str(caught.value)
    assert shows_no_key(caught.value)
