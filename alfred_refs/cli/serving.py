r"""`alfred-refs mcp` and `alfred-refs inspect`: serve a toolset to models, and to people.

    $ alfred-refs mcp app.agent:desk --conversation desk-1 --owner 7
    $ alfred-refs mcp app.agent:desk --http 127.0.0.1:8000 --token-verifier app.auth:verifier
    $ alfred-refs mcp postgresql://localhost/shop --reflect
    $ alfred-refs inspect app.agent:desk
    open http://127.0.0.1:8765/?token=...

`mcp` serves the Model Context Protocol over stdio or HTTP, `inspect` the web pages of the
inspector. The toolset is an object of a program (`load_object`), or is made from the tables of a
database (`reflect_desk`):

>>> url = engine.url.render_as_string(hide_password=False)
>>> with reflect_desk(url, tables=["lines", "recipes"]) as reflected:
...     print(*reflected.remarks, sep="\n")
2 tables, read only: lines, recipes
rows are called: recipes by name

The MCP server itself is `alfred_refs.integrations.mcp.server_of`. HTTP without a token verifier is
served on a loopback address only, and to no page of a browser: the `Host` and `Origin` headers
must name this machine.

>>> Address.parse("127.0.0.1:8000").is_loopback, Address.parse("[::]:8000").is_loopback
(True, False)

The inspector listens on this machine only, and shows pages only to a browser that has opened the
address with the token, which is exchanged for a cookie. To serve it to others, mount
`alfred_refs.inspector.inspector_of` in an application, with its own authentication.

A combination of options in which one has no effect is a usage error, because its user relies on
it. There is no TLS: put a proxy in front.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib
import ipaddress
import logging
import os
import re
import socket
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alfred_refs.cli.console import URL_VARIABLE, Failure, errors_on_one_line, escape

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.auth.provider import TokenVerifier
    from sqlalchemy import Connection
    from starlette.types import ASGIApp

    from alfred_refs.integrations.reflect import Reflection
    from alfred_refs.tools import BoundToolset

_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]/@\s]+)):(?P<port>[0-9]{1,5})"
)
_MAX_PORT = 65_535
_SHUTDOWN_SECONDS = 5  # for requests in progress
_LOOPBACK = "127.0.0.1"
_PORT = 8765  # of the inspector
_NEEDED = ("jinja2", "starlette", "uvicorn")

_OBJECT = re.compile(r"(?P<module>[\w.]+):(?P<object>[\w.]+)")

_IS_STANDBY = "select pg_is_in_recovery()"

# whether this role may read and write the registry's tables
_IS_WRITABLE = """
select coalesce(bool_and(has_table_privilege(c.oid, p.privilege)), false)
from pg_class c, unnest(array['select', 'insert', 'update', 'delete']) p(privilege)
where c.relkind in ('r', 'p') and pg_table_is_visible(c.oid)
    and starts_with(c.relname, 'alfred_refs_') and c.relname <> :versions
"""

# the verbs that this role may use on each table
_VERBS = """
select c.relname, array_remove(array[
    case when has_any_column_privilege(c.oid, 'insert') then 'create' end,
    case when has_any_column_privilege(c.oid, 'update') then 'update' end,
    case when has_table_privilege(c.oid, 'delete') then 'delete' end], null)
