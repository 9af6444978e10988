"""The same client as an RxPY Observable.

observed("http://127.0.0.1:8080", ["my-session"]).subscribe(
    lambda changed: print(changed.session, len(changed.held.rows))
)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from reactivex import Observable, create
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.disposable import Disposable

from .client import Client, ClientError
from .keyed import KeyedSession


class Changed(Struct, frozen=True):
    """``held``: the session as it is now (of all sessions, ``session`` "", a new one)."""

    session: str
    held: KeyedSession


def observed(
    url: str, sessions: Sequence[str] = (), view: str = "transcript", **options: Any
) -> Observable[Changed]:
    """One item per change, on a thread of each subscription's own; parameters as `Client`'s. An
    error is a `ClientError`. Disposing ends the connection."""

    def subscribe(
        observer: ObserverBase[Changed], _: SchedulerBase | None = None
    ) -> DisposableBase:
        loop = asyncio.new_event_loop()
        task = loop.create_task(_follow(observer, Client(url, sessions, view, **options)))

        def work() -> None:
            try:
                loop.run_until_complete(task)
            except asyncio.CancelledError:
                pass
            finally:
                loop.close()

        def dispose() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)

        threading.Thread(target=work, name="gateway-client", daemon=True).start()
        return Disposable(dispose)

    return create(subscribe)


async def _follow(observer: ObserverBase[Changed], client: Client) -> None:
    async with client:
        try:
            async for session in client:
                held = client.store.session(session) if session else KeyedSession()
                observer.on_next(Changed(session, held))
        except ClientError as error:
            observer.on_error(error)
        else:
            observer.on_completed()
