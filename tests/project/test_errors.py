"""The messages and the data of errors; the example of each class shows its usual message."""

from __future__ import annotations

import pickle
import re

import pytest
from sqlalchemy.exc import SQLAlchemyError

from alfred_refs import errors
from alfred_refs.errors import (
    BadRefError,
    CircularDraftsError,
    Conflict,
    ConversationExistsError,
    DiscardedDraftError,
    DraftContentError,
    DraftKeyError,
    DraftRefError,
    DraftTwiceError,
    DriftError,
    EntityTableError,
    ForeignRowError,
    GoneRefError,
    KeyShownError,
    KeyTypeError,
    MentionError,
    PositionError,
    RawKeyError,
    RefError,
    RefNotCarriedError,
    RegistryBusyError,
    RegistryFailedError,
    RegistryTablesError,
    RegistryUnreachableError,
    SavedDraftError,
    SetupError,
    StaleDraftError,
    TemplateError,
    UnconfinedError,
    UnknownConversationError,
    UnknownDraftError,
    UnknownRefError,
    WrongEntityError,
)

KNOWN = ("recipe_1", "recipe_2", "recipe_3")
LABELS = {"recipe_1": "Butter Chicken", "recipe_2": None}
HOSTILE = {"recipe_1": "a', 'recipe_9' (\n\"b\\", "recipe_2": None}
ESCAPED = r"""'recipe_1' ("a\', \'recipe_9\' (\n\"b\\"), 'recipe_2'"""

MESSAGES = [
    (
        UnknownRefError("recipe_9", "recipe", KNOWN),
        "'recipe_9' is not a known recipe; known: 'recipe_1', 'recipe_2', 'recipe_3'",
    ),
    (
        UnknownRefError("recpie_1", "recipe", KNOWN, "recipe_1"),
        (
            "'recpie_1' is not a known recipe; did you mean 'recipe_1'? "
            "known: 'recipe_1', 'recipe_2', 'recipe_3'"
        ),
    ),
    (
        UnknownRefError("x"),
        "'x' is not a known ref; none is known in this conversation; read some first",
    ),
    (
        UnknownRefError("butter chicken", "recipe", LABELS, "recipe_1"),
        (
            "'butter chicken' is not a known recipe; did you mean 'recipe_1' "
            "(\"Butter Chicken\")? known: 'recipe_1' (\"Butter Chicken\"), 'recipe_2'"
        ),
    ),
    (UnknownRefError("x", "recipe", HOSTILE), f"'x' is not a known recipe; known: {ESCAPED}"),
    (
        UnknownDraftError("gen_recipe_9", "recipe", HOSTILE),
        f"'gen_recipe_9' is not a known draft of entity 'recipe'; pending: {ESCAPED}",
    ),
    (
        DiscardedDraftError("gen_recipe_1", "recipe", ["gen_recipe_2"]),
        "'gen_recipe_1' was discarded and cannot be used; pending: 'gen_recipe_2'",
    ),
    (
        CircularDraftsError(["gen_recipe_1"]),
        (
            "'gen_recipe_1' and its contents name each other, so none can be saved first; "
            "leave out one of these refs, and set it when both are saved"
        ),
    ),
    (
        ForeignRowError("recipes", "recipe_4"),
        "'recipe_4' of recipes cannot be written here; read the rows that can, and use one",
    ),
]

ERRORS: list[RefError] = [
    *(error for error, _ in MESSAGES),
    WrongEntityError("meal_plan_1", "recipe", LABELS, None, "meal_plan"),
    GoneRefError("recipe_4", "recipe", LABELS, None, "was deleted"),
    RawKeyError(None, "recipe", KNOWN),
    DraftRefError("gen_recipe_1", "recipe", KNOWN),
    SavedDraftError("gen_recipe_1", "recipe_4"),
    DraftTwiceError("gen_recipe_1"),
    StaleDraftError("gen_recipe_1", 1, 2),
    DraftContentError("the content has 300 kB", "leave out what is no part of it"),
    DraftKeyError("gen_recipe_1", "gen_recipe_2"),
    ForeignRowError("Line.recipe_id", named=True),
    PositionError([Conflict("out_of_range", (1,), "position 9 is out of range")]),
    DriftError("steps", ["a"], [1, 3]),
    SetupError("a fact", "a remedy"),
    KeyTypeError("recipe", "UUID", "int"),
    RefNotCarriedError("Line.recipe_id"),
    TemplateError("base", "is broken", "correct it"),
    KeyShownError("the text", "whole", "a508…"),
    MentionError("Curry", "recipe", "names no row that can be seen"),
    UnconfinedError("text()"),
    UnknownConversationError("chat-7"),
    ConversationExistsError("chat-7"),
    EntityTableError("chat-7", "recipe", "recipes", "archive.recipes"),
    RegistryTablesError("kitchen"),
    RegistryUnreachableError("kitchen"),
    RegistryBusyError("kitchen"),
    RegistryFailedError("canceling statement due to statement timeout", "57014"),
]

CLASSES = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, RefError)]

FOR_MODELS = (BadRefError, DraftContentError, ForeignRowError, PositionError, DriftError)
"""The errors that a model is shown."""


@pytest.mark.parametrize(("error", "message"), MESSAGES)
def test_a_message_is_the_fact_and_then_the_remedy(error: RefError, message: str) -> None:
    """Every error builds its own message from its data; labels in it are escaped."""
    assert str(error) == message


def test_an_error_survives_pickling() -> None:
    """A worker process can hand any error to its parent, data and message included."""
    assert {type(error) for error in ERRORS} >= {c for c in CLASSES if "__init__" in vars(c)} - {
        *(RefError, BadRefError)
    }
    for error in ERRORS:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_an_error_that_suggests_less_does_so_after_pickling() -> None:
    """Refs that a caller may not see are in no copy of the error."""
    error = UnknownRefError("recpie_2", "recipe", KNOWN, "recipe_2").offering(["recipe_1"])
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes

    assert str(copy) == "'recpie_2' is not a known recipe; known: 'recipe_1'"
    assert (copy.known, copy.near) == (("recipe_1",), None)


def test_messages_for_a_model_name_no_code() -> None:
    """They mention refs, rows and drafts, but no call, no name in Python and no session."""
    shown = [error for error in ERRORS if isinstance(error, FOR_MODELS)]
    classes = {c for c in CLASSES if issubclass(c, FOR_MODELS)}

    assert classes - {BadRefError} == {type(error) for error in shown}
    code = r"\(\)|\b(session|object|instance|class|attribute|trusted|code|[A-Z][a-z]+[A-Z]\w*)\b"
    assert [text for text in map(str, shown) if re.search(code, text)] == []


def test_all_errors_are_of_one_root_and_two_families() -> None:
    """Every error is a `RefError`, which SQLAlchemy's own handlers catch."""
    assert {c for c in CLASSES if not issubclass(c, BadRefError | SetupError)} == {
        *(RefError, UnknownConversationError, ConversationExistsError),
        *(RegistryBusyError, RegistryFailedError),
        # not about a ref, and a model can correct it
        *FOR_MODELS[1:],
    }
    assert issubclass(RefError, SQLAlchemyError)


def test_the_data_of_a_bad_ref_can_be_read() -> None:
    """A program reads what went wrong from attributes, not from the text."""
    error = WrongEntityError("meal_plan_1", "recipe", LABELS, None, "meal_plan")

    assert (error.ref, error.expected, error.entity) == ("meal_plan_1", "recipe", "meal_plan")
    assert error.known == ("recipe_1", "recipe_2")
    assert error.labels == {"recipe_1": "Butter Chicken"}
