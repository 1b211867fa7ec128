"""What an application decides about refs, once, for all its conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

KeyType = Literal["uuid", "integer", "string"]


@dataclass(frozen=True, slots=True)
class RefPolicy:
    """Which keys become refs, and what their entities and rows are called.

    Attributes:
        key_types: the types of key that become refs. Strings are left out by default: they are
            often readable names already, such as a country code.
        exclude: mapped classes, tables by name (`"countries"`) and columns by name
            (`"recipes.legacy_id"`) or attribute whose keys stay as they are.
        names: entity names by mapped class or table name, for classes that cannot carry a
            `__ref_name__` of their own.
        labels: by mapped class, the attribute that says what people call a row, or a function of
            an instance as far as it is loaded; for classes that cannot carry a `__ref_label__`
            of their own, or are to have another one. `None`: no label.

    Example:
        >>> policy = RefPolicy(names={Recipe: "dish"}, exclude=(User,))
        >>> registry = RefRegistry(engine, policy=policy)
        >>> with RefSession(engine, conversation=registry.conversation("chat-8")) as session:
        ...     session.execute(select(Recipe.id, Recipe.user_id)).first()
        ('dish_1', 1)
    """

    key_types: tuple[KeyType, ...] = ("uuid", "integer")
    exclude: tuple[Any, ...] = ()
    names: Mapping[type[Any] | str, str] = field(default_factory=dict)
    labels: Mapping[type[Any], str | Callable[[Any], str | None] | None] = field(
        default_factory=dict
    )
