"""Avro binary writers for our own records, compiled from their schemas.

A generic writer walks the schema again for every record and tries the branches of every union;
here each record of a schema becomes one Python function that joins the pieces of its fields, so
that a row costs a quarter (``deploy/decisions/2026-11-30-avro-encoder.md``). The bytes are those
of fastavro (the tests hold the two side by side), and reading stays fastavro's.

Only what ``avsc/`` uses is known: null, boolean, int, long, string, bytes, arrays, maps of long,
records, ``["null", T]`` and unions of null and records. Anything else is refused when compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Encoder: TypeAlias = Callable[[Any], bytes]
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_TABLE = 1 << 14
_KEPT = 1 << 14
_FINAL = [bytes((z,)) if z < 128 else bytes((z & 127 | 128, z >> 7)) for z in range(_TABLE)]
_MORE = [bytes((z & 127 | 128, z >> 7 | 128)) for z in range(_TABLE)]


def long_bytes(n: int) -> bytes:
    """``n`` as an Avro long: zigzag, seven bits to a byte, the low ones first.

    Two bytes at a time, by table: an epoch time in milliseconds takes three look-ups."""
    z = n << 1 if n >= 0 else ~(n << 1)
    if z < _TABLE:
        return _FINAL[z]
    if z < 1 << 28:
        return _MORE[z & 16383] + _FINAL[z >> 14]
    if z < 1 << 42:
        return _MORE[z & 16383] + _MORE[z >> 14 & 16383] + _FINAL[z >> 28]
    head = _MORE[z & 16383] + _MORE[z >> 14 & 16383] + _MORE[z >> 28 & 16383]
    z >>= 42
    while z >= _TABLE:
        head += _MORE[z & 16383]
        z >>= 14
    return head + _FINAL[z]


class _Numbers(dict[int | None, bytes]):
    """Encodings by number, the recent ones kept (a row names the same seq and time many times).

    ``top`` bounds the Avro type. A number outside of it raises OverflowError, or, when ``lenient``,
    is the nearest bound; in a nullable field it is null then, as what the log does not say."""

    def __init__(self, top: int, *, nullable: bool = False, lenient: bool = False) -> None:
        self._top, self._lenient, self._nullable = top, lenient, nullable
        self._branch = b"\x02" if nullable else b""

    def __missing__(self, n: int | None) -> bytes:
        if len(self) >= _KEPT:
            self.clear()
        if n is not None and -self._top - 1 <= n <= self._top:
            encoded = self._branch + long_bytes(n)
        else:
            encoded = self._odd(n)
        self[n] = encoded
        return encoded

    def _odd(self, n: int | None) -> bytes:
        if n is None:
            if not self._nullable:
                raise TypeError("null in a field that is not nullable")
            return b"\x00"
        if not self._lenient:
            raise OverflowError(f"{n} does not fit an Avro number")
        return b"\x00" if self._nullable else long_bytes(self._top if n > 0 else -self._top - 1)


def utf8(text: str) -> bytes:
    """UTF-8 of any string: an unpaired surrogate half is U+FFFD, a pair its character."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        units = text.encode("utf-16-le", "surrogatepass")
        return units.decode("utf-16-le", "replace").encode()


def compile_encoder(
    schema: Mapping[str, Any],
    structs: Mapping[str, type],
    *,
    prefix: bytes = b"",
    lenient: bool = False,
) -> Encoder:
    """The writer of ``schema``'s record: a struct in, ``prefix`` and the Avro body out.

    ``structs`` names the struct class of every record that stands in a union of several. The
    strict writer raises UnicodeEncodeError on an unpaired surrogate and OverflowError on a number
    that is too big; the lenient one takes both as :func:`utf8` and :class:`_Numbers` say."""
    source = _Source(lenient)
    source.record(schema)
    scope: dict[str, Any] = {
        "LONG": _Numbers(LONG_MAX, lenient=lenient),
        "INT": _Numbers(INT_MAX, lenient=lenient),
        "OLONG": _Numbers(LONG_MAX, nullable=True, lenient=lenient),
        "OINT": _Numbers(INT_MAX, nullable=True, lenient=lenient),
        "utf8": utf8,
    }
    exec(compile(source.text(), f"<avro {schema['name']}>", "exec"), scope)  # noqa: S102 - our own text, of our own files
    for name, branches in source.unions.items():
        scope[name] = {type(None): (b"\x00", lambda _: b"")} | {
            structs[b]: (long_bytes(i), scope[f"w_{b}"]) for i, b in branches if b in structs
        }
    writer: Encoder = scope[f"w_{schema['name']}"]
    if not prefix:
        return writer
    return lambda change: prefix + writer(change)


