"""`alfred-refs mcp`: what it refuses, and what it serves, on standard output and by HTTP."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner, Result
from mcp import Client, StdioServerParameters
from mcp.client.client import ConnectMode
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from sqlalchemy import Engine, create_engine, select, text

from alfred_refs.cli.commands import alfred_refs
from alfred_refs.cli.serving import reflect_desk
from alfred_refs.store import schema
from tests.fix_postgres import connected
from tests.integrations import shop
from tests.integrations.bare import KEYS, fill, make
from tests.integrations.conftest import shop_databases, shop_engine

__all__ = ["shop_databases", "shop_engine"]

ROOT = Path(__file__).parents[2]
ORDERS = {"table": "orders"}
IN_MEMORY = (
    "refs are kept in memory, because there are no tables of the registry: after a restart they "
    "name other rows; to keep them, run `alfred-refs migrate`"
)

APPLICATION = """
import os
from mcp.server.auth.provider import AccessToken
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker
from alfred_refs import RefRegistry, RefSession
from tests.integrations import shop

engine = create_engine(os.environ["SHOP"])
sessions, registry = sessionmaker(engine, class_=RefSession), RefRegistry(engine)
desk = shop.toolset(shop.ownership()).bind(sessions, registry=registry, journal=True)
nobodys = shop.toolset(None).bind(sessions, registry=registry)

class Verifier:
    async def verify_token(self, token):
        who = {"of-ada": shop.ADA, "of-bob": shop.BOB}.get(token)
        made = {"token": token, "client_id": "host", "scopes": []}
        return AccessToken(**made, subject=str(who)) if who else None

verifier = Verifier()
print("this is no message of the protocol")
"""


@pytest.fixture
def program(tmp_path: Path, shop_engine: Engine) -> dict[str, Any]:
    """A program with toolsets, as a process is to be started beside it."""
    (tmp_path / "app.py").write_text(APPLICATION)
    url = shop_engine.url.render_as_string(hide_password=False)
    return {"cwd": str(tmp_path), "env": {"SHOP": url, "PYTHONPATH": str(ROOT)}}


@pytest.fixture
def bare_url(database_url: str) -> str:
    """The URL of a database with thirty tables."""
    with connected(database_url) as connection:
        make(connection)
        fill(connection)
    return database_url


def over_stdio(*arguments: str, env: dict[str, str], cwd: str) -> Client:
    """Return a client of the command, in a process of its own."""
    command = ["-W", "error", "-m", "alfred_refs.cli", "mcp", *arguments]
    server = StdioServerParameters(command=sys.executable, args=command, env=env, cwd=cwd)
    return Client(server)


@contextlib.contextmanager
def over_http(*arguments: str, env: dict[str, str], cwd: str) -> Iterator[SimpleNamespace]:
    """Run the command, and yield the URL that it serves; afterwards what it logged, too."""
    command = [sys.executable, "-m", "alfred_refs.cli", "mcp", *arguments]
    with subprocess.Popen(
        command, env=os.environ | env, cwd=cwd, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = next(each for each in process.stderr if each.startswith("serving "))
        served = SimpleNamespace(url=said.split()[1], log="")
        try:
            yield served
        finally:
            process.terminate()
            served.log = process.stderr.read()


@contextlib.asynccontextmanager
async def client_with(token: str, url: str, mode: ConnectMode) -> AsyncIterator[Client]:
    """Yield a client that has a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


