"""A hand-made node report: one GPU for each case that a page must show."""

import itertools
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from publish_advice import node_advice
from readings import SERVING_SIGNALS
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.finding import Severity
from rightsizer.model.histogram import Histogram
from rightsizer.model.metric import (
    DETAIL_SIGNALS,
    DISTRIBUTION_SIGNALS,
    QUANTITY_SIGNALS,
    RATIO_GAUGES,
)
from rightsizer.model.metric_family import series_key
from rightsizer.model.reading import Process, Reading
from rightsizer.model.report import (
    AgentReport,
    DeviceReport,
    JobReport,
    NodeReport,
    Report,
    StripCell,
    Totals,
)
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import CollectorOutcome
from rightsizer.model.state import Cause, Resource, State, Tier
from rightsizer.model.topology import GpuLink, LinkKind, Topology
from rightsizer.model.units import NANOSECONDS_PER_SECOND, nanoseconds
from rightsizer.model.window import Provisioning, ResourceProvisioning
from rightsizer.model.workload import Holding
from sample_devices import (
    GIB,
    HOUR,
    INSTANCE,
    NOW,
    PARENT,
    SAMPLE_DEVICES,
    TRAINING,
    SampleDevice,
    uuid_of,
)

_OF_AN_H100 = tuple(
    signal
    for signal in (*RATIO_GAUGES, *QUANTITY_SIGNALS, *DETAIL_SIGNALS)
    if signal not in SERVING_SIGNALS
    and signal is not Signal.FAN_SPEED
    and not signal.startswith("retired_pages")
)
"""What a passive board with row remapping gives on the profiling tier, serving no one."""

_COLLECTORS = (
    "gpm",
    "utilization",
    "memory",
    "power",
    "clocks",
    "temperature",
    "pcie",
    "nvlink",
    "processes",
    "health",
    "xid",
    "host",
    "owners",
    "kubelet",
    "dcgm",
)
_NO_MESSAGES = dict.fromkeys(("debug", "info", "warning", "error", "critical"), 0.0)

_ACHIEVED = {
    State.IDLE_EMPTY: (Cause.IDLE, 0.0),
    State.IDLE_HELD: (Cause.IDLE, 0.0),
    State.HIDDEN_STALL: (Cause.STALLED, 0.02),
    State.STORAGE_BOUND: (Cause.STORAGE, 0.2),
    State.HOST_BOUND: (Cause.HOST, 0.3),
    State.PCIE_BOUND: (Cause.PCIE, 0.4),
    State.LAUNCH_BOUND: (Cause.LAUNCH, 0.2),
    State.COMPUTE_BOUND: (Cause.HEADROOM, 0.85),
    State.MEMORY_BANDWIDTH_BOUND: (Cause.HEADROOM, 0.85),
    State.PRODUCTIVE: (Cause.HEADROOM, 0.55),
}


def node_report(generation: int = 1) -> Report:
    """The whole node, MIG parent and instance among its eight GPUs."""
    return Report(
        generation,
        NOW,
        tuple(device_report(index, sample) for index, sample in enumerate(SAMPLE_DEVICES)),
        node_advice(),
        agent_report(),
    )


def full_report(count: int = 8) -> Report:
    """As many whole GPUs that give everything which can be exported, for counting series."""
    sample = replace(SAMPLE_DEVICES[0], needs=dict.fromkeys(Resource, 0.5))
    devices = []
    for index in range(count):
        report = device_report(0, sample)
        device = replace(report.device, uuid=uuid_of(index + 100), index=index)
        holding = Holding(replace(TRAINING, key=f"kubernetes/research/job-{index}"), 1.0)
        signals = dict.fromkeys(_OF_AN_H100, 0.5) | dict(report.signals)
        devices.append(
            replace(report, device=device, signals=signals, holdings=(holding,)),
        )
    agent = agent_report()
    jobs = tuple(_job(job.name, 1560, 0.01) for job in agent.jobs)
    agent = replace(agent, jobs=jobs)
    return Report(1, NOW, tuple(devices), node_advice(), agent, _node(devices))


def _node(devices: Sequence[DeviceReport]) -> NodeReport:
    """Versions, and the way between any two GPUs of a tray of eight."""
    uuids = [report.device.uuid for report in devices]
    links = [
        GpuLink(one, other, LinkKind.NVLINK, 18)
        for tray in range(0, len(uuids), 8)
        for one, other in itertools.combinations(uuids[tray : tray + 8], 2)
    ]
    return NodeReport(
        driver={"driver_version": "570.124.06", "cuda_version": "12.8"},
        topology=Topology(links=tuple(links)),
    )


