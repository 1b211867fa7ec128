"""What a model calls the tools with: one pydantic model a tool, unknown fields refused.

A tool's name and JSON values come in; arguments of the right shape go out, and no more is known of
them: what a field or a value means, `tables` say. What has another shape raises, in words of our
own: pydantic's name Python's types, and each of those that a field may have. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from alfred_refs.tools.errors import ToolError, invalid_arguments, missing_filter, unknown_tool

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

SEMANTIC = "_semantic"
"""The field of a search by meaning, which a hook answers."""

DRAFTS = "x-drafts"
"""In a schema: that a field is about drafts alone, or what its description says of them."""

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


_EXPECTED = (
    "what every row that is hit must have now: its label, as it stands beside refs to it, or "
    "values by column; otherwise nothing is "
)


class DbRead(_Arguments):
    """Read rows of a table."""

    table: str
    filters: list[Filter] = Field(default=[], description="all of these must hold")
    or_filters: list[Filter] = Field(default=[], description="and at least one of these")
    columns: list[str] | None = Field(
        default=None,
        description="columns to show, and relationships whose rows to include; all columns by "
        "default; or totals: 'count(*)', 'sum(x)', 'avg(x)', 'min(x)', 'max(x)', grouped by the "
        "other columns",
    )
    limit: Annotated[int, Field(ge=0), BeforeValidator(_no_boolean)] | None = Field(
        default=None, description="at most this many rows"
    )
    order_by: str | list[str] | None = Field(default=None, description="columns to order by")
    order_dir: Literal["asc", "desc"] | list[Literal["asc", "desc"]] = Field(
        default="asc", description="for all of order_by, or a list with one for each"
    )
    cursor: str | None = Field(
        default=None, description="from the last answer, to go on with the same question"
    )
    drafts: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description="the drafts that are pending, in place of rows",
        json_schema_extra={DRAFTS: True},
    )


class NewRows(_Arguments):
    """New rows of one table, or drafts of it that are to be rows."""

    table: str
    data: dict[str, Any] | Annotated[list[dict[str, Any]], Field(min_length=1)] | None = Field(
        default=None,
        description="a row, or a list of rows: values by column, and new rows inside by the name "
        "of their relationship",
        json_schema_extra={
            DRAFTS: "; with from_draft, what is to be changed in the draft, if anything"
        },
    )
    from_draft: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="the ref of a draft to save, or a list of them to save as they are",
        json_schema_extra={DRAFTS: True},
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
        description="more rows in the same call, of other tables too",
        json_schema_extra={
            DRAFTS: "; they may name drafts that are saved in it by their refs, in any order"
        },
    )
    draft: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description="keep the rows as drafts, to be saved later with from_draft",
        json_schema_extra={DRAFTS: True},
    )


class DbUpdate(_Arguments):
    """Change the rows that meet all filters."""

    table: str
    filters: list[Filter] = Field(description="all of these must hold; at least one", min_length=1)
    data: Annotated[dict[str, Any], Field(min_length=1)] = Field(
        description="new values by column"
    )
    expect: str | dict[str, Any] | None = Field(default=None, description=f"{_EXPECTED}changed")


class DbDelete(_Arguments):
    """Delete the rows that meet all filters."""

    table: str
    filters: list[Filter] = Field(description="all of these must hold; at least one", min_length=1)
    expect: str | dict[str, Any] | None = Field(default=None, description=f"{_EXPECTED}deleted")


_Position = Annotated[int, Field(ge=1, strict=True)]

# what each action needs beside the item or the place that it names
_NEEDED: Mapping[str, str] = {"modify": "data", "add": "data", "move": "to"}


class ListEdit(_Arguments):
    """One edit of a list: of an item that is there, or a new one."""

    action: Literal["modify", "remove", "add", "move"]
    path: Annotated[list[_Position], Field(min_length=1)] | None = Field(
        default=None,
        description="positions, from 1: which item, as the list is before the call; for 'add' "
        "the last one says where, as the list will be. [2, 3]: the third inside of the second",
    )
    ref: str | None = Field(default=None, description="of an item that is a row, without path")
    to: _Position | Annotated[list[_Position], Field(min_length=1)] | None = Field(
        default=None,
        description="'move': the position as the list will be, or the path to it in another list",
    )
    data: Any = Field(
        default=None,
        description="'add': the item; 'modify': the fields that change, or the item",
    )
    expect: Any = Field(
        default=None,
        description="what the item must be now: its text or label, or values by field; otherwise "
        "nothing is done",
    )

    @model_validator(mode="after")
    def _is_said(self) -> ListEdit:
        """Check that it is said what is wanted: no schema that all clients take could say that."""
        needed = _NEEDED.get(self.action)
        by_ref = self.ref is not None and self.action != "add"
        if (self.path is None) is not by_ref:
            wanted = "path" if self.action == "add" else "path, or ref"
            raise PydanticCustomError("edit", f"'{self.action}' takes {wanted}")
        is_given = needed in self.model_fields_set and (needed != "to" or self.to is not None)
        if needed is not None and not is_given:
            raise PydanticCustomError("edit", f"'{self.action}' needs {needed!r}")
        for name in ("to", "data", "expect"):
            is_taken = name == needed or (name == "expect" and self.action != "add")
            if getattr(self, name) is not None and not is_taken:
                raise PydanticCustomError("edit", f"'{self.action}' takes no {name!r}")
        return self


class DbEditList(_Arguments):
    """Edit a list of one row by position."""

    table: str
    row: str = Field(
        description="the ref of the row that has the list",
        json_schema_extra={DRAFTS: ", or draft"},
    )
    name: str = Field(
        alias="list",
        description="its name, and with dots between what leads to lists inside of its items",
    )
    edits: list[ListEdit] = Field(
        default=[], description="all of them are done, or none; their order makes no difference"
    )
    preview: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="show what edits come to and do nothing; or the list, without"
    )
    token: str | None = Field(
        default=None,
        description="from the last answer: nothing is done if the list has changed since",
    )


class DbQuery(_Arguments):
    """Answer a question with a SELECT of the model's own."""

    sql: str = Field(
        description="one SELECT in PostgreSQL's SQL; a ref is a text beside a column of refs"
    )
    limit: Annotated[int, Field(ge=0), BeforeValidator(_no_boolean)] | None = Field(
        default=None, description="at most this many rows"
    )


