"""Summary of the node as plain values, and revision of the page."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import asdict

from rightsizer.advice.compatible import savings_sum
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    DeviceReport,
    DeviceSpan,
    Nanoseconds,
    Report,
    Severity,
    Signal,
    Span,
    State,
    seconds,
    wasted_in,
)
from rightsizer.report.freshness import FreshnessSettings, fresh_devices
from rightsizer.web.view.strip import spans_of_report
from rightsizer.web.view.totals import device_counts

_MINUTE: Final = 60 * NANOSECONDS_PER_SECOND
_LENGTH: Final = 12


def revision_of(report: Report | None, now: Nanoseconds, freshness: FreshnessSettings) -> str:
    """Return a hash that changes with the page: devices, their availability, advice, the minute.

    Strips, needs and tables are updated at most once a minute.
    """
    if report is None:
        return "none"
    fresh = fresh_devices(report, now, freshness)
    parts = (
        report.wall_time // _MINUTE,
        report.agent.trouble,
        tuple((device.device.uuid, device.device.uuid in fresh) for device in report.devices),
        tuple((p.id, p.state, p.finding.severity, p.finding.summary) for p in report.advice),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:_LENGTH]


_SHOWN: Final = (
    Signal.GPU_BUSY,
    Signal.SM_WORK,
    Signal.MEMORY_USED,
    Signal.MEMORY_USED_BYTES,
    Signal.MEMORY_TOTAL_BYTES,
    Signal.POWER,
    Signal.POWER_WATTS,
    Signal.POWER_LIMIT_WATTS,
)
_NOTHING: Final = DeviceSpan(())


def summary_document(
    report: Report,
    now: Nanoseconds,
    freshness: FreshnessSettings,
    span: Span,
    past: Mapping[str, DeviceSpan] | None,
) -> dict[str, object]:
    """Return what the node does now, and did over a span; signals of fresh devices only."""
    fresh = fresh_devices(report, now, freshness)
    opened = [piece for piece in report.advice if piece.is_open]
    counts = asdict(device_counts(report, fresh))
    severities = Counter(piece.finding.severity for piece in opened)
    return {
        "generation": report.generation,
        "revision": revision_of(report, now, freshness),
        "time": seconds(report.wall_time),
        "interval_seconds": report.agent.interval_seconds,
        "is_stale": bool(report.devices) and not fresh,
        "trouble": report.agent.trouble,
        "now": {"devices": counts.pop("counted"), **counts},
        "span": _span_document(
            report, span, spans_of_report(report, span) if past is None else past
        ),
        "advice": {
            "open": len(opened),
            "by_severity": {severity: severities[severity] for severity in Severity},
            "savings": savings_sum(opened),
        },
        "devices": [
            _device_document(device, is_fresh=device.device.uuid in fresh)
            for device in report.devices
        ],
    }


def strip_document(
    report: Report, span: Span, past: Mapping[str, DeviceSpan] | None, uuids: Sequence[str]
) -> dict[str, object]:
    """Return the states of devices over a span by cell."""
    spans = spans_of_report(report, span) if past is None else past
    return {
        "span": span.name,
        "start": seconds(report.wall_time - span.length),
        "end": seconds(report.wall_time),
        "cell_seconds": seconds(span.cell),
        "devices": [
            {
                "uuid": uuid,
                "used_seconds": past.used_seconds,
                "waste_seconds": past.waste_seconds,
                "cells": [
                    {
                        "start": seconds(cell.start),
                        "end": seconds(cell.end),
                        "state_seconds": {
                            state: seconds(time) for state, time in cell.states.items()
                        },
                    }
                    for cell in past.cells
                ],
            }
            for uuid, past in ((uuid, spans.get(uuid, _NOTHING)) for uuid in uuids)
        ],
    }


def _span_document(report: Report, span: Span, past: Mapping[str, DeviceSpan]) -> dict[str, object]:
    """Sum over the devices; a MIG instance counts for its part of a GPU."""
    states: dict[State, float] = {}
    used_seconds = 0.0
    unused_seconds = 0.0
    wasted_seconds = 0.0
    unused_joules = 0.0
    for device in report.devices:
        capacity_ratio = device.device.capacity_ratio
        device_span = past.get(device.device.uuid, _NOTHING)
        for state, time in device_span.states.items():
            states[state] = states.get(state, 0.0) + seconds(time) * capacity_ratio
        used_seconds += device_span.used_seconds * capacity_ratio
        unused_seconds += sum(device_span.waste_seconds.values()) * capacity_ratio
        wasted_seconds += wasted_in(device_span.waste_seconds) * capacity_ratio
        unused_joules += sum(device_span.waste_joules.values())
    return {
        "name": span.name,
        "seconds": seconds(span.length),
        "state_seconds": states,
        "used_seconds": used_seconds,
        "waste_seconds": unused_seconds,
        "waste_joules": unused_joules,
        "wasted_seconds": wasted_seconds,
    }


def _device_document(device: DeviceReport, *, is_fresh: bool) -> dict[str, object]:
    return {
        "uuid": device.device.uuid,
        "title": device.device.title,
        "is_fresh": is_fresh,
        "state": device.state if is_fresh else State.UNKNOWN,
        "conditions": sorted(device.conditions) if is_fresh else [],
        "signals": {
            signal: device.signals[signal]
            for signal in _SHOWN
            if is_fresh and signal in device.signals
        },
    }
