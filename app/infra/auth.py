"""Who may reach a view: deny by default, one mark a view, one identity a request, and the headers of every answer.

A view says who may call it with `@access("public" | "user" | "administrator" | "operator")`; a view without a mark
answers 403 to everybody. Who is asking is found by the resolver that accounts.login gives (`set_resolver`): this module
knows neither people nor tokens. A browser's session needs a CSRF token for everything that changes something; a bearer
token does not, because no browser sends it by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Literal, TypeVar
from urllib.parse import quote, unquote, urlsplit

from flask import Flask, Request, Response, current_app, g, has_request_context, redirect, request
from flask_wtf.csrf import generate_csrf, validate_csrf
from werkzeug.routing import IntegerConverter, Map
from werkzeug.wrappers import Response as BaseResponse

from app.config import Config
from app.infra.errors import BadInput, NotAllowed, NotSignedIn
from app.infra.i18n import LANGUAGES, best_language, say

Level = Literal["public", "user", "administrator", "operator"]
View = TypeVar("View", bound=Callable[..., Any])

LEVELS = ("public", "user", "administrator", "operator")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
TOKEN_PREFIX = "ply_"  # tokens are recognised by it, also where they must not stand
SIGN_IN = "/sign-in"
NEVER_NEXT = frozenset({SIGN_IN, "/sign-out"})
DOTS = frozenset({".", ".."})
LONGEST_NEXT = 2000
PROXY_PREFIX = "x-forwarded-"
PROXY_HEADERS = frozenset(
    {"forwarded", "via", "x-real-ip", "x-client-ip", "x-original-forwarded-for", "cf-connecting-ip", "true-client-ip"}
)
CSRF_FIELD = "csrf_token"
CSRF_HEADER = "X-CSRFToken"
LARGEST_ID = 2**63 - 1
IDENTITY_KEY = "parley.identity"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "img-src 'self' data:; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True)
class Identity:
    """Who is asking. `admin` and `operator` are what this request may use, not what the person could do elsewhere.

    `person_id` is None for the token of a domain; `scope` is that of a token (user, administrator, operator), None for
    a session and for a token with `allow` permissions.
    """

    person_id: int | None
    instance_id: int
    uid: str
    admin: bool
    operator: bool
    via: Literal["session", "token"]
    scope: str | None
    allow: tuple[str, ...]


class Id(IntegerConverter):
    """A number in an address that a column can hold; a larger one is no id and so is not found."""

    def __init__(self, map: Map, fixed_digits: int = 0, min: int | None = None, max: int | None = LARGEST_ID) -> None:
        super().__init__(map, fixed_digits, min, max)


Resolver = Callable[[Request], Identity | None]


@dataclass
class State:
    """How this process finds out who is asking; an extension object that `set_resolver` fills."""

    resolver: Resolver | None = None


state = State()


def init_app(app: Flask) -> None:
    """Installs the guard before every request, the headers after it, and what every template may call."""
    config: Config = app.extensions["parley_config"]
    app.config.update(
        SESSION_COOKIE_NAME="parley",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_SECURE=config.base_url.startswith("https://"),
        SESSION_REFRESH_EACH_REQUEST=False,
        WTF_CSRF_TIME_LIMIT=None,  # a form left open overnight must not lose what was typed
    )
    # A sender of webhooks doesn't follow redirects: `//webhook/...` is not found rather than sent elsewhere.
    app.url_map.merge_slashes = False
    app.url_map.converters["int"] = Id
    if "static" in app.view_functions:
        access("public")(app.view_functions["static"])
    app.before_request(_guard)
    app.after_request(_with_headers)
    app.context_processor(_for_templates)


def set_resolver(resolver: Resolver) -> None:
    """Tells how a request becomes an Identity; None means nobody is signed in."""
    state.resolver = resolver


def access(level: Level, *, form: bool = False) -> Callable[[View], View]:
    """Marks a view with who may call it; a public `form` also needs the CSRF token of the page it was on."""
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no level of access")

    def mark(view: View) -> View:
        marked: Any = view
        marked.parley_access = level
        marked.parley_form = form
        return view

    return mark


def identity() -> Identity:
    """Who is asking. Raises NotSignedIn."""
    found = current()
    if found is None:
        raise NotSignedIn
    return found


def current() -> Identity | None:
    """Who is asking, or None; found once a request, and not at all where nobody wants to know."""
    if IDENTITY_KEY not in request.environ:
        request.environ[IDENTITY_KEY] = _resolve()
    found: Identity | None = request.environ[IDENTITY_KEY]
    return found


def language() -> str:
    """The language of whoever reads the answer to this request."""
    if not has_request_context():
        return LANGUAGES[0]
    return best_language(request.accept_languages)


def base_url() -> str:
    """The address at which people and servers reach this installation, without a slash at the end."""
    config: Config = current_app.extensions["parley_config"]
    return config.base_url


def from_this_machine() -> bool:
    """True when the caller is on this machine and, as far as the headers tell, no proxy stands in between."""
    try:
        caller = ip_address(request.remote_addr or "")
    except ValueError:
        return False
    if not (getattr(caller, "ipv4_mapped", None) or caller).is_loopback:
        return False
    names = [name.lower() for name in dict(request.headers)]
    return not any(name in PROXY_HEADERS or name.startswith(PROXY_PREFIX) for name in names)


def local_path(text: str | None, *, default: str = "/") -> str:
    """`text` when it is a path on this server that is safe to redirect to, else `default`."""
    if not text or len(text) > LONGEST_NEXT or not text.startswith("/") or text.startswith("//"):
        return default
    # Browsers read a backslash as a slash and drop tabs and line ends before they look.
    if "\\" in text or not text.isprintable() or " " in text:
        return default
    parts = urlsplit(text)
    if parts.scheme or parts.netloc or parts.path.rstrip("/") in NEVER_NEXT:
        return default
    # A proxy or a browser that tidies dots up may be left with two slashes at the beginning.
    if not DOTS.isdisjoint(unquote(parts.path).split("/")):
        return default
    return text


def _guard() -> BaseResponse | None:
    # An application context around several requests (a test, a command) would hand on the first one's token.
    g.pop(CSRF_FIELD, None)
    view = current_app.view_functions.get(request.endpoint or "")
    if view is None:
        return None
    level = getattr(view, "parley_access", None)
    if level is None:
        raise NotAllowed(detail=f"the view {request.endpoint} has no mark of access")
    if level == "public":
        _guard_public(view)
        return None
    _refuse_token_in_address()
    caller = current()
    if caller is None:
        return _ask_to_sign_in(view)
    if not reaches(caller, level):
        raise NotAllowed
    if caller.via == "session" and request.method not in SAFE_METHODS:
        _check_csrf()
    return None


def reaches(caller: Identity, level: Level) -> bool:
    """True when `caller` may call a view of this level. Pure: the one table of who reaches what."""
    if level == "public":
        return True
    if level == "operator":
        return caller.operator
    if level == "administrator":
        return caller.admin
    return caller.via == "session" or caller.scope in ("user", "administrator")


def _guard_public(view: Callable[..., Any]) -> None:
    if getattr(view, "parley_form", False) and request.method not in SAFE_METHODS:
        _check_csrf()


def _resolve() -> Identity | None:
    found = state.resolver(request) if state.resolver is not None else None
    if found is None or found.via != "session" or request.method in SAFE_METHODS:
        return found
    view = current_app.view_functions.get(request.endpoint or "")
    # A public view checked no CSRF token, so a session proves nothing there.
    unchecked = getattr(view, "parley_access", None) == "public" and not getattr(view, "parley_form", False)
    return None if unchecked else found


def _ask_to_sign_in(view: Callable[..., Any]) -> BaseResponse:
    is_page = view.__module__.rpartition(".")[2] == "pages"
    if not is_page or request.method not in ("GET", "HEAD") or "Authorization" in request.headers:
        raise NotSignedIn
    wanted = request.full_path if request.query_string else request.path
    return redirect(f"{SIGN_IN}?next={quote(wanted, safe='/')}", code=303)


def _refuse_token_in_address() -> None:
    if any(value.startswith(TOKEN_PREFIX) for values in request.args.listvalues() for value in values):
        raise BadInput(say("Send the token in the Authorization header, never in the address: addresses are logged."))


def _check_csrf() -> None:
    given = request.headers.get(CSRF_HEADER) or request.form.get(CSRF_FIELD)
    try:
        validate_csrf(given)
    except ValueError as error:
        raise NotAllowed(
            say("This page was open for too long or belongs to another sign-in. Load it again and repeat the step."),
            detail=str(error),
        ) from None


def _with_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if request.endpoint != "static":
        response.headers.setdefault("Cache-Control", "no-store")
    return response


def _for_templates() -> dict[str, Any]:
    def t(msgid: str, **values: object) -> str:
        return say(msgid, **values).text(language())

    # `identity` in a template is a call: {{ identity().uid }}, None where nobody is signed in.
    return {"t": t, "language": language, "csrf_token": generate_csrf, "identity": current}
