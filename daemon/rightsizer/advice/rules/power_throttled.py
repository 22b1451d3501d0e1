"""Rule: GPUs throttled by a lowered power limit while they compute.

Dense matrix products reach the 700 W limit of an H100 by themselves; a board at its default limit
is well used. One with a lowered limit is not.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.advice.board_status import (
    BoardStatus,
    board_status_of,
    hides_why_clocks_are_low,
    metrics_of,
    screen_hidden_clocks,
)
from rightsizer.advice.instructions import nvidia_smi_id
from rightsizer.advice.observation import TimeShare, in_condition, observe, screen_observed
from rightsizer.advice.rules.power_cap import LOW_PIPE_RATIO, LowPipeRatio, clock_free_ratio
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.screen import Screen, SubjectTable, left
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Case,
    Cause,
    Condition,
    Device,
    Finding,
    Instruction,
    Option,
    Reason,
    Risk,
    SharedPart,
    Signal,
    Spec,
    Window,
    percent_text,
    seconds,
)
from rightsizer.owners.owner import shell


class PowerThrottledSettings(RuleSettings, frozen=True):
    """Thresholds for power throttling.

    Attributes:
        on_ratio: Share of the span throttled by the power limit.
            Source: docs/definitions.md, conduct: throttling .1
        minimum_active_seconds: Active time within the span required to judge a lowered limit.
            Source: a block of five minutes; an idle GPU is not throttled
        capped_ratio: Enforced power limit, relative to the board's default, below which it is
            lowered.
            Source: limits are set in whole watts; 2% is 14 of 700 W
        assumed_capped_ratio: The same for a default that only the catalogue states.
            Source: vendors of servers set boards of one name up to a tenth apart
        clock_free_maximum_ratio: Share of active time not slowed by lower clocks from which a
            lowered limit is accepted.
            Source: assumed; well below the share from which power_cap advises a lower limit
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.1
    minimum_active_seconds: Annotated[float, CONSTANT] = 300.0
    capped_ratio: Annotated[float, Spec(within=(0.1, 1)), CONSTANT] = 0.98
    assumed_capped_ratio: Annotated[float, Spec(within=(0.1, 1)), CONSTANT] = 0.9
    clock_free_maximum_ratio: Annotated[float, CONSTANT] = 0.5
    low_pipe_ratio: Annotated[LowPipeRatio, CONSTANT] = LOW_PIPE_RATIO
    # The limit stays until set again, while the load above it fluctuates.
    conduct: OpeningPolicy = OpeningPolicy(short_seconds=1800.0)


class _PowerLimit(Struct, frozen=True):
    device: Device
    status: BoardStatus
    watts: float
    default_watts: float

    def is_lowered(self, settings: PowerThrottledSettings) -> bool:
        """Whether it is below the board's default."""
        is_assumed = "power_limit_watts" in self.status.device.assumed
        ratio = settings.assumed_capped_ratio if is_assumed else settings.capped_ratio
        return self.watts < self.default_watts * ratio


_UNKNOWN_CLOCKS: Final = "without telemetry of the clocks, what holds them down is unknown"


def judge(subject: CaseSubject, settings: PowerThrottledSettings) -> Finding:
    """Whether a lowered power limit slows the workload down."""
    case = subject.case
    active = max((seconds(window.active) for window in case.windows), default=0.0)
    # The cost of a lowered limit shows only under load.
    is_at_rest = active < settings.minimum_active_seconds
    if is_at_rest and any(limit.is_lowered(settings) for limit in _limits(case, case.devices)):
        why = "the power limit was lowered, and it hardly worked, so what that costs is unknown"
        return subject.abstain(why, Reason.INSUFFICIENT_DATA)
    is_blind = hides_why_clocks_are_low(case, Signal.POWER_VIOLATION_SECONDS)
    held = Condition.POWER_THROTTLED
    if is_blind and not any(window.condition_share(held) for window in case.windows):
        return subject.abstain(is_blind)
    seen = observe(
        subject,
        settings,
        in_condition(Condition.POWER_THROTTLED),
        "held down by the power limit",
        why_unsupported=_UNKNOWN_CLOCKS,
        evidence_name="power_throttled_ratio",
    )
    if isinstance(seen, Finding):
        return seen
    if not (power_limits := _limits(case, seen.devices)):
        return subject.abstain(
            "enforced and default power limit are not both known, so a lowered one looks normal: "
            f"no {metrics_of((Signal.POWER_LIMIT_WATTS,))}"
        )
    if not (
        capped := [power_limit for power_limit in power_limits if power_limit.is_lowered(settings)]
    ):
        watts = ", ".join(sorted({f"{power_limit.watts:.0f} W" for power_limit in power_limits}))
        return seen.find_nothing(
            f"; the limit is the board's own default ({watts}): dense compute gets there by itself",
            {"power": _power(power_limits)},
        )
    uuids = {power_limit.device.uuid for power_limit in capped}
    windows = [window for window in case.windows if window.uuid in uuids]
    free = min(clock_free_ratio(window, settings.low_pipe_ratio) or 0.0 for window in windows)
    if free >= settings.clock_free_maximum_ratio:
        return seen.find_nothing(", yet what it does is hardly faster at a higher clock")
    return _problem(seen, capped, windows)


