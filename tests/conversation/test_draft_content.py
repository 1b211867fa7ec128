"""The content of drafts: JSON within limits, and rows of mapped classes whose values fit."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import (
    ARRAY,
    Computed,
    ForeignKey,
    Identity,
    LargeBinary,
    Numeric,
    String,
    Text,
    create_engine,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from alfred_refs import (
    BadRefError,
    Conversation,
    Draft,
    DraftContentError,
    RefPolicy,
    RefRegistry,
    RefSession,
    SetupError,
    UnknownDraftError,
    UnknownRefError,
    WrongEntityError,
)
from alfred_refs.conversation.draft_content import (
    MAX_BYTES,
    MAX_DEPTH,
    NewRow,
    parse_content,
    to_text,
)
from alfred_refs.store import NewDraft
from alfred_refs.store.memory import MemoryStore

KEY = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")


# JSON

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | TEXTS
    | st.floats(allow_nan=False).filter(math.isfinite),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
    max_leaves=6,
)


def nested(levels: int) -> Any:
    """Return lists in lists."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_what_is_json_comes_back_as_it_was(content: dict[str, Any]) -> None:
    """Types, order and letters, and its text is the same when it is written once more."""
    text = to_text(content)
    read = json.loads(text)

    assert (repr(read), to_text(read)) == (repr(content), text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["Soup"], "the content of a draft is of type list; give an object"),
        ("{}", "the content of a draft is of type str; give an object"),
        (None, "the content of a draft is of type NoneType; give an object"),
        ({1: "Soup"}, "has a field whose name is of type int; name fields by text"),
        ({"a": {None: 1}}, "has a field whose name is of type NoneType"),
        ({"rate": math.nan}, "field 'rate' of a draft has a number that is not finite; give null"),
        ({"rate": [-math.inf]}, "field 'rate' of a draft has a number that is not finite"),
        ({"name": "So\0up"}, "field 'name' of a draft has a text with a NUL character; remove it"),
        ({"a": [{"b\0": 1}]}, "field 'a' of a draft has a text with a NUL character"),
        ({"c\0": 1}, r"field 'c\\x00' of a draft has a text with a NUL character"),
        ({"name": "\ud83c"}, "field 'name' of a draft has a text with half of a surrogate pair"),
        (
            {"day": dt.date(2026, 1, 1)},
            "field 'day' of a draft has a value of type date, which is not JSON",
        ),
        (
            {"recipe_id": KEY},
            "field 'recipe_id' of a draft has a value of type UUID, .* and a ref for a key",
        ),
        ({"a": {1, 2}}, "field 'a' of a draft has a value of type set, which"),
        ({"a": b"x"}, "field 'a' of a draft has a value of type bytes, which"),
        (
            {"a": nested(MAX_DEPTH)},
            "field 'a' of a draft has values nested more than 50 levels deep",
        ),
        ({"a": 10**5000}, "an integer of thousands of digits; give it as text"),
        ({"a": "x" * MAX_BYTES}, "has 262,152 bytes, and the limit is 262,144; split it"),
        ({"a": "é" * (MAX_BYTES // 2)}, "has 262,152 bytes"),
        ({str(KEY): math.nan}, "field '<key>' of a draft has a number"),
    ],
)
def test_what_is_not_is_refused_in_words(content: Any, message: str) -> None:
    """The fact and the remedy, and none of the values."""
    with pytest.raises(DraftContentError, match=message) as caught:
        to_text(content)

    assert str(KEY) not in str(caught.value)
    assert caught.value.__cause__ is None


def test_what_is_at_the_limits_is_kept() -> None:
    """The last byte and the last level, and what goes round in a circle has none."""
    assert len(to_text({"a": "x" * (MAX_BYTES - 8)})) == MAX_BYTES
    assert json.loads(to_text({"a": nested(MAX_DEPTH - 1)})) == {"a": nested(MAX_DEPTH - 1)}
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(DraftContentError, match="50 levels"):
        to_text({"a": ring})


def test_what_is_given_is_copied_as_plain_values() -> None:
    """Tuples are lists, and enumerated texts texts, as JSON has them."""
    assert to_text({"a": (1, ("b",))}) == '{"a":[1,["b"]]}'


# Rows of a mapped class


class Base(DeclarativeBase):
    """Of classes that only these tests use."""


class Size(enum.Enum):
    """How large a pot is."""

    SMALL = 1
    LARGE = 2


class Pot(Base):
    """Has a column of each kind."""

    __tablename__ = "pots"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    kind: Mapped[str]
    name: Mapped[str | None] = mapped_column(String(5))
    price: Mapped[Decimal | None] = mapped_column(Numeric(8, 2))
    made: Mapped[dt.date | None]
    size: Mapped[Size | None]
    notes: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    photo: Mapped[bytes | None] = mapped_column(LargeBinary)
    twice: Mapped[Decimal | None] = mapped_column(Computed("price * 2"))
    like_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("pots.id"))

    like: Mapped[Pot | None] = relationship(remote_side="Pot.id")
    lids: Mapped[list[Lid]] = relationship(back_populates="pot")
    same: Mapped[list[Lid]] = relationship(viewonly=True)

    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "pot"}  # noqa: RUF012


