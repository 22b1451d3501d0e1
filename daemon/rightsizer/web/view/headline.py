"""Headline of the page: tiles of totals, and what devices do at the moment."""

from collections import Counter
from collections.abc import Collection, Sequence

from rightsizer.model.advice import Advice
from rightsizer.model.finding import Severity
from rightsizer.model.frozen import dataclass
from rightsizer.model.report import DeviceReport, Report
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
    states = [_state(device, fresh) for device in counted]
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


def _state(device: DeviceReport, fresh: Collection[str]) -> State:
    return device.state if device.device.uuid in fresh else State.UNKNOWN


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
    return (
        _gpus(now),
        _working(now),
        _idle(shares, span),
        _used(waste),
        _advice(open_advice),
        _savings(open_advice),
    )


def part_of(shares: Sequence[Share], *states: State) -> float:
    """The part of the time in any of these states."""
    return sum(share.ratio for share in shares if share.key in states)


def _gpus(now: DeviceCounts) -> Tile:
    instances = now.counted - now.gpus
    detail = f"{now.silent} without fresh readings" if now.silent else "all responding"
    if instances > 0 and not now.silent:
        detail = f"{now.counted} devices with MIG; all responding"
    return Tile("gpus", "GPUs", str(now.gpus), detail, "act" if now.silent else "")


def _working(now: DeviceCounts) -> Tile:
    parts = [
        f"{count} {word}"
        for count, word in ((now.idle, "idle"), (now.stalled, "stalled"), (now.unknown, "unknown"))
        if count
    ]
    if now.power_watts is not None:
        parts.append(f"{now.power_watts / 1000:.1f}\u00a0kW")
    return Tile(
        "working",
        "At work now",
        f"{now.working} of {now.counted}",
        ", ".join(parts) or "all of them",
    )


def _idle(shares: Sequence[Share], span: Span) -> Tile:
    idle, stalled = part_of(shares, *IDLE_STATES), part_of(shares, State.HIDDEN_STALL)
    unknown = part_of(shares, State.UNKNOWN)
    return Tile(
        "idle",
        f"Idle, last {span.text}",
        percent_label(idle) if shares else ABSENT,
        f"stalled {percent_label(stalled)}, unknown {percent_label(unknown)}"
        if shares
        else "nothing known yet",
    )


def _used(waste: WasteView) -> Tile:
    return Tile(
        "used",
        "Effective utilization",
        waste.used_text or ABSENT,
        f"lost {waste.lost}" if waste.lost else "",
    )


def _advice(open_advice: Sequence[Advice]) -> Tile:
    counts = Counter(piece.finding.severity for piece in open_advice)
    told = [f"{counts[severity]} {severity}" for severity in SEVERITY_COLORS if counts[severity]]
    worst = next((severity for severity in SEVERITY_COLORS if counts[severity]), Severity.LOW)
    return Tile(
        "advice",
        "Open advice",
        str(len(open_advice)),
        ", ".join(told) or "nothing to do",
        SEVERITY_COLORS[worst] if told else "",
    )


def _savings(open_advice: Sequence[Advice]) -> Tile:
    total = savings_sum(open_advice)
    gpus = f"{interval(total.gpus_low, total.gpus_high, '{:.1f}')} GPUs"
    if not total.has_price:
        is_known = total.gpus_high > 0
        return Tile("savings", "It would free", gpus if is_known else ABSENT, "no price is known")
    money = interval(total.dollars_per_hour_low, total.dollars_per_hour_high, "{:,.0f}")
    return Tile("savings", "It would save", f"${money}", f"an hour; {gpus}")
