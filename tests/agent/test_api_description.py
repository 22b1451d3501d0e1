"""The API's description against the routes and against real responses, in both directions."""

import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

import pytest
from msgspec.structs import replace

from api_schema import UNDERSTOOD, all_schemas, faults, json_schema_of, resolved
from fake_ledger import OPEN, FakeLedger
from node_api import node_api
from publish_reports import full_report, node_report
from readings import EPOCH
from rightsizer.actions.encoder import ActionState
from rightsizer.actions.feature import actions_route
from rightsizer.advice.policy import RuleTree
from rightsizer.agent.local_api import ControlRoutes, ForgetRoute, report_route
from rightsizer.agent.settings import Settings
from rightsizer.broker.feature import closed_routes, place_route
from rightsizer.fleet.api import FleetApi
from rightsizer.io.clock import FastClock
from rightsizer.io.yaml import load_beside
from rightsizer.model.report import Report
from rightsizer.profiler.capture.feature import CaptureState, captures_route
from rightsizer.profiler.service import profiles_route
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.telemetry.source import ReleaseController
from rightsizer.web import api as web_api
from rightsizer.web.advice_api import AdviceApi
from rightsizer.web.api import lifecycle_routes, openapi_document, serving_route
from rightsizer.web.message import SocketPeer, WebRequest, WebResponse
from rightsizer.web.plan_route import plan_route
from rightsizer.web.router import Route, Router, health_route
from rightsizer.web.settings import WebSettings
from sample_devices import NOW

METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options", "trace")


def router_of(report: Report | None) -> Router:
    """A router with all the routes of an agent."""
    clock = FastClock(EPOCH)
    routes = (
        health_route(lambda: None),
        *node_api(report).routes(),
        *AdviceApi(FakeLedger(), RuleTree()).routes,
        *ControlRoutes(ReleaseController(clock), clock, lambda _: None).routes,
        ForgetRoute(lambda: report, lambda _: None, lambda _: True, 1.0).route,
        *lifecycle_routes(lambda: None, is_enabled=True),
        profiles_route(tuple),
        captures_route(CaptureState),
        actions_route(ActionState),
        place_route(Settings, lambda: report, FreshnessSettings(), clock),
        report_route(Settings),
        serving_route(lambda _: (), lambda: NOW),
        plan_route(None, WebSettings()),
        *closed_routes(),
        *fleet_routes(),
    )
    return Router(routes)


def fleet_routes() -> list[Route]:
    """The routes of a fleet service that an agent lacks."""
    whole = FleetApi(lambda: None, lambda: None, 3600.0, lambda: NOW).routes
    known = {route.path for route in node_api().routes()}
    return [route for route in whole if route.path not in known]


def answered(report: Report | None, path: str, **query: list[str]) -> WebResponse:
    """The response to a GET."""
    return router_of(report).answer(WebRequest("GET", path, query))


def test_every_route_is_described_and_nothing_else() -> None:
    """The description and the routes match in both directions."""
    described = {
        (method.upper(), path)
        for path, item in openapi_document()["paths"].items()
        for method in item
        if method in METHODS
    }
    assert described == {(route.method, route.path) for route in router_of(None).routes}


def test_local_routes_are_marked_as_local() -> None:
    """Readers of the description see which routes TCP does not offer."""
    paths = openapi_document()["paths"]
    local = {
        (method.upper(), path)
        for path, item in paths.items()
        for method in item
        if method in METHODS and "local" in item[method]["tags"]
    }
    assert local == {
        (route.method, route.path)
        for route in router_of(None).routes
        if route.is_local or route.path == "/-/reload"
    }


def test_the_document_holds_together() -> None:
    """References resolve, ids are unique, and all schema keywords are checked."""
    document = openapi_document()
    assert document["openapi"].startswith("3.1")
    operations = [
        item[method] for item in document["paths"].values() for method in item if method in METHODS
    ]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))
    for operation in operations:
        for response in operation["responses"].values():
            assert resolved(response)["description"]
    found = list(all_schemas())
    assert len(found) > 300
    for schema in found:
        assert set(schema) <= UNDERSTOOD, schema
        assert resolved(schema) or schema == {}, "a value may be of any kind, a reference may not"


def test_examples_are_as_their_schemas_say() -> None:
    """A copied example is valid."""

    def examples(part: Any) -> Iterator[Mapping[str, Any]]:
        if isinstance(part, dict):
            if "example" in part and "schema" in part:
                yield part
            for each in part.values():
                yield from examples(each)
        elif isinstance(part, list):
            for each in part:
                yield from examples(each)

    found = list(examples(openapi_document()))
    assert len(found) >= 6
    assert [list(faults(each["example"], each["schema"])) for each in found] == [[]] * len(found)


