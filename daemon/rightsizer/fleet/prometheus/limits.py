"""What each store says when it was asked for too much, and what helps."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["Limit", "LimitKind", "recognized"]


class LimitKind(StrEnum):
    """What is to be done about it."""

    SPAN = "span"
    """Less time in one query may be allowed."""
    TEXT = "text"
    """The query itself is too long: only fewer devices help."""
    TIME = "time"
    """It took too long: less time in one query may be quicker, unless the store hangs."""
    BUSY = "busy"
    """Others are in the way: the same query later."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A store's refusal of what is too much for it."""

    kind: LimitKind
    text: str
    """In its own words, without the query that some put before them."""


_TEXTS: Final = (
    # VictoriaMetrics: 16 KiB as it is delivered. Mimir has the same for the expression.
    (r"too long query; got \d+ bytes", LimitKind.TEXT),
    (r"maxQueryLen", LimitKind.TEXT),
    (r"err-mimir-max-query-expression-size-bytes", LimitKind.TEXT),
    # Busy before slow: Prometheus calls both "timed out".
    (r"query timed out in query queue", LimitKind.BUSY),
    (r"maxQueueDuration|cannot handle more than \d+ concurrent", LimitKind.BUSY),
    (r"too many outstanding requests|err-mimir-tenant-max-request-rate", LimitKind.BUSY),
    # Mimir: a part of it is overloaded, or away for as long as a rollout takes.
    (r"err-mimir-query-limited|too busy to process queries", LimitKind.BUSY),
    (r"too many unhealthy instances in the ring", LimitKind.BUSY),
    (r"err-mimir-store-consistency-check-failed", LimitKind.BUSY),
    (r"maxQueryDuration|timeout exceeded", LimitKind.TIME),
    (r"query timed out|query was canceled|context deadline exceeded", LimitKind.TIME),
    # Prometheus.
    (r"query processing would load too many samples into memory", LimitKind.SPAN),
    (r"exceeded maximum resolution of [\d,]+ points per timeseries", LimitKind.SPAN),
    # Remote read, and the store gateways of Thanos and older Cortex.
    (r"exceeded (sample|series|chunks?|bytes) limit", LimitKind.SPAN),
    (r"limit \d+ (violated|exceeded)", LimitKind.SPAN),
    (r"code = ResourceExhausted|received message larger than max", LimitKind.SPAN),
    (r"allocate chunk bytes: pool exhausted", LimitKind.SPAN),
    # Mimir and Cortex.
    (r"the query exceeded the (maximum|aggregated)", LimitKind.SPAN),
    (r"the query hit the (max|aggregated)", LimitKind.SPAN),
    (r"the (total )?query time range exceeds the limit", LimitKind.SPAN),
    (r"err-mimir-max-", LimitKind.SPAN),
    # VictoriaMetrics.
    (r"cannot (select|process|fetch) more than", LimitKind.SPAN),
    (r"the number of matching (unique )?time ?series exceeds", LimitKind.SPAN),
    (r"-search\.max\w+", LimitKind.SPAN),
    (r"too many points for the given step", LimitKind.SPAN),
    (r"not enough memory for processing", LimitKind.SPAN),
)

_PATTERNS: Final = tuple((re.compile(text, re.IGNORECASE), kind) for text, kind in _TEXTS)

_SHOWN: Final = 240

_STATUSES: Final = {
    413: LimitKind.SPAN,
    414: LimitKind.TEXT,
    429: LimitKind.BUSY,
    502: LimitKind.BUSY,
    503: LimitKind.BUSY,
    504: LimitKind.TIME,
}
"""Where the text tells nothing: what a proxy in between says."""


def recognized(status: int | None, text: str) -> Limit | None:
    """The limit that a refusal tells of, `None` where it is about something else."""
    for pattern, kind in _PATTERNS:
        if found := pattern.search(text):
            return Limit(kind, text[found.start() :][:_SHOWN])
    by_status = _STATUSES.get(status) if status is not None else None
    return None if by_status is None else Limit(by_status, text[:_SHOWN])
