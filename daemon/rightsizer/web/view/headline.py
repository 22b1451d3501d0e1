"""Headline of the page: tiles of totals, and what devices do at the moment."""

from collections import Counter
from collections.abc import Collection, Sequence

from rightsizer.model.advice import Advice
from rightsizer.model.frozen import dataclass
from rightsizer.model.report import Report
from rightsizer.model.signal import Signal
from rightsizer.model.span import Span
from rightsizer.model.state import IDLE_STATES, State
from rightsizer.report.labels import ABSENT, SEVERITY_COLORS, percent_label
from rightsizer.web.view.strip import Share
from rightsizer.web.view.waste import WasteView, interval, savings_sum


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """The devices that have a state of their own: MIG instances, and GPUs without any."""

    counted: int
    working: int
    idle: int
    stalled: int
    unknown: int
    """Those without fresh readings too."""
    gpus: int
    """Physical ones."""
    silent: int
    """Devices of any kind without fresh readings."""
    power_watts: float | None
    """Of the GPUs that tell; `None` where none does."""


def device_counts(report: Report, fresh: Collection[str]) -> DeviceCounts:
    """The count of a report, by which of its devices are fresh."""
    counted = [device for device in report.devices if not device.device.has_mig_instances]
    states = [device.state if device.device.uuid in fresh else State.UNKNOWN for device in counted]
    draws = [
        device.signals[Signal.POWER_WATTS]
        for device in report.devices
        if device.device.mig is None
        and device.device.uuid in fresh
        and Signal.POWER_WATTS in device.signals
    ]
    idle = sum(state in IDLE_STATES for state in states)
    stalled, unknown = states.count(State.HIDDEN_STALL), states.count(State.UNKNOWN)
    return DeviceCounts(
        counted=len(counted),
        working=len(counted) - idle - stalled - unknown,
        idle=idle,
        stalled=stalled,
        unknown=unknown,
        gpus=sum(device.device.mig is None for device in report.devices),
        silent=sum(device.device.uuid not in fresh for device in report.devices),
        power_watts=sum(draws) if draws else None,
    )


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure of the headline; the script on the page renews it by its id."""

    id: str
    name: str
    value: str
    detail: str
    key: str = ""


def tiles(
    now: DeviceCounts,
    shares: Sequence[Share],
    waste: WasteView,
    open_advice: Sequence[Advice],
    span: Span,
) -> tuple[Tile, ...]:
    """All of them, in the order that they are read."""
    has_instances = now.counted > now.gpus
    devices = f"{now.counted} devices with MIG; " if has_instances else ""
    answering, working = f"{devices}all responding", f"{now.working} of {now.counted}"
    silent = f"{now.silent} without fresh readings" if now.silent else ""
    counts = ((now.idle, "idle"), (now.stalled, "stalled"), (now.unknown, "unknown"))
    doing = [f"{count} {word}" for count, word in counts if count]
    if now.power_watts is not None:
        doing.append(f"{now.power_watts / 1000:.1f}\u00a0kW")
    idle, stalled, unknown = (
        percent_label(part_of(shares, *states))
        for states in (IDLE_STATES, (State.HIDDEN_STALL,), (State.UNKNOWN,))
    )
    past = f"stalled {stalled}, unknown {unknown}" if shares else "nothing known yet"
    lost = f"lost {waste.lost}" if waste.lost else ""
    severities = Counter(piece.finding.severity for piece in open_advice)
    found = [severity for severity in SEVERITY_COLORS if severities[severity]]
    color = SEVERITY_COLORS[found[0]] if found else ""
    urgency = ", ".join(f"{severities[severity]} {severity}" for severity in found)
    return (
        Tile("gpus", "GPUs", str(now.gpus), silent or answering, "act" if silent else ""),
        Tile("working", "At work now", working, ", ".join(doing) or "all of them"),
        Tile("idle", f"Idle, last {span.text}", idle if shares else ABSENT, past),
        Tile("used", "Effective utilization", waste.used_text or ABSENT, lost),
        Tile("advice", "Open advice", str(len(open_advice)), urgency or "nothing to do", color),
        _savings(open_advice),
    )


def part_of(shares: Sequence[Share], *states: State) -> float:
    """The part of the time in any of these states."""
    return sum(share.ratio for share in shares if share.key in states)


def _savings(open_advice: Sequence[Advice]) -> Tile:
    total = savings_sum(open_advice)
    gpus = f"{interval(total.gpus_low, total.gpus_high, '{:.1f}')} GPUs"
    if not total.has_price:
        is_known = total.gpus_high > 0
        return Tile("savings", "It would free", gpus if is_known else ABSENT, "no price is known")
    money = interval(total.dollars_per_hour_low, total.dollars_per_hour_high, "{:,.0f}")
    return Tile("savings", "It would save", f"${money}", f"an hour; {gpus}")
