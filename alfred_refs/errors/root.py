"""The root of every error: it carries its data, from which the class words the message."""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import SQLAlchemyError


class RefError(SQLAlchemyError):
    """Root of every error that alfred_refs raises."""

    def __init__(self, *data: Any) -> None:
        self._data = data
        super().__init__(self._message())

    def _message(self) -> str:
        raise NotImplementedError

    def __reduce__(self) -> tuple[type[RefError], tuple[Any, ...]]:
        return type(self), self._data
