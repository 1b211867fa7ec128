"""What an application decides about refs, once, for all its conversations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

KeyType = Literal["uuid", "integer", "string"]


@dataclass(frozen=True, slots=True)
class RefPolicy:
    """Which keys become refs, and what their entities are called.

    Attributes:
        key_types: the types of key that become refs. Strings are left out by default: they are
            often readable names already, such as a country code.
        exclude: mapped classes, tables by name (`"countries"`) and columns by name
            (`"recipes.legacy_id"`) or attribute whose keys stay as they are.
        names: entity names by mapped class or table name, for classes that cannot carry a
            `__ref_name__` of their own.
    """

    key_types: tuple[KeyType, ...] = ("uuid", "integer")
    exclude: tuple[Any, ...] = ()
    names: Mapping[type[Any] | str, str] = field(default_factory=dict)
