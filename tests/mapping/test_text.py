"""Keys in text: search, redaction and marks."""

from __future__ import annotations

import json
import re
import unicodedata
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from alfred_refs.mapping import text as module
from alfred_refs.mapping.text import (
    HIDDEN,
    CutTextError,
    KeySpelling,
    Mark,
    WordReplacer,
    cut_mark,
    decode_marks,
    encode_marks,
    has_marks,
    head,
    key_spellings,
    marks_in,
    redact_keys,
    replace_keys,
    search_keys,
    whole_keys,
    words_in,
)
from tests.key_texts import texts
from tests.profiles import examples

pytestmark = pytest.mark.once

KEY = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")
DIGITS = uuid.UUID(int=int("12345678901234567890123456789012", 16))

SPELLINGS = {
    "dashed": str(KEY),
    "digits": KEY.hex,
    "capitals": str(KEY).upper(),
    "repr": repr(KEY),
    "URN": KEY.urn,
    "fours": "-".join(KEY.hex[i : i + 4] for i in range(0, 32, 4)),
    "some dashes": "a508000d9b5540f0-8886dbdd88bd2de2",
}


def ref_of(key: uuid.UUID) -> str | None:
    """Return the ref of the one key that has one."""
    return "recipe_1" if key == KEY else None


# Redaction of whole keys


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_is_redacted_in_every_spelling(spelling: str) -> None:
    """The replacement is the same for all; in a `repr` it is quoted."""
    text = f"Key ({SPELLINGS[spelling]}), again:{{{SPELLINGS[spelling]}}}."
    shown = "'recipe_1'" if spelling == "repr" else "recipe_1"

    assert redact_keys(text, ref_of) == f"Key ({shown}), again:{{{shown}}}."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"cafe{KEY}cafe", "caferecipe_1cafe"),
        (f"2024-01-01-{KEY}-1.jpg", "2024-01-01-recipe_1-1.jpg"),
        (f"{KEY}{KEY}", "recipe_1recipe_1"),
        (f"{KEY.hex}{KEY}", "recipe_1recipe_1"),
        (f"{KEY.hex}{KEY.hex}", HIDDEN),
        (f"\\x{KEY.hex}", "\\xrecipe_1"),
        (f"UUID('{KEY}", "UUID('recipe_1"),
        (str(DIGITS), HIDDEN),
        (f"[{DIGITS!r}]", f"['{HIDDEN}']"),
    ],
)
def test_a_key_is_redacted_whatever_is_next_to_it(text: str, shown: str) -> None:
    """Digits without a clear beginning, and keys without a ref, are hidden."""
    assert redact_keys(text, ref_of) == shown


def test_whole_keys_are_returned_as_they_are_spelled() -> None:
    """In the order of the text."""
    assert whole_keys(f"{KEY.hex} and {KEY}, {KEY!r}") == [KEY.hex, str(KEY), str(KEY)]
    assert whole_keys("recipe_1 of 2024-01-01") == []


@given(st.lists(st.text(), min_size=1), st.sampled_from(list(SPELLINGS.values())))
def test_no_redacted_text_has_a_key_left(pieces: list[str], spelled: str) -> None:
    """Neither a whole key nor its beginning; a second redaction changes nothing."""
    shown = redact_keys(spelled.join(["", *pieces, ""]))

    assert [known for known in SPELLINGS.values() if known.lower() in shown.lower()] == []
    assert "a508000d" not in shown.lower()
    assert (redact_keys(shown), whole_keys(shown)) == (shown, [])


@given(st.text(), st.text(st.sampled_from("0123456789abcdefABCDEF-'{}() "), max_size=31))
def test_a_text_without_keys_is_not_redacted(anything: str, digits: str) -> None:
    """A text with too few digits is unchanged."""
    assert redact_keys(anything) == anything
    assert redact_keys(digits) == digits


