"""What a model calls the tools with: one pydantic model a tool, unknown fields refused.

JSON comes in; arguments of the right shape go out, or pydantic's `ValidationError`. Nothing here
knows of tables: what a field or a value means is told by `tables` and `values`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
)
from pydantic_core import PydanticCustomError

Operator = Literal[
    "=",
    "!=",
    "neq",
    ">",
    "<",
    ">=",
    "<=",
    "in",
    "not_in",
    "ilike",
    "is_null",
    "is_not_null",
    "contains",
    "similar",
]

Direction = Literal["asc", "desc"]

SEMANTIC = "_semantic"
"""The field of a search by meaning, which a hook answers."""


NEGATIONS = ("!=", "neq", "not_in")
"""The operators that say what a column has not."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class FilterClause(_Arguments):
    """One condition on a column, or on a column of related rows by a path.

    A path holds if at least one related row meets the condition. A column without value (null)
    meets no comparison but `is_null`, as in SQL.
    """

    field: str = Field(description="column, or path to a column of related rows")
    op: Operator = Field(
        description="'in' and 'not_in' take a list; 'ilike' takes a pattern with % and _; "
        "'contains' takes a list of elements; 'is_null' and 'is_not_null' take no value"
    )
    value: Any = Field(default=None, description="as the column has it; refs in columns of refs")


class AndGroup(_Arguments):
    """Holds if all of its filters hold."""

    all_of: list[Filter] = Field(alias="and", min_length=1)


class OrGroup(_Arguments):
    """Holds if at least one of its filters holds."""

    any_of: list[Filter] = Field(alias="or", min_length=1)


class NotGroup(_Arguments):
    """Holds if its filter does not hold."""

    negated: Filter = Field(alias="not")


def _kind(given: Any) -> str:
    """Tell which kind of filter is meant, so that only its own mistakes are told."""
    if isinstance(given, _Arguments):
        return type(given).__name__
    groups = {"and": "AndGroup", "or": "OrGroup", "not": "NotGroup"}
    named = [each for name, each in groups.items() if isinstance(given, dict) and name in given]
    return named[0] if named else "FilterClause"


Filter = Annotated[
    Annotated[FilterClause, Tag("FilterClause")]
    | Annotated[AndGroup, Tag("AndGroup")]
    | Annotated[OrGroup, Tag("OrGroup")]
    | Annotated[NotGroup, Tag("NotGroup")],
    Discriminator(_kind),
]
"""A condition on a row."""


KINDS = ("FilterClause", "AndGroup", "OrGroup", "NotGroup")
"""What pydantic puts into the path of a mistake for a kind of filter."""


def clauses_of(filters: Iterable[Filter]) -> Iterator[FilterClause]:
    """Yield the conditions of filters, those inside groups too."""
    return (clause for clause, _ in signed_clauses(filters))


def signed_clauses(
    filters: Iterable[Filter], *, negated: bool = False
) -> Iterator[tuple[FilterClause, bool]]:
    """Yield the conditions of filters, each with whether rows are those that it does *not* name.

    That is what `!=` and `not_in` say, and what `not` turns round.
    """
    for given in filters:
        match given:
            case AndGroup():
                yield from signed_clauses(given.all_of, negated=negated)
            case OrGroup():
                yield from signed_clauses(given.any_of, negated=negated)
            case NotGroup():
                yield from signed_clauses([given.negated], negated=not negated)
            case FilterClause():
                yield given, negated is not (given.op in NEGATIONS)


def _no_boolean(given: Any) -> Any:
    """Refuse true and false, which pydantic takes for 1 and 0: no rows for no limit."""
    if isinstance(given, bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return given


Filters = Annotated[list[Filter], Field(min_length=1)]


class DbRead(_Arguments):
    """Read rows of a table."""

    table: str
    filters: list[Filter] = Field(default=[], description="all of these must hold")
    or_filters: list[Filter] = Field(default=[], description="and at least one of these")
    columns: list[str] | None = Field(
        default=None,
        description="columns to show, and relationships whose rows to include; all columns by "
        "default",
    )
    limit: Annotated[int, Field(ge=0), BeforeValidator(_no_boolean)] | None = Field(
        default=None, description="at most this many rows"
    )
    order_by: str | list[str] | None = Field(default=None, description="columns to order by")
    order_dir: Direction | list[Direction] = Field(
        default="asc", description="for all of order_by, or a list with one for each"
    )
    cursor: str | None = Field(
        default=None, description="from the last answer, to go on with the same question"
    )


class NewRows(_Arguments):
    """New rows of one table, or drafts of it that are to be rows."""

    table: str
    data: dict[str, Any] | Annotated[list[dict[str, Any]], Field(min_length=1)] | None = Field(
        default=None,
        description="a row, or a list of rows: values by column; with from_draft, what is to be "
        "changed in the draft, if anything",
    )
    from_draft: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="the ref of a draft to save, or a list of them to save as they are",
    )

    @property
    def drafts(self) -> list[str]:
        """The refs of the drafts that are to be saved."""
        given = self.from_draft or []
        return [given] if isinstance(given, str) else given

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows that are new and of no draft."""
        if self.from_draft is not None or self.data is None:
            return []
        return self.data if isinstance(self.data, list) else [self.data]


class DbCreate(NewRows):
    """Create one row or several, or save drafts as rows: all of them or none."""

    also: list[NewRows] = Field(
        default=[],
        description="more rows in the same call, of other tables too; they may name drafts that "
        "are saved in it by their refs, in any order",
    )


class DbUpdate(_Arguments):
    """Change the rows that meet all filters."""

    table: str
    filters: Filters = Field(description="all of these must hold; at least one")
    data: Annotated[dict[str, Any], Field(min_length=1)] = Field(
        description="new values by column"
    )
    expect: str | dict[str, Any] | None = Field(
        default=None,
        description="what every row that is hit must have now: its label, as it stands beside "
        "refs to it, or values by column; "
        "otherwise nothing is changed",
    )


class DbDelete(_Arguments):
    """Delete the rows that meet all filters."""

    table: str
    filters: Filters = Field(description="all of these must hold; at least one")
    expect: str | dict[str, Any] | None = Field(
        default=None,
        description="what every row that is hit must have now: its label, as it stands beside "
        "refs to it, or values by column; "
        "otherwise nothing is deleted",
    )


Arguments = DbRead | DbCreate | DbUpdate | DbDelete

# what a tool is called -> what it is called with
TOOLS: dict[str, type[Arguments]] = {
    "db_read": DbRead,
    "db_create": DbCreate,
    "db_update": DbUpdate,
    "db_delete": DbDelete,
}

for _model in (AndGroup, OrGroup, NotGroup, *TOOLS.values()):
    _model.model_rebuild()
