"""Parsing of a SELECT: lexer checks, sqlglot, errors.

1. `query_shape` splits the text into tokens and replaces each literal with a numbered marker;
   equal literals share a marker. Texts that differ only in literals have the same shape. A text
   that is too long, nested too deep, or has an unknown character is refused here, before it is
   parsed.

>>> shape = query_shape("select name from recipes where id = 'recipe_1' limit 5")
>>> shape.text
"select name from recipes where id = 'L0' limit 100010"
>>> shape.literals
['recipe_1', '5']

2. `parse_shape` calls sqlglot, with sqlglot's function classes and dialect conversions disabled,
   and refuses a tree that PostgreSQL would read differently.
3. `parts` reads the arguments of a node. sqlglot keeps meaning in flags (`x NOT LIKE y` is a
   `Like` with `negate`), so `parts` takes the names of all arguments that its caller reads and
   refuses a node that has any other. So no argument is ignored.

>>> left, right = parts(parse_shape(shape, CostBudget()).find(exp.EQ), "this", "expression")
>>> describe_node(left), describe_node(right)
('id', '...')

`fault_in` converts database errors to errors for the model. For mistakes in the statement it
repeats PostgreSQL's primary message, with the model's names. For bad values it does not, because
the message may quote a row that the model cannot see.

Limits: what is refused here includes valid SQL, wherever sqlglot and PostgreSQL might disagree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from time import monotonic
from typing import Any

from sqlalchemy.exc import DataError, DBAPIError
from sqlglot import expressions as exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokens import Tokenizer

from alfred_refs.sqla import driver_error_fields
from alfred_refs.tools.errors import ToolError, invalid_sql, too_slow

_NEAR = 0.8  # as `lenght` and `length`; `lpad` and `lead` are 0.75
_MOST_NAMES = 120


def raw_key(entity: str) -> ToolError:
    """Report that a key is used where a ref is needed."""
    return ToolError(
        "raw_key", f"a database key cannot be used here; give a ref, such as '{entity}_1'"
    )


def unknown_name(what: str, name: str, known: Iterable[str]) -> ToolError:
    """Report that there is no table, column or function of a name, or none for the model."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names, 3, _NEAR)
    listed = ", ".join(map(repr, near or names[:_MOST_NAMES]))
    remedy = f"use one of {listed}" if listed else "leave it out"
    return invalid_sql(f"there is no {what} {name!r} here", remedy)


def no_refs() -> ToolError:
    """Report that keys would be shown in a form in which no ref can replace them."""
    return invalid_sql("it shows refs inside an expression", "select the column of refs itself")


def too_deep() -> ToolError:
    """Report that a statement is nested deeper than Python code can recurse."""
    return invalid_sql("it is nested too deep, or too long", "use WITH for parts of the question")


def unsupported(what: str, remedy: str = "ask in another way") -> ToolError:
    """Report that a SQL construct has no builder."""
    return invalid_sql(f"{what} is not known here", remedy)


_QUERY_CANCELED = "57014"
_MAX_MESSAGE = 300

# mistakes in a statement; their texts name functions, types and columns of the statement alone
_MISTAKES = frozenset(
    (
        "42601",  # syntax_error
        "42702",  # ambiguous_column
        "42725",  # ambiguous_function
        "42803",  # grouping_error
        "42804",  # datatype_mismatch
        "42809",  # wrong_object_type: a window function without OVER
        "42846",  # cannot_coerce
        "42883",  # undefined_function
        "42P10",  # invalid_column_reference: DISTINCT and ORDER BY differ
        "42P18",  # indeterminate_datatype
        "42P19",  # invalid_recursion
        "42P20",  # windowing_error
        "42P21",  # collation_mismatch
        "42P22",  # indeterminate_collation
    )
)

