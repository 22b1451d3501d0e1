"""GPUs whose clocks a lowered power limit holds down while they compute.

Dense matrix products take an H100 to its limit of 700 W by themselves; a board at the limit it
came with is well used. One with a lowered limit is not.
"""

from collections.abc import Sequence
from typing import Final

from rightsizer.advice.board_status import BoardStatus, board_status_of
from rightsizer.advice.market import Market
from rightsizer.advice.observation import TimeShare, minimum_known, observe, on_ratio
from rightsizer.advice.power_saving import clock_free_ratio
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import abstain, complain, find_nothing, names_of
from rightsizer.model.device import Device
from rightsizer.model.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.state import Cause, Condition
from rightsizer.model.units import seconds
from rightsizer.model.window import Window

NAME: Final = "power_throttled"


@dataclass(frozen=True, slots=True)
class PowerThrottledSettings:
    """From when on a power limit is a finding."""

    on_ratio: float = on_ratio(
        0.1,
        "Share of the span in which the power limit must hold the clocks down.",
        "docs/definitions.md, conduct: throttling .1",
    )
    minimum_known_seconds: float = minimum_known()
    minimum_active_seconds: float = setting(
        300.0,
        help="Time at work within the span under which a lowered limit is not judged.",
        source="a block of five minutes; at rest no limit holds anything down",
    )
    capped_ratio: float = setting(
        0.98,
        help="Enforced limit, of the board's default, below which somebody has lowered it.",
        within=(0.1, 1),
        source="limits are set in whole watts; 2 % is 14 of 700 W",
    )
    clock_free_maximum_ratio: float = setting(
        0.5,
        help="Share of the active time that goes as fast at lower clocks, from which on a lowered "
        "limit is left alone.",
        source="assumed; well below the share from which on power_cap advises a lower limit",
    )
    low_pipe_ratio: float = setting(
        0.3,
        help="SM use up to which productive time does not follow the clock.",
        source="docs/definitions.md, states: pipes below .3 count as low",
    )
    # A limit stays until it is set again, while the load above it comes and goes.
    conduct: OpeningPolicy = field(default_factory=lambda: OpeningPolicy(short_seconds=1800.0))


@dataclass(frozen=True, slots=True)
class _Capped:
    """A GPU whose limit is below the one that it came with."""

    device: Device
    status: BoardStatus
    limit_watts: float
    default_watts: float


def judge(case: Case, settings: PowerThrottledSettings, market: Market) -> Finding:
    """Whether a lowered power limit costs the workload work."""
    del market
    if _hardly_works_below_its_limit(case, settings):
        why = "the power limit was lowered, and it hardly worked, so nobody knows what that costs"
        return abstain(NAME, case, Reason.INSUFFICIENT_DATA, why)
    shares = {
        window.uuid: window.condition_share(Condition.POWER_THROTTLED) for window in case.windows
    }
    seen = observe(
        NAME,
        case,
        settings,
        shares,
        "held down by the power limit",
        why_unsupported="without telemetry of the clocks nobody can tell what holds them down",
        evidence_name="power_throttled_ratio",
    )
    if isinstance(seen, Finding):
        return seen
    known = _known(case, seen.devices)
    if not known:
        why = "enforced and default power limit are not both known, so a lowered one looks normal"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    capped = [_Capped(d, s, *_limits(s)) for d, s in known if _is_capped(s, settings)]
    if not capped:
        return _at_own_limit(case, seen, [status for _, status in known])
    if _is_clock_free(case, [each.device for each in capped], settings):
        summary = f"{seen.summary}, yet what it does is hardly faster at a higher clock."
        return find_nothing(NAME, case, summary, seen.factors, seen.evidence)
    return _complaint(case, seen, capped)


def _known(case: Case, devices: Sequence[Device]) -> list[tuple[Device, BoardStatus]]:
    statuses = [(device, board_status_of(case, device)) for device in devices]
    return [(device, found) for device, found in statuses if found and _knows_limits(found)]


def _hardly_works_below_its_limit(case: Case, settings: PowerThrottledSettings) -> bool:
    """Whether a limit is lowered that only work would show the price of."""
    active = max((seconds(window.active) for window in case.windows), default=0.0)
    return active < settings.minimum_active_seconds and any(
        _is_capped(status, settings) for _, status in _known(case, case.devices)
    )


def _knows_limits(status: BoardStatus) -> bool:
    return status.limit_watts is not None and status.default_limit_watts is not None


