"""Errors at the edge: the class says the remedy, the text says what to do (house.md, habit 3).

Inside, data errors are values (`Fault`, `Refused`); an exception means the world outside failed.
"""

from __future__ import annotations


class PipelineError(Exception):
    """Something outside the fold went wrong. ``message`` is what, ``remedy`` what a person does."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class Retriable(PipelineError):  # noqa: N818 - named by its remedy
    """The same batch may succeed later: a broker away, a timeout, a rebalance in between.

    Whoever catches it abandons the producer and goes on from the committed offsets, within a
    budget (streams.md §2)."""


class CommitUnknown(Retriable):
    """A commit raised or did not return. It may have taken effect: the committed group offsets
    decide, never the exception."""


class Fenced(Retriable):
    """A newer producer took this worker's transactional id: what is staged and resident is void."""


class Stuck(Retriable):
    """The consumer answers and yet brings nothing: it is made anew, too."""


class StoreDamaged(Retriable):
    """What the local store holds of ``partition`` cannot be read: it is wiped, and read anew from
    the state topic."""

    def __init__(self, partition: int, message: str) -> None:
        super().__init__(message)
        self.partition = partition


class Poison(PipelineError):  # noqa: N818 - named by its remedy
    """This record can never be delivered as it is; trying again cannot help."""


class Fatal(PipelineError):  # noqa: N818 - named by its remedy
    """The process stops with a non-zero exit: configuration, two workers of one name, a bug."""
