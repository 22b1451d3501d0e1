"""Load of a workload for autoscalers, and when none is reported."""

import json
from typing import Any

from msgspec.structs import replace

from publish_reports import full_report
from rightsizer.model.report import Report
from rightsizer.model.units import nanoseconds
from rightsizer.model.workload import Holding, Workload, WorkloadKind
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.api import load_response

CHAT = Workload(
    "kubernetes/production/chat", WorkloadKind.KUBERNETES, "chat", namespace="production"
)


def held(report: Report, count: int = 2) -> Report:
    """The report with its first GPUs held by one service."""
    holding = (Holding(CHAT, 1.0),)
    devices = [
        replace(device, holdings=holding if at < count else ())
        for at, device in enumerate(report.devices)
    ]
    return replace(report, devices=tuple(devices))


def load_of(report: Report | None, age_seconds: float = 0.0, **named: str) -> tuple[int, Any]:
    """Status and answer."""
    now = (0 if report is None else report.wall_time) + nanoseconds(age_seconds)
    usual = {"namespace": "production", "workload": "chat"}
    response = load_response(report, now, FreshnessSettings(), **(usual | named))
    text = response.body.decode()
    return response.status, json.loads(text) if response.status == 200 else text


def test_load_is_the_sum_over_its_gpus() -> None:
    """The unit is GPUs; values that no engine reports are null."""
    report = held(full_report())
    status, found = load_of(report)
    busy = [device.signals["gpu_busy"] for device in report.devices[:2]]  # type: ignore[index]

    assert status == 200
    assert found["devices"] == 2
    assert abs(found["gpu_busy_ratio"] - sum(busy)) < 1e-3
    assert found["requests_waiting"] is None


def test_stale_reading_is_no_load() -> None:
    """A frozen value must neither keep nor remove replicas."""
    status, text = load_of(held(full_report()), age_seconds=3600.0)

    assert (status, text.strip()) == (503, "2 of 2 GPUs give no fresh reading")


def test_workload_that_is_not_there_is_not_idle() -> None:
    """Neither is one of another namespace, nor any before the first sample."""
    report = held(full_report())

    assert load_of(report, workload="other")[0] == 404
    assert load_of(report, namespace="")[0] == 404
    assert load_of(None)[0] == 404
