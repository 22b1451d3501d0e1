"""HTTP API of a node: metrics, health, page, JSON, load, lifecycle."""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Final

import msgspec

from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.negotiation import Rendering, accepts_gzip
from rightsizer.io.codec import JsonObject
from rightsizer.io.yaml import load_beside
from rightsizer.model.values import (
    DEFAULT_SPAN,
    SPANS,
    Advice,
    AdviceState,
    ConfigurationError,
    DeviceReport,
    Evidence,
    Nanoseconds,
    Reason,
    Report,
    ServedLoads,
    Signal,
    Span,
    UsageError,
    WholeAccounts,
    format_duration,
    seconds,
    span_named,
)
from rightsizer.report.advice_document import advice_document
from rightsizer.report.explanation import Explanation
from rightsizer.report.freshness import FreshnessSettings, fresh_devices, is_fresh
from rightsizer.report.node_document import ReportDocument, ServingDocument, report_document
from rightsizer.web.evidence_cache import EvidenceCache
from rightsizer.web.message import Answer, WebRequest, WebResponse
from rightsizer.web.page import WebPage, content_security_policy
from rightsizer.web.page_query import PageQuery, is_unknown, zoom_of
from rightsizer.web.router import METRICS_PATH, Route

_DIGITS: Final = 4


def load_response(
    report: Report | None,
    now: Nanoseconds,
    freshness: FreshnessSettings,
    *,
    namespace: str,
    workload: str,
) -> WebResponse:
    """Return the load of a workload, or why it is unknown: 404 if absent, 503 without readings."""
    devices = [
        device
        for device in (() if report is None else report.devices)
        if (namespace, workload)
        in [(holding.workload.namespace, holding.workload.name) for holding in device.holdings]
    ]
    if report is None or not devices:
        where = f"{namespace}/{workload}" if namespace else workload
        text = f"no GPU of this node is held by '{where}'; see the workloads of api/v1/report"
        return WebResponse.of_text(text, HTTPStatus.NOT_FOUND)
    read = [device for device in devices if is_fresh(device, report, now, freshness)]
    if len(read) < len(devices):
        text = f"{len(devices) - len(read)} of {len(devices)} GPUs give no fresh reading"
        return WebResponse.of_text(text, HTTPStatus.SERVICE_UNAVAILABLE)
    return WebResponse.of_json(
        {
            "namespace": namespace,
            "workload": workload,
            "time": seconds(report.wall_time),
            "devices": len(devices),
            "gpu_busy_ratio": _total(read, (Signal.GPU_BUSY,)),
            "sm_work_ratio": _total(read, (Signal.SM_WORK, Signal.GPU_BUSY)),
            "kv_cache_used_ratio": _largest(read, Signal.KV_CACHE_USED),
            "requests_waiting": _largest(read, Signal.REQUESTS_WAITING),
        }
    )


def _total(devices: Sequence[DeviceReport], signals: Sequence[Signal]) -> float | None:
    """Sum in GPUs over each device's first available signal; `None` if a device has none."""
    values = [
        next((device.signals[signal] for signal in signals if signal in device.signals), None)
        for device in devices
    ]
    known_values = [value for value in values if value is not None]
    return round(sum(known_values), _DIGITS) if len(known_values) == len(values) else None


def _largest(devices: Iterable[DeviceReport], signal: Signal) -> float | None:
    """Return the maximum: an engine on several GPUs reports the same value for each."""
    values = [device.signals[signal] for device in devices if signal in device.signals]
    return round(max(values), _DIGITS) if values else None


def unready_reason(
    report: Report | None, now: Nanoseconds, freshness: FreshnessSettings
) -> str | None:
    """Return why no device has a fresh sample, or `None` if one has."""
    if report is None:
        return "not ready: no sample has been taken yet"
    if not report.devices:
        return f"not ready: {report.agent.trouble or 'there are no GPUs'}"
    if fresh_devices(report, now, freshness):
        return None
    down = [
        (device.device.title, device.down) for device in report.devices if device.down is not None
    ]
    if len(down) == len(report.devices):
        title, why = down[0]
        return f"not ready: no GPU answers; {title}: {why.detail}"
    times = [device.last_sample for device in report.devices if device.last_sample is not None]
    if not times:
        return "not ready: no GPU has been read yet"
    return f"not ready: the last sample is {format_duration(seconds(now - max(times)))} old"


_OPEN: Final = "open"
_STATES: Final = (_OPEN, *map(str, AdviceState))
_REASONS: Final = tuple(map(str, Reason))


