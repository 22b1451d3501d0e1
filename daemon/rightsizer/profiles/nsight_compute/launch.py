"""Kernel launches, and what their metrics and rules mean."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from msgspec import Struct

from rightsizer.io.yaml import load_beside
from rightsizer.profiles.printed_text import (
    bytes_in,
    ratio_in,
    seconds_in,
)

MetricKey: TypeAlias = tuple[str, str]
"""Section and name: one name can occur in two sections with different units."""

DEVICE_NAME: Final = "device__attribute_display_name"


class LaunchMetric(Struct, frozen=True):
    """A measured value in its unit; with extremes over several launches."""

    value: float
    unit: str
    least: float | None = None
    greatest: float | None = None


class ProfilerRule(Struct, frozen=True):
    """Advice of the profiler."""

    text: str
    speedup_percent: float = 0.0
    """Estimated speed-up; 0 without an estimate."""
    section: str = ""
    """Where it applies; empty if not told."""


@dataclass(slots=True)
class KernelLaunch:
    """A launch, or several summarized by the profiler."""

    kernel: str
    device: str = "0"
    count: int = 1
    metrics: dict[MetricKey, LaunchMetric] = field(default_factory=dict)
    device_name: str = ""
    rules: list[ProfilerRule] = field(default_factory=list)

    def first(
        self,
        keys: Iterable[MetricKey],
        factor_of: Callable[[str], float | None],
        part: str = "value",
    ) -> float | None:
        """Return the first available of the metrics in the base unit, by `factor_of`.

        `part` may be `least` or `greatest`, which default to the value.
        """
        for key in keys:
            if (figure := self.metrics.get(key)) is None:
                continue
            number = getattr(figure, part)
            value = figure.value if number is None else number
            is_percent = key[1].endswith((".pct", "_pct")) or ".pct_of_" in key[1]
            factor = factor_of(figure.unit or ("%" if is_percent else ""))
            if factor is not None and value >= 0:
                return float(value * factor)
        return None


def _keys(*texts: str) -> tuple[MetricKey, ...]:
    """Parse `section/name`, or a hardware metric's name; `SOL/` stands for both its sections."""
    keys: list[MetricKey] = []
    for text in texts:
        section, _, name = text.rpartition("/")
        keys += [
            (spelling, name) for spelling in (_SPEED_OF_LIGHT if section == "SOL" else (section,))
        ]
    return tuple(keys)