from pg_class c where c.relkind in ('r', 'p') and pg_table_is_visible(c.oid)
"""

_IN_MEMORY_INSTRUCTIONS = (
    "Refs are valid as long as this server runs: after a restart they name other rows. Read rows "
    "again before you use refs of an earlier run."
)


# alfred-refs mcp


def _parse_address(_: click.Context, __: click.Parameter, text: str | None) -> Address | None:
    try:
        return None if text is None else Address.parse(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not an address; write HOST:PORT, as 127.0.0.1:8000."
        ) from None


@click.command()
@click.argument("target", metavar="[APP|URL]", required=False)
@click.option("--conversation", metavar="ID", help="The conversation of all requests.")
@click.option("--owner", metavar="OWNER", help="The owner of all requests.")
@click.option("--user", metavar="USER", help="Who acts in all requests, for hooks and history.")
@click.option("--read-only", is_flag=True, help="Leave out tools that write.")
@click.option(
    "--http", metavar="HOST:PORT", callback=_parse_address, help="Serve HTTP at /mcp, not stdio."
)
@click.option("--token-verifier", metavar="MODULE:OBJECT", help="Verifies access tokens.")
@click.option("--reflect", is_flag=True, help="Make tools from the tables at URL; read only.")
@click.option("--write", is_flag=True, help="With --reflect: let tools write.")
@click.option(
    "--table", metavar="TABLE", multiple=True, help="With --reflect: only this; repeatable."
)
@click.option(
    "--hide", metavar="TABLE.COLUMN", multiple=True, help="With --reflect: not this; repeatable."
)
@click.option(
    "--label",
    metavar="TABLE.COLUMN",
    multiple=True,
    help="With --reflect: what rows are called; repeatable.",
)
def mcp(target: str | None, **options: Any) -> None:
    """Serve tools by the Model Context Protocol, on standard input and output.

    APP is the result of Toolset.bind(...), in a module that can be imported from the current
    directory: app.agent:desk. With --reflect, tools are made from the tables of the database at
    URL or ALFRED_REFS_DATABASE_URL, without a program.

    A request belongs to the conversation that the client names. Otherwise each client has one,
    or each subject of an access token.
    """
    if target is None and options["reflect"]:
        target = os.environ.get(URL_VARIABLE)
    flags = _Flags(target=target, **options)
    for mistake in flags.mistakes():
        raise click.UsageError(mistake)
    try:
        from alfred_refs.integrations import mcp as _  # noqa: F401  # an extra may be missing
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise click.UsageError("`alfred-refs mcp` needs `pip install alfred-refs[mcp]`") from None
    with errors_on_one_line(as_json=False), _desk(flags) as (desk, instructions):
        _serve(_server(flags, desk, instructions), flags)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flags:
    """The arguments and options of the command."""

    target: str | None
    conversation: str | None
    owner: str | None
    user: str | None
    read_only: bool
    http: Address | None
    token_verifier: str | None
    reflect: bool
    write: bool
    table: Sequence[str]
    hide: Sequence[str]
    label: Sequence[str]

    def mistakes(self) -> Iterator[str]:
        """Yield missing options, and combinations in which an option has no effect."""
        is_url = self.target is not None and "://" in self.target
        http, has_tokens = self.http, self.token_verifier is not None
        is_for_one = (self.owner, self.conversation, self.user) != (None, None, None)
        checks = [
            (self.target is None, f"Pass an object, or --reflect and a URL or {URL_VARIABLE}."),
            (is_url and not self.reflect, "A URL is for --reflect, which makes tools for it."),
            (self.reflect and not is_url, "--reflect is for the URL of a database."),
            (
                not self.reflect and bool(self.write or self.table or self.hide or self.label),
                "--write, --table, --hide and --label are for --reflect.",
            ),
            (self.read_only and self.write, "--read-only and --write contradict each other."),
            (
                self.reflect and self.owner is not None,
                "--owner is for a program with an Ownership, not for --reflect.",
            ),
            (has_tokens and http is None, "--token-verifier is for --http."),
            (
                has_tokens and is_for_one,
                "--owner, --conversation and --user are for one user, --token-verifier for many.",
            ),
            (
                not has_tokens and http is not None and not http.is_loopback,
                "Another host than this machine itself is served with --token-verifier only.",
            ),
        ]
        return (mistake for is_made, mistake in checks if is_made)


@contextmanager
def _desk(flags: _Flags) -> Iterator[tuple[BoundToolset, str | None]]:
    """Yield the toolset to serve, and the instructions of the server."""
    target = str(flags.target)
    if not flags.reflect:
        yield _load_desk(target), None
        return
    with reflect_desk(
        target, write=flags.write, tables=flags.table, hidden=flags.hide, labels=flags.label
    ) as reflected:
        for remark in reflected.remarks:
            click.echo(escape(remark), err=True)
        yield reflected.desk, reflected.instructions


def _server(flags: _Flags, desk: BoundToolset, instructions: str | None) -> Server[Any]:
    """Return the server, for one user or for the users of access tokens.

    Raises:
        SetupError: the toolset has no tools, an owner is missing or not expected, or the owner or
            the conversation is invalid.
    """
    from alfred_refs.errors import SetupError
    from alfred_refs.integrations.mcp import server_of

    conversation, owner = flags.conversation, flags.owner
    if flags.token_verifier is None:
        if owner is None and desk.toolset.ownership is not None:
            raise SetupError(
                f"{flags.target!r} has an Ownership", "add --owner or --token-verifier"
            )
        desk.conversation(conversation or "mcp", owner)  # raises here, not at the first request
    options: dict[str, Any] = {}
    if conversation is not None:
        options |= {"whose": lambda _: (conversation, owner, flags.user), "begin_turns": True}
    else:
        options["user"] = flags.user
        if owner is not None:
            options["owner_of"] = lambda _: owner
    return server_of(
        desk,
        **options,
        name="alfred-refs",
        version=version("alfred-refs"),
        instructions=instructions,
        read_only=flags.read_only,
    )


def _serve(server: Server[Any], flags: _Flags) -> None:
    """Serve until the client or a signal ends the server."""
    # internal errors are logged; without effect if the program has configured logging
    logging.basicConfig()
    if flags.http is None:
        _serve_stdio(server)
        return
    verifier: Any = None
    if flags.token_verifier is not None:
        verifier = load_object(flags.token_verifier)
        if isinstance(verifier, type) or not hasattr(verifier, "verify_token"):
            raise Failure(
                "SetupError",
                f"{flags.token_verifier!r} verifies no tokens; name an object that has an "
                "asynchronous method verify_token",
                as_json=False,
            )
    try:
        listener = flags.http.listen()
    except OSError as error:
        message = f"{flags.http} cannot be served: {error.strerror}"
        raise Failure("OSError", message, as_json=False) from None
    with listener:
        address = Address(flags.http.host, listener.getsockname()[1])
        click.echo(f"serving http://{address}/mcp", err=True)
        _serve_http(server, listener, address, verifier)


# alfred-refs inspect


@click.command("inspect")
@click.argument("desk", metavar="MODULE:DESK")
@click.option(
    "--port",
    type=click.IntRange(0, _MAX_PORT),
    default=_PORT,
    show_default=True,
    help="0 for any free one.",
)
@click.option("--owner", metavar="OWNER", help="Only conversations of OWNER.")
@click.option("--by", metavar="NAME", help="Who decides. Default: your login.")
def inspect(desk: str, *, port: int, owner: str | None, by: str | None) -> None:
    """Serve web pages with conversations, and with calls that wait for a person.

    MODULE:DESK is the result of Toolset.bind(...), imported from the current directory, as in
    app.agent:desk. The pages are for a browser of this machine, which opens the printed address.
    """
    try:
        import uvicorn as _  # noqa: F401  # an extra may be missing

        from alfred_refs.inspector import LocalAccess, inspector_of
        from alfred_refs.inspector.pages import Pages
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _NEEDED:
            raise
        needed = "`alfred-refs inspect` needs `pip install alfred-refs[inspect]`"
        raise click.UsageError(needed) from None

    with errors_on_one_line(as_json=False):
        found = _load_desk(desk)
        access = LocalAccess(by or getpass.getuser(), ... if owner is None else owner)
        Pages(found, access.operator)  # an invalid owner is refused here, not at the first request
        app = inspector_of(found, authenticate=access)
        try:
            listener = Address(_LOOPBACK, port).listen()
        except OSError as error:
            message = f"port {port} cannot be served: {error.strerror}"
            raise Failure("OSError", message, as_json=False) from None
        with listener:
            address = Address(_LOOPBACK, listener.getsockname()[1])
            click.echo(f"open http://{address}/{access.query}")
            _serve_pages(app, listener)


def _serve_pages(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until a signal ends the process."""
    import uvicorn

    logging.basicConfig()
    options: dict[str, Any] = {"log_level": "warning", "server_header": False}  # no URLs in logs
    config = uvicorn.Config(app, timeout_graceful_shutdown=1, **options)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