class Wok(Pot):
    """Is told from other pots by `kind`."""

    rounded: Mapped[bool | None]

    __mapper_args__ = {"polymorphic_identity": "wok"}  # noqa: RUF012


class Lid(Base):
    """Belongs to a pot."""

    __tablename__ = "lids"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    pot_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("pots.id"))
    pot: Mapped[Pot] = relationship(back_populates="lids")
    handles: Mapped[list[Handle]] = relationship()


class Handle(Base):
    """Has two columns for a key, and none of its own."""

    __tablename__ = "handles"

    lid_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("lids.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]


class Numbered(Base):
    """Has keys that nobody may give."""

    __tablename__ = "numbered"

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)


class Country(Base):
    """Has keys that are given, and made by nobody."""

    __tablename__ = "countries"

    code: Mapped[str] = mapped_column(primary_key=True)


@pytest.fixture
def chat() -> Conversation:
    """A conversation in which one pot and one lid have been met."""
    policy = RefPolicy(key_types=("uuid", "integer", "string"))
    chat = RefRegistry(store=MemoryStore(), policy=policy).conversation("chat-7")
    chat.refer(Pot, KEY)
    chat.refer(Lid, KEY)
    return chat


def record(chat: Conversation, content: dict[str, Any], model: type[Any] = Pot) -> NewRow:
    """Return what content is of."""
    return parse_content(model, content, chat._entities)


def uses(chat: Conversation, draft: Draft, content: dict[str, Any]) -> list[Callable[[], Draft]]:
    """Return what puts content into a draft: a new one, or one that is there."""
    return [lambda: chat.draft(Pot, content), lambda: chat.edit_draft(draft.ref, content)]


def test_values_are_as_columns_have_them(chat: Conversation) -> None:
    """Those of JSON become those of Python; refs stay text."""
    content = {
        "name": "Iron",
        "price": "12.50",
        "made": "2026-05-01",
        "size": "LARGE",
        "notes": ["old", None],
        "like_id": "pot_1",
    }

    found = record(chat, content)

    assert found.model is Pot
    assert found.values == {
        "name": "Iron",
        "price": Decimal("12.50"),
        "made": dt.date(2026, 5, 1),
        "size": Size.LARGE,
        "notes": ["old", None],
        "like_id": "pot_1",
    }
    assert chat.draft(Pot, content).content == content


