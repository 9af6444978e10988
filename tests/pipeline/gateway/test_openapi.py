"""The OpenAPI document tells the truth: whatever it allows is answered as it says, and what it does
not allow is refused with a problem document, never with a fault of the service."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pipeline.gateway import streams
from pipeline.gateway.app import OPERATIONS, application
from pipeline.gateway.live import Live
from pipeline.simulate import simulate
from tests.pipeline.gateway.asking import HERE, Client
from tests.pipeline.gateway.stage import Stage


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    stage = Stage(tmp_path_factory.mktemp("openapi"))
    stage.play([simulate(7, events=120)])
    return Client(stage)


CHECKS = (
    not_a_server_error,
    status_code_conformance,
    response_headers_conformance,
    response_schema_conformance,
)


@pytest.mark.parametrize("path", [operation.path for operation in OPERATIONS])
def test_the_document_tells_the_truth(client: Client, path: str) -> None:
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", client.app, headers={"Host": HERE})

    @settings(max_examples=15, suppress_health_check=list(HealthCheck), deadline=None)
    @given(case=schema[path]["GET"].as_strategy())
    def ask(case: Any) -> None:
        case.call_and_validate(headers={"Host": HERE}, checks=CHECKS)

    ask()


def test_every_operation_is_in_it(client: Client) -> None:
    paths = client.json("/v1/openapi.json")["paths"]
    assert set(paths) > {operation.path for operation in OPERATIONS}
    names = [each["operationId"] for path in paths.values() for each in path.values()]
    assert len(names) == len(set(names))


def test_every_route_is_in_it_and_it_names_no_other(client: Client) -> None:
    live = Live()
    routes = application(client.service, streams.routes(live, client.service)).routes
    served = {getattr(route, "path", "") for route in routes} - {"/v1/openapi.json"}
    assert set(client.json("/v1/openapi.json")["paths"]) == served


def test_the_document_is_valid(client: Client) -> None:
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", client.app, headers={"Host": HERE})
    schema.validate()
