"""GPUs that heat, or the hardware's own protection, slows down."""

from collections.abc import Mapping, Sequence
from typing import Final

from rightsizer.advice.board_status import BoardStatus, board_status_of, board_statuses
from rightsizer.advice.market import Market
from rightsizer.advice.observation import TimeShare, minimum_known, observe, on_ratio
from rightsizer.advice.operator_commands import drain_instructions
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import abstain, complain, names_of
from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Instruction,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition

NAME: Final = "thermal_throttled"
_SENSORS: Final = ("Fan", "Temperature", "'Power Supply'")
_HEAT: Final = "heat"
_HARDWARE: Final = "the board's own protection"


@dataclass(frozen=True, slots=True)
class ThermalThrottledSettings:
    """From when on heat is a finding."""

    on_ratio: float = on_ratio(
        0.1,
        "Share of the span in which heat or the hardware must slow the clocks down.",
        "docs/definitions.md, conduct: throttling .1",
    )
    minimum_known_seconds: float = minimum_known()
    hot_room_celsius: float = setting(
        5.0,
        help="Degrees by which a GPU must be hotter than its neighbors for the trouble to be its "
        "own and not the room's.",
        unit="celsius",
        within=(0, 60),
        source="assumed; GPUs at the rear of a chassis are a few degrees hotter than others",
    )
    conduct: OpeningPolicy = field(default_factory=OpeningPolicy)


def judge(case: Case, settings: ThermalThrottledSettings, market: Market) -> Finding:
    """Whether a GPU of the workload is slowed down to protect it, and where the heat comes from."""
    del market
    heat = {w.uuid: w.condition_share(Condition.THERMAL_THROTTLED) for w in case.windows}
    hardware = {w.uuid: w.condition_share(Condition.HARDWARE_SLOWDOWN) for w in case.windows}
    shares = {uuid: max(heat[uuid], hardware[uuid]) for uuid in heat}
    if max(shares.values(), default=0.0) <= 0.0 and _is_blind(case):
        why = "the driver does not say why clocks are low"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    by = _by(heat, hardware, settings.on_ratio)
    seen = observe(
        NAME,
        case,
        settings,
        shares,
        f"slowed down by {by}",
        why_unsupported="without telemetry of the clocks nobody can tell what holds them down",
        evidence_name="slowdown_ratio",
    )
    if isinstance(seen, Finding):
        return seen
    seen.evidence["thermal_ratio"] = {uuid: round(each, 4) for uuid, each in heat.items()}
    seen.evidence["hardware_ratio"] = {uuid: round(each, 4) for uuid, each in hardware.items()}
    return _complaint(case, seen, settings)


def _by(heat: Mapping[str, float], hardware: Mapping[str, float], least: float) -> str:
    """What slows the GPUs down: heat on all of them, on none, or on some."""
    found = [(heat[each] >= least, hardware[each] >= least) for each in heat]
    causes = [
        name
        for name, is_seen in (
            (_HEAT, any(by_heat for by_heat, _ in found)),
            (_HARDWARE, any(by_itself and not by_heat for by_heat, by_itself in found)),
        )
        if is_seen
    ]
    return " or ".join(causes or (_HEAT, _HARDWARE))


def _is_blind(case: Case) -> bool:
    known = board_statuses(case)
    return bool(known) and all(each.get(Signal.CLOCK_EVENT_REASONS) is None for each in known)


def _complaint(case: Case, seen: TimeShare, settings: ThermalThrottledSettings) -> Finding:
    found = [status for device in seen.devices if (status := board_status_of(case, device))]
    neighbors = _neighbors_celsius(case, {each.device.uuid for each in found})
    return complain(
        NAME,
        case,
        kind=FindingKind.DEGRADED,
        reasons=(Reason.THERMAL_THROTTLED,),
        action=Action.RESEAT_OR_DRAIN,
        summary=f"{seen.summary}{_where(found, neighbors, settings)}.",
        factors=seen.factors,
        risk=Risk.LOW,
        evidence=seen.evidence
        | {
            "temperatures": {each.device.uuid: _temperatures(each) for each in found},
            "neighbors_median_celsius": neighbors,
        },
        culprits=tuple(device.uuid for device in seen.devices),
        savings=Savings(reason="cooler GPUs save time, not GPUs"),
        instructions=_instructions(case, seen, found),
        affected_gpus=seen.gpus,
    )


