"""Workloads of any kind and trouble, on GPUs with more or less known data."""

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from block_cases import BLOCKS_A_DAY, Course, case_of
from cases import NOW, histogram, window
from readings import GIBIBYTE, HOUR, gpu
from rightsizer.model.block import Measure
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.finding import Case
from rightsizer.model.signal import Signal
from rightsizer.model.state import IDLE_STATES, Cause, Condition, Resource, State, Tier
from rightsizer.model.topology import Bridge, Placement
from rightsizer.model.window import Window
from rightsizer.model.workload import Allocator, Holding, Workload, WorkloadClass, WorkloadKind
from standing_cases import around, joined

__all__ = ["Load", "cases", "hazier", "loads", "reordered", "turned"]

_MOST: Final = 3
_TIERS: Final = (Tier.PROFILING, Tier.PROFILING, Tier.POWER, Tier.BASIC, Tier.NONE)
_SHARES: Final = (Measure.COMPUTE, Measure.MEMORY_BANDWIDTH, Measure.PCIE, Measure.NVLINK)
_DEMANDS: Final = {
    Resource.COMPUTE: Measure.COMPUTE,
    Resource.MEMORY_BANDWIDTH: Measure.MEMORY_BANDWIDTH,
    Resource.PCIE: Measure.PCIE,
    Resource.NVLINK: Measure.NVLINK,
}
_CAPACITIES: Final = (
    "board",
    "memory_total_bytes",
    "power_limit_watts",
    "sm_clock_maximum_hertz",
    "pcie_generation_maximum",
    "pcie_width_maximum",
    "nvlink_bytes_per_second",
)
_VALUES: Final[Mapping[Signal, tuple[float | None, ...]]] = {
    Signal.POWER_LIMIT_WATTS: (None, 350.0, 700.0),
    Signal.SM_CLOCK_HERTZ: (None, 0.0, 1.2e9, 1.98e9),
    Signal.SM_CLOCK_MAXIMUM_HERTZ: (None, 0.0, 1.98e9),
    Signal.CLOCK_EVENT_REASONS: (None, 0.0, 4.0, 32.0, 128.0),
    Signal.PCIE_LINK_GENERATION: (None, 1.0, 5.0),
    Signal.PCIE_LINK_WIDTH: (None, 4.0, 16.0),
    Signal.NVLINK_LINKS_UP: (None, 0.0, 16.0, 18.0),
    Signal.HOST_MEMORY_LOCAL: (None, 0.0, 1.0),
    Signal.ECC_UNCORRECTED_ERRORS: (None, 0.0, 3.0),
    Signal.RECOVERY_ACTION: (None, 0.0, 1.0),
    Signal.TEMPERATURE_CELSIUS: (None, 88.0),
}


@st.composite
def _devices(draw: st.DrawFn) -> tuple[Device, ...]:
    if draw(st.integers(0, 5)) == 0:
        mig = MigInstance("GPU-0", "1g.10gb", 7, 0, 1 / 7, 1 / 8)
        return (gpu(0, uuid="MIG-0", mig=mig, memory_total_bytes=10 * GIBIBYTE),)
    missing = draw(st.sets(st.sampled_from(_CAPACITIES), max_size=2))
    facts: dict[str, Any] = dict.fromkeys(missing)
    if draw(st.booleans()):
        facts |= {"power_limit_minimum_watts": 200.0, "power_limit_maximum_watts": 700.0}
    return tuple(gpu(index, **facts) for index in range(draw(st.integers(1, _MOST))))


@st.composite
def _owners(draw: st.DrawFn) -> Workload | None:
    if draw(st.integers(0, 6)) == 0:
        return None
    return Workload(
        "kubernetes:web/chat",
        draw(st.sampled_from(WorkloadKind)),
        "chat",
        draw(st.sampled_from(WorkloadClass)),
        draw(st.sampled_from(Allocator)),
        namespace=draw(st.sampled_from(["", "web"])),
    )


