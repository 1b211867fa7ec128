"""A shape to a tree, and what of a tree may be read: nothing is passed over in silence.

    tree = parsed(shape)
    left, right = parts(node, "this", "expression")

sqlglot keeps meaning in flags: `x NOT LIKE y` is a `Like` that is negated. So `parts` takes the
names of all arguments that its caller reads, and refuses a node that has any other. What is not
asked for in this way is in no statement that is built: an allow-list by construction. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlglot import expressions as exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokens import Tokenizer

from .lexing import Shape
from .refusing import refused, unsupported

_MOST_NODES = 3_000

# functions that are called in a way of their own; of all others the name and arguments are read
_OWN_WAYS = ("CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")

# how tightly operators bind, as PostgreSQL has it, and whether `a - b - c` is `(a - b) - c`
_BINDING: Mapping[str, tuple[int, bool]] = {
    "Or": (1, True),
    "And": (2, True),
    "Not": (3, True),
    **dict.fromkeys(("Is", "NullSafeEQ", "NullSafeNEQ"), (4, False)),
    **dict.fromkeys(("EQ", "NEQ", "LT", "LTE", "GT", "GTE"), (5, False)),
    **dict.fromkeys(("Between", "In", "Like", "ILike", "Escape"), (6, False)),
    **dict.fromkeys(
        (
            *("DPipe", "JSONExtract", "JSONExtractScalar", "JSONBExtract", "JSONBExtractScalar"),
            *("ArrayContainsAll", "ArrayContainedBy", "ArrayOverlaps", "JSONBContainsTopKey"),
            *("RegexpLike", "RegexpILike"),
        ),
        (7, True),
    ),
    **dict.fromkeys(("Add", "Sub"), (8, True)),
    **dict.fromkeys(("Mul", "Div", "Mod"), (9, True)),
    "Pow": (10, True),
    "AtTimeZone": (11, True),
    "Neg": (13, True),
    "Bracket": (14, True),
    # of SELECTs, which are nobody's operands else
    **dict.fromkeys(("Union", "Except"), (21, True)),
    "Intersect": (22, True),
}
_PREFIXES = ("Not", "Neg")

# what an argument of a node is in SQL, where its name does not say
_WORDS: Mapping[str, str] = {
    "db": "a name with a schema",
    "catalog": "a name with a schema",
    "distinct": "DISTINCT",
    "hint": "a hint",
    "into": "INTO",
    "laterals": "LATERAL",
    "locks": "FOR UPDATE",
    "sample": "TABLESAMPLE",
    "symmetric": "SYMMETRIC",
    "windows": "WINDOW",
    "with_": "WITH inside of this",
    "Values": "VALUES",
    "JSONBContainsTopKey": "the operator '?'",
    "Dot": "a name with a schema, or a field of a row,",
    "Placeholder": "a parameter",
    "Parameter": "a parameter",
    "Table": "a function in FROM",
}


@cache
def type_words() -> frozenset[str]:
    """Return the words that the parser takes for types."""
    kinds = Postgres.Parser.TYPE_TOKENS
    words = {**Tokenizer.KEYWORDS, **Postgres.Tokenizer.KEYWORDS}
    found = {word.lower() for word, kind in words.items() if kind in kinds}
    return frozenset(found - {"union"})  # of SELECTs, too


def parsed(shape: Shape) -> exp.Expression:
    """Return the tree of a shape.

    Raises:
        ToolError: it is no SQL, or not one statement, or binds otherwise than in PostgreSQL.
    """
    dialect = Postgres()
    parser: Any = dialect.parser()
    # as they are written: sqlglot would make one function of many, by what it knows of dialects
    parser.FUNCTIONS = {}
    parser.LAMBDAS = {}
    parser.FUNCTION_PARSERS = {name: parser.FUNCTION_PARSERS[name] for name in _OWN_WAYS}
    try:
        trees = parser.parse(dialect.tokenize(shape.text), shape.text)
    except Exception:  # noqa: BLE001  # whatever it stumbles over, it is no SELECT that is known
        raise refused("it cannot be read as SQL", "check its brackets, commas and words") from None
    if len(trees) != 1 or trees[0] is None:
        raise refused("there is more than one statement", "ask for one at a time")
    tree: exp.Expression = trees[0]
    _check(tree)
    return tree


def parts(node: exp.Expression, *names: str) -> list[Any]:
    """Return arguments of a node, which has no others.

    Raises:
        ToolError: it has.
    """
    for name, value in node.args.items():
        if value and name not in names:
            what = _WORDS.get(name) or f"{named(node)} with {name.strip('_').replace('_', ' ')}"
            raise unsupported(what)
    return [node.args.get(name) for name in names]


def named(node: exp.Expression) -> str:
    """Return what a node is called in an error."""
    kind = type(node).__name__
    return _WORDS.get(kind) or kind.upper()


def _check(tree: exp.Expression) -> None:
    """Check the size of a tree, and that PostgreSQL would read its text in the same way.

    Parsers that differ in how tightly operators bind make other trees of one text.
    """
    for n, node in enumerate(tree.walk()):
        if n > _MOST_NODES:
            raise refused("the statement is too large", "ask for less at once")
        own = _BINDING.get(type(node).__name__)
        if own is None:
            continue
        operands = _operands(node)
        if isinstance(node, exp.Bracket) and isinstance(node.this, exp.Cast):
            raise refused("'[...]' stands behind a type", "put what is converted in parentheses")
        for place, operand in enumerate(operands):
            if not _binds(operand, own, is_first=place == 0 and not isinstance(node, exp.Unary)):
                raise refused(
                    f"it is not certain what belongs together around {named(operand)}",
                    "put it in parentheses",
                )


def _operands(node: Any) -> Sequence[exp.Expression]:
    if isinstance(node, exp.Escape):  # belongs to what is before it
        return []
    names = ("this", "expression", "low", "high")
    found = [node.args[name] for name in names if isinstance(node.args.get(name), exp.Expression)]
    return found[:1] if isinstance(node, exp.Is | exp.In | exp.Bracket) else found


def _binds(operand: exp.Expression, own: tuple[int, bool], *, is_first: bool) -> bool:
    kind = type(operand).__name__
    binding = _BINDING.get(kind)
    if binding is None:
        return True
    level, associates = own
    if is_first or level <= _BINDING["And"][0]:
        return binding[0] > level or (associates and binding[0] == level)
    return binding[0] > level or kind in _PREFIXES
