"""The grammar of refs: `{entity}_{n}` for a saved row, `gen_{entity}_{n}` for a draft.

Text comes in and a parsed `Ref` goes out, and the other way round. Pure: nothing here knows
whether a ref exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DRAFT = "gen_"
"""What the refs of drafts begin with, and no name of an entity does."""

KEY = "key"
"""The entity of keys that stand in texts and have no other ref: no class has this name."""

_ENTITY = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_NUMBERED = re.compile(r".*_[0-9]+", re.ASCII)
_REF = re.compile(r"(?P<draft>gen_)?(?P<entity>[a-z][a-z0-9_]*)_(?P<number>[1-9][0-9]{0,17})")

MAX_NUMBER = 2**31 - 1
"""Numbers are `integer` columns in the registry: two thousand million rows of one entity."""


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """A parsed ref. Refs sort naturally: `recipe_2` before `recipe_10`."""

    entity: str
    number: int
    draft: bool = False

    def __str__(self) -> str:
        return f"{DRAFT if self.draft else ''}{self.entity}_{self.number}"


def parse_ref(text: str) -> Ref | None:
    """Return the ref that the text spells, or `None` if it spells none.

    The spelling is exact: lower case, no padding, no surrounding space.
    """
    match = _REF.fullmatch(text)
    if match is None or int(match["number"]) > MAX_NUMBER:
        return None
    return Ref(match["entity"], int(match["number"]), draft=match["draft"] is not None)


def draft_named(text: str) -> Ref | None:
    """Return the ref that the text spells, if it is a draft's."""
    ref = parse_ref(text) if text.startswith(DRAFT) else None
    return ref if ref is not None and ref.draft else None


def is_entity_name(text: str) -> bool:
    """Tell whether refs of an entity of this name can be told from all others.

    A name that starts with `gen_` would read as a draft's, and one that ends in `_` and digits
    as a ref.
    """
    return (
        _ENTITY.fullmatch(text) is not None
        and not text.startswith(DRAFT)
        and _NUMBERED.fullmatch(text) is None
    )