def _limits(case: Case, devices: Sequence[Device]) -> list[_PowerLimit]:
    return [
        _PowerLimit(device, status, status.limit_watts, status.device.power_limit_watts)
        for device in devices
        if (status := board_status_of(case, device)) is not None
        and status.limit_watts is not None
        and status.device.power_limit_watts is not None
    ]


def _problem(seen: TimeShare, capped: list[_PowerLimit], windows: list[Window]) -> Finding:
    # Share of the known time lost to the lower clock, as estimated by accounting.
    times = [(window, window.waste_seconds.get(Cause.THROTTLED, 0.0)) for window in windows]
    lost = {window.uuid: round(time / (window.known_seconds or 1.0), 4) for window, time in times}
    first = min(
        capped,
        key=lambda power_limit: (
            power_limit.watts / power_limit.default_watts,
            power_limit.device.index,
        ),
    )
    clock = first.status.clock_ratio
    now = "" if clock is None else f"; its clock is at {percent_text(clock)} of its maximum"
    return seen.find_problem(
        f". The limit of {names_of([first.device])} is {first.watts:.0f} W, "
        f"{first.default_watts - first.watts:.0f} W below the board's default of "
        f"{first.default_watts:.0f} W{now}",
        reasons=(Reason.POWER_THROTTLED,),
        action=Action.SET_POWER_LIMIT,
        risk=Risk.LOW,
        evidence={"lost_to_throttling_ratio": lost, "power": _power(capped)},
        culprits=tuple(power_limit.device.uuid for power_limit in capped),
        options=(_option(capped),),
        savings="a higher limit saves time, not watts",
        instructions=_instructions(capped),
        affected_gpus=sum(
            lost[power_limit.device.uuid] * power_limit.device.capacity_ratio
            for power_limit in capped
        ),
        # The power budget of the server.
        shared_by={power_limit.device.uuid: (SharedPart.NODE,) for power_limit in capped},
    )


def _power(limits: list[_PowerLimit]) -> dict[str, object]:
    return {
        limit.status.device.uuid: {
            "enforced_limit_watts": limit.watts,
            "default_limit_watts": limit.default_watts,
            "maximum_limit_watts": limit.status.device.stated("power_limit_maximum_watts"),
            "clock_ratio": None if (clock := limit.status.clock_ratio) is None else round(clock, 3),
        }
        for limit in limits
    }


def _option(capped: list[_PowerLimit]) -> Option:
    more = sum(power_limit.default_watts - power_limit.watts for power_limit in capped)
    return Option(
        description=(
            f"restore the default limit, where supply and cooling of the node bear {more:.0f} W "
            "more; a limit that is meant is a reason to dismiss this"
        ),
        risk=Risk.LOW,
        target=f"{max(power_limit.default_watts for power_limit in capped):.0f} W",
        risks={"power_supply": Risk.LOW, "temperature": Risk.LOW},
    )


def _instructions(capped: list[_PowerLimit]) -> tuple[Instruction, ...]:
    boards = {
        nvidia_smi_id(power_limit.status.device.uuid): power_limit.default_watts
        for power_limit in capped
    }
    commands = "\n".join(
        f"nvidia-smi -i {board_id} -pl {watts:.0f}" for board_id, watts in boards.items()
    )
    checks = "\n".join(f"nvidia-smi -i {board} -q -d POWER,PERFORMANCE" for board in boards)
    return (
        *shell("Restore the default power limit, until the next boot", commands),
        *shell("Check the enforced limit, and whether the clocks rise", checks),
    )


def screen(table: SubjectTable, settings: PowerThrottledSettings) -> Screen:
    """Settle which subjects no power limit holds down."""
    is_at_rest = table.active_seconds < settings.minimum_active_seconds
    yield left(is_at_rest & table.reads(Signal.POWER_LIMIT_WATTS))
    share = table.condition_share(Condition.POWER_THROTTLED)
    yield screen_hidden_clocks(table, Signal.POWER_VIOLATION_SECONDS, share)
    yield from screen_observed(table, settings, share, why_unsupported=_UNKNOWN_CLOCKS)


RULE: Final = Rule("power_throttled", PowerThrottledSettings(), judge, screen)