def _limits(status: BoardStatus) -> tuple[float, float]:
    return status.limit_watts or 0.0, status.default_limit_watts or 0.0


def _is_capped(status: BoardStatus, settings: PowerThrottledSettings) -> bool:
    limit, default = _limits(status)
    return limit < default * settings.capped_ratio


def _is_clock_free(case: Case, devices: list[Device], settings: PowerThrottledSettings) -> bool:
    uuids = {device.uuid for device in devices}
    free = [
        clock_free_ratio(window, settings.low_pipe_ratio) or 0.0
        for window in case.windows
        if window.uuid in uuids
    ]
    return min(free) >= settings.clock_free_maximum_ratio


def _at_own_limit(case: Case, seen: TimeShare, statuses: list[BoardStatus]) -> Finding:
    """A fact and no fault: the board does all that it may."""
    watts = ", ".join(sorted({f"{status.limit_watts:.0f} W" for status in statuses}))
    summary = (
        f"{seen.summary}; the limit is the board's own default ({watts}): dense compute gets "
        "there by itself."
    )
    evidence = seen.evidence | {"power": _power(statuses)}
    return find_nothing(NAME, case, summary, seen.factors, evidence)


def _complaint(case: Case, seen: TimeShare, capped: list[_Capped]) -> Finding:
    devices = [each.device for each in capped]
    uuids = {device.uuid for device in devices}
    lost = {w.uuid: round(_lost(w), 4) for w in case.windows if w.uuid in uuids}
    first = min(capped, key=lambda each: (each.limit_watts / each.default_watts, each.device.index))
    clock = first.status.clock_ratio
    now = "" if clock is None else f"; its clock stands at {clock:.0%} of its maximum"
    return complain(
        NAME,
        case,
        kind=FindingKind.DEGRADED,
        reasons=(Reason.POWER_THROTTLED,),
        action=Action.SET_POWER_LIMIT,
        summary=(
            f"{seen.summary}. The limit of {names_of([first.device])} is "
            f"{first.limit_watts:.0f} W, {first.default_watts - first.limit_watts:.0f} W below "
            f"the board's default of {first.default_watts:.0f} W{now}."
        ),
        factors=seen.factors,
        risk=Risk.LOW,
        evidence=seen.evidence
        | {"lost_to_throttling_ratio": lost, "power": _power([each.status for each in capped])},
        culprits=tuple(device.uuid for device in devices),
        options=(_option(capped),),
        savings=Savings(reason="a higher limit saves time, not watts"),
        instructions=_instructions(capped),
        affected_gpus=sum(lost[each.uuid] * each.capacity_ratio for each in devices),
    )


def _lost(window: Window) -> float:
    """The part of the known time that the lower clock cost, as accounting estimates it."""
    known = window.known_seconds
    return window.waste_seconds.get(Cause.THROTTLED, 0.0) / known if known > 0 else 0.0


def _power(statuses: list[BoardStatus]) -> dict[str, object]:
    found: dict[str, object] = {}
    for each in statuses:
        clock = each.clock_ratio
        found[each.device.uuid] = {
            "enforced_limit_watts": each.limit_watts,
            "default_limit_watts": each.default_limit_watts,
            "maximum_limit_watts": each.stated("power_limit_maximum_watts"),
            "clock_ratio": None if clock is None else round(clock, 3),
        }
    return found


def _option(capped: list[_Capped]) -> Option:
    more = sum(each.default_watts - each.limit_watts for each in capped)
    return Option(
        description=(
            f"restore the default limit, where supply and cooling of the node bear {more:.0f} W "
            "more; a limit that is meant is a reason to dismiss this"
        ),
        risk=Risk.LOW,
        target=f"{max(each.default_watts for each in capped):.0f} W",
        risks={"power_supply": Risk.LOW, "temperature": Risk.LOW},
    )


def _instructions(capped: list[_Capped]) -> tuple[Instruction, ...]:
    boards = {each.status.device.uuid: each.default_watts for each in capped}
    commands = (f"nvidia-smi -i {uuid} -pl {watts:.0f}" for uuid, watts in boards.items())
    checks = (f"nvidia-smi -i {uuid} -q -d POWER,PERFORMANCE" for uuid in boards)
    return (
        Instruction(
            "Restore the default power limit, until the next boot", "\n".join(commands), "sh"
        ),
        Instruction("See what is enforced, and whether the clocks rise", "\n".join(checks), "sh"),
    )


RULE: Final = Rule(NAME, PowerThrottledSettings(), judge)
