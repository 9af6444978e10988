"""What is made of the workers' journals: who held what, recovery times, gaps between commits."""

from __future__ import annotations

from pathlib import Path

from tests.chaos import journal
from tests.chaos.journal import Entry, Journal, Told
from tests.chaos.measures import quantile, slope, table
from tests.chaos.sampling import MIB, Sample, growth


def commit(at: float, nexts: dict[int, int], instance: str = "a", run: int = 1) -> Told:
    return Told(instance, run, Entry("committed", at, nexts))


def test_what_was_written_is_read_back_without_a_torn_end(tmp_path: Path) -> None:
    Journal(journal.path_of(tmp_path, "w1", 2)).write("committed", nexts={3: 7})
    with journal.path_of(tmp_path, "w1", 2).open("ab") as file:
        file.write(b'{"what":"comm')
    (told,) = journal.read(tmp_path)
    assert (told.instance, told.run, told.entry.nexts) == ("w1", 2, {3: 7})


def test_recovery_counts_from_the_fault_to_the_first_commit_of_a_later_record() -> None:
    told = [commit(1, {0: 5}), commit(3, {0: 8, 1: 2}), commit(4, {0: 9}), commit(9, {1: 6})]
    sent = {0: [(0.5, 4), (2.5, 8), (2.6, 9)], 1: [(0.5, 1), (5.0, 2)], 2: [(0.5, 0)]}
    assert journal.recoveries(told, sent, 2.0, {0, 1, 2}) == {0: 2.0, 1: 7.0}
    assert journal.recoveries(told, sent, 5.5, {0, 1, 2}) == {}


def test_a_partition_is_of_whoever_committed_it_last() -> None:
    told = [commit(1, {0: 1, 1: 1}), commit(2, {1: 2}, "b"), commit(3, {0: 2}, "b")]
    assert journal.held_by(told, "a", 2.5) == {0}
    assert journal.held_by(told, "b", 3.5) == {0, 1}
    assert journal.folded_to(told) == {0: 2, 1: 2}


def test_gaps_are_those_of_one_process_and_touch_the_time() -> None:
    told = [commit(1, {0: 1}), commit(4, {0: 2}), commit(5, {0: 3}, "b"), commit(6, {0: 4}, "b")]
    assert journal.gaps(told, 2, 10) == {0: [3, 1]}
    assert journal.gaps(told, 4.5, 5.5) == {0: [1]}
    moves = [Told("a", 1, Entry("moved", 3, revoked=(2,), assigned=(4,)))]
    assert journal.moved(moves, 2, 4) == {2, 4}
    assert journal.moved(moves, 4, 5) == set()


def test_figures() -> None:
    assert quantile([5, 1, 3, 2, 4], 0.5) == 3
    assert quantile(list(range(1, 101)), 0.99) == 99
    assert quantile([7], 0.99) == 7
    assert slope([(0, 1), (2, 5), (1, 3)]) == 2
    assert slope([(1, 4), (1, 9)]) == 0
    assert table([("a", "n"), ("bb", "10")]).splitlines() == ["", "a    n", "bb  10"]


def test_growth_is_told_of_what_lived_long_enough() -> None:
    long = [Sample("w1.1", 2.0 * n, (100 + n) * MIB, 30, 7) for n in range(200)]
    brief = [Sample("w2.3", 2.0 * n, 100 * MIB, 30, 7) for n in range(20)]
    rss, fds, threads = growth([*brief, *long])
    assert {one.process for one in (rss, fds, threads)} == {"w1.1"}
    assert round(rss.per_hour) == 1800
    assert rss.first < rss.second < rss.last
    assert (rss.is_flat, fds.is_flat) == (False, True)
    assert (fds.per_hour, threads.first, threads.last) == (0, 7, 7)
    assert rss.row()[:2] == ("w1.1", "rss MiB")


def test_what_fills_in_the_first_third_is_no_growth() -> None:
    filling = [Sample("w1.1", 2.0 * n, min(100 + n, 150) * MIB, 30, 7) for n in range(200)]
    rss, *_ = growth(filling)
    assert (rss.first < rss.second, rss.second == rss.last, rss.is_flat) == (True, True, True)