# Transports


@dataclass(frozen=True, slots=True)
class Address:
    """An address for HTTP.

    Attributes:
        host: a name or an IP address.
        port: the port; 0 for any free port.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse `host:port`, or `[address]:port` for IPv6.

        Raises:
            ValueError: the text is not an address.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None or int(match["port"]) > _MAX_PORT:
            raise ValueError(text)
        return cls(match["v6"] or match["host"], int(match["port"]))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def url_host(self) -> str:
        """The host in the form for URLs."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def __str__(self) -> str:
        return f"{self.url_host}:{self.port}"

    def listen(self) -> socket.socket:
        """Return a listening socket.

        Raises:
            OSError: the address is in use, or the host is unknown.
        """
        family, kind, protocol, _, address = socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()  # before the server runs, so that early clients wait
        except OSError:
            listener.close()
            raise
        return listener


def _serve_stdio(server: Server[Any]) -> None:
    """Serve the client that started this process, until it closes standard input."""
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (requests, answers):
            await server.run(requests, answers, server.create_initialization_options())

    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(serve)


def _serve_http(
    server: Server[Any], listener: socket.socket, address: Address, verifier: TokenVerifier | None
) -> None:
    """Serve HTTP at `/mcp` until a signal ends the process."""
    import uvicorn
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.transport_security import TransportSecuritySettings

    # required, but not published without a `resource_server_url`; the verifier decides
    issuer_url: Any = "http://localhost"
    auth = AuthSettings(issuer_url=issuer_url, resource_server_url=None)
    hosts = {"127.0.0.1", "localhost", "[::1]", address.url_host}
    app = server.streamable_http_app(
        stateless_http=True,
        auth=auth if verifier else None,
        token_verifier=verifier,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=verifier is None,
            allowed_hosts=[f"{each}:*" for each in hosts],
            allowed_origins=[f"http://{each}:*" for each in hosts],
        ),
    )
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_SECONDS)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


