"""Read an ingredient line as people write it, and say which catalogue row it means.

In comes one line of free text, ``"1 1/2 cups (200 g) Onions, chopped"``. Out goes what it says:
quantity ``"1 1/2"``, unit ``"cup"``, name ``"Onions"``; and, from the name, the catalogue's word
for it, ``"onion"``. Nothing is converted or added up, nothing is looked up, nothing raises.

Limits: alternatives stay together ("butter or ghee" is one name), so do pairs ("salt and pepper");
descriptions outside a short list stay in the name ("hot coffee"); misspellings are names of their
own; a unit among the words stays there ("6 bacon slices"). Of the 3,305 lines beside this package
2,411 have a quantity and 1,878 a unit; the 3,211 that name an ingredient make a catalogue of
1,173 names, noisy at its end: 850 of them occur once, the 100 most frequent cover half the lines.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import inflect


@dataclass(frozen=True, slots=True)
class IngredientLine:
    """What an ingredient line says; ``name`` is the whole line where nothing else was found."""

    quantity: str | None
    unit: str | None
    name: str


_COUNTED = """
    bag block bottle bowl box branch bunch can clove container cube dash drop ear fillet glass head
    inch jar knob leaf loaf mug pinch pod rasher rib serving shot slice splash spoon spoonful sprig
    stalk stick strip tin twig
"""
# spelling, in the singular → the unit we store
UNITS: Final[Mapping[str, str]] = MappingProxyType(
    {
        spelling: unit
        for unit, spellings in {
            "g": "g gm gr gram gramme",
            "kg": "kg kilo kilogram",
            "oz": "oz ounce",
            "lb": "lb pound",
            "ml": "ml milliliter millilitre",
            "cl": "cl centiliter centilitre",
            "dl": "dl deciliter decilitre",
            "l": "l liter litre",
            "pint": "pint pt",
            "quart": "quart qt",
            "tsp": "tsp teaspoon teaspoonful teapsoon tea-spoonful",
            "tbsp": "tbsp tbs tb tblsp tablespoon tablespoonful table-spoonful",
            "cup": "cup cupful",
            "package": "package pack packet pkg pck sachet",
            "piece": "piece pc",
            "handful": "handful handfull",
            "cm": "cm centimeter centimetre",
        }.items()
        for spelling in spellings.split()
    }
    | {unit: unit for unit in _COUNTED.split()}
)

# number, in words → in digits
NUMBER_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {"quarter": "1/4", "half": "1/2", "one": "1", "two": "2", "couple": "2", "three": "3"}
    | {"four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9"}
    | {"ten": "10", "dozen": "12", "twelve": "12", "an": "1", "a": "1"}
)

# said before a unit, and no part of it
_UNIT_SIZES = (
    "big|generous|good|heaped|heaping|large|level|medium|metric|overfilled|scant|small|thin"
)

# words that say how big, how many or how cut, and not what
_DESCRIPTIONS = """
    big chopped crushed cubed diced few finely fresh freshly grated large little medium minced
    peeled roughly shredded sized sliced small some thinly whole your favorite
