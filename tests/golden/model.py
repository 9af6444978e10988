"""The whole reference model of one log (or of a part of it, for windows and prefixes)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tests.golden import model_inputs, model_log
from tests.golden.model_commands import Commands
from tests.golden.model_log import Ev
from tests.golden.model_steps import Steps
from tests.golden.model_tools import Tools


class Model:
    """Our own right values, worked out from the events alone; each part only when asked for."""

    def __init__(self, raws: list[dict[str, Any]], version: int = 0) -> None:
        self.version = version
        self.events: list[Ev] = [model_log.read(raw) for raw in raws]
        self.at: dict[int, Ev] = {ev.seq: ev for ev in self.events}

    @cached_property
    def kinds(self) -> dict[int, str]:
        return model_inputs.kinds(self.events)

    @cached_property
    def steps(self) -> Steps:
        return Steps(self.events)

    @cached_property
    def tools(self) -> Tools:
        return Tools(self.events)

    @cached_property
    def commands(self) -> Commands:
        return Commands(self.events)

    def producer(self, seq: int) -> str | None:
        ev = self.at[seq]
        told = ev.data if ev.type == "user/message" else model_log.message(ev)
        return model_inputs.label(told.get("source"))