# SQLSTATE -> the fact, and what to do
_FACTS: Mapping[str, tuple[str, str]] = {
    "0A000": ("PostgreSQL does not support this", "write it in another way"),
    "21000": (
        "a subquery that is used as a value returns several rows",
        "use IN, an aggregate, or LIMIT 1",
    ),
    "22001": (
        "a value is too long for a function, an operator or a conversion",
        "use left(x, 20000) of a text, left(x, 200) of one that is searched for, or members",
    ),
    "22003": (
        "a number is out of range",
        "compute with numeric, smaller numbers or shorter lists",
    ),
    "22007": ("a string is not a valid date or time", "write dates as '2026-05-01'"),
    "22008": ("a date or time is out of range", "write dates as '2026-05-01'"),
    "2200F": ("a string is empty where that is not allowed", "use nullif(x, '')"),
    "2201E": ("a logarithm is not defined for its argument", "leave such rows out"),
    "2201F": ("a power is not defined for its arguments", "leave such rows out"),
    "22012": ("there is a division by zero", "divide by nullif(x, 0)"),
    "22025": ("a pattern ends in its escape character", "remove that character, or double it"),
    "22P02": ("a text cannot be converted to its type", "convert only texts that fit it"),
    "42501": ("the database role may not read some of it", "use other columns, or other tables"),
    "54001": ("it is nested too deep", "use WITH for parts of the question"),
    "54011": ("it selects too many columns", "name the columns that you want"),
    "54023": ("a function has too many arguments", "call it with fewer"),
}
_VALUE = "a value does not fit where it is used", "convert or leave out such values"
_UNREADABLE = "a value has no equivalent in Python", "leave it out, or convert it to text"
_TOO_MUCH = "it is more than the database can do at once", "ask for less"

_ALIAS = re.compile(r"\b_[tqn]\d+(?:\.c\d+)?\b")
_LESS = "fewer tables, joins that say ON which rows belong together, or conditions on more columns"


def fault_in(error: DBAPIError, names: Mapping[str, str], slow: float | None) -> ToolError | None:
    """Return the tool error for an error of the database; `None` if it is not the statement's.

    Args:
        error: of the database.
        names: the aliases that were sent -> the model's names.
        slow: how many seconds the statement may take, if it took as long.
    """
    fields = driver_error_fields(error)
    if fields["sqlstate"] is None and isinstance(error, DataError):
        return invalid_sql(*_UNREADABLE)
    state = str(fields["sqlstate"])
    if state == _QUERY_CANCELED:
        return None if slow is None else too_slow(slow, _LESS)
    if state in _FACTS:
        return invalid_sql(*_FACTS[state])
    if state in _MISTAKES:
        first = str(fields.get("message") or "PostgreSQL refuses it").splitlines()[0]
        told = _ALIAS.sub(lambda found: names.get(found[0], "a column"), first)
        return invalid_sql(told[:_MAX_MESSAGE], "correct it and call again")
    if state.startswith("22"):
        return invalid_sql(*_VALUE)
    return invalid_sql(*_TOO_MUCH) if state.startswith(("53", "54")) else None


MAX_COST = 1_000
"""Units that a statement may cost; Python works for 0.1 to 0.5 ms on one."""


_FREE_READS = 40  # of values of any size
_READ = 30  # units, for each of the other times
_MAX_LEVELS = 60  # of expressions: `a + b + c` has three


@dataclass(slots=True)
class CostBudget:
    """What one statement may cost before it is sent: units, and seconds of Python.

    A unit is one occurrence of an expression in the SQL that is sent. Each column of `*` counts,
    and so do each use of a part of WITH and each repetition of a column's expression.

    Attributes:
        seconds: how long parsing and building may take; `None` for no limit.
        spent: how many units were used.
    """

    seconds: float | None = None
    spent: int = 0
    _long: int = 0
    _ends_at: float = field(init=False)
    _depth: int = 0

    def __post_init__(self) -> None:
        self._ends_at = math.inf if self.seconds is None else monotonic() + self.seconds

    def spend(self, units: int) -> None:
        """Use units."""
        self.spent += units
        if self.spent > MAX_COST:
            raise invalid_sql(
                f"it costs more than {MAX_COST:,} units, counted with each use of a part of WITH, "
                "of '*' and of a subquery's columns",
                "name fewer columns, and ask for less at once",
            )
        self.check_time()

    def read_long(self, times: int) -> None:
        """Count how often one row reads values of any size: 10 MB of text take 10 ms each time."""
        free = max(_FREE_READS - self._long, 0)
        self._long += times
        self.spend(_READ * max(times - free, 0))

    @contextmanager
    def level(self) -> Iterator[None]:
        """Enter an expression inside another one; count how deep it is."""
        self._depth += 1
        if self._depth > _MAX_LEVELS:
            raise too_deep()
        yield
        self._depth -= 1

    def check_time(self) -> None:
        """Check the deadline."""
        if self.seconds is not None and monotonic() > self._ends_at:
            raise too_slow(self.seconds, "a shorter statement")


MAX_CHARACTERS = 8_000  # characters of a text
_MAX_TOKENS = 2_000
_MAX_SUBSCRIPTS = 6  # behind others; sqlglot infers the type of all that is before each
_MAX_DEPTH = 40  # brackets