"""
_LONGEST_NAME = 5  # words; what is longer is a sentence

# the parts of a line, each a step of `parse_ingredient` or a piece of one
_DIGITS = r"(?:\d+(?:\s+and)?\s+\d+/\d+|\d+/\d+|\d+(?:[.,]\d+)?|\.\d+)"
_WORDS = (
    rf"(?:an?\s+)?(?:{'|'.join(NUMBER_WORDS)})\b(?!\s+(?:and|few)\b)"  # "half and half" is none
)
_TO = r"\s*(?:-|\bto\b|\bor\b)\s*"
_WHOLE = r"(?![\d.,/]*\s*%|/?\d|\s*-\s*\d)"  # not half a fraction or range, not a percentage
_AMOUNT = rf"(?:{_DIGITS}|{_WORDS})(?:{_TO}(?:{_DIGITS}|{_WORDS}))?{_WHOLE}"
_DIGIT_AMOUNT = rf"{_DIGITS}(?:{_TO}{_DIGITS})?{_WHOLE}"
_ABOUT = r"(?:~|(?:about|around|approx\.?|roughly)\s)?\s*"
_WORD = r"[^\W\d_]+(?:-[^\W\d_]+)*"

_LEADING = re.compile(
    rf"{_ABOUT}(?P<quantity>{_AMOUNT})\s*(?:x\s|-\s*)?\s*(?P<rest>.+)", re.IGNORECASE
)
_TRAILING = re.compile(
    rf"(?P<name>[^\d(:,]+?)\s*[:,(]?\s*{_ABOUT}(?P<quantity>{_DIGIT_AMOUNT})"
    rf"\s*(?:(?:{_UNIT_SIZES})\s+)?(?P<unit>{_WORD})?\s*(?=$|[)|/(,-]).*",
    re.IGNORECASE,
)
_UNCOUNTED = re.compile(
    rf"(?:(?:an?\s+)?few\s+|some\s+)?(?P<unit>{_WORD})\s+of\s+(?P<rest>.+)"
    r"|(?P<bit>pinch|dash)\s+(?P<name>.+)",
    re.IGNORECASE,
)
_UNIT = re.compile(
    rf"(?:(?:{_UNIT_SIZES})\s+)?(?P<unit>{_WORD})\b\.?\s*(?P<rest>.*)",
    re.IGNORECASE,
)
_OTHER_MEASURE = re.compile(
    rf"(?:or\s|[/|=+])?\s*{_ABOUT}{_DIGIT_AMOUNT}\s*(?P<unit>{_WORD})\b\.?\s*(?P<rest>.*)"
)
_ARTICLE = re.compile(r"^(?:of\s+)?(?:(?:an?|the)\s+)?", re.IGNORECASE)
_GARLIC_CLOVES = re.compile(r"(?P<rest>.*\bgarlic) cloves?\b", re.IGNORECASE)
_NOTE = re.compile(
    r"\s*(?:,|;|:\s|(?<=\w{3})\.\s|\s-+\s|\(|\b(?:optional|to taste|as needed|per"
    r"|if (?:desired|needed)|of (?:your )?choice|at room temperature|cut in(?:to)?|with(?:out)?"
    r"|(?:and|or|of)$|for (?:the |deep |shallow )?\w+ing)\b).*",
    re.IGNORECASE,
)


def parse_ingredient(line: str) -> IngredientLine:
    """Split an ingredient line into quantity, unit and name.

    Args:
        line: One line of a recipe. Fractions may be unicode (``½``), numbers ranges (``2-3``);
            what is in parentheses or follows a comma is a remark and is dropped.

    Returns:
        Quantity as plain text (``"1 1/2"``, ``"2-3"``), unit in one spelling (``"tbsp"``), name
        in the line's own spelling. A line that does not read as any of this is its own name.
    """
    text = _plain(line)
    bare = _without_remarks(text)
    for parsed in (_leading(bare), _trailing(bare), _trailing(text), _uncounted(bare)):
        if parsed is not None and parsed.name:
            return parsed
    return IngredientLine(None, None, _name(bare) or line.strip())


def catalogue_name(name: str) -> str | None:
    """Give the catalogue's word for an ingredient, the same for "Onions" and "1 small onion".

    Args:
        name: The name of a parsed line.

    Returns:
        Lower case, in the singular, without hyphens and words of size and cut; None where the
        name is a heading ("Spices:"), a sentence (more than five words) or not understood (a
        number is left in it).
    """
    words = name.casefold().replace("-", " ").replace("&", "and").split()
    kept = [word for word in words if word not in _DESCRIPTIONS.split()] or words
    kept = kept[1:] if kept[:1] in (["and"], ["or"]) else kept
    understood = re.fullmatch(r"\D*[^\W\d]\D*", name) and not name.endswith(":")
    if not understood or not kept or len(kept) > _LONGEST_NAME:
        return None
    return singular(" ".join(kept))


@cache
def singular(words: str) -> str:
    """Put the last of the words in the singular: ``"bay leaves"`` → ``"bay leaf"``."""
    head, _, last = words.rpartition(" ")
    if not last.isalpha():
        return words
    return f"{head} {_inflection().singular_noun(last) or last}".strip()


@cache
def _inflection() -> inflect.engine:
    """Make an inflect engine that also knows the kitchen's nouns ending in s."""
    import inflect  # noqa: PLC0415  # slow to import; most turns do without

    engine = inflect.engine()
    for noun in ("asparagus", "citrus", "couscous", "hummus", "molasses", "octopus", "schnapps"):
        engine.defnoun(noun, noun)
    engine.defnoun("chilli", "chillies")
    return engine


