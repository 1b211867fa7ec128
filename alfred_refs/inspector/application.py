"""`inspector_of`: the inspector as an ASGI application, with a function for each address.

Each address is one function here: it reads values from the query or the form of a `Visit`, calls
`pages.Pages`, and returns a page or, after a decision, a redirect. Pages are HTML that is made by
Jinja2 with escaping; they have relative links only, so that the application may be mounted under
any path.

| address | method | is |
| --- | --- | --- |
| `.` | GET | conversations, the last used first |
| `search` | POST | a search for an id or an owner, redirected to the list |
| `approvals` | GET | the calls that wait for a person |
| `conversation`, `call` | GET | calls by turn; one call |
| `prompt` | GET | the current prompt of a step |
| `refs` | GET | refs with their labels |
| `refs` | POST | the same with keys |
| `drafts` | GET | drafts |
| `approve`, `reject` | POST | a decision |
| `undo` | POST | the plan of an undo; with the token of a plan, the undo |

>>> from alfred_refs.inspector import Operator, inspector_of
>>> from starlette.testclient import TestClient
>>> app = inspector_of(desk, authenticate=lambda request: Operator("ann", owner=None))
>>> "chat-7" in TestClient(app, "http://localhost").get("/").text
True

A POST that changes something redirects, so that a reload does not repeat it. Conversations are
named by `id` in the query; neither keys nor owners are in any address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from sqlalchemy import exc
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from alfred_refs.errors import (
    ConversationIdError,
    RegistryBusyError,
    RegistryUnreachableError,
    UnknownConversationError,
    UnknownRefError,
)
from alfred_refs.inspector.access import LOOPBACK, Authenticate, Guard, Operator, operator_of
from alfred_refs.inspector.pages import PROMPTS, ContextOf, Pages, error_of, pretty, row_fields
from alfred_refs.mapping import escape_invisible
from alfred_refs.sqla import AsyncFacade
from alfred_refs.tools import BoundToolset

_MOST_BYTES: Final = 64 * 1024  # of a form
_MOST_NUMBER: Final = 10**9  # still an integer of PostgreSQL with the rows of a page

# errors of SQLAlchemy, and of asyncpg, which are not wrapped while it connects
_UNAVAILABLE: Final = (
    *(exc.OperationalError, exc.InterfaceError, exc.TimeoutError),
    *(ConnectionError, TimeoutError),
)

_NOTES: Final = {
    "approved": "The call was approved.",
    "rejected": "The call was rejected.",
    "undone": "The undo was done.",
}

_FORM: Final = "application/x-www-form-urlencoded"


def inspector_of(
    desk: BoundToolset,
    *,
    authenticate: Authenticate,
    hosts: Sequence[str] = LOOPBACK,
    context: ContextOf | None = None,
) -> ASGIApp:
    """Return the inspector of a bound toolset, an ASGI application.

    It may be mounted in another one: `app.mount("/inspector", inspector_of(...))`.

    Args:
        desk: the bound toolset; its sessions may be asynchronous.
        authenticate: returns the `Operator` of a request, `None` if nobody may see the page, or a
            response. For POST requests, it decides who may approve, reject, undo and see keys.
        hosts: the hosts in addresses that are served; only this machine by default. One may begin
            with `*.`, or be `*` for any.
        context: makes the `Context` of a conversation for its owner, if the application's prompts
            have templates or windows of their own; `desk.context` by default.

    Example:
        >>> from alfred_refs.inspector import Operator, inspector_of
        >>> from starlette.testclient import TestClient
        >>> app = inspector_of(desk, authenticate=lambda request: Operator("ann", owner=None))
        >>> TestClient(app, "http://localhost").get("/").status_code
        200
    """
    inspector = _Inspector(desk, authenticate, context)
    routes = [
        Route(f"/{name}", inspector.endpoint(handler), methods=[method])
        for (method, name), handler in _HANDLERS.items()
    ]
    app = Starlette(
        routes=[*routes, Route("/style.css", _style)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[*hosts], www_redirect=False)],
        exception_handlers={HTTPException: inspector.http_error},
    )
    return Guard(app)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of an operator.

    Attributes:
        pages: the data that the operator may see.
        values: the values of the query or, for POST, of the form.
        render: makes a page from a template and its data.
    """

    pages: Pages
    values: Mapping[str, str]
    render: Callable[..., Response]

    def text(self, name: str) -> str:
        """Return a required value."""
        if not self.values.get(name):
            raise HTTPException(400, f"{name} is missing.")
        return self.values[name]

    def number(self, name: str) -> int:
        """Return a required number."""
        return _number(self.text(name))

    def number_or_none(self, name: str) -> int | None:
        """Return a number, or None if it is missing."""
        return self.number(name) if self.values.get(name) else None

    def moment(self, name: str) -> datetime | None:
        """Return a time, or None if it is missing."""
        if not self.values.get(name):
            return None
        try:
            moment = datetime.fromisoformat(self.values[name])
        except ValueError:
            raise HTTPException(400, f"{name} is not a valid date and time.") from None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:20]) <= _MOST_NUMBER):
        raise HTTPException(400, "A number is expected.")
    return int(text)


