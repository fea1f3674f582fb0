"""The OpenAPI document, made from the table of routes and the types of their bodies."""

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import msgspec

from firesteel.rest.call import Query, Route
from firesteel.rest.schema.cluster import ErrorAnswer
from firesteel.rest.schema.jobs import JobSubmitRequestBody

_ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_NUMBER = {"type": "integer", "minimum": 0}
_PATH_SHAPES = {"jobid": _ID, "vertexid": _ID, "triggerid": _ID, "subtaskindex": _NUMBER, "attempt": _NUMBER}
_REFERENCE = "#/components/schemas/{name}"
_BROWSER_ERRORS = (400, 401, 403, 404, 500, 503)


def openapi_document(routes: Iterable[Route]) -> dict[str, Any]:
    """OpenAPI 3.1, as builtins."""
    table = list(routes)
    bodies = [route.body for route in table if route.body is not None]
    answers = [route.answer for route in table if route.answer is not None]
    types = [ErrorAnswer, JobSubmitRequestBody, *bodies, *answers]
    shapes, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    shape_of = {str(kind): shape for kind, shape in zip(types, shapes, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        paths.setdefault(f"/v1{route.path}", {})[route.method.lower()] = _operation(route, shape_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "firesteel REST API", "version": f"v1/{version('firesteel')}"},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: Route, shape_of: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', route.path)}",
        "summary": route.summary,
        "description": f"Takes the role {route.role.value}.",
        "parameters": [*map(_path_parameter, re.findall(r"{(\w+)}", route.path)), *map(_query_parameter, route.query)],
        "responses": {str(route.status): _answer(route, shape_of)},
    }
    error = {"description": "What is wrong.", "content": _json(shape_of[str(ErrorAnswer)])}
    for status in sorted({*_BROWSER_ERRORS, *route.errors}):
        operation["responses"][str(status)] = error
    if route.body is not None:
        operation["requestBody"] = {"content": _json(shape_of[str(route.body)])}
    if route.takes_upload:
        operation["requestBody"] = {"required": True, "content": {"multipart/form-data": _upload(shape_of)}}
    return operation


def _answer(route: Route, shape_of: dict[str, Any]) -> dict[str, Any]:
    if route.answer is None:
        content = (
            {"text/event-stream": {}}
            if route.path.endswith("/events")
            else {"text/plain": {"schema": {"type": "string"}}}
        )
        return {"description": "Text.", "content": content}
    return {"description": route.summary, "content": _json(shape_of[str(route.answer)])}


def _upload(shape_of: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": {
            "type": "object",
            "properties": {
                "request": shape_of[str(JobSubmitRequestBody)],
                "file_0": {"type": "string", "format": "binary", "description": "The job graph; then the artifacts."},
            },
            "required": ["request", "file_0"],
        },
        "encoding": {"request": {"contentType": "application/json"}},
    }


def _json(shape: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": shape}}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _PATH_SHAPES.get(name, {"type": "string"})}


def _query_parameter(query: Query) -> dict[str, Any]:
    return {
        "name": query.name,
        "in": "query",
        "required": False,
        "description": query.description,
        "schema": dict(query.shape),
    }
