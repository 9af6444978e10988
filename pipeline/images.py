"""Images that were offloaded: the mark a message's holder sets (projection.md §4, `image/offload`).

Only the objects on the way to a marked image are written anew; everything else of the message stays
the log's own bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import count

import msgspec
from msgspec import Raw

_ESCAPE = re.compile(rb"\\(?:u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)


def offload(message: Raw, images: Collection[int]) -> Raw:
    """The message with ``offloaded: true`` on the images of these indexes, counted depth first over
    all its image blocks, offloaded ones included. What is no message comes back as it is."""
    text, marker = _without_surrogates(bytes(message))
    fields = _object(Raw(text))
    if "content" not in fields:
        return message
    fields["content"] = _mark(fields["content"], images, count())
    marked = msgspec.json.encode(fields)
    return Raw(marked.replace(marker, b"\\u") if marker else marked)


def _mark(content: Raw, images: Collection[int], number: Iterator[int]) -> Raw:
    if bytes(content)[:1] != b"[":
        return content
    blocks = msgspec.json.decode(content, type=list[Raw])
    for at, block in enumerate(blocks):
        fields = _object(block)
        if fields.get("type", b"") == Raw(b'"image"'):
            if next(number) in images:
                blocks[at] = Raw(msgspec.json.encode({**fields, "offloaded": True}))
        elif "content" in fields:
            fields["content"] = _mark(fields["content"], images, number)
            blocks[at] = Raw(msgspec.json.encode(fields))
    return Raw(msgspec.json.encode(blocks))


def _object(value: Raw) -> dict[str, Raw]:
    if bytes(value).lstrip()[:1] != b"{":
        return {}
    return msgspec.json.decode(value, type=dict[str, Raw])


def _without_surrogates(text: bytes) -> tuple[bytes, bytes]:
    """The text with each escaped surrogate half written as a marker that occurs nowhere in it (the
    decoder takes no unpaired half), and that marker; it is empty when there was none."""
    if not re.search(rb"\\u[dD][89a-fA-F]", text):
        return text, b""
    marker = next(m for n in count() if (m := b"<surrogate %d>" % n) not in text)
    return _ESCAPE.sub(lambda m: marker + m[1] if m[1] else m[0], text), marker
