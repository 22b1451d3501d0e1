"""Rule: GPUs with power draw that saves no time, as memory, links or the host limit them.

The savings of a lower limit follow from the draw: a cap above the draw saves nothing, as for
memory-bound decoding at 137 to 300 W of an H200's 700 (arXiv:2605.11999).
"""

import math
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.advice.board_status import BoardStatus, board_status_of, is_shared
from rightsizer.advice.instructions import nvidia_smi_id
from rightsizer.advice.observation import TimeShare, observe
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.screen import Screen, SubjectTable, unmeasured
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.values import (
    CONSTANT,
    DAY_SECONDS,
    HOURS_PER_MONTH,
    Action,
    Case,
    Cause,
    Device,
    Finding,
    Option,
    Reason,
    Resource,
    Risk,
    Savings,
    Signal,
    Spec,
    State,
    Tier,
    Window,
    WorkloadClass,
    seconds,
)
from rightsizer.owners.owner import shell

_WAITING: Final = frozenset(
    {
        State.MEMORY_BANDWIDTH_BOUND,
        State.LAUNCH_BOUND,
        State.HOST_BOUND,
        State.STORAGE_BOUND,
        State.PCIE_BOUND,
        State.HIDDEN_STALL,
    }
)
_QUANTILE: Final = 0.95


LowPipeRatio = Annotated[
    float,
    Spec(
        help="SM utilization up to which the clock does not limit productive time.",
        source="docs/definitions.md, states: pipes below .3 count as low",
    ),
]
LOW_PIPE_RATIO: Final = 0.3


def clock_free_ratio(window: Window, low_pipe_ratio: float) -> float | None:
    """Share of the active time that does not depend on the clock; `None` without active time.

    Productive time counts if SM and pipe use is at most `low_pipe_ratio`.
    """
    if window.active <= 0:
        return None
    waiting = sum(window.states.get(state, 0) for state in _WAITING)
    # Upper bound of compute, i.e. SM activity; unknown does not count as low.
    used = window.demands.get(Resource.COMPUTE)
    highest = None if used is None else used.quantile(_QUANTILE)
    if highest is not None and highest <= low_pipe_ratio:
        waiting += window.states.get(State.PRODUCTIVE, 0)
    return waiting / window.active


_STEP_WATTS: Final = 5.0
"""Rounds proposals, so that they do not change with every reading."""


class PowerSavingSettings(Struct, frozen=True):
    """Proposed power limit and its assumed cost.

    Attributes:
        cap_ratio: Proposed limit, relative to the board's default; never below the driver's
            minimum.
            Source: assumed; published sweeps of memory-bound loads lose little down to here
            (inventivehq.com: 17% less power, under 1% of the tokens)
        time_ratio_high: Maximum run time under the proposed limit, relative to that without it.
            Source: assumed for a limit of .8; 600 instead of 700 W cost an H100 5 to 8% at
            memory-bound inference (factryze.ai, power capping)
    """

    cap_ratio: Annotated[float, Spec(within=(0.3, 0.99)), CONSTANT] = 0.8
    time_ratio_high: Annotated[float, Spec(unit="ratio", within=(1, 2)), CONSTANT] = 1.1


class PowerSaving(Struct, frozen=True):
    """Effect of a lower limit on one GPU."""

    cap_watts: float
    active_watts: float
    """Mean power while active."""
    watts_low: float
    """Mean power saved over all time, idle time included, for the same work."""
    watts_high: float


