"""Who may ask, and from where: the guard before every route (streams.md §4).

Host and Origin are exact lists, so a page of another site, or a name that was pointed at this
machine, asks in vain. Without tokens only this machine is served. A token comes as ``Authorization:
Bearer`` or in the cookie that ``POST /v1/login`` sets; one in a URL is refused, as URLs are logged.
"""

from __future__ import annotations

import hmac
import inspect
import ipaddress
import logging
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.config import ConfigError
from pipeline.errors import Fatal
from pipeline.health import Address
from pipeline.patterns import ALL, matcher

from .problems import Problem, bad_request

log = logging.getLogger(__name__)

COOKIE = "foldstream"
LEAST = 16  #: characters of a token
_TOKEN = re.compile(rf"[A-Za-z0-9._~+/=-]{{{LEAST},1024}}")

#: Served to whoever is there: nothing of any session.
OPEN = ("/", "/healthz", "/readyz", "/v1/login", "/v1/openapi.json")
OPEN_BELOW = "/static/"
PROBES = ("/healthz", "/readyz")  #: a supervisor asks by address, not by name

_TOKEN_NAMES = frozenset(("token", "access_token", "api_key", "apikey", "authorization", "bearer"))

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Principal(Struct, frozen=True):
    """Who asks. ``sessions``: patterns of those it may see; ``raw``: raw events too, which no
    redaction covers."""

    name: str
    sessions: tuple[str, ...] = (ALL,)
    raw: bool = True


Authorise: TypeAlias = Callable[[Principal, str], bool]
"""Whether a principal may see a session, by its id; asked besides the principal's patterns, on any
thread. Only True is yes."""

LOCAL = Principal("local")