@st.composite
def _courses(draw: st.DrawFn, tier: Tier, memory: float | None) -> Course:
    """Steady, by the hour, or in bursts; a part of it may be unknown."""
    kind = draw(st.sampled_from(["none", "steady", "daily", "bursts"]))
    level = draw(st.floats(0.0, 1.0))
    rest = draw(st.sampled_from([0.0, 0.05]))
    shares = {measure: draw(st.floats(0.0, 1.0)) for measure in _SHARES}
    held = draw(st.floats(0.0, 1.0))
    every = draw(st.integers(2, 50))

    def course(number: int) -> dict[Measure, float] | None:
        hour = number % BLOCKS_A_DAY // 12
        is_on = {"steady": True, "daily": 8 <= hour < 20, "bursts": number % every == 0}
        if kind == "none" or tier is Tier.NONE:
            return None
        load = level if is_on[kind] else rest
        values = {Measure.BUSY: load}
        if tier is Tier.PROFILING:
            values |= {measure: load * share for measure, share in shares.items()}
            values[Measure.COMPUTE_AT_LEAST] = values[Measure.COMPUTE] / 2
        if memory:
            values |= {Measure.MEMORY: held, Measure.MEMORY_BYTES: held * memory}
        return values

    return course


@st.composite
def _windows(draw: st.DrawFn, tier: Tier, days: float) -> Window:
    """In one state for most of the time, or in several."""
    parts = draw(
        st.dictionaries(st.sampled_from(State), st.floats(0.01, 1.0), min_size=1, max_size=4)
    )
    total = sum(parts.values())
    hours = {state: 24.0 * days * part / total for state, part in sorted(parts.items())}
    known = sum(hour for state, hour in hours.items() if state is not State.UNKNOWN)
    active = known - sum(hours.get(state, 0.0) for state in IDLE_STATES)
    demands: dict[Resource, dict[float, float]] = {}
    if tier is not Tier.NONE and active > 0.0:
        for resource in draw(st.sets(st.sampled_from(Resource))):
            demands[resource] = {draw(st.floats(0.0, 1.0)): active}
    pressed = {each: draw(st.floats(0.0, 1.0)) for each in draw(st.sets(st.sampled_from(Resource)))}
    conditions = {
        each: round(draw(st.floats(0.0, 1.0)) * known * HOUR)
        for each in draw(st.sets(st.sampled_from(Condition), max_size=3))
    }
    return window(
        hours,
        demands,
        tiers={tier: round(known * HOUR)} if known else {},
        conditions=conditions,
        pressed={each: round(share * active * HOUR) for each, share in pressed.items()},
        saturated={each: round(active * HOUR) for each in pressed},
        waste_seconds={cause: draw(st.floats(0.0, 1.0)) * known * 600 for cause in Cause},
        energy_joules=draw(st.sampled_from([0.0, 300.0 * known * 3600])),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A workload, or a GPU without a holder, with its past and perhaps the node around it."""
    devices = draw(_devices())
    owner = draw(_owners())
    tier = draw(st.sampled_from(_TIERS))
    days = draw(st.sampled_from([0.05, 1.0, 3.0]))
    if owner is None:
        devices = devices[:1]
    memory = devices[0].memory_total_bytes
    judged = case_of(
        [draw(_courses(tier, memory)) for _ in devices],
        days,
        owner,
        devices=devices,
        windows=[draw(_windows(tier, days)) for _ in devices],
        peak_ratio=draw(st.sampled_from([1.0, 1.3])),
    )
    return draw(_surrounded(judged)) if draw(st.booleans()) else judged


@st.composite
def _surrounded(draw: st.DrawFn, judged: Case) -> Case:
    devices = judged.devices
    owner = judged.workload
    others: tuple[Device, ...] = (gpu(7),)
    boards = [*devices, *others]
    if devices[0].mig is not None:
        boards.append(gpu(0, has_mig_instances=True))
        others = (gpu(7), gpu(0, has_mig_instances=True))
    values = {
        board.uuid: {
            signal: draw(st.sampled_from(choices))
            for signal, choices in _VALUES.items()
            if draw(st.booleans())
        }
        for board in boards
    }
    bridge = Bridge("0000:00:01.0", 4, 8, draw(st.sampled_from([None, 3, 5])), 16)
    placements = {
        board.uuid: Placement(
            board.uuid, "0000:1b:00.0", board.index % 2, cpus=(0, 1, 2), bridges=(bridge,)
        )
        for board in boards
    }
    xids = {board.uuid: XidLog({79: 1}, 79, NOW) for board in boards if draw(st.booleans())}
    holdings = (
        {}
        if owner is None
        else {device.uuid: (Holding(owner, 1.0, draw(st.booleans())),) for device in devices}
    )
    return around(
        judged,
        values,
        others=others,
        xids=xids,
        holdings=holdings,
        topology=draw(st.sampled_from([None, joined({}, len(devices), placements=placements)])),
        cases=(judged,),
    )


class Load(Struct, frozen=True):
    """A service's load on each of its GPUs, as fractions of one."""

    by_hour: tuple[float, ...]
    """The load by hour of a day."""
    shares: Mapping[Measure, float]
    memory: float
    count: int
    workload_class: WorkloadClass

    def times(self, factor: float) -> "Load":
        """A multiple of it, up to the GPUs' limit."""
        return replace(
            self,
            by_hour=tuple(min(1.0, each * factor) for each in self.by_hour),
            shares={measure: min(1.0, share * factor) for measure, share in self.shares.items()},
            memory=min(0.95, self.memory * factor),
        )

    def case(self, days: float) -> Case:
        """A workload after some days of this load, with all profiling signals."""
        total = 80 * GIBIBYTE

        def course(number: int) -> dict[Measure, float]:
            load = self.by_hour[number % BLOCKS_A_DAY // 12]
            found = {measure: load * share for measure, share in self.shares.items()}
            found[Measure.COMPUTE_AT_LEAST] = found[Measure.COMPUTE] / 4
            held = {Measure.MEMORY: self.memory, Measure.MEMORY_BYTES: self.memory * total}
            return {Measure.BUSY: load, **found, **held}

        mean = sum(self.by_hour) / len(self.by_hour)
        hours = 24.0 * days
        demands = {resource: {self.shares[demand]: hours} for resource, demand in _DEMANDS.items()}
        demands[Resource.MEMORY] = {self.memory: hours}
        working = {State.PRODUCTIVE: hours * max(mean, 0.5), State.IDLE_HELD: hours * 0.5}
        return case_of(
            [course] * self.count,
            days,
            Workload(
                "kubernetes:web/chat",
                WorkloadKind.KUBERNETES,
                "chat",
                self.workload_class,
                Allocator.GROWING,
            ),
            windows=[
                window(
                    working,
                    demands,
                    compute_at_least=histogram({self.shares[Measure.COMPUTE] / 4: hours}),
                )
            ]
            * self.count,
        )


@st.composite
def loads(draw: st.DrawFn) -> Load:
    """Loads of a service or a notebook, steady or by the hour."""
    level = draw(st.floats(0.02, 0.9))
    night = draw(st.sampled_from([1.0, 0.3, 0.05]))
    # Several bins of a histogram: in one or two, more load has another mix.
    return Load(
        by_hour=tuple(level if 8 <= hour < 20 else level * night for hour in range(24)),
        shares={measure: draw(st.floats(0.03, 0.2)) for measure in _SHARES}
        | {Measure.NVLINK: draw(st.sampled_from([0.0, 0.1]))},
        memory=draw(st.floats(0.01, 0.2)),
        count=draw(st.integers(1, 4)),
        workload_class=draw(st.sampled_from([WorkloadClass.SERVING, WorkloadClass.NOTEBOOK])),
    )


def turned(judged: Case) -> Case:
    """The same, its devices in reverse order."""
    return replace(
        judged,
        devices=judged.devices[::-1],
        windows=judged.windows[::-1],
        provisioning=judged.provisioning[::-1],
    )


def reordered(judged: Case) -> Case:
    """The same, every mapping of it in reverse order."""
    node = judged.node
    return replace(
        judged,
        windows=tuple(map(_backwards, judged.windows)),
        provisioning=tuple(
            replace(provisioning, resources=_backward(provisioning.resources))
            for provisioning in judged.provisioning
        ),
        node=None
        if node is None
        else replace(
            node,
            readings={
                uuid: replace(reading, values=_backward(reading.values))
                for uuid, reading in reversed([*node.readings.items()])
            },
            xids=_backward(node.xids),
            holdings=_backward(node.holdings),
        ),
    )


def hazier(judged: Case, hours: float) -> Case:
    """The same after some unknown time."""
    return replace(
        judged,
        windows=tuple(
            replace(
                each,
                start=each.start - round(hours * HOUR),
                states={
                    **each.states,
                    State.UNKNOWN: each.states.get(State.UNKNOWN, 0) + round(hours * HOUR),
                },
            )
            for each in judged.windows
        ),
    )


def _backwards(each: Window) -> Window:
    names = ("states", "conditions", "tiers", "saturated", "pressed", "waste_seconds", "demands")
    backward: dict[str, Any] = {name: _backward(getattr(each, name)) for name in names}
    return replace(each, **backward)


def _backward(values: Mapping[Any, Any]) -> dict[Any, Any]:
    return dict(reversed([*values.items()]))
