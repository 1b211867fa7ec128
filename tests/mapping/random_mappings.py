"""Random mappings: classes made of SQLAlchemy's constructs, with rows.

`mapping_of(seed)` makes `Node`, a subclass of it, `Item`, of which a node has several, and `Tag`,
linked to nodes by a secondary table. The seed chooses the style, keys, inheritance, relationships
and other attributes. Keys are counted, so that two programs on new tables get the same ones.
"""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import random
import uuid
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import new_class
from typing import Any

from sqlalchemy import (
    CHAR,
    JSON,
    BigInteger,
    Column,
    Computed,
    Date,
    Enum,
    Float,
    ForeignKeyConstraint,
    Identity,
    Integer,
    MetaData,
    Sequence,
    String,
    Table,
    TypeDecorator,
    Uuid,
    case,
    cast,
    event,
    func,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, DOMAIN
from sqlalchemy.ext.associationproxy import association_proxy
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.ext.orderinglist import ordering_list
from sqlalchemy.orm import (
    DeclarativeBase,
    DynamicMapped,
    Mapped,
    MappedAsDataclass,
    Session,
    WriteOnlyMapped,
    attribute_keyed_dict,
    backref,
    column_property,
    composite,
    configure_mappers,
    mapped_column,
    query_expression,
    registry as new_registry,
    relationship,
    synonym,
    validates,
)

LAZY = "select joined subquery selectin immediate raise raise_on_sql dynamic write_only noload"

COLLECTIONS: dict[str, tuple[Any, Callable[[], Any]]] = {
    "list": (list, lambda: list),
    "set": (set, lambda: set),
    "by name": (dict, lambda: attribute_keyed_dict("name")),
    "by key": (dict, lambda: attribute_keyed_dict("id")),
    "ordered": (list, lambda: ordering_list("place")),
}


@dataclass
class Pair:
    """The value of a composite attribute."""

    one: Any = None
    two: Any = None


Colour = enum.Enum("Colour", ["RED", "BLUE", "GREEN"])
Shade = enum.StrEnum("Shade", ["DARK", "LIGHT"])


class Guid(TypeDecorator[uuid.UUID]):
    """UUIDs that are stored as text, as in SQLAlchemy's recipe."""

    impl, cache_ok, python_type = CHAR(32), True, uuid.UUID

    def process_bind_param(self, value: Any, _: object) -> Any:
        """Return the stored value."""
        return value and uuid.UUID(str(value)).hex

    def process_result_value(self, value: Any, _: object) -> Any:
        """Return the value in Python."""
        return value and uuid.UUID(value)


class Plain(TypeDecorator[uuid.UUID]):
    """Decorates another type, and changes nothing."""

    impl, cache_ok = Uuid, True


class Shaded(TypeDecorator[Shade]):
    """Texts that are members of an enumeration, without a `python_type`."""

    impl, cache_ok = String, True

    def process_result_value(self, value: Any, _: object) -> Any:
        """Return the value in Python."""
        return value and Shade(value)


def _uuid(number: int) -> uuid.UUID:
    return uuid.UUID(int=number * 0x10001 + (0xABCDEF << 100), version=4)


def _day(number: int) -> dt.date:
    return dt.date(2031, 1, 1) + dt.timedelta(days=number)


# kind of key -> its type, and the value of each number unless the database gives it
KEYS: dict[str, tuple[Callable[[], Any], Callable[[int], Any] | None]] = {
    "uuid": (Uuid, _uuid),
    "uuid as text": (lambda: Uuid(as_uuid=False), lambda number: str(_uuid(number))),
    "guid": (Guid, _uuid),
    "plain": (Plain, _uuid),
    "integer": (Integer, None),
    "big": (BigInteger, None),
    "text": (lambda: String(20), lambda number: f"sk-{number:06}"),
    "enum": (lambda: Enum(Colour), lambda number: [*Colour][number % 3]),
    "date": (Date, _day),
    "float": (Float, lambda number: number + 0.5),
    "two uuids": (Uuid, _uuid),
    "server uuid": (Uuid, None),
}
_SERVER_UUID = "('abcdef00-0000-4000-8000-' || lpad(nextval('numbers')::text, 12, '0'))::uuid"

COLUMNS: dict[str, Callable[[], Column[Any]]] = {
    "colour": partial(Column, "colour", Enum(Colour, name="colour"), default=Colour.BLUE),
    "shade": partial(Column, "shade", Enum(Shade, native_enum=False), default=Shade.DARK),
    "shaded": partial(Column, "shaded", Shaded, default=Shade.DARK),
    "texts": partial(Column, "texts", ARRAY(String), default=["a", "b"]),
    "document": partial(Column, "document", JSON, default={"a": 1}),
    "loose": partial(Column, "loose", Uuid, default=_uuid(99)),
    "dot.ted": partial(Column, "dot.ted", Integer, default=4),
    "domain": lambda: Column("domain", DOMAIN("positive", Integer, check="VALUE > 0"), default=4),
    "domains": lambda: Column("domains", ARRAY(DOMAIN("word", String)), default=["w"]),
    "day": partial(Column, "day", Date, default=_day(5)),
    "version": partial(Column, "version", Integer, nullable=False),
    "changes": partial(Column, "changes", Integer, default=0, onupdate=7),
    "given": partial(Column, "given", Integer, server_default="5"),
    "set_by": partial(Column, "set_by", String, server_default="x", onupdate=lambda: "y"),
    "computed": lambda: Column("computed", Integer, Computed("size * 3")),
}
_POSTGRES = ("big", "server uuid", "texts", "domain", "domains")

# what needs only the columns of the class; the second would show keys, as does `key_pair`
PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "double": lambda c: column_property(c["size"] + c["size"]),
    "key_text": lambda c: column_property(case((c["size"] > 0, cast(c["key"], String)), else_="")),
    "story": lambda c: column_property(c["size"] + 1, deferred=True),
    "stories": lambda c: column_property(c["size"] + 2, deferred=True, group="g", raiseload=True),
    "query": lambda _: query_expression(),
    "pair": lambda _: composite(Pair, "size", "sort"),
    "key_pair": lambda _: composite(Pair, "key", "size"),
    "synonym": lambda _: synonym("size"),
    "key_synonym": lambda _: synonym("key"),
}
ATTRIBUTES: dict[str, Callable[[], Any]] = {
    "hybrid": lambda: hybrid_property(lambda self: self.size + 1),
    "key_hybrid": lambda: hybrid_property(lambda self: self.key),
    "proxy": lambda: association_proxy("items", "name"),
    "check": lambda: validates("name")(lambda _, __, value: value),
}
FEATURES = (
    *(*COLUMNS, *PROPERTIES, *ATTRIBUTES, "count", "newest"),
    *("above", "lines", "inline", "orphans", "passive"),
)