def _plain(line: str) -> str:
    """Take markup off, and write fractions, dashes and spaces in ASCII."""
    spaced = re.sub(r"(?<=\d)(?=[¼-¾⅐-⅞])", " ", line)
    text = unicodedata.normalize("NFKC", spaced).replace("\N{FRACTION SLASH}", "/")
    text = re.sub(r"[\N{EN DASH}\N{EM DASH}]", "-", re.sub(r"[*_]|\(s\)", "", text))
    text = re.sub(r"\b(table|tea)[ -](?=spoon)", r"\1", text, flags=re.IGNORECASE)
    return " ".join(text.split())


def _without_remarks(text: str) -> str:
    return " ".join(re.sub(r"\([^()]*\)", " ", text).split())


def _leading(text: str) -> IngredientLine | None:
    """Read ``2 cups of flour``: the quantity comes first."""
    if (found := _LEADING.fullmatch(text)) is None:
        return None
    unit, rest = _split_unit(_without_other_measure(_without_article(found["rest"])))
    return IngredientLine(_quantity(found["quantity"]), unit, _name(rest))


def _trailing(text: str) -> IngredientLine | None:
    """Read ``flour: 2 cups``, ``Flour (2 cups)`` and ``Egg (3)``: the quantity comes last."""
    if (found := _TRAILING.fullmatch(text)) is None:
        return None
    unit = _unit(found["unit"] or "")
    if found["unit"] and unit is None:
        return None
    return IngredientLine(_quantity(found["quantity"]), unit, _name(found["name"]))


def _uncounted(text: str) -> IngredientLine | None:
    """Read ``sprigs of mint`` and ``Pinch salt``: a unit, and no quantity."""
    if garlic := _GARLIC_CLOVES.match(text):
        return IngredientLine(None, "clove", garlic["rest"])
    if (found := _UNCOUNTED.fullmatch(text)) is None:
        return None
    if (unit := _unit(found["unit"] or found["bit"])) is None:
        return None
    return IngredientLine(None, unit, _name(found["rest"] or found["name"]))


def _quantity(written: str) -> str:
    """Write a number or a range in digits: ``a dozen`` → ``12``, ``Two to 3`` → ``2-3``."""
    numbers = (re.sub(r"^an?\s+|\band\s+", "", part) for part in re.split(_TO, written.lower()))
    return "-".join(NUMBER_WORDS.get(number, number) for number in numbers)


def _split_unit(text: str) -> tuple[str | None, str]:
    """Split ``cups (of) flour``; a unit that nothing follows is the name, as in ``4 cloves``."""
    if garlic := _GARLIC_CLOVES.match(text):
        return "clove", garlic["rest"]
    found = _UNIT.match(text)
    if found is None or (unit := _unit(found["unit"])) is None:
        return None, text
    rest = _without_article(_without_other_measure(found["rest"]))
    return (unit, rest) if _name(rest) else (None, text)


def _without_other_measure(text: str) -> str:
    """Drop the same measure in another system: ``/ 7 oz flour`` → ``flour``."""
    found = _OTHER_MEASURE.match(text)
    return text if found is None or _unit(found["unit"]) is None else found["rest"]


def _without_article(text: str) -> str:
    return _ARTICLE.sub("", text, count=1)


def _unit(word: str) -> str | None:
    """Return the unit a word stands for, if it is one; ``T`` is a tablespoon, ``t`` a teaspoon."""
    if word in ("T", "t"):
        return "tbsp" if word == "T" else "tsp"
    return UNITS.get(word.lower()) or UNITS.get(singular(word.lower()))


def _name(text: str) -> str:
    """Cut off what is said about the ingredient: notes, remarks, ``to taste``."""
    return _NOTE.sub("", _without_remarks(text)).strip(" .,;-~/|+")
