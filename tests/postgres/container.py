"""PostgreSQL in a Docker container.

In: an image's name. Out: the URL of a server that is removed afterwards.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import docker
import requests
import sqlalchemy
from docker.errors import DockerException
from testcontainers.community.postgres import PostgresContainer

from tests.postgres.cluster import HASTY_SETTINGS, TEST_SETTINGS

DOCKER_SECONDS = 3


def why_no_docker() -> str | None:
    """Return why there is no Docker, or None if there is."""
    # docker's client drops the socket that it could not connect, and the next garbage
    # collection would blame whichever test is running
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        reason = _ping()
        gc.collect()
    return reason


@contextmanager
def container(image: str) -> Iterator[sqlalchemy.URL]:
    """Run a server from `image`, and yield the URL of its database."""
    settings = {**TEST_SETTINGS, **HASTY_SETTINGS}
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    server = PostgresContainer(image, driver="psycopg").with_command(f"postgres {options}")
    with server:
        yield sqlalchemy.make_url(server.get_connection_url())


def _ping() -> str | None:
    try:
        client = docker.from_env(timeout=DOCKER_SECONDS)
    except DockerException as error:
        return str(error)
    try:
        client.ping()
    except (DockerException, requests.RequestException) as error:
        return str(error)
    finally:
        client.close()
    return None
