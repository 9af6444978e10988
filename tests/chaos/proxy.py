"""A TCP proxy between clients and brokers that can be told to delay, cut and half-close."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, Self, TypeAlias

Address: TypeAlias = tuple[str, int]
CHUNK = 65_536
CALL_S = 10.0


class Proxy:
    """Passes on what arrives at each key of ``routes`` to its value, in a thread of its own.

    The faults may be made from any thread. They concern every connection that is open, and new
    ones as each says, until `heal`."""

    def __init__(self, routes: Mapping[Address, Address]) -> None:
        self.passed = 0  #: bytes, both ways
        self._routes = dict(routes)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._ready = threading.Event()
        self._failed: OSError | None = None
        self._servers: list[asyncio.Server] = []
        self._pairs: set[_Pair] = set()
        self._delay = 0.0
        self._refuse = False

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S)

    @property
    def connections(self) -> int:
        return len(self._pairs)

    def lead(self, front: Address, behind: Address) -> None:
        """New connections at ``front`` are passed on to another one."""
        self._routes[front] = behind

    # --- faults -----------------------------------------------------------------------------------

    def delay(self, seconds: float) -> None:
        """Whatever arrives from now on is passed on that much later, both ways."""
        self._delay = seconds

    def cut(self, *, refuse: bool) -> None:
        """Every connection is reset; with ``refuse`` new ones are, too."""
        self._refuse = refuse
        self._call(self._each(_Pair.reset))

    def half_close(self) -> None:
        """Of every second connection the client is told that the broker says no more, and may
        speak on into the void; the others are closed towards the broker alone, and their clients
        are told nothing at all. New ones are whole."""
        self._call(self._each(_Pair.half_close))

    def heal(self) -> None:
        self._delay, self._refuse = 0.0, False

    # --- inside: all on the loop's thread ---------------------------------------------------------

    def _call(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(CALL_S)

    async def _each(self, fault: Any) -> None:
        for number, pair in enumerate(list(self._pairs)):
            fault(pair, number)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._listen())
        except OSError as error:
            self._failed = error
        self._ready.set()
        if self._failed is None:
            self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _listen(self) -> None:
        for front in self._routes:
            self._servers.append(await asyncio.start_server(self._accept(front), *front))

    def _accept(self, front: Address) -> Any:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._refuse:
                writer.transport.abort()
                return
            try:
                back, forth = await asyncio.open_connection(*self._routes[front])
            except OSError:
                writer.transport.abort()
                return
            pair = _Pair(writer, forth)
            self._pairs.add(pair)
            try:
                await asyncio.gather(
                    self._pass_on(reader, pair, forth), self._pass_on(back, pair, writer)
                )
            finally:
                self._pairs.discard(pair)
                pair.reset()

        return accept

    async def _pass_on(
        self, reader: asyncio.StreamReader, pair: _Pair, writer: asyncio.StreamWriter
    ) -> None:
        """In order; the end of one direction ends that direction alone, as TCP has it, but for a
        pair that is half closed: its client is told nothing more."""
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                self.passed += len(data)
                if self._delay:
                    await asyncio.sleep(self._delay)
                if not pair.half_closed:
                    writer.write(data)
                    await writer.drain()
            if not pair.half_closed:
                writer.write_eof()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        self._delay = 0.0
        await self._each(_Pair.reset)
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks, timeout=CALL_S / 2)


class _Pair:
    """The two ends of one connection."""

    def __init__(self, client: asyncio.StreamWriter, broker: asyncio.StreamWriter) -> None:
        self.half_closed = False
        self._client = client
        self._broker = broker

    def reset(self, _: int = 0) -> None:
        self._client.transport.abort()
        self._broker.transport.abort()

    def half_close(self, number: int) -> None:
        self.half_closed = True
        with suppress(OSError):
            (self._client if number % 2 else self._broker).write_eof()