class Token(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a token file. ``raw`` unsaid: where nothing is redacted."""

    name: str
    token: str
    sessions: tuple[str, ...] = (ALL,)
    raw: bool | None = None


class _Tokens(Struct, frozen=True, forbid_unknown_fields=True):
    token: tuple[Token, ...] = ()


class Rules(Struct, frozen=True):
    """``hosts``: values of Host that are served; ``origins``: of Origin. ``tokens``: none means
    this machine alone. ``redacted``: raw events, which are not, need a token that says so."""

    hosts: frozenset[str]
    origins: frozenset[str]
    tokens: tuple[Token, ...] = ()
    authorise: Authorise | None = None
    redacted: bool = False

    def sees(self, principal: Principal) -> Callable[[str], bool] | None:
        """Which sessions the principal may see; None: all of them."""
        if principal.sessions == (ALL,) and self.authorise is None:
            return None
        named, authorise = matcher(principal.sessions), self.authorise

        def visible(session: str) -> bool:
            return named(session) and (authorise is None or _allowed(authorise, principal, session))

        return visible


def _allowed(authorise: Authorise, principal: Principal, session: str) -> bool:
    """Closed unless the hook says True: it is a stranger's code, which may raise anything, or be a
    coroutine that nobody awaits."""
    try:
        said: object = authorise(principal, session)
    except Exception as error:  # noqa: BLE001 - whatever it is, the answer is no
        log.error("the authorisation hook failed for %s: denied: %r", principal.name, error)  # noqa: TRY400 - one line a session
        return False
    if inspect.iscoroutine(said):
        said.close()
    if said is not True and said is not False:
        log.error("the authorisation hook said %s, not True or False: denied", type(said).__name__)
    return said is True


def read_tokens(path: Path) -> tuple[Token, ...]:
    """The tokens of a file: a single line that is one, or TOML (``[[token]]`` with ``name``,
    ``token``, ``sessions``, ``raw``). `ConfigError` if it holds none that can be used."""
    try:
        text = path.read_text("utf-8")
        found = msgspec.convert(tomllib.loads(text), _Tokens).token if "=" in text else _one(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"--token-file {path}: {error}") from error
    if not found:
        raise ConfigError(f"--token-file {path} holds no token", "write one on its first line")
    for each in found:
        if not _TOKEN.fullmatch(each.token):
            raise ConfigError(
                f"--token-file {path}: the token of {each.name} cannot be used",
                f"{LEAST} letters, digits or ._~+/=- at least: e.g. `openssl rand -hex 32`",
            )
    return found


def _one(text: str) -> tuple[Token, ...]:
    return tuple(Token("token", line.strip()) for line in text.splitlines()[:1] if line.strip())


def rules_for(
    address: Address,
    port: int,
    tokens: tuple[Token, ...] = (),
    hosts: Iterable[str] = (),
    authorise: Authorise | None = None,
    *,
    redacted: bool = False,
) -> Rules:
    """Those of a service that listens there. ``hosts``: more names that it is reached by, as
    HOST[:PORT]; their pages may ask too. `Fatal` for an address that needs a token and has none."""
    if not tokens and not is_loopback(address.host):
        raise Fatal(
            f"--listen {address} would show every session to whoever reaches it",
            "give a --token-file, or listen on 127.0.0.1",
        )
    own = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    if not is_loopback(address.host) and address.host not in ("0.0.0.0", "::"):  # noqa: S104 - not bound
        own.add(str(Address(address.host, port)))
    served = {host.lower() for host in (*own, *hosts)}
    origins = {f"{scheme}://{host}" for host in served for scheme in ("http", "https")}
    return Rules(frozenset(served), frozenset(origins), tokens, authorise, redacted)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Guard:
    """ASGI middleware: checks, then puts the `Principal` into the scope's state. Of WebSockets it
    refuses the upgrade."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            principal = admitted(scope, self._rules)
        except Problem as problem:
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": problem.detail})
                return
            await problem.response()(scope, receive, hardened)
            return
        scope.setdefault("state", {})["principal"] = principal
        await self._app(scope, receive, hardened)


def admitted(scope: Scope, rules: Rules) -> Principal:
    """Who asks, if it may; else `Problem`. On open paths it may be nobody yet."""
    headers, path = Headers(scope=scope), scope["path"]
    if path not in PROBES:
        _check_place(headers, rules)
    _check_url(scope)
    principal = _principal(scope, headers, rules)
    if principal is None and not (path in OPEN or path.startswith(OPEN_BELOW)):
        raise Problem(
            HTTPStatus.UNAUTHORIZED,
            "a token is needed: Authorization: Bearer TOKEN, or the cookie of POST /v1/login",
            {"WWW-Authenticate": "Bearer"},
        )
    return principal or Principal("nobody", (), raw=False)


def _check_place(headers: Headers, rules: Rules) -> None:
    host = headers.getlist("host")
    if len(host) != 1 or host[0].lower() not in rules.hosts:
        raise Problem(
            HTTPStatus.MISDIRECTED_REQUEST,
            "this host is not served here; if it should be, name it with --allow-host",
        )
    for origin in headers.getlist("origin"):
        if origin.lower() not in rules.origins:
            raise Problem(HTTPStatus.FORBIDDEN, "pages of that origin may not ask here")
    if (
        headers.get("sec-fetch-site") == "cross-site"
        and headers.get("sec-fetch-mode") != "navigate"
    ):
        raise Problem(HTTPStatus.FORBIDDEN, "pages of another site may not ask here")


def _check_url(scope: Scope) -> None:
    query = scope.get("query_string", b"").decode("ascii", "replace")
    if any(name.lower() in _TOKEN_NAMES for name, _ in parse_qsl(query, keep_blank_values=True)):
        raise bad_request(
            "a token does not belong in a URL, which is logged and shared: send it as "
            "Authorization: Bearer TOKEN, and make a new one"
        )


def _principal(scope: Scope, headers: Headers, rules: Rules) -> Principal | None:
    if not rules.tokens:
        client = scope.get("client")
        here = client is None or is_loopback(client[0])
        return replace(LOCAL, raw=not rules.redacted) if here else None
    given = _bearer(headers.getlist("authorization")) or _cookie(headers)
    found = None if given is None else known(given, rules.tokens)
    if found is None:
        return None
    raw = not rules.redacted if found.raw is None else found.raw
    return Principal(found.name, found.sessions, raw)


def known(given: str, tokens: Sequence[Token]) -> Token | None:
    """Which token it is; takes equally long whichever it is."""
    found = None
    for each in tokens:
        if hmac.compare_digest(given.encode("utf-8", "replace"), each.token.encode()):
            found = each
    return found


def _bearer(values: list[str]) -> str | None:
    scheme, _, token = (values[0] if len(values) == 1 else "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _cookie(headers: Headers) -> str | None:
    jar: Any = SimpleCookie()
    try:
        jar.load("; ".join(headers.getlist("cookie")))
    except CookieError:
        return None
    return jar[COOKIE].value if COOKIE in jar else None


def set_cookie(token: str, *, secure: bool) -> str:
    """Readable by no script, sent to no other site."""
    return f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
