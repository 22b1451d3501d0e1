"""HTTP endpoint of a store: requests, retries, limits and errors."""

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from rightsizer.fleet.prometheus.response_parser import BrokenAnswerError, plain
from rightsizer.fleet.settings import StoreSettings
from rightsizer.fleet.source import StoreUse, StoreUseCounter
from rightsizer.io.http import HttpClient
from rightsizer.io.http_proxy import proxy_for
from rightsizer.io.http_result import Excess, Failure, FailureKind, Response
from rightsizer.io.http_settings import HttpSettings, checked_url
from rightsizer.model.values import StoreError


class LimitKind(StrEnum):
    """How to respond to a limit."""

    SPAN = "span"
    """A shorter time range may be allowed."""
    TEXT = "text"
    """The query itself is too long: only fewer devices help."""
    TIME = "time"
    """Timeout: a shorter time range may be faster, unless the store hangs."""
    BUSY = "busy"
    """Other load: repeat the same query later."""
    CROWDED = "crowded"
    """Its queue is full of parts of queries: a shorter time range, later."""
    DIALECT = "dialect"
    """It refuses further parameters, or selectors by several names."""


class StoreLimit(Struct, frozen=True):
    """Refusal of a query that exceeds a store's limit."""

    kind: LimitKind
    text: str
    """In its own words, without the query that some prepend."""


_TEXTS: Final = {
    # Google: 'Unknown name "dedup": Cannot bind query parameter', '=~ is an unsupported matchtype
    # for the __name__ label'; Elasticsearch: 'contains unrecognized parameters: [dedup], ...'.
    r"unknown name .{1,60}cannot bind query parameter|unrecognized parameter": LimitKind.DIALECT,
    r"unsupported matchtype for the __name__|__name__ matcher": LimitKind.DIALECT,
    # VictoriaMetrics: 16 KiB by default. Mimir has the same for the expression.
    r"too long query; got \d+ bytes": LimitKind.TEXT,
    r"maxQueryLen|err-mimir-max-query-expression-size-bytes": LimitKind.TEXT,
    # Busy before slow: Prometheus calls both "timed out".
    r"query timed out in query queue": LimitKind.BUSY,
    r"maxQueueDuration|cannot handle more than \d+ concurrent": LimitKind.BUSY,
    r"too many outstanding requests": LimitKind.CROWDED,
    r"err-mimir-tenant-max-request-rate": LimitKind.BUSY,
    # Mimir: a component is overloaded, or unavailable during a rollout.
    r"err-mimir-query-limited|too busy to process queries": LimitKind.BUSY,
    r"too many unhealthy instances in the ring": LimitKind.BUSY,
    r"err-mimir-store-consistency-check-failed": LimitKind.BUSY,
    # The compactor writes it every 15 minutes.
    r"err-mimir-bucket-index-too-old|bucket index is too old": LimitKind.BUSY,
    # Google: load of all queries, and of this one (GoogleCloudPlatform/prometheus-engine#767).
    r"queries whose evaluation is blocked waiting for memory": LimitKind.BUSY,
    r"refusing to grant further memory for this query|maximum response size": LimitKind.SPAN,
    r"maxQueryDuration|timeout exceeded": LimitKind.TIME,
    r"query timed out|query was canceled|context deadline exceeded": LimitKind.TIME,
    r"upstream request timeout|statement timeout": LimitKind.TIME,
    # Prometheus.
    r"query processing would load too many samples into memory": LimitKind.SPAN,
    r"exceeded maximum resolution of [\d,]+ points per timeseries": LimitKind.SPAN,
    # Remote read, and the store gateways of Thanos and older Cortex.
    r"exceeded (sample|series|chunks?|bytes) limit|limit \d+ (violated|exceeded)": LimitKind.SPAN,
    r"code = ResourceExhausted|received message larger than max": LimitKind.SPAN,
    r"allocate chunk bytes: pool exhausted": LimitKind.SPAN,
    # Mimir and Cortex.
    r"the query (exceeded|hit) the (max|aggregated)": LimitKind.SPAN,
    r"time range exceeds|err-mimir-max-": LimitKind.SPAN,
    # M3: of series, documents and the range.
    r"query exceeded limit: ": LimitKind.SPAN,
    # VictoriaMetrics.
    r"cannot (select|process|fetch) more than": LimitKind.SPAN,
    r"the number of matching (unique )?time ?series exceeds|-search\.max\w+": LimitKind.SPAN,
    r"too many points for the given step|not enough memory for processing": LimitKind.SPAN,
}
_WAITED: Final = frozenset({LimitKind.BUSY, LimitKind.CROWDED})
_PATTERNS: Final = tuple((re.compile(text, re.IGNORECASE), kind) for text, kind in _TEXTS.items())
_SHOWN: Final = 240

