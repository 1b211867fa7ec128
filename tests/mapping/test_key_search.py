"""Keys in text: whole, split and cut ones, and what only looks like one."""

from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import example, given, settings, strategies as st

from alfred_refs.mapping.keys import found_in, replace_keys
from tests.profiles import examples

KEY = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")


UNSEEN = ["<wbr>", "<b>", "\u200e", "\u202e", "\ufe0f", "\0", "\x1b[0m"]
DASHES = [
    *(
        "\u2010",
        "\u2011",
        "\u2013",
        "\u2014",
        "\u2212",
        "--",
        " - ",
        " ",
        "\t",
        ".",
        "_",
        "/",
        ", ",
    ),
    *("%2D", "&#45;", "&#x2d;", "&ndash;", "\\u002d", "<wbr>", "</b>-<b>", '" "', " | "),
]


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        (f"see {KEY}.", "whole", str(KEY)),
        (f"{KEY.hex.upper()}", "whole", KEY.hex.upper()),
        (f"{{{KEY}}} urn", "whole", str(KEY)),
        (f"urn:uuid:{KEY}", "whole", str(KEY)),
        ("c69607bb-0000-0000-0000-000000000000", "whole", "c69607bb-0000-0000-0000-000000000000"),
        (
            "a508000d-**9b55**-40f0-8886-dbdd88bd2de2",
            "split",
            "a508000d-**9b55**-40f0-8886-dbdd88bd2de2",
        ),
        (
            "a508000d-9b55-\n  40f0-8886-dbdd88bd2de2",
            "split",
            "a508000d-9b55-\n  40f0-8886-dbdd88bd2de2",
        ),
        (f"{KEY.hex[:5]}\u200b{KEY.hex[5:]}", "split", f"{KEY.hex[:5]}\u200b{KEY.hex[5:]}"),
        (r"a508000d\-9b55\-40f0\-8886\-dbdd88bd2de2", "split", None),
        ("a508000d-9b55-40f0-8\n886-dbdd88bd2de2", "split", None),
        *((str(KEY).replace("-", dash), "split", None) for dash in DASHES),
        ("a508…2de2", "cut", "a508…2de2"),
        ("a508000d-9b55...bd2de2", "cut", "a508000d-9b55...bd2de2"),
        *((f"{str(KEY)[:4]}{gap}{str(KEY)[4:]}", "split", None) for gap in UNSEEN),
        (f"{str(KEY)[:12]}\n> {str(KEY)[12:]}", "split", None),
        *((text, "cut", text) for text in (str(KEY)[:-1], str(KEY)[1:], str(KEY)[9:])),
        *((f"a508000d{dots}dbdd88bd2de2", "cut", None) for dots in ("[...]", "⋯", "-****-****-")),
        ("id ..c69607bb", "cut", "..c69607bb"),
        ("id …dbdd88bd2de2", "cut", "…dbdd88bd2de2"),
        ("a508000d...", "cut", "a508000d..."),
        ("a508000d-9b55-4…", "cut", "a508000d-9b55-4…"),
        ("(a508000d-9b55-40f0)", "cut", "a508000d-9b55-40f0"),
    ],
)
def test_a_key_is_found_however_it_is_spelt(text: str, kind: str, found: str | None) -> None:
    """And told by its kind."""
    [each] = found_in(text)
    assert (each.kind, each.text) == (kind, each.text if found is None else found)
    assert text[each.start : each.end] == each.text
    assert (each.key is None) == (kind == "cut")


@pytest.mark.parametrize(
    "text",
    [
        "recipe_1 gen_recipe_2 <product_3> uuid-here",
        "#a1b2c3 1a2b3c4 e3b0c44298fc1c14 facade... added.. decade",
        "123456... 20261124-0410-1130 +49 89 1234567890",
        "2026-11-24T10:00:00 10.0.0.1 beef-cafe deadbeef 2001:0db8:85a3:0000:0000:8a2e:0370:7334",
        "10000000 2000 3000 4000 500000000000 #ff00aa…",
        "4111 1111 1111 1111, ISBN 978-3-16-148410-0, AA:BB:CC:DD:EE:FF, face... cafe…",
        "",
    ],
)
def test_what_only_looks_like_one_is_left(text: str) -> None:
    """Refs, colours, abbreviated commits, numbers, dates and words."""
    assert found_in(text) == []


def test_a_key_gets_its_name_and_the_others_are_hidden() -> None:
    """A cut one where exactly one of those that are known fits."""

    def name(key: uuid.UUID) -> str | None:
        return "recipe_1" if key == KEY else None

    other = uuid.UUID(int=KEY.int + 1)
    text = f"{KEY}, {other}, a508000d…, ..bd2de2, ..ffffaa1, a508…2de2, a508…2de3"
    assert replace_keys(text, name, [KEY]) == (
        "recipe_1, <key>, recipe_1, recipe_1, <key>, recipe_1, <key>"
    )
    assert replace_keys("a508000d…", name, [KEY, other]) == "<key>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{KEY}23", "recipe_1 23"),
        (f"recipe_{KEY}", "recipe_ recipe_1"),
        (f"gen_{KEY}", "gen_ recipe_1"),
        (f"{KEY}{KEY}", "recipe_1 recipe_1"),
        (f"é{KEY}é", "é recipe_1 é"),
        (f"({KEY})", "(recipe_1)"),
    ],
)
def test_a_ref_never_grows_into_another_one(text: str, expected: str) -> None:
    """It stands by itself, whatever the key stood beside."""
    assert replace_keys(text, lambda _: "recipe_1") == expected


def test_a_mask_shows_four_letters() -> None:
    """Enough to find it again."""
    assert [each.masked for each in found_in(f"{KEY} ..c69607bb")] == ["a508…", "c696…"]
    assert str(KEY) not in repr(found_in(str(KEY)))


GAPS = ["", "", "", "*", "**", "`", "_", "\u200b", "\u00ad", "\\"]
MARKUP = re.compile("[*_`~\\\\\u00ad\u200b-\u200d\u2060\ufeff-]")


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """Return a key in some spelling, split or not."""
    key = draw(st.uuids())
    text = draw(st.sampled_from([str(key), key.hex, str(key).upper(), key.hex.upper()]))
    gaps = draw(st.lists(st.sampled_from(GAPS), min_size=len(text), max_size=len(text)))
    return "".join(letter + gap for letter, gap in zip(text, gaps, strict=True))


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(spellings() | st.text(max_size=10), max_size=5))
@example(["a508000d9b5540f08886**dbdd88bd2de2**"])
def test_no_text_has_a_key_left(pieces: list[str]) -> None:
    """Whatever stands between its letters, and whatever stands beside it."""
    clean = replace_keys(" ".join(pieces), lambda _: None)
    bare = MARKUP.sub("", clean)
    assert not re.search(r"[0-9A-Fa-f]{32}", bare)
    assert found_in(clean) == []


@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet="ghijklmnop .-_*\n`GHIJ", max_size=200))
def test_a_text_without_keys_stays_as_it_is(text: str) -> None:
    """To the letter."""
    assert replace_keys(text, lambda _: None) == text