def _neighbors_celsius(case: Case, hot: set[str]) -> float | None:
    """The median of the node's other GPUs; `None` without any."""
    readings = {} if case.node is None else case.node.readings
    others = [
        value
        for uuid, reading in readings.items()
        if uuid not in hot and (value := reading.get(Signal.TEMPERATURE_CELSIUS)) is not None
    ]
    if not others:
        return None
    # Few GPUs are ever too hot.
    from statistics import median  # noqa: PLC0415

    return median(others)


def _where(
    found: Sequence[BoardStatus], neighbors: float | None, settings: ThermalThrottledSettings
) -> str:
    if any(_brake_is_on(each) for each in found):
        return "; the power brake is on, which the server's power supply pulls, not heat"
    known = [value for each in found if (value := each.get(Signal.TEMPERATURE_CELSIUS)) is not None]
    if not known:
        return ""
    now = f"; {max(known):.0f} °C at the last reading"
    if neighbors is None or not any(map(_is_slowed_by_heat, found)):
        return now
    if max(known) - neighbors < settings.hot_room_celsius:
        return f"{now}, as its neighbors ({neighbors:.0f} °C): look at the air of the room"
    return f"{now}, its neighbors {neighbors:.0f} °C: look at this GPU's own cooling"


def _brake_is_on(status: BoardStatus) -> bool:
    return bool(_reasons(status) & ClockEvent.HW_POWER_BRAKE_SLOWDOWN)


def _is_slowed_by_heat(status: BoardStatus) -> bool:
    """Now; a temperature of another moment says nothing of where the heat comes from."""
    return bool(
        _reasons(status) & (ClockEvent.SW_THERMAL_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN)
    )


def _reasons(status: BoardStatus) -> int:
    return int(status.get(Signal.CLOCK_EVENT_REASONS) or 0)


def _temperatures(status: BoardStatus) -> dict[str, object]:
    clock = status.clock_ratio
    facts: dict[str, float | None] = {
        "gpu_celsius": status.get(Signal.TEMPERATURE_CELSIUS),
        "memory_celsius": status.get(Signal.MEMORY_TEMPERATURE_CELSIUS),
        "slowdown_celsius": status.stated("temperature_slowdown_celsius"),
        "margin_celsius": status.get(Signal.TEMPERATURE_MARGIN_CELSIUS),
        "fan_ratio": status.get(Signal.FAN_SPEED),
        "clock_ratio": None if clock is None else round(clock, 3),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _instructions(
    case: Case, seen: TimeShare, found: Sequence[BoardStatus]
) -> tuple[Instruction, ...]:
    uuids = dict.fromkeys(each.device.uuid for each in found) or dict.fromkeys(
        device.uuid for device in seen.devices
    )
    look = (f"nvidia-smi -i {uuid} -q -d TEMPERATURE,PERFORMANCE,POWER" for uuid in uuids)
    return (
        Instruction("See what holds the clocks down, and how hot it is", "\n".join(look), "sh"),
        Instruction(
            "See fans, inlet air and power supplies of the server",
            "\n".join(f"ipmitool sdr type {each}" for each in _SENSORS),
            "sh",
        ),
        Instruction(
            "Then, at the server",
            "Free the air's way in and out, clean filters, replace fans that stand still, check "
            "the flow of the cooling liquid; a GPU that stays hot alone is reseated or replaced.",
        ),
        *drain_instructions(case, f"{names_of(seen.devices)} slowed down to protect the hardware"),
    )


RULE: Final = Rule(NAME, ThermalThrottledSettings(), judge)