# Known words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SKU-1, SKU-10 xSKU-1 x-SKU-1 (SKU-1)", "<1>, SKU-10 xSKU-1 x-SKU-1 (<1>)"),
        ("SKU.1, SKU, SKU.12, SKU.1.1", "<3>, <2>, <2>.12, <3>.1"),
        ("/a /b a/a a", "<4> /b a/a a"),
        ("a+ a+b a++ é SKUé", "<5> a+b <5>+ é SKUé"),
        ("", ""),
    ],
)
def test_a_known_word_is_replaced_where_it_is_a_whole_word(text: str, shown: str) -> None:
    """Of two at one place the longer one is."""
    known = {"SKU-1": "<1>", "SKU": "<2>", "SKU.1": "<3>", "/a": "<4>", "a+": "<5>", "": "<6>"}

    assert WordReplacer(known, "-").replace(text) == shown


WORDS = ["a", "ab", "a b", "a.b", ".a", "a.", "a-b", "..", "é", "b\n"]


@given(st.text("ab.é-\n ", max_size=30), st.sets(st.sampled_from(WORDS)))
def test_known_words_are_replaced_as_a_regular_expression_would(
    text: str, known: set[str]
) -> None:
    """One that has all words as alternatives, the longest first."""
    shown = {word: f"<{number}>" for number, word in enumerate(sorted(known))}
    choices = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    pattern = rf"(?<![\w-])(?:{choices})(?![\w-])" if known else "(?!)"

    assert WordReplacer(shown, "-").replace(text) == re.sub(pattern, lambda m: shown[m[0]], text)
    assert set(re.findall(pattern, text)) <= set(words_in(text, known, "-"))


# Marks


class Book:
    """Gives each key a ref, and returns the key of a ref."""

    def __init__(self) -> None:
        self.refs: dict[uuid.UUID | str, str] = {}

    def mark_of(self, spelled: KeySpelling) -> Mark:
        """Return a mark, with a new number for a new key."""
        ref = self.refs.setdefault(spelled.key or spelled.text, f"key_{len(self.refs) + 1}")
        return Mark(ref, spelled.spelling)

    def text_of(self, mark: Mark) -> str:
        """Return the text that a mark replaced."""
        key = {ref: key for key, ref in self.refs.items()}[mark.ref]
        return mark.spelling_of(key) if isinstance(key, uuid.UUID) else key


keys = st.one_of(st.uuids(), st.sampled_from([KEY, DIGITS]))


@given(texts(keys))
def test_a_text_comes_back_to_the_letter(text: str) -> None:
    """Whatever is in it; and the text with marks has no key."""
    book = Book()

    shown = encode_marks(text, book.mark_of)

    assert whole_keys(shown) == []
    assert decode_marks(shown, book.text_of) == text
    assert [book.mark_of(each) for each in key_spellings(text)] == marks_in(shown)


@given(texts(keys), st.integers(0, 100))
def test_a_head_has_no_part_of_a_key(text: str, most: int) -> None:
    """It ends before a key that would be cut through."""
    book, short = Book(), head(text, most)
    spellings = list(key_spellings(short))

    assert text.startswith(short)
    assert len(short) <= most
    assert spellings == list(key_spellings(text))[: len(spellings)]
    assert whole_keys(encode_marks(short, book.mark_of)) == []