# The addresses


def _conversations(visit: Visit) -> Response:
    used_at, search = visit.moment("used"), visit.values.get("q") or None
    after = None if used_at is None else (used_at, visit.text("after"))
    of = visit.values.get("of") or None
    found = visit.pages.conversations(search, of, after)
    return visit.render("conversations.html", **found, search=search, of=of, is_first=not after)


def _search(visit: Visit) -> Response:
    text = visit.values.get("q", "").strip()
    of = visit.pages.one_of_owner(text) if _is_owner(text) else None
    return _redirect(".", **({"of": of} if of else {"q": text} if text else {}))


def _is_owner(text: str) -> bool:
    return 0 < len(text) <= 255 and text.isprintable()  # noqa: PLR2004  # as of `Address`


def _approvals(visit: Visit) -> Response:
    asked_at = visit.moment("asked")
    after = None if asked_at is None else (asked_at, visit.text("after"), visit.number("number"))
    return visit.render("approvals.html", **visit.pages.approvals(after))


def _conversation(visit: Visit) -> Response:
    before, ref = visit.number_or_none("before"), visit.values.get("ref") or None
    found = visit.pages.conversation(visit.text("id"), before, ref)
    return visit.render("conversation.html", **found)


def _call(visit: Visit) -> Response:
    first = visit.number_or_none("row") or 0
    return visit.render(
        "call.html", **visit.pages.call(visit.text("id"), visit.number("call"), first), error=None
    )


def _prompt(visit: Visit) -> Response:
    name = visit.values.get("name", "read")
    if name not in PROMPTS:
        raise HTTPException(404, "There is no such prompt.")
    return visit.render("prompt.html", **visit.pages.prompt(visit.text("id"), name))


def _refs(visit: Visit, *, keys: bool = False) -> Response:
    entity, after = visit.values.get("entity"), visit.values.get("after")
    return visit.render(
        "refs.html", **visit.pages.refs(visit.text("id"), entity, after, keys=keys)
    )


def _keys(visit: Visit) -> Response:
    return _refs(visit, keys=True)


def _drafts(visit: Visit) -> Response:
    found = visit.pages.drafts(visit.text("id"), visit.values.get("after"))
    return visit.render("drafts.html", **found)


def _approve(visit: Visit) -> Response:
    id_, call = visit.text("id"), visit.number("call")
    answer = visit.pages.approve(id_, call, visit.text("plan"))
    return _decided(visit, id_, call, "approved", error_of(answer))


def _reject(visit: Visit) -> Response:
    id_, call = visit.text("id"), visit.number("call")
    error = error_of(visit.pages.reject(id_, call, visit.values.get("reason") or None))
    is_done = error is not None and error["code"] == "rejected"
    return _decided(visit, id_, call, "rejected", None if is_done else error)


def _decided(
    visit: Visit, id_: str, call: int, note: str, error: Mapping[str, Any] | None
) -> Response:
    """Return a redirect to the call, or the page of the call with the error."""
    if error is None:
        return _redirect("call", id=id_, call=call, note=note)
    return visit.render("call.html", 409, **visit.pages.call(id_, call), error=error)


def _undo(visit: Visit) -> Response:
    id_, plan = visit.text("id"), visit.values.get("plan") or None
    call, turn = visit.number_or_none("call"), visit.number_or_none("turn")
    if (call is None) is (turn is None):
        raise HTTPException(400, "Either call or turn is expected.")
    found = visit.pages.undo(id_, call=call, turn=turn, plan=plan)
    if found["plan"].refusal is not None:
        return visit.render("undo.html", 409, **found)
    if plan is None:
        return visit.render("undo.html", **found)
    return _redirect("conversation", id=id_, note="undone")


