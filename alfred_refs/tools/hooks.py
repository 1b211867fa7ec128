"""Hooks: the application's code around the verbs on one mapped class.

A hook receives a `Reading` or a `Writing`, with the checked arguments and the session, and changes
it in place:

>>> class Small(Hooks):
...     def before_read(self, read: Reading) -> None:
...         read.conditions.append(read.model.servings < 3)
...
...     def before_write(self, write: Writing) -> None:
...         if write.verb == "delete":
...             raise ToolError("not_today", "nothing is deleted on Sundays")
>>> from alfred_refs.tools import Toolset, ToolError
>>> hooked = Toolset([Recipe], hooks={Recipe: [Small()]}, expect="optional")
>>> [row["name"] for row in hooked.call(session, "db_read", {"table": "recipes"})["rows"]]
['Soup', 'Toast']
>>> few = [{"field": "servings", "op": "<", "value": 2}]
>>> given = {"table": "recipes", "filters": few, "expect": {"count": 1}}
>>> hooked.call(session, "db_delete", given)["error"]["code"]
'not_today'

Hooks are trusted: they see everything that the session shows, in refs, and may run SQLAlchemy on
the class. They raise `ToolError` to refuse a call.

Limits: hooks are synchronous functions even with asynchronous sessions, where they run inside the
awaited call. Each call of a tool makes new `Reading` and `Writing` objects; a hook object is
shared by all calls, so it should not keep the state of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session
from sqlalchemy.sql.base import ExecutableOption

from alfred_refs.session import RefSession
from alfred_refs.tools.arguments import (
    DbCreate,
    DbDelete,
    DbEditList,
    DbRead,
    DbUpdate,
    FilterClause,
    clauses_of,
)

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

_PLANNED = "alfred_refs.planned"  # entry of `Session.info`


@contextmanager
def planning(session: RefSession) -> Iterator[None]:
    """Let hooks know inside the `with` that writes will be rolled back."""
    session.info[_PLANNED] = True
    try:
        yield
    finally:
        del session.info[_PLANNED]


def is_planned(session: Session | AsyncSession) -> bool:
    """Return whether the call of an application's own tool is only planned.

    The tool runs once for the plan of the call, and again when a person approves it. For a plan
    its transaction is rolled back; what it does elsewhere, such as drafts and mails, is not.

    Args:
        session: the session that the tool was given.

    Example:
        >>> toolset = Toolset([Recipe])
        >>> @toolset.tool
        ... def announce(session: RefSession, recipe: Ref[Recipe]) -> str:
        ...     "Announce a recipe."
        ...     return "nothing is sent yet" if is_planned(session) else "sent"
        >>> asked = {"recipe": "recipe_1", "_recipe_label": "Soup"}
        >>> toolset.call(session, "announce", asked)
        {'result': 'sent'}
    """
    return bool(session.info.get(_PLANNED))


Row = dict[str, Any]
"""One row as the model sees it: JSON values by column."""


@dataclass
class Reading:
    """A read, before or after it is executed.

    Attributes:
        session: the session that executes it.
        model: the mapped class.
        arguments: the model's arguments; if a hook replaces them, they are validated again.
        semantic: the text of a semantic search; a hook that implements it sets `keys`.
        keys: only rows with these primary keys or refs, in this order.
        options: loader options of the statement.
        include: paths of relationships whose rows are nested in each row.
        conditions: conditions on the rows, in addition to the filters.
        or_conditions: rows that match one of these are read even if they do not match the filters.
        notes: texts for the model, next to the rows.
        empty: whether to return no rows, without a statement.
        totals: whether rows are only counted or added up; `after_read` is not called then, and
            `options` and `include` have no effect.
        nested: whether the rows are reached through other rows: nested in them, named by them, in
            a list, shown after a write, or tested by a filter. `arguments` then names only the
            table, `include` has no effect, and `options` only with criteria of the class itself.

    Example:
        >>> class Small(Hooks):
        ...     def before_read(self, read: Reading):
        ...         read.conditions.append(read.model.servings < 2)
        ...         read.notes.append("for one person")
        >>> toolset = Toolset([Recipe], hooks={Recipe: [Small()]})
        >>> toolset.call(session, "db_read", {"table": "recipes", "columns": ["name"]})
        {'table': 'recipes', 'rows': [{'id': 'recipe_2', 'name': 'Toast'}], 'count': 1, 'more':
        False, 'notes': ['for one person']}
    """

    session: RefSession
    model: type[Any]
    arguments: DbRead
    semantic: str | None = None
    keys: Sequence[Any] | None = None
    options: list[ExecutableOption] = field(default_factory=list)
    include: list[str] = field(default_factory=list)
    conditions: list[ColumnElement[bool]] = field(default_factory=list)
    or_conditions: list[ColumnElement[bool]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    empty: bool = False
    totals: bool = False
    nested: bool = False

    @property
    def user(self) -> Any:
        """The `user` of `BoundToolset.call`, or `None`."""
        return self.session.info.get("user")

    def clauses(self) -> Iterator[FilterClause]:
        """Yield all conditions of the arguments, including those inside groups."""
        return clauses_of([*self.arguments.filters, *self.arguments.or_filters])

    def answer_empty(self, note: str) -> None:
        """Return no rows to the model, with a note instead.

        Args:
            note: the reason, for the model.
        """
        self.empty = True
        self.notes.append(note)


@dataclass
class Writing:
    """A write, before or after it is executed.

    Attributes:
        session: the session that executes it.
        model: the mapped class.
        verb: `"create"`, `"update"` or `"delete"`.
        arguments: the model's arguments.
        records: the new rows (create), the one set of changes (update) or nothing (delete): Python
            values, and refs as the model passed them; hooks may change them. New rows nested in
            drafts are a separate write, in which the outer row has no ref.
        notes: texts for the model, next to the rows.
        drafts: the content of the drafts that the call saves, by ref; records may name them
            although they are not rows yet.
        refs: the rows, if no filter names them: rows that are deleted with others (delete), lose
            their reference (update), get the new value of a referenced column (update), are moved
            to a draft that is saved (update), belong to a subclass, or are in a list that is
            edited by position. The records of a list edit do not contain positions.
        undoes: the number of the call that a person undoes; `refs` are then the rows, and records
            are not used.

    Example:
        >>> class Tidy(Hooks):
        ...     def before_write(self, write: Writing):
        ...         for record in write.records:
        ...             record["name"] = record["name"].strip().capitalize()
        >>> toolset = Toolset([Recipe], hooks={Recipe: [Tidy()]})
        >>> asked = {"table": "recipes", "data": {"name": " curry "}}
        >>> toolset.call(session, "db_create", asked)["rows"][0]["name"]
        'Curry'
    """

    session: RefSession
    model: type[Any]
    verb: Literal["create", "update", "delete"]
    arguments: DbCreate | DbUpdate | DbDelete | DbEditList
    records: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    drafts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    refs: Sequence[str] = ()
    undoes: int | None = None

    @property
    def user(self) -> Any:
        """The `user` of `BoundToolset.call`, or `None`."""
        return self.session.info.get("user")

    @property
    def planned(self) -> bool:
        """Whether the write will be rolled back (a plan), so hooks must not send anything."""
        return is_planned(self.session)


class Hooks:
    """Base class of hooks around the verbs on one mapped class; the methods here do nothing.

    Attributes:
        totals: whether a model may count rows and add up columns. A hook with an `after_read`,
            which may hide values, must set `totals = True` to allow it; it then does not see
            labels of the rows either.
        sql: whether a model may read the rows by SQL, which calls no hook. A hook with a
            `before_read` or an `after_read` must set `sql = True` to allow it.
        fills: the attributes that `before_write` sets in new rows that lack them. Descriptions for
            models do not list them as required.

    Example:
        >>> class Vegan(Hooks):
        ...     def after_read(self, read, rows):
        ...         for row in rows:
        ...             row["name"] += " (vegan)"
        >>> toolset = Toolset([Recipe], hooks={Recipe: [Vegan()]}, hidden=[Recipe.user_id])
        >>> toolset.call(session, "db_read", {"table": "recipes", "columns": ["name"]})["rows"][0]
        {'id': 'recipe_1', 'name': 'Soup (vegan)'}
    """

    totals: ClassVar[bool | None] = None
    sql: ClassVar[bool | None] = None
    fills: ClassVar[Collection[str]] = ()

    def allows_totals(self) -> bool:
        """Return whether a model may count rows and add up columns: no value is hidden."""
        is_silent = type(self).after_read is Hooks.after_read
        return is_silent if self.totals is None else self.totals

    def allows_sql(self) -> bool:
        """Return whether a model may read the rows by SQL."""
        return not self.looks_at_reads() if self.sql is None else self.sql

    def looks_at_reads(self) -> bool:
        """Return whether the hook overrides `before_read` or `after_read`."""
        own = type(self)
        return (own.before_read, own.after_read) != (Hooks.before_read, Hooks.after_read)

    def may_search(self) -> bool:
        """Return whether the hook may implement semantic search."""
        return type(self).before_read is not Hooks.before_read

    def before_read(self, read: Reading) -> None:
        """Inspect or change a read before it is executed.

        It is also called, once per call, if other reads and writes reach the rows
        (`Reading.nested`), and hides rows there too.

        Args:
            read: the read, which the hook may change.
        """

    def after_read(self, read: Reading, rows: list[Row]) -> None:
        """Inspect or change rows that an answer shows, or remove some.

        Args:
            read: the read.
            rows: the rows of the answer: JSON values by column.
        """

    def before_write(self, write: Writing) -> None:
        """Inspect or change a write and its records before it is executed.

        Args:
            write: the write, which the hook may change.
        """

    def after_write(self, write: Writing, rows: list[Row]) -> None:
        """Inspect the rows that were written, in the same transaction.

        Args:
            write: the write.
            rows: the rows after the write: JSON values by column; empty for a delete.
        """
