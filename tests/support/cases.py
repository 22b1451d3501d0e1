"""Windows, cases, findings and judgements made by hand, with usual values by default."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from readings import DAY, EPOCH, HOUR, gpu
from rightsizer.accounting.device_account import DeviceWindows
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.settings import ProvisioningSettings
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Judgement, OpeningPolicy, Rule
from rightsizer.model.block import BLOCK_SPAN, Blocks
from rightsizer.model.device import Device
from rightsizer.model.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Option,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Observation, Resource, State, Tier
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.model.window import Window
from rightsizer.model.workload import Allocator, Workload

NOW: Final[Nanoseconds] = EPOCH + 30 * DAY


def histogram(weights: Mapping[float, float]) -> Histogram:
    """A distribution of ratios by hours."""
    found = Histogram()
    for ratio, hours in weights.items():
        found.add(ratio, round(hours * HOUR))
    return found


def window(
    hours: Mapping[State, float],
    demands: Mapping[Resource, Mapping[float, float]] | None = None,
    **facts: Any,
) -> Window:
    """A window of GPU-0 that ends now: hours by state, and hours by ratio for each resource."""
    states = {state: round(hour * HOUR) for state, hour in hours.items()}
    known = sum(time for state, time in states.items() if state is not State.UNKNOWN)
    usual: dict[str, Any] = {
        "uuid": gpu().uuid,
        "start": NOW - sum(states.values()),
        "end": NOW,
        "states": states,
        "tiers": {Tier.PROFILING: known} if known else {},
        "observed": dict.fromkeys(Observation, known) if known else {},
        "demands": {resource: histogram(demand) for resource, demand in (demands or {}).items()},
    }
    return Window(**usual | facts)


def case(
    windows: Sequence[Window],
    workload: Workload | None = None,
    devices: Sequence[Device] | None = None,
) -> Case:
    """Input of a rule: the windows of a workload's devices, one for each."""
    found = tuple(gpu(index) for index in range(len(windows))) if devices is None else devices
    allocator = workload.allocator if workload else Allocator.UNKNOWN
    of_devices = [
        replace(each, uuid=device.uuid) for each, device in zip(windows, found, strict=True)
    ]
    return Case(
        key=workload.key if workload else found[0].uuid,
        workload=workload,
        devices=tuple(found),
        windows=tuple(of_devices),
        provisioning=tuple(
            provision(device, allocator, ProvisioningSettings()) for device in of_devices
        ),
    )


def finding(**facts: Any) -> Finding:
    """A finding of the rule `idle` on the workload `slurm/llama`."""
    usual: dict[str, Any] = {
        "id": "aaaaaaaaaaaa",
        "rule": "idle",
        "kind": FindingKind.IDLE,
        "reasons": (Reason.IDLE_HELD,),
        "devices": ("GPU-0",),
        "culprits": (),
        "workload": "slurm/llama",
        "action": Action.RELEASE,
        "summary": "GPU 0: held but idle.",
        "options": (Option("let it go", Risk.LOW),),
        "confidence": 0.9,
        "confidence_factors": {"tier": 1.0, "coverage": 0.9},
        "risk": Risk.LOW,
        "savings": Savings(reason="no price"),
        "evidence": {"idle_ratio": {"GPU-0": 1.0}},
        "key": "slurm/llama",
    }
    return Finding(**usual | facts)


def judgement(
    *,
    may_open: bool = True,
    still_holds: bool | None = True,
    close_after_seconds: float = 600.0,
    key: str = "slurm/llama",
    **facts: Any,
) -> Judgement:
    """A verdict on `slurm/llama` that is withdrawn after ten quiet minutes."""
    return Judgement(
        finding=finding(key=key, **facts),
        conduct=OpeningPolicy(close_after_seconds=close_after_seconds),
        may_open=may_open,
        still_holds=still_holds,
    )


def after(minutes: float) -> Nanoseconds:
    """A time some minutes after now."""
    return NOW + nanoseconds(60.0 * minutes)


def answers(ledger: Ledger) -> tuple[int, int]:
    """How often advice proved right, and how often wrong."""
    tallies = ledger.track_record.tallies
    right, wrong = zip(*((sum(t.confirmed), sum(t.contradicted)) for t in tallies), strict=True)
    return sum(right), sum(wrong)


def findings(cases: Sequence[Case], rules: Sequence[Rule[Any]] = RULES) -> tuple[Finding, ...]:
    """Every rule's verdict on every case, abstentions included."""
    return tuple(rule.judge(case) for case in cases for rule in rules)


def window_over(windows: DeviceWindows, start: Nanoseconds, end: Nanoseconds) -> Window:
    """The window over a part of a device's history."""
    return windows.rollups.window_query().window(start, end)


def moved(window: Window, time: Nanoseconds) -> Window:
    """The window at another time, shifted by whole blocks."""
    data = window.blocks.data
    size = len(Blocks.of_one(0, 1.0, {}, {}).data)
    records = (data[at : at + size] for at in range(0, len(data), size))
    by = time // BLOCK_SPAN
    blocks = b"".join(
        (int.from_bytes(record[:4]) + by).to_bytes(4) + record[4:] for record in records
    )
    start = window.start + time
    end = window.end + time
    return replace(window, start=start, end=end, blocks=Blocks(blocks))
