"""The effective configuration: flag over environment over file over default (outputs.md §2).

Every option of every command is one key of :class:`Config`: ``--max-messages 5``,
``FOLDSTREAM_MAX_MESSAGES=5`` and ``max_messages = 5`` in ``foldstream.toml`` say the same. A key
that is not known is an error in each of the three, with the nearest known one.

Options of the Kafka client are a table: ``--client-option sasl_mechanism=PLAIN`` (repeatable),
``FOLDSTREAM_CLIENT_OPTION_SASL_MECHANISM=PLAIN``, ``[client_options]`` in the file. They are merged
key by key.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from operators.readers.references import BUDGET

from . import limits
from .errors import PipelineError
from .patterns import ALL
from .readers.parameters import AROUND

ENVIRONMENT = "FOLDSTREAM_"
CLIENT = "CLIENT_OPTION_"
#: Not keys: the file's own path; the data of `make golden`; which Kafka a test run takes.
NOT_OPTIONS = ("FOLDSTREAM_CONFIG", "FOLDSTREAM_GOLDEN", "FOLDSTREAM_TEST_KAFKA")
FILE = "foldstream.toml"
APPLICATION = "foldstream"
SESSIONS = "sessions."  #: the prefix that has this application id; any other is added to it
MASK = "***"
_SECRET = re.compile(r"password|secret|token|credential|jaas|key(?!file)", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/@:]*:([^/@]*)@")

Count: TypeAlias = Annotated[int, Meta(ge=1)]
Seq: TypeAlias = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Size: TypeAlias = Annotated[int, Meta(ge=0)]
Port: TypeAlias = Annotated[int, Meta(ge=1, le=65535)]
ClientOption: TypeAlias = bool | int | float | str
Patterns: TypeAlias = bool | tuple[str, ...]  #: all or none; as one text with commas between them


class ConfigError(PipelineError):
    """A key or value that cannot be used; the message names where it stands and what would do."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value per option; the defaults are those of the commands."""

    # everywhere
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    log_format: Literal["text", "json"] = "text"
    json: bool = False
    # the broker and its topics
    bootstrap: str = "127.0.0.1:19092"
    prefix: str = SESSIONS
    client_options: dict[str, ClientOption] = {}
    partitions: Count | None = None
    replication: Count = 1
    # worker
    application_id: str | None = None  # None: that of the prefix, see `application`
    instance: str | None = None
    max_row_bytes: Count = limits.MAX_ROW_BYTES
    skip_expired: bool = False
    redaction: str | None = None  # also verify, gateway
    state_dir: str | None = None  # None: in the user's folder for state; "none": in memory
    resident_bytes: Count = limits.RESIDENT_BYTES
    listen: str | None = None  # also gateway
    # gateway
    database: str | None = None  # None: SQLite in the user's folder for state
    token_file: str | None = None  # also watch
    allow_hosts: tuple[str, ...] = ()
    # watch
    gateway: str = "http://127.0.0.1:8080"
    # ingest
    max_line_bytes: Count = limits.MAX_LINE_BYTES
    follow: bool = False  # also show
    # fold, pages
    strict: Patterns = False  # also run, up, verify
    from_seq: Seq | None = None
    to_seq: Seq | None = None
    max_messages: Count = 50
    before: Seq | None = None
    readers: bool = False
    # show, surface
    auxiliary: bool = False
    color: Literal["auto", "always", "never"] = "auto"
    at: Seq | None = None  # also query
    # export
    format: Literal["md", "html", "jsonl"] = "md"
    output: str | None = None
    # query, reference
    around: Size = AROUND
    rate_card: str | None = None
    max_bytes: Size = BUDGET
    # up
    broker: str = "auto"
    port: Port | None = None
    ingest: str | None = None
    demo: bool = False
    once: bool = False
    dir: str | None = None
    # simulate
    sessions: Count = 200
    events_per_session: Count = 120
    rate: Annotated[float, Meta(gt=0)] | None = None
    seed: int = 0
    to: str = "kafka"
    faults: str = ""
    # deadletter, query
    limit: Count | None = None
    reason: str | None = None
    # verify
    session: str | None = None
    rounds: Count = 20

    @property
    def strict_sessions(self) -> tuple[str, ...]:
        """Patterns of the sessions that are folded strictly."""
        if isinstance(self.strict, bool):
            return (ALL,) if self.strict else ()
        return tuple(pattern for pattern in self.strict if pattern)

    @property
    def application(self) -> str:
        """The consumer group, and the state topic's name: of a prefix its own, since two prefixes
        that share them would take each other's states for theirs."""
        if self.application_id is not None:
            return self.application_id
        if self.prefix == SESSIONS:
            return APPLICATION
        return f"{APPLICATION}-{self.prefix.rstrip('.')}"


class Effective(Struct, frozen=True):
    """The configuration and, per key that is not at its default, where its value came from."""

    config: Config
    origins: dict[str, str]


