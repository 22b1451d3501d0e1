"""The figures that are read of a device, by the names of the metrics and the recording rules."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Final

from rightsizer.domain.state import Cause
from rightsizer.fleet.sources.agent.form import Figure, Form

__all__ = [
    "BUCKETS",
    "CONDITIONS",
    "IDLE_JOULES",
    "LINKS",
    "MEANS",
    "PEAKS",
    "POWER",
    "POWER_BUCKETS",
    "STATES",
    "TOTALS",
    "WASTE",
]


def _counter(
    name: str,
    stem: str,
    *labels: str,
    rounding: float = 0.001,
    only: Mapping[str, str] | None = None,
) -> Figure:
    level = "_".join(("uuid", *labels))
    forms = (
        Form(f"{level}:rightsizer_{stem}:increase5m", "sum_over_time"),
        Form(f"rightsizer_{stem}_total", "increase"),
    )
    return Figure(name, forms, labels, rounding, only or {})


def _gauge(name: str, stem: str, function: str, rounding: float = 0.001) -> Figure:
    kind = {"avg_over_time": "avg5m", "max_over_time": "max5m"}[function]
    forms = (
        Form(f"uuid:rightsizer_{stem}:{kind}", function),
        Form(f"rightsizer_{stem}", function),
    )
    return Figure(name, forms, (), rounding)


def _mean(name: str, stem: str) -> Figure:
    """Of a ratio: its distribution has every second of it, its gauge one sample a scrape."""
    rule, gauge = _gauge(name, f"{stem}_ratio", "avg_over_time").forms
    distribution = f"rightsizer_{stem}_distribution_ratio"
    exact = Form(f"{distribution}_sum", "increase", over=f"{distribution}_count")
    return Figure(name, (rule, exact, gauge))


def _peak(name: str, stem: str) -> Figure:
    return _gauge(name, f"{stem}_ratio", "max_over_time")


def _buckets(name: str, stem: str) -> Figure:
    bucket = f"{stem}_distribution_ratio_bucket"
    forms = (
        Form(f"uuid_le:rightsizer_{bucket}:increase5m", "sum_over_time"),
        Form(f"rightsizer_{bucket}", "increase"),
    )
    return Figure(name, forms, ("le",), 1.0)


_MEBIBYTE: Final = 2.0**20

STATES: Final = _counter("states", "state_seconds", "state")
CONDITIONS: Final = _counter("conditions", "condition_seconds", "condition")
WASTE: Final = _counter("waste", "waste_seconds", "cause")
IDLE_JOULES: Final = _counter(
    "idle_joules", "waste_joules", "cause", rounding=0.1, only={"cause": Cause.IDLE.value}
)
"""Of the causes, the one that a rule asks for: what a device draws at work is what this leaves."""

TOTALS: Final = (
    _counter("seconds", "used_seconds"),
    _counter("energy", "energy_joules", rounding=0.1),
)
_CLOCK: Final = Figure(
    "clock",
    (
        Form(
            "uuid:rightsizer_sm_work_ratio:avg5m",
            "avg_over_time",
            over="uuid:rightsizer_sm_active_ratio:avg5m",
        ),
        Form("rightsizer_sm_work_ratio", "avg_over_time", over="rightsizer_sm_active_ratio"),
    ),
)
"""Of its maximum, while the SMs work: that is the one the pipes ran at."""
MEANS: Final = (
    _mean("busy", "gpu_busy"),
    _mean("sm_work", "sm_work"),
    _mean("tensor", "tensor_active"),
    _mean("dram", "dram_active"),
    _gauge("memory_bytes", "memory_used_bytes", "avg_over_time", _MEBIBYTE),
    _CLOCK,
)
PEAKS: Final = (
    _peak("busy", "gpu_busy"),
    _peak("sm_work", "sm_work"),
    _peak("tensor", "tensor_active"),
    _peak("dram", "dram_active"),
    _gauge("memory_bytes", "memory_used_bytes", "max_over_time", _MEBIBYTE),
)
POWER: Final = (_mean("power", "power"), _peak("power_peak", "power"))
"""What weighs the busy share of a device without profiling."""


def _link(name: str, link: str, function: str) -> Figure:
    """Of the busier direction, or of the one that is known."""
    ways = [
        _gauge(name, f"{link}_{way}_bytes_per_second", function).forms
        for way in ("receive", "transmit")
    ]
    both = [replace(one, beside=other.name) for one, other in zip(*ways, strict=True)]
    return Figure(name, (*both, *chain(*ways)), (), 1e6)


LINKS: Final = tuple(
    _link(f"{link}_{part}", link, function)
    for link in ("pcie", "nvlink")
    for part, function in (("mean", "avg_over_time"), ("peak", "max_over_time"))
)

BUCKETS: Final = (_buckets("sm_work", "sm_work"), _buckets("dram", "dram_active"))
POWER_BUCKETS: Final = (_buckets("busy", "gpu_busy"), _buckets("power", "power"))