def run(*arguments: str, url: str | None = None) -> Result:
    """Run the command here, where it serves nobody."""
    env = {"ALFRED_REFS_DATABASE_URL": url, "COLUMNS": "200"}
    return CliRunner().invoke(alfred_refs, ["mcp", *arguments], env=env, input="")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Pass an object, or --reflect and a URL or ALFRED_REFS_DATABASE_URL."),
        (["--reflect"], "Pass an object, or --reflect and a URL"),
        (["postgresql://u:secret@h/d"], "A URL is for --reflect, which makes tools for it."),
        (["app:desk", "--reflect"], "--reflect is for the URL of a database."),
        (["app:desk", "--write"], "--write, --table, --hide and --label are for --reflect."),
        (["app:desk", "--table", "x"], "--write, --table, --hide and --label are for --reflect."),
        (["app:desk", "--label", "x.y"], "--write, --table, --hide and --label are for"),
        (["app:desk", "--hide", "x.y"], "--write, --table, --hide and --label are for --reflect."),
        (
            ["postgresql://u:secret@h/d", "--reflect", "--write", "--read-only"],
            "--read-only and --write contradict each other.",
        ),
        (["postgresql://h/d", "--reflect", "--owner", "7"], "--owner is for a program with"),
        (["app:desk", "--token-verifier", "app:v"], "--token-verifier is for --http."),
        (
            ["app:desk", "--http", "localhost:1", "--token-verifier", "app:v", "--owner", "7"],
            "--owner, --conversation and --user are for one user, --token-verifier for many.",
        ),
        (["app:desk", "--http", "0.0.0.0:80"], "is served with --token-verifier only."),
        (["app:desk", "--http", "[::]:80"], "is served with --token-verifier only."),
        (["app:desk", "--http", "shop.example:80"], "is served with --token-verifier only."),
        (["app:desk", "--http", "8000"], "'8000' is not an address; write HOST:PORT"),
        (["app:desk", "--http", "localhost:99999"], "'localhost:99999' is not an address"),
        (["app:desk", "--readonly"], "No such option"),
        (["app:desk", "other:desk"], "Got unexpected extra argument"),
    ],
)
def test_options_without_effect_are_misuse(arguments: list[str], told: str) -> None:
    """None is ignored, because its user relies on it."""
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["desk"], "Error: 'desk' names no object; write module:object, such as app.agent:desk\n"),
        (["no_such.app:desk"], "Error: there is no module 'no_such'; name one that can be impo"),
        (
            ["json:desk"],
            "Error: there is no 'desk' in 'json:desk'; name an object of the module\n",
        ),
        (
            ["json:dumps"],
            "Error: 'json:dumps' is a function; name the result of Toolset.bind(...)",
        ),
        (["app:desk"], "Error: 'app:desk' has an Ownership; add --owner or --token-verifier\n"),
        (["app:desk", "--owner", "ada"], "Error: the owner has a value that "),
        (["app:nobodys", "--owner", "7"], "Error: an owner was given in a call of tools that ha"),
        (["app:nobodys", "--conversation", "\n"], "Error: a conversation's id is empty, too long"),
        (
            ["app:desk", "--http", "localhost:0", "--token-verifier", "app:Verifier"],
            "Error: 'app:Verifier' verifies no tokens; name an object that has an asynchronous ",
        ),
        (["app:nobodys", "--http", "127.0.0.1:{taken}"], "Error: 127.0.0.1:{taken} cannot be ser"),
    ],
)
def test_an_unusable_toolset_is_one_line(
    program: dict[str, Any], monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    """The error has the remedy."""
    monkeypatch.chdir(program["cwd"])
    monkeypatch.setenv("SHOP", program["env"]["SHOP"])
    monkeypatch.delitem(sys.modules, "app", raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = run(*[each.replace("{taken}", port) for each in arguments])

    assert (result.exit_code, result.stdout) == (1, "")
    assert told.replace("{taken}", port) in result.stderr
    assert result.stderr.count("Error: ") == 1


@pytest.mark.slow
@pytest.mark.parametrize("conversation", [(), ("--conversation", "desk-1")])
async def test_a_program_is_served_on_standard_output(
    program: dict[str, Any], conversation: tuple[str, ...], shop_engine: Engine
) -> None:
    """For the owner, the user and in the conversation of the command line; prints go elsewhere."""
    arguments = ["app:desk", "--owner", str(shop.ADA), "--user", "bob", *conversation]
    async with over_stdio(*arguments, **program) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        answer = await client.call_tool("db_read", ORDERS)
        data = {"placed": "2026-11-25", "note": "new"}
        await client.call_tool("db_create", {"table": "orders", "data": data})
    with shop_engine.connect() as connection:
        users = connection.execute(select(schema.calls.c.acting_user)).scalars().all()

    assert answer.structured_content is not None
    assert [row["note"] for row in answer.structured_content["rows"]] == ["for Ada"]
    assert {"db_read", "db_create"} <= {*listed}
    assert users == ["bob"]


@pytest.mark.slow
async def test_tokens_identify_the_caller(program: dict[str, Any]) -> None:
    """Two at a time, in both eras; without a token nothing is answered, and crashes are logged."""
    arguments = ["app:desk", "--http", "127.0.0.1:0", "--token-verifier", "app:verifier"]
    with over_http(*arguments, **program) as served:
        url = served.url
        told = {}
        for era in ("auto", "legacy"):
            async with (
                client_with("of-ada", url, era) as ada,
                client_with("of-bob", url, era) as bob,
            ):
                told[era] = [
                    (await client.call_tool("db_read", ORDERS)).structured_content
                    for client in (ada, bob, ada)
                ]
        crash = {"table": "orders", "data": {"placed": "2026-11-25", "note": shop.CRASH}}
        async with client_with("of-ada", url, "legacy") as ada:
            with pytest.raises(MCPError, match=r"^Internal server error$"):
                await ada.call_tool("db_create", crash)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with httpx2.AsyncClient(timeout=60) as http:
            without = await http.post(url, json=ping)
            wrong = await http.post(url, json=ping, headers={"Authorization": "Bearer x"})

    assert (without.status_code, wrong.status_code) == (401, 401)
    assert "could not reach the warehouse" in served.log
    for answers in told.values():
        notes = [answer["rows"][0]["note"] for answer in answers if answer is not None]
        assert notes == ["for Ada", "for Bob", "for Ada"]


@pytest.mark.slow
async def test_pages_of_browsers_are_not_served(program: dict[str, Any]) -> None:
    """Without tokens, `Host` and `Origin` must name this machine; writing tools are left out."""
    with over_http("app:nobodys", "--http", "127.0.0.1:0", "--read-only", **program) as served:
        url = served.url
        async with Client(url) as client:
            reading = [tool.name for tool in (await client.list_tools()).tools]
            answer = await client.call_tool("db_read", ORDERS)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with httpx2.AsyncClient(timeout=60) as http:
            rebound = await http.post(url, json=ping, headers={"Host": "evil.example:80"})
            page = await http.post(url, json=ping, headers={"Origin": "http://evil.example"})

    assert reading == ["db_read"]
    assert "for Ada" in answer.model_dump_json()
    assert (rebound.status_code, page.status_code) == (421, 403)


@pytest.mark.slow
async def test_a_reflected_database_is_served(bare_url: str, tmp_path: Path) -> None:
    """Read only, with refs in memory; half of a surrogate pair does not end the server.

    It has no UTF-8 form, and the writer of the protocol would raise an error.
    """
    with connected(bare_url) as connection:
        connection.execute(text("create table memos (id serial primary key, doc json)"))
        connection.execute(text(r"""insert into memos (doc) values ('{"x": "\ud800"}')"""))
    env = {"ALFRED_REFS_DATABASE_URL": bare_url}
    told = ""
    async with over_stdio("--reflect", env=env, cwd=str(tmp_path)) as client:
        read = await client.call_tool("db_read", {"table": "memos"})
        tools = (await client.list_tools()).tools
        for table in ("companies", "people", "parts", "stocks", "User"):
            told += (await client.call_tool("db_read", {"table": table})).model_dump_json()
        told += (await client.read_resource("refs://conversation")).model_dump_json()
        instructions = client.instructions

    assert read.structured_content is not None
    assert read.structured_content["rows"] == [{"id": "memo_1", "doc": {"x": "\\ud800"}}]
    assert [tool.name for tool in tools] == ["db_read"]
    assert instructions is not None
    assert "after a restart they name other rows" in instructions
    assert all(ref in told for ref in ("company_1", "person_2", "part_1", "stock_1", "user_1"))
    assert [key for key in KEYS if key in told] == []


@pytest.mark.slow
async def test_a_reflected_database_is_written_if_refs_are_stored(
    bare_url: str, tmp_path: Path
) -> None:
    """Refs must be valid in the next process."""
    arguments = ["--reflect", "--write", "--table", "parts"]
    refused = run(*arguments, url=bare_url)
    schema.migrate(bare_url)
    env = {"ALFRED_REFS_DATABASE_URL": bare_url}
    part: dict[str, Any] = {
        "table": "parts",
        "filters": [{"field": "id", "op": "=", "value": "part_1"}],
    }
    with reflect_desk(bare_url) as found:
        read = found.desk.call("mcp", None, "db_read", {"table": "parts"}).value
    label = next(row["name"] for row in read["rows"] if row["id"] == "part_1")
    update = {**part, "data": {"name": "Cover"}, "expect": label}
    async with over_stdio(*arguments, env=env, cwd=str(tmp_path)) as client:
        changed = await client.call_tool("db_update", update)

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "; run `alfred-refs migrate`, or leave out --write" in refused.stderr
    assert changed.structured_content is not None
    assert changed.structured_content["rows"][0]["name"] == "Cover"


@pytest.mark.slow
def test_remarks_describe_a_reflected_database(bare_url: str) -> None:
    """Its tables, labels, and the tables that are left out."""
    result = run("--reflect", url=bare_url)
    lines = result.stderr.splitlines()

    assert (result.exit_code, result.stdout) == (0, "")
    assert lines[0].startswith(
        "29 tables, read only: User, companies, countries, counts, days, events, "
    )
    assert "people by first_name and last_name" in lines[1]
    assert lines[2:] == ["left out: audit_lines, because it has no primary key", IN_MEMORY]


@pytest.mark.slow
def test_an_unusable_database_is_one_line(bare_url: str) -> None:
    """An unknown table or column, no usable table, and no server."""
    told = [
        run("--reflect", "--table", "person", url=bare_url).stderr,
        run("--reflect", "--hide", "people.nothing", url=bare_url).stderr,
        run("--reflect", "--table", "audit_lines", url=bare_url).stderr,
        run("--reflect", "--label", "people.id", url=bare_url).stderr,
        run("--reflect", url="postgresql://u:secret@127.0.0.1:1/d").stderr,
    ]

    assert told[0].startswith(
        "Error: the database has no table 'person'; name one of its tables, "
    )
    assert told[1].startswith("Error: there is no column 'people.nothing'; write table.column")
    assert told[2] == (
        "Error: no table can be served; left out: audit_lines, because it has no primary key; "
        "name other tables, or connect as another role\n"
    )
    assert told[3].startswith("Error: column 'people.id' has keys, which are refs")
    assert told[4].startswith("Error: the registry's database 'd' cannot be reached")
    assert "secret" not in told[4]


@pytest.fixture
def role(bare_url: str) -> Iterator[tuple[str, Engine]]:
    """The URL of a role that may only read, and an engine to grant it more."""
    schema.migrate(bare_url)
    engine = create_engine(bare_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("create role reader_of_bare login")
        connection.exec_driver_sql("grant pg_read_all_data to reader_of_bare")
    yield engine.url.set(username="reader_of_bare").render_as_string(hide_password=False), engine
    with engine.begin() as connection:
        connection.exec_driver_sql("drop owned by reader_of_bare; drop role reader_of_bare")
    engine.dispose()


@pytest.mark.slow
def test_registry_tables_that_are_read_only_are_not_used(
    bare_url: str, role: tuple[str, Engine]
) -> None:
    """Refs are in memory for a role that may only read, and the remedy is no migration."""
    url, engine = role
    assert "memory" not in run("--reflect", url=bare_url).stderr
    told = run("--reflect", url=url).stderr
    refused = run("--reflect", "--write", url=url)
    with engine.begin() as connection:
        connection.exec_driver_sql("drop table alfred_refs_change")
    older = run("--reflect", url=bare_url).stderr

    fact = "this role may not write the registry's tables"
    assert f"refs are kept in memory, because {fact}: " in told
    assert (refused.exit_code, fact in refused.stderr) == (1, True)
    assert "migrate" not in told + refused.stderr
    assert "grant it select, insert, update and delete on each alfred_refs_* table" in told
    assert "of another version" in older


@pytest.mark.slow
def test_a_role_writes_what_it_may(role: tuple[str, Engine]) -> None:
    """The tools have the verbs that the role has privileges for; the remarks list the others."""
    url, engine = role
    tables = ("--table", "parts", "--table", "places", "--table", "days")
    registry = ", ".join(schema.metadata.tables)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"grant all on {registry} to reader_of_bare")
    refused = run("--reflect", "--write", *tables, url=url).stderr
    with engine.begin() as connection:
        connection.exec_driver_sql("grant insert (id, name), update on parts to reader_of_bare")
        connection.exec_driver_sql("grant insert, update, delete on places to reader_of_bare")
    told = run("--reflect", "--write", *tables, url=url).stderr
    with reflect_desk(url, write=True, tables=["parts"]) as found:
        tools = [each["name"] for each in found.desk.schemas("mcp")]

    assert refused.startswith("Error: this role may not write any of the tables; grant it that")
    assert told.splitlines() == [
        "3 tables, read and written: days, parts, places",
        "this role may not create, update, delete: days",
        "this role may not delete: parts",
        "rows are called: days by name, parts by name, places by name",
    ]
    assert tools == ["db_read", "db_create", "db_update"]


@pytest.mark.slow
def test_rows_are_called_as_the_command_says(bare_url: str) -> None:
    """By one column or several, in that order."""
    labels = ("people.last_name", "people.first_name", "products.price")
    with reflect_desk(bare_url, tables=["people", "products"], labels=labels) as found:
        remarks = found.remarks
        for table in ("people", "products"):
            assert not found.desk.call("mcp", None, "db_read", {"table": table}).failed
        entries = found.desk.conversation("mcp").entries()
        names = {entry.label for entry in entries}

    assert remarks[1] == "rows are called: people by last_name and first_name, products by price"
    assert names == {"Lovelace Ada", "Bob", "8.00"}
    assert (
        "column 'people.last_name' is hidden but is a label"
        in run(
            *("--reflect", "--label", "people.last_name", "--hide", "people.last_name"),
            url=bare_url,
        ).stderr
    )


def test_without_the_extra_mcp_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other commands do not need it."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    theirs = ("mcp.", "alfred_refs.integrations")
    for name in [each for each in sys.modules if each.startswith(theirs)]:
        monkeypatch.delitem(sys.modules, name)
    result = run("app:desk")

    assert result.exit_code == 2
    assert "`alfred-refs mcp` needs `pip install alfred-refs[mcp]`" in result.stderr