# Toolsets: an object of a program, or the tables of a database


def load_object(name: str) -> Any:
    """Import an object by its name, `module:object`.

    Exceptions of the module's own code are not caught.

    Raises:
        SetupError: the module or object does not exist.
    """
    from alfred_refs.errors import SetupError

    match = _OBJECT.fullmatch(name)
    if match is None:
        raise SetupError(
            f"{name!r} names no object", "write module:object, such as app.agent:desk"
        )
    if (directory := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, directory)
    try:
        # over stdio, standard output carries the protocol, so the module must not print to it
        with redirect_stdout(sys.stderr):
            value: Any = importlib.import_module(match["module"])
    except ModuleNotFoundError as error:
        if not f"{match['module']}.".startswith(f"{error.name}."):
            raise
        raise SetupError(
            f"there is no module {error.name!r}", "name one that can be imported from here"
        ) from None
    for part in match["object"].split("."):
        if not hasattr(value, part):
            raise SetupError(f"there is no {part!r} in {name!r}", "name an object of the module")
        value = getattr(value, part)
    return value


def _load_desk(name: str) -> BoundToolset:
    """Import a bound toolset by its name.

    Raises:
        SetupError: there is none of that name.
    """
    from alfred_refs.errors import SetupError
    from alfred_refs.tools import BoundToolset

    found = load_object(name)
    if not isinstance(found, BoundToolset):
        raise SetupError(
            f"{name!r} is a {type(found).__name__}", "name the result of Toolset.bind(...)"
        )
    return found


@dataclass(frozen=True, slots=True)
class ReflectedDesk:
    """The toolset of a reflected database.

    Attributes:
        desk: the bound toolset.
        remarks: lines for the user who starts the server.
        instructions: instructions for models.
    """

    desk: BoundToolset
    remarks: list[str]
    instructions: str | None


