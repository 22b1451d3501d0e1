"""How much a workload asks of its GPUs right now, for autoscalers that trust no frozen value."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Final

from rightsizer.domain.report import DeviceReport, Report
from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.domain.workload import Workload
from rightsizer.publish.freshness import FreshnessSettings, is_fresh
from rightsizer.publish.web.message import Response

__all__ = ["load_response"]

_DIGITS: Final = 4


def load_response(
    report: Report | None,
    now: Nanoseconds,
    freshness: FreshnessSettings,
    *,
    namespace: str,
    workload: str,
) -> Response:
    """The load of a workload, or why it is not known: 404 without it, 503 without its readings.

    Args:
        report: The latest.
        now: Wall time, by which readings are stale.
        freshness: When they are.
        namespace: The workload's; empty where it has none.
        workload: Its name.
    """
    devices = [] if report is None else _held(report.devices, namespace, workload)
    if report is None or not devices:
        where = f"{namespace}/{workload}" if namespace else workload
        text = f"no GPU of this node is held by '{where}'; see the workloads of api/v1/report"
        return Response.of_text(text, HTTPStatus.NOT_FOUND)
    read = [device for device in devices if is_fresh(device, report, now, freshness)]
    if len(read) < len(devices):
        text = f"{len(devices) - len(read)} of {len(devices)} GPUs give no fresh reading"
        return Response.of_text(text, HTTPStatus.SERVICE_UNAVAILABLE)
    return Response.of_json(
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


def _held(devices: Iterable[DeviceReport], namespace: str, name: str) -> list[DeviceReport]:
    return [
        device
        for device in devices
        if any(_is_it(holding.workload, namespace, name) for holding in device.holdings)
    ]


def _is_it(workload: Workload, namespace: str, name: str) -> bool:
    return (workload.namespace, workload.name) == (namespace, name)


def _total(devices: Sequence[DeviceReport], signals: Sequence[Signal]) -> float | None:
    """In GPUs' worth, by the first of the signals that each has; `None` where one has none."""
    found = [
        next((device.signals[each] for each in signals if each in device.signals), None)
        for device in devices
    ]
    known = [value for value in found if value is not None]
    return round(sum(known), _DIGITS) if len(known) == len(found) else None


def _largest(devices: Iterable[DeviceReport], signal: Signal) -> float | None:
    """An engine over several GPUs tells each of them the same."""
    known = [device.signals[signal] for device in devices if signal in device.signals]
    return round(max(known), _DIGITS) if known else None