@pytest.mark.parametrize(
    ("most", "shown"), [(0, ""), (4, "see "), (5, "see "), (39, "see "), (40, f"see {KEY}")]
)
def test_a_head_has_a_key_as_a_whole_or_not_at_all(most: int, shown: str) -> None:
    """Wherever the text is cut."""
    assert head(f"see {KEY} or not", most) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"see {KEY}.", "see <key_1>."),
        (KEY.hex, "<key_1:hex>"),
        (str(KEY).upper(), "<key_1:upper>"),
        (KEY.hex.upper(), "<key_1:HEX>"),
        (str(DIGITS).upper(), "<key_1>"),
        (str(KEY).title(), "<key_1>"),
        (f"{{{KEY}}}", "{<key_1>}"),
        (KEY.urn, "urn:uuid:<key_1>"),
        (repr(KEY), "UUID('<key_1>')"),
        ("a" * 450, "<key_1><key_1><key_2>"),
        (f"{KEY}{KEY}", "<key_1><key_1>"),
        ("a <key_1> b", "a <\\key_1> b"),
        ("<\\key_1:hex>", "<\\\\key_1:hex>"),
        ("<cut: 1 more characters>", "<\\cut: 1 more characters>"),
        ("<key> <b> <key_0> <Key_1> < key_1>", "<key> <b> <key_0> <Key_1> < key_1>"),
        (f"<{KEY.hex}_1>", "<<key_1:hex>_1>"),
    ],
)
def test_a_mark_records_the_spelling(text: str, shown: str) -> None:
    """Text that looks like a mark is escaped, and other text is unchanged."""
    assert encode_marks(text, Book().mark_of) == shown


NUMBERS = [DIGITS.hex, "1" * 40, "-" + DIGITS.hex, f"0.{DIGITS.hex}", "9" * 78, "0" * 450]


@pytest.mark.parametrize("text", NUMBERS)
def test_decimal_digits_alone_are_a_number(text: str) -> None:
    """However many they are: nothing redacts, marks, masks or cuts them."""
    assert redact_keys(text) == text
    assert encode_marks(text, lambda _: None) == text
    assert replace_keys(text, lambda _: None) == text
    assert len(head("1" * 450, 300)) == 300


def test_decimal_digits_are_a_key_if_that_is_known() -> None:
    """One UUID in three million has no other digits; with dashes it is a key in any case."""

    def ref_of_digits(key: uuid.UUID) -> str | None:
        return "recipe_2" if key == DIGITS else None

    assert redact_keys(f"see {DIGITS.hex}", ref_of_digits) == "see recipe_2"
    assert replace_keys(f"see {DIGITS.hex}", ref_of_digits) == "see recipe_2"
    assert encode_marks(DIGITS.hex, Book().mark_of) == "<key_1:hex>"
    assert replace_keys(str(DIGITS), lambda _: None) == HIDDEN


def test_a_cut_text_is_not_decoded() -> None:
    """Nor searched for marks; text that only looks cut is text."""
    text = f"all of it…{cut_mark(12)}"

    for read in (lambda: marks_in(text), lambda: decode_marks(text, str)):
        with pytest.raises(CutTextError):
            read()
    assert decode_marks("<\\cut: 12 more characters>", str) == "<cut: 12 more characters>"
    assert [has_marks(each) for each in (text, "<\\key_1>", "a < b", "<b>")] == [
        *(True, True, False, False)
    ]


# Search for split and cut keys

INVISIBLE = ["<wbr>", "<b>", "\u200e", "\u202e", "\ufe0f", "\0", "\x1b[0m"]
DASHES = [
    *("\u2010", "\u2011", "\u2013", "\u2014", "\u2212", "--", " - ", " ", "\t", ".", "_", "/"),
    *(", ", "%2D", "&#45;", "&#x2d;", "&ndash;", "\\u002d", "<wbr>", "</b>-<b>", '" "', " | "),
]

