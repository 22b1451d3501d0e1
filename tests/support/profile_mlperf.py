"""Writes logs of MLPerf: the load generator's summary and detail, and those of training runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["detail", "detail_text", "logged", "summary", "training"]

_BAR = "================================================"
_CLOSING = "\nNo warnings encountered during test.\n\nNo errors encountered during test.\n"


def summary(  # noqa: PLR0913 - what differs between summaries.
    headline: str = "Samples per second: 3590.46",
    *,
    scenario: str = "Offline",
    mode: str = "PerformanceOnly",
    validity: str = "VALID",
    additional: Sequence[str] = (),
    parameters: Sequence[str] = (),
    closing: str = _CLOSING,
) -> str:
    """A whole summary; an accuracy run's is its closing lines alone."""
    lines = [
        _BAR,
        "MLPerf Results Summary",
        _BAR,
        "SUT name : BERT SERVER",
        f"Scenario : {scenario}",
        f"Mode     : {mode}",
        headline,
        f"Result is : {validity}",
        "  Min duration satisfied : Yes",
        "",
        _BAR,
        "Additional Stats",
        _BAR,
        *additional,
        "",
        _BAR,
        "Test Parameters Used",
        _BAR,
        *parameters,
    ]
    return "\n".join(lines) + "\n" + closing


def logged(key: str, value: Any, time: float = 0.1, **metadata: Any) -> str:
    """One line as training runs log it."""
    entry = {"namespace": "", "time_ms": time, "key": key, "value": value, "metadata": metadata}
    return f":::MLLOG {json.dumps(entry)}\n"


def detail(values: Mapping[str, Any]) -> str:
    """A detail log of round 1.0 or later."""
    head = {
        "loadgen_version": "4.1 @ c60103b05a",
        "test_datetime": "2024-07-16T23:25:31Z",
        "sut_name": "BERT SERVER",
        "effective_scenario": "Offline",
        "effective_test_mode": "PerformanceOnly",
    }
    return "".join(
        f":::MLLOG {json.dumps(_loadgen(*each))}\n" for each in {**head, **values}.items()
    )


def _loadgen(key: str, value: Any) -> dict[str, Any]:
    metadata = {"is_error": False, "is_warning": key == "warned", "file": "a.cc", "pid": 1}
    place = {"namespace": "mlperf::logging", "event_type": "POINT_IN_TIME"}
    return {"key": key, "value": value, "time_ms": 0.1, **place, "metadata": metadata}


def detail_text(lines: Sequence[str]) -> str:
    """A detail log of round 0.7."""
    return "".join(f'"pid": 3018, "tid": 3018, "ts": 9717ns : {line}\n' for line in lines)


def training(
    status: str = "success", *, start: int = 1_714_993_577_687, took: int = 600_000
) -> str:
    """A training run's log; no `run_stop` without a status."""
    lines = [
        logged("submission_benchmark", "llama2_70b_lora", start - 80_000),
        logged("global_batch_size", 8, start - 80_000),
        logged("init_start", None, start - 80_000),
        logged("init_stop", None, start - 1),
        logged("run_start", None, start),
        logged("block_start", None, start, samples_count=0),
        logged("tracked_stats", {"throughput": 2.4}, start + took // 2, step=768),
        logged("tracked_stats", {"throughput": 2.5}, start + took // 2, step=1152),
        logged("tracked_stats", {"throughput": 2.6}, start + took // 2, step=1536),
        logged("block_stop", None, start + took // 2, samples_count=1536),
        logged("eval_start", None, start + took // 2),
        logged("eval_accuracy", 0.93, start + took - 1),
        logged("eval_stop", None, start + took),
    ]
    if status:
        lines.append(logged("run_stop", None, start + took, status=status))
    return "".join(lines)
