"""How many examples a property test tries, and which Kafka a run was on.

`make test` runs `suite`, `make laws` says `--hypothesis-profile=laws`, and `quick` is for the
hand. A test that sets `max_examples` itself is deaf to all three.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.kafka_fixture import TAKEN, kafka, topic_prefix

__all__ = ["kafka", "topic_prefix"]

# Time is no verdict on a shared machine: no deadline, and slow data is not an error.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("suite", _COMMON, max_examples=300)
settings.register_profile("laws", _COMMON, max_examples=10_000)
settings.register_profile("quick", _COMMON, max_examples=25)
settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No worker of a test keeps its states among the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist hands its Kafka's name to the run's own process."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["kafka"] = session.config.stash.get(TAKEN, "")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if taken := getattr(node, "workeroutput", {}).get("kafka"):
        node.config.stash[TAKEN] = taken


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if taken := config.stash.get(TAKEN, ""):
        terminalreporter.write_line(f"Kafka of this run: {taken}")
