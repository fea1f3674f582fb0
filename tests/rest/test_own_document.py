"""Our own OpenAPI document: complete, and true of what is answered to whatever it allows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import requests
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from firesteel.rest.routes import ROUTES
from firesteel.testing.backend import TaskScript
from tests.client.conftest import Served
from tests.rest.cluster import graph

EXAMPLES = 6
"""Requests tried of each operation."""

KNOWN = graph("lines*2 => counts", "known")
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]


@pytest.fixture
def served(tmp_path: Path, script: TaskScript) -> Iterator[Served]:
    made = Served(tmp_path, script)
    yield made
    made.end()


def test_every_route_is_in_the_document(served: Served) -> None:
    document = requests.get(f"http://{served.address}/openapi.json", timeout=300).json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.method, f"/v1{route.path}") for route in ROUTES}
    page = requests.get(f"http://{served.address}/docs", timeout=300)
    assert page.headers["content-type"].startswith("text/html")
    assert all(f"<code>{route.path}</code>" in page.text for route in ROUTES)
    assert "http://" not in page.text, "a page that loads nothing from elsewhere"
    assert "https://" not in page.text, "a page that loads nothing from elsewhere"


def test_answers_are_what_the_document_says(served: Served) -> None:
    """Of a job that has run, and of none; for what the document allows, and for what it does not."""
    served.do(served.rest.submit(KNOWN))
    served.do(served.rest.finish(KNOWN.job_id))
    (worker,) = served.call(lambda: tuple(served.rest.cluster.workers))
    known = {
        "jobid": KNOWN.job_id,
        "vertexid": KNOWN.vertices[0].id,
        "taskmanagerid": worker,
        "subtaskindex": 1,
        "attempt": 0,
    }
    schema = schemathesis.openapi.from_url(f"http://{served.address}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    assert len(operations) == len(ROUTES)
    for operation in operations:
        if operation.path == "/v1/events":
            continue  # it has no end: tests/rest/test_events.py
        try_it(operation, known, f"http://{served.address}")


def try_it(operation: Any, known: dict[str, Any], address: str) -> None:
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))

    @hypothesis.settings(max_examples=EXAMPLES, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(case=cases, is_known=st.booleans())
    def one(case: Any, is_known: bool) -> None:
        if is_known:
            names = set(case.path_parameters or {})
            case.path_parameters = {
                **(case.path_parameters or {}),
                **{name: known[name] for name in names & set(known)},
            }
        response = case.call(base_url=address, timeout=300)
        case.validate_response(response, checks=CHECKS)

    one()
