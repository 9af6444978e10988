"""What can be wrong with bytes: a value inside, an exception for callers that can take no other."""

from __future__ import annotations

from msgspec import Struct


class Refusal(Struct, frozen=True):
    """Bytes that cannot be read: a reason code of outputs.md §1 and the reason in words."""

    reason: str
    message: str


class ReadError(ValueError):
    """These bytes are not what was asked for, and never will be: set them aside and go on."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.reason}: {refusal.message}")
        self.refusal = refusal
