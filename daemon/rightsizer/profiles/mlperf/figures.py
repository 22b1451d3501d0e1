"""Figures of the load generator by stable names, in seconds and in rates a second.

A log says one thing in several ways: with spaces and units in its summary, as a key in its detail.
"""

import math
import re
from typing import Final

__all__ = ["finite", "named_figure", "percentile_name", "printed_figure"]

_RATES: Final = {
    "samples per second": "samples_per_second",
    "result samples per second": "samples_per_second",
    "completed samples per second": "completed_samples_per_second",
    "result completed samples per sec": "completed_samples_per_second",
    "scheduled samples per second": "scheduled_samples_per_second",
    "result scheduled samples per sec": "scheduled_samples_per_second",
    "tokens per second": "tokens_per_second",
    "result tokens per second": "tokens_per_second",
    "tokens per second (inferred)": "inferred_tokens_per_second",
    "completed tokens per second (inferred)": "inferred_tokens_per_second",
    "result inferred tokens per second": "inferred_tokens_per_second",
    "result inferred completed tokens per second": "inferred_tokens_per_second",
    "completed tokens per second": "completed_tokens_per_second",
    "result completed tokens per second": "completed_tokens_per_second",
    "tps w/o loadgen overhead": "tokens_per_second",
    "tps w/ loadgen overhead": "tokens_per_second_with_overhead",
    "qps w/o loadgen overhead": "queries_per_second",
    "result qps without loadgen overhead": "queries_per_second",
    "qps w/ loadgen overhead": "queries_per_second_with_overhead",
    "result qps with loadgen overhead": "queries_per_second_with_overhead",
    "samples per query": "samples_per_query",
    "result samples per query": "samples_per_query",
    "effective samples per query": "samples_per_query",
    "result query count": "queries",
    "target qps": "target_queries_per_second",
    "effective target qps": "target_queries_per_second",
}
_TIMES: Final = {
    "target latency": "target_latency_seconds",
    "effective target latency": "target_latency_seconds",
    "ttft latency": "target_ttft_seconds",
    "effective server ttft latency": "target_ttft_seconds",
    "requested server ttft latency": "target_ttft_seconds",
    "tpot latency": "target_tpot_seconds",
    "requested server tpot latency": "target_tpot_seconds",
    "min duration": "minimum_duration_seconds",
    "effective min duration": "minimum_duration_seconds",
}
_TARGETS_OF_NOTHING: Final = frozenset(
    {"target_latency_seconds", "target_ttft_seconds", "target_tpot_seconds"}
)
"""Where 0 means that there is none."""
_PER_SECOND: Final = {"ns": 1e9, "us": 1e6, "ms": 1e3}
_UNIT: Final = re.compile(r"[ _]\(?(ns|us|ms)\)?$")
_SUBJECTS: Final = (
    ("ttft", re.compile(r"first token")),
    ("tpot", re.compile(r"(time to output token|time per output token|tpot)")),
)
_PERCENTILE: Final = re.compile(r"(\d{1,3}(?:\.\d{1,4})?)(?:th|st|nd|rd)? percentile")
_EDGE: Final = re.compile(r"\b(min|max|mean)\b")
_ESTIMATE: Final = re.compile(r"early stopping (\d{1,3})(?:th|st|nd|rd) percentile estimate")


def finite(value: object) -> float | None:
    """The number that a value or a text is; `None` for words, switches and what is not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def percentile_name(percentile: str) -> str:
    """`p99` of `99.00`, `p999` of `99.90`."""
    whole, _, rest = percentile.partition(".")
    return f"p{int(whole)}{rest.rstrip('0')}"


def printed_figure(key: str, value: str, group: str = "") -> tuple[str, float] | None:
    """Name and value of a line of a summary; `group` is the heading that it stands under."""
    named = named_figure(key, value)
    if named is None:
        return None
    name, number = named
    if group.startswith("per-sample latency") and name.startswith("latency_"):
        return f"sample_{name}", number
    return name, number


def named_figure(key: str, value: object) -> tuple[str, float] | None:
    """Name and value of what is known by this key; `None` where it is no figure."""
    number = finite(value)
    if number is None or number < 0:
        return None
    plain = " ".join(key.lower().replace("_", " ").split())
    unit = _UNIT.search(plain)
    plain = _UNIT.sub("", plain)
    if plain in _RATES:
        return _RATES[plain], number
    parts = _PER_SECOND[unit[1] if unit else "ns"]
    if plain in _TIMES:
        time = _TIMES[plain]
        is_none = number == 0 and time in _TARGETS_OF_NOTHING
        return None if is_none else (time, number / parts)
    name = _measured_time(plain, has_unit=unit is not None)
    return None if name is None else (name, number / parts)


def _measured_time(plain: str, *, has_unit: bool) -> str | None:
    estimate = _ESTIMATE.search(plain)
    if estimate is not None:
        return f"early_stopping_latency_{percentile_name(estimate[1])}_seconds"
    subject = next((name for name, words in _SUBJECTS if words.search(plain)), "latency")
    if subject == "latency" and not (has_unit and "latency" in plain):
        return None
    if "requested" in plain or "effective" in plain or "overlatency" in plain:
        return None
    percentile = _PERCENTILE.search(plain)
    if percentile is not None:
        return f"{subject}_{percentile_name(percentile[1])}_seconds"
    edge = _EDGE.search(plain)
    return f"{subject}_{edge[1]}_seconds" if edge else None
