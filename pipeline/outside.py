"""What a worker is put around: its ends, as `wiring.py` has made them."""

from __future__ import annotations

from msgspec import Struct

from .ports import Reader, Sink, Source
from .topics import Names


class Ends(Struct, frozen=True):
    """The outside of one worker. ``events_id``: of the very events topic (`identity.Identity`), ""
    if it has none."""

    source: Source
    sink: Sink
    reader: Reader
    names: Names
    events_id: str = ""