_OPERATORS = frozenset(
    (
        *("+", "-", "*", "/", "%", "^", "<", ">", "=", "<=", ">=", "<>", "!=", "||", "->"),
        *("->>", "#>", "#>>", "@>", "<@", "&&", "?", "~", "~*", "!~", "!~*", "~~", "!~~"),
        *("~~*", "!~~*"),
    )
)

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]+|--[^\r\n]*|/\*(?:(?!\*/|/\*)[\s\S])*\*/)
    |'(?P<string>(?:[^']|'')*)'
    |(?P<quoted>"(?:[^"\\]|"")+")
    |(?P<number>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>::|[][(),.:;])
    |(?P<operator>(?:(?!--|/\*)[-+*/<>=~!@\#%^&|?])+)""",
    re.VERBOSE,
)
_UNSENDABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")

# keywords that begin a clause, and those that something must follow
_AFTER = frozenset(
    (
        *("from", "where", "group", "order", "having", "limit", "offset", "fetch", "union"),
        *("intersect", "except", "join", "on", "using"),
    )
)
_OPEN = frozenset(
    (
        *("select", "by", "and", "or", "not", "where", "having", "on", "when", "then", "else"),
        *("between", "like", "ilike", "limit", "offset"),
    )
)
_ENDS_OF_TYPES = ("precision", "varying", "zone")
_NEVER_EMPTY = ("in", "on", "using", "exists", "any", "all", "filter")

_JOIN_TYPES = [[each] for each in ("cross", "full", "inner", "left", "natural", "outer", "right")]

# the first digit of a number's marker -> PostgreSQL's type, and its largest integer
_NUMBERS = {1: ("integer", 2**31 - 1), 2: ("bigint", 2**63 - 1), 3: ("numeric", math.inf)}
_UNIT = 100_000

MOST_LITERAL_DIGITS = 100
"""How many digits a number in the text may have."""


@dataclass(frozen=True, slots=True)
class QueryShape:
    """A text without its literals.

    Attributes:
        text: with a marker for each literal.
        literals: their texts, each once.
    """

    text: str
    literals: Sequence[str]


def query_shape(text: str) -> QueryShape:
    """Split a text into its shape and its literals."""
    if len(text) > MAX_CHARACTERS:
        raise invalid_sql(
            f"the text has {len(text)} characters", f"write at most {MAX_CHARACTERS}"
        )
    found = _UNSENDABLE.search(text)
    if found is not None:
        raise invalid_sql("the text has a control character", "leave it out")
    tokens = list(_tokens(text))
    if len(tokens) > _MAX_TOKENS:
        raise invalid_sql(f"the text has {len(tokens)} words and signs", "ask for less at once")
    while tokens and tokens[-1] == ("sign", ";"):
        tokens.pop()
    _check_start(tokens)
    _check_ends(tokens)
    _check_brackets(tokens)
    _check_conversions(tokens)
    return _with_markers(tokens)


def string_number(marker: str) -> int:
    """Return which literal the marker of a string stands for."""
    return int(marker.removeprefix("L"))


def number_of(marker: Any, *, added: int = 0) -> tuple[int, str]:
    """Return which literal the marker of a number stands for, and its type.

    Args:
        marker: from the tree.
        added: what sqlglot has subtracted from it.
    """
    kind, rest = divmod(int(marker) + added, _UNIT) if str(marker).isdigit() else (0, 0)
    index, rest = divmod(rest, 10)
    if rest or kind not in _NUMBERS:
        raise invalid_sql("a number in this place is not known", "write it another way")
    return index, _NUMBERS[kind][0]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place, before = 0, ("", "")
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise _unknown_sign(text[place])
        kind, word = str(found.lastgroup), found[str(found.lastgroup)]
        end, begin, place = before, place, found.end()
        before = kind, word
        if kind == "space":
            continue
        touching = begin > 0 and end[0] not in ("", "space", "sign", "operator")
        if touching and kind in ("string", "name", "number", "quoted"):
            raise invalid_sql(
                f"{end[0]} and {kind} touch each other",
                "put a space between, and write texts as 'text' alone, without E, U& or B",
            )
        yield from _operators(word) if kind == "operator" else [(kind, word)]


def _operators(run: str) -> Iterator[tuple[str, str]]:
    """Split a run of signs into operators, as PostgreSQL does: `<-1` is `<` and `-`."""
    rest = run.rstrip("+-") if run not in _OPERATORS else run
    is_split = rest == run or not set(rest) & set("~!@#%^&|?")
    if rest and not (rest in _OPERATORS and is_split):
        raise invalid_sql(f"the operator {run!r} is not known", "put spaces between operators")
    if rest:
        yield "operator", rest
    yield from (("operator", each) for each in run[len(rest) :])


def _unknown_sign(sign: str) -> Exception:
    if sign in "'\"/":
        return invalid_sql(
            "a quote or a comment is not closed", "close it; '' in a text is a quote"
        )
    if sign == "$":
        return invalid_sql("'$' is used", "write values and texts out, as 'text'")
    return invalid_sql(f"{sign!r} is not known here", "put names with it in double quotes")


def _check_start(tokens: Sequence[tuple[str, str]]) -> None:
    if ("sign", ";") in tokens:
        raise invalid_sql("there is more than one statement", "ask for one at a time")
    words = [word.lower() for kind, word in tokens if (kind, word) != ("sign", "(")]
    if not words:
        raise invalid_sql("there is no statement", "write a SELECT")
    if words[0] not in ("select", "with"):
        raise invalid_sql(
            f"the statement begins with {words[0][:30]!r}",
            "write a SELECT; rows are changed with the other tools",
        )


def _check_ends(tokens: Sequence[tuple[str, str]]) -> None:
    """Check that nothing is missing after a comma or a keyword: a parser may ignore that."""
    words = [word.lower() if kind in ("name", "sign") else "" for kind, word in tokens]
    for before, word, after in zip(["", *words], words, [*words[1:], ")"], strict=False):
        is_end = after in _AFTER or after in (")", "]")
        is_open = word == "," or word in _OPEN
        is_empty = (word, after) == ("(", ")") and before in _NEVER_EMPTY
        if (is_open and is_end and (word, after) != ("by", "all")) or is_empty:
            raise invalid_sql(
                f"there is nothing between {word!r} and {after!r}", "write what is there"
            )
        if word == "over" and after != "(":
            raise invalid_sql("OVER is without parentheses", "write OVER (...)")
        if word == "[" and (before in ("", "(", ",", "[") or before in _AFTER or before in _OPEN):
            raise invalid_sql("'[' begins a value", "write ARRAY[...]; names are in double quotes")


def _check_brackets(tokens: Sequence[tuple[str, str]]) -> None:
    depth, subscripts = 0, 0
    for before, (kind, word) in zip([("", ""), *tokens], tokens, strict=False):
        if kind == "sign" and word in "()[]":
            depth += 1 if word in "([" else -1
            subscripts += (before, word) == (("sign", "]"), "[")
            if depth > _MAX_DEPTH:
                raise invalid_sql(
                    "brackets are nested too deep", "use WITH for parts of the question"
                )
    if subscripts > _MAX_SUBSCRIPTS:
        raise invalid_sql("values have too many subscripts", "write at most one for each level")


def _check_conversions(tokens: Sequence[tuple[str, str]]) -> None:
    """Refuse `date '2026-05-01'::text`: a parser may convert the text first."""
    for before, word, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        name = before[1].lower()
        is_type = name == ")" or name in _ENDS_OF_TYPES or name in type_words()
        if (word[0], after) == ("string", ("sign", "::")) and is_type and name != "interval":
            raise invalid_sql(
                f"it is not certain what is converted after {before[1]!r}",
                "put it in parentheses: (DATE '2026-05-01')::text",
            )


def _with_markers(tokens: Sequence[tuple[str, str]]) -> QueryShape:
    """Join tokens into a text with markers in place of literals."""
    literals: dict[tuple[str, str], int] = {}
    words = []
    for kind, word in tokens:
        if kind == "string":
            known = literals.setdefault((kind, word.replace("''", "'")), len(literals))
            words.append(f"'L{known}'")
        elif kind == "number":
            known = literals.setdefault((kind, word), len(literals))
            words.append(f"{_kind_of(word)}{known * 10:05d}")
        else:
            word = word.lower() if kind == "name" else word  # noqa: PLW2901
            # without a word before it, and without ON, a parser would take it for a comma
            words += ["inner"] if word == "join" and words[-1:] not in _JOIN_TYPES else []
            words.append(word)
    return QueryShape(" ".join(words), [word for _, word in literals])


def _kind_of(number: str) -> int:
    mantissa, _, exponent = number.lower().partition("e")
    if len(number) > MOST_LITERAL_DIGITS or (
        len(mantissa) + abs(int(exponent or 0)) > MOST_LITERAL_DIGITS
    ):
        raise invalid_sql(
            f"a number in the statement has more than {MOST_LITERAL_DIGITS} digits", "round it"
        )
    value = int(number) if number.isdigit() else math.inf
    return next(kind for kind, (_, most) in _NUMBERS.items() if value <= most)


_MAX_NODES = 3_000
_STEPS = 20_000  # 10 for each of the most tokens

# functions with a syntax of their own; others have a name and arguments
_SPECIAL_SYNTAX = ("CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")

# PostgreSQL's operator precedence, and whether `a - b - c` is `(a - b) - c`
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
    # of SELECTs, which are operands of nothing else
    **dict.fromkeys(("Union", "Except"), (21, True)),
    "Intersect": (22, True),
}
_PREFIXES = ("Not", "Neg")

# SQL's words for nodes and their arguments that a text does not show, or not in one place
_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("db", "catalog"), "a name with a schema"),
    "laterals": "LATERAL",
    "locks": "FOR UPDATE",
    "sample": "TABLESAMPLE",
    "windows": "WINDOW",
    "unit": "a unit behind the text of an INTERVAL",
    "with_": "WITH inside this",
    "Dot": "a name with a schema, or a field of a row,",
    "Table": "a function in FROM",
}
_MARKER = re.compile(r"'L\d+'|\b[123]\d{5,}\b")
_MOST_SHOWN = 60  # characters of a node