_STATUSES: Final = {
    413: LimitKind.SPAN,
    414: LimitKind.TEXT,
    429: LimitKind.BUSY,
    502: LimitKind.BUSY,
    503: LimitKind.BUSY,
    504: LimitKind.TIME,
}
"""If the text is unknown: statuses of a proxy in between."""


def recognized(status: int | None, text: str) -> StoreLimit | None:
    """Return the limit that a refusal is about, `None` if it is about something else."""
    for pattern, kind in _PATTERNS:
        if match := pattern.search(text):
            return StoreLimit(kind, text[match.start() :][:_SHOWN])
    by_status = _STATUSES.get(status or 0)
    return None if by_status is None else StoreLimit(by_status, text[:_SHOWN])


_LONGEST_SECONDS: Final = 30.0
"""Longest wait between two tries, so that a recovered store is found soon."""
_DOUBLINGS: Final = 10
_PATIENCE: Final = 1.25
"""The store times out slightly before its client, so that it reports why."""
_NO_FORMS: Final = frozenset({405, 406, 415})
"""Statuses of a store, or a proxy, that takes queries in the address alone."""
_EXPLAINED: Final = frozenset({400, 422, 500, 503})
"""Statuses with which stores explain an error in JSON."""
_TENANT: Final = ("X-Scope-OrgID", "THANOS-TENANT")
"""Headers of Mimir and Cortex, and of Thanos, which has a default tenant."""
_WHOLE: Final = {"M3-Limit-Require-Exhaustive": "true"}
"""M3 cuts what exceeds a limit without a word in the answer otherwise."""
_CHECKS: Final = {
    FailureKind.AWAY: "check fleet.store.url and whether it runs",
    FailureKind.UNTRUSTED: "check fleet.store.ca_file, certificate_file and key_file",
    FailureKind.CREDENTIAL: "check fleet.store.token_file, password_file and tenant",
    FailureKind.INTERRUPTED: "see its log, and that of any proxy before it",
}
_SIGN_IN: Final = "or, where that is a page to sign in, give fleet.store.token_file"
_REMEDIES: Final = {
    **dict.fromkeys((301, 302, 303, 307, 308), _SIGN_IN),
    401: "check fleet.store.token_file, username, password_file and tenant",
    403: "check what fleet.store.token_file, username and tenant are allowed",
    404: "check the path of fleet.store.url: /prometheus for Mimir, /api/prom for Grafana Cloud, "
    "/select/0/prometheus for a cluster of VictoriaMetrics, "
    "/v1/projects/PROJECT/location/global/prometheus for Google, none for most others",
    429: "lower fleet.store.concurrency, or raise the store's limit on queries",
}
_REMEDIES_BY_TEXT: Final = {
    r"unsupported path requested": _REMEDIES[404],
    r"plain http request was sent to https": "write https for http in fleet.store.url",
    r"parse error|cannot parse": "check fleet.pool_labels, team_labels and cluster_label: names of "
    "Prometheus have no dots or slashes, as label_app_kubernetes_io_team",
    r"missing authentication token|security token|request signature": "Amazon's store wants signed "
    "requests: let fleet.store.url be a proxy that signs them, as aws-sigv4-proxy",
}
Answer = TypeVar("Answer")
WaitingCallback: TypeAlias = "Callable[[float, float], object]"
"""Receives how many seconds a store was waited for, and the maximum."""


