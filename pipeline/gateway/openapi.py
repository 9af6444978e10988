"""The OpenAPI document (3.1, whose schemas are JSON Schema): operations out of their structs, and
what is no operation by hand: streams, health, metrics, logging in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from .operations import JSON, Operation
from .protocol import MAX_SESSIONS, View

SSE = "text/event-stream"


def document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    answers = [kind for each in operations for kind in each.answers.values() if kind is not None]
    answers = list(dict.fromkeys(answers))
    template = "#/components/schemas/{name}"
    schemas, parts = msgspec.json.schema_components(answers, ref_template=template)
    by_kind = dict(zip(answers, schemas, strict=True))
    paths = {each.path: {"get": _described(each, by_kind)} for each in operations}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "foldstream",
            "version": version,
            "description": "Transcripts and surfaces of agent sessions: history and live.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {**paths, **_others()},
        "components": {
            "schemas": {**parts, "Problem": _PROBLEM},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "foldstream"},
            },
        },
        "security": [{"bearer": []}, {"cookie": []}, {}],
    }


_PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
_ERRORS = {
    "400": "A parameter cannot be used",
    "401": "A token is needed",
    "403": "Not for this principal, or from that page",
    "404": "There is no such thing, or not for this principal",
    "421": "This host is not served here",
    "503": "Not at the moment",
}


def _described(operation: Operation, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    content = {
        media: {"schema": {"type": "string"} if kind is None else schemas[kind]}
        for media, kind in operation.answers.items()
    }
    responses: dict[str, Any] = {"200": {"description": "What was asked for", "content": content}}
    if operation.history:
        responses["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        responses["304"] = {"description": "As the client has it"}
    responses |= _problems()
    return {
        "operationId": operation.name,
        "summary": operation.about,
        "parameters": _parameters(operation),
        "responses": responses,
    }


def _problems() -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": about, "content": problem} for status, about in _ERRORS.items()}


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    (found,), parts = msgspec.json.schema_components([operation.parameters])
    schema = parts[found["$ref"].rpartition("/")[2]]
    required = schema.get("required", [])
    described = []
    for name, kind in schema["properties"].items():
        place = "path" if name in operation.in_path else "query"
        shown = {key: value for key, value in kind.items() if key != "default" or value is not None}
        parameter = {
            "name": name,
            "in": place,
            "required": place == "path" or name in required,
            "schema": _queried(shown),
        }
        if about := shown.pop("description", None):
            parameter["description"] = about
        described.append(parameter)
    return described


def _queried(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter is there or not; it is never null."""
    some = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return {**some[0], **{k: v for k, v in schema.items() if k != "anyOf"}} if some else schema


# --- what is no operation -------------------------------------------------------------------------


def _others() -> dict[str, Any]:
    cursor = {
        "name": "cursor",
        "in": "query",
        "schema": {"type": "string"},
        "description": "where to go on: the last event's id; exclusive",
    }
    resumed = {**cursor, "name": "Last-Event-ID", "in": "header", "description": "as `cursor`"}
    sessions = {
        "name": "session",
        "in": "query",
        "required": True,
        "schema": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MAX_SESSIONS,
        },
    }
    view = {"name": "view", "in": "query", "schema": {"enum": list(get_args(View))}}
    frames = "Frames as Server-Sent Events, each with the cursor after it as its id"
    return {
        "/v1/stream": _other(
            "stream", "Sessions, live", frames, SSE, [sessions, view, cursor, resumed]
        ),
        "/v1/overview/stream": _other(
            "overview_stream",
            "How every session stands, at most once a second each",
            frames,
            SSE,
            [cursor, resumed],
        ),
        "/v1/ws": _socket(),
        "/readyz": _other("readyz", "Whether all there is is served (else 503)", "It is", JSON, []),
        "/metrics": _other("metrics", "Figures for Prometheus", "Figures", "text/plain", []),
        "/v1/login": _login(),
    }


def _other(name: str, about: str, told: str, media: str, parameters: list[Any]) -> dict[str, Any]:
    answered = {"200": {"description": told, "content": {media: {"schema": {}}}}}
    asked = {"operationId": name, "summary": about, "parameters": parameters}
    return {"get": {**asked, "responses": answered | _problems()}}


def _socket() -> dict[str, Any]:
    about = "The same frames over a WebSocket: subscribe and unsubscribe as one goes"
    upgraded = {"101": {"description": "The connection is a WebSocket"}}
    return {"get": {"operationId": "ws", "summary": about, "responses": upgraded | _problems()}}


def _login() -> dict[str, Any]:
    token = {"type": "object", "required": ["token"], "properties": {"token": {"type": "string"}}}
    return {
        "post": {
            "operationId": "login",
            "summary": "A token for the cookie that browsers send",
            "requestBody": {"required": True, "content": {JSON: {"schema": token}}},
            "responses": {"204": {"description": "The cookie is set"}} | _problems(),
        }
    }
