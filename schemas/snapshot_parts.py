"""The parts of a snapshot whose saved form is not their form in memory: surface nodes and steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, cast

import msgspec

from operators.nodes import Node
from operators.steps import Block, Step
from operators.surface import Surface
from operators.table import SHIFT

from .opaque import reader_of, text_of

_TYPES = {
    "u": "user/message",
    "a": "assistant/message",
    "t": "tool/result",
    "s": "system/message",
    "d": "developer/message",
}
_LETTERS = {name: letter.upper() for letter, name in _TYPES.items()}


def save_surface(nodes: tuple[Node, ...]) -> list[tuple[Any, ...]]:
    """One segment of nodes: ``(seq, type letter, tokens[, identity[, order key[, guessed]]])``;
    trailing parts that say nothing are left out."""
    return [_save_node(node) for node in nodes]


def _save_node(node: Node) -> tuple[Any, ...]:
    letter = _LETTERS[node.type]
    if node.key != node.seq:
        key = node.key if isinstance(node.key, int) else str(node.key)
        place = (node.seq, letter, node.tokens, node.identity, key)
        return (*place, 1) if node.guessed else place
    if node.identity:
        return (node.seq, letter, node.tokens, node.identity)
    return (node.seq, letter, node.tokens)


def load_surface(surface: Surface, number: int, value: bytes) -> None:
    """A small letter begins a node without tokens, as it was written before version 3."""
    nodes = []
    for seq, letter, *rest in msgspec.json.decode(value):
        tokens = 0 if letter.islower() else rest.pop(0)
        key = rest[1] if len(rest) > 1 else seq
        node = Node(
            Fraction(key) if isinstance(key, str) else key,
            seq,
            _TYPES[letter.lower()],
            rest[0] if rest else 0,
            len(rest) > 2,
            tokens,
        )
        nodes.append(node)
        if node.key != seq:
            surface.moved = surface.moved.set(seq, node.key)
    surface.put_segment(number, tuple(nodes))


class _Block(msgspec.Struct, array_like=True):
    """A block without its sealed pieces (``pieces`` of them, saved apart). ``tail`` is UTF-8 with
    surrogate halves allowed, as bytes, when it is no plain text."""

    index: int
    type: str
    number: int
    id: str | None
    name: str | None
    final: msgspec.Raw | None  #: read; written as its text
    pieces: int
    tail: str | None
    odd_tail: bytes | None
    size: int
    hold: int
    nonblank: bool
    position: int


class _Step(msgspec.Struct):
    step: Step
    blocks: list[_Block]


_encode = msgspec.json.Encoder().encode
_read_steps = reader_of(_Step)


def save_steps(steps: list[Step]) -> bytes:
    """The steps of one segment, without their sealed text."""
    return _encode([_save_step(step) for step in steps])


def _save_step(step: Step) -> _Step:
    """Opaque JSON is its text already, so that no twin has to be made: most batches save a step."""
    return _Step(
        msgspec.structs.replace(step, blocks={}, usage=text_of(step.usage)),
        [_save_block(index, block) for index, block in step.blocks.items()],
    )


def _save_block(index: int, block: Block) -> _Block:
    odd = _is_odd(block.tail)
    return _Block(
        index,
        block.type,
        block.number,
        block.id,
        block.name,
        cast(Any, text_of(block.final)),
        len(block.sealed),
        None if odd else block.tail,
        block.tail.encode("utf-8", "surrogatepass") if odd else None,
        block.size,
        ord(block.hold) if block.hold else 0,
        block.nonblank,
        block.position,
    )


def _is_odd(text: str) -> bool:
    """Whether it holds half characters, which are no UTF-8."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def pieces_of(step: Step) -> Iterator[tuple[str, str]]:
    """Names and texts of a step's sealed pieces; a name is used for one text only."""
    for block in step.blocks.values():
        for at, text in enumerate(block.sealed):
            yield _piece(step.key, block.number, at), text


def _piece(key: int, number: int, at: int) -> str:
    return f"x{key >> SHIFT}.{key}.{number}.{at}"


def load_steps(value: bytes, segments: Mapping[str, bytes]) -> list[Step]:
    """The steps of one segment, with their sealed text from ``segments``."""
    steps = []
    for saved in _read_steps(value):
        step = saved.step
        for block in saved.blocks:
            names = (_piece(step.key, block.number, at) for at in range(block.pieces))
            tail = block.tail
            if tail is None:
                tail = (block.odd_tail or b"").decode("utf-8", "surrogatepass")
            step.blocks[block.index] = Block(
                block.type,
                block.number,
                block.id,
                block.name,
                block.final,
                tuple(segments[name].decode("utf-8", "surrogatepass") for name in names),
                tail,
                block.size,
                chr(block.hold) if block.hold else "",
                block.nonblank,
                block.position,
            )
        steps.append(step)
    return steps