def power_saving(
    window: Window, status: BoardStatus, settings: PowerSavingSettings
) -> PowerSaving | None:
    """Effect of the proposed limit; `None` if it is not lower, or the power is unknown.

    Only the mean power is known, not its distribution. The excess over a cap is smallest for
    constant power and largest for power that alternates between 0 and the present limit; these
    are the ends of the interval. The lower end also assumes the largest slowdown.
    """
    limit = status.limit_watts
    default = status.default_limit_watts
    least = status.device.stated("power_limit_minimum_watts")
    is_measured = window.energy_joules > 0.0 and window.active > 0
    if limit is None or default is None or least is None or not is_measured:
        return None
    joules = window.energy_joules - window.waste_joules.get(Cause.IDLE, 0.0)
    active = max(0.0, joules) / seconds(window.active)
    cap = max(least, math.ceil(default * settings.cap_ratio / _STEP_WATTS) * _STEP_WATTS)
    if cap >= limit:
        return None
    steady = max(0.0, active - cap)
    jumping = max(steady, (limit - cap) * min(1.0, active / limit))
    part = window.active / window.known
    return PowerSaving(
        cap_watts=cap,
        active_watts=active,
        watts_low=part * max(0.0, active - (active - steady) * settings.time_ratio_high),
        watts_high=part * jumping,
    )