def test_related_rows_are_inside_or_named(chat: Conversation) -> None:
    """At any depth; those inside need no key of their own."""
    content = {
        "like": "pot_1",
        "lids": ["lid_1", {"handles": [{"number": 1}, {"number": 2, "name": "left"}]}],
    }
    chat.draft(Pot, content)

    found = record(chat, content)

    assert found.values["like_id"] == "pot_1"
    named, inside = found.related["lids"]
    assert named == "lid_1"
    assert isinstance(inside, NewRow)
    assert [handle.values for handle in inside.related["handles"]] == [  # type: ignore[union-attr]
        {"number": 1},
        {"number": 2, "name": "left"},
    ]
    wanted = [("pot_1", "pot"), ("lid_1", "lid")]
    assert list(found.refs(chat._entities)) == wanted


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"nme": "x"}, "'nme' is not a field of a draft of 'Pot'; use one of 'kind', 'name', "),
        ({"id": "pot_1"}, "'id' is not a field"),
        ({"twice": 1}, "'twice' is not a field"),
        ({"same": []}, "'same' is not a field"),
        ({"lids": [{"colour": 1}]}, "'lids.colour' is not a field of a draft of 'Lid'"),
        ({"name": 5}, "field 'name' of a draft does not fit; it takes text"),
        ({"name": "longer"}, "field 'name' of a draft does not fit; it takes at most 5 char"),
        ({"made": "soon"}, "field 'made' of a draft does not fit; it takes a date such as"),
        ({"size": "HUGE"}, "it takes one of 'SMALL', 'LARGE'"),
        ({"notes": "old"}, "it takes a list, each element text"),
        ({"photo": "eA=="}, "field 'photo' of a draft does not fit"),
        ({"like_id": 5}, "it takes a ref of pot, such as 'pot_1'"),
        ({"lids": {}}, "field 'lids' of a draft has related rows; give a list of objects"),
        ({"like": [{}]}, "field 'like' of a draft has related rows; give one object, or refs"),
        ({"lids": [5]}, "field 'lids' of a draft has a value that is not a related row"),
        ({"lids": [{"handles": [{"number": "x"}]}]}, "field 'lids.handles.number' of a draft"),
        ({"kind": "pan"}, "field 'kind' names no class of 'Pot'"),
        ({f"x{KEY}": 1}, "'x<key>' is not a field"),
    ],
)
def test_content_that_does_not_fit_is_told_by_its_field(
    chat: Conversation, content: dict[str, Any], said: str
) -> None:
    """Before anything is kept, without the value, and with what would do."""
    draft = chat.draft(Pot, {})

    for use in uses(chat, draft, content):
        with pytest.raises(DraftContentError) as caught:
            use()
        assert said in str(caught.value)
        assert "longer" not in str(caught.value)
    assert list(chat.drafts()) == [draft]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"like_id": "pot_9"}, UnknownRefError),
        ({"like_id": "lid_1"}, WrongEntityError),
        ({"like": "lid_1"}, WrongEntityError),
        ({"like_id": "gen_pot_9"}, UnknownDraftError),
        ({"like_id": "gen_lid_1"}, WrongEntityError),
        ({"lids": [{"pot_id": "pot_7"}]}, UnknownRefError),
        ({"lids": ["lid_9"]}, UnknownRefError),
        ({"like_id": str(KEY)}, BadRefError),
    ],
)
def test_refs_in_content_name_something(
    chat: Conversation, content: dict[str, Any], error: type[Exception]
) -> None:
    """Rows or drafts, of what the column or the relationship is of."""
    chat.draft(Lid, {})
    draft = chat.draft(Pot, {"like_id": "pot_1"})
    chat.draft(Pot, {"like_id": draft.ref, "lids": ["gen_lid_1", {"pot_id": draft.ref}]})

    for use in uses(chat, draft, content):
        with pytest.raises(error):
            use()
    assert [each.ref for each in chat.drafts(Pot)] == ["gen_pot_1", "gen_pot_2"]


def test_a_draft_of_a_subclass_says_so(chat: Conversation) -> None:
    """The table has rows of several classes, and its fields are those of the one that is said."""
    draft = chat.draft(Wok, {"rounded": True})
    chat.draft(Pot, {"kind": "wok", "rounded": False})

    assert draft.content == {"kind": "wok", "rounded": True}
    assert record(chat, draft.content).model is Wok
    with pytest.raises(DraftContentError, match="'kind' names no class of 'Wok'"):
        chat.draft(Wok, {"kind": "pot"})
    with pytest.raises(DraftContentError, match="'rounded' is not a field of a draft of 'Pot'"):
        chat.draft(Pot, {"rounded": True})


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Handle, "class 'Handle' cannot have drafts: its primary key has several columns"),
        (Numbered, "its keys are GENERATED ALWAYS"),
        (Country, "its primary key has no default; give the primary key a default"),
    ],
)
def test_a_class_whose_keys_cannot_be_decided_has_no_drafts(
    chat: Conversation, model: type[Any], said: str
) -> None:
    """The key is what a draft is saved once by; such rows may stand inside others."""
    with pytest.raises(SetupError, match=said):
        chat.draft(model, {})


def test_a_draft_whose_key_cannot_be_decided_is_not_saved(chat: Conversation) -> None:
    """It may be of a program that has another mapping; its INSERT would not take a key."""
    chat._store.draft(chat._address, [NewDraft("numbered", "{}")])
    with RefSession(create_engine("postgresql+psycopg://"), conversation=chat) as session:
        session.add(Numbered(id="gen_numbered_1"))
        with pytest.raises(SetupError, match="its keys are GENERATED ALWAYS"):
            session.flush()

    assert [each.reserved for each in chat.drafts()] == [False]


def test_of_what_is_not_mapped_only_the_form_is_known(chat: Conversation) -> None:
    """Whoever saves such drafts knows what they hold."""
    draft = chat.draft("thing_of_no_class", {"any": [1, {"x": None}]})

    assert (draft.ref, draft.content) == ("gen_thing_of_no_class_1", {"any": [1, {"x": None}]})
