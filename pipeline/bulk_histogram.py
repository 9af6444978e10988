"""A histogram for thousands of values at a time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from threading import Lock

from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector


class BulkHistogram(Collector):
    """A histogram that takes the values of a whole batch at once, for the price of sorting them:
    the library's own takes them one by one, each under a lock."""

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._text = text
        self._bounds = bounds
        self._lock = Lock()
        self._within = [0] * len(bounds)
        self._count = 0
        self._sum = 0.0

    def add(self, stamps: list[int], now: float) -> None:
        """The ages at ``now`` (epoch seconds) of ``stamps`` (epoch ms). One in the future, by
        another machine's clock, counts as 0; a negative one says nothing and is left out."""
        now_ms = now * 1000
        stamps.sort()
        known = stamps[bisect_left(stamps, 0) :]
        count = len(known)
        past = known[: bisect_right(known, now_ms)]
        within = [count - bisect_left(known, now_ms - bound * 1000) for bound in self._bounds]
        with self._lock:
            self._count += count
            self._sum += (len(past) * now_ms - sum(past)) / 1000
            self._within = [
                before + more for before, more in zip(self._within, within, strict=True)
            ]

    def collect(self) -> Iterator[HistogramMetricFamily]:
        with self._lock:
            buckets = [(str(bound), n) for bound, n in zip(self._bounds, self._within, strict=True)]
            buckets.append(("+Inf", self._count))
            total = self._sum
        yield HistogramMetricFamily(self._name, self._text, buckets=buckets, sum_value=total)

    def describe(self) -> Iterator[HistogramMetricFamily]:
        yield HistogramMetricFamily(self._name, self._text)