def device_report(index: int, sample: SampleDevice) -> DeviceReport:
    """A story's device as it stands at the end of its day."""
    device = _device(index)
    is_silent = sample.tier is Tier.NONE or sample.down is not None
    signals = {} if is_silent else _signals(sample)
    last_sample = NOW - 9 * HOUR if sample.down else NOW
    strip = _strip(sample)
    return DeviceReport(
        device,
        sample.down,
        last_sample,
        None
        if is_silent
        else Reading(
            device.uuid,
            NOW,
            signals,
            processes=(Process(4242),),
            origins={Signal.GPU_BUSY: "gpm" if sample.tier is Tier.PROFILING else "utilization"},
        ),
        signals,
        _state(sample),
        frozenset() if is_silent else frozenset(sample.conditions),
        sample.tier,
        _totals(sample, strip),
        {} if is_silent else {name: _provisioning(sample) for name in ("24h", "7d", "current")},
        strip,
        (Holding(sample.workload, 1.0),) if sample.workload else (),
        xids=XidLog({}),
    )


def agent_report() -> AgentReport:
    """An agent in good health but for one collector, with a job that failed once."""
    outcomes = dict.fromkeys(_COLLECTORS, CollectorOutcome(True, 0.0123))
    return AgentReport(
        "0.1.0",
        "nvml",
        NOW - 26 * HOUR,
        1.0,
        collectors={**outcomes, "processes": CollectorOutcome(False, 1.0)},
        jobs=(
            _job("recommend", 156, 0.21, failures=1),
            JobReport("annotate"),
            _job("flush", 1560, 0.004),
            _job("prune", 26, 0.03),
        ),
        metrics={
            "rightsizer_samples_total": 93600.0,
            **{
                series_key("rightsizer_log_messages_total", level=level): count
                for level, count in {**_NO_MESSAGES, "info": 40.0, "warning": 3.0}.items()
            },
            series_key(
                "rightsizer_advice_outcomes_total", reason="IdleHeld", outcome="succeeded"
            ): 2.0,
            "rightsizer_history_size_bytes": 25e6,
            "rightsizer_recommender_findings": 3.0,
            "rightsizer_recommender_abstentions": 1.0,
            "rightsizer_workers_abandoned": 0.0,
            "rightsizer_annotations_pending": 0.0,
            "rightsizer_config_last_reload_successful": 1.0,
            "rightsizer_config_last_reload_success_timestamp_seconds": 1.7677e9,
        },
    )


def _job(name: str, runs: int, duration_seconds: float, failures: int = 0) -> JobReport:
    return JobReport(
        name,
        runs,
        failures,
        last_start=NOW - 300 * NANOSECONDS_PER_SECOND,
        last_success=NOW - 299 * NANOSECONDS_PER_SECOND,
        last_duration_seconds=duration_seconds,
    )


def _device(index: int) -> Device:
    is_ampere = index in {PARENT, INSTANCE}
    mig = MigInstance(uuid_of(PARENT), "3g.40gb", 2, 0, 3 / 7, 4 / 8) if index == INSTANCE else None
    return Device(
        uuid_of(index),
        min(index, PARENT) if index <= INSTANCE else 7,
        "NVIDIA A100-SXM4-80GB" if is_ampere else "NVIDIA H100 80GB HBM3",
        "A100-SXM4-80GB" if is_ampere else "H100-SXM5-80GB",
        "Ampere" if is_ampere else "Hopper",
        f"00000000:{0x19 + index:02X}:00.0",
        0 if index < 4 else 1,
        mig,
        has_mig_instances=index == PARENT,
        memory_total_bytes=80 * GIB * (mig.memory_share if mig else 1.0),
        power_limit_watts=None if mig else 700.0,
    )


def _signals(sample: SampleDevice) -> dict[Signal, float]:
    memory_total = 80 * GIB
    return {
        Signal.GPU_BUSY: sample.busy,
        Signal.SM_ACTIVE: sample.sm,
        Signal.SM_WORK: sample.sm * 0.97,
        Signal.TENSOR_ACTIVE: sample.tensor,
        Signal.DRAM_ACTIVE: sample.dram,
        Signal.MEMORY_USED: sample.memory,
        Signal.MEMORY_USED_BYTES: sample.memory * memory_total,
        Signal.MEMORY_TOTAL_BYTES: memory_total,
        Signal.POWER: sample.power,
        Signal.POWER_WATTS: 70 + sample.power * 630,
        Signal.POWER_LIMIT_WATTS: 700.0,
        Signal.ENERGY_JOULES: 123_456_789.5,
        Signal.TEMPERATURE_CELSIUS: 31 + 35 * sample.power,
        Signal.SM_CLOCK_HERTZ: 1.92e9,
        Signal.CLOCK_EVENT_REASONS: float(sample.clock_event_reasons),
        Signal.PCIE_LINK_GENERATION: 5.0,
        Signal.PCIE_LINK_WIDTH: 16.0,
        Signal.PROCESS_COUNT: 1.0,
    }


