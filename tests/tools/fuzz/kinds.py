"""The kinds of rounds, each with its part of all calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Engine

from alfred_refs import RefRegistry
from tests import owned
from tests.models import Base
from tests.tools.fuzz import forbidden
from tests.tools.fuzz.campaign import ROUND, Campaign
from tests.tools.fuzz.costs import CostRound
from tests.tools.fuzz.echoes import EchoRound
from tests.tools.fuzz.found import Found
from tests.tools.fuzz.nuls import NulRound
from tests.tools.fuzz.owned import OwnedRound
from tests.tools.fuzz.permits import PermitRound
from tests.tools.fuzz.sequences import SequenceRound
from tests.tools.fuzz.world import World

_RELATED = 100_000  # rows of one dish, in every third round of costs


@dataclass(frozen=True, slots=True)
class Place:
    """Where calls are made.

    Attributes:
        engine: of a database with nothing else in it.
        registry: what refs are kept in.
        world: the tables of most kinds.
        seed: of all choices.
        found: what calls came to; grows.
    """

    engine: Engine
    registry: RefRegistry
    world: World
    seed: int
    found: Found

    def named(self, number: int) -> str:
        """Return the name of a round."""
        return f"{self.seed}-{number}"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of rounds.

    Attributes:
        share: its part of all calls.
        size: how many calls a round has, about.
        run: makes so many calls in the round of a number.
    """

    share: float
    size: int
    run: Callable[[Place, int, int], object]

    def rounds(self, calls: int) -> Iterator[int]:
        """Yield the numbers of the rounds that so many calls of all kinds have."""
        yield from range(-(-int(calls * self.share) // self.size))


def place_in(engine: Engine, seed: int) -> Place:
    """Return a place in an empty database, with its tables."""
    Base.metadata.create_all(engine)
    forbidden.Base.metadata.create_all(engine)
    registry = RefRegistry(engine, timeout=120)  # a busy machine is no find
    registry.create_tables()
    return Place(engine, registry, World(engine), seed, Found())


def _single(place: Place, number: int, calls: int) -> None:
    campaign = Campaign(place.world, place.registry, place.seed, place.found)
    campaign.run(calls, number)


def _sequences(place: Place, number: int, calls: int) -> None:
    name = place.named(number)
    SequenceRound(place.world, place.registry, name, place.found).run(calls)


def _permits(place: Place, number: int, calls: int) -> None:
    PermitRound(place.engine, place.named(number), place.found).run(calls)


def _echoes(place: Place, number: int, calls: int) -> None:
    EchoRound(place.world, place.named(number), place.found).run(calls)


def _nuls(place: Place, number: int, calls: int) -> None:
    NulRound(place.world, place.registry, place.named(number), place.found).run(calls)


def _costs(place: Place, number: int, calls: int) -> None:
    related = 0 if number % 3 else _RELATED
    CostRound(place.world, place.registry, place.named(number), place.found, related=related).run(
        calls
    )


def _owned(place: Place, number: int, calls: int) -> None:
    """Make calls on behalf of one of two owners, whose tables are in the place of all others."""
    with place.engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    owned.Base.metadata.create_all(place.engine)
    OwnedRound(place.engine, 1_000 * place.seed + number, place.found).run(calls)


# what a kind is called -> it; those after the last would find no tables
KINDS: Mapping[str, Kind] = {
    "calls": Kind(0.5, ROUND, _single),
    "sequences": Kind(0.15, 100, _sequences),
    "permits": Kind(0.12, 60, _permits),
    "echoes": Kind(0.05, 100, _echoes),
    "nuls": Kind(0.07, 100, _nuls),
    "costs": Kind(0.01, 40, _costs),
    "owned": Kind(0.1, ROUND, _owned),
}