class Endpoint:
    """API below `/api/v1` of one store; thread-safe.

    Raises:
        ValueError: the address or the credentials are invalid.
    """

    def __init__(
        self,
        settings: StoreSettings,
        sleep: Callable[[float], object],
        jitter: Callable[[], float],
        *,
        waiting: WaitingCallback,
        has_answered: bool,
    ) -> None:
        if settings.token_file and settings.username:
            raise ValueError(
                "fleet.store.token_file and fleet.store.username are both set, and only one can be "
                "sent; write one of them"
            )
        if settings.key_file and not settings.certificate_file:
            raise ValueError(
                "fleet.store.key_file is set without a certificate; write "
                "fleet.store.certificate_file"
            )
        try:
            checked_url(settings.url)
        except ValueError as error:
            hint = " of fleet.store.token_file, or fleet.store.username and password_file"
            hint = hint if "password" in str(error) else ""
            raise ValueError(f"fleet.store.url: {error}{hint}") from None
        self._settings = settings
        self._sleep = sleep
        self._jitter = jitter
        self._waiting = waiting
        self.has_answered = has_answered
        """Whether any query was answered."""
        self.has_exact_names = False
        """Whether it refused further parameters, or a selector by several names."""
        self._places = threading.BoundedSemaphore(settings.concurrency)
        self._method = "POST"
        self.meter = StoreUseCounter()
        tenant = dict.fromkeys(_TENANT, settings.tenant) if settings.tenant else {}
        # The key may be in the same file.
        certificate = (settings.certificate_file, settings.key_file or settings.certificate_file)
        self._http = HttpClient(
            settings.url,
            HttpSettings(
                timeout_seconds=settings.timeout_seconds * _PATIENCE,
                tries=1,
                response_maximum_bytes=settings.response_maximum_bytes,
                ca_file=settings.ca_file,
            ),
            token=lambda: _secret(settings, "token_file") or None,
            headers=lambda: _authorization(settings),
            open_headers={"Accept-Encoding": "gzip", **_WHOLE, **tenant},
            certificate=certificate if settings.certificate_file else None,
            proxy=proxy_for(settings.url),
            connections=settings.concurrency,
            parse=bytes,
        )

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"the store at {self._http.base_url}"

    def quoted(self, text: str) -> str:
        """Return the store's text for a message: on one line, and without secrets."""
        return plain(_redacted(self._settings, text))

    def ask(
        self,
        path: str,
        parameters: Sequence[tuple[str, str]],
        read: Callable[[bytes], Answer],
        *,
        may_be_less: bool,
    ) -> Answer | StoreLimit:
        """Return what is read from the body of an answer, or the limit that was exceeded.

        Waits for a store that restarts or is busy, and repeats a query whose answer is broken. If
        a smaller query is possible, a full queue is waited for only once; if not, one without any
        answer in time is repeated once, as it may have been lost.

        Raises:
            StoreError: it does not answer, or refuses for another reason.
        """
        settings = self._settings
        attempt = 0
        waited = 0.0
        while True:
            attempt += 1
            result = self._request(path, parameters)
            if isinstance(result, Response):
                self.has_answered = True
                try:
                    return read(result.body)
                except BrokenAnswerError as error:
                    result = Failure(FailureKind.INTERRUPTED, f"answered with {error}")
            limit = _limit_of(result)
            is_lost = result.excess is Excess.TIME and not may_be_less
            may_wait = is_lost and attempt == 1 < settings.tries
            if limit is not None and limit.kind not in _WAITED and not may_wait:
                return limit
            may_repeat = limit or result.kind in (FailureKind.AWAY, FailureKind.INTERRUPTED)
            # If it has never answered, the address is probably wrong.
            patience = settings.patience_seconds if limit or self.has_answered else 0.0
            wanted = min(result.retry_after_seconds or 0.0, settings.retry_after_maximum_seconds)
            pause = max(self._pause(attempt), wanted)
            is_last = not may_repeat or (attempt >= settings.tries and waited + pause > patience)
            if patience and not is_last:
                self._waiting(waited, patience)
            if is_last or self._sleep(pause):
                raise StoreError(self._message(result))
            if may_be_less and limit is not None and limit.kind is LimitKind.CROWDED:
                return limit
            waited += pause
            self.meter.add(StoreUse(retries=1))

    def _pause(self, attempt: int) -> float:
        """Return the wait before the next try; beyond the usual tries, at least a second."""
        settings = self._settings
        doubled = settings.backoff_seconds * float(1 << min(attempt - 1, _DOUBLINGS))
        pause = min(doubled, _LONGEST_SECONDS) * (0.5 + self._jitter() / 2)
        return pause if attempt < settings.tries else max(1.0, pause)

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()

    def _request(self, path: str, parameters: Sequence[tuple[str, str]]) -> Response | Failure:
        with self._places:
            began = time.monotonic()
            method = self._method if parameters else "GET"
            if method == "POST":
                result = self._http.request("POST", path, form=parameters)
                if isinstance(result, Failure) and result.status in _NO_FORMS:
                    self._method = method = "GET"
            if method == "GET":
                result = self._http.request("GET", path, query=parameters)
            received = result.size_bytes if isinstance(result, Response) else len(result.answer)
            spent = time.monotonic() - began
        self.meter.add(StoreUse(queries=1, received_bytes=received, store_seconds=spent))
        return result

    def _message(self, failure: Failure) -> str:
        peer = urlsplit(self._http.base_url).netloc
        said = f"{self.name} {self.quoted(failure.message.removeprefix(peer + ' '))}"
        if failure.answer and failure.status in _EXPLAINED:
            said = f"{self.name} refused ({failure.status}): {self.quoted(_said(failure))}"
        elif failure.kind is FailureKind.CREDENTIAL:
            said = f"{self.name} was not asked: {self.quoted(failure.message)}"
        by_text = (
            remedy
            for text, remedy in _REMEDIES_BY_TEXT.items()
            if re.search(text, failure.answer, re.IGNORECASE)
        )
        remedy = _REMEDIES.get(failure.status) if failure.status else _CHECKS.get(failure.kind)
        remedy = next(by_text, remedy)
        return f"{said}; {remedy}" if remedy else said


