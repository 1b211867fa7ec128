"""SQLAlchemy's private names are leaned on behind one door, `alfred_refs.sqla`.

What this cannot see is a name put together while the program runs, and a private attribute of
SQLAlchemy's that is read from another object inside a class which has one of that name itself.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest
import sqlalchemy

import alfred_refs

PACKAGE = Path(alfred_refs.__file__).parent
LIBRARY = Path(sqlalchemy.__file__).parent
DOOR = "sqla"

# what SQLAlchemy's documentation has, underscore and all: of rows
DOCUMENTED = {"_asdict", "_fields", "_mapping", "_tuple"}

# what stays where it is
EXCUSED = {
    # read for every attribute shown, where a call more would be felt
    "session/attributes.py": {"_sa_instance_state"},
    # of a conversation of ours, whose parts the view has: SQLAlchemy has such names too
    "conversation/view.py": {"_entities", "_schemas"},
    # how a class says whose events it has; SQLAlchemy's own say it so
    "store/telemetry.py": {"_dispatch_target"},
}

# what is given the name of an attribute
ASKS = {"attrgetter", "delattr", "get", "getattr", "hasattr", "methodcaller", "pop", "setattr"}


def is_private(name: str) -> bool:
    """Tell a private name from a public one and from one of Python's protocols."""
    return name.startswith("_") and not (name.startswith("__") or name in {"_", *DOCUMENTED})


@cache
def parsed(path: Path) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(path.read_text())


@cache
def defined_in(tree: ast.AST) -> frozenset[str]:
    """The private names that functions, classes, variables and attributes get in a tree."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=value):
                names |= texts_in(ast.walk(value))
    return frozenset(filter(is_private, names))


def texts_in(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The private names that stand among nodes as text."""
    texts = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    return frozenset(text for text in texts if text.isidentifier() and is_private(text))


@cache
def sqlalchemys() -> frozenset[str]:
    """The private names of SQLAlchemy: every word of its source that may be one."""
    sources = [path.read_text() for path in LIBRARY.rglob("*.py") if "testing" not in path.parts]
    words = {word for source in sources for word in re.findall(r"\b_[A-Za-z]\w*", source)}
    return frozenset(filter(is_private, words))


def modules() -> list[Path]:
    """The modules of the package, without those of the door."""
    return [p for p in sorted(PACKAGE.rglob("*.py")) if p.relative_to(PACKAGE).parts[0] != DOOR]


@cache
def ours() -> frozenset[str]:
    """The private names of the package."""
    return frozenset[str]().union(*(defined_in(parsed(path)) for path in modules()))


def used_in(tree: ast.AST, own: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the private names of SQLAlchemy that a tree imports, reads or asks for by text.

    Args:
        tree: of a module, or a part of one.
        own: what the class defines that the part is in.
    """
    for node in ast.iter_child_nodes(tree):
        yield from imported_by(node)
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if name in sqlalchemys():
                if name not in (ours() if owner in {"self", "cls"} else own):
                    yield name
            case ast.Attribute(attr=name) if name in sqlalchemys() and name not in own:
                yield name
            case ast.Call(func=ast.Name(id=asks) | ast.Attribute(attr=asks), args=arguments):
                yield from (texts_in(arguments) & sqlalchemys()) if asks in ASKS else ()
            case ast.Subscript(slice=key):
                yield from texts_in([key]) & sqlalchemys()
        yield from used_in(node, defined_in(node) if isinstance(node, ast.ClassDef) else own)


def imported_by(node: ast.AST) -> Iterator[str]:
    """Yield the private parts of what an import takes from SQLAlchemy."""
    match node:
        case ast.Import(names=names):
            paths = [name.name for name in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            paths = [f"{module}.{name.name}" for name in names]
        case _:
            return
    for path in paths:
        top, *parts = path.split(".")
        yield from filter(is_private, parts) if top == "sqlalchemy" else ()


def overridden_in(path: Path) -> Iterator[str]:
    """Yield what classes of a module define that is private in SQLAlchemy's classes above them."""
    for node in ast.walk(parsed(path)):
        # imported only if need be: an adapter's framework takes seconds
        if not (isinstance(node, ast.ClassDef) and defined_in(node) & sqlalchemys()):
            continue
        name = ".".join(("alfred_refs", *path.relative_to(PACKAGE).with_suffix("").parts))
        module = importlib.import_module(name.removesuffix(".__init__"))
        kind = getattr(module, node.name, None)
        above = kind.__mro__ if isinstance(kind, type) else ()
        for base in (base for base in above if base.__module__.startswith("sqlalchemy.")):
            source = Path(str(sys.modules[base.__module__].__file__))
            its = defined_in(parsed(source)) if source.suffix == ".py" else set()
            theirs = its | {name for name in vars(base) if is_private(name)}
            yield from defined_in(node) & theirs


@pytest.mark.slow
def test_no_private_name_of_sqlalchemys_is_used_beside_the_door() -> None:
    """No module outside `sqla` imports, reads, asks for or overrides one, but for `EXCUSED`."""
    found = {
        path.relative_to(PACKAGE).as_posix(): {*used_in(parsed(path)), *overridden_in(path)}
        for path in modules()
    }

    assert {path: names for path, names in found.items() if names} == EXCUSED


def test_each_test_that_sqla_names_exists() -> None:
    """The comment with a private name says which test pins it."""
    named = {
        name
        for path in (PACKAGE / DOOR).glob("*.py")
        for name in re.findall(r"\btest_\w+(?=`)", path.read_text())
    }
    defined = {
        name
        for path in Path(__file__).parents[1].rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }

    assert len(named) > 30
    assert named <= defined


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from sqlalchemy.orm.strategy_options import _AbstractLoad", ["_AbstractLoad"]),
        ("import sqlalchemy.orm._orm_constructors", ["_orm_constructors"]),
        ("statement._where_criteria", ["_where_criteria"]),
        ("getattr(statement, '_where_criteria', ())", ["_where_criteria"]),
        ("vars(statement)['_where_criteria']", ["_where_criteria"]),
        ("vars(statement).pop('_where_criteria')", ["_where_criteria"]),
        ("class A(Session):\n    def f(self): return self._autoflush()", ["_autoflush"]),
        ("class A:\n    def f(self): return self._nobody_has_this", []),
        ("class A:\n    _data = 1\n    def f(self, other: A): return other._data", []),
        ("class A:\n    def f(self, values): return values._data", ["_data"]),
        ("row._mapping", []),
        ("statement.__clause_element__()", []),
    ],
)
def test_each_way_to_a_private_name_is_seen(source: str, found: list[str]) -> None:
    """An import, an attribute, and an attribute by its name as text are found."""
    assert list(used_in(ast.parse(dedent(source)))) == found
