"""Numbers of so many digits: what a column would round or has no room for is refused."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sqlalchemy import ARRAY, Float, Numeric
from sqlalchemy.types import TypeEngine

from alfred_refs.mapping.columns import UnfitValueError, values_of
from tests.tools.conftest import Call


@pytest.mark.parametrize("given", [9.999, 0.001, 12345678, 1_000_000, "1e9", -1_000_000])
def test_a_number_that_is_not_stored_as_it_is_is_refused(call: Call, given: float) -> None:
    """With its column and what fits; nothing is rounded without a word."""
    error = call("db_create", table="dishes", data={"name": "A", "price": given})["error"]

    assert (error["code"], error["field"]) == ("invalid_value", "price")
    assert "a number with at most 2 decimals, below 1,000,000" in error["message"]


@pytest.mark.parametrize("given", [9.99, 9, 0, -0.5, 999_999.99, 1e5])
def test_a_number_that_fits_is_stored_as_it_is(call: Call, given: float) -> None:
    """Zeros at its end are no digits that need room."""
    call("db_create", table="dishes", data={"name": "A", "price": given})
    row = call("db_read", table="dishes", columns=["price"])

    assert Decimal(str(row["rows"][0]["price"])) == Decimal(str(given))


def test_a_filter_compares_with_any_number(call: Call) -> None:
    """What is not stored needs no room."""
    call("db_create", table="dishes", data={"name": "A", "price": 9.99})
    more = {"field": "price", "op": "<", "value": 9.999}

    assert call("db_read", table="dishes", filters=[more])["count"] == 1


@pytest.mark.parametrize(
    ("type_", "fits", "unfit", "wanted"),
    [
        (Numeric(4), 9999, 0.5, "a whole number, below 10,000"),
        (Numeric(3, 1, asdecimal=False), 0.3, 0.25, "a number with at most 1 decimal, below 100"),
        (Numeric(2, -3), 99_000, 1500, "a multiple of 1,000, below 100,000"),
        (Numeric(2, 3), 0.099, 0.1, "a number with at most 3 decimals, below 10^-1"),
        (ARRAY(Numeric(4, 2)), [1.25], [1, 1.255], "a number with at most 2 decimals, below 100"),
        (Numeric(), 1e-9, "nan", "a number"),
        (Numeric(scale=2), 1.255, "nan", "a number"),
        (Float(24), 0.1234567891, "nan", "a number"),
    ],
)
def test_room_is_what_the_type_says(
    type_: TypeEngine[object], fits: object, unfit: object, wanted: str
) -> None:
    """Whatever the numbers are in Python, and in lists; floating point has room for all."""
    values = values_of(type_, None)
    values.accept_new(fits)
    with pytest.raises(UnfitValueError) as caught:
        values.accept_new(unfit)

    assert caught.value.expected == wanted