TAGS = [
    f'<span class="{"long " * 20}">',
    "</b><i>",
    "<br\n/>",
    "\x1b[0m\x1b[31m",
    "&shy;",
    "\\u200b",
]
LINE_ENDS = ["\n", "\r\n", "\n> ", "\n    # ", "*\n*"]
ELLIPSES = ["(...)", "[…]", "{...}", "<...>", "[ ... ]", "(…)", "....", "…", "***"]


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        (f"see {KEY}.", "whole", str(KEY)),
        (KEY.hex.upper(), "whole", None),
        (f"{{{KEY}}} urn", "whole", str(KEY)),
        (f"urn:uuid:{KEY}", "whole", str(KEY)),
        ("c69607bb-0000-0000-0000-000000000000", "whole", None),
        (
            "see a508000d-**9b55**-40f0-8886-dbdd88bd2de2",
            "split",
            str(KEY).replace("9b55", "**9b55**"),
        ),
        ("a508000d-9b55-\n  40f0-8886-dbdd88bd2de2", "split", None),
        (f"{KEY.hex[:5]}\u200b{KEY.hex[5:]}", "split", None),
        (r"a508000d\-9b55\-40f0\-8886\-dbdd88bd2de2", "split", None),
        ("a508000d-9b55-40f0-8\n886-dbdd88bd2de2", "split", None),
        *((str(KEY).replace("-", dash), "split", None) for dash in DASHES),
        *((f"{str(KEY)[:4]}{gap}{str(KEY)[4:]}", "split", None) for gap in INVISIBLE),
        (f"{str(KEY)[:12]}\n> {str(KEY)[12:]}", "split", None),
        *((str(KEY).replace("9b55", f"9{tags}b55"), "split", None) for tags in TAGS),
        *((f"{KEY.hex[:13]}{gap}{KEY.hex[13:]}", "split", None) for gap in [*TAGS, *LINE_ENDS]),
        *((str(KEY).replace("-", f"-{gap}"), "split", None) for gap in [*TAGS, *LINE_ENDS]),
        ("\n".join(str(KEY)), "split", None),
        (str(KEY).replace("-", "%"), "split", None),
        (f"<a id='{str(KEY).replace('-', '%2D')}'>", "split", str(KEY).replace("-", "%2D")),
        ("a508…2de2", "cut", None),
        *((f"a508{dots}2de2", "cut", None) for dots in ELLIPSES),
        *((f"a508000d-{dots}-dbdd88bd2de2", "cut", None) for dots in ELLIPSES),
        *((f"a508000d{dots}", "cut", None) for dots in ELLIPSES),
        *((f"{dots}88bd2de2", "cut", None) for dots in ELLIPSES),
        ("a508…9b55…2de2", "cut", None),
        ("a508…9b55…dbdd88bd2de2", "cut", None),
        ("…a508000d-9b55-40f0-8", "cut", None),
        ("a508000d-9b55...bd2de2", "cut", None),
        *((text, "cut", None) for text in (str(KEY)[:-1], str(KEY)[1:], str(KEY)[9:])),
        *((f"a508000d{dots}dbdd88bd2de2", "cut", None) for dots in ("[...]", "⋯", "-****-****-")),
        (r"'see\na508000d-9b55[…]\n'", "cut", "a508000d-9b55[…]"),
        ("id ..c69607bb", "cut", "..c69607bb"),
        ("id …dbdd88bd2de2", "cut", "…dbdd88bd2de2"),
        ("a508000d...", "cut", None),
        ("a508000d-9b55-4…", "cut", None),
        ("(a508000d-9b55-40f0)", "cut", "a508000d-9b55-40f0"),
    ],
)
def test_a_key_is_found_in_every_spelling(text: str, kind: str, found: str | None) -> None:
    """With its kind; `None` means the whole text."""
    [each] = search_keys(text)

    assert (each.kind, each.text) == (kind, found or text)
    assert text[each.start : each.end] == each.text
    assert (each.key is None) == (kind == "cut")