_SPEED_OF_LIGHT: Final = ("GPU Speed Of Light Throughput", "GPU Speed Of Light")
"""Name of the section, and its name until 2021."""
_LOADED: Final = load_beside(__file__, "metrics.yaml")
_STALLS: Final[Mapping[str, str]] = _LOADED["stalls"]
_METRICS: Final[Mapping[str, Mapping[str, tuple[MetricKey, ...]]]] = {
    section: {name: _keys(*texts) for name, texts in named.items()}
    for section, named in _LOADED.items()
    if named is not _STALLS
}
_OTHERS: Final = _METRICS["others"]
DURATION: Final = _OTHERS["duration"]
MULTIPROCESSORS: Final = _OTHERS["multiprocessors"]
_DRAM_BYTES: Final = ("dram_bytes", "dram_bytes_by_way", "dram_bytes_by_operation")
_COALESCED_SECTORS: Final = 16.0
"""Maximum for a coalesced request: 32 threads read 16 adjacent bytes each."""
_STALL: Final = re.compile(
    r"smsp__average_warps?_(?:latency_)?issue_stalled_(\w+?)(?:_per_issue_active)?\.ratio"
)
"""Warps stalled for a reason, or their cycles, between two instructions."""
_STALL_RULE: Final = re.compile(
    r"cycles being stalled (?P<why>[^.]+)\..*?represents about (?P<share>[\d.]+)%", re.DOTALL
)
_EXCESS_RULE: Final = re.compile(
    r"excessive sectors \((\d+)% of the total|"
    r"global access, expected (\d+) transactions, got (\d+)"
)
"""Text of the profiler's access rule, and the one until 2020."""
_TENSOR: Final = re.compile(r"sm(?:sp)?__(?:inst_executed_pipe_tensor|pipe_tensor|ops_path_tensor)")
_ALL_TENSOR: Final = re.compile(
    r"sm(?:sp)?__(?:inst_executed_pipe_tensor|pipe_tensor(?:_cycles_active|_inst)?)\."
)
"""Metrics of the whole pipe; others count one number format, and may be 0 beside it."""
_PERCENT: Final = ".pct_of_peak"
_LEAST_PERCENT: Final = 2.0
"""On an H100 the whole pipe reads .5% in a layer norm and 1.3% in a random number generator, with
every format at 0."""
_OPERATIONS: Final[Mapping[str, int]] = {
    f"smsp__sass_thread_inst_executed_op_{kind}{name}_pred_on.sum": weight
    for kind in "fhd"
    for name, weight in (("add", 1), ("mul", 1), ("fma", 2))
}
"""Operations per executed thread instruction, for fp32, fp16 and fp64."""
_TENSOR_OPERATIONS: Final = re.compile(r"sm__ops_path_tensor_src_(?!\w*sparsity)\w+\.sum")
_PER_CYCLE: Final = ".per_cycle_elapsed"
_CLOCKS: Final = ("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second")
_HERTZ: Final[Mapping[str, float]] = {
    **dict.fromkeys(("hz", "cycle/second", "cycle/s"), 1.0),
    **dict.fromkeys(("mhz", "cycle/usecond", "cycle/us"), 1e6),
    **dict.fromkeys(("ghz", "cycle/nsecond", "cycle/ns"), 1e9),
}
_PEAK: Final = ".peak_"
"""Occurs in names of the hardware's maximum."""
_TENSOR_RULE: Final = re.compile(
    r"\bTensor\b[^.]{0,40} is the highest-utilized pipeline|dominated by its Tensor"
)
_PARTS: Final[Mapping[str, "re.Pattern[str]"]] = {
    "compute_ratio": re.compile(
        r"sm(?:sp)?__(?P<part>inst_executed|inst_issued|issue_active|pipe_\w+_cycles_active|"
        r"inst_executed_pipe_\w+)\.avg\.pct_of_peak_sustained_(?:active|elapsed)"
    ),
    "memory_ratio": re.compile(
        r"(?P<part>l1tex|lts|gpu__dram|dram)__throughput\.avg\.pct_of_peak_sustained_elapsed"
    ),
}
"""Parts whose busiest one is the throughput, where this was not measured itself.

Source: Nsight Compute, breakdown of `sm__throughput` and `gpu__compute_memory_throughput`
"""
_DECISIVE: Final = re.compile(r"tensor|dram")
"""Without its tensor pipe, or its memory, a kernel's throughput may be any."""
_WANTED: Final = frozenset(
    key for named in _METRICS.values() for keys in named.values() for key in keys
)


def is_wanted(key: MetricKey) -> bool:
    """Whether a metric is read; profiles can have thousands."""
    counted = key[1].removesuffix(_PER_CYCLE)
    is_named = key in _WANTED or counted in _OPERATIONS or counted in _CLOCKS
    is_part = any(pattern.fullmatch(key[1]) for pattern in _PARTS.values())
    return is_named or is_part or bool(_TENSOR.match(key[1]) or _STALL.fullmatch(key[1]))


def measured(launch: KernelLaunch) -> dict[str, float]:
    """Return the measurements except time, by field name in `KernelUse` or its counters."""
    measures = {name: launch.first(keys, ratio_in) for name, keys in _METRICS["ratios"].items()}
    measures |= {name: launch.first(keys, _as_it_is) for name, keys in _METRICS["numbers"].items()}
    measures["excess_sectors_ratio"] = _excess_sectors(launch)
    rate = _dram_rate(launch)
    measures["dram_bytes_per_second"] = rate
    peak, clock = (launch.first(_OTHERS[name], _rate_in) for name in ("dram_peak", "dram_clock"))
    if measures["dram_ratio"] is None and rate is not None and peak and clock:
        measures["dram_ratio"] = min(1.0, rate / (peak * clock))
    for name, pattern in _PARTS.items():
        if measures[name] is None:
            measures[name] = _busiest(launch, pattern)
    measures["flops_per_second"] = _operations_rate(launch)
    return {name: value for name, value in measures.items() if value is not None}


def _busiest(launch: KernelLaunch, pattern: "re.Pattern[str]") -> float | None:
    """Return the highest throughput of parts; `None` unless those that most depends on are told."""
    parts = {
        match["part"]: min(1.0, figure.value / 100)
        for (_, name), figure in launch.metrics.items()
        if (match := pattern.fullmatch(name))
    }
    return max(parts.values()) if any(map(_DECISIVE.search, parts)) else None


