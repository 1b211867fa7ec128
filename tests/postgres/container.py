"""PostgreSQL in a Docker container, removed afterwards."""

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
    """Return the reason why Docker does not work, or None."""
    # docker's client does not close a socket that failed to connect; a later garbage collection
    # would raise the ResourceWarning in another test
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        reason = _ping()
        gc.collect()
    return reason


@contextmanager
def container(image: str) -> Iterator[sqlalchemy.URL]:
    """Run a server of an image, and yield the URL of its database."""
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