# One piece each, that is written between two digits.
PIECES = {
    "escapes": [
        *("\\n", "\\r\\n", "\\t", "\\v", "\\f", "\\b", "\\a", "\\\\n", "\\\\\\\\n"),
        *("\\x0a", "\\012"),
        *("\\u200b", "\\U0000200b", "\\u{200b}", "\\N{ZERO WIDTH SPACE}", "\\\\\\\\u200b"),
        *("\\xe2\\x80\\x8b", "\\udb40\\udc61", "%0A", "%250A", "%E2%80%8B", "%u200B", "=E2=80=8B"),
        *("&nbsp;", "&ZeroWidthSpace;", "&#x200B;", "&amp;nbsp;", "&amp;amp;#8203;", "_x000D_"),
        *("\x1b[38;2;255;100;10m", "\\u001b[0m", "\\033[1m", "\\e[0m"),
    ],
    "line ends": [
        *("\r", "\r\n", "\n\t\t", "\\n    ", "\\n> ", "\v", "\f", "\x1c", "\x85"),
        *("\u2028", "\u2029"),
        *("=\n", "=\r\n"),
    ],
    "white space": ["\t", "\xa0", "\u2009", "\u202f", "\u3000", "\u2800"],
    "invisible": [
        *("\x00", "\x7f", "\u180e", "\u3164", "\u17b4", "\ufff9", "\uffa0"),
        *("\U0001d173", "\ud800"),
        *("\ufe0f", "\U000e0061", "\U000e0100"),
    ],
    "several": ["**\\n*", "</b>\\n<b>", "\\n\\t\\t\\t", "\U000e0062" * 4, "\\f\\x0a%0A&nbsp;"],
}


def readable(text: str, key: str) -> bool:
    """Return whether nine digits of a key in a row are in a text that has been searched."""
    digits = re.sub("[^0-9a-f]", "", key.lower())
    clean = replace_keys(text, lambda _: None).replace(HIDDEN, "~").lower()
    left = re.sub("[^0-9a-f~]", "", clean)
    return any(digits[start : start + 9] in left for start in range(len(digits) - 8))


@pytest.mark.parametrize("kind", PIECES)
def test_a_key_is_found_with_a_piece_at_any_place(kind: str) -> None:
    """In a group, before and after a dash; in capitals, in braces, in JSON, and without dashes."""
    for piece in PIECES[kind]:
        for key in (str(KEY), str(KEY).upper(), "f53a09d1-6910-42b3-9efc-8eee819a4049", KEY.hex):
            for place in range(1, len(key)):
                split = key[:place] + piece + key[place:]

                assert not readable(f"{{{split}}}", key), split
                assert not readable(json.dumps({"n": f"urn:uuid:{split}"}), key), split


@pytest.mark.parametrize("kind", PIECES)
def test_a_split_key_is_read_without_its_pieces(kind: str) -> None:
    """The digits of an escape are not its own, unless they look like a whole key with it."""
    for piece in PIECES[kind]:
        for place in range(14, 36):
            [found] = search_keys(str(KEY)[:place] + piece + str(KEY)[place:])

            assert (found.kind, found.key) == ("split", KEY)


def test_a_key_is_found_with_any_character_that_has_no_form() -> None:
    """Controls, formats, separators and code points that Unicode lets programs ignore."""
    ignorable = "\u034f\u115f\u1160\u17b4\u17b5\u2065\u3164\uffa0\ufff0\U000e0000\U000e0fff"
    ignorable += "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10))))
    ignorable += "".join(map(chr, range(0xE0100, 0xE01F0)))
    categories = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}
    every = {
        *ignorable,
        *(c for c in map(chr, range(0x110000)) if unicodedata.category(c) in categories),
    }

    for each in every - {" "}:
        for place in (3, 8, 9, 30):
            [found] = search_keys(str(KEY)[:place] + each + str(KEY)[place:])
            assert found.key == KEY, hex(ord(each))


def test_four_pieces_are_in_one_place_at_most() -> None:
    """More are text between two numbers; in place of a dash there may be 16."""
    for piece in ("*", "\\n", "<b>", "\u200b", "\xa0"):
        four, five = (str(KEY)[:4] + piece * count + str(KEY)[4:] for count in (4, 5))

        assert [each.kind for each in search_keys(four)] == ["split"]
        assert "split" not in [each.kind for each in search_keys(five)]
        assert [each.key for each in search_keys(str(KEY).replace("-", piece * 16))] == [KEY]