def _rate_in(unit: str) -> float | None:
    """Return the factor of a clock, or of what moves in a cycle of it."""
    return _HERTZ.get(unit.lower(), bytes_in(unit.removesuffix("/cycle")))


def stalls(launch: KernelLaunch) -> dict[str, float]:
    """Return the stall reasons of warps, by share of the cycles between two instructions."""
    counted = {
        match[1]: figure.value
        for (_, name), figure in launch.metrics.items()
        if (match := _STALL.fullmatch(name))
    }
    if whole := sum(counted.values()):
        reasons = ((_STALLS.get(name), value) for name, value in counted.items())
        return {why: value / whole for why, value in reasons if why is not None}
    matches = (match for rule in launch.rules if (match := _STALL_RULE.search(rule.text)))
    return {match["why"]: min(1.0, float(match["share"]) / 100) for match in matches}


def extremes(launch: KernelLaunch) -> tuple[float, float] | None:
    """Return the shortest and longest time; `None` if not measured."""
    shortest, longest = (launch.first(DURATION, seconds_in, part) for part in ("least", "greatest"))
    return None if shortest is None or longest is None else (shortest, longest)


def _dram_rate(launch: KernelLaunch) -> float | None:
    duration = launch.first(DURATION, seconds_in)
    if (rate := launch.first(_OTHERS["dram_rate"], bytes_in)) is not None or not duration:
        return rate
    for name in _DRAM_BYTES:
        parts = [launch.first((key,), bytes_in) for key in _OTHERS[name]]
        if None not in parts:
            return sum(filter(None, parts)) / duration
    return None


def _operations_rate(launch: KernelLaunch) -> float | None:
    """Compute from counts per launch or per cycle; `None` if not measured."""
    duration = launch.first(DURATION, seconds_in)
    clock = launch.first([("", name) for name in _CLOCKS], lambda unit: _HERTZ.get(unit.lower()))
    rates: dict[str, float] = {}
    for (_, name), figure in launch.metrics.items():
        counted = name.removesuffix(_PER_CYCLE)
        weight = 1 if _TENSOR_OPERATIONS.fullmatch(counted) else _OPERATIONS.get(counted, 0)
        if weight and name != counted and clock:
            rates.setdefault(counted, figure.value * weight * clock)
        elif weight and name == counted and duration:
            rates[counted] = figure.value * weight / duration
    return sum(rates.values()) if rates else None


def _as_it_is(_: str) -> float:
    return 1.0


def _excess_sectors(launch: KernelLaunch) -> float | None:
    """Return the share from its own metrics, else from a rule, else from sectors per request."""
    excess, whole = (launch.first((key,), _as_it_is) for key in _OTHERS["excess_sectors"])
    if excess is not None and whole:
        return min(1.0, excess / whole)
    # The ratio is 0 for loads or stores that do not occur.
    if used := [
        stated for key in _OTHERS["bytes_used"] if (stated := launch.first((key,), ratio_in))
    ]:
        return 1.0 - min(1.0, *used)
    if said := [match for rule in launch.rules if (match := _EXCESS_RULE.search(rule.text))]:
        return max(
            float(stated[1]) / 100 if stated[1] else 1.0 - int(stated[2]) / max(1, int(stated[3]))
            for stated in said
        )
    sectors, requests = (
        sum(launch.first((key,), _as_it_is) or 0.0 for key in _OTHERS[name])
        for name in ("sectors", "requests")
    )
    return max(0.0, 1.0 - _COALESCED_SECTORS * requests / sectors) if sectors and requests else None


def counts_tensor_cores(launch: KernelLaunch) -> bool | None:
    """By counters, else by a rule on the pipes; `None` if only parts are counted."""
    counted = {
        name: figure.value
        for (section, name), figure in launch.metrics.items()
        if not section and _TENSOR.match(name) and _PEAK not in name
    }
    least = {name: _LEAST_PERCENT if _PERCENT in name else 0.0 for name in counted}
    if any(value > least[name] for name, value in counted.items()):
        return True
    if any(map(_ALL_TENSOR.match, counted)):
        return False
    return True if any(_TENSOR_RULE.search(rule.text) for rule in launch.rules) else None
