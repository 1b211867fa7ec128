"""The wording and the data of errors."""

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
    ForeignRowError,
    GoneRefError,
    KeyTypeError,
    ListError,
    PositionError,
    RawKeyError,
    RefError,
    RegistryBusyError,
    RegistryFailedError,
    RegistryTablesError,
    RegistryUnreachableError,
    SavedDraftError,
    SetupError,
    StaleDraftError,
    UnknownConversationError,
    UnknownDraftError,
    UnknownRefError,
    WrongEntityError,
)

KNOWN = ("recipe_1", "recipe_2", "recipe_3")

EXAMPLES = [
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
        UnknownRefError("recipe_9", "recipe"),
        ("'recipe_9' is not a known recipe; none is known in this conversation; read some first"),
    ),
    (
        UnknownRefError("x"),
        "'x' is not a known ref; none is known in this conversation; read some first",
    ),
    (
        UnknownRefError(
            "butter chicken",
            "recipe",
            {"recipe_1": "Butter Chicken", "recipe_2": None},
            "recipe_1",
        ),
        (
            "'butter chicken' is not a known recipe; "
            "did you mean 'recipe_1' (\"Butter Chicken\")? "
            "known: 'recipe_1' (\"Butter Chicken\"), 'recipe_2'"
        ),
    ),
    (
        UnknownRefError("x", "recipe", {"recipe_1": "a', 'recipe_9' (\n\"b\\"}),
        (
            "'x' is not a known recipe; "
            "known: 'recipe_1' (\""
            r"a\', \'recipe_9\' (\n\"b\\"
            '")'
        ),
    ),
    (
        WrongEntityError("meal_plan_1", "recipe", KNOWN[:1], None, "meal_plan"),
        "'meal_plan_1' names entity 'meal_plan' where 'recipe' is needed; known: 'recipe_1'",
    ),
    (
        DraftRefError("gen_recipe_1", "recipe", KNOWN[:1]),
        (
            "'gen_recipe_1' is a draft's ref where a saved recipe is needed; "
            "save the draft and use the ref it gets, or choose another; known: 'recipe_1'"
        ),
    ),
    (
        UnknownDraftError(
            "gen_recipe_9", "recipe", {"gen_recipe_1": "a'\nb", "gen_recipe_2": None}
        ),
        (
            "'gen_recipe_9' is not a known draft of entity 'recipe'; "
            "pending: 'gen_recipe_1' (\""
            r"a\'\nb"
            "\"), 'gen_recipe_2'"
        ),
    ),
    (
        UnknownDraftError("gen_recipe_9"),
        (
            "'gen_recipe_9' is not a known draft; no such draft is pending in this conversation; "
            "read the drafts, or generate one"
        ),
    ),
    (
        DiscardedDraftError("gen_recipe_1", "recipe", ["gen_recipe_2"]),
        ("'gen_recipe_1' was discarded and cannot be used; pending: 'gen_recipe_2'"),
    ),
    (
        SavedDraftError("gen_recipe_1", "recipe_4"),
        "'gen_recipe_1' is saved as 'recipe_4' and no draft any more; use 'recipe_4'",
    ),
    (
        StaleDraftError("gen_recipe_1", 1, 2),
        (
            "'gen_recipe_1' has version 2 and was to be edited as of version 1; "
            "read it again, and edit what it has now"
        ),
    ),
    (
        DraftTwiceError("gen_recipe_1"),
        "'gen_recipe_1' is to be saved twice at once; save it once, and leave out the other",
    ),
    (
        CircularDraftsError(["gen_recipe_1", "gen_recipe_2"]),
        (
            "'gen_recipe_1', 'gen_recipe_2' name each other, so that none can be saved first; "
            "leave one of these refs out, and set it once both are saved"
        ),
    ),
    (
        ForeignRowError("recipes", "recipe_4"),
        "'recipe_4' of recipes cannot be written here; read the rows that can, and use one",
    ),
    (
        DraftContentError("the content has 300 kB", "leave out what is no part of it"),
        "the content has 300 kB; leave out what is no part of it",
    ),
    (
        DraftKeyError("gen_recipe_1", "gen_recipe_2"),
        (
            "a key that was to be reserved for 'gen_recipe_1', 'gen_recipe_2' is another draft's; "
            "reserve keys that no other row can have, such as new UUIDs"
        ),
    ),
    (
        GoneRefError("recipe_4", "recipe", KNOWN[:1], None, "was deleted"),
        "'recipe_4' was deleted and cannot be used; known: 'recipe_1'",
    ),
    (
        RawKeyError(None, "recipe", KNOWN[:1]),
        ("a raw key was given as text where a ref is needed; give a ref; known: 'recipe_1'"),
    ),
    (
        UnknownConversationError("chat-7"),
        (
            "conversation 'chat-7' is not known here; check its id, and that it is opened for the "
            "owner it was begun for, if it has one"
        ),
    ),
    (
        ConversationExistsError("chat-7"),
        (
            "conversation 'chat-7' cannot be made, because its id is taken or was used before; "
            "choose an id that never was"
        ),
    ),
    (
        RegistryTablesError("kitchen"),
        (
            "the registry's tables are missing or out of date in database 'kitchen'; "
            "run `alfred-refs migrate URL`, or upgrade the application's own Alembic environment "
            "if that has registry.metadata; where there are none yet, RefRegistry.create_tables() "
            "does too; if they are there, the role needs usage of their schema, which must be in "
            "its search_path"
        ),
    ),
    (
        RegistryUnreachableError("kitchen"),
        (
            "the registry's database 'kitchen' cannot be reached; "
            "check that the server runs and takes more connections, and that the engine's URL "
            "and credentials are right; the cause tells more"
        ),
    ),
    (
        RegistryFailedError("canceling statement due to statement timeout", "57014"),
        (
            "the registry's database refused a statement: canceling statement due to statement "
            "timeout (SQLSTATE 57014); nothing was changed; somebody cancelled it, or it took "
            "longer than statement_timeout allows: try again"
        ),
    ),
    (
        RegistryBusyError("kitchen"),
        (
            "no connection to the registry's database 'kitchen' became free in time; try again, "
            "or raise the engine's pool_size or pool_timeout, which the registry's own pool has "
            "too"
        ),
    ),
    (
        KeyTypeError("recipe", "UUID", "int"),
        (
            "a key of entity 'recipe' was given as int, and its keys are of type UUID; "
            "give the key as its column has it; the text of a UUID does for one"
        ),
    ),
    (SetupError("a fact", "a remedy"), "a fact; a remedy"),
    (ListError("there is no list", "name one"), "there is no list; name one"),
    (
        PositionError([Conflict("out_of_range", (1,), "position 9 is out of range")]),
        "edit 1: position 9 is out of range; nothing was changed, give all edits again",
    ),
    (
        DriftError("steps", ["a"], [1, 3]),
        (
            "the list 'steps' has changed since it was previewed at position 1, 3; "
            "look at it as it is now, and preview the edits again"
        ),
    ),
]