_HANDLERS: Final[Mapping[tuple[str, str], Callable[[Visit], Response]]] = {
    ("GET", ""): _conversations,
    ("POST", "search"): _search,
    ("GET", "approvals"): _approvals,
    ("GET", "conversation"): _conversation,
    ("GET", "call"): _call,
    ("GET", "prompt"): _prompt,
    ("GET", "refs"): _refs,
    ("POST", "refs"): _keys,
    ("GET", "drafts"): _drafts,
    ("POST", "approve"): _approve,
    ("POST", "reject"): _reject,
    ("POST", "undo"): _undo,
}


def _redirect(address: str, **query: Any) -> Response:
    return RedirectResponse(f"{address}?{urlencode(query)}" if query else address, 303)


async def _style(_: Request) -> Response:
    css = files("alfred_refs.inspector").joinpath("templates", "style.css").read_text("utf-8")
    return Response(css, media_type="text/css")


# Requests


class _Inspector:
    """Shared by all addresses: authentication, forms, templates and errors."""

    def __init__(
        self, desk: BoundToolset, authenticate: Authenticate, context_of: ContextOf | None
    ) -> None:
        self._desk = desk
        self._authenticate = authenticate
        self._context_of = context_of
        # the registry and the sessions may each be asynchronous
        is_async = desk.is_async or desk.registry.aio.is_async
        self._facade = AsyncFacade(desk, is_async=is_async)
        self._templates = Environment(
            loader=PackageLoader("alfred_refs.inspector"),
            autoescape=True,
            finalize=_visible,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"pretty": pretty, "moment": _moment, "link": _link}
        self._templates.globals |= {"row_fields": row_fields}

    def endpoint(self, handler: Callable[[Visit], Response]) -> Callable[[Request], Any]:
        """Return the endpoint of an address, which authenticates first."""

        async def respond(request: Request) -> Response:
            operator = await operator_of(self._authenticate, request)
            if isinstance(operator, Response):
                return operator
            if operator is None:
                raise HTTPException(403, "You may not see this page.")
            values = dict(request.query_params)
            if request.method == "POST":
                values = await _form_of(request)
            if any("\0" in value for value in values.values()):  # PostgreSQL cannot store it
                raise HTTPException(400, "A value has the character NUL.")
            return await self._facade.run(self._visit, handler, operator, values)

        return respond

    def _visit(
        self, handler: Callable[[Visit], Response], operator: Operator, values: Mapping[str, str]
    ) -> Response:
        """Return the response to an operator; it blocks."""

        def render(template: str, status: int = 200, **data: Any) -> Response:
            note = _NOTES.get(values.get("note", ""))
            page = self._templates.get_template(template)
            return HTMLResponse(page.render(**data, operator=operator, note=note), status)

        try:
            return handler(Visit(Pages(self._desk, operator, self._context_of), values, render))
        except (UnknownConversationError, ConversationIdError, UnknownRefError):
            raise HTTPException(404, "There is no such conversation, call or ref.") from None
        except (RegistryBusyError, RegistryUnreachableError) as error:
            raise HTTPException(503, str(error)) from error
        except _UNAVAILABLE as error:
            raise HTTPException(503, "The application's database cannot be used now.") from error

    async def http_error(self, _: Request, error: Exception) -> Response:
        """Return a page for an error of a request."""
        status, detail = (
            (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
        )
        page = self._templates.get_template("error.html")
        text = page.render(status=status, detail=detail, operator=None, note=None)
        headers = error.headers if isinstance(error, HTTPException) else None
        return HTMLResponse(text, status, headers)


async def _form_of(request: Request) -> dict[str, str]:
    """Return the values of a form; the last one of each name."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise HTTPException(415, "A form is expected.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, "The form is too long.")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict"))
    except ValueError:
        raise HTTPException(400, "The form is not UTF-8.") from None


def _visible(value: Any) -> Any:
    """Escape what a person cannot see in a text: they approve what they read. HTML is kept."""
    return escape_invisible(value, keep="\n\t\xa0\u202f") if type(value) is str else value


def _moment(value: datetime) -> str:
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _link(address: str, **query: Any) -> str:
    """Return an address with a query, for templates; values that are `None` are left out."""
    return f"{address}?{urlencode({n: v for n, v in query.items() if v is not None})}"
