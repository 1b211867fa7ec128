"""What a model is told when its call cannot be done: a code, a message, and the data in it.

Each fault is an exception that words its own message: the fact, then how to go on. It holds what
the model gave and names of tables and columns that the model may use, never a key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from alfred_refs.errors import RefError


class ToolError(RefError):
    """A call of a tool that a model can correct from the message; nothing was changed.

    Hooks raise it to refuse a call.

    Args:
        code: what kind of fault it is, in `snake_case`: `docs/tools.md` lists ours.
        message: the fact, then the remedy, without keys.
        data: what the message speaks of, as JSON values.

    Attributes:
        code: the same.
        message: the same.
        data: the same.
    """

    def __init__(self, code: str, message: str, **data: Any) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(code, message, data)

    def _message(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.code, self.message, self.data)

    def in_row(self, number: int) -> ToolError:
        """Return the same error, which says in which of several given rows it is."""
        message, data = f"row {number}: {self.message}", {**self.data, "row": number}
        return _again(type(self), str(self.code), message, data)

    def to_json(self) -> dict[str, Any]:
        """Return what the model is told."""
        return {"error": {"code": self.code, "message": self.message, **self.data}}


def _again(class_: type[ToolError], code: str, message: str, data: dict[str, Any]) -> ToolError:
    error = class_.__new__(class_)
    ToolError.__init__(error, code, message, **data)
    return error


class InvalidArgumentsError(ToolError):
    """The arguments have another shape than the tool's schema says."""

    def __init__(
        self,
        fact: str,
        field: str | None = None,
        remedy: str = "look at its schema and call again",
    ) -> None:
        data = {} if field is None else {"field": field}
        where = "" if field is None else f" at {field!r}"
        super().__init__(
            "invalid_arguments",
            f"the arguments do not fit the tool{where}: {fact}; {remedy}",
            **data,
        )


class UnknownToolError(ToolError):
    """There is no tool of this name."""

    def __init__(self, tool: str, tools: Iterable[str]) -> None:
        names = list(tools)
        super().__init__(
            "unknown_tool",
            f"there is no tool {tool!r}; use one of {_listed(names)}",
            tool=tool,
            tools=names,
        )


class UnknownTableError(ToolError):
    """The model may not use a table of this name, or there is none: it reads the same."""

    def __init__(self, table: str, tables: Sequence[str]) -> None:
        super().__init__(
            "unknown_table",
            f"there is no table {table!r}; use one of {_listed(tables)}",
            table=table,
            tables=list(tables),
        )


class UnknownColumnError(ToolError):
    """The model may not use a column of this name here, or there is none: it reads the same."""

    def __init__(
        self, table: str, column: str, columns: Sequence[str], *, is_read: bool = False
    ) -> None:
        fact = f"table {table!r} has no column {column!r} to use here"
        if is_read:
            fact = f"{column!r} of table {table!r} can be read, and is not written here"
        super().__init__(
            "unknown_column",
            f"{fact}; use one of {_listed(columns)}",
            table=table,
            column=column,
            columns=list(columns),
        )


class ReadOnlyTableError(ToolError):
    """The model may read a table and not write it, or not in this way."""

    def __init__(self, table: str, verbs: Sequence[str] = ()) -> None:
        super().__init__(
            "read_only_table",
            f"rows of table {table!r} can be {_done(verbs)} only; do that, or change another table"
            if verbs
            else f"table {table!r} can be read and not changed; read it, or change another table",
            table=table,
            verbs=list(verbs),
        )


class InvalidFilterError(ToolError):
    """A filter says nothing that can be decided of a row; it is never left out."""

    def __init__(self, field: str, fact: str, remedy: str) -> None:
        super().__init__(
            "invalid_filter", f"the filter on {field!r} {fact}; {remedy}", field=field
        )


class MissingFilterError(ToolError):
    """A write that would touch every row of a table."""

    def __init__(self, tool: str) -> None:
        super().__init__(
            "missing_filter",
            f"{tool} needs at least one filter, so that it cannot touch every row; say which "
            "rows, for example by their refs",
        )


class InvalidValueError(ToolError):
    """A value that its column cannot have; it is not repeated."""

    def __init__(self, field: str, wanted: str) -> None:
        super().__init__(
            "invalid_value",
            f"the value given for {field!r} does not fit; it takes {wanted}",
            field=field,
        )


class MissingValueError(ToolError):
    """A new row lacks what it must have, or a row would lose it.

    Args:
        table: of the row.
        columns: that lack a value, as far as a model knows them.
        is_given: whether it is for a model to give it.
    """

    def __init__(self, table: str, columns: Sequence[str], *, is_given: bool = True) -> None:
        remedy = "give it and call again"
        if not is_given:
            remedy = "that is not for you to give, so such rows cannot be written with this tool"
        super().__init__(
            "missing_value",
            f"a row of {table!r} needs a value for {_listed(columns) if columns else 'a column'}; "
            f"{remedy}",
            table=table,
            columns=list(columns),
        )