@pytest.mark.parametrize("code", ["%3D", "=3D", "\\f", "\\x0a", "\\u000a", "\\012", "\\U0000000a"])
def test_a_key_is_found_after_a_code_that_ends_in_a_digit(code: str) -> None:
    """The digits of the code are not the key's."""
    for split in (str(KEY).replace("-", "%2D"), str(KEY).replace("9b55", "**9b55**")):
        assert [each.key for each in search_keys(f"id{code}{split}")] == [KEY]


def cut_keys() -> Iterator[str]:
    """Yield keys that are cut to more than eight digits."""
    for key in (str(KEY), KEY.hex, KEY.hex.upper()):
        for start in range(len(key)):
            for end in range(start + 1, len(key) + 1):
                part = key[start:end]
                for dots in ("…", "...", "\\u2026", "%E2%80%A6"):
                    if len(part.replace("-", "")) > 8 and len(part) < len(key):
                        yield f"{dots}{part}{dots}"
                        if start == 0:
                            yield part + dots
                        if end == len(key):
                            yield dots + part
                    if start > 0 and end < len(key):
                        yield key[:start] + dots + key[end:]


@pytest.mark.slow
def test_a_key_is_found_wherever_an_ellipsis_cuts_it() -> None:
    """At either end, at both ends, or in the middle: eight digits are left, no more."""
    for cut in cut_keys():
        assert not readable(cut, str(KEY)), cut


@pytest.mark.parametrize(
    "text",
    [
        *(f"{KEY.hex[:count]}" for count in (28, 31)),
        *("9b55-40f0-8886", "0d-9b55-40f0-8886-db"),
        *("a508000d-9b55-40f0-", "-40f0-8886-dbdd88bd2de2"),
        *("a508000d-9b55-…6-dbdd88bd2de2", "…0d-9b55-40f0-88"),
        *("a508000d9b55\\u2026", "&hellip;88bd2de2"),
        *("a508-000d-9b55-4…", "a508000d9b5540f0-8886…", "%E2%80%A688bd2de2", "a508‥2de2"),
    ],
)
def test_a_cut_key_is_found_as_a_whole(text: str) -> None:
    """Three groups or 28 digits are enough without an ellipsis."""
    assert [(each.kind, each.text) for each in search_keys(text)] == [("cut", text)]


@pytest.mark.parametrize(
    "text",
    [
        "recipe_1 gen_recipe_2 <product_3> uuid-here",
        "#a1b2c3 1a2b3c4 e3b0c44298fc1c14 facade... added.. decade",
        "123456... 20261124-0410-1130 +49 89 1234567890",
        "2026-11-24T10:00:00 10.0.0.1 beef-cafe deadbeef 2001:0db8:85a3:0000:0000:8a2e:0370:7334",
        "10000000 2000 3000 4000 500000000000 #ff00aa…",
        "".join(f"<td>{number}</td>" for number in range(10, 99)),
        "\n".join(f"{number}" for number in range(99)),
        "a1b2c3d4\ne5f6a7b8\nc9d0e1f2\na3b4c5d6\n",
        "f(...) 12(...)34 list[...] {...}",
        "4111 1111 1111 1111, ISBN 978-3-16-148410-0, AA:BB:CC:DD:EE:FF, face... cafe…",
        # a MAC address, a serial number, an id of MongoDB, spans of a trace
        "00aa-11bb-22cc 1A2B-3C4D-5E6F-7A8B 1a2b-9c4d-2e6f 507f1f77bcf86cd799439011",
        "e3b0c44298fc1c14 9afbf4c8996fb924 a1b2-c3d4 0A1B2C3D4E5F1=11223344556677889900",
        *(gap.join(map(str, range(10, 99))) for gap in ("\\n", "\\t", "\t", "\xa0", "&nbsp;")),
        "10\u202f000\u202f000 200\u202f000 3\xa0500,75 12\u202f345\u202f678\u202f901\u202f234",
        "a1b2c3d4\\ne5f6a7b8\\nc9d0e1f2\\na3b4c5d6\\n C:\\beef\\cafe\\f00d",
        "",
    ],
)
def test_text_that_only_looks_like_a_key_is_not_found(text: str) -> None:
    """Refs, colours, abbreviated commits, numbers, dates and words."""
    assert search_keys(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"{KEY}, {DIGITS}, a508000d…, ..bd2de2, ..ffffaa1, a508…2de2, a508…2de3",
            "recipe_1, <key>, recipe_1, recipe_1, <key>, recipe_1, <key>",
        ),
        (f"{KEY}23", "recipe_1 23"),
        (f"recipe_{KEY}", "recipe_ recipe_1"),
        (f"gen_{KEY}", "gen_ recipe_1"),
        (f"{KEY}{KEY}", "recipe_1 recipe_1"),
        (f"é{KEY}é", "é recipe_1 é"),
        (f"({KEY})", "(recipe_1)"),
    ],
)
def test_a_key_is_replaced_by_a_ref_that_reads_as_itself(text: str, expected: str) -> None:
    """Next to a letter or a digit it would read as another ref."""
    assert replace_keys(text, ref_of, [KEY]) == expected