@cache
def type_words() -> frozenset[str]:
    """Return the words that the parser takes for types."""
    kinds = Postgres.Parser.TYPE_TOKENS
    words = {**Tokenizer.KEYWORDS, **Postgres.Tokenizer.KEYWORDS}
    found = {word.lower() for word, kind in words.items() if kind in kinds}
    return frozenset(found - {"union"})  # of SELECTs, too


class _BoundedParser(PostgresParser):
    """A parser that stops after a number of steps: sqlglot tries some constructs repeatedly."""

    budget = CostBudget()
    _steps = 0

    def _advance(self, times: int = 1) -> None:
        self._steps += 1
        if self._steps > _STEPS:
            raise invalid_sql("it cannot be read in time", "write it in a simpler way")
        if not self._steps % 100:
            self.budget.check_time()
        super()._advance(times)


def parse_shape(shape: QueryShape, budget: CostBudget) -> exp.Expression:
    """Parse a shape into sqlglot's tree, if PostgreSQL would read it in the same way."""
    dialect = Postgres()
    parser: Any = _BoundedParser(dialect=dialect)
    parser.budget = budget
    # without these, sqlglot would translate functions between dialects
    parser.FUNCTIONS = {}
    parser.LAMBDAS = {}
    parser.FUNCTION_PARSERS = {name: parser.FUNCTION_PARSERS[name] for name in _SPECIAL_SYNTAX}
    try:
        [tree] = parser.parse(dialect.tokenize(shape.text), shape.text)
    except ToolError:
        raise
    except Exception as error:  # noqa: BLE001  # sqlglot raises various ones
        errors = error.errors if isinstance(error, ParseError) else []
        found = next((each.get("highlight") for each in errors), None)
        place = f" at {_without_markers(found)!r}" if found else ""
        raise invalid_sql(
            f"it cannot be read as SQL{place}", "check its brackets, commas and words"
        ) from None
    _check(tree)
    return tree  # type: ignore[no-any-return]


