"""Rule: GPUs slowed down by heat or by the board's own protection."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from rightsizer.advice.board_status import (
    BoardStatus,
    board_status_of,
    hides_why_clocks_are_low,
    screen_hidden_clocks,
)
from rightsizer.advice.instructions import drain_instructions, instructions, nvidia_smi_id
from rightsizer.advice.observation import TimeShare, observe, screen_observed
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.screen import Screen, SubjectTable
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Case,
    ClockEvent,
    Condition,
    Finding,
    Instruction,
    Reason,
    Risk,
    SharedPart,
    Signal,
    Spec,
)

_TEMPERATURE: Final = Signal.TEMPERATURE_CELSIUS
_THERMAL: Final = ClockEvent.SW_THERMAL_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN
_HEAT: Final = "heat"
_HARDWARE: Final = "the board's own protection"


class ThermalThrottledSettings(RuleSettings, frozen=True):
    """Thresholds for thermal throttling.

    Attributes:
        on_ratio: Share of the span throttled by heat or hardware.
            Source: docs/definitions.md, conduct: throttling .1
        hot_room_celsius: Temperature difference to neighboring GPUs from which the GPU's own
            cooling is the cause.
            Source: assumed; GPUs at the rear of a chassis are a few degrees hotter than others
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.1
    hot_room_celsius: Annotated[float, Spec(unit="celsius", within=(0, 60)), CONSTANT] = 5.0
    conduct: OpeningPolicy = OpeningPolicy()


_UNKNOWN_CLOCKS: Final = "without telemetry of the clocks, what holds them down is unknown"


def judge(subject: CaseSubject, settings: ThermalThrottledSettings) -> Finding:
    """Whether a GPU of the workload is throttled by heat or hardware, and the cause."""
    case = subject.case
    heat, hardware = (
        {window.uuid: window.condition_share(condition) for window in case.windows}
        for condition in (Condition.THERMAL_THROTTLED, Condition.HARDWARE_SLOWDOWN)
    )
    is_blind = hides_why_clocks_are_low(case, Signal.THERMAL_VIOLATION_SECONDS)
    if is_blind and not any(heat.values()) and not any(hardware.values()):
        return subject.abstain(is_blind)
    seen = observe(
        subject,
        settings,
        lambda window: max(heat[window.uuid], hardware[window.uuid]),
        f"slowed down by {_by(heat, hardware, settings.on_ratio)}",
        why_unsupported=_UNKNOWN_CLOCKS,
        evidence_name="slowdown_ratio",
    )
    if isinstance(seen, Finding):
        return seen
    statuses = [status for device in seen.devices if (status := board_status_of(case, device))]
    neighbors = _neighbors_celsius(case, {board_status.device.uuid for board_status in statuses})
    return seen.find_problem(
        _where(statuses, neighbors, settings),
        reasons=(Reason.THERMAL_THROTTLED,),
        action=Action.RESEAT_OR_DRAIN,
        risk=Risk.LOW,
        evidence={
            "thermal_ratio": {uuid: round(ratio, 4) for uuid, ratio in heat.items()},
            "hardware_ratio": {uuid: round(ratio, 4) for uuid, ratio in hardware.items()},
            "temperatures": {
                board_status.device.uuid: _temperatures(board_status) for board_status in statuses
            },
            "neighbors_median_celsius": neighbors,
        },
        culprits=tuple(device.uuid for device in seen.devices),
        savings="cooler GPUs save time, not GPUs",
        instructions=_instructions(case, seen, statuses),
        # The air, the fans and the power supplies of the server.
        shared_by={device.uuid: (SharedPart.NODE,) for device in seen.devices},
    )