class InvalidOrderError(ToolError):
    """Rows cannot be put in this order."""

    def __init__(self, column: str, fact: str, columns: Sequence[str]) -> None:
        super().__init__(
            "invalid_order",
            f"rows cannot be ordered by {column!r}, which {fact}; use one of {_listed(columns)}",
            column=column,
            columns=list(columns),
        )


class InvalidCursorError(ToolError):
    """The cursor belongs to another question, was changed, or needs a row that is gone."""

    def __init__(self, *, gone: str | None = None, changed: str | None = None) -> None:
        message = (
            "the cursor does not belong to this read; give the cursor of the last answer with the "
            "same table, filters and order, or read again from the start without one"
        )
        if gone is not None or changed is not None:
            fate = "is not there any more" if changed is None else "has changed since"
            fact = f"{gone or changed!r}, the row where the last answer ended, {fate}"
            message = f"{fact}; read again from the start without cursor"
        super().__init__("invalid_cursor", message)


class TooManyRowsError(ToolError):
    """A write matches or has more rows than one call may change."""

    def __init__(self, tool: str, most: int, *, along: bool = False) -> None:
        fact = f"more than {most} rows match, and one {tool} changes at most {most}"
        remedy = "narrow the filters"
        if tool == "db_create":
            fact = f"more than {most} rows are given, and one {tool} makes at most {most}"
            remedy = "make several calls of it"
        if along:
            fact = f"more than {most} rows would be changed, with those that refer to them"
            remedy = "write those in calls of their own first"
        super().__init__("too_many_rows", f"{fact}; nothing was changed; {remedy}", most=most)


