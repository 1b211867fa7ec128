"""Whose rows are whose: an `Ownership` says how each table's rows belong to an owner.

    ownership = Ownership(
        {User: "id", Recipe: "user_id", RecipeIngredient: "recipe", MealPlan: "user_id"},
        shared=[Recipe],
        open=[Ingredient],
    )
    sessions(conversation=..., owner=ownership.of(user_id))

A row belongs to the owner whom its column names, or to whom the row belongs that it references.
Classes come in; criteria on their tables go out, for reading and for writing. Subclasses belong
as their base does. What is not named here cannot be touched in an owned session. No I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import ColumnElement, Table, inspect, true
from sqlalchemy.orm import QueryableAttribute

from alfred_refs import sqla
from alfred_refs.errors import OwnershipError

from .belongings import Model
from .rules import StatementRules

Attribute = str | QueryableAttribute[Any]


class Ownership(StatementRules):
    """How the rows of an application's tables belong to their owners; one for each application.

    Args:
        owned: by class, the attribute that has the owner, or a many-to-one relationship to the
            class whose row decides.
        shared: classes whose rows without an owner may be read by all, and written by none; what
            belongs to such rows likewise.
        open: classes and tables of no owner, which are not confined.
        setting: where row-level security finds the owner: a parameter of PostgreSQL, set for each
            transaction.
    """

    def __init__(
        self,
        owned: Mapping[Model, Attribute],
        *,
        shared: Collection[Model] = (),
        open: Collection[Model | Table] = (),  # noqa: A002  # what the rows are
        setting: str | None = None,
    ) -> None:
        names = {class_: _name_of(attribute) for class_, attribute in owned.items()}
        _check(names, shared, open)
        super().__init__(names, shared, open)
        self.setting = setting
        self._dialects: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Owner:
        """Return one owner: what a session is given.

        Args:
            value: as the owner's columns have it; the text of a UUID or an integer does too.

        Raises:
            OwnershipError: there is none.
        """
        return Owner(self, value)

    def attribute(self, model: Model) -> str | None:
        """Return the name of the attribute that has the owner: stamped, and never written.

        It is `None` where another row decides, or where rows have no owner.
        """
        mapper = inspect(model).mapper
        found = (self.belongings.get(cast(Table, table)) for table in mapper.tables)
        columns = [each.column for each in found if each is not None and each.column is not None]
        return sqla.attributes_of(mapper, columns)[columns[0]] if columns else None

    def knows(self, model: Model) -> bool:
        """Tell whether an owned session may touch the rows of a class at all."""
        table = cast(Table, inspect(model).local_table)
        return table in self.belongings or table in self.open_tables

    def dialect_like(self, dialect: Any) -> Any:
        """Return the dialect that confines, for one that does not: always the same."""
        known = self._dialects.get(id(dialect))
        if known is None:
            with self._lock:
                # with the other: as long as that is kept, its id() is no other's
                known = self._dialects[id(dialect)] = (
                    dialect,
                    sqla.confined_dialect(dialect, self),
                )
        return known[1]


def _check(
    owned: Collection[Model],
    shared: Collection[Model],
    open: Collection[Model | Table],  # noqa: A002  # what the rows are
) -> None:
    """Refuse what contradicts itself.

    Raises:
        OwnershipError: a shared class has no owners, or an open one has.
    """
    for model in shared:
        if model not in owned:
            raise OwnershipError(
                f"{model!r} is shared, and nothing says whose its other rows are",
                "say in the mapping how its rows are owned, or list it in open=",
            )
    for model in owned:
        if model in open:
            raise OwnershipError(f"{model!r} is both owned and open", "choose one of the two")


def _name_of(attribute: Attribute) -> str:
    return attribute if isinstance(attribute, str) else attribute.key


@dataclass(frozen=True, slots=True)
class Owner:
    """On whose behalf a session works.

    Attributes:
        ownership: which rows are whose.
        value: what the owner's columns have.
    """

    ownership: Ownership
    value: Any = field(repr=False)

    def __post_init__(self) -> None:
        if self.value is None:
            raise OwnershipError("the owner is None", "give the owner's key, or no owner at all")

    def readable(self, model: Model) -> ColumnElement[bool]:
        """Return which rows of a class the owner may read, as a criterion on the class."""
        return self._criterion(model, writing=False)

    def writable(self, model: Model) -> ColumnElement[bool]:
        """Return which rows of a class the owner may update and delete."""
        return self._criterion(model, writing=True)

    def _criterion(self, model: Model, *, writing: bool) -> ColumnElement[bool]:
        table = cast(Table, inspect(model).local_table)
        found = self.ownership.criterion(table, writing=writing, owner=self.value)
        return true() if found is None else found
