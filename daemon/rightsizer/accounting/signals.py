"""Signals of a reading as ratios of the device's capacity, their tier, and usage by resource."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rightsizer.accounting.classification_settings import SignalSettings, UsageSettings
from rightsizer.accounting.definitions import (
    CLOCK_RATIO,
    COUNTERS,
    DEAD_COUNTERS,
    DERIVED,
    LOSSES,
    RATIOS,
    SATURATED,
    SM_WORK,
    TIERS,
    USED,
    USED_COMPUTE,
    USED_RATIO,
)
from rightsizer.accounting.expressions import Highest, Term
from rightsizer.accounting.float_interpreter import FloatInterpreter, Values, closed
from rightsizer.model.members import members
from rightsizer.model.values import (
    HOST_SIGNALS,
    RATIO_SIGNALS,
    THROTTLES,
    Cause,
    Condition,
    Device,
    Reading,
    Resource,
    Signal,
    State,
    Tier,
    link_bytes_per_second,
)

_Signal = members(Signal)
_State = members(State)

_COUNTERS: Final = frozenset(COUNTERS)

_FACTS: Final = frozenset(
    {
        "achievable_bandwidth_ratio",
        "achievable_compute_ratio",
        "clock_ratio",
        "idle_watts",
        "is_out_of_balance",
        "is_preallocated",
        "loaded_link_generation",
        "memory_capacity_bytes",
        "memory_total_bytes",
        "nvlink_bytes_per_second",
        "pcie_bytes_per_second",
        "pcie_generation_stated",
        "pcie_width_stated",
        "peer_stalls",
        "power_capacity_watts",
    }
)
"""Names beside the signals, set by those that evaluate expressions over them."""

Steps = Sequence[tuple[str, Callable[[Values], Any]]]
"""Names with the terms whose values they get, in order."""


class SignalLayout:
    """Known signals, and what derives from them; nearly all readings of a device share one."""

    def __init__(self, signals: frozenset[Signal]) -> None:
        self.known = signals
        self.counters = tuple(filter(self.known.__contains__, COUNTERS))
        self.names: set[str] = {*signals, *_FACTS}
        """What may be known: signals, facts, derived terms."""
        self._certain: set[str] = set(signals)
        self.derived = self.steps(DERIVED, None)
        compiler = self.compiler(None)
        self.tier = next(tier for tier, claim in TIERS if compiler.test(claim))

    def compiler(self, settings: object) -> FloatInterpreter:
        """Compiler of expressions for this layout."""
        return FloatInterpreter(settings, self.names, self._certain)

    def steps(self, terms: Mapping[str, Term], settings: object) -> Steps:
        """Compile terms that later expressions name; skip those that are unknown."""
        steps: list[tuple[str, Callable[[Values], Any]]] = []
        for name, term in terms.items():
            value = self.compiler(settings).term(term)
            if value is not None:
                steps.append((name, closed(value)))
                self.names.add(name)
            if value is not None and isinstance(term, Highest):
                self._certain.add(name)
        return steps


LAYOUTS_KEPT: Final = 64
"""Source: measured, 100 KiB each; a node of eight GPUs whose owners change each minute has few."""
_ORDERS_KEPT: Final = 256
_layout: Final = lru_cache(maxsize=LAYOUTS_KEPT)(SignalLayout)


@lru_cache(maxsize=_ORDERS_KEPT)
def _layout_in_order(signals: tuple[Signal, ...]) -> SignalLayout:
    """Layout of signals in the order in which collectors gave them, which makes no other one."""
    return _layout(frozenset(signals))


def layout_of(signals: Mapping[Signal, float]) -> SignalLayout:
    """Layout of the known signals."""
    return _layout_in_order(tuple(signals))


class StateEvidence:
    """Signals of an interval, and what derives from them, as expressions read them."""

    def __init__(
        self,
        signals: Mapping[Signal, float],
        memory_total_bytes: float | None = None,
        *,
        peer_stalls: bool = False,
        clock_ratio: float = 1.0,
    ) -> None:
        """Collect the evidence; the clock ratio is the SM clock over its maximum.

        `peer_stalls` means that another device of the workload looks stalled at the same time.
        """
        self.signals = signals
        self.layout = layout = layout_of(signals)
        self.clock_ratio = clock_ratio
        self.busy = signals.get(_Signal.GPU_BUSY)
        self.values: dict[Any, Any] = dict(signals)
        self.values["memory_total_bytes"] = memory_total_bytes
        self.values["clock_ratio"] = clock_ratio
        self.values["peer_stalls"] = peer_stalls
        for name, term in layout.derived:
            self.values[name] = term(self.values)


def derive_signals(  # noqa: PLR0913 - everything that bears on what was read.
    reading: Reading,
    device: Device,
    host: Mapping[Signal, float],
    idle_watts: float | None,
    settings: SignalSettings,
    *,
    counters_were_dead: bool = False,
) -> dict[Signal, float]:
    """Derive all signals of a reading, including ratios of the device's capacity.

    Ratios are clamped to 0..1: profiling counters of MIG instances may exceed 1
    (NVIDIA/DCGM#152). Profiling counters that read 0 on a busy device that draws power are dead
    (dcgm-exporter#662) and dropped; if dropped in the previous reading, they stay so until one
    is nonzero. Host signals fill in missing ones.
    """
    signals = dict(reading.values)
    layout = layout_of(signals)
    for signal, value in reading.values.items():
        if not 0.0 <= value <= 1.0 and signal in RATIO_SIGNALS:
            signals[signal] = _ratio(value)
    if host:
        signals.update(
            {host_signal: host[host_signal] for host_signal in HOST_SIGNALS if host_signal in host}
            | signals
        )
    ratios = _ratios(layout)
    if ratios:
        facts = signals | _capacities(signals, device, idle_watts)
        for signal, term in ratios:
            value = term(facts)
            if value is not None:
                signals[signal] = value
    if layout.counters:
        _drop_dead_counters(signals, layout.counters, settings, were_dead=counters_were_dead)
    active = signals.get(_Signal.SM_ACTIVE)
    if active is not None and _Signal.SM_WORK not in signals:
        clock = clock_ratio(signals, device)
        signals[_Signal.SM_WORK] = _sm_work({"sm_active": active, "clock_ratio": clock})
    return signals


@lru_cache(maxsize=LAYOUTS_KEPT)
def _ratios(layout: SignalLayout) -> Sequence[tuple[Signal, Callable[[Values], Any]]]:
    compiler = layout.compiler(None)
    terms = ((signal, compiler.term(term)) for signal, term in RATIOS if signal not in layout.known)
    return [(signal, closed(term)) for signal, term in terms if term is not None]


def _capacities(
    signals: Mapping[Signal, float], device: Device, idle_watts: float | None
) -> dict[str, float | None]:
    get = signals.get
    return {
        "idle_watts": idle_watts,
        "memory_capacity_bytes": get(_Signal.MEMORY_TOTAL_BYTES) or device.memory_total_bytes,
        "power_capacity_watts": get(_Signal.POWER_LIMIT_WATTS) or device.power_limit_watts,
        "nvlink_bytes_per_second": device.nvlink_bytes_per_second,
        "pcie_bytes_per_second": link_bytes_per_second(
            get(_Signal.PCIE_LINK_GENERATION, device.pcie_generation_maximum),
            get(_Signal.PCIE_LINK_WIDTH, device.pcie_width_maximum),
        ),
    }


def has_dead_counters(reading: Reading, signals: Mapping[Signal, float]) -> bool:
    """Whether a reading's profiling counters were dropped."""
    return bool(layout_of(reading.values).counters) and _COUNTERS.isdisjoint(signals)


def tier_of(signals: Mapping[Signal, float]) -> Tier:
    """Telemetry tier of these signals."""
    return layout_of(signals).tier


_clock_ratio: Final = closed(
    FloatInterpreter(None, ("sm_clock_hertz", "sm_clock_capacity_hertz")).term(CLOCK_RATIO)
)


_sm_work: Final = closed(FloatInterpreter(None, ("sm_active", "clock_ratio")).term(SM_WORK))
_power_ratio: Final = closed(
    FloatInterpreter(None, ("power_watts", "power_capacity_watts", "idle_watts")).term(
        dict(RATIOS)[Signal.POWER]
    )
)


def power_ratio(watts: float | None, limit: float | None, idle_watts: float | None) -> float | None:
    """Power between idle and limit as a ratio; `None` if unknown."""
    ratio: float | None = _power_ratio(
        {"power_watts": watts, "power_capacity_watts": limit, "idle_watts": idle_watts}
    )
    return ratio


def clock_ratio(signals: Mapping[Signal, float], device: Device) -> float:
    """SM clock over its maximum; 1 if either is unknown."""
    maximum = signals.get(_Signal.SM_CLOCK_MAXIMUM_HERTZ) or device.sm_clock_maximum_hertz
    clock = signals.get(_Signal.SM_CLOCK_HERTZ)
    ratio: float = _clock_ratio({"sm_clock_hertz": clock, "sm_clock_capacity_hertz": maximum})
    return ratio


def _ratio(value: float) -> float:
    return 1.0 if value > 1.0 else max(0.0, value)


def _drop_dead_counters(
    signals: dict[Signal, float],
    counters: tuple[Signal, ...],
    settings: SignalSettings,
    *,
    were_dead: bool,
) -> None:
    if any(signals[counter] for counter in counters):
        return
    if were_dead or _dead_counters(settings)(
        {"gpu_busy": signals.get(_Signal.GPU_BUSY), "power": signals.get(_Signal.POWER)}
    ):
        for counter in counters:
            del signals[counter]


@lru_cache(maxsize=4)
def _dead_counters(settings: SignalSettings) -> Callable[[Values], Any]:
    return closed(FloatInterpreter(settings, ("gpu_busy", "power")).test(DEAD_COUNTERS))


class DeviceUsage(NamedTuple):
    """Usage of a device by resource."""

    shares: Mapping[Resource, float]
    compute_at_least: float | None
    saturated: frozenset[Resource]
    used_ratio: float | None
    """Of the busiest resource's achievable part; memory capacity does not count as work."""


class _Usage:
    """Compiled use of each resource, for a layout."""

    def __init__(self, layout: SignalLayout, settings: UsageSettings) -> None:
        self.steps = layout.steps(USED_COMPUTE, settings)
        compiler = layout.compiler(settings)
        shares = ((resource, compiler.term(term)) for resource, term in USED)
        self.shares = [(resource, closed(term)) for resource, term in shares if term is not None]
        limits = ((resource, compiler.test(claim)) for resource, claim in SATURATED)
        self.limits = [(resource, closed(test)) for resource, test in limits if test]
        self.used = closed(compiler.term(USED_RATIO))


_usage: Final = lru_cache(maxsize=LAYOUTS_KEPT)(_Usage)


def usage(evidence: StateEvidence, device: Device, settings: UsageSettings) -> DeviceUsage:
    """Usage of each measured resource.

    Compute has two bounds: the busiest pipe over its achievable share, and the SM activity, both
    scaled by the clock. Without profiling it is the busy share, scaled by power if known
    (docs/definitions.md, provisioning).
    """
    compiled = _usage(evidence.layout, settings)
    values = evidence.values
    values["achievable_compute_ratio"] = device.achievable_compute_ratio
    values["achievable_bandwidth_ratio"] = device.achievable_bandwidth_ratio
    for name, term in compiled.steps:
        values[name] = term(values)
    shares = {}
    for resource, term in compiled.shares:
        share = term(values)
        if share is not None:
            shares[resource] = share
    return DeviceUsage(
        shares,
        values.get("compute_at_least"),
        frozenset([resource for resource, test in compiled.limits if test(values)]),
        compiled.used(values),
    )


_losses: Final = {
    state: [
        (
            cause,
            closed(FloatInterpreter(None, ("gpu_busy", "clock_ratio", "is_throttled")).term(limit)),
        )
        for cause, limit in losses
    ]
    for state, losses in LOSSES.items()
}


def waste(
    state: State,
    conditions: frozenset[Condition],
    used_ratio: float | None,
    clock: float,
    busy: float | None = None,
) -> dict[Cause, float]:
    """Unused share of an interval by cause; adds up to 1 with the used share.

    Empty if the state or the usage is unknown.
    """
    if used_ratio is None or state is _State.UNKNOWN:
        return {}
    unused = 1.0 - used_ratio
    values = {
        "gpu_busy": busy,
        "clock_ratio": clock,
        "is_throttled": not conditions.isdisjoint(THROTTLES),
    }
    parts: dict[Cause, float] = {}
    for cause, limit in _losses[state]:
        part = min(unused, limit(values))
        if part > 0.0:
            parts[cause] = part
            unused -= part
    return parts
