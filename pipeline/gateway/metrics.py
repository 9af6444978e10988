"""Figures of the gateway for Prometheus, read off when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from .service import Service

_COUNTS = {
    "polls": "Polls that were written to the read model.",
    "records": "Records read from the topics.",
    "unreadable": "Records that are none of ours.",
    "failures": "Times that the topics or the database could not be worked with.",
    "rebuilds": "Times that the read model was begun anew.",
}
_STREAMS = {
    "frames": "Frames that were taken to be sent to clients.",
    "bytes": "Bytes of those frames.",
    "coalesced": "Frames joined or superseded before they were shared out.",
    "squeezed": "The same in the queue of one client that is slow.",
    "dropped": "Frames in whose place a client was told to resync.",
    "resyncs": "Times that a client was told to resync.",
    "closed": "Clients that did not take even that.",
}
STATES = ("starting", "catching-up", "live", "stale")


class _Figures(Collector):
    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        status, counts = self._service.status, dict(self._service.feed.counts)
        for name, about in _COUNTS.items():
            yield CounterMetricFamily(f"foldstream_gateway_{name}", about, value=counts[name])
        state = GaugeMetricFamily(
            "foldstream_gateway_state", "1 for the state it is in.", labels=["state"]
        )
        for each in STATES:
            state.add_metric([each], float(each == status.state))
        yield state
        about = "Offsets still to read."
        yield GaugeMetricFamily("foldstream_gateway_lag_offsets", about, value=status.lag or 0)
        yield from self._streams()
        since = status.stale_since
        seconds = 0.0 if since is None else (self._service.now_ms() - since) / 1000
        about = "For how long what is served may not be all there is."
        yield GaugeMetricFamily("foldstream_gateway_stale_seconds", about, value=max(seconds, 0))

    def _streams(self) -> Iterator[Metric]:
        if self._service.tally is None:
            return
        tally = self._service.tally()
        for name, about in _STREAMS.items():
            value = getattr(tally, name)
            yield CounterMetricFamily(f"foldstream_gateway_stream_{name}", about, value=value)


def registry(service: Service) -> CollectorRegistry:
    made = CollectorRegistry(auto_describe=False)
    made.register(_Figures(service))
    return made
