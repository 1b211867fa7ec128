"""Texts that may be expensive: made by the grammar and by doubling constructs, timed and weighed.

    measure(world, "select ...")      seconds of this process's work, and bytes that it grew by

What counts is the work of Python: the server has the limit of the statement. Nothing is cached
from one text to the next.
"""

from __future__ import annotations

import gc
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alfred_refs.tools import Limits
from tests.tools.fuzz.measures import peak, reset_peak
from tests.tools.sql.generator import Generator
from tests.tools.sql.world import ANN, World

MOST_CHARACTERS = 2_000
MOST_SECONDS = 0.5
MOST_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """What one text cost.

    Attributes:
        seconds: of the work of this process.
        size: by how many bytes the process grew at most.
        sql: the text.
        told: the begin of the answer.
    """

    seconds: float
    size: int
    sql: str
    told: str

    @property
    def is_too_much(self) -> bool:
        """Whether it is beyond what any text may cost."""
        return self.seconds > MOST_SECONDS or self.size > MOST_BYTES


def _nested(form: str, core: str, levels: int) -> str:
    for n in range(levels):
        core = form.format(core=core, n=n)
    return core


def _chained(parts: Sequence[str], join: str, count: int) -> str:
    return join.join(parts[n % len(parts)].format(n=n) for n in range(count))


_NESTED: Sequence[tuple[str, str]] = (
    ("select *, * from ({core}) a{n}", "select name from products"),
    ("select * from ({core}) a{n}", "select * from products"),
    (
        "select a{n}.*, a{n}.* from ({core}) a{n} join products p{n} on true",
        "select id from products",
    ),
    ("select x || x as x from ({core}) a{n}", "select name as x from products"),
    ("select x * x as x from ({core}) a{n}", "select stock as x from products"),
    ("select max(x) as x from ({core}) a{n} group by x", "select stock as x from products"),
    ("select lower(x) as x, upper(x) as y from ({core}) a{n}", "select name as x from products"),
    ("({core} union all {core})", "select 1 as x"),
    ("select 1 where exists ({core})", "select 1"),
    ("select ({core}) as x", "select 1"),
    ("select count(*) from products where stock in ({core})", "select stock from products"),
    ("select case when x > 1 then x else x end as x from ({core}) a{n}", "select 1 as x"),
    ("with t{n} as ({core}) select a.* from t{n} a, t{n} b", "select name from products"),
    ("select coalesce(x, x, x) as x from ({core}) a{n}", "select name as x from products"),
    ("select sum(x) over (order by x) as x from ({core}) a{n}", "select stock as x from products"),
)

_CHAINS: Sequence[tuple[Sequence[str], str, str]] = (
    (["{n}"], " + ", "select {chain}"),
    (["stock > {n}"], " and ", "select 1 from products where {chain}"),
    (["stock = {n}", "name = 'n{n}'"], " or ", "select 1 from products where {chain}"),
    (["'a{n}'"], " || ", "select {chain}"),
    (["'a{n}'"], ", ", "select 1 from products where name in ({chain})"),
    (["name"], ", ", "select {chain} from products"),
    (["name as n{n}"], ", ", "select {chain} from products"),
    (["lower(name)", "length(name)"], ", ", "select {chain} from products"),
    (["1"], ", ", "select stock + 1 + 2 + 3 from products order by {chain}"),
    (["1"], ", ", "select stock + 1 + 2 + 3 from products group by {chain}"),
    (["products p{n}"], ", ", "select count(*) from {chain}"),
    (["lines l{n}"], " natural join ", "select count(*) from {chain}"),
    (["(select count(*) from lines)"], ", ", "select {chain}"),
    (["t{n} as (select {n} as x)"], ", ", "with {chain} select 1"),
    (["select {n}"], " union ", "{chain}"),
    (["select name from products"], " except ", "{chain}"),
    (["[1]"], "", "select tags{chain} from products"),
    (["::text", "::varchar"], "", "select 1{chain}"),
    (["-> 'a{n}'"], " ", "select info {chain} from products"),
    (["not"], " ", "select {chain} true"),
    (["-"], " ", "select {chain} 1"),
    (["when stock = {n} then {n}"], " ", "select case {chain} end from products"),
    (["sum(stock) over (order by stock + {n})"], ", ", "select {chain} from products"),
    (["count(*) filter (where stock > {n})"], ", ", "select {chain} from products"),
    (["strpos(name, 'a{n}')"], " + ", "select {chain} from products"),
    (["array[{n}]"], " || ", "select {chain}"),
    (["between {n} and"], " 1 ", "select 1 {chain} 2"),
    (["is null"], " ", "select 1 {chain}"),
    (["at time zone 'UTC'"], " ", "select now() {chain}"),
    (["collate"], " ", "select name {chain} from products"),
    (["(products p{n}"], " join ", "select 1 from {chain}"),
)