def test_a_cut_key_that_may_be_one_of_two_is_hidden() -> None:
    """Both begin and end as it does."""
    others = [uuid.UUID(int=KEY.int + 1), uuid.UUID(int=KEY.int ^ (1 << 127))]

    assert replace_keys("a508000d…", ref_of, [KEY, others[0]]) == HIDDEN
    assert replace_keys("..88bd2de2", ref_of, [KEY, others[1]]) == HIDDEN
    assert replace_keys("..88bd2de2 a508…2de2", ref_of, [KEY, others[0]]) == "recipe_1 recipe_1"
    assert replace_keys("a508000d… a508…2de2", ref_of, [KEY, others[1]]) == "recipe_1 recipe_1"
    assert replace_keys("a508…2de2", ref_of, [KEY, uuid.UUID(int=KEY.int ^ (1 << 64))]) == HIDDEN


def test_a_mask_shows_four_letters() -> None:
    """Enough to find the key again; the `repr` does not show it."""
    text = rf"{KEY} ..c69607bb \u2026c69607bb"
    assert [each.masked for each in search_keys(text)] == ["a508…", "c696…", "c696…"]
    assert str(KEY) not in repr(search_keys(str(KEY)))


GAPS = ["", "", "", "*", "**", "`", "_", "\u200b", "\u00ad", "\\"]
MARKUP = re.compile("[*_`~\\\\\u00ad\u200b-\u200d\u2060\ufeff-]")


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """Return a key in some spelling, split or not."""
    key = draw(st.uuids())
    text = draw(st.sampled_from([str(key), key.hex, str(key).upper(), key.hex.upper()]))
    gaps = draw(st.lists(st.sampled_from(GAPS), min_size=len(text), max_size=len(text)))
    return "".join(letter + gap for letter, gap in zip(text, gaps, strict=True))


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(st.lists(spellings() | st.text(max_size=10), max_size=5))
@example(["a508000d9b5540f08886**dbdd88bd2de2**"])
def test_no_replaced_text_has_a_key_left(pieces: list[str]) -> None:
    """Whatever is between its letters and next to it."""
    clean = replace_keys(" ".join(pieces), lambda _: None)

    assert not re.search(r"[0-9A-Fa-f]{32}", MARKUP.sub("", clean))
    assert search_keys(clean) == []


@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet="ghijklmnop .-_*\n`GHIJ", max_size=200))
def test_a_text_without_keys_is_not_changed(text: str) -> None:
    """To the letter."""
    assert replace_keys(text, lambda _: None) == text


# The time of a search


