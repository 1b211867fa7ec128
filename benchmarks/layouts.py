"""What other layouts of the mapping table would weigh and cost: `python -m benchmarks.layouts`.

The same mappings come to each layout in the order in which a store mints them (`growth`), a part
of them in one statement, because only the server's work and the disk are compared. Reading is a
join that does one index look-up for each ref or key. Times are CPU time of the server's process,
as Linux counts it. Nothing here is part of the package: it is what `store/schema.py` goes by.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console

from alfred_refs.mapping.keys import encode
from benchmarks import report
from benchmarks.growth import ENTITIES, GROWN, results
from tests.postgres.server import embedded_server

_WANTED = 20_000  # look-ups by which reading is timed
_READS = 10
_PARTS = 20  # in which a layout is filled

_SAME_REF = "(k.conversation, k.kind, k.number) = (w.conversation, w.kind, w.number)"

_HEAD = ("layout", "bytes", "table", "by ref", "by key", "mint", "resolve", "refer")

_PACKAGE = "conversation uuid, number int, kind smallint, key bytea, gone text"
_TEXT = _PACKAGE.replace("smallint", "text")
_DIGEST = _PACKAGE.replace("smallint", "int")

# an entity's number stands for it: any of two bytes weighs the same
_NUMBER_OF_ENTITY = ("kind", "(hashtext(entity) % 1000)::smallint")
_NAME_OF_ENTITY = ("kind", "entity")
_DIGEST_OF_ENTITY = ("kind", "hashtext(entity)")
_SHORT_DIGEST = ("conversation", "hashtextextended(conversation::text, 0)")


Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to keep mappings.

    Attributes:
        what: is different from the package's own.
        columns: as in CREATE TABLE.
        by_ref: the index that finds a key: what follows its name.
        by_key: the index that finds a ref: what follows its name.
        key_is_unique: whether that index can say so.
        same_key: how a ref is looked up.
        values: how to make a column's value of what was minted, where it is another.
    """

    what: str
    columns: str = _PACKAGE
    by_ref: str = "(conversation, kind, number)"
    by_key: str = "(conversation, kind, key)"
    key_is_unique: bool = True
    same_key: str = "(k.conversation, k.kind, k.key) = (w.conversation, w.kind, w.key)"
    values: tuple[tuple[str, str], ...] = (_NUMBER_OF_ENTITY,)

    @property
    def select(self) -> str:
        """What makes this layout's rows of those in `minted`."""
        values = dict(self.values)
        names = [column.split()[0] for column in self.columns.split(", ")]
        return ", ".join(f"{values.get(name, name)} as {name}" for name in names)


LAYOUTS = (
    Layout("the package's"),
    Layout(
        "kind before number",
        "conversation uuid, kind smallint, number int, key bytea, gone text",
    ),
    Layout(
        "kind last in the indexes",
        by_ref="(conversation, number, kind)",
        by_key="(conversation, key, kind)",
    ),
    Layout("entity by name", _TEXT, values=(_NAME_OF_ENTITY,)),
    Layout(
        "entity by name, before number",
        "conversation uuid, kind text, number int, key bytea, gone text",
        values=(_NAME_OF_ENTITY,),
    ),
    Layout("entity as a digest of 4 bytes", _DIGEST, values=(_DIGEST_OF_ENTITY,)),
    Layout(
        "key as uuid, other kinds elsewhere",
        "conversation uuid, key uuid, number int, kind smallint, gone text, other bytea",
        values=(
            _NUMBER_OF_ENTITY,
            ("key", "encode(substr(key, 2), 'hex')::uuid"),
            ("other", "null::bytea"),
        ),
    ),
    Layout(
        "conversation as bigint, looked up first",
        _PACKAGE.replace("uuid", "bigint"),
        values=(_NUMBER_OF_ENTITY, ("conversation", "serial")),
    ),
    Layout(
        "conversation as a digest of 8 bytes",
        _PACKAGE.replace("uuid", "bigint"),
        values=(_NUMBER_OF_ENTITY, _SHORT_DIGEST),
    ),
    Layout(
        "both as such digests",
        _DIGEST.replace("uuid", "bigint"),
        values=(_DIGEST_OF_ENTITY, _SHORT_DIGEST),
    ),
    Layout(
        "indexes that cover",
        by_ref="(conversation, kind, number) include (key, gone)",
        by_key="(conversation, kind, key) include (number, gone)",
    ),
    Layout("hash index by key", by_key="using hash (key)", key_is_unique=False),
    Layout(
        "by a hash of the key of 4 bytes",
        by_key="(conversation, hashbytea(key))",
        key_is_unique=False,
        same_key="(k.conversation, k.kind, k.key, hashbytea(k.key)) "
        "= (w.conversation, w.kind, w.key, hashbytea(w.key))",
    ),
    Layout(
        "fillfactor 70",
        by_ref="(conversation, kind, number) with (fillfactor = 70)",
        by_key="(conversation, kind, key) with (fillfactor = 70)",
    ),
)


