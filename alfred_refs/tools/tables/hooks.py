"""What the application adds to the tools: hooks before and after each verb, by mapped class.

A hook is given what the model asked for, checked, and the session that answers; it changes that
in place. Hooks are trusted: they see what the session shows, in refs, and may use SQLAlchemy on
the class. They are plain functions with asynchronous sessions too, where they run inside the
awaited call. To refuse a call they raise a `ToolError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from sqlalchemy import ColumnElement
from sqlalchemy.sql.base import ExecutableOption

from alfred_refs.session.session import RefSession
from alfred_refs.tools.wire.arguments import (
    DbCreate,
    DbDelete,
    DbEditList,
    DbRead,
    DbUpdate,
    FilterClause,
    clauses_of,
)

Row = dict[str, Any]
"""One row as the model sees it: JSON values by column."""


@dataclass
class Reading:
    """A read that is about to be executed, or was.

    Attributes:
        session: that answers.
        model: the mapped class.
        arguments: what the model asked for; may be replaced, and is checked anew then.
        semantic: the text of a search by meaning; a hook that answers it sets `keys`.
        keys: only rows of these primary keys or refs, in this order.
        options: loader options of the statement.
        include: paths of relationships whose rows are shown inside each row.
        conditions: that rows must meet besides the filters.
        or_conditions: rows that meet one of these are read though they do not meet the filters.
        notes: what the model is told beside the rows.
        empty: whether the answer is to be empty, without a statement.
        totals: whether rows are only counted or added up; `after_read` is not asked then, and
            what is said of loading and including rows is not needed.

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

    def clauses(self) -> Iterator[FilterClause]:
        """Yield all conditions of the arguments, those inside groups too."""
        return clauses_of([*self.arguments.filters, *self.arguments.or_filters])

    def answer_empty(self, note: str) -> None:
        """Answer with no rows, and say why."""
        self.empty = True
        self.notes.append(note)


@dataclass
class Writing:
    """A write that is about to be executed, or was.

    Attributes:
        session: that executes it.
        model: the mapped class.
        verb: what is done.
        arguments: what the model asked for.
        records: the new rows (create), the one set of changes (update) or nothing (delete):
            values as their columns have them, refs as the model gave them; may be changed. New
            rows inside drafts are a write of their own, in which what they are inside of has no
            ref.
        notes: what the model is told beside the rows.
        drafts: what those drafts hold that the call saves, by their refs: records may name them,
            and no row is there yet.
        refs: of the rows, where these are written because of others and no filter says which: what
            goes along with rows that are deleted (delete), loses its reference to them (update),
            is given a new value of what it refers to (update), is moved to a draft that is saved
            (update), is of a subclass, or is in a list that is edited by position. Then positions
            are the list's: the records of an update do not have them.

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


class Hooks:
    """What is done around the verbs on one mapped class; each method does nothing by itself.

    Attributes:
        totals: whether a model may count rows and add up their columns. A hook that has an
            `after_read`, which may hide something of rows, has to say so: `totals = True`.
        sql: whether a model may ask for rows by SQL, of which no hook is told. One that has a
            `before_read` or an `after_read` has to say so: `sql = True`.

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

    def allows_totals(self) -> bool:
        """Tell whether a model may count rows and add up their columns."""
        is_silent = type(self).after_read is Hooks.after_read
        return is_silent if self.totals is None else self.totals

    def allows_sql(self) -> bool:
        """Tell whether a model may ask for rows by SQL."""
        own = type(self)
        is_silent = (own.before_read, own.after_read) == (Hooks.before_read, Hooks.after_read)
        return is_silent if self.sql is None else self.sql

    def before_read(self, read: Reading) -> None:
        """Look at a read before it is executed, and change it."""

    def after_read(self, read: Reading, rows: list[Row]) -> None:
        """Look at the rows that were read, and change or enrich them."""

    def before_write(self, write: Writing) -> None:
        """Look at a write before it is executed, and change or enrich its records."""

    def after_write(self, write: Writing, rows: list[Row]) -> None:
        """Look at the rows that were written, inside the same transaction."""
