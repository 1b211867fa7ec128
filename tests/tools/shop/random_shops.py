"""Random schemas with rows, and random calls on them, for the tests of recorded effects.

A schema is a tree of tables whose foreign keys do different things when a row is deleted or gets
another key, with columns of odd types, triggers and defaults. The tables of each have a prefix of
their own, so that many can be in one database.
"""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Computed,
    Date,
    DateTime,
    Engine,
    Enum,
    Float,
    ForeignKey,
    Identity,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, DOMAIN, INTERVAL, JSONB
from sqlalchemy.orm import DeclarativeBase, deferred, relationship

_NUMBERS = itertools.count(1)

Rows = dict[str, Counter[str]]


class Backwards(TypeDecorator[str]):
    """Text that is stored backwards."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _: object) -> str | None:
        """Return what is stored."""
        return value and value[::-1]

    def process_result_value(self, value: str | None, _: object) -> str | None:
        """Return what was stored."""
        return value and value[::-1]


# type, SQL of values that are there before, values that a model gives
_TYPES: dict[str, tuple[Any, list[str], list[Any]]] = {
    "text": (Text, ["'a'", "''", "'it''s: :x %s'", "NULL"], ["b", "", "é %(x)s :y"]),
    "backwards": (Backwards, ["'abc'", "NULL"], ["xyz", "q"]),
    "integer": (Integer, ["1", "-7", "NULL"], [2, -3]),
    "big": (BigInteger, ["9007199254740993", "NULL"], [5]),
    "numeric": (Numeric, ["'NaN'", "1.500", "1e40", "'Infinity'"], ["2.50", "3"]),
    "rounded": (Numeric(6, 2), ["1.5", "NULL"], ["2.345", "7"]),
    "float": (Float, ["'NaN'", "'-Infinity'", "0.1", "'-0'"], [0.25, 1e300]),
    "boolean": (Boolean, ["true", "NULL"], [False, True]),
    "json": (JSON, ['\'{"b":1,  "a": [1.0, null]}\'', "'null'", "NULL"], [{"z": [1]}]),
    "jsonb": (JSONB, ['\'{"b": 1, "a": 1e2}\'', "NULL"], [{"z": [1]}]),
    "array": (ARRAY(Text), ["ARRAY['a', NULL, '{']", "'{}'", "NULL"], [["b", "c,d"]]),
    "interval": (INTERVAL, ["'1 mon -3 days 04:05:06.7'", "NULL"], []),
    "moment": (
        DateTime(timezone=True),
        ["'infinity'", "'0044-03-15 12:00:00+01 BC'", "'2020-01-01 12:00+02'", "now()"],
        ["2021-05-05T10:00:00+02:00"],
    ),
    "local": (DateTime, ["'-infinity'", "'2020-01-01 12:00'"], ["2021-05-05T10:00:00"]),
    "date": (Date, ["'0001-01-01 BC'", "'2020-01-01'", "'infinity'"], ["2021-05-05"]),
    "uuid": (Uuid, ["gen_random_uuid()", "NULL"], []),
    "bytes": (LargeBinary, ["'\\x0001'", "NULL"], []),
}

_KEYS = ("uuid", "always", "identity", "text", "given")
_RULES = ("CASCADE", "SET NULL", "SET DEFAULT", None)


@dataclass
class Shop:
    """A random schema.

    Attributes:
        metadata: its tables.
        models: the listed classes, parents first.
        random: decides.
        schema: of the tables; `None` for the default.
        described: what was chosen, for the message of a failure.
    """

    metadata: MetaData
    models: list[Any]
    random: Random
    schema: str | None
    described: list[str] = field(default_factory=list)

    def stored(self, engine: Engine) -> Rows:
        """Return all rows as PostgreSQL writes them, and how often each is there."""
        with engine.connect() as connection:
            return {
                table.fullname: Counter(
                    connection.exec_driver_sql(
                        f"SELECT CAST(t AS text) FROM {quoted(table)} t"
                    ).scalars()
                )
                for table in self.metadata.sorted_tables
            }

    def create(self, engine: Engine) -> None:
        """Create the tables, with triggers and rows."""
        with engine.begin() as connection:
            if self.schema:
                connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"'))
            self.metadata.create_all(connection)
            for table in self.metadata.sorted_tables:
                if "touched" in table.columns:
                    for statement in _trigger(table):
                        connection.exec_driver_sql(statement)
            for table in self.metadata.sorted_tables:
                # the links are of the first two rows: those that are the same are not deleted
                for number in range(2 if "left" in table.columns else self.random.randint(2, 4)):
                    connection.exec_driver_sql(self._insert(table, number))

    def drop(self, engine: Engine) -> None:
        """Drop the tables."""
        with engine.begin() as connection:
            self.metadata.drop_all(connection)

    def _insert(self, table: Table, number: int) -> str:
        values = {
            column.name: value
            for column in table.columns
            for value in (self._value(column, number),)
            if value is not None
        }
        names = ", ".join(f'"{name}"' for name in values)
        verb = f"INSERT INTO {quoted(table)} ({names}) VALUES ({', '.join(values.values())})"
        return f"{verb} ON CONFLICT DO NOTHING".replace("%", "%%")

    def _value(self, column: Column[Any], number: int) -> str | None:
        """Return the SQL of a value, or `None` for the default."""
        if column.foreign_keys:
            return self._reference(column, number)
        if column.info.get("sql"):
            return str(self.random.choice(column.info["sql"]))
        if column.name == "label":
            return f"'{column.table.name} {number}'"
        of_key = {
            "text": f"'k{number}'",
            "given": str(number + 1),
            "number": str(number + 1),
            "uuid": "gen_random_uuid()",
        }
        return of_key.get(column.info.get("key", ""))

    def _reference(self, column: Column[Any], number: int) -> str:
        [key] = column.foreign_keys
        other, random = key.column.table, self.random
        is_first = other is column.table and number == 0
        if is_first or (column.nullable and random.random() < 0.3):
            return "NULL"
        place = 0 if other is column.table else random.randint(0, 1)
        if column.name == "left":
            place = number
        return f'(SELECT "{key.column.name}" FROM {quoted(other)} OFFSET {place} LIMIT 1)'


def quoted(table: Table) -> str:
    """Return the name of a table in SQL."""
    return f'"{table.schema}"."{table.name}"' if table.schema else f'"{table.name}"'


def _trigger(table: Table) -> Iterator[str]:
    name = f'"{table.name}_touch"'
    yield f"""CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN NEW.touched := length(NEW.label); RETURN NEW; END$$"""
    yield f"""CREATE TRIGGER {name} BEFORE INSERT OR UPDATE ON {quoted(table)}
        FOR EACH ROW EXECUTE FUNCTION {name}()"""


def random_shop(random: Random) -> Shop:
    """Make a schema."""
    prefix = f"rs{next(_NUMBERS)}"
    schema = random.choice([None, None, "odd Schema"])
    metadata = MetaData(schema=schema)
    base: Any = type("RandomBase", (DeclarativeBase,), {"metadata": metadata})
    shop = Shop(metadata, [], random, schema)
    parents: list[Any] = []
    for number in range(random.randint(2, 4)):
        parent = random.choice(parents) if parents else None
        model = _model(shop, base, f"{prefix}_t{number}", parent)
        parents.append(model)
        is_listed = number < 2 or random.random() < 0.5
        if is_listed:
            shop.models.append(model)
    if random.random() < 0.5:
        _many_to_many(shop, prefix, *shop.models[:2])
    if random.random() < 0.6:  # rows that no model knows
        target = random.choice(parents)
        _hidden_table(shop, prefix, target)
    base.registry.configure()
    return shop


def _key_column(kind: str) -> Column[Any]:
    info = {"key": kind}
    match kind:
        case "uuid":
            return Column(Uuid, primary_key=True, default=uuid.uuid4, info=info)
        case "always":
            return Column(Integer, Identity(always=True), primary_key=True, info=info)
        case "identity":
            return Column(BigInteger, Identity(), primary_key=True, info=info)
        case "text":
            return Column(Text, primary_key=True, info=info)
        case _:
            return Column(Integer, primary_key=True, autoincrement=False, info=info)


def _model(shop: Shop, base: Any, name: str, parent: Any) -> Any:
    random = shop.random
    attributes: dict[str, Any] = {
        "__tablename__": name,
        "__ref_label__": "label",
        "label": Column(Text),
    }
    is_composite = parent is not None and random.random() < 0.25
    if is_composite:
        for each in ("number", "other"):
            attributes[each] = Column(
                Integer, primary_key=True, autoincrement=False, info={"key": "number"}
            )
    else:
        kind = random.choice(_KEYS)
        key = attributes["id"] = _key_column(kind)
        key.name = key.key = random.choice(["id", "odd Id"]) if kind in ("uuid", "text") else "id"
        if random.random() < 0.3:
            rule = random.choice(["SET NULL", "CASCADE", None])
            attributes["next_id"] = Column(ForeignKey(key, ondelete=rule))
    _add_columns(shop, name, attributes)
    _add_special_columns(shop, attributes)
    options = None
    if parent is not None and len(parent.__table__.primary_key) == 1:
        options = _add_parent(random, name, attributes, parent, is_key=is_composite)
    shop.described.append(f"{name}: {', '.join(attributes)}")
    model = type(name.title().replace("_", ""), (base,), attributes)
    if options is not None:
        back = relationship(model, back_populates="parent", **options)
        setattr(parent, f"{name}_rows", back)
    return model


def _add_columns(shop: Shop, name: str, attributes: dict[str, Any]) -> None:
    """Add columns of random types."""
    random = shop.random
    types = dict(_TYPES)
    types["enum"] = (
        Enum("on", "off it", name=f"{name}_state", metadata=shop.metadata),
        ["'on'", "'off it'"],
        ["on"],
    )
    types["domain"] = (
        DOMAIN(f"{name} small", Integer, metadata=shop.metadata),
        ["1", "NULL"],
        [3],
    )
    for number, kind in enumerate(random.sample([*types], random.randint(1, 4))):
        type_, sql, given = types[kind]
        name_of = random.choice(["c", "c", "odd:Name %"]) + str(number)
        column = Column(name_of, type_, info={"sql": sql, "given": given, "type": kind})
        attributes[f"c{number}"] = deferred(column) if random.random() < 0.2 else column


def _add_special_columns(shop: Shop, attributes: dict[str, Any]) -> None:
    """Add columns whose values the database or the ORM decides."""
    moment, now = DateTime(timezone=True), func.now()
    columns = {
        "made_at": Column(moment, server_default=now),
        "touched": Column(Integer),  # by a trigger
        "changed_at": Column(moment, server_default=now, onupdate=now),
        "doubled": Column(Text, Computed("label || label")),
        "version": Column(Integer, nullable=False, server_default="1"),
    }
    attributes |= {n: column for n, column in columns.items() if shop.random.random() < 0.25}
    if "version" in attributes:
        attributes["__mapper_args__"] = {"version_id_col": attributes["version"]}


def _add_parent(
    random: Random, name: str, attributes: dict[str, Any], parent: Any, *, is_key: bool
) -> dict[str, Any] | None:
    """Add a foreign key; return the options of the relationship of the parent, if it has one."""
    rule, on_update = random.choice(_RULES), random.choice([None, "CASCADE"])
    target = next(iter(parent.__table__.primary_key))
    attributes["parent_id"] = Column(
        ForeignKey(target, ondelete=rule, onupdate=on_update),
        primary_key=is_key,
        nullable=not is_key and (rule in ("SET NULL", "SET DEFAULT") or random.random() < 0.5),
    )
    options = random.choice(
        [
            {"cascade": "all, delete-orphan"},
            {},
            {"cascade": "all, delete", "passive_deletes": True},
            None,
        ]
    )
    if options is not None:
        attributes["parent"] = relationship(parent, back_populates=f"{name}_rows")
    return options


def _many_to_many(shop: Shop, prefix: str, left: Any, right: Any) -> None:
    keys = [[*each.__table__.primary_key] for each in (left, right)]
    if any(len(key) > 1 for key in keys):
        return
    random = shop.random
    has_key = random.random() < 0.5
    links = Table(
        f"{prefix}_links",
        shop.metadata,
        Column(
            "left",
            ForeignKey(keys[0][0], ondelete=random.choice(["CASCADE", None])),
            primary_key=has_key,
        ),
        Column("right", ForeignKey(keys[1][0]), primary_key=has_key),
        *([] if has_key else [Column("note", JSON, info={"sql": ["'{}'", "NULL"]})]),
    )
    shop.described.append(f"links, key={has_key}")
    left.linked = relationship(right, secondary=links, backref="linking")


def _hidden_table(shop: Shop, prefix: str, target: Any) -> None:
    [key, *more] = target.__table__.primary_key
    if more:
        return
    random = shop.random
    rule = random.choice(["CASCADE", "SET NULL"])
    Table(
        f"{prefix}_hidden",
        shop.metadata,
        Column("of", ForeignKey(key, ondelete=rule)),
        Column("number", Integer, info={"key": "number"}),
        *([UniqueConstraint("number")] if random.random() < 0.3 else []),
        *(
            [Column("id", Integer, Identity(always=True), primary_key=True)]
            if random.random() < 0.6
            else []
        ),
    )
    shop.described.append(f"hidden of {target.__tablename__} {rule}")
