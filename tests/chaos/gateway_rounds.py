"""One round of the gateway: a worker, a steady feed, fifty clients, a fault, and the proof."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct

from pipeline.simulate import SHAPES, simulate
from pipeline.topics import Names
from tests.postgres import Postgres, server

from .checks import Trouble, catch_up
from .crew import Crew, Place
from .feeder import Feeder, Line
from .gateway import Database, Gateway, free_port
from .gateway_equal import differences, expected, targets
from .proxy import Proxy
from .stage import PARTITIONS, Stage
from .viewers import SocketViewer, Viewer, Viewers

RATE = 80.0  #: lines a second, over all sessions
SESSIONS = 12
EVENTS = 1_200  #: of a session: more than a round writes
REST_S = 3.0  #: is fed after the fault is over
CURRENT_S = 120.0
READY_S = 90.0
FROZEN = 6


class GatewayFault(Struct, frozen=True, kw_only=True):
    """``make`` is called while all write and watch; what it makes is over when it returns."""

    name: str
    make: Callable[[GatewayRound], None]
    postgres: bool = False
    prepare: Callable[[GatewayRound, ExitStack], None] | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    """``different``: clients that did not end equal. ``current_s``: seconds from the end of the
    fault until all clients that are not slow knew of all that had been written by then, and until
    the slow ones did. ``said``: how the gateway put
    it, where it was to say so."""

    fault: str
    round: int
    clients: int
    different: int
    current_s: list[float]
    lines: int
    seconds: float
    said: list[str]
    last: list[str]
    trouble: str = ""
    kept: str = ""

    @property
    def ok(self) -> bool:
        return not (self.different or self.trouble)


class GatewayRound:
    """What a fault's functions may look at and touch."""

    def __init__(
        self, stage: Stage, fault: GatewayFault, seed: str, number: int, folder: Path
    ) -> None:
        self.stage = stage
        self.fault = fault
        self.number = number
        self.folder = folder
        self.random = Random(seed)
        self.names = Names(f"g{folder.name}.", f"g{folder.name}")
        self.current_s: list[float] = []
        self.said: list[str] = []
        self.last: list[str] = []
        self.front = ("127.0.0.1", free_port())
        lines = steady(self.random)
        self.feeder = Feeder(stage.bootstrap, self.names.of("events"), lines, RATE)
        self.gateways: list[Gateway] = []
        self.server: Postgres | None = None
        self._viewers: Viewers | None = None

    # --- for the faults ---------------------------------------------------------------------------

    @property
    def gateway(self) -> Gateway:
        return self.gateways[0]

    def new_gateway(self, name: str = "gateway") -> Gateway:
        """One more over the same topics, with a database of its own."""
        database = Database(self.folder, self.server, name)
        made = Gateway(
            self.stage.bootstrap,
            self.names,
            database,
            self.folder,
            "{}:{}".format(*self.front),
        )
        self.gateways.append(made)
        return made

    def sleep(self, least: float, most: float) -> None:
        time.sleep(self.random.uniform(least, most))

    def stale(self, *words: str) -> None:
        """Wait until the gateway says so itself."""
        self.said.append(self.gateway.until_stale(*words))

    def _over(self) -> None:
        """The fault is over: wait until every client knows of all that was written by now."""
        assert self._viewers is not None
        viewers, began = self._viewers, time.monotonic()
        viewers.thaw()
        wanted = targets({name: list(lines) for name, lines in self.feeder.fed.items()})
        quick = [viewer for viewer in viewers.all if not viewer.slow]

        def current(some: Sequence[Viewer]) -> bool:
            late = [viewer.name for viewer in viewers.behind(wanted) if viewer in some]
            self.last = late or self.last
            return not late or bool(viewers.errors)

        for some in (quick, viewers.all):
            if not Crew.until(lambda some=some: current(some), CURRENT_S):  # type: ignore[misc]
                raise Trouble(f"not current after {CURRENT_S:.0f} s: {', '.join(self.last)}")
            self.current_s.append(round(time.monotonic() - began, 1))
        self._require_no_errors()

    # --- the round --------------------------------------------------------------------------------

    def play(self) -> Outcome:
        began, trouble, wrong = time.monotonic(), "", list[str]()
        try:
            with ExitStack() as ends:
                wrong = self._play(ends)
        except (Trouble, TimeoutError) as error:
            trouble = str(error) or repr(error)
        (self.folder / "different.txt").write_text("\n".join(wrong))
        return Outcome(
            fault=self.fault.name,
            round=self.number,
            clients=0 if self._viewers is None else len(self._viewers.all),
            different=len({one.partition(": ")[0] for one in wrong}),
            current_s=self.current_s,
            lines=self.feeder.confirmed,
            seconds=time.monotonic() - began,
            said=self.said,
            last=self.last,
            trouble=trouble or (wrong[0] if wrong else ""),
        )

    def _play(self, ends: ExitStack) -> list[str]:
        self.stage.create(self.names)
        if self.fault.postgres:
            self.server = ends.enter_context(server())
        place = Place(bootstrap=self.stage.bootstrap, names=self.names, folder=self.folder)
        crew = ends.enter_context(Crew(place))
        crew.start("w1")
        gateway = self.new_gateway()
        ends.callback(self._end_gateways)
        if self.fault.prepare is not None:
            self.fault.prepare(self, ends)
        gateway.start()
        self.feeder.start()
        ends.callback(self.feeder.stop)
        proxy = {self.front: ("127.0.0.1", gateway.port)}
        self.proxy = ends.enter_context(Proxy(proxy))
        self._until_all_are_there(gateway)
        url = "http://{}:{}".format(*self.front)
        viewers = crowd(url, sorted(self.feeder.fed))
        self._viewers = watching = Viewers(viewers, viewers[-FROZEN:])
        with watching:
            self._trouble()
            self.feeder.finish(READY_S)
            catch_up(self.stage, self.names, self.folder, self.feeder.ends)
            return self._proven(watching)

    def _until_all_are_there(self, gateway: Gateway) -> None:
        """A client may not ask for a session that nobody has heard of."""
        gateway.until_ready()

        def there() -> bool:
            return gateway.sessions() >= SESSIONS

        if not Crew.until(there, READY_S):
            raise Trouble(f"{gateway.sessions()} of {SESSIONS} sessions are there")

    def _trouble(self) -> None:
        self.sleep(3.0, 5.0)
        try:
            self.fault.make(self)
        finally:
            self.stage.mend()
            self.proxy.heal()
        self._over()
        time.sleep(REST_S)
        self._require_no_errors()

    def _proven(self, viewers: Viewers) -> list[str]:
        viewers.hurry()
        wanted = expected(self.feeder.fed)
        last = {session: one.overview["next_seq"] for session, one in wanted.items()}

        def settled() -> bool:
            return not viewers.behind(last) and all(viewer.settled for viewer in viewers.all)

        if not Crew.until(lambda: settled() or bool(viewers.errors), CURRENT_S):
            late = [v.name for v in viewers.behind(last)]
            wants = [v.name for v in viewers.all if not v.settled]
            raise Trouble(f"after {CURRENT_S:.0f} s behind: {late}, still to fetch rows: {wants}")
        self._require_no_errors()
        return viewers.call(differences(viewers.all, self.url, wanted))

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self.front)

    def _require_no_errors(self) -> None:
        for gateway in self.gateways:
            gateway.require_up()
        if self._viewers is not None and self._viewers.errors:
            raise Trouble(f"a client ended: {self._viewers.errors[0]}")

    def _end_gateways(self) -> None:
        for gateway in self.gateways:
            gateway.end()