class PowerCapSettings(RuleSettings, frozen=True):
    """Thresholds for a lower power limit.

    Attributes:
        on_ratio: Share of active time that lower clocks must not slow down.
            Source: assumed; the rest of the time pays for the cap
        minimum_known_seconds: Known time below which the rule abstains.
            Source: assumed; an hour shows most phases of a load
        minimum_saving_ratio: Certain saving, as a share of the default limit, required to report.
            Source: assumed; 21 of 700 W, about what a sensor's error comes to
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.8
    minimum_known_seconds: Annotated[float, CONSTANT] = 3600.0
    low_pipe_ratio: Annotated[LowPipeRatio, CONSTANT] = LOW_PIPE_RATIO
    minimum_saving_ratio: float = 0.03
    saving: Annotated[PowerSavingSettings, CONSTANT] = PowerSavingSettings()
    conduct: OpeningPolicy = OpeningPolicy(
        long_seconds=DAY_SECONDS,
        short_seconds=DAY_SECONDS / 4,
        minimum_known_seconds=DAY_SECONDS / 2,
        close_after_seconds=DAY_SECONDS,
    )


class _Cap(Struct, frozen=True):
    device: Device
    status: BoardStatus
    saving: PowerSaving


_OTHERS_PAY: Final = "others share the GPU and would pay for a lower limit"
_UNKNOWN_RANGE: Final = "the power limits, or their allowed range, are not known"


def judge(subject: CaseSubject, settings: PowerCapSettings) -> Finding:
    """Whether a lower power limit saves energy at almost no loss of speed."""
    case = subject.case
    if why := _why_not(case):
        return subject.abstain(why)
    seen = observe(
        subject,
        settings,
        lambda window: clock_free_ratio(window, settings.low_pipe_ratio) or 0.0,
        "as fast at lower clocks",
        tiers=frozenset({Tier.PROFILING}),
        why_unsupported="without profiling telemetry, what sets the pace is unknown",
        evidence_name="clock_free_ratio",
    )
    if isinstance(seen, Finding):
        return seen
    if not (caps := _caps(seen, settings)):
        return seen.find_nothing(", yet it draws too little for a lower limit to save anything")
    low = sum(cap.saving.watts_low for cap in caps)
    high = sum(cap.saving.watts_high for cap in caps)
    savings = Savings(
        reason="a lower limit saves energy, no GPU",
        kilowatt_hours_per_month_low=round(low * HOURS_PER_MONTH / 1000.0, 1),
        kilowatt_hours_per_month_high=round(high * HOURS_PER_MONTH / 1000.0, 1),
    )
    commands = [(f"nvidia-smi -i {nvidia_smi_id(cap.device.uuid)} -pl", cap) for cap in caps]
    lower = (f"{command} {cap.saving.cap_watts:.0f}" for command, cap in commands)
    restore = (f"{command} {cap.status.limit_watts:.0f}" for command, cap in commands)
    longer = settings.saving.time_ratio_high
    # Latencies are affected first.
    risk = Risk.MEDIUM if case.workload_class is WorkloadClass.SERVING else Risk.LOW
    return seen.find_problem(
        f". A limit of {caps[0].saving.cap_watts:.0f} W on "
        f"{names_of([cap.device for cap in caps])} saves {low:.0f} to {high:.0f} W",
        reasons=(Reason.POWER_CAP_OPPORTUNITY,),
        action=Action.SET_POWER_LIMIT,
        risk=risk,
        evidence={"power": {cap.device.uuid: _evidence(cap, longer) for cap in caps}},
        options=(_option(caps[0].saving.cap_watts, longer, risk, savings),),
        savings=savings,
        instructions=(
            *shell("Lower the power limit, until the next boot", "\n".join(lower)),
            *shell("Take it back", "\n".join(restore)),
        ),
        affected_gpus=sum(
            cap.saving.watts_low / (cap.status.default_limit_watts or 1.0) for cap in caps
        ),
    )


def _why_not(case: Case) -> str:
    if any(device.mig for device in case.devices):
        return "a power limit holds for a whole GPU, not for a MIG instance of it"
    if case.node is None or not case.node.readings:
        return "only a history is known, not the power limits that are enforced now"
    if is_shared(case):
        return _OTHERS_PAY
    statuses = [board_status_of(case, device) for device in case.devices]
    ranges = [
        _range(status)
        for status in statuses
        if status is not None and status.limit_watts is not None
    ]
    if len(ranges) < len(statuses) or any(None in limits for limits in ranges):
        return _UNKNOWN_RANGE
    if all(least == maximum for least, maximum, _ in ranges):
        return "the board allows only one power limit"
    return ""


_RANGE: Final = ("power_limit_minimum_watts", "power_limit_maximum_watts")


def _range(status: BoardStatus) -> tuple[float | None, float | None, float | None]:
    least, maximum = map(status.device.stated, _RANGE)
    return least, maximum, status.default_limit_watts


def _caps(seen: TimeShare, settings: PowerCapSettings) -> list[_Cap]:
    case = seen.subject.case
    windows = {window.uuid: window for window in case.windows}
    return [
        _Cap(device, status, saving)
        for device in seen.devices
        if (status := board_status_of(case, device)) is not None
        and (saving := power_saving(windows[device.uuid], status, settings.saving)) is not None
        and saving.watts_low >= settings.minimum_saving_ratio * (status.default_limit_watts or 0.0)
    ]


def _evidence(cap: _Cap, longer: float) -> dict[str, object]:
    saving = cap.saving
    least, maximum, default = _range(cap.status)
    return {
        "active_watts": round(saving.active_watts, 1),
        "enforced_limit_watts": cap.status.limit_watts,
        "default_limit_watts": default,
        "allowed_limits_watts": [least, maximum],
        "proposed_limit_watts": saving.cap_watts,
        "saved_watts": [round(saving.watts_low, 1), round(saving.watts_high, 1)],
        "time_ratio": [1.0, longer],
        "time_ratio_source": "assumed, between no loss and the setting saving.time_ratio_high",
    }


def _option(cap_watts: float, longer: float, risk: Risk, savings: Savings) -> Option:
    return Option(
        description=(
            f"lower the limit, watch the time of a step or a request for an hour, and restore it "
            f"if that grows by more than {longer - 1.0:.0%}"
        ),
        risk=risk,
        target=f"{cap_watts:.0f} W",
        time_ratio_low=1.0,
        time_ratio_high=longer,
        savings=savings,
        risks={"compute": risk},
    )


def screen(table: SubjectTable, _: PowerCapSettings) -> Screen:
    """Settle of which subjects the power limits are not known."""
    yield unmeasured(table.is_shared, _OTHERS_PAY)
    is_limited = table.reads(Signal.POWER_LIMIT_WATTS) & table.states(*_RANGE)
    yield unmeasured(~is_limited, _UNKNOWN_RANGE)


RULE: Final = Rule("power_cap", PowerCapSettings(), judge, screen)