def load(
    flags: Mapping[str, Any], environ: Mapping[str, str], path: Path | None = None
) -> Effective:
    """Merge the three sources. ``flags`` holds only what was given. ``path`` must exist if it is
    given; else ``FOLDSTREAM_CONFIG``, else ``foldstream.toml`` where it exists."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    options: dict[str, ClientOption] = {}
    sources = (_from_file(path, environ), _from_environment(environ), _from_flags(flags))
    for name, value, origin in (entry for source in sources for entry in source):
        if name == "client_options":
            options |= value
        else:
            values[name] = value
        origins[name] = origin
    if options:
        values["client_options"] = options
    for name in ("bootstrap", "broker"):
        if (found := values.get(name)) and (name != "broker" or ":" in found):
            _check_servers(found, origins[name])
    return Effective(Config(**values), origins)


def _check_servers(servers: str, origin: str) -> None:
    for server in servers.split(","):
        _, colon, port = server.strip().rpartition(":")
        if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
            where = "--bootstrap" if origin == "flag" else origin
            raise ConfigError(
                f"{where}: {server.strip()!r} is no broker address",
                "write HOST:PORT, several with commas",
            )


def client_option(text: str) -> tuple[str, ClientOption]:
    """``KEY=VALUE`` as the client takes it: numbers and booleans as such, but credentials and
    everything of TLS and SASL as the text they are."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"client option {name!r}: write KEY=VALUE, e.g. security_protocol=SSL")
    return name, _client_value(name, value)


def masked(config: Config) -> dict[str, Any]:
    """Every key in order, the effective application id, and the secrets among the client's options
    as ``***``."""
    shown: dict[str, Any] = msgspec.to_builtins(config) | {"application_id": config.application}
    shown["client_options"] = {
        name: value if _secret(name, value) is None else MASK
        for name, value in config.client_options.items()
    }
    return shown


def secrets(config: Config) -> frozenset[str]:
    """What must not stand in any log: passwords and the like among the client's options."""
    found = (_secret(name, value) for name, value in config.client_options.items())
    return frozenset(secret for secret in found if secret)


def _secret(name: str, value: ClientOption) -> str | None:
    """By the option's name, or the password in the address of a proxy."""
    if not isinstance(value, str):
        return None
    if _SECRET.search(name):
        return value
    login = _LOGIN.search(value)
    return login[1] if login else None


def to_toml(effective: Effective) -> str:
    """The effective configuration as a file that can be read again (secrets are ``***``)."""
    shown = masked(effective.config)
    options = shown.pop("client_options")
    lines = []
    for name, value in shown.items():
        origin = effective.origins.get(name, "default")
        text = f"# {name} is not set" if value is None else f"{name} = {_toml(value)}"
        if name == "application_id" and effective.config.application_id is None:
            text = f"# {text}  # of the prefix"  # in a file it would stand for other prefixes too
        lines.append(text if origin == "default" else f"{text}  # {origin}")
    if options:
        lines += ["", f"[client_options]  # {effective.origins['client_options']}"]
        lines += [f"{name} = {_toml(value)}" for name, value in options.items()]
    return "\n".join(lines) + "\n"


def _toml(value: ClientOption) -> str:
    """JSON's scalars are TOML's, text included (JSON escapes are TOML escapes)."""
    return msgspec.json.encode(value).decode()


def _from_file(path: Path | None, environ: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    given = path or (Path(named) if (named := environ.get(ENVIRONMENT + "CONFIG")) else None)
    chosen = given or Path(FILE)
    try:
        text = chosen.read_text("utf-8")
    except FileNotFoundError:
        if given is None:
            return
        raise ConfigError(f"{chosen}: no such configuration file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{chosen}: cannot be read: {error}") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{chosen}: not TOML: {error}") from error
    for name, value in table.items():
        yield name, _checked(name, value, f"{chosen}: {name}", strict=True), str(chosen)


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    for variable, value in sorted(environ.items()):
        if not variable.startswith(ENVIRONMENT) or variable in NOT_OPTIONS or not value:
            continue
        name = variable.removeprefix(ENVIRONMENT)
        if name.startswith(CLIENT):
            option = name.removeprefix(CLIENT).lower()
            yield "client_options", {option: _client_value(option, value)}, "environment"
        else:
            key = name.lower()
            yield key, _checked(key, value, variable, strict=False), "environment"


def _from_flags(flags: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    for name, value in flags.items():
        if value is None:
            continue
        where = f"--{name.replace('_', '-')}"
        yield name, _checked(name, value, where, strict=False), "flag"


def _checked(name: str, value: Any, where: str, *, strict: bool) -> Any:
    fields = {field.name: field.type for field in msgspec.structs.fields(Config)}
    if name not in fields:
        near = difflib.get_close_matches(name, fields, 1)
        hint = f"did you mean {near[0]}?" if near else "`foldstream config` lists the keys"
        raise ConfigError(f"{where}: unknown key; {hint}")
    try:
        return msgspec.convert(value, fields[name], strict=strict)
    except msgspec.ValidationError as error:
        if fields[name] == Patterns and isinstance(value, str):
            return tuple(pattern.strip() for pattern in value.split(","))
        raise ConfigError(f"{where}: {error}") from None


def _client_value(name: str, value: str) -> ClientOption:
    if name.startswith(("sasl_", "ssl_")) and name != "ssl_check_hostname":
        return value
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return int(value)
    except ValueError:
        return value