def _limit_of(failure: Failure) -> StoreLimit | None:
    if failure.excess is Excess.SIZE:
        return StoreLimit(LimitKind.SPAN, f"{failure.message}, of fleet.store.response_maximum")
    if failure.excess is Excess.TIME:
        return StoreLimit(LimitKind.TIME, failure.message)
    is_refused = failure.kind is FailureKind.REFUSED
    return recognized(failure.status, _said(failure)) if is_refused else None


def _secret(settings: StoreSettings, key: str) -> str:
    """Return the text of a setting's file; kubelets and Vault agents replace such files.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is empty.
    """
    path = getattr(settings, key)
    if not path:
        return ""
    text = Path(path).read_text(encoding="utf-8").strip()
    if not text:
        raise ValueError(f"'{path}' of fleet.store.{key} is empty")
    return text


def _authorization(settings: StoreSettings) -> Mapping[str, str]:
    if not settings.username:
        return {}
    pair = f"{settings.username}:{_secret(settings, 'password_file')}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _redacted(settings: StoreSettings, text: str) -> str:
    """Return a text without secrets, in case a store or a proxy repeats them."""
    secrets: set[str] = set()
    for key in ("token_file", "password_file"):
        with suppress(OSError, ValueError):
            secrets.add(_secret(settings, key))
    with suppress(OSError, ValueError):
        secrets |= {value.removeprefix("Basic ") for value in _authorization(settings).values()}
    for secret in sorted(secrets - {""}, key=len, reverse=True):
        text = text.replace(secret, "***")
    # Tenants are often short words or numbers: only standalone occurrences are removed.
    tenant = re.escape(settings.tenant)
    return re.sub(rf"(?<![\w.:/-]){tenant}(?![\w.:/-])", "***", text) if tenant else text


def _said(failure: Failure) -> str:
    """Return the store's own words, extracted from JSON if possible."""
    try:
        document = json.loads(failure.answer)
    except (ValueError, RecursionError):
        return " ".join(failure.answer.split()) or failure.message
    said = document.get("error", failure.answer) if isinstance(document, dict) else failure.answer
    # Google nests the text.
    return str(said.get("message", said) if isinstance(said, dict) else said)
