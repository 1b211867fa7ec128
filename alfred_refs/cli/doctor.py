"""The command `alfred-refs doctor`: findings on the classes of a toolset.

>>> from alfred_refs.cli.doctor import findings_of
>>> [f"{each.table}.{each.name}: {each.finding}" for each in findings_of(toolset)][:2]
['recipes.id: key: refs of recipe', 'recipes.user_id: key: refs of user']

Errors of the set-up, such as a class whose rows refs cannot name, are raised by `Toolset` itself,
for all classes at once; the command prints them. A finding is not an error: the toolset works, but
a model sees or can do less than the application may expect.

With `--policies` it also checks row-level security in the database, as the role of the URL.
Otherwise it only reads mappings: no database is opened, and no row is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from alfred_refs.cli.console import (
    Printer,
    Row,
    document_of,
    errors_on_one_line,
    require_url,
    url_option,
)
from alfred_refs.cli.serving import load_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection, Table

    from alfred_refs.tools import Toolset

_POLICIES = """
select given.name, pg_class.oid is null, relrowsecurity,
    pg_has_role(relowner, 'usage') and not relforcerowsecurity,
    exists (select from pg_policy where polrelid = pg_class.oid)
from unnest(cast(:names as text[])) as given (name)
left join pg_class on pg_class.oid = to_regclass(given.name)
"""
_ROLE = "select rolname from pg_roles where rolname = current_user and (rolsuper or rolbypassrls)"

_COLUMNS = {"table": "table", "name": "attribute", "finding": "finding", "remedy": "remedy"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about a class of a toolset.

    Attributes:
        table: the model's name of the table.
        name: the attribute; `None` for a finding on the class.
        finding: the fact.
        remedy: how to change it; `None` for keys, which are correct.
    """

    table: str
    name: str | None
    finding: str
    remedy: str | None = None


@click.command()
@click.argument("toolset", metavar="MODULE:DESK")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--strict", is_flag=True, help="Exit with 1 if there is anything to correct.")
@click.option("--policies", is_flag=True, help="Also check row-level security, as the URL's role.")
@url_option
def doctor(toolset: str, url: str | None, *, as_json: bool, strict: bool, policies: bool) -> None:
    """Print what a toolset makes of its classes, and what may be missing.

    MODULE:DESK is a Toolset, or what its bind() returns, imported from the current directory, as
    in app.agent:desk. For each class: which attributes show refs, columns of UUIDs that nothing
    declares, columns that no model sees because of their type, missing labels, association tables
    that no tool reaches, and rows that all owners see.

    With --policies, also owned tables that row-level security does not protect: pass the URL of
    the application's role.
    """
    from alfred_refs.errors import SetupError
    from alfred_refs.store import schema
    from alfred_refs.tools import BoundToolset, Toolset

    with errors_on_one_line(as_json=as_json):
        found = load_object(toolset)
        tools = found.toolset if isinstance(found, BoundToolset) else found
        if not isinstance(tools, Toolset):
            raise SetupError(
                f"{toolset!r} is a {type(found).__name__}",
                "name a Toolset, or the result of its bind()",
            )
        findings = [*findings_of(tools)]
        if policies:
            if tools.ownership is None:
                raise SetupError("the toolset has no Ownership", "leave out --policies")
            with schema.connect(require_url(url)) as connection:
                findings += policy_findings(connection, tools.ownership.belongings)
        printer = Printer(as_json=as_json)
        rows: list[Row] = [document_of(each) for each in findings]
        head = {"classes": len([*tools.tables])}
        wrong = [each for each in findings if each.remedy is not None]
        printer.print_rows(head | {"to_correct": len(wrong)}, "findings", rows, _COLUMNS)
    if strict and wrong:
        raise click.exceptions.Exit(1)


def findings_of(toolset: Toolset) -> Iterator[Finding]:
    """Yield the findings on the classes of a toolset, class by class.

    Args:
        toolset: the toolset; nothing is sent to a database.
    """
    for table in toolset.tables:
        if table.ends:  # an association table, which has no class of the application
            continue
        yield from _keys(table)
        yield from _columns(table)
        yield from _refused(table)
        if not (table.keys.label or table.keys.declares_label):
            remedy = "name what people call a row: __ref_label__, or RefPolicy(labels={...})"
            yield Finding(table.name, None, "no label: a wrong ref cannot be noticed", remedy)
        yield from _association_tables(toolset, table)
        yield from _owners(toolset, table)