def _by(heat: Mapping[str, float], hardware: Mapping[str, float], least: float) -> str:
    """Name the cause of the slowdown: heat, the board's protection, or either."""
    by_heat = [uuid for uuid, share in heat.items() if share >= least]
    by_itself = [uuid for uuid, share in hardware.items() if share >= least > heat[uuid]]
    causes = [name for name, is_cause in ((_HEAT, by_heat), (_HARDWARE, by_itself)) if is_cause]
    return " or ".join(causes or (_HEAT, _HARDWARE))


def _neighbors_celsius(case: Case, hot: set[str]) -> float | None:
    """Median temperature of the node's other GPUs; `None` without any."""
    readings = {} if case.node is None else case.node.readings
    temperatures = (
        reading.get(_TEMPERATURE) for uuid, reading in readings.items() if uuid not in hot
    )
    if not (others := [value for value in temperatures if value is not None]):
        return None
    # Imported on use, since few GPUs ever overheat.
    from statistics import median  # noqa: PLC0415

    return median(others)


def _where(
    statuses: Sequence[BoardStatus], neighbors: float | None, settings: ThermalThrottledSettings
) -> str:
    reasons = 0
    for status in statuses:
        reasons |= int(status.reading.get(Signal.CLOCK_EVENT_REASONS) or 0)
    if reasons & ClockEvent.HW_POWER_BRAKE_SLOWDOWN:
        return "; the power brake is on, which the server's power supply pulls, not heat"
    temperatures = [
        value
        for board_status in statuses
        if (value := board_status.reading.get(_TEMPERATURE)) is not None
    ]
    if not temperatures:
        return ""
    now = f"; {max(temperatures):.0f} °C at the last reading"
    # A temperature at another time does not locate the heat.
    if neighbors is None or not reasons & _THERMAL:
        return now
    if max(temperatures) - neighbors < settings.hot_room_celsius:
        return f"{now}, as its neighbors ({neighbors:.0f} °C): look at the air of the room"
    return f"{now}, its neighbors {neighbors:.0f} °C: look at this GPU's own cooling"


def _temperatures(status: BoardStatus) -> dict[str, object]:
    clock = status.clock_ratio
    facts: dict[str, float | None] = {
        "gpu_celsius": status.reading.get(_TEMPERATURE),
        "memory_celsius": status.reading.get(Signal.MEMORY_TEMPERATURE_CELSIUS),
        "slowdown_celsius": status.device.stated("temperature_slowdown_celsius"),
        "margin_celsius": status.reading.get(Signal.TEMPERATURE_MARGIN_CELSIUS),
        "fan_ratio": status.reading.get(Signal.FAN_SPEED),
        "clock_ratio": None if clock is None else round(clock, 3),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _instructions(
    case: Case, seen: TimeShare, statuses: Sequence[BoardStatus]
) -> tuple[Instruction, ...]:
    devices = [status.device for status in statuses] or seen.devices
    ids = dict.fromkeys(nvidia_smi_id(device.uuid) for device in devices)
    commands = (
        f"nvidia-smi -i {identifier} -q -d TEMPERATURE,PERFORMANCE,POWER" for identifier in ids
    )
    return (
        Instruction(
            "Check what limits the clocks, and the temperatures", "\n".join(commands), "sh"
        ),
        *instructions("show_cooling", "check_cooling"),
        *drain_instructions(case, f"{names_of(seen.devices)} slowed down to protect the hardware"),
    )


def screen(table: SubjectTable, settings: ThermalThrottledSettings) -> Screen:
    """Settle which subjects neither heat nor hardware slows down."""
    heat = table.condition_share(Condition.THERMAL_THROTTLED)
    hardware = table.condition_share(Condition.HARDWARE_SLOWDOWN)
    # Above the larger of both.
    share = heat + hardware
    yield screen_hidden_clocks(table, Signal.THERMAL_VIOLATION_SECONDS, share)
    yield from screen_observed(table, settings, share, why_unsupported=_UNKNOWN_CLOCKS)


RULE: Final = Rule("thermal_throttled", ThermalThrottledSettings(), judge, screen)
