"""Three days of two GPUs and a MIG instance, made by hand, as a report is made of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cases import finding, histogram
from readings import DAY, EPOCH, HOUR, MINUTE, gpu
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.settings import ProvisioningSettings
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.finding import (
    Action,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
    Severity,
)
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window, workload_subject
from rightsizer.model.workload import Allocator
from rightsizer.report.facts import (
    Gap,
    PriceRate,
    ReportDeviceFacts,
    ReportFacts,
    RuleFacts,
    Slice,
    WorkloadFacts,
)

__all__ = ["DAYS", "HOSTILE", "RATE", "device_facts", "report_facts"]

DAYS: Final = 3
SPAN: Final[Nanoseconds] = DAYS * DAY
RATE: Final = PriceRate(
    2.0, 4.0, 2.5, "on_demand", "a list of prices", "2025-06 to 2025-11", "list prices"
)
HOSTILE: Final = "slurm/<script>alert('a|b')</script>"
"""A name that would run, or break a table, if anyone let it."""
TRAINER: Final = "kubernetes/research/trainer"

Hours = Mapping[State, float]


def device_facts(
    device: Device, days: Sequence[Hours], rate: PriceRate | None = RATE, **facts: Any
) -> ReportDeviceFacts:
    """A device by the hours of each state on each day, one after the other from midnight on."""
    slices: list[Slice] = []
    sums: dict[State, Nanoseconds] = {}
    for day, hours in enumerate(days):
        start = EPOCH + day * DAY
        for state, length in hours.items():
            for _ in range(round(length)):
                slices.append(Slice(start, {state: HOUR}))
                start += HOUR
            sums[state] = sums.get(state, 0) + round(length) * HOUR
    usual: dict[str, Any] = {"states": sums, "tiers": {Tier.PROFILING: sum(sums.values())}}
    window = Window(device.uuid, EPOCH, EPOCH + SPAN, **usual | facts)
    fit = provision(window, Allocator.GROWING, ProvisioningSettings())
    return ReportDeviceFacts(device, window, fit, tuple(slices), rate=rate)


def report_facts(**facts: Any) -> ReportFacts:
    """GPU 0 trains and waits, GPU 1 is held for nothing and then not read, a slice serves."""
    usual: dict[str, Any] = {
        "since": EPOCH,
        "until": EPOCH + SPAN,
        "history_start": EPOCH - 2 * DAY,
        "history_end": EPOCH + SPAN,
        "devices": (_trainer(), _held(), _slice()),
        "workloads": _workloads(),
        "advice": _advice(),
        "rules": (
            RuleFacts("host_bound", "HostBound", {"succeeded": 2, "failed": 1}, 30.5, 4.0),
            RuleFacts("idle", "IdleHeld", {"expired": 4, "dismissed": 1}, 0.0, 0.0),
        ),
        "gaps": (Gap((EPOCH + 2 * DAY + 20 * HOUR) / 1e9, (EPOCH + SPAN) / 1e9),),
        "version": "1.2.3",
    }
    return ReportFacts(**usual | facts)


def _trainer() -> ReportDeviceFacts:
    return _with_workloads(
        device_facts(
            gpu(0),
            [
                {State.COMPUTE_BOUND: 18, State.HOST_BOUND: 6},
                {State.COMPUTE_BOUND: 20, State.STORAGE_BOUND: 1, State.HIDDEN_STALL: 3},
                {State.COMPUTE_BOUND: 20},
            ],
            waste_seconds={
                Cause.HOST: 5.5 * 3600,
                Cause.STORAGE: 0.9 * 3600,
                Cause.STALLED: 3 * 3600.0,
                Cause.HEADROOM: 8 * 3600.0,
            },
            waste_joules={Cause.HOST: 5e6, Cause.STALLED: 2e6, Cause.HEADROOM: 9e6},
            used_seconds=50.6 * 3600,
            used_joules=1.1e8,
            energy_joules=1.26e8,
            conditions={Condition.POWER_THROTTLED: 9 * HOUR, Condition.NEAR_OUT_OF_MEMORY: HOUR},
            demands={
                Resource.COMPUTE: histogram({0.82: 60.0}),
                Resource.MEMORY: histogram({0.7: 50.0, 0.91: 10.0}),
                Resource.MEMORY_BANDWIDTH: histogram({0.4: 60.0}),
            },
            pressed={Resource.MEMORY: 5 * HOUR},
        ),
        TRAINER,
    )


def _held() -> ReportDeviceFacts:
    return _with_workloads(
        device_facts(
            gpu(1),
            [
                {State.IDLE_HELD: 24},
                {State.IDLE_HELD: 12, State.UNKNOWN: 12},
                {State.IDLE_EMPTY: 20},
            ],
            waste_seconds={Cause.IDLE: 56 * 3600.0},
            waste_joules={Cause.IDLE: 1.4e7},
            energy_joules=1.4e7,
        ),
        HOSTILE,
    )


def _slice() -> ReportDeviceFacts:
    part = MigInstance("GPU-9", "1g.10gb", 7, 0, 1 / 8, 1 / 8)
    return device_facts(
        gpu(2, uuid="MIG-2", mig=part),
        [{State.PRODUCTIVE: 24}, {State.PRODUCTIVE: 24}, {State.PRODUCTIVE: 20}],
        waste_seconds={Cause.HEADROOM: 40 * 3600.0},
        used_seconds=28 * 3600.0,
        demands={
            Resource.COMPUTE: histogram({0.3: 68.0}),
            Resource.MEMORY: histogram({0.5: 60.0, 0.2: 8.0}),
        },
    )


def _with_workloads(facts: ReportDeviceFacts, *keys: str) -> ReportDeviceFacts:
    return ReportDeviceFacts(
        facts.device, facts.window, facts.provisioning, facts.slices, keys, facts.rate
    )


def _workloads() -> tuple[WorkloadFacts, ...]:
    trainer = _trainer().window
    held = _held().window
    return (
        WorkloadFacts(TRAINER, _of_workload(trainer, TRAINER), (gpu(0).uuid,)),
        WorkloadFacts(HOSTILE, _of_workload(held, HOSTILE), (gpu(1).uuid,)),
    )


def _of_workload(window: Window, key: str) -> Window:
    return Window(
        workload_subject(key),
        window.start,
        window.end,
        window.states,
        waste_seconds=window.waste_seconds,
        waste_joules=window.waste_joules,
        used_seconds=window.used_seconds,
        energy_joules=window.energy_joules,
    )


def _advice() -> tuple[Advice, ...]:
    end = EPOCH + SPAN
    return (
        Advice(_release(), AdviceState.ACTIVE, EPOCH + 7 * HOUR, end),
        Advice(_larger(), AdviceState.CLAIMED, EPOCH + DAY, end, actor="ana"),
        Advice(
            _mended(),
            AdviceState.SUCCEEDED,
            EPOCH - DAY,
            EPOCH + DAY,
            closed=EPOCH + DAY,
            verified=EPOCH + DAY,
            realized_gpu_hours=12.5,
            why="waited 40% of the time before, 2% after",
        ),
        Advice(
            finding(id="ffffffffffff", rule="host_bound", reasons=(Reason.HOST_BOUND,)),
            AdviceState.FAILED,
            EPOCH - DAY,
            EPOCH + 30 * MINUTE,
            closed=EPOCH + 30 * MINUTE,
            realized_gpu_hours=0.0,
            why="nothing changed",
        ),
    )


def _release() -> Any:
    return finding(
        workload=HOSTILE,
        devices=(gpu(1).uuid,),
        summary=f"GPU 1 of {HOSTILE}: held and idle for 36 h.",
        confidence=0.97,
        severity=Severity.HIGH,
        savings=Savings(1.0, 1.0, 2.0, 4.0, "", 730.0, 730.0, 0.0, 51.1, "a list", "2025-11"),
        instructions=(Instruction("Delete it", "kubectl delete pod <script> & more", "sh"),),
        exclusive_group="g1",
    )


def _larger() -> Any:
    return finding(
        id="bbbbbbbbbbbb",
        rule="near_out_of_memory",
        kind=FindingKind.UNDERPROVISIONED,
        reasons=(Reason.GPU_MEMORY_UNDERPROVISIONED,),
        workload=TRAINER,
        action=Action.CHANGE_GPU_TYPE,
        summary="GPU 0 of trainer: memory nearly full.",
        options=(Option("NVIDIA H200", Risk.VERY_LOW),),
        confidence=0.72,
        severity=Severity.CRITICAL,
        risk=Risk.MEDIUM,
        savings=Savings(reason="it needs a larger GPU"),
    )


def _mended() -> Any:
    return finding(
        id="cccccccccccc",
        rule="host_bound",
        kind=FindingKind.INEFFICIENT,
        reasons=(Reason.HOST_BOUND,),
        workload=TRAINER,
        action=Action.FIX_INPUT_PIPELINE,
        summary="GPU 0 of trainer waited for the CPU.",
    )