def policy_findings(connection: Connection, tables: Iterable[Table]) -> Iterator[Finding]:
    """Yield faults of row-level security for the role of a connection.

    Args:
        connection: as the application connects.
        tables: the tables that have owners.
    """
    from sqlalchemy import text
    from sqlalchemy.dialects import postgresql

    quote = postgresql.dialect().identifier_preparer.format_table  # type: ignore[no-untyped-call]
    names = sorted(map(quote, tables))
    found = connection.execute(text(_POLICIES), {"names": names}).all()
    for name, is_missing, is_enabled, is_owner, has_policy in found:
        if is_missing:
            remedy = "create it, or pass the URL of the application's database"
            yield Finding(name, None, "the table is not in this database", remedy)
            continue
        if not is_enabled:
            remedy = f"alter table {name} enable row level security"
            yield Finding(name, None, "row-level security is not enabled", remedy)
        if is_owner:
            remedy = "connect as another role, or force row level security"
            yield Finding(name, None, "its owner is this role, or one whose rights it has", remedy)
        if not has_policy:
            yield Finding(name, None, "there is no policy", f"create policy … on {name}")
    for role in connection.scalars(text(_ROLE)):
        fact = "this role is a superuser, or has BYPASSRLS"
        yield Finding(role, None, fact, "connect as another role")


def _keys(table: Any) -> Iterator[Finding]:
    for name, column in table.keys.all.items():
        yield Finding(table.name, name, f"key: refs of {column.entity}")


def _columns(table: Any) -> Iterator[Finding]:
    from sqlalchemy import inspect

    from alfred_refs.mapping import key_type_of

    for attribute in inspect(table.model).mapper.column_attrs:
        name, column = attribute.key, attribute.columns[0]
        if name in table.hidden:
            continue
        if name in table.keys.refused:
            continue
        if name not in table.keys.all and key_type_of(column.type) == "uuid":
            if "ref" not in getattr(column, "info", {}):
                remedy = 'declare what it holds: info={"ref": Class}, or info={"ref": None}'
                yield Finding(table.name, name, "UUIDs of an undeclared kind", remedy)
        elif name in table.columns and table.columns[name].values.family == "opaque":
            remedy = "give the type a python_type, or hide the column: hidden=[...]"
            kind = type(column.type).__name__
            yield Finding(table.name, name, f"not shown: nothing is known of {kind}", remedy)


def _refused(table: Any) -> Iterator[Finding]:
    remedy = 'declare it with info={"ref": None}, if it may show keys'
    for name in table.keys.refused:
        yield Finding(table.name, name, "cannot be translated: it shows keys", remedy)


def _association_tables(toolset: Toolset, table: Any) -> Iterator[Finding]:
    """Yield the many-to-many relationships whose links no tool can write."""
    from sqlalchemy import inspect

    reached = {inspect(each.model).mapper.local_table.name for each in toolset.tables}
    for relationship in inspect(table.model).mapper.relationships:
        secondary = relationship.secondary
        if secondary is None or relationship.viewonly or secondary.name in reached:
            continue
        remedy = "list the class at the other end, and its table in the Ownership, if there is one"
        finding = f"association table {secondary.name!r} is reached by no tool"
        yield Finding(table.name, relationship.key, finding, remedy)


def _owners(toolset: Toolset, table: Any) -> Iterator[Finding]:
    from sqlalchemy import inspect

    ownership = toolset.ownership
    if ownership is None:
        remedy = "Toolset(..., owner=Ownership(...)), unless all users may see all rows"
        yield Finding(table.name, None, "no owner rule: every conversation sees all rows", remedy)
    elif inspect(table.model).mapper.local_table in ownership.open_tables:
        remedy = "take it out of Ownership(open=...), unless all owners may see all rows"
        yield Finding(table.name, None, "open: every owner sees all rows", remedy)