def filter_advice(advice: Sequence[Advice], query: Mapping[str, Sequence[str]]) -> list[Advice]:
    """Return the advice that passes all filters; values of one filter are alternatives.

    `state` may be `open` for all open states; `workload` and `gpu` are shell patterns.

    Raises:
        UsageError: there is no such filter, or no such state or reason.
    """
    for name, values in query.items():
        if name not in _FILTERS:
            raise UsageError(f"'{name}' is no filter; choose from {', '.join(_FILTERS)}")
        choices = {"state": _STATES, "reason": _REASONS}.get(name, values)
        for value in values:
            if value not in choices:
                raise UsageError(f"{name}: there is no '{value}'; choose from {', '.join(choices)}")
    return [
        recommendation
        for recommendation in advice
        if all(
            any(_FILTERS[name](recommendation, value) for value in values)
            for name, values in query.items()
        )
    ]


_FILTERS: Final[Mapping[str, Callable[[Advice, str], bool]]] = {
    "state": lambda advice, value: advice.is_open if value == _OPEN else advice.state == value,
    "reason": lambda advice, value: value in advice.finding.reasons,
    "workload": lambda advice, value: fnmatchcase(advice.finding.workload or "", value),
    "gpu": lambda advice, value: any(fnmatchcase(uuid, value) for uuid in advice.finding.devices),
}


def span_of_query(query: Mapping[str, Sequence[str]], parameters: Collection[str]) -> Span:
    """Return the span of a query, by default a day.

    Raises:
        UsageError: it has a name that is not `known`, or asks for an unknown span.
    """
    for name in query:
        if name not in parameters:
            raise UsageError(f"'{name}' is nothing to ask for; choose from {', '.join(parameters)}")
    asked = query.get("span", [DEFAULT_SPAN.name])[-1]
    if (span := span_named(asked)) is None:
        names = ", ".join(choice.name for choice in SPANS)
        raise UsageError(f"span: there is no '{asked}'; choose from {names}")
    return span


_TYPED: Final = (ReportDocument, ServingDocument, Explanation, Evidence)


@functools.cache
def openapi_document() -> JsonObject:
    """Return the OpenAPI document: schemas of typed answers, with the rest as it is written."""
    document: JsonObject = load_beside(__file__, "openapi.yaml")
    schemas = document["components"]["schemas"]
    _, typed = msgspec.json.schema_components(_TYPED, ref_template="#/components/schemas/{name}")
    for schema in typed.values():
        if "properties" in schema:
            schema |= {"required": [*schema["properties"]], "additionalProperties": False}
    for name, texts in document.pop("descriptions").items():
        for key, text in texts.items():
            typed[name]["properties"][key]["description"] = text
    for schema in schemas.values():
        if (base := schema.pop("extends", None)) is not None:
            schema["properties"] = typed[base]["properties"] | schema["properties"]
            schema["required"] = [*schema["properties"]]
    schemas |= typed
    return document