@dataclass
class Mapping:
    """A random mapping: its classes, of which `kind` may be `node` itself, and its choices."""

    chosen: dict[str, Any]
    registry: new_registry
    node: Any = None
    kind: Any = None
    item: Any = None
    tag: Any = None
    numbers: Any = None

    @property
    def metadata(self) -> MetaData:
        """The tables."""
        return self.registry.metadata

    @property
    def classes(self) -> list[Any]:
        """The classes, each once."""
        return [*dict.fromkeys((self.node, self.kind, self.item, self.tag))]

    @property
    def keys(self) -> tuple[str, ...]:
        """The key attributes of a node."""
        return ("key", "other") if self.chosen["key"] == "two uuids" else ("key",)

    def new_node(self, number: int) -> Any:
        """Return a node; each second is of the subclass."""
        return made(self.kind if number % 2 else self.node, name=f"node {number}", size=number + 2)

    def new_item(self, name: str, place: int, node: Any) -> Any:
        """Return an item of a node, by its foreign keys."""
        keys = {f"node_{each}": getattr(node, each) for each in self.keys}
        return made(self.item, name=name, place=place, **keys)

    def has_items(self, node: Any) -> bool:
        """Return whether items may refer to a row: not to one of another table."""
        return self.chosen["inheritance"] != "concrete" or type(node) is self.node

    def fill(self, session: Session) -> None:
        """Add three nodes with two items each, and two tags."""
        self.numbers = itertools.count(1)
        tags = [made(self.tag, name=f"tag {n}") for n in (1, 2)]
        session.add_all(tags)
        session.flush()
        for number in range(3):
            session.add(node := self.new_node(number))
            session.flush()
            if self.has_items(node):
                session.add_all(self.new_item(f"item {number}.{at}", at, node) for at in (0, 1))
                node.tags.append(tags[number % 2])
            session.flush()
        session.commit()