def _state(sample: SampleDevice) -> State:
    if sample.down or not sample.day:
        return State.UNKNOWN
    shares = sample.day[-1][1]
    return max(shares, key=lambda state: shares[state])


def _strip(sample: SampleDevice) -> tuple[StripCell, ...]:
    cells: list[StripCell] = []
    start = NOW - 24 * HOUR
    step = HOUR // 6
    for hours, shares in sample.day:
        for number in range(round(hours * 6)):
            # A slow wave, so that neighbors differ as they do in life.
            swing = 0.15 * (((number * 7) % 11) / 10 - 0.5)
            bent = _bent(shares, swing)
            states = {state: round(share * step) for state, share in bent.items()}
            largest = max(states, key=lambda state: states[state])
            states[largest] += step - sum(states.values())
            cells.append(StripCell(start, start + step, states))
            start += step
    return tuple(cells)


def _bent(shares: Mapping[State, float], swing: float) -> dict[State, float]:
    if len(shares) == 1:
        return dict(shares)
    first, *others = shares
    moved = min(max(shares[first] * swing, -shares[first] / 2), (1 - shares[first]) / 2)
    rest = 1 - shares[first]
    return {first: shares[first] + moved} | {
        state: shares[state] * (rest - moved) / rest for state in others
    }


def _totals(sample: SampleDevice, strip: Sequence[StripCell]) -> Totals:
    state_seconds = dict.fromkeys(State, 0.0)
    waste_seconds = dict.fromkeys(Cause, 0.0)
    used = 0.0
    for cell in strip:
        for state, time in cell.states.items():
            state_seconds[state] += time / NANOSECONDS_PER_SECOND
    for state, duration in state_seconds.items():
        if state is not State.UNKNOWN:
            cause, achieved = _ACHIEVED[state]
            used += duration * achieved
            waste_seconds[cause] += duration * (1 - achieved)
    distributions = {} if sample.tier is Tier.NONE else _distributions(sample)
    return Totals(
        state_seconds,
        sample.conditions,
        waste_seconds,
        {cause: duration * 300 for cause, duration in waste_seconds.items()},
        used,
        used * 600,
        distributions,
        {
            signal: (distribution.mean() or 0.0) * 86_400
            for signal, distribution in distributions.items()
        },
    )


def _distributions(sample: SampleDevice) -> dict[Signal, Histogram]:
    levels = (sample.busy, sample.sm, sample.tensor, sample.dram, sample.memory, sample.power)
    distributions = {}
    for signal, level in zip(DISTRIBUTION_SIGNALS, levels, strict=True):
        histogram = Histogram()
        histogram.add(level, nanoseconds(60_000.0))
        histogram.add(level / 2, nanoseconds(20_000.5))
        histogram.add(0.0, nanoseconds(6_399.5))
        distributions[signal] = histogram
    return distributions


def _provisioning(sample: SampleDevice) -> Provisioning:
    resources = {
        resource: ResourceProvisioning(
            demand=need / 1.15,
            need=need,
            overprovisioned=max(0.0, 1 - need),
            saturated=0.42 if need > 0.9 else 0.0,
            underprovisioned=sample.pressed.get(resource, 0.0)
            if resource is Resource.MEMORY
            else None,
        )
        for resource, need in sample.needs.items()
    }
    under = max(sample.pressed.values(), default=0.0)
    largest = max(sample.needs.values())
    return Provisioning(
        resources=resources,
        overprovisioned=0.0 if under > 0 else max(0.0, 1 - largest),
        underprovisioned=under,
        compute_need_at_least=sample.needs[Resource.COMPUTE] * 0.8,
        tier=sample.tier,
        coverage_ratio=0.99,
        active_seconds=50_000.0,
        known_seconds=85_536.0,
    )


def rated_report() -> Report:
    """The node with recommendations of several severities, the lowest first."""
    report = node_report()
    severities = (Severity.LOW, Severity.MEDIUM, Severity.CRITICAL, Severity.HIGH)
    return replace(
        report,
        advice=tuple(
            replace(piece, finding=replace(piece.finding, severity=severity))
            for piece, severity in zip(report.advice, severities, strict=True)
        ),
    )
