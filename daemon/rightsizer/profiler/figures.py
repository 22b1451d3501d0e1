"""Figures of a profile as people read them, in the terminal and in the report alike."""

from typing import Any, Final

CAUSES: Final = {
    "compute": "kernels",
    "collective": "collectives, exposed",
    "copy": "copies, exposed",
    "host_wait": "waiting for the host",
    "kernel_wait": "between kernels",
    "other_idle": "idle for other causes",
}
"""Where the time of a device goes, in the order in which it is drawn."""

FIGURES: Final = {
    "step_seconds": "a step",
    "kernel_seconds_per_step": "kernels of a step",
    "loader_seconds_per_step": "loader of a step",
    "kernel_ratio": "with a kernel",
    "host_wait_ratio": "waiting for the host",
    "kernel_wait_ratio": "between kernels",
    "other_idle_ratio": "idle for other causes",
    "exposed_collective_ratio": "collectives, exposed",
    "exposed_copy_ratio": "copies, exposed",
    "launches_per_second": "launches a second",
}

_SCALES: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_SIZES: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def time_text(value: float | None) -> str:
    """`1.23 s`, `45.6 ms`, `7.8 µs`."""
    if value is None:
        return "not known"
    scale, unit = next((each for each in _SCALES if value >= each[0]), _SCALES[-1])
    return f"{value / scale:,.4g} {unit}" if value else "0 s"


def size_text(value: float | None) -> str:
    """`1.2 GB`."""
    if value is None:
        return "not known"
    for scale, unit in _SIZES:
        if value >= scale:
            return f"{value / scale:,.3g} {unit}"
    return f"{value:.0f} B"


def idle_parts(time: dict[str, Any]) -> dict[str, float]:
    """Parts of a span that sum to it, by their causes.

    Copies beside no kernel fill time that would be idle; they are taken off the causes in their
    order, for it is not known which of them a copy stood in for.
    """
    parts = {
        "compute": time["kernel_seconds"] - time["exposed_collective_seconds"],
        "collective": time["exposed_collective_seconds"],
        "copy": min(time["exposed_copy_seconds"], time["idle_seconds"]),
    }
    left = parts["copy"]
    for cause in ("host_wait", "kernel_wait", "other_idle"):
        seconds = time[f"{cause}_seconds"]
        parts[cause] = max(0.0, seconds - left)
        left = max(0.0, left - seconds)
    return parts


def gain_text(finding: dict[str, Any]) -> str:
    """What acting would give; empty where that is not known."""
    for option in finding["options"]:
        low, high = option["time_ratio_low"], option["time_ratio_high"]
        if low is not None and high is not None:
            return f"{_saved(1 - high, 1 - low)} less time{_per_step(finding['evidence'])}"
    return ""


def _per_step(evidence: dict[str, Any]) -> str:
    low = evidence.get("saved_seconds_per_step_low")
    high = evidence.get("saved_seconds_per_step_high")
    if low is None or high is None:
        return ""
    first = f"{time_text(low)} to " if low else "up to "
    return f", {first}{time_text(high)} of a step's {time_text(evidence['step_seconds'])}"


def _saved(low: float, high: float) -> str:
    return f"{low:.0%} to {high:.0%}" if low >= _HALF_PERCENT else f"up to {high:.0%}"


_HALF_PERCENT: Final = 0.005


def change_text(figure: str, value: float | None) -> str:
    """A figure of the comparison in its unit."""
    if value is None:
        return "not known"
    if figure.endswith("_ratio"):
        return f"{value:.1%}"
    return f"{value:,.0f}" if figure == "launches_per_second" else time_text(value)