def parts(node: exp.Expression, *names: str) -> list[Any]:
    """Return arguments of a node; refuse one that has others."""
    for name, value in node.args.items():
        if value and name not in names:  # sqlglot names an argument by its keyword
            raise unsupported(_WORDS.get(name) or name.strip("_").replace("_", " ").upper())
    return [node.args.get(name) for name in names]


def describe_node(node: exp.Expression) -> str:
    """Return a node as SQL for an error, without the literals."""
    known = _WORDS.get(type(node).__name__)
    return known or _without_markers(
        Postgres().generate(node, unsupported_level=ErrorLevel.IGNORE)
    )


def _without_markers(text: str) -> str:
    text = _MARKER.sub("...", text)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _check(tree: exp.Expression) -> None:
    """Check the size of a tree, and that PostgreSQL would read its text in the same way.

    Parsers that differ in operator precedence build different trees from one text.
    """
    for n, node in enumerate(tree.walk()):
        if n > _MAX_NODES:
            raise invalid_sql("the statement is too large", "ask for less at once")
        own = _BINDING.get(type(node).__name__)
        if own is None:
            continue
        operands = _operands(node)
        if isinstance(node, exp.Bracket) and isinstance(node.this, exp.Cast):
            raise invalid_sql("'[...]' follows a type", "put what is converted in parentheses")
        for place, operand in enumerate(operands):
            if not _binds(operand, own, is_first=place == 0 and not isinstance(node, exp.Unary)):
                raise invalid_sql(
                    f"it is not certain what belongs together around {describe_node(operand)}",
                    "put it in parentheses",
                )


def _operands(node: Any) -> Sequence[exp.Expression]:
    if isinstance(node, exp.Escape):  # is part of the LIKE before it
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
