"""Images that were offloaded: the mark a message's holder sets (projection.md §4, `image/offload`).

The mark is written into the message's own text; no other byte of it changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Raw

from schemas.jsontree import Node, parse, unquote


def offload(message: Raw, images: Collection[int]) -> Raw:
    """The message with ``offloaded: true`` on the images of these indexes, counted depth first over
    all its image blocks, offloaded ones included. What is no message comes back as it is."""
    text = bytes(message).decode()
    for number, image in reversed(list(enumerate(_images(parse(text))))):
        if number in images:
            text = _mark(text, image)
    return Raw(text.encode())


def _mark(text: str, image: Node) -> str:
    there = image.members.get("offloaded")
    if there is not None:
        return text[: there.start] + "true" + text[there.end :]
    close = image.end - 1
    return text[:close] + ',"offloaded":true' + text[close:]


def _images(message: Node) -> Iterator[Node]:
    content = message.members.get("content")
    for block in content.items if content else ():
        kind = block.members.get("type")
        if kind is not None and kind.kind == "string" and unquote(kind.text) == "image":
            yield block
        else:
            yield from _images(block)