@pytest.mark.parametrize(("error", "message"), EXAMPLES)
def test_a_message_is_the_fact_and_then_the_remedy(error: RefError, message: str) -> None:
    """Every error words its own message from its data."""
    assert str(error) == message


FOR_MODELS = (BadRefError, DraftContentError, ForeignRowError, PositionError, DriftError)
"""The errors that a model is shown; each has an example above."""


@pytest.mark.once
def test_what_a_model_is_shown_speaks_to_a_model() -> None:
    """Of refs, rows and drafts, and of no code: no call, no name in Python, no session."""
    shown = {type(error): text for error, text in EXAMPLES if isinstance(error, FOR_MODELS)}
    classes = {
        c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, FOR_MODELS)
    }

    assert classes - {BadRefError} == set(shown)
    code = r"\(\)|\b(session|object|instance|class|attribute|trusted|code|[A-Z][a-z]+[A-Z]\w*)\b"
    assert [text for text in shown.values() if re.search(code, text)] == []


@pytest.mark.parametrize("error", [error for error, _ in EXAMPLES])
def test_an_error_survives_pickling(error: RefError) -> None:
    """A worker process can hand any error to its parent, data and message included."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes

    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_all_errors_are_of_one_root_and_two_families() -> None:
    """Every error is a `RefError`, which SQLAlchemy's own handlers catch."""
    classes = [c for c in vars(errors).values() if isinstance(c, type) and c is not RefError]
    ours = [c for c in classes if issubclass(c, RefError)]

    assert {c for c in ours if not issubclass(c, BadRefError | SetupError)} == {
        *(UnknownConversationError, ConversationExistsError),
        *(RegistryBusyError, RegistryFailedError),
        # no ref is bad, and a model can correct it
        *FOR_MODELS[1:],
    }
    assert issubclass(RefError, SQLAlchemyError)


def test_the_data_of_a_bad_ref_is_there_to_be_used() -> None:
    """A program reads what went wrong from attributes, not from the text."""
    error = WrongEntityError("meal_plan_1", "recipe", ["recipe_1"], None, "meal_plan")

    assert (error.ref, error.expected, error.entity, error.known) == (
        *("meal_plan_1", "recipe", "meal_plan"),
        ("recipe_1",),
    )


def test_labels_are_data_too() -> None:
    """An error tells which refs have which labels, in a pickle as well."""
    error = GoneRefError("recipe_4", "recipe", {"recipe_1": "Soup", "recipe_2": None}, None, "x")
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own

    assert (copied.known, copied.labels) == (("recipe_1", "recipe_2"), {"recipe_1": "Soup"})
    assert str(copied) == str(error)
