"""What may come instead of an answer."""

from __future__ import annotations

import httpx

from pipeline.gateway.client import ClientError
from pipeline.plain import visible_line

AWAY: tuple[type[Exception], ...] = (httpx.TransportError, ClientError)


def why(error: Exception) -> str:
    """For a person, on one line."""
    return visible_line(str(error) or type(error).__name__)
