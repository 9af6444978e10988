"""The group's offsets, watched: whoever commits ones that were passed folds records again."""

from __future__ import annotations

from pipeline.memory_groups import Offsets


class Watched(Offsets):
    """``passed``: what was committed although more had been, in words. A second fold may well show
    nowhere else: what came of some records is the same row again."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[str] = []

    def mark(self, group: str, producer_id: int, commits: bool) -> None:
        before = dict(self.committed(group))
        super().mark(group, producer_id, commits)
        for (topic, partition), offset in self.committed(group).items():
            if offset < (old := before.get((topic, partition), offset)):
                self.passed.append(f"{topic}[{partition}] was committed at {old}, then at {offset}")
