"""What is refused in a session that has an owner."""

from __future__ import annotations

from .root import RefError
from .setup import SetupError


class OwnershipError(SetupError):
    """An `Ownership`, or the owner of a session, is put together in a way that cannot work.

    Example:
        >>> Ownership({Recipe: "user_id"}).of(None)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.owners.OwnershipError: the owner is None; give the owner's key, or
            no owner at all
    """


class UnconfinedError(SetupError):
    """A session that has an owner was given what cannot be confined to the owner's rows.

    Attributes:
        what: what it was given, in a few words.

    Example:
        >>> from sqlalchemy import text
        >>> owner = Ownership({Recipe: "user_id"}).of(ann)
        >>> with sessions(conversation="chat-8", owner=owner) as session:
        ...     session.execute(text("select name from recipes"))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.owners.UnconfinedError: text() cannot be confined to the rows of the
            session's owner; write it as a statement of mapped classes or tables, or use
            session.unconfined() or execution_options(unconfined=True) in trusted code
    """

    def __init__(self, what: str, remedy: str | None = None) -> None:
        self.what = what
        super().__init__(
            f"{what} cannot be confined to the rows of the session's owner",
            remedy
            or "write it as a statement of mapped classes or tables, or use "
            "session.unconfined() or execution_options(unconfined=True) in trusted code",
        )
        self._data = (what, remedy)


class ForeignRowError(RefError):
    """A write is of a row, or names one, that the session's owner may not write, or not see.

    It reads the same for a row that is not there.

    Attributes:
        what: the class, column or relationship that is concerned.
        ref: the row's ref where it has one that is known; `None` where it has none.
        named: whether the row was to be named by a foreign key, and not itself written.

    Example:
        >>> owner = Ownership({Recipe: "user_id", Line: "recipe"}).of(ann)
        >>> toast = chat.resolve("recipe_2")  # of somebody else
        >>> with sessions(conversation="chat-8", owner=owner) as session:
        ...     session.add(Line(recipe_id=toast, position=1, text="1 loaf"))
        ...     session.flush()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.owners.ForeignRowError: a row in Line.recipe_id cannot be used here;
            read the rows that can, and use one
    """

    def __init__(self, what: str, ref: str | None = None, *, named: bool = False) -> None:
        self.what = what
        self.ref = ref
        self.named = named
        super().__init__(what, ref, named)

    def __reduce__(self) -> tuple[type[RefError], tuple[object, ...]]:
        return _made_again, self._data  # type: ignore[return-value]

    def _wording(self) -> str:
        row = "a row" if self.ref is None else repr(self.ref)
        if self.named:
            return f"{row} in {self.what} cannot be used here; read the rows that can, and use one"
        return f"{row} of {self.what} cannot be written here; read the rows that can, and use one"


def _made_again(what: str, ref: str | None, named: bool) -> ForeignRowError:
    return ForeignRowError(what, ref, named=named)
