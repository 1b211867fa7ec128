"""Alembic integration for applications (public path).

What an application's own Alembic environment takes from here: a hook, or calls in revisions.

Either `alfred-refs migrate` makes the registry's tables, and `include_name` keeps autogenerate
away from them; or the application lists `registry.metadata` among its `target_metadata`, and its
revisions call `upgrade` where one of ours rewrites rows. Autogenerate that would mix the two, or
lose rows, is refused from the moment this module is imported. Nothing here connects to a database.

```python
from alfred_refs.store.alembic import include_name

context.configure(connection, target_metadata=Base.metadata, include_name=include_name)
```

`docs/registry.md` has both ways, and how to change from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa
from alembic import op
from alembic.autogenerate import comparators
from alembic.util import CommandError
from sqlalchemy import Connection

from alfred_refs.errors import RegistryMigrationError
from alfred_refs.store.schema import VERSION_TABLE, current_revision, revision_of_tables, revisions

if TYPE_CHECKING:
    from alembic.autogenerate.api import AutogenContext
    from alembic.script import Script

__all__ = ["downgrade", "hand_over", "include_name", "upgrade"]


_COPY = "SELECT set_config('{}', current_setting('{}'), true)"


class RefusedMigrationError(RegistryMigrationError, CommandError):
    """Is told by the `alembic` command on one line, as its own errors are."""


def include_name(name: str | None, type_: str, parent_names: MutableMapping[Any, Any]) -> bool:
    """Keep autogenerate away from what `alfred-refs migrate` makes: Alembic's hook of that name.

    That is each table whose name starts with `alfred_refs_`, in any schema, and the schema that
    has their partitions.

    ```python
    def include_mine(name, type_, parent_names):
        return include_name(name, type_, parent_names) and name not in NOT_MINE
    ```

    Args:
        name: of a table or of something else in the database.
        type_: what it is, in Alembic's words: `"table"`, `"schema"`, `"column"`.
        parent_names: where it is; it makes no difference.

    Returns:
        whether autogenerate is to look at it.

    Example:
        >>> include_name("recipes", "table", {}), include_name("alfred_refs_counter", "table", {})
        (True, False)
    """
    del parent_names
    return type_ not in ("table", "schema") or not _is_ours(name)


def upgrade(revision: str, *, schema: str | None = None) -> None:
    """Bring the registry's tables up to one of our revisions, in a revision of the application's.

    Whatever they are at: what is done is not done again, and where there are none they are made.
    From then on they are the application's, and `alfred-refs migrate` refuses to migrate them.

    ```python
    def upgrade():
        alfred_refs.store.alembic.upgrade("0003")
    ```

    Args:
        revision: its number; not `"head"`, which is another one in each version.
        schema: where the tables are, if that is not the connection's default.

    Raises:
        RegistryMigrationError: this version has no such revision.

    Example:
        >>> with revision():  # in the upgrade() of a revision of yours
        ...     upgrade("0006")
        >>> registry.describe("chat-7").refs  # all that was there
        {'line': 2, 'recipe': 2}
    """
    with _inside(schema):
        _upgrade(revision)


def downgrade(revision: str, to: str, *, schema: str | None = None) -> None:
    """Undo our revisions down to `to`, in a revision of the application's.

    ```python
    def downgrade():
        alfred_refs.store.alembic.downgrade("0003", to="0001")
    ```

    Args:
        revision: the number of the one that the tables are at.
        to: the number of the one that they are to be at, or `"base"`.
        schema: as for `upgrade`.

    Raises:
        RegistryMigrationError: this version has no such revision, or `to` is the later one.

    Example:
        >>> with revision():  # in the downgrade() of a revision of yours
        ...     downgrade("0006", to="0005")
        >>> from sqlalchemy import inspect
        >>> inspect(engine).has_table("alfred_refs_activity")
        False
    """
    applied, remaining = _up_to(revision), [] if to == "base" else _up_to(to)
    if len(remaining) > len(applied):
        raise RefusedMigrationError(
            f"a downgrade from revision {revision!r} does not lead to {to!r}",
            "give the later one first",
        )
    with _inside(schema):
        for script in reversed(applied[len(remaining) :]):
            script.module.downgrade()


def hand_over(revision: str, *, schema: str | None = None) -> None:
    """Leave the registry's tables to `alfred-refs migrate`, in a revision of the application's.

    They are brought up to `revision` first; `alfred-refs migrate` goes on from there.

    ```python
    def upgrade():
        alfred_refs.store.alembic.hand_over("0004")
    ```

    Args:
        revision: the number of the one that they are to be at.
        schema: as for `upgrade`.

    Raises:
        RegistryMigrationError: this version has no such revision.

    Example:
        >>> with revision():
        ...     upgrade("0005")
        >>> with revision():  # in the upgrade() of a revision of yours
        ...     hand_over("0006")
        >>> from sqlalchemy import inspect
        >>> inspect(engine).has_table("alfred_refs_alembic_version")
        True
    """
    with _inside(schema):
        _upgrade(revision)
        table = op.create_table(
            VERSION_TABLE,
            sa.Column("version_num", sa.String(32), nullable=False),
            sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
        )
        op.bulk_insert(table, [{"version_num": revision}])


def _upgrade(revision: str) -> None:
    for script in _up_to(revision):
        script.module.upgrade()
    # it tells that they are not the application's
    op.drop_table(VERSION_TABLE, if_exists=True)


def _up_to(revision: str) -> list[Script]:
    """Return our revisions from the first up to one, which must be known."""
    found = revisions()
    numbers = [script.revision for script in found]
    if revision not in numbers:
        raise RefusedMigrationError(
            f"the registry's tables have no revision {revision!r}",
            f"give one of {', '.join(map(repr, numbers))}, or install a version that has it",
        )
    return found[: numbers.index(revision) + 1]


@contextmanager
def _inside(schema: str | None) -> Iterator[None]:
    """Let names without a schema be those of one, for as long as the `with` lasts.

    What was is kept in a setting of ours, so that it works offline too.
    """
    if schema is None:
        yield
        return
    quoted = op.get_context().dialect.identifier_preparer.quote_identifier(schema)
    op.execute(_COPY.format("alfred_refs.search_path", "search_path"))
    op.execute(f"SET LOCAL search_path TO {quoted}")
    yield
    op.execute(_COPY.format("search_path", "alfred_refs.search_path"))


def _is_ours(name: str | None) -> bool:
    return (name or "").startswith("alfred_refs_")


# for all environments: plugins with a name, which one may choose from, begin with Alembic 1.18
@comparators.dispatch_for("schema")
def _check(context: AutogenContext, _: object, __: object) -> None:
    """Refuse to compare the registry's tables where what comes of it would harm them.

    That is where somebody else migrates them, or their rows are to be rewritten.
    """
    listed = [table for table in context.sorted_tables if _is_ours(table.name)]
    if not listed or context.migration_context.version_table == VERSION_TABLE:
        return
    name, schema = listed[0].name, listed[0].schema
    if not context.run_name_filters(name, "table", {"schema_name": schema}):
        raise RefusedMigrationError(
            "target_metadata has the registry's tables, and include_name leaves them out",
            "take registry.metadata out of target_metadata if `alfred-refs migrate` makes the "
            "tables, and alfred_refs.store.alembic.include_name out of include_name if it does "
            "not",
        )
    connection = cast(Connection, context.connection)  # offline nothing is compared
    if current_revision(connection, schema) is not None:
        raise RefusedMigrationError(
            "target_metadata has the registry's tables, and `alfred-refs migrate` made them",
            "take registry.metadata out of target_metadata and give "
            "include_name=alfred_refs.store.alembic.include_name; or take the tables over, by a "
            f"revision that calls alfred_refs.store.alembic.upgrade({revisions()[-1].revision!r})",
        )
    _check_rows(revision_of_tables(connection, schema))


def _check_rows(current: str | None) -> None:
    """Refuse to compare tables whose rows are to be rewritten by later revisions of ours."""
    later = [] if current is None else revisions()[len(_up_to(current)) :]
    rewriting = [script.revision for script in later if script.module.rewrites_rows]
    if rewriting:
        raise RefusedMigrationError(
            f"the registry's tables are at revision {current!r}, and autogenerate cannot rewrite "
            f"their rows as revision {rewriting[-1]!r} does",
            "write a revision of yours that calls "
            f"alfred_refs.store.alembic.upgrade({rewriting[-1]!r}), and upgrade to it first",
        )
