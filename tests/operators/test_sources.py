"""Source lists: membership in ranges, what is missing: projection.md §4."""

from msgspec import Raw

from operators.events import (
    APPEND,
    BadSources,
    Event,
    Source,
    SourceList,
    Sources,
    UserMessage,
)
from operators.sources import check_sources, cited, missing, uncited

MESSAGE = UserMessage(Raw(b"{}"), None, Raw(b"[]"), Source())
RANGES = Sources(((40, 50), (3, 3), (7, 9)), 15, 3, 50)


def checked(sources: SourceList, seq: int = 60) -> str | None:
    refusal = check_sources(Event(seq, 0, "user/message", MESSAGE, APPEND, sources))
    return refusal.reason if refusal else None


def test_ranges_are_searched_and_never_expanded() -> None:
    cites = cited(RANGES)
    assert [seq for seq in range(60) if cites(seq)] == [3, 7, 8, 9, *range(40, 51)]
    whole = Sources(((0, 2**53 - 2),), 2**53 - 1, 0, 2**53 - 2)
    assert cited(whole)(2**52)


def test_nothing_cites_nothing() -> None:
    for none in (None, BadSources("sources-element", ""), Sources((), 0, 0, -1)):
        assert uncited([1, 2], none) == [1, 2]


def test_the_first_that_is_missing_is_named() -> None:
    left_out = uncited([7, 10, 11], RANGES)
    assert left_out == [10, 11]
    assert missing(left_out).message == "shadowed node 10 is not cited"


def test_the_list_by_itself() -> None:
    assert checked(None) is None
    assert checked(RANGES) is None
    assert checked(RANGES, seq=50) == "sources-not-earlier"
    assert checked(Sources((), 0, 0, -1)) == "sources-empty"
    assert checked(BadSources("sources-duplicate", "")) == "sources-duplicate"