Arguments = DbRead | DbCreate | DbUpdate | DbDelete | DbEditList

TOOLS: Mapping[str, type[Arguments]] = {
    "db_read": DbRead,
    "db_create": DbCreate,
    "db_update": DbUpdate,
    "db_delete": DbDelete,
    "db_edit_list": DbEditList,
}
"""What each tool is called with."""

for _model in (AndGroup, OrGroup, NotGroup, *TOOLS.values()):
    _model.model_rebuild()


# a mistake in the shape, as pydantic calls it -> what is wanted, where its own words are Python's
_WANTED: Mapping[str, str] = {
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
    "list_type": "a list",
    "string_type": "text",
}

_NO_FIELD = "there is no such field"

_OF_FILTERS = ("field", "op", "value", "and", "or", "not")


def validated(
    tool: Any, given: Any, others: Iterable[str] = (), *, drafts: bool = True
) -> Arguments:
    """Return the arguments of a call.

    Args:
        tool: its name.
        given: JSON values.
        others: the names of tools that are none of these.
        drafts: whether there are drafts; without them nothing that is about them is there.

    Raises:
        ToolError: there is no such tool, or they have not its shape.
    """
    model = TOOLS.get(tool) if isinstance(tool, str) else None
    if model is None:
        raise unknown_tool(str(tool), [*TOOLS, *others])
    if not isinstance(given, dict):
        raise invalid_arguments("they are no object")
    for place in _of_drafts(given, model) if not drafts else ():
        raise invalid_arguments(_NO_FIELD, place)
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise misshapen(tool, error) from None


def _of_drafts(given: dict[str, Any], model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Yield the fields of arguments that are about drafts alone."""
    for name, field in model.model_fields.items():
        extra = field.json_schema_extra
        if isinstance(extra, dict) and extra.get(DRAFTS) is True and name in given:
            yield f"{path}{name}"
    also = given.get("also") if model is DbCreate else None
    for n, each in enumerate(also if isinstance(also, list) else ()):
        yield from _of_drafts(each, NewRows, f"also.{n}.") if isinstance(each, dict) else ()


def misshapen(tool: str, error: ValidationError) -> ToolError:
    """Return the first mistake in the shape of arguments, in words of our own."""
    found = error.errors(include_url=False)
    first = next((each for each in found if _is_meant(each)), found[0])
    place = _place(first)
    field = ".".join(str(part) for part in place) or None
    match first["type"]:
        case "missing" | "too_short" if place == ["filters"]:
            return missing_filter(tool)
        case "extra_forbidden" if set(KINDS) & {*first["loc"]} and place[-1] in _OF_FILTERS:
            return invalid_arguments(
                "one object has two filters", field, "put each into one of its own"
            )
        case "missing":
            fact = "it is missing"
        case "extra_forbidden":
            fact = _NO_FIELD
        case "dict_type" | "list_type" if "data" in place:
            fact = "a row is an object: its values by column"
        case "too_short":
            fact = "it is empty"
        case type_:
            wanted = _WANTED.get(type_)
            fact = first["msg"] if wanted is None else f"input should be {wanted}"
    return invalid_arguments(fact[:1].lower() + fact[1:], field)


def _is_branch(part: int | str) -> bool:
    """Tell whether a part of a path is pydantic's name for one of several types."""
    return isinstance(part, str) and ("[" in part or part in KINDS)


def _place(mistake: Any) -> list[int | str]:
    """Return where a mistake is, by the names that the model has given."""
    *outer, last = mistake["loc"]
    given = [last] if mistake["type"] == "extra_forbidden" or not _is_branch(last) else []
    path = [*(each for each in outer if not _is_branch(each)), *given]
    # one of the types again: no text that is checked is in a field of that name
    return path[:-1] if mistake["type"] == "string_type" and path[-1] == "str" else path


def _is_meant(mistake: Any) -> bool:
    """Tell whether a mistake is of the type that was given: a list is no row, nor the reverse."""
    branches = [
        p for p in mistake["loc"] if isinstance(p, str) and p.startswith(("dict[", "list["))
    ]
    is_list = isinstance(mistake["input"], list)
    if len(mistake["loc"]) > len(branches) + 1:  # of an element
        return bool(branches) and "list" in branches[0]
    return not branches or (("list" in branches[0]) is is_list)