@contextmanager
def reflect_desk(
    url: str,
    *,
    write: bool = False,
    tables: Collection[str] = (),
    hidden: Collection[str] = (),
    labels: Collection[str] = (),
) -> Iterator[ReflectedDesk]:
    """Make a toolset from the tables of a database, for the duration of the `with`.

    Refs are stored in the registry's tables if these exist and are writable, otherwise in memory.

    Raises:
        SetupError: no table is usable, a table or column does not exist, or `write` was passed and
            this role may write no table, or refs would be in memory, where they would name other
            rows after a restart.
        RegistryUnreachableError: the database cannot be reached.
    """
    from sqlalchemy import text
    from sqlalchemy.orm import sessionmaker

    from alfred_refs.conversation import RefRegistry
    from alfred_refs.errors import SetupError
    from alfred_refs.integrations.reflect import reflect
    from alfred_refs.session import RefSession
    from alfred_refs.store import schema
    from alfred_refs.store.memory import MemoryStore
    from alfred_refs.tools import Toolset

    with schema.connect(url) as connection:
        reflection = reflect(connection, tables, hidden=hidden, labels=labels)
        in_memory = _why_in_memory(connection)
        verbs: dict[str, list[Any]] = {name: [] for name in reflection.models}
        if write:
            permitted = connection.execute(text(_VERBS)).all()
            verbs |= {name: each for name, each in permitted if name in verbs}
    if not reflection.models:
        reasons = (f"{table}, because {why}" for table, why in reflection.left_out.items())
        raise SetupError(
            "no table can be served" + "".join(f"; left out: {each}" for each in reasons),
            "name other tables, or connect as another role",
        )
    if write and in_memory is not None:
        fact, remedy = in_memory
        raise SetupError(
            f"--write needs stored refs: in memory, they name other rows after a restart; {fact}",
            f"{remedy}, or leave out --write",
        )
    if write and not any(verbs.values()):
        raise SetupError(
            "this role may not write any of the tables", "grant it that, or leave out --write"
        )
    engine = schema.engine_for(
        url, pool_pre_ping=True, execution_options={"postgresql_readonly": not write}
    )
    toolset = Toolset(
        reflection.models, verbs={reflection.models[name]: each for name, each in verbs.items()}
    )
    registry = RefRegistry(engine) if in_memory is None else RefRegistry(store=MemoryStore())
    sessions = sessionmaker(engine, class_=RefSession)
    try:
        desk = toolset.bind(sessions, registry=registry, by=None)
        remarks = [*_remarks(reflection, verbs, write=write)]
        if in_memory is not None:
            fact, remedy = in_memory
            remarks.append(
                f"refs are kept in memory, because {fact}: after a restart they name other rows; "
                f"to keep them, {remedy}"
            )
        yield ReflectedDesk(desk, remarks, None if in_memory is None else _IN_MEMORY_INSTRUCTIONS)
    finally:
        engine.dispose()


def _why_in_memory(connection: Connection) -> tuple[str, str] | None:
    """Return why the registry's tables cannot be used, and the remedy; `None` if they can."""
    from sqlalchemy import text

    from alfred_refs.store import schema

    if connection.scalar(text(_IS_STANDBY)):
        return "this is a standby", "connect to the primary server"
    revision = schema.revision_of_tables(connection)
    if revision != schema.revisions()[-1].revision:
        fact = "there are no tables of the registry"
        return (
            fact if revision is None else "the registry's tables are of another version",
            "run `alfred-refs migrate`",
        )
    if not connection.scalar(text(_IS_WRITABLE), {"versions": schema.VERSION_TABLE}):
        return (
            "this role may not write the registry's tables",
            "grant it select, insert, update and delete on each alfred_refs_* table",
        )
    return None


def _remarks(
    reflection: Reflection, verbs: Mapping[str, Collection[str]], *, write: bool
) -> Iterator[str]:
    """Yield lines about the tables: their number, labels, and what this role may not do."""
    names = [*reflection.models]
    tables = f"{len(names)} tables" if len(names) > 1 else "1 table"
    yield f"{tables}, {'read and written' if write else 'read only'}: {', '.join(names)}"
    missing: dict[str, list[str]] = {}
    for name in names if write else ():
        lacks = [each for each in ("create", "update", "delete") if each not in verbs[name]]
        missing.setdefault(", ".join(lacks), []).append(name)
    yield from (f"this role may not {w}: {', '.join(of)}" for w, of in missing.items() if w)
    if reflection.labels:
        labels = (f"{table} by {columns}" for table, columns in reflection.labels.items())
        yield f"rows are called: {', '.join(labels)}"
    yield from (f"left out: {table}, because {why}" for table, why in reflection.left_out.items())