class NodeApi:
    """Metrics, readiness, page and JSON of a node; nothing here calls the driver."""

    def __init__(  # noqa: PLR0913 - the outside world is injected.
        self,
        latest: Callable[[], Report | None],
        exposition: MetricsExposition,
        page: WebPage,
        wall_time: Callable[[], Nanoseconds],
        *,
        may_change: Callable[[WebRequest], bool] = lambda _: False,
        accounts: WholeAccounts = lambda _: (),
    ) -> None:
        """Answer from the latest report; `may_change` says whose page has buttons.

        `accounts` are what advice rests on.
        """
        self._latest = latest
        self._exposition = exposition
        self._page = page
        self._wall_time = wall_time
        self._may_change = may_change
        self._evidence = EvidenceCache(accounts)

    def routes(self, telemetry_path: str = METRICS_PATH) -> tuple[Route, ...]:
        """Return the routes, with the metrics at an operator's path; HEAD works like GET."""
        answers: dict[str, Answer] = {
            "/": self._html,
            telemetry_path: self._metrics,
            "/metrics/dcgm": self._dcgm_metrics,
            "/-/ready": self._ready,
            "/api/v1/openapi.json": lambda _: WebResponse.of_json(openapi_document()),
            "/api/v1/summary": self._summary,
            "/api/v1/strip": self._strip,
            "/api/v1/report": self._report,
            "/api/v1/load": self._load,
            "/api/v1/advice": self._advice,
        }
        return tuple(Route("GET", path, answer) for path, answer in answers.items())

    def _metrics(self, request: WebRequest) -> WebResponse:
        names, collect, exclude = (
            request.query.get(key, ()) for key in ("name[]", "collect[]", "exclude[]")
        )
        accepted = request.accept, request.accept_encoding
        return _rendered(self._exposition.render(*accepted, names, collect, exclude))

    def _dcgm_metrics(self, request: WebRequest) -> WebResponse:
        if (refusal := self._exposition.dcgm_refusal()) is not None:
            return WebResponse.of_text(refusal, HTTPStatus.NOT_FOUND)
        is_gzip = accepts_gzip(request.accept_encoding)
        return _rendered(self._exposition.render_dcgm(is_gzip=is_gzip))

    def _ready(self, _: WebRequest) -> WebResponse:
        reason = unready_reason(self._latest(), self._wall_time(), self._page.freshness)
        if reason is None:
            return WebResponse.of_text("ready")
        return WebResponse.of_text(reason, HTTPStatus.SERVICE_UNAVAILABLE)

    def _html(self, request: WebRequest) -> WebResponse:
        report = self._latest()
        now = self._wall_time()
        page_query = PageQuery(
            # Other parameters of a link are ignored.
            span_of_query({"span": request.query.get("span", [DEFAULT_SPAN.name])}, ("span",)),
            is_paused=request.query.get("refresh") == ["off"],
            gpu=request.query.get("gpu", [""])[0],
            workload=request.query.get("workload", [""])[0],
            zoom=zoom_of(request.query, report.wall_time if report else now),
            may_act=self._may_change(request),
        )
        body = self._page.render(report, now, page_query)
        headers = {"Content-Security-Policy": content_security_policy()}
        is_missing = report is not None and is_unknown(report, page_query)
        status = HTTPStatus.NOT_FOUND if is_missing else HTTPStatus.OK
        return WebResponse(body, "text/html; charset=utf-8", status, headers)

    def _summary(self, request: WebRequest) -> WebResponse:
        # Imported on use, as for the page: an agent without readers never loads its views.
        from rightsizer.web.summary import summary_document  # noqa: PLC0415

        span = span_of_query(request.query, ("span",))
        if (report := self._latest()) is None:
            return WebResponse.of_json(None)
        now = self._wall_time()
        past = self._page.past_of(span)
        return WebResponse.of_json(summary_document(report, now, self._page.freshness, span, past))

    def _strip(self, request: WebRequest) -> WebResponse:
        from rightsizer.web.summary import strip_document  # noqa: PLC0415 - as said above.

        span = span_of_query(request.query, ("span", "gpu"))
        report = self._latest()
        if report is None:
            return WebResponse.of_json(None)
        patterns = request.query.get("gpu", ["*"])
        uuids = [
            device.device.uuid
            for device in report.devices
            if not device.device.has_mig_instances
            and any(fnmatchcase(device.device.uuid, pattern) for pattern in patterns)
        ]
        return WebResponse.of_json(strip_document(report, span, self._page.past_of(span), uuids))

    def _load(self, request: WebRequest) -> WebResponse:
        named = {key: request.query.get(key, [""])[0] for key in ("namespace", "workload")}
        return load_response(self._latest(), self._wall_time(), self._page.freshness, **named)

    def _report(self, _: WebRequest) -> WebResponse:
        report = self._latest()
        return WebResponse.of_json(None if report is None else report_document(report))

    def _advice(self, request: WebRequest) -> WebResponse:
        report = self._latest()
        advice = filter_advice(report.advice if report is not None else (), request.query)
        trouble = report.agent.trouble if report is not None and not report.devices else None
        evidence = self._evidence(report, self._wall_time())
        return WebResponse.of_json(
            {
                "advice": [*map(advice_document, advice)],
                "trouble": trouble,
                "evidence": evidence,
            }
        )


def _rendered(rendering: Rendering) -> WebResponse:
    encoded = {"Content-Encoding": rendering.encoding} if rendering.encoding else {}
    return WebResponse(rendering.body, rendering.content_type, headers=encoded)


def serving_route(served: ServedLoads, wall_time: Callable[[], Nanoseconds]) -> Route:
    """Return `/api/v1/serving`: what the engines of the node serve."""

    def answer(request: WebRequest) -> WebResponse:
        span = span_of_query(request.query, ("span",))
        now = wall_time()
        return WebResponse.of_json(
            ServingDocument(seconds(now), span.name, tuple(served(now - span.length)))
        )

    return Route("GET", "/api/v1/serving", answer)


def lifecycle_routes(reload: Callable[[], None], *, is_enabled: bool) -> tuple[Route, ...]:
    """Return `/-/reload`: over TCP only if enabled, over the local socket always."""

    def answer(request: WebRequest) -> WebResponse:
        if request.peer is None and not is_enabled:
            return WebResponse.of_text(
                "the lifecycle API is not enabled over TCP; start the agent with "
                "--web.enable-lifecycle, use its local socket, or 'systemctl reload rightsizer'",
                HTTPStatus.FORBIDDEN,
            )
        if request.is_cross_site:
            return WebResponse.of_text("refused for another site's page", HTTPStatus.FORBIDDEN)
        try:
            reload()
        except ConfigurationError as error:
            return WebResponse.of_text(
                f"failed to reload; what was in force stays:\n{error}",
                HTTPStatus.INTERNAL_SERVER_ERROR,
            )
        return WebResponse.of_text("reloaded")

    return tuple(Route(method, "/-/reload", answer) for method in ("POST", "PUT"))
