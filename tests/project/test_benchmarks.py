"""Tests for `benchmarks`: that they measure and report, never what they find."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console
from sqlalchemy import URL, Engine, make_url

from alfred_refs import RefRegistry
from benchmarks import (
    __main__ as program,
    alternatives,
    asking,
    calling,
    journaling,
    keeping,
    layouts,
    measure,
    minting,
    opening,
    others,
    plot,
    population,
    querying,
    reading,
    report,
    telling,
)
from benchmarks.growth import results
from benchmarks.measure import Figure
from benchmarks.population import (
    IN_SMALL,
    LARGEST,
    SMALL,
    Populated,
    new_database as population_database,
)
from benchmarks.setting import SERVER
from benchmarks.table import Row

pytestmark = pytest.mark.slow

_TINY = ("--rows", "20", "--repetitions", "2", "--mappings", "100")


@pytest.fixture(autouse=True)
def hasty(
    monkeypatch: pytest.MonkeyPatch, database_url: str, administration: Engine
) -> Iterator[None]:
    """A server that does not wait for the disk, and little work: here nothing is measured."""

    def hasty_server(*, durable: bool, settings: object = SERVER) -> AbstractContextManager[URL]:
        assert durable
        assert settings == SERVER
        return nullcontext(make_url(database_url))

    for each in (program, layouts):
        monkeypatch.setattr(each, "embedded_server", hasty_server)
    for each in (asking, calling, journaling, opening, querying, reading, telling):
        monkeypatch.setattr(each, "_CALLS", 1)
    monkeypatch.setattr(measure, "_WARM_UP", 1)
    # collections would go through all that earlier tests have left
    monkeypatch.setattr(measure, "gc", Mock(spec=gc))
    monkeypatch.setattr(keeping, "_CACHED", (10, 20))
    monkeypatch.setattr(telling, "_LINES", 100)
    monkeypatch.setattr(querying, "_TIMES", 2)
    own, made = make_url(database_url).database, list[str]()

    def new_database(engine: Engine, name: str) -> Engine:
        made.append(f"{own}_{name}")
        return population_database(engine, made[-1])

    for each in (alternatives, minting, population):
        monkeypatch.setattr(each, "new_database", new_database)
    yield
    with administration.connect() as connection:
        for name in made:
            connection.exec_driver_sql(f"drop database {name} with (force)")


def cells_of(written: Path) -> list[list[str]]:
    """Return the cells of the first table that was written, without its head."""
    text = written.read_text("utf-8").partition("## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_row_is_measured_and_written_with_its_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has a figure in each row and the bound of each, on the console and in the file."""
    written = tmp_path / "results" / "table.md"
    monkeypatch.setattr(others, "ALL", (others.Plain,))  # the others have a test

    code = program.main([*_TINY, "--write", str(written)])

    cells = cells_of(written)
    value, bounds = r"[\d,]+(\.\d+)?( x| B| MB| ms)?", [row.at_most for row in program.ROWS]
    assert code == 0
    assert [cell[0] for cell in cells] == [row.what for row in program.ROWS]
    assert all(re.fullmatch(value, cell[1]) for cell in cells)
    assert [bool(re.fullmatch(value, cell[3])) for cell in cells] == [
        b is not None for b in bounds
    ]
    assert "PostgreSQL" in capsys.readouterr().out


def test_a_row_can_be_measured_alone(tmp_path: Path) -> None:
    """While one works on a row, the others need not be waited for."""
    written = tmp_path / "table.md"

    program.main([*_TINY, "--only", "not_cached", "--write", str(written)])

    assert len(cells_of(written)) == 1


def test_minting_is_seen_to_be_one_round_trip(tmp_path: Path) -> None:
    """What is counted is the server's answers: none would mean that nothing was traced."""
    written = tmp_path / "table.md"

    program.main([*_TINY, "--only", "minted_in_round_trips", "--write", str(written)])

    assert cells_of(written)[0][1] == "1"


def test_every_package_has_its_line_and_ours_keeps_all_that_is_claimed(engine: Engine) -> None:
    """What is not installed is said to be missing; nothing else is left out."""
    lines = alternatives.lines(engine, rows=5, repetitions=1)

    by_package = {tuple(line[:2]): line[2:] for line in lines}
    assert len(by_package) == len(others.ALL)
    assert by_package["alfred-refs", "PostgreSQL"][3:] == 5 * ["yes"]
    for names in others.ALL:
        installed = all(find_spec(module) for module in names.needs)
        said = by_package[names.package, names.kept][0]
        assert installed != said.endswith("is not installed")


@pytest.mark.parametrize(
    ("load", "warned"), [((0.1, 1.2), False), ((9.0, 1.2), True), ((0.1, 99.0), True)]
)
def test_a_busy_machine_is_told_of(load: tuple[float, float], warned: bool) -> None:
    """Figures that other programs had a part in do not look like the others."""
    found = report.Report([], [], "a machine", load)
    written = report.markdown(found, None)

    assert ("Warning" in written) == warned
    assert f"load average {load[0]:.1f} at the start" in written


def test_ratios_are_plotted_with_their_bounds(tmp_path: Path) -> None:
    """The plot has a label for each ratio, and none for what was counted."""
    pytest.importorskip("matplotlib", reason="the plot is drawn by matplotlib, of extra bench")
    ratio = (Row("ratio", 1.3, lambda _: figure), figure := Figure(1.1, "clock", "", (1.0, 1.2)))
    count = (Row("count", 1, lambda _: counted), counted := Figure(1, "count", ""))
    written = tmp_path / "plot.svg"

    assert plot.draw([ratio, count], written)
    drawn = written.read_text("utf-8")
    assert ("ratio" in drawn, "count" in drawn) == (True, False)
    assert not plot.draw([count], tmp_path / "none.svg")


def test_a_registry_that_the_server_filled_goes_on_like_one_that_was_minted(
    engine: Engine,
) -> None:
    """Its conversations have as many refs as they should, in the registry's own form."""
    full = Populated(engine, 200, Console(quiet=True)).engine
    registry = RefRegistry(full)

    large, small = registry.conversation(LARGEST), registry.conversation(SMALL)
    key = large.resolve("recipe_10")
    next_refs = [c.refer("recipe", 1) for c in (large, small)]
    again = RefRegistry(full).conversation(LARGEST).refer("recipe", key)
    with full.connect() as connection:
        mappings = connection.exec_driver_sql("select count(*) from alfred_refs_mapping")
        counted = mappings.scalar_one()
    full.dispose()

    assert again == "recipe_10"
    assert next_refs == ["recipe_11", f"recipe_{IN_SMALL // 2 + 1}"]
    assert counted == 200 + 2


def test_what_grows_a_registry_has_no_key_twice_and_takes_turns() -> None:
    """So many mappings as asked for, of conversations that come again and again."""
    grown = list(results(2_000))

    keys = [key for _, result in grown for key in result]
    conversations = [address for address, _ in grown]
    assert len(set(keys)) == len(keys) == 2_000
    assert 1 < len(set(conversations)) < len(conversations)


def test_every_layout_is_filled_read_and_weighed(tmp_path: Path) -> None:
    """Each can hold what is minted, and is found by both its indexes, which weigh something."""
    written = tmp_path / "layouts.md"

    code = layouts.main(["--mappings", "2000", "--write", str(written)])

    cells = cells_of(written)
    assert code == 0
    assert [cell[0] for cell in cells] == [layout.what for layout in layouts.LAYOUTS]
    assert all(int(weight) > 0 for cell in cells for weight in cell[1:5])
