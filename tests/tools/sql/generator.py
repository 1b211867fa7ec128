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
            return self._grouped(from_, scope, where, depth), False
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
        for _ in range(2):
            if not self._maybe(0.35, "join"):
                break
            joined, other, theirs = self._relation(depth)
            pairs = [
                f"{a}.{c} = {other}.{d}"
                for a, own in scope.items()
                for c, kind in own.items()
                for d, its in theirs.items()
                if kind == its and kind.startswith("key:")
            ]
            kind = self._one(("join", "inner join", "left join", "right join", "full join"))
            if not pairs:
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
            return f"case when {self._condition(scope, depth - 1)} then {results[0]} else {results[1]} end"
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

    def _int(self, scope: Scope, depth: int) -> str:
        a, b = self._of("int", scope, depth), self._of("int", scope, depth)
        text, date = self._of("text", scope, depth), self._of("date", scope, 0)
        way = self._one(
            (
                "a + b",
                "a - b",
                "a * b",
                "a / c",
                "a % c",
                "- a",
                "abs",
                "length",
                "day",
                "extract",
                "array",
                "count",
                "cast",
                "position",
            )
        )
        self.used.add(f"int {way}")
        match way:
            case "a + b" | "a - b" | "a * b":
                return f"({a} {way[2]} {b})"
            case "a / c" | "a % c":
                return f"({a} {way[2]} {self._dice.randint(1, 9)})"
            case "- a":
                return f"(- {a})"
            case "abs":
                return f"abs({a})"
            case "length":
                return f"{self._one(('length', 'char_length'))}({text})"
            case "day":
                return f"({date} - date '2026-01-01')" if date[0] == "t" else "3"
            case "extract":
                return (
                    f"extract({self._one(('year', 'month', 'day', 'dow'))} from {date})::int"
                    if date[0] == "t"
                    else "5"
                )
            case "array":
                column = self._column("texts", scope)
                return f"cardinality({column})" if column else "4"
            case "count":
                return f"({self._scalar(scope, depth)})"
            case "position":
                return f"position('e' in {text})"
        return f"cast({self._of('num', scope, 0)} as int)"

    def _scalar(self, scope: Scope, depth: int) -> str:
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
        way = self._one(
            ("+", "-", "*", "/", "round", "ceil", "floor", "trunc", "greatest", "cast", "mixed")
        )
        self.used.add(f"num {way}")
        match way:
            case "+" | "-" | "*":
                return f"({a} {way} {b})"
            case "/":
                return f"({a} / nullif({b}, 0))"
            case "greatest":
                return f"{self._one(('greatest', 'least'))}({a}, {b})"
            case "round" | "trunc":
                return f"{way}({a}::numeric, {self._dice.randint(0, 3)})"
            case "cast":
                return f"cast({a} as numeric(12, 1))"
            case "mixed":
                return f"({b} * 1.0 / 4)"
        return f"{way}({a})"

    def _text(self, scope: Scope, depth: int) -> str:
        a, b = self._of("text", scope, depth), self._of("text", scope, 0)
        n = self._dice.randint(0, 4)
        way = self._one(
            (
                "lower",
                "upper",
                "trim",
                "||",
                "left",
                "right",
                "substring",
                "replace",
                "concat",
                "split_part",
                "to_char",
                "cast",
                "initcap",
                "reverse",
                "json",
                "item",
            )
        )
        self.used.add(f"text {way}")
        match way:
            case "||":
                return f"({a} || {b})"
            case "left" | "right":
                return f"{way}({a}, {n})"
            case "substring":
                return self._one(
                    (
                        f"substring({a} from 2 for {n})",
                        f"substring({a}, {n + 1})",
                        f"substr({a}, 1, {n})",
                    )
                )
            case "replace":
                return f"replace({a}, 'e', '3')"
            case "concat":
                return self._one((f"concat({a}, ' ', {b})", f"concat_ws('-', {a}, {b})"))
            case "split_part":
                return f"split_part({a}, ' ', 1)"
            case "to_char":
                date = self._column("date", scope)
                return f"to_char({date}, 'YYYY-MM')" if date else "'x'::text"
            case "cast":
                return (
                    f"{self._of('int', scope, 0)}::text"
                    if n
                    else f"cast({self._of('bool', scope, 0)} as text)"
                )
            case "json":
                column = self._column("json", scope)
                return f"({column} ->> 'a')" if column else "'j'::text"
            case "item":
                column = self._column("texts", scope)
                return f"{column}[1]" if column else "'i'::text"
        return f"{way}({a})"

    def _date(self, scope: Scope, depth: int) -> str:
        column = self._column("date", scope)
        if column is None:
            return self._one(_LITERALS["date"][1:3])
        way = self._one(("+", "-", "cast", "make"))
        self.used.add(f"date {way}")
        match way:
            case "+" | "-":
                return f"({column} {way} {self._dice.randint(0, 40)})"
            case "cast":
                return f"date_trunc('{self._one(('month', 'year', 'week'))}', {column})::date"
        return "make_date(2026, 5, 17)"

    def _stamp(self, scope: Scope, depth: int) -> str:
        column = self._column("stamp", scope)
        if column is None:
            return self._one(_LITERALS["stamp"][1:])
        way = self._one(("trunc", "+", "date"))
        self.used.add(f"stamp {way}")
        if way == "trunc":
            return f"date_trunc('{self._one(('day', 'hour', 'month'))}', {column})"
        return f"({column} {self._one(('+', '-'))} {self._one(_LITERALS['span'])})"

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
        column = self._column(self._any_type(scope), scope) or "null"
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
        return f"{left} {self._one(('', 'not '))}{self._one(('like', 'ilike'))} {self._one(_LITERALS['text'])}"

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
            return f"{column} {self._one(('', 'not '))}in ({self._refs(entity)}, {self._refs(entity)})"
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
            )
        )

    def _c_array(self, scope: Scope, _: int) -> str:
        column = self._column("texts", scope)
        if column is None:
            return "1 < 2"
        return f"{column} {self._one(('@>', '&&', '<@', '='))} {self._one(_LITERALS['texts'])}"

    def _c_distinct(self, scope: Scope, depth: int) -> str:
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

    def _grouped(self, from_: str, scope: Scope, where: str, depth: int) -> str:
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
            way = self._one(("positions", "names", "expressions", "rollup"))
            self.used.add(f"group by {way}")
            named = {"positions": positions, "names": names}.get(way, by)
            listed = ", ".join(named)
            text += f" group by {f'rollup ({listed})' if way == 'rollup' else listed}"
        if self._maybe(0.3, "having"):
            text += (
                f" having count(*) {self._one(('>', '>=', '<', '<>'))} {self._dice.randint(0, 4)}"
            )
        return text

    def _aggregate(self, scope: Scope) -> str:
        number = self._column(self._one(("int", "num", "float")), scope) or "1"
        text = self._column("text", scope) or "'x'::text"
        key = self._column(self._one(("key:product", "key:category", "key:order")), scope)
        way = self._one(
            (
                "count(*)",
                "count",
                "sum",
                "avg",
                "min",
                "max",
                "string_agg",
                "array_agg",
                "bool_and",
                "filter",
                "distinct",
                "key",
                "percentile",
                "stddev",
                "max date",
            )
        )
        self.used.add(f"aggregate {way}")
        match way:
            case "count(*)":
                return "count(*)"
            case "sum" | "avg" | "min" | "max" | "count":
                return f"{way}({number})"
            case "stddev":
                return f"round(stddev({number})::numeric, 3)"
            case "string_agg":
                distinct = self._one(("", "distinct "))
                return f"string_agg({distinct}{text}, ', ' order by {text})"
            case "array_agg":
                return f"array_agg({self._one(('', 'distinct '))}{text} order by {text}{self._one(('', ' desc'))})"
            case "bool_and":
                return f"{self._one(('bool_and', 'bool_or'))}({number} > 2)"
            case "filter":
                return f"sum({number}) filter (where {self._condition(scope, 0)})"
            case "distinct":
                return f"{self._one(('count', 'sum'))}(distinct {number})"
            case "percentile":
                return f"percentile_cont({self._one(('0.5', '0.9'))}) within group (order by {number})"
            case "max date":
                date = self._column("date", scope)
                return f"max({date})" if date else "min(7)"
        if key is None:
            return "count(1)"
        return self._one(
            (
                f"count({key})",
                f"count(distinct {key})",
                f"array_agg(distinct {key} order by {key})",
            )
        )

    def _window(self, scope: Scope) -> str:
        order = ", ".join(f"{alias}.{next(iter(columns))}" for alias, columns in scope.items())
        if "lines" in order:
            order += ""
        partition = self._column(self._one(("key:category", "text", "bool")), scope)
        over = f"partition by {partition} " if partition and self._dice.random() < 0.6 else ""
        number = self._column("int", scope) or "1"
        way = self._one(("rank", "dense_rank", "sum", "count", "lag", "max"))
        self.used.add(f"window {way}")
        match way:
            case "rank" | "dense_rank":
                return f"{way}() over ({over}order by {number}{self._way()})"
            case "sum" | "max":
                frame = self._one(("", "", " range between unbounded preceding and current row"))
                return f"{way}({number}) over ({over}order by {number}{frame})"
            case "count":
                return f"count(*) over ({over.strip()})"
        return (
            f"lag({number}) over ({over}order by {number}, {order})"
            if "lines" not in order
            else "1"
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
                f"with w as ({inner}) select {column}, count(*) from w where {condition} group by {column}",
                f"with w as ({inner}) select * from w where {condition}",
                f"with w({', '.join(names)}) as ({inner}), v as (select * from w where {condition}) select count(*) from v, w where v.{column} = w.{column}",
            )
        )

    def _recursive(self) -> str:
        self.used.add("with recursive")
        start = self._one(("parent_id is null", "id = 'category_1'", "name like 'K%'"))
        extra = self._one(("", " and u.depth < 2", " and c.name <> 'x'"))
        union = self._one(("union all", "union"))
        return (
            f"with recursive up as (select id, name, 0 as depth from categories where {start} {union} "
            f"select c.id, c.name, u.depth + 1 from categories c join up u on c.parent_id = u.id{extra}) "
            f"select {self._one(('*', 'id, max(depth)', 'count(*)'))} from up"
        ).replace("id, max(depth) from up", "id, max(depth) from up group by id")


def _null_of(_: str) -> str:
    return "null as int"


def _has_json(columns: Sequence[str]) -> bool:
    return any(".info" in each for each in columns)