class TooSlowError(ToolError):
    """A statement took longer than a call may, and was stopped."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            "too_slow",
            f"the call took longer than {seconds:g} seconds and was stopped; nothing was changed; "
            "ask for less: fewer filters, none by a path or a pattern that begins with '%', or a "
            "smaller part of the rows",
            seconds=seconds,
        )


class TooDeepError(ToolError):
    """A row has a document that is nested deeper than can be read."""

    def __init__(self, table: str) -> None:
        super().__init__(
            "too_deep",
            f"a document in a row of {table!r} is nested too deep to be read; nothing was "
            "changed; name the other columns in 'columns', or other rows",
            table=table,
        )


class MixedDraftsError(ToolError):
    """A write names drafts, and its filters may be met by rows too."""

    def __init__(self, tool: str, drafts: Sequence[str]) -> None:
        super().__init__(
            "mixed_drafts",
            f"the filters name {_listed(drafts)}, which {'is' if len(drafts) == 1 else 'are'} not "
            "saved, and may hit rows too; "
            f"nothing was changed; call {tool} for the drafts by their refs, and once more for "
            "the rows",
            drafts=list(drafts),
        )


class UnexpectedRowError(ToolError):
    """A write would hit another row than the model thinks."""

    def __init__(self, ref: str, column: str, actual: Any, expected: Any) -> None:
        super().__init__(
            "unexpected_row",
            f"{ref!r} was expected to have {column} {expected!r} and has {actual!r}; nothing was "
            "changed; read the row again and call with what it has now, or without expect",
            ref=ref,
            column=column,
            actual=actual,
            expected=expected,
        )


class ConflictError(ToolError):
    """Two rows cannot both be: one may be there, or be given in the same call, or be of others.

    Args:
        table: of which they are.
        columns: that are about it.
        is_hidden: whether others are too.
        is_exclusive: whether values may not overlap, and not only be the same.
        rule: what the database says, where that is more than that columns are the same.
    """

    def __init__(
        self,
        table: str,
        columns: Sequence[str],
        *,
        is_hidden: bool = False,
        is_exclusive: bool = False,
        rule: str | None = None,
    ) -> None:
        same = f"the same {_listed(columns)}"
        if rule is not None:
            same = f"values that only one row may have ({rule})"
        elif not columns and is_hidden:
            same = "values that are not shown, and that only one row may have"
        elif not columns:
            same = "values that only one row may have"
        fact = (
            f"a row of {table!r} with {same} is there already (maybe one that you cannot see), "
            "or two of this call are the same"
        )
        remedy = "read the rows that there are and update one, or give other values"
        if is_exclusive:
            among = f" in {_listed(columns)}" if columns else ""
            fact = (
                f"a row of {table!r} is there (maybe one that you cannot see) whose values{among} "
                "exclude the given ones, or two of this call exclude each other"
            )
            remedy = (
                "read the rows that there are, and give values that do not overlap with theirs"
            )
        super().__init__(
            "conflict",
            f"{fact}; nothing was changed; {remedy}",
            table=table,
            columns=list(columns),
        )


class StillReferencedError(ToolError):
    """A row cannot be deleted, or changed, because others name it, or what would go with it.

    Args:
        table: from which rows were to be deleted.
        referring: the table of the others; `None` if the model may not know it.
        refs: of some of them.
        labels: of those, by ref.
        verbs: what the model may do to them: "update" if it may take the reference out of them;
            `None` if that is not known.
        done: what was to be done in the table.
    """

    def __init__(
        self,
        table: str,
        referring: str | None,
        refs: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        *,
        verbs: Collection[str] | None = None,
        done: str = "deleted from",
    ) -> None:
        others = "other rows" if referring is None else f"rows of {referring!r}"
        named = f" ({_listed(refs)})" if refs else ""
        ways = {"delete": "delete those", "update": "let those refer to something else"}
        usable = [way for verb, way in ways.items() if verbs is None or verb in verbs]
        remedy = f"{', or '.join(usable)}, first"
        if not usable:
            remedy = "those are not yours to change, so leave the row as it is"
        super().__init__(
            "still_referenced",
            f"{others}{named} still refer to what would be {done} {table!r}, or would go with "
            f"it; nothing was changed; {remedy}",
            table=table,
            referring=referring,
            refs=list(refs),
            **({"labels": dict(labels)} if labels else {}),
        )


class CircularReferenceError(ToolError):
    """Rows that refer to each other, or one to itself, cannot be deleted one after the other."""

    def __init__(self, table: str) -> None:
        super().__init__(
            "circular_reference",
            f"rows of {table!r} refer to each other in a circle; nothing was changed; set one of "
            "the references to null, then delete them",
            table=table,
        )


class MissingReferenceError(ToolError):
    """A row that is referred to is not there."""

    def __init__(self, table: str, columns: Sequence[str]) -> None:
        super().__init__(
            "missing_reference",
            f"what {_listed(columns) if columns else 'the row'} of {table!r} refers to is not "
            "there; nothing was changed; read what there is, and refer to that",
            table=table,
            columns=list(columns),
        )


class ForeignRowToolError(ToolError):
    """A row is not the owner's to change, or one is named that the owner cannot see.

    It reads the same as for a row that is not there; but of those that the owner may read, `refs`,
    that is said.
    """

    def __init__(self, ref: str | None, column: str | None, refs: Sequence[str] = ()) -> None:
        row = "a row" if ref is None else repr(ref)
        fact = "cannot be changed" if column is None else f"cannot be used in {column!r}"
        remedy = "read the rows that can, and use one"
        if refs:
            row, fact = _listed(refs), "can be read and not changed"
            remedy = "leave that as it is, or create a row of your own and change it"
        super().__init__(
            "foreign_row",
            f"{row} {fact}; nothing was changed; {remedy}",
            ref=ref,
            column=column,
            **({"refs": list(refs)} if refs else {}),
        )


class CheckFailedError(ToolError):
    """A rule of the database forbids the values; its name is the database's, and not told.

    Args:
        table: of which the row is.
        rule: what it says; `None` if that is not known.
        columns: that it is about.
        is_hidden: whether others are, too.
    """

    def __init__(
        self,
        table: str,
        rule: str | None = None,
        columns: Sequence[str] = (),
        *,
        is_hidden: bool = False,
    ) -> None:
        about = f" on {_listed(columns)}" if columns and rule is None else ""
        others = " and on columns that are not shown" if is_hidden else ""
        of = f"table {table!r}" if rule or about or others else "the database"
        told = "" if rule is None else f": {rule}"
        super().__init__(
            "check_failed",
            f"a rule of {of}{about}{others} forbids these values{told}; nothing was changed; give "
            f"{'others' if rule is None else 'values that keep to it'}",
            table=table,
            rule=rule,
            columns=list(columns),
        )


class DraftContentToolError(ToolError):
    """A draft cannot hold such content."""

    def __init__(self, fact: str, remedy: str) -> None:
        super().__init__("draft_content", f"{fact}; {remedy}")


class NoSemanticSearchError(ToolError):
    """Nothing answers a search by meaning in this table."""

    def __init__(self, table: str) -> None:
        super().__init__(
            "no_semantic_search",
            f"table {table!r} cannot be searched by meaning; filter by its columns",
            table=table,
        )


def _done(verbs: Iterable[str]) -> str:
    """Return in words what may be done to rows: reading, and some verbs."""
    *words, last = ["read", *(f"{verb}d" for verb in verbs)]
    return f"{', '.join(words)} and {last}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