def made(class_: Any, **values: Any) -> Any:
    """Return an instance with attributes; not all are parameters of a dataclass."""
    instance = class_()
    for name, value in values.items():
        setattr(instance, name, value)
    return instance


class _Maker:
    """Makes one mapping."""

    def __init__(self, seed: int, given: dict[str, Any], *, postgres: bool) -> None:
        choose = random.Random(seed)  # noqa: S311  # not a secret
        self.postgres = postgres
        self.chosen: dict[str, Any] = {
            "seed": seed,
            "style": choose.choice(("declarative", "dataclass", "imperative")),
            "key": choose.choice(("uuid", "integer", *KEYS)),
            "inheritance": choose.choice(("none", "single", "joined", "other key", "concrete")),
            "on": choose.choice(("column", "expression", "property")),
            "lazy": choose.choice(LAZY.split()),
            "collection": choose.choice([*COLLECTIONS]),
            "uselist": choose.choice((None, None, None, False)),
            "back": choose.choice((None, "select", "joined", "selectin", "raise", "noload")),
            "polymorphic": choose.choice((None, "*", "selectin", "inline")),
            "eager_defaults": choose.choice((True, False, "auto")),
            "features": [name for name in FEATURES if choose.random() < 0.35],
            **given,
        }
        unusable = set() if postgres else {*_POSTGRES}
        if self.chosen["key"] in unusable:
            self.chosen["key"] = "integer"
        if self.chosen["lazy"] in ("dynamic", "write_only"):
            self.chosen |= {"uselist": None, "collection": "list"}
        if self.chosen["collection"] == "by key":
            unusable.add("lines")
        if self.chosen["style"] == "dataclass" and self.chosen["collection"] == "set":
            self.chosen["collection"] = "list"  # its instances have no hash
        if self.chosen["inheritance"] == "concrete":
            unusable.add("version")  # SQLAlchemy looks for the column of the base
        self.chosen["features"] = [n for n in self.chosen["features"] if n not in unusable]
        self.has = self.chosen["features"].__contains__
        self.type, self.value = KEYS[self.chosen["key"]]
        self.mapping = Mapping(self.chosen, new_registry(metadata=MetaData()))
        is_dataclass = self.chosen["style"] == "dataclass"
        body = {"registry": self.mapping.registry, "__module__": __name__}
        bases = (MappedAsDataclass, DeclarativeBase) if is_dataclass else (DeclarativeBase,)
        self.base = new_class("Base", bases, {}, lambda namespace: namespace.update(body))

    def make(self) -> Mapping:
        """Return the mapping."""
        m, names = self.mapping, [f"node_{key}" for key in self.mapping.keys]
        m.tag = self.map("Tag", [self.counted("id"), Column("name", String)])
        tagged = [Column(name, self.type(), primary_key=True) for name in names]
        tag_id = Column("tag_id", Uuid, primary_key=True)
        to_tag = ForeignKeyConstraint(["tag_id"], ["tags.id"])
        Table("tagged", m.metadata, *tagged, tag_id, self.to_node(names), to_tag)
        is_line = self.has("lines")
        items = [Column(name, self.type(), primary_key=is_line) for name in names]
        items += [] if is_line else [self.counted("id")]
        items += [Column("place", Integer, primary_key=is_line, autoincrement=False)]
        m.item = self.map("Item", [*items, Column("name", String)], extra=[self.to_node(names)])
        m.node = self.node()
        m.kind = m.node if self.chosen["inheritance"] == "none" else self.kind()
        self.late()
        configure_mappers()
        return m

    def counted(self, name: str, value: Callable[[int], Any] = _uuid) -> Column[Any]:
        """Return a primary key column whose values are counted."""
        default = lambda: value(next(self.mapping.numbers))  # noqa: E731
        type_ = Uuid() if name == "id" else self.type()
        return Column(name, type_, primary_key=True, default=default)

    def key(self, name: str) -> Column[Any]:
        """Return a primary key column of a node."""
        if self.value is not None:
            return self.counted(name, self.value)
        if self.chosen["key"] == "server uuid":
            Sequence("numbers", metadata=self.mapping.metadata)
            return Column(name, Uuid, primary_key=True, server_default=text(_SERVER_UUID))
        start = 7_000_001 if self.chosen["key"] == "integer" else 2**55 + 1
        identity = [Identity(start=start)] if self.postgres else []
        return Column(name, self.type(), *identity, primary_key=True)

    def to_node(self, names: list[str]) -> ForeignKeyConstraint:
        """Return the foreign key to a node."""
        return ForeignKeyConstraint(names, [f"nodes.{key}" for key in self.mapping.keys])

    def map(
        self,
        name: str,
        columns: list[Column[Any]],
        properties: Callable[[Any], dict[str, Any]] = lambda _: {},
        arguments: Callable[[Any, dict[str, Any]], dict[str, Any]] = lambda _, __: {},
        *,
        extra: list[Any] | None = None,
        base: Any = None,
        table: str | None = "",
    ) -> Any:
        """Map a class in the chosen style; without a table to that of its base."""
        table = name.lower() + "s" if table == "" else table
        own = {n: ATTRIBUTES[n]() for n in ATTRIBUTES if self.has(n) and name == "Node"}
        body: dict[str, Any] = {"__module__": __name__, **own}
        if self.chosen["style"] == "imperative":
            class_ = type(name, (base or object,), body)
            if table is None:
                local = self.mapping.metadata.tables["nodes"]
                for each in columns:
                    local.append_column(each)
            else:
                local = Table(table, self.mapping.metadata, *columns, *extra or ())
            given = properties(local.c)
            options = arguments(local.c, given)
            options |= {} if base is None else {"inherits": base}
            of = None if table is None else local
            self.mapping.registry.map_imperatively(class_, of, properties=given, **options)
            return class_
        by_name: dict[str, Any] = {each.name: each for each in columns}
        if self.chosen["style"] == "dataclass" and "name" in by_name:
            by_name["name"] = mapped_column(String, default="?")
            body["__annotations__"] = {"name": Mapped[str]}
            body["__annotations__"] |= self.annotations() if name == "Node" else {}
        given = properties(by_name)
        options = arguments(by_name, given)
        body |= {**by_name, **given, "__mapper_args__": options}
        if table is not None:
            body |= {"__tablename__": table, "__table_args__": (*(extra or ()),)}
        return new_class(name, (base or self.base,), {}, lambda namespace: namespace.update(body))

    def annotations(self) -> dict[str, Any]:
        """Return the annotations of relationships, which dataclasses need."""
        item, tag, chosen = self.mapping.item, self.mapping.tag, self.chosen
        # classes that are known at run time alone
        mapped: Any = Mapped
        others: dict[str, Any] = {"dynamic": DynamicMapped, "write_only": WriteOnlyMapped}
        kind: Any = COLLECTIONS[chosen["collection"]][0]
        many: Any = list
        if chosen["lazy"] in others:
            items = others[chosen["lazy"]][item]
        else:
            items = mapped[kind[str, item] if kind is dict else kind[item]]
        items = mapped[item] if chosen["uselist"] is False else items
        return {"items": items, "tags": mapped[many[tag]]}

    def node(self) -> Any:
        """Map `Node`."""
        columns = [*map(self.key, self.mapping.keys), Column("name", String, nullable=False)]
        columns += [Column("size", Integer, default=2), Column("sort", String, default="node")]
        columns += [make() for name, make in COLUMNS.items() if self.has(name)]
        above = [f"above_{key}" for key in self.mapping.keys] if self.has("above") else []
        columns += [Column(name, self.type()) for name in above]
        extra = [self.to_node(above)] if above else []
        return self.map("Node", columns, self.properties, self.arguments, extra=extra)

    def properties(self, columns: Any) -> dict[str, Any]:
        """Return the relationships of `Node`, and some of its other properties."""
        chosen, many = self.chosen, dict[str, Any]()
        hidden: dict[str, Any] = {"init": False} if chosen["style"] == "dataclass" else {}
        if chosen["uselist"] is False:
            many["uselist"] = False
        elif chosen["lazy"] not in ("dynamic", "write_only"):
            many["collection_class"] = COLLECTIONS[chosen["collection"]][1]()
        if self.has("orphans"):
            many["cascade"] = "all, delete-orphan"
        if chosen["lazy"] == "write_only" or self.has("passive"):
            many["passive_deletes"] = True
        if chosen["back"]:
            many["backref"] = backref("node", lazy=chosen["back"])
        tagged = self.mapping.metadata.tables["tagged"]
        found = {
            "items": relationship(self.mapping.item, lazy=chosen["lazy"], **many, **hidden),
            "tags": relationship(self.mapping.tag, secondary=tagged, **hidden),
        }
        return found | (self.others(columns) if self.has("inline") else {})

    def others(self, columns: Any) -> dict[str, Any]:
        """Return the properties that need only the columns of the class."""
        return {name: make(columns) for name, make in PROPERTIES.items() if self.has(name)}

    def arguments(self, columns: Any, properties: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the mapper of `Node`."""
        found: dict[str, Any] = {"eager_defaults": self.chosen["eager_defaults"]}
        if self.has("version"):
            found["version_id_col"] = columns["version"]
        if self.chosen["inheritance"] in ("none", "concrete"):
            return found
        sort, on = columns["sort"], self.chosen["on"]
        expression = case((sort == "kind", "kind"), else_="node")
        if on == "property":
            properties["shown_sort"] = column_property(expression)
        by = {"column": sort, "expression": expression, "property": "shown_sort"}
        found |= {"polymorphic_on": by[on], "polymorphic_identity": "node"}
        return found | ({"with_polymorphic": "*"} if self.chosen["polymorphic"] == "*" else {})

    def kind(self) -> Any:
        """Map the subclass."""
        inheritance, load = self.chosen["inheritance"], self.chosen["polymorphic"]
        options: dict[str, Any] = {"polymorphic_identity": "kind"}
        if load in ("selectin", "inline"):
            options["polymorphic_load"] = load
        columns, extra = [Column("extra", String, default="more")], []
        if inheritance == "concrete":
            options = {"concrete": True}
            names = {"name": String, "size": Integer, "sort": String}
            columns += [*map(self.key, self.mapping.keys)]
            columns += [Column(name, type_) for name, type_ in names.items()]
        elif inheritance != "single":
            start = "" if inheritance == "joined" else "kind_"
            own = [f"{start}{key}" for key in self.mapping.keys]
            columns += [Column(name, self.type(), primary_key=True) for name in own]
            extra = [self.to_node(own)]
        table = None if inheritance == "single" else "kinds"
        class_ = self.map(
            "Kind",
            columns,
            arguments=lambda *_: options,
            extra=extra,
            base=self.mapping.node,
            table=table,
        )
        # an expression on it decides the class
        event.listen(class_, "init", lambda instance, _, __: setattr(instance, "sort", "kind"))
        return class_

    def late(self) -> None:
        """Add properties that need other classes, and those that were not declared inline."""
        tables, mapper = self.mapping.metadata.tables, self.mapping.node.__mapper__
        nodes, item = tables["nodes"], tables["items"]
        found = {} if self.has("inline") else self.others(nodes.c)
        for name, shown in (("count", func.count()), ("newest", item.c.node_key)):
            of_node = select(shown).where(item.c.node_key == nodes.c.key).limit(1)
            if self.has(name):
                found[name] = column_property(of_node.correlate(nodes).scalar_subquery())
        if self.has("above"):
            remote = [nodes.c[key] for key in self.mapping.keys]
            found["above"] = relationship(self.mapping.node, remote_side=remote)
        for name, each in found.items():
            mapper.add_property(name, each)


def mapping_of(seed: int, *, postgres: bool = True, **chosen: Any) -> Mapping:
    """Return the mapping of a seed; some of its choices may be given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about strategies that do nothing
        return _Maker(seed, chosen, postgres=postgres).make()
