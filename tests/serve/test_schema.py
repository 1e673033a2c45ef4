"""The description is complete, and what follows it or breaks it on purpose never breaks the server."""

import json
from collections import Counter

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from live_server import Live
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]

PATIENCE = 60.0
"""Seconds. Of one plan on a busy machine; nothing here is about speed."""


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(
    ("path", "method"), [("/v1/about", "GET"), ("/v1/embed", "POST"), ("/v1/plan", "GET"), ("/v1/verdict", "POST")]
)
@pytest.mark.parametrize("with_key", [True, False])
def test_random_requests_find_no_server_error(
    live: Live, alice: str, path: str, method: str, mode: GenerationMode, with_key: bool
) -> None:
    with live.client() as client:
        schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    headers = {"Authorization": f"Bearer {alice}"} if with_key else {}
    seen: Counter[int] = Counter()

    # A plan takes seconds to compute; positive examples of something without parameters are one and the same.
    examples = 15 if path == "/v1/plan" or not with_key else 60

    @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(schema[path][method].as_strategy(mode))
    def run(case: schemathesis.Case) -> None:
        response = case.call_and_validate(
            base_url=live.url, headers=headers, checks=CHECKS, session=session, timeout=PATIENCE
        )
        seen[response.status_code] += 1

    with requests.Session() as session:
        run()
    assert seen.total() > 0
    assert (401 in seen) != with_key or mode is GenerationMode.NEGATIVE


def test_the_description_is_complete(live: Live) -> None:
    with live.client() as client:
        text = client.get("/openapi.json").text
    described = json.loads(text)
    assert described["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    operations = {(path, method): o for path, entry in described["paths"].items() for method, o in entry.items()}
    assert set(operations) >= {("/v1/about", "get"), ("/v1/embed", "post")}
    for operation in operations.values():
        assert operation["security"]
        for status, response in operation["responses"].items():
            name = response["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            assert (name == "Error") == (status != "200")
    assert set(operations["/v1/embed", "post"]["responses"]) >= {"200", "400", "401", "403", "413", "415", "422", "429"}
    form = operations["/v1/embed", "post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert form["properties"]["images"]["maxItems"] == 64