class _Source:
    """Python text of the writers, one function per record, in the order met."""

    def __init__(self, lenient: bool) -> None:
        self._encoded = "utf8({})" if lenient else "{}.encode()"
        self._known: set[str] = set()
        self._functions: list[str] = []
        self._names = 0
        self.unions: dict[str, list[tuple[int, str]]] = {}

    def text(self) -> str:
        return "\n".join(self._functions)

    def record(self, schema: Mapping[str, Any]) -> str:
        name: str = schema["name"]
        self._known.add(name)
        parts = [
            self._piece(field["type"], f"v.{field['name']}", bool(field.get("json")))
            for field in schema["fields"]
        ]
        body = ",\n        ".join(parts)
        self._functions.append(f"def w_{name}(v):\n    return b''.join((\n        {body},\n    ))")
        return f"w_{name}"

    def _fresh(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def _piece(self, kind: Any, value: str, opaque: bool) -> str:
        """One or more elements of the joined tuple: the encoding of the expression ``value``."""
        if isinstance(kind, list):
            return self._union(kind, value, opaque)
        if kind in ("string", "bytes"):
            return ", ".join(self._sized("LONG", kind, value, opaque))
        return self._one(kind, value)

    def _sized(self, table: str, kind: str, value: str, opaque: bool) -> tuple[str, str]:
        """Length, by ``table``, and bytes of a string or bytes."""
        e = self._fresh("e")
        data = value if opaque or kind == "bytes" else self._encoded.format(value)
        return f"{table}[len({e} := {data})]", e

    def _one(self, kind: Any, value: str) -> str:
        """The same, always one element."""
        if kind in ("long", "int"):
            return f"{kind.upper()}[{value}]"
        if kind == "boolean":
            return f"(b'\\x01' if {value} else b'\\x00')"
        if isinstance(kind, str) and kind in self._known:
            return f"w_{kind}({value})"
        if isinstance(kind, dict):
            if kind["type"] == "record":
                return f"{self.record(kind)}({value})"
            if kind["type"] in ("array", "map"):
                return self._blocks(kind, value)
        raise TypeError(f"no writer for Avro type {kind!r}")

    def _blocks(self, kind: Mapping[str, Any], value: str) -> str:
        """An array, or a map of long, in one block."""
        items, i = self._fresh("s"), self._fresh("i")
        if kind["type"] == "array":
            each = f"[{self._joined(kind['items'], i)} for {i} in {items}]"
        else:
            pair = f"{self._joined('string', i)} + {self._joined(kind['values'], f'n{i}')}"
            each = f"[{pair} for {i}, n{i} in {items}.items()]"
        join = f"b''.join((LONG[len({items})], *{each}, b'\\x00'))"
        return f"({join} if ({items} := {value}) else b'\\x00')"

    def _joined(self, kind: Any, value: str) -> str:
        """As one expression, where no tuple is being joined."""
        if kind in ("string", "bytes"):
            return " + ".join(self._sized("LONG", kind, value, opaque=False))
        return self._one(kind, value)

    def _union(self, kinds: list[Any], value: str, opaque: bool) -> str:
        if kinds[0] != "null":
            raise TypeError("a union begins with null")
        s = self._fresh("s")
        if len(kinds) == 2:
            kind = kinds[1]
            if kind in ("long", "int"):
                return f"O{kind.upper()}[{value}]"
            if kind in ("string", "bytes"):
                some = " + ".join(self._sized("OLONG", kind, s, opaque))
            else:
                some = f"b'\\x02' + {self._one(kind, s)}"
            return f"(b'\\x00' if ({s} := {value}) is None else {some})"
        branches = []
        for index, kind in enumerate(kinds[1:], 1):
            if not isinstance(kind, str):
                self.record(kind)
            branches.append((index, kind if isinstance(kind, str) else kind["name"]))
        table, b = self._fresh("UNION"), self._fresh("b")
        self.unions[table] = branches
        return f"({b} := {table}[type({s} := {value})])[0], {b}[1]({s})"
