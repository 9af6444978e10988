"""Observers: silent, or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pipeline.observe import Observer, Observers


def test_each_of_several_observers_is_told_all() -> None:
    names = [name for name in vars(Observer) if not name.startswith("_")]
    told: list[tuple[str, tuple[object, ...]]] = []

    class Listening(Observer):
        pass

    def listen(name: str) -> Callable[..., None]:
        return lambda _, *args: told.append((name, args))

    for name in names:
        setattr(Listening, name, listen(name))
    several = Observers(Listening(), Listening())
    for name in names:
        count = getattr(Observer, name).__code__.co_argcount - 1
        getattr(several, name)(*range(count))
    assert [name for name, _ in told] == [name for name in names for _ in range(2)]
    assert all(args == tuple(range(len(args))) for _, args in told)
    assert len(names) == 10


def test_an_observer_does_nothing() -> None:
    quiet: Iterable[Observer] = (Observer(), Observers())
    for observer in quiet:
        observer.turned()
        observer.lag({0: 1})