def _fit(make: Callable[[int], str], most: int) -> str:
    """Return the longest text that is made of at most so many pieces and characters."""
    fitting = (text for n in range(most, 0, -1) if len(text := make(n)) <= MOST_CHARACTERS)
    return next(fitting, make(1))


_TOKENS = re.compile(r"'[^']*'|\w+|\s+|[^\w\s]+")


def _broken(sql: str, dice: random.Random) -> str:
    """Return a text with some tokens left out, doubled, or moved."""
    tokens = _TOKENS.findall(sql)
    for _ in range(dice.randint(1, 3)):
        token = tokens.pop(dice.randrange(len(tokens)))
        for _ in range(dice.choice((0, 1, 2))):
            tokens.insert(dice.randrange(len(tokens) + 1), token)
    return " ".join(tokens)


def text_of(dice: random.Random) -> str:
    """Return a text: of the grammar, broken, a chain, or one construct inside of another."""
    kind = dice.random()
    if kind < 0.1:
        return _broken(Generator(dice).query()[0], dice)[:MOST_CHARACTERS]
    if kind < 0.4:
        made = Generator(dice).query()[0]
        return made if len(made) <= MOST_CHARACTERS else made[:MOST_CHARACTERS]
    if kind < 0.7:
        form, core = dice.choice(_NESTED)
        other = dice.choice(_NESTED)[0] if dice.random() < 0.3 else form
        levels = dice.choice((2, 4, 8, 16, 36))

        def nested(n: int) -> str:
            half = _nested(form, core, min(n, 12) // 2 if "{core} union" in form else n // 2)
            return _nested(
                other, half, min(n - n // 2, 4) if "{core} union" in other else n - n // 2
            )

        return _fit(nested, levels)
    pieces, join, around = dice.choice(_CHAINS)
    count = dice.choice((20, 100, 400, 900))
    return _fit(lambda n: around.format(chain=_chained(pieces, join, n)), count)


def measure(world: World, sql: str, seconds: float = 0.2) -> Cost:
    """Return what a text costs that has not been asked before.

    Args:
        world: the shop.
        sql: the text.
        seconds: what the statement may take in PostgreSQL.
    """
    toolset = world.tools(limits=Limits(seconds=seconds))
    world.engine.clear_compiled_cache()
    with world.session(ANN) as session:
        toolset.call(session, "db_query", {"sql": "select 1"})
        gc.collect()  # of the texts before
        before = reset_peak()
        started_at = time.process_time()
        told = toolset.call(session, "db_query", {"sql": sql})
        took = time.process_time() - started_at
    return Cost(took, peak() - before, sql, str(told.get("error", "rows"))[:120])


def costs_of(world: World, texts: int, seed: int) -> list[Cost]:
    """Return what so many texts cost, the slowest first.

    A garbage collection that looks at all objects of this process, which are no text's, takes
    0.3 seconds; so it is kept from those that were made before.
    """
    measure(world, "select 1")
    gc.collect()
    gc.freeze()
    try:
        found = [
            measure(world, text_of(random.Random(f"{seed}-{number}")))  # noqa: S311
            for number in range(texts)
        ]
    finally:
        gc.unfreeze()
    return sorted(found, key=lambda cost: -cost.seconds)
