"""Examples in docstrings run, in `examples.world`: those of public names and of modules."""

from __future__ import annotations

from collections.abc import Iterator
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, DocTestFinder, DocTestRunner
from enum import Enum
from importlib import import_module
from inspect import isclass, isfunction
from pkgutil import walk_packages
from typing import Any

import pytest
from pydantic import BaseModel
from sqlalchemy import Engine, create_engine

import alfred_refs
from alfred_refs.context import find_keys
from alfred_refs.tools import TOOLS, DbQuery, FilterClause
from examples.world import create_tables, world
from tests import reference
from tests.fix_postgres import DatabasePool, database_pool

# the wings whose modules each open with an example; a door shows its modules instead
WINGS = {
    *("sqla", "mapping", "owners", "store", "statements"),
    *(
        "conversation",
        "session",
        "positions",
        "context",
        "integrations",
        "cli",
        "tools",
        "inspector",
    ),
}
MODULES = [
    found.name
    for found in walk_packages(alfred_refs.__path__, "alfred_refs.")
    if found.name.split(".")[1] in WINGS
    and not found.ispkg
    and ".migrations" not in found.name
    and not found.name.endswith("__main__")
] + ["alfred_refs.errors"]


def _of(name: str) -> Any:
    door, _, own = name.rpartition(".")
    return getattr(import_module(door), own)


def _is_shown(name: str) -> bool:
    """Tell whether a name is to have an example: what an enumeration has is in its members."""
    value = _of(name)
    return isfunction(value) or (isclass(value) and not issubclass(value, Enum))


@pytest.fixture(scope="module")
def kitchens(administration: Engine) -> Iterator[DatabasePool]:
    """Databases with the tables of the examples."""

    def prepare(url: str) -> None:
        engine = create_engine(url)
        create_tables(engine)
        engine.dispose()

    with database_pool(administration, prepare) as databases:
        yield databases


@pytest.fixture
def names(kitchens: DatabasePool) -> Iterator[dict[str, Any]]:
    """What an example has at hand, on rows of its own."""
    with kitchens.engine() as engine:
        made = world(engine)
        with made["session"]:
            yield made


@pytest.mark.whole
@pytest.mark.parametrize("name", [*filter(_is_shown, reference.public())])
def test_an_example_comes_to_what_it_says(name: str, names: dict[str, Any]) -> None:
    """It is under `Example:`, has its module's and the package's names, and shows no key."""
    value, door = _of(name), import_module(name.rpartition(".")[0])
    modules = (alfred_refs, door)
    public = {own: getattr(module, own) for module in modules for own in module.__all__}
    assert "Example:\n" in (value.__doc__ or ""), f"the docstring of {name} has no Example"

    [example] = DocTestFinder(recurse=False).find(value, name, globs={**public, **names})
    shown = [each.exc_msg or each.want for each in example.examples]
    told: list[str] = []
    DocTestRunner(optionflags=ELLIPSIS | NORMALIZE_WHITESPACE).run(example, out=told.append)

    assert any(shown), f"the Example of {name} shows nothing that comes of it"
    assert find_keys(shown) == []
    assert not told, "".join(told)


@pytest.mark.whole
@pytest.mark.parametrize("name", MODULES)
def test_the_example_of_a_module_runs(name: str, names: dict[str, Any]) -> None:
    """Its docstring has an example, which has the module's names and those of the world."""
    module = import_module(name)

    example = DocTestFinder(recurse=False).find(module, name, globs={**vars(module), **names})[0]
    assert example.examples, f"the docstring of {name} has no example"
    failures: list[str] = []
    DocTestRunner(optionflags=ELLIPSIS | NORMALIZE_WHITESPACE).run(example, out=failures.append)

    assert not failures, "".join(failures)


@pytest.mark.parametrize("model", [*TOOLS.values(), DbQuery, FilterClause])
def test_schemas_leave_examples_out(model: type[BaseModel]) -> None:
    """They are for programmers, and models read schemas."""
    assert ">>>" in (model.__doc__ or "")
    assert ">>>" not in str(model.model_json_schema())