class Meter:
    """Stands in for a compiled pattern, and counts calls and the characters that they read."""

    steps = 0

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def _read(self, found: re.Match[str] | None) -> re.Match[str] | None:
        Meter.steps += 1 if found is None else 1 + found.end() - found.start()
        return found

    def match(self, *arguments: Any) -> re.Match[str] | None:
        """Match at an offset."""
        return self._read(self._pattern.match(*arguments))

    def search(self, text: str, *span: int) -> re.Match[str] | None:
        """Search a window: all of it counts."""
        Meter.steps += span[1] - span[0] if span else 0
        return self._read(self._pattern.search(text, *span))

    def finditer(self, *arguments: Any) -> Iterator[re.Match[str]]:
        """Find all matches."""
        for found in self._pattern.finditer(*arguments):
            self._read(found)
            yield found

    def split(self, text: str) -> list[str | Any]:
        """Split a short text."""
        return self._pattern.split(text)


METERED = ["_FIRST_DIGIT", "_FIRST_AFTER_CODE", "_FIRST_RUN", "_DOTS_SIGN", "_DOTS_HERE"]
METERED += ["_BEGINNING", "_ONLY_BEGINNING", "_END", "_ONLY_END"]
METERED += ["_MOST_SIGN", "_MOST", "_MOST_DIGITS"]

ODD = [
    *("a", "1", "0b", "a1a1", "a1a1a1a1", "-", "--", "*", "_", "`", "<", ">", "<!>"),
    *("<b>", "</b>"),
    *("..", "…", "***", "[", "]", "(", ")", "[…]", "\n", "\r\n", "> ", "\u200b", "\xad", "&", ";"),
    *("&shy;", "&#45;", "%", "%2D", "\\", "\\u002d", "\x1b[", "\x1b[0m", " ", "g", "é"),
    *("'", "UUID('"),
    *("\\n", "\\f", "\\012", "\\x0a", "\\\\", "\\u{", "\\N{", "%0A", "%25", "=0A", "="),
    *("&amp;", "_x"),
    *("\\u2026", "&hellip;", "%E2%80%A6", "\xa0", "\u2028", "\U000e0061", "\u3164"),
    *("\ud800", "a1b2-"),
]


@settings(max_examples=examples(150), deadline=None)
@given(*(st.lists(st.sampled_from(ODD), max_size=most).map("".join) for most in (8, 8, 8)))
@example("a1a1a1a1", "<!>", "a1a1 z")
@example("", "1\n", "")
@example("", "a<b>", "")
@example("a1a1a1a1<", "a1b\n", "")
@example("", "a…a1a1…", "")
@example("", "." * 8, "")
def test_a_search_reads_each_character_a_bounded_number_of_times(
    start: str, unit: str, end: str
) -> None:
    """Whatever is repeated: four times the text is four times the work."""
    with pytest.MonkeyPatch.context() as patch:
        for name in METERED:
            patch.setattr(module, name, Meter(getattr(module, name)))
        patch.setattr(module, "_NEXT_RUNS", tuple(map(Meter, module._NEXT_RUNS)))
        for length in (400, 1_600):
            text = start + unit * (length // max(1, len(unit))) + end
            Meter.steps = 0
            search_keys(text)
            assert Meter.steps <= 100 * len(text) + 100


@pytest.mark.parametrize(
    "unit",
    [
        *("<!>", "<b>", "a<", "a\n", "1\n", ".", "*-", "a.", "-a1a1", " \n", "<", "\\"),
        *("a\\u{", "1\\n"),
        *("\\fa", "%25", "&amp;", "\\u2026", "a\U000e0061", "a\xa0", "a1b2-", "a1b2…"),
    ],
)
def test_a_search_of_a_long_text_comes_to_its_end(unit: str) -> None:
    """One that reads a text in all possible ways would not."""
    text = f"a1a1a1a1{unit * 20_000}a1a1{unit * 20_000}a1a1"

    search_keys(f"{text}a1a1{text} z")
    redact_keys(text)
    encode_marks(text, Book().mark_of)
