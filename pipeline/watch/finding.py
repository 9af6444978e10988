"""Words in one session: the gateway finds them, here they are gone through."""

from __future__ import annotations

from bisect import bisect_left

from pipeline.gateway.client import Client
from pipeline.plain import visible_line

MOST = 1_000  #: hits that are gone through, the newest
PAGE = 200


class Finding:
    """Hits in log order: (seq, key of the row)."""

    def __init__(self, client: Client, session: str, words: str) -> None:
        self._client = client
        self._session = session
        self._words = words
        self._hits: list[tuple[int, str]] = []
        self._more = False
        self._at = 0

    async def ask(self) -> None:
        """Read them. `ClientError` for words that cannot be looked for."""
        after: str | None = None
        found: set[tuple[int, str]] = set()
        while len(found) < MOST:
            on = {} if after is None else {"after": after}
            asked = {"q": self._words, "session": self._session, "limit": PAGE, **on}
            page = await self._client.get("/v1/search", **asked)
            if page is None:
                break
            found |= {(hit["seq"], hit["key"]) for hit in page["hits"]}
            after = page["next"]
            if after is None:
                break
        self._hits, self._more = sorted(found), after is not None

    def nearest(self, seq: int | None) -> tuple[int, str] | None:
        """The first from ``seq`` on, else the last before it."""
        if not self._hits:
            return None
        at = len(self._hits) if seq is None else bisect_left(self._hits, (seq, ""))
        self._at = min(at, len(self._hits) - 1)
        return self._hits[self._at]

    def step(self, by: int) -> tuple[int, str] | None:
        """The next or previous one, round and round."""
        if not self._hits:
            return None
        self._at = (self._at + by) % len(self._hits)
        return self._hits[self._at]

    @property
    def said(self) -> str:
        """Which of how many."""
        if not self._hits:
            return f"/{visible_line(self._words)}: nowhere"
        more = "+" if self._more else ""
        return f"/{visible_line(self._words)}: {self._at + 1} of {len(self._hits)}{more}, n and N"
