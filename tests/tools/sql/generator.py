"""Queries at random, by a grammar: each is SQL of PostgreSQL's, and made of what models write.

    Generator(random.Random(7)).query()     a text, and whether its rows have an order

A seed makes the same queries in every process. What a query has in it is noted by construct, so
that it can be told which of them are refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

# table -> columns by type; "key:entity" are refs
TABLES: Mapping[str, Mapping[str, str]] = {
    "products": {
        "id": "key:product",
        "category_id": "key:category",
        "replaces_id": "key:product",
        "name": "text",
        "code": "text",
        "price": "num",
        "weight": "float",
        "stock": "int",
        "active": "bool",
        "made_on": "date",
        "seen_at": "stamp",
        "lasts": "span",
        "tags": "texts",
        "info": "json",
        "goes_with": "keys:product",
    },
    "orders": {"id": "key:order", "placed_on": "date", "note": "text"},
    "lines": {
        "order_id": "key:order",
        "place": "int",
        "product_id": "key:product",
        "quantity": "int",
        "price": "num",
    },
    "categories": {"id": "key:category", "name": "text", "parent_id": "key:category"},
}

_LITERALS: Mapping[str, Sequence[str]] = {
    "int": ("0", "1", "2", "7", "-3", "100", "2147483648"),
    "num": ("0", "1.5", "20", "99.99", "0.1", "1e2"),
    "float": ("0.5", "1", "2.50"),
    "text": ("'Tea'", "'T%'", "'%e%'", "''", "'it''s'", "'recipe_1'", "'50% off'", "'a_b'"),
    "date": ("'2026-05-01'", "date '2026-02-28'", "'2026-12-31'::date", "current_date"),
    "stamp": ("'2026-05-01 10:00'", "timestamp '2026-03-01'", "'2026-06-01'::timestamp"),
    "span": ("interval '1 day'", "interval '2 hours'", "'3 days'::interval"),
    "bool": ("true", "false"),
    "texts": ("'{new,hot}'", "array['eco']", "'{}'"),
}

_APART = ("json", "float", "texts")  # types that no USING compares here

Scope = Mapping[str, Mapping[str, str]]
"""Columns with their types, by the alias of what has them."""


class Generator:
    """Makes queries.

    Args:
        dice: decides.

    Attributes:
        used: the constructs of the last query.
    """

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._names = 0
        self.used: set[str] = set()

    def query(self) -> tuple[str, bool]:
        """Return a query, and whether its rows are in an order that says which is first."""
        self.used = set()
        self._names = 0
        kind = self._dice.random()
        if kind < 0.12:
            return self._union(), False
        if kind < 0.24:
            return self._with(), False
        if kind < 0.28:
            return self._recursive(), False
        return self._select(2, ordered=True)

    def _one(self, choices: Sequence[str]) -> str:
        return self._dice.choice(choices)

    def _maybe(self, chance: float, what: str) -> bool:
        if self._dice.random() >= chance:
            return False
        self.used.add(what)
        return True

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _select(
        self,
        depth: int,
        *,
        ordered: bool = False,
        types: Sequence[str] = (),
        outer: Scope | None = None,
    ) -> tuple[str, bool]:
        from_, scope = self._from(depth)
        seen = {**(outer or {}), **scope}
        where = f" where {self._condition(seen, depth)}" if self._maybe(0.6, "where") else ""
        if not types and self._maybe(0.3, "group by"):
            return self._grouped(from_, scope, where), False
        wanted = types or [self._any_type(scope) for _ in range(self._dice.randint(1, 4))]
        columns = [self._of(each, seen, depth) for each in wanted]
        if not types and not outer and self._maybe(0.15, "window"):
            columns.append(self._window(scope))
        distinct = "distinct " if not types and self._maybe(0.1, "distinct") else ""
        named = [
            f"{each} as x{n}" if self._dice.random() < 0.7 else each
            for n, each in enumerate(columns)
        ]
        text = f"select {distinct}{', '.join(named)} from {from_}{where}"
        if not ordered or not self._maybe(0.4, "order by"):
            return text, False
        by = ", ".join(f"{n}{self._way()}" for n in range(1, len(columns) + 1))
        limit = f" limit {self._dice.randint(0, 9)}" if self._maybe(0.5, "limit") else ""
        offset = f" offset {self._dice.randint(0, 3)}" if self._maybe(0.2, "offset") else ""
        return f"{text} order by {by}{limit}{offset}", not _has_json(columns)

    def _way(self) -> str:
        return self._one(("", "", " desc", " asc", " nulls first", " desc nulls last"))

    def _any_type(self, scope: Scope) -> str:
        types = sorted({each for columns in scope.values() for each in columns.values()})
        return self._one([*types, "int", "num", "text", "bool"])

    # FROM

    def _from(self, depth: int) -> tuple[str, dict[str, Mapping[str, str]]]:
        text, alias, columns = self._relation(depth)
        scope = {alias: columns}
        for n in range(2):
            if not self._maybe(0.35, "join"):
                break
            joined, other, theirs = self._relation(depth)
            shared = [
                name
                for name, kind in theirs.items()
                if not kind.endswith(_APART)
                and [own.get(name) for own in scope.values()].count(kind) == 1
                if sum(name in own for own in scope.values()) == 1
            ]
            pairs = [
                f"{a}.{c} = {other}.{d}"
                for a, own in scope.items()
                for c, kind in own.items()
                for d, its in theirs.items()
                if kind == its and kind.startswith("key:")
            ]
            kind = self._one(("join", "inner join", "left join", "right join", "full join"))
            if n and self._maybe(0.1, "comma"):
                text += f", {joined}"
            elif shared and self._maybe(0.2, "using"):
                text += f" {kind} {joined} using ({self._one(shared)})"
            elif not pairs:
                text += f" cross join {joined}"
            else:
                self.used.add(kind)
                more = ""
                if kind in ("join", "inner join", "left join") and self._maybe(
                    0.2, "join on more"
                ):
                    more = f" and {self._condition({**scope, other: theirs}, 0)}"
                text += f" {kind} {joined} on {self._one(pairs)}{more}"
            scope[other] = theirs
        return text, scope

    def _relation(self, depth: int) -> tuple[str, str, Mapping[str, str]]:
        alias = self._name("t")
        if depth > 0 and self._maybe(0.15, "subquery in from"):
            types = [self._any_type(TABLES) for _ in range(2)]
            names = [self._name("s") for _ in types]
            from_, scope = self._from(0)
            columns = [self._of(each, scope, 0) for each in types]
            chosen = ", ".join(f"{c} as {n}" for c, n in zip(columns, names, strict=True))
            text = f"(select {chosen} from {from_}) as {alias}"
            return text, alias, dict(zip(names, types, strict=True))
        table = self._one(list(TABLES))
        return f"{table} {alias}", alias, TABLES[table]

    # Expressions

    def _column(self, type_: str, scope: Scope) -> str | None:
        found = [
            f"{a}.{c}" for a, columns in scope.items() for c, t in columns.items() if t == type_
        ]
        return self._one(found) if found else None

    def _of(self, type_: str, scope: Scope, depth: int) -> str:
        """Return an expression of a type."""
        column = self._column(type_, scope)
        if column is not None and (depth <= 0 or self._dice.random() < 0.5):
            return column
        if type_.startswith("key"):
            return self._key(type_, scope, column, depth)
        if depth <= 0:
            return self._one(_LITERALS.get(type_, ("null",)))
        ways: Mapping[str, Callable[[Scope, int], str]] = {
            "int": self._int,
            "num": self._num,
            "text": self._text,
            "bool": self._condition,
            "date": self._date,
            "stamp": self._stamp,
        }
        if self._maybe(0.12, "case"):
            results = self._of(type_, scope, depth - 1), self._of(type_, scope, depth - 1)
            when = self._condition(scope, depth - 1)
            return f"case when {when} then {results[0]} else {results[1]} end"
        if column and self._maybe(0.12, "coalesce"):
            function = self._one(("coalesce", "coalesce", "nullif"))
            return f"{function}({column}, {self._of(type_, scope, 0)})"
        make = ways.get(type_)
        return (
            make(scope, depth - 1)
            if make
            else (column or self._one(_LITERALS.get(type_, ("null",))))
        )

    def _key(self, type_: str, scope: Scope, column: str | None, depth: int) -> str:
        if column is None:
            return "null"
        other = self._column(type_, scope)
        if type_.startswith("keys") or depth <= 0 or self._dice.random() < 0.7:
            return column
        self.used.add("key expression")
        return self._one(
            (
                f"coalesce({column}, {other})",
                f"nullif({column}, {other})",
                f"case when {self._condition(scope, 0)} then {column} end",
            )
        )

    def _chosen(self, kind: str, ways: Mapping[str, str]) -> str:
        """Return one of several ways to write a value, and note which."""
        way = self._one(list(ways))
        self.used.add(f"{kind} {way}")
        return ways[way]

    def _int(self, scope: Scope, depth: int) -> str:
        a, b = self._of("int", scope, depth), self._of("int", scope, depth)
        text, n = self._of("text", scope, depth), self._dice.randint(1, 9)
        date = self._column("date", scope) or "date '2026-05-05'"
        texts = self._column("texts", scope) or "array['a']"
        part = self._one(("year", "month", "day", "dow"))
        return self._chosen(
            "int",
            {
                "+": f"({a} + {b})",
                "-": f"({a} - {b})",
                "*": f"({a} * {b})",
                "/": f"({a} / {n})",
                "%": f"({a} % {n})",
                "negative": f"(- {a})",
                "abs": f"abs({a})",
                "length": f"{self._one(('length', 'char_length'))}({text})",
                "days": f"({date} - date '2026-01-01')",
                "extract": f"extract({part} from {date})::int",
                "cardinality": f"cardinality({texts})",
                "count": f"({self._scalar(scope)})",
                "position": f"position('e' in {text})",
                "cast": f"cast({self._of('num', scope, 0)} as int)",
            },
        )

    def _scalar(self, scope: Scope) -> str:
        self.used.add("scalar subquery")
        from_, inner = self._from(0)
        where = self._related(inner, scope)
        return f"select count(*) from {from_}{where}"

    def _related(self, inner: Scope, outer: Scope) -> str:
        pairs = [
            f"{a}.{c} = {b}.{d}"
            for a, own in inner.items()
            for c, kind in own.items()
            for b, others in outer.items()
            for d, its in others.items()
            if kind == its and kind.startswith("key:")
        ]
        return f" where {self._one(pairs)}" if pairs else ""

    def _num(self, scope: Scope, depth: int) -> str:
        a, b = self._of("num", scope, depth), self._of("int", scope, depth)
        n = self._dice.randint(0, 3)
        return self._chosen(
            "num",
            {
                "+": f"({a} + {b})",
                "-": f"({a} - {b})",
                "*": f"({a} * {b})",
                "/": f"({a} / nullif({b}, 0))",
                "round": f"round({a}::numeric, {n})",
                "trunc": f"trunc({a}::numeric, {n})",
                "ceil": f"{self._one(('ceil', 'floor'))}({a})",
                "greatest": f"{self._one(('greatest', 'least'))}({a}, {b})",
                "cast": f"cast({a} as numeric(12, 1))",
                "mixed": f"({b} * 1.0 / 4)",
            },
        )

    def _text(self, scope: Scope, depth: int) -> str:
        a, b = self._of("text", scope, depth), self._of("text", scope, 0)
        n = self._dice.randint(0, 4)
        date = self._column("date", scope) or "date '2026-05-05'"
        json, texts = self._column("json", scope), self._column("texts", scope)
        return self._chosen(
            "text",
            {
                **{
                    each: f"{each}({a})"
                    for each in ("lower", "upper", "trim", "initcap", "reverse")
                },
                "||": f"({a} || {b})",
                "left": f"{self._one(('left', 'right'))}({a}, {n})",
                "substring": f"substring({a} from 2 for {n})",
                "substr": f"substr({a}, {n + 1})",
                "replace": f"replace({a}, 'e', '3')",
                "concat": f"concat({a}, ' ', {b})",
                "concat_ws": f"concat_ws('-', {a}, {b})",
                "split_part": f"split_part({a}, ' ', 1)",
                "to_char": f"to_char({date}, 'YYYY-MM')",
                "cast": f"{self._of('int', scope, 0)}::text",
                "cast bool": f"cast({self._of('bool', scope, 0)} as text)",
                "cast twice": f"{self._of('int', scope, 0)}::varchar::text",
                "cast of a case": f"(case when {a} > 'm' then {n} else {n}::int end)::text",
                "json": f"({json} ->> 'a')" if json else "'j'::text",
                "item": f"{texts}[1]" if texts else "'i'::text",
            },
        )

    def _date(self, scope: Scope, _: int) -> str:
        column = self._column("date", scope)
        if column is None:
            return self._one(_LITERALS["date"][1:3])
        unit, days = self._one(("month", "year", "week")), self._dice.randint(0, 40)
        return self._chosen(
            "date",
            {
                "+": f"({column} + {days})",
                "-": f"({column} - {days})",
                "trunc": f"date_trunc('{unit}', {column})::date",
                "make": "make_date(2026, 5, 17)",
                "literal": "(timestamp '2026-05-17 12:30')::date",
            },
        )

    def _stamp(self, scope: Scope, _: int) -> str:
        column = self._column("stamp", scope)
        if column is None:
            return self._one(_LITERALS["stamp"][1:])
        unit, span = self._one(("day", "hour", "month")), self._one(_LITERALS["span"])
        return self._chosen(
            "stamp",
            {
                "trunc": f"date_trunc('{unit}', {column})",
                "+": f"({column} + {span})",
                "-": f"({column} - {span})",
            },
        )

    # Conditions

    def _condition(self, scope: Scope, depth: int) -> str:
        if depth > 0 and self._maybe(0.35, "and or not"):
            a, b = self._condition(scope, depth - 1), self._condition(scope, depth - 1)
            return self._one(
                (
                    f"{a} and {b}",
                    f"({a} or {b})",
                    f"not ({a})",
                    f"{a} or {b} and {a}",
                    f"not {a} and {b}",
                )
            )
        way = self._one(
            (
                "compare",
                "compare",
                "null",
                "in",
                "between",
                "like",
                "key",
                "key in",
                "exists",
                "bool",
                "array",
                "distinct",
                "any",
            )
        )
        self.used.add(f"where {way}")
        return getattr(self, f"_c_{way.replace(' ', '_')}")(scope, depth)  # type: ignore[no-any-return]

    def _c_compare(self, scope: Scope, depth: int) -> str:
        type_ = self._one(("int", "num", "text", "date", "stamp", "float", "span"))
        left = self._column(type_, scope) or self._of(type_, scope, 0)
        if left == "null" or left.startswith("'"):
            return "1 = 1"
        operator = self._one(("=", "<>", "<", "<=", ">", ">=", "!="))
        pair = [left, self._of(type_, scope, depth)]
        if self._dice.random() < 0.2:
            pair.reverse()
        return f"{pair[0]} {operator} {pair[1]}"

    def _c_null(self, scope: Scope, _: int) -> str:
        type_ = self._any_type(scope)
        column = self._column(type_, scope) or "null"
        if type_ not in _APART and self._maybe(0.2, "compare with null"):
            return f"({column} {self._one(('=', '<>', '<'))} null) is not true"
        return f"{column} is {self._one(('', 'not '))}null"

    def _c_in(self, scope: Scope, _: int) -> str:
        type_ = self._one(("int", "num", "text"))
        column = self._column(type_, scope)
        if column is None:
            return "2 in (1, 2)"
        items = ", ".join(self._one(_LITERALS[type_]) for _ in range(3))
        return f"{column} {self._one(('', 'not '))}in ({items})"

    def _c_between(self, scope: Scope, _: int) -> str:
        type_ = self._one(("int", "num", "date"))
        column = self._column(type_, scope)
        ends = self._one(_LITERALS[type_]), self._one(_LITERALS[type_])
        return (
            f"{column} {self._one(('', 'not '))}between {ends[0]} and {ends[1]}"
            if column
            else "true"
        )

    def _c_like(self, scope: Scope, depth: int) -> str:
        left = self._of("text", scope, depth)
        like = f"{self._one(('', 'not '))}{self._one(('like', 'ilike'))}"
        return f"{left} {like} {self._one(_LITERALS['text'])}"

    def _refs(self, entity: str) -> str:
        return f"'{entity}_{self._dice.randint(1, 6)}'"

    def _c_key(self, scope: Scope, _: int) -> str:
        entity = self._one(("product", "category", "order"))
        column = self._column(f"key:{entity}", scope)
        operator = self._one(("=", "<>", "=", "is distinct from", "<", ">="))
        return f"{column} {operator} {self._refs(entity)}" if column else "3 > 2"

    def _c_key_in(self, scope: Scope, _: int) -> str:
        entity = self._one(("product", "category", "order"))
        column = self._column(f"key:{entity}", scope)
        if column is None:
            return "3 >= 2"
        if self._dice.random() < 0.5:
            refs = f"{self._refs(entity)}, {self._refs(entity)}"
            return f"{column} {self._one(('', 'not '))}in ({refs})"
        from_, inner = self._from(0)
        theirs = self._column(f"key:{entity}", inner)
        if theirs is None:
            return f"{column} is not null"
        return f"{column} in (select {theirs} from {from_} where {theirs} is not null)"

    def _c_exists(self, scope: Scope, _: int) -> str:
        from_, inner = self._from(0)
        return (
            f"{self._one(('', 'not '))}exists (select 1 from {from_}{self._related(inner, scope)})"
        )

    def _c_bool(self, scope: Scope, _: int) -> str:
        column = self._column("bool", scope)
        if column is None:
            return "false"
        return self._one(
            (
                column,
                f"not {column}",
                f"{column} is true",
                f"{column} is not false",
                f"{column} = true",
                f"{column} < true",
                f"{column} = true",
            )
        )

    def _c_array(self, scope: Scope, _: int) -> str:
        column = self._column("texts", scope)
        if column is None:
            return "1 < 2"
        return f"{column} {self._one(('@>', '&&', '<@', '='))} {self._one(_LITERALS['texts'])}"

    def _c_distinct(self, scope: Scope, _: int) -> str:
        type_ = self._one(("int", "text", "num"))
        left = self._column(type_, scope)
        return (
            f"{left} is {self._one(('', 'not '))}distinct from {self._of(type_, scope, 0)}"
            if left
            else "2 < 3"
        )

    def _c_any(self, scope: Scope, _: int) -> str:
        if self._dice.random() < 0.5:
            column = self._column("texts", scope)
            return f"'eco' = any({column})" if column else "5 = any(array[4, 5])"
        column = self._column("keys:product", scope)
        return f"{self._refs('product')} = any({column})" if column else "5 <> all(array[4, 5])"

    # What is more than one SELECT

    def _grouped(self, from_: str, scope: Scope, where: str) -> str:
        types = [
            self._one(("text", "int", "date", "bool", "key:category", "key:product"))
            for _ in range(self._dice.randint(0, 2))
        ]
        by = [self._of(each, scope, 1) for each in types if self._column(each, scope)]
        counted = [self._aggregate(scope) for _ in range(self._dice.randint(1, 3))]
        columns = [f"{each} as g{n}" for n, each in enumerate(by)]
        text = f"select {', '.join([*columns, *counted])} from {from_}{where}"
        if by:
            positions = [str(n) for n in range(1, len(by) + 1)]
            names = [f"g{n}" for n in range(len(by))]
            way = self._one(("positions", "names", "expressions", "sets"))
            if way == "sets":
                way = self._one(("rollup", "cube", "grouping sets"))
            self.used.add(f"group by {way}")
            listed = ", ".join({"positions": positions, "names": names}.get(way, by))
            sets = {
                "rollup": f"rollup ({listed})",
                "cube": f"cube ({listed})",
                "grouping sets": f"grouping sets (({listed}), {by[0]}, ())",
            }
            text += f" group by {sets.get(way, listed)}"
        if self._maybe(0.3, "having"):
            text += (
                f" having count(*) {self._one(('>', '>=', '<', '<>'))} {self._dice.randint(0, 4)}"
            )
        return text

    def _aggregate(self, scope: Scope) -> str:
        number = self._column(self._one(("int", "num", "float")), scope) or "1"
        text = self._column("text", scope) or "'x'::text"
        date = self._column("date", scope) or "current_date"
        key = self._column(self._one(("key:product", "key:category", "key:order")), scope) or "1"
        distinct = self._one(("", "distinct "))
        return self._chosen(
            "aggregate",
            {
                "count(*)": "count(*)",
                **{each: f"{each}({number})" for each in ("count", "sum", "avg", "min", "max")},
                "stddev": f"round(stddev({number})::numeric, 3)",
                "string_agg": f"string_agg({distinct}{text}, ', ' order by {text})",
                "array_agg": f"array_agg({distinct}{text} order by {text} desc)",
                "bool_and": f"{self._one(('bool_and', 'bool_or'))}({number} > 2)",
                "filter": f"sum({number}) filter (where {self._condition(scope, 0)})",
                "distinct": f"{self._one(('count', 'sum'))}(distinct {number})",
                "percentile": f"percentile_cont(0.5) within group (order by {number})",
                "max date": f"max({date})",
                "count key": f"count({distinct}{key})",
                "array of keys": f"array_agg({distinct}{key} order by {key})",
            },
        )

    def _window(self, scope: Scope) -> str:
        """Return a window whose values are the same in whatever order equal rows come."""
        partition = self._column(self._one(("key:category", "text", "bool")), scope)
        over = f"partition by {partition} " if partition and self._dice.random() < 0.6 else ""
        number = self._column("int", scope) or "1"
        order = f"{over}order by {number}{self._way()}"
        frame = self._one(("", " range between unbounded preceding and current row"))
        return self._chosen(
            "window",
            {
                "rank": f"{self._one(('rank', 'dense_rank'))}() over ({order})",
                "sum": f"{self._one(('sum', 'max'))}({number}) over ({order}{frame})",
                "count": f"count(*) over ({over.strip()})",
                "first_value": f"first_value({number}) over ({order})",
            },
        )

    def _union(self) -> str:
        types = [
            self._one(("int", "text", "num", "key:product", "date"))
            for _ in range(self._dice.randint(1, 3))
        ]
        kinds = ("union", "union all", "intersect", "except", "except all", "intersect all")
        parts = [self._full(types) for _ in range(self._dice.randint(2, 3))]
        text = parts[0]
        for part in parts[1:]:
            kind = self._one(kinds)
            self.used.add(kind)
            text += f" {kind} {part}"
        if self._maybe(0.3, "order of a union"):
            text += " order by 1"
        return text

    def _full(self, types: Sequence[str]) -> str:
        """Return a SELECT with columns of these types, none of them open."""
        from_, scope = self._from(1)
        columns = [self._column(each, scope) or f"cast({_null_of(each)})" for each in types]
        columns = [each if "null" not in each else "null" for each in columns]
        where = f" where {self._condition(scope, 1)}" if self._dice.random() < 0.5 else ""
        return f"select {', '.join(columns)} from {from_}{where}"

    def _with(self) -> str:
        self.used.add("with")
        types = [
            self._one(("int", "text", "num", "key:product", "key:category")) for _ in range(3)
        ]
        names = ["a", "b", "c"]
        from_, scope = self._from(1)
        columns = [
            f"{self._column(t, scope) or 'null'} as {n}" for t, n in zip(types, names, strict=True)
        ]
        inner = f"select {', '.join(columns)} from {from_}"
        known = {
            "w": {n: t for n, t, c in zip(names, types, columns, strict=True) if "null" not in c}
        }
        if not known["w"]:
            return f"with w as ({inner}) select count(*) from w"
        column = self._one(sorted(known["w"]))
        condition = self._condition(known, 1)
        return self._one(
            (
                (
                    f"with w as ({inner}) select {column}, count(*) from w where {condition} "
                    f"group by {column}"
                ),
                f"with w as ({inner}) select * from w where {condition}",
                (
                    f"with w({', '.join(names)}) as ({inner}), "
                    f"v as (select * from w where {condition}) "
                    f"select count(*) from v, w where v.{column} = w.{column}"
                ),
            )
        )

    def _recursive(self) -> str:
        self.used.add("with recursive")
        start = self._one(("parent_id is null", "id = 'category_1'", "name like 'K%'"))
        extra = self._one(("", " and u.depth < 2", " and c.name <> 'x'"))
        union = self._one(("union all", "union"))
        return (
            "with recursive up as "
            f"(select id, name, 0 as depth from categories where {start} {union} "
            "select c.id, c.name, u.depth + 1 from categories c "
            f"join up u on c.parent_id = u.id{extra}) "
            f"select {self._one(('*', 'id, max(depth)', 'count(*)'))} from up"
        ).replace("id, max(depth) from up", "id, max(depth) from up group by id")


def _null_of(_: str) -> str:
    return "null as int"


def _has_json(columns: Sequence[str]) -> bool:
    return any(".info" in each for each in columns)
