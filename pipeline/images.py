"""Images that were offloaded: the mark a message's holder sets (projection.md §4, `image/offload`).

The mark is written into the message's own text; no other byte of it changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

from msgspec import Raw

from schemas.jsontree import Node, parse

Span: TypeAlias = tuple[int, int]


def offload(message: Raw, images: Collection[int]) -> Raw:
    """The message with ``offloaded: true`` on the images of these indexes, counted depth first over
    all its image blocks, offloaded ones included. What is no message comes back as it is."""
    text = bytes(message).decode()
    for number, (image, span) in reversed(list(enumerate(_images(parse(text))))):
        if number in images:
            text = _mark(text, image, span)
    return Raw(text.encode())


def _mark(text: str, image: Node, span: Span) -> str:
    there = image.parts().get("offloaded")
    if there is not None:
        return text[: there[0]] + "true" + text[there[1] :]
    close = span[1] - 1
    return text[:close] + ',"offloaded":true' + text[close:]


def _images(message: Node) -> Iterator[tuple[Node, Span]]:
    """Image blocks in the order of the text, each with where it stands."""
    content = message.member("content")
    if content is None or not isinstance(content.value, list):
        return
    for number, block in enumerate(content.items()):
        kind = block.member("type")
        if kind is not None and kind.value == "image":
            yield block, content.parts()[number]
        else:
            yield from _images(block)
