"""The spellings of ids: refs, the rows' own keys, numbers, and refs that check themselves.

>>> SPELLINGS["keys"](kitchen, conversation, toolset).one("recipe_3")
'0f5c2a9e-…'
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from alfred_refs import Conversation
from alfred_refs.mapping.keys import Ref, parse_ref
from alfred_refs.tools import Toolset
from evals.boundary import Id, Spelling
from evals.kitchen import Kitchen

_NEW: Final = uuid.UUID("d4af7000-0000-4000-a000-000000000000")


class Refs(Spelling):
    """Refs as they are."""

    def _spelt(self, ref: Ref) -> Id:
        return str(ref)

    def _met(self, entity: str, given: Id) -> str | None:  # noqa: ARG002
        # what it names, the tools say
        return str(given)


class Keys(Spelling):
    """The rows' own UUIDs; of new rows and drafts such that are the same in each run."""

    @staticmethod
    def example(ref: str) -> str:
        """Return a UUID."""
        return repr(str(uuid.uuid5(_NEW, ref)))

    def __init__(self, kitchen: Kitchen, conversation: Conversation, toolset: Toolset) -> None:
        super().__init__(kitchen, conversation, toolset)
        self._there = {
            str(key): entity
            for entity, table in self._by_entity.items()
            for key in kitchen.keys[table.name]
        }

    def _spelt(self, ref: Ref) -> Id:
        key = "" if ref.draft else str(self._key(ref))
        return (
            key if key in self._there else str(uuid.uuid5(_NEW, f"{self._conversation.id} {ref}"))
        )

    def _met(self, entity: str, given: Id) -> str | None:  # noqa: ARG002  # of any
        of = self._there.get(str(given).lower())
        return None if of is None else self._mint(of, uuid.UUID(str(given)))


class Integers(Spelling):
    """Numbers from 1 in each table, as an identity column has them: new rows take the next."""

    @staticmethod
    def example(ref: str) -> str:
        """Return a number."""
        return "7" if ref.startswith("gen_") else "1"

    def __init__(self, kitchen: Kitchen, conversation: Conversation, toolset: Toolset) -> None:
        super().__init__(kitchen, conversation, toolset)
        self._numbers = {
            key: n for keys in kitchen.keys.values() for n, key in enumerate(keys, start=1)
        }
        self._last = {table: len(keys) for table, keys in kitchen.keys.items()}

    def _place(self, entity: str) -> str:
        return entity

    def _spelt(self, ref: Ref) -> Id:
        key = None if ref.draft else self._key(ref)
        if isinstance(key, uuid.UUID) and key in self._numbers:
            return self._numbers[key]
        table = self._named(ref.entity)
        self._last[table] += 1
        return self._last[table]

    def _id(self, entity: str, given: Any) -> Any:
        is_number = isinstance(given, str) and given.isdecimal()
        return super()._id(entity, int(given) if is_number else given)

    def _met(self, entity: str, given: Id) -> str | None:
        keys = self._keys[self._named(entity)]
        if isinstance(given, int) and 0 < given <= len(keys):
            return self._mint(entity, keys[given - 1])
        return None


class Checked(Spelling):
    """Refs whose last digit follows from the others: what one wrong digit makes is no ref.

    The digit is that of Damm (2004): it finds every wrong digit and every two that changed places.
    """

    @staticmethod
    def example(ref: str) -> str:
        """Return a ref with its last digit."""
        return repr(ref + _damm("1"))

    def _spelt(self, ref: Ref) -> Id:
        return f"{ref}{_damm(str(ref.number))}"

    def _met(self, entity: str, given: Id) -> str | None:  # noqa: ARG002  # it says so itself
        parsed = parse_ref(str(given))
        number = 0 if parsed is None else parsed.number // 10
        if parsed is None or not number or _damm(str(parsed.number)) != "0":
            return None
        return str(Ref(parsed.entity, number, draft=parsed.draft))


class Next(Refs):
    """Refs that are resolved to the next row: broken on purpose, for the scores to find."""

    def _id(self, entity: str, given: Any) -> Any:
        read = super()._id(entity, given)
        parsed = parse_ref(read) if isinstance(read, str) else None
        return read if parsed is None else str(Ref(parsed.entity, parsed.number + 1, parsed.draft))


# weakly totally antisymmetric, with zeros on the diagonal
_DAMM: Final = (
    "0317598642",
    "7092154863",
    "4206871359",
    "1750983426",
    "6123045978",
    "3674209581",
    "5869720134",
    "8945362017",
    "9438617205",
    "2581436790",
)


def _damm(digits: str) -> str:
    interim = "0"
    for digit in digits:
        interim = _DAMM[int(interim)][int(digit)]
    return interim


SPELLINGS: Final[Mapping[str, type[Spelling]]] = {
    "keys": Keys,
    "integers": Integers,
    "refs": Refs,
    "checked": Checked,
    "next": Next,
}
