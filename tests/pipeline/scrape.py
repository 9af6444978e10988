"""An observer of Prometheus', what happens to it, and what a scrape of it reads."""

from __future__ import annotations

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.batch import fold_batch
from pipeline.commit import Folded
from pipeline.metrics import PrometheusObserver
from pipeline.ports import InRecord, Member, Polled

LINE = (
    b'{"type":"user/message","seq":%d,"time":1,"surfaceOp":"append","data":{"id":"m%d","role":'
    b'"user","content":[],"source":{"kind":"user"}}}'
)
NOW_MS = 1_700_000_000_000
PHASES = {"fold": 0.02, "send": 0.01, "flush": 0.03, "commit": 0.01}
MEMBER = Member(3, "me")


class Prometheus:
    """An observer, and what a scrape of it reads: sample name with its labels to value."""

    def __init__(self) -> None:
        self.now_ms = float(NOW_MS)
        self.observer = PrometheusObserver(lambda: self.now_ms / 1000)

    def samples(self) -> dict[str, float]:
        text = generate_latest(self.observer.registry).decode()
        return {
            sample.name
            + "".join(f" {k}={v}" for k, v in sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, which: str) -> float | None:
        return self.samples().get(f"foldstream_{which}")

    def batch(self, *records: InRecord, resume: bool = False) -> None:
        by_partition: dict[int, list[InRecord]] = {}
        for record in records:
            by_partition.setdefault(record.partition, []).append(record)
        results = {p: fold_batch(found, {}) for p, found in by_partition.items()}
        nexts = {p: found[-1].offset + 1 for p, found in by_partition.items()}
        self.observer.polled(Polled(by_partition, MEMBER))
        self.observer.batch(Folded(results, nexts, MEMBER), PHASES)


def record(partition: int, offset: int, value: bytes | None, age_ms: float = 0) -> InRecord:
    return InRecord("t", partition, offset, int(NOW_MS - age_ms), b"s%d" % partition, value)
