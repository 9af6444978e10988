"""Tests over the one real Apache Kafka of a run (``tests/kafka_fixture.py``).

They run on one worker, one after the other (``xdist_group``): the broker is started once, and tests
that measure a rebalance do not starve each other, while other workers run the rest of the suite.
Each test has topics and groups of its own (``topic_prefix``), so none sees another's records.
"""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kafka)
            item.add_marker(pytest.mark.xdist_group("kafka"))
