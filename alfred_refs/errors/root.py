"""The root of every error: it carries its data, from which the class words the message."""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import DontWrapMixin, SQLAlchemyError


class RefError(SQLAlchemyError, DontWrapMixin):
    """Root of every error that alfred_refs raises.

    It is raised as it is, also where SQLAlchemy would tell of it in a `StatementError`: while the
    parameters of a statement are read.

    Example:
        >>> try:
        ...     session.get(Recipe, "recipe_9")
        ... except RefError as error:
        ...     print(error)
        'recipe_9' is not a known recipe; known: 'recipe_1' ("Soup"), 'recipe_2' ("Toast")
    """

    def __init__(self, *data: Any) -> None:
        self._data = data
        super().__init__(self._wording())

    def _wording(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        """Return the message alone: SQLAlchemy adds where a `code` of its own is explained."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[RefError], tuple[Any, ...]]:
        return type(self), self._data
