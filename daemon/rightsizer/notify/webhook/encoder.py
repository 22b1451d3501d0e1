"""Encoder of advice as alerts of Alertmanager's API v2."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from rightsizer.io.codec import JsonObject
from rightsizer.model.values import (
    Advice,
    AdviceState,
    Nanoseconds,
    Severity,
    nanoseconds,
    seconds,
)
from rightsizer.report.labels import readable_name

ALERT_NAME: Final = "RightsizerAdvice"

_SEVERITIES: Final = {
    Severity.LOW: "info",
    Severity.MEDIUM: "info",
    Severity.HIGH: "warning",
    Severity.CRITICAL: "warning",
}
"""Advice is never `critical`, which would page an operator at night."""
_MISSED_RESENDS: Final = 4
_DEVICES_NAMED: Final = 64
"""Advice on more devices than a node has is about a pool, and gets one alert."""
_RESOLVED_KEPT: Final[Nanoseconds] = nanoseconds(900.0)
"""Time for which a resolved alert is repeated, as Prometheus does; this needs no state."""


def is_firing(advice: Advice) -> bool:
    """Whether the advice asks an operator to act; snoozed advice does not."""
    return advice.is_open and advice.state is not AdviceState.SNOOZED


def needs_delivery(advice: Advice, now: Nanoseconds) -> bool:
    """Whether it fires, or ended so recently that an Alertmanager may not know yet."""
    return is_firing(advice) or now - _end(advice) <= _RESOLVED_KEPT


def alerts_of(  # noqa: PLR0913 - subject, node and format of an alert.
    advice: Advice,
    now: Nanoseconds,
    *,
    node: str,
    titles: Mapping[str, str],
    instance: str,
    external_url: str,
    resend_seconds: float,
) -> Iterator[JsonObject]:
    """Yield an alert for each device, like Prometheus's alerts, so that one may inhibit another.

    One alert for a part of a node that several devices share.

    Alerts are resent every `resend_seconds`, and expire if they are not. `now` is wall time,
    `titles` are display names of devices, `external_url` is the base of links.
    """
    uuids = advice.finding.culprits or advice.finding.devices
    is_shared = advice.finding.incident.get("devices", 1) > 1
    has_own = 0 < len(uuids) <= _DEVICES_NAMED and not is_shared
    for uuid in uuids if has_own else ("",):
        alert = _alert(advice, uuid, now, nanoseconds(_MISSED_RESENDS * resend_seconds))
        alert["labels"]["instance"] = instance or node
        alert["annotations"]["summary"] = _summary(advice, titles.get(uuid, uuid), node)
        if external_url:
            alert["generatorURL"] = f"{external_url.rstrip('/')}/api/v1/advice/{advice.id}"
        yield alert


def _summary(advice: Advice, device: str, node: str) -> str:
    finding = advice.finding
    place = f"{device} of {node}" if device else node
    workload = f" ({finding.workload})" if finding.workload else ""
    return f"{place}{workload}: {readable_name(finding.action)}, {finding.kind.value}."


def _alert(advice: Advice, uuid: str, now: Nanoseconds, lasts: Nanoseconds) -> JsonObject:
    finding = advice.finding
    alert: JsonObject = {
        "labels": {
            "alertname": ALERT_NAME,
            "advice": advice.id,
            "finding": finding.kind.value,
            "reason": finding.reasons[0].value if finding.reasons else "",
            "action": finding.action.value,
            "severity": _SEVERITIES[finding.severity],
            "uuid": uuid,
            # Those of an incident may change, and with a label's value it would be another alert.
            "workload": "" if finding.incident else finding.workload or "",
        },
        "annotations": _annotations(advice),
        "startsAt": _written(advice.opened),
        # Never before its start, which the API rejects.
        "endsAt": _written(max(now + lasts if is_firing(advice) else _end(advice), advice.opened)),
    }
    # Alertmanager treats an empty label as absent.
    alert["labels"] = {name: value for name, value in alert["labels"].items() if value}
    return alert


def _annotations(advice: Advice) -> dict[str, str]:
    finding = advice.finding
    savings = advice.finding.savings
    annotations = {
        "description": finding.summary,
        "part": finding.incident.get("name", ""),
        "devices": ", ".join(finding.devices),
        "confidence": f"{finding.confidence:.2f}",
        "risk": finding.risk.value,
        "state": advice.state.value,
        "actor": advice.actor or "",
        "savings": "" if savings.gpus_low is None else f"at least {savings.gpus_low:.2f} GPUs",
    }
    return {name: value for name, value in annotations.items() if value}


def _end(advice: Advice) -> Nanoseconds:
    return advice.updated if advice.closed is None else advice.closed


def _written(time: Nanoseconds) -> str:
    text = datetime.fromtimestamp(seconds(time), UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