@pytest.mark.parametrize(
    "report",
    [None, node_report(), full_report(), replace(node_report(), devices=(), advice=())],
    ids=["before-the-first", "node", "full", "empty"],
)
@pytest.mark.parametrize("name", ["summary", "strip", "report", "advice"])
def test_answers_are_as_described(name: str, report: Report | None) -> None:
    """Strictly: no key is missing, and none is undocumented."""
    path = f"/api/v1/{name}"
    answer = answered(report, path)
    assert answer.status == HTTPStatus.OK
    value = json.loads(answer.body)
    assert list(faults(value, json_schema_of("GET", path))) == []


def test_an_explanation_is_as_described() -> None:
    """One item with its reasoning."""
    answer = answered(None, f"/api/v1/advice/{OPEN.id}")
    schema = json_schema_of("GET", "/api/v1/advice/{id}")
    assert list(faults(json.loads(answer.body), schema)) == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/advice/{id}/claim", {"why": "mine"}),
        ("POST", "/api/v1/advice/{id}/dismiss", {}),
        ("POST", "/api/v1/advice/{id}/snooze", {"for": "2h"}),
        ("POST", "/api/v1/release", {"held": "gpus", "for": "30m"}),
        ("POST", "/api/v1/resume", {}),
        ("GET", "/api/v1/releases", {}),
    ],
)
def test_changing_routes_answer_as_described(method: str, path: str, body: dict[str, str]) -> None:
    """Over the local socket."""
    asked = path.replace("{id}", OPEN.id)
    peer = SocketPeer(pid=1, uid=0, gid=0)
    request = WebRequest(method, asked, body=json.dumps(body).encode(), peer=peer)
    answer = router_of(None).answer(request)
    assert answer.status == HTTPStatus.OK
    assert list(faults(json.loads(answer.body), json_schema_of(method, path))) == []


@pytest.mark.parametrize("report", [node_report(), full_report()], ids=["node", "full"])
@pytest.mark.parametrize("gpus", ["1", "2", "64"])
def test_places_are_as_described(gpus: str, report: Report) -> None:
    """Whether the request is met or not."""
    answer = answered(report, "/api/v1/place", gpus=[gpus])
    assert answer.status == HTTPStatus.OK
    assert list(faults(json.loads(answer.body), json_schema_of("GET", "/api/v1/place"))) == []


@pytest.mark.parametrize("name", ["summary", "strip"])
def test_a_span_that_there_is_not_is_refused_by_name(name: str) -> None:
    """The response lists the valid ones."""
    answer = answered(node_report(), f"/api/v1/{name}", span=["2h"])
    assert answer.status == HTTPStatus.BAD_REQUEST
    assert answer.body.decode() == "span: there is no '2h'; choose from 1h, 6h, 24h, 7d, 30d\n"
    other = answered(node_report(), f"/api/v1/{name}", spam=["1h"])
    assert other.status == HTTPStatus.BAD_REQUEST
    assert b"'spam' is nothing to ask for" in other.body


def test_strips_are_of_the_devices_asked_for() -> None:
    """By patterns of their uuids; a partitioned GPU has no strip of its own."""
    report = node_report()
    wanted = report.devices[3].device.uuid
    alone = json.loads(answered(report, "/api/v1/strip", gpu=[f"{wanted[:-2]}*"]).body)
    assert wanted in {device["uuid"] for device in alone["devices"]}
    everything = json.loads(answered(report, "/api/v1/strip").body)["devices"]
    divided = {device.device.uuid for device in report.devices if device.device.has_mig_instances}
    assert len(everything) == len(report.devices) - 1
    assert not divided & {device["uuid"] for device in everything}
    cells = next(device["cells"] for device in everything if device["uuid"] == wanted)
    assert sum(sum(cell["state_seconds"].values()) for cell in cells) == 86400.0


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({}, {"type": "object", "required": ["a"]}),
        ({"a": 1}, {"type": "object", "additionalProperties": False}),
        ({"a": "x"}, {"additionalProperties": {"type": "number"}}),
        ([1, "x"], {"type": "array", "items": {"type": "integer"}}),
        (True, {"type": "number"}),
        (float("nan"), {"type": "number"}),
        (1.5, {"type": "integer"}),
        ("x", {"enum": ["y"]}),
        (2, {"type": "number", "maximum": 1}),
        (None, {"$ref": "#/components/schemas/State"}),
        (1, {"oneOf": [{"type": "string"}, {"type": "null"}]}),
    ],
)
def test_mismatch_with_the_description_is_found(value: Any, schema: Mapping[str, Any]) -> None:
    """The checker itself works."""
    assert list(faults(value, schema))


def test_no_type_takes_the_name_of_a_written_schema() -> None:
    """A type and a written schema of one name would describe two things by one."""
    written = load_beside(web_api.__file__, "openapi.yaml")["components"]["schemas"]
    described = openapi_document()["components"]["schemas"]

    taken = [
        name for name, schema in written.items() if schema.keys() - {"extends", *described[name]}
    ]
    assert taken == []