def main(arguments: Sequence[str]) -> int:
    """Measure every layout on a server of our own, print the table and write it."""
    options = _parser().parse_args(arguments)
    with embedded_server(durable=True) as url:
        host = str(url.query["host"])
        with psycopg.connect(host=host, user="postgres", autocommit=True) as connection:
            _mint(connection, options.mappings, options.entities)
            lines = [_measured(connection, layout, options.mappings) for layout in LAYOUTS]
    title = (
        f"{options.mappings:,} mappings of {', '.join(options.entities)}; {GROWN}. "
        "Bytes and microseconds of the server's CPU for each mapping."
    )
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(report.console_table(_HEAD, lines), title)
    options.write.parent.mkdir(exist_ok=True)
    options.write.write_text(
        f"# Layouts\n\n{title}\n\n{report.markdown_table(_HEAD, lines)}", "utf-8"
    )
    return 0


def _mint(connection: Connection, mappings: int, entities: Sequence[str]) -> None:
    """Write what is to be kept, in the order in which a store numbers it."""
    connection.execute(
        "create table minted (position int primary key, conversation uuid, serial bigint, "
        "entity text, number int, key bytea, gone text)"
    )
    with connection.cursor() as cursor, cursor.copy("copy minted from stdin") as copy:
        for row in _rows(mappings, entities):
            copy.write_row(row)
    connection.execute("vacuum analyze minted")


def _rows(mappings: int, entities: Sequence[str]) -> Iterator[Sequence[object]]:
    serials: dict[object, int] = {}
    numbers: Counter[object] = Counter()
    position = 0
    for address, keys in results(mappings, entities):
        serial = serials.setdefault(address, len(serials))
        # a store numbers one entity after the other
        for entity, key in sorted(keys, key=lambda pair: pair[0]):
            position += 1
            numbers[serial, entity] += 1
            number = numbers[serial, entity]
            yield position, address.digest, serial, entity, number, encode(key), None


def _measured(connection: Connection, layout: Layout, mappings: int) -> Sequence[str]:
    """Return a layout's line of the table."""
    unique = "unique" if layout.key_is_unique else ""
    connection.execute("drop table if exists layout, wanted")
    connection.execute(f"create table layout ({layout.columns})")
    connection.execute(f"create unique index by_ref on layout {layout.by_ref}")
    connection.execute(f"create {unique} index by_key on layout {layout.by_key}")
    mint = _fill(connection, layout, mappings)
    weights = [_bytes(connection, name) / mappings for name in ("layout", "by_ref", "by_key")]
    connection.execute(
        f"create table wanted as select {layout.select} from minted "
        f"order by random() limit {_WANTED}"
    )
    connection.execute("vacuum analyze layout, wanted")
    resolve = _read(connection, _SAME_REF)
    # what else might serve for look-ups by key
    connection.execute("drop index by_ref")
    refer = _read(connection, layout.same_key)
    times = [seconds * 1e6 for seconds in (mint / mappings, resolve / _WANTED, refer / _WANTED)]
    cells = [f"{weight:.0f}" for weight in (sum(weights), *weights)]
    return layout.what, *cells, *(f"{time:.1f}" for time in times)


def _fill(connection: Connection, layout: Layout, mappings: int) -> float:
    """Keep what was minted, and return the seconds that it took."""
    begun = _cpu(connection)
    for part in range(_PARTS):
        first, last = (mappings * n // _PARTS for n in (part, part + 1))
        connection.execute(
            f"insert into layout select {layout.select} from minted "
            f"where position > {first} and position <= {last} order by position"
        )
    return _cpu(connection) - begun


def _read(connection: Connection, same: str) -> float:
    """Look up what is wanted, each by the index, and return the seconds that it took."""
    query = f"select count(k.number), count(k.key) from wanted w join layout k on {same}"
    with connection.transaction():
        for other in ("hashjoin", "mergejoin", "seqscan", "memoize", "material"):
            connection.execute(f"set local enable_{other} = off")
        begun = _cpu(connection)
        for _ in range(_READS):
            connection.execute(query)
        return (_cpu(connection) - begun) / _READS


def _cpu(connection: Connection) -> float:
    """Return the CPU seconds of the server's process: see `man proc_pid_stat`."""
    status = Path(f"/proc/{connection.info.backend_pid}/stat").read_text()
    user, system = status.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _bytes(connection: Connection, name: str) -> int:
    """Return what a table or an index weighs without what hangs on it."""
    found = connection.execute("select pg_relation_size(%s)", [name]).fetchone()
    return int(found[0]) if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layouts", description=__doc__)
    parser.add_argument("--mappings", type=int, default=1_000_000)
    parser.add_argument("--entities", nargs="+", default=ENTITIES, help="at least two names")
    parser.add_argument("--write", type=Path, default=report.RESULTS / "layouts.md")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