def steady(random: Random) -> Iterator[Line]:
    """Sessions that go on all the time, a line of each in turn, in every shape."""
    first = random.randrange(10**6)
    made = [
        simulate(first + n, events=EVENTS, shape=SHAPES[n % len(SHAPES)]) for n in range(SESSIONS)
    ]
    for turn in range(max(len(session.lines) for session in made)):
        for number, session in enumerate(made):
            if turn < len(session.lines):
                yield Line(session.id, number % PARTITIONS, session.lines[turn])


def crowd(url: str, names: list[str]) -> list[Viewer]:
    """Fifty: every view, both ways to be served, some slow; each session is watched by several."""

    def of(number: int, count: int = 1) -> list[str]:
        return [names[(number * 5 + step) % len(names)] for step in range(count)]

    return [
        *(Viewer(url, f"all-{n}", (), "overview") for n in range(3)),
        *(Viewer(url, f"surface-{n}", of(n), "surface") for n in range(6)),
        *(SocketViewer(url, f"socket-{n}", of(n, 1 + n % 2), "transcript") for n in range(12)),
        *(SocketViewer(url, f"socket-surface-{n}", of(n), "surface") for n in range(3)),
        *(Viewer(url, f"slow-{n}", of(n), "transcript", slow=True) for n in range(5)),
        *(Viewer(url, f"events-{n}", of(n, 1 + n % 3), "transcript") for n in range(15)),
        *(Viewer(url, f"frozen-{n}", of(n), "transcript") for n in range(FROZEN)),
    ]


def play(
    stage: Stage, fault: GatewayFault, seed: str, number: int, folder: Path, *, keep: bool
) -> Outcome:
    """One round in a folder of its own, which stays with ``keep`` or if something is wrong."""
    folder.mkdir(parents=True)
    outcome = GatewayRound(stage, fault, seed, number, folder).play()
    if keep or not outcome.ok:
        outcome = msgspec.structs.replace(outcome, kept=str(folder))
        (folder / "outcome.json").write_bytes(msgspec.json.encode(outcome))
    else:
        shutil.rmtree(folder, ignore_errors=True)
    if outcome.ok:
        stage.delete(Names(f"g{folder.name}.", f"g{folder.name}"))
    return outcome
