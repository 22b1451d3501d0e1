"""View of totals: use of device time, potential savings, and headline tiles."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec import Struct

from rightsizer.advice.compatible import SavingsSum
from rightsizer.model.values import (
    HOUR_SECONDS,
    IDLE_STATES,
    JOULES_PER_KILOWATT_HOUR,
    Advice,
    Cause,
    DeviceSpan,
    Report,
    Savings,
    Severity,
    Signal,
    State,
    Totals,
    dollars_text,
    percent_text,
    wasted_in,
)
from rightsizer.report.facts import PriceRate
from rightsizer.report.figures import dollars
from rightsizer.report.labels import (
    HOURS_A_DAY,
    PAGE_CAUSE_LABELS,
    SEVERITY_COLORS,
    display_name,
    interval_text,
)
from rightsizer.report.model import UsageAmount, priced, summed
from rightsizer.report.rows import SubjectUse
from rightsizer.web.view.strip import Share


class Spending(Struct, frozen=True):
    """Accounted time of a device, and its hourly price."""

    spent: DeviceSpan | Totals
    """Of a span or since the agent started."""
    capacity_ratio: float = 1.0
    """Its share of a whole GPU."""
    rate: PriceRate | None = None
    """Of a whole GPU; `None` without a price."""

    def hours(self, duration_seconds: float) -> float:
        """Return a part of its time in hours of a whole GPU."""
        return duration_seconds * self.capacity_ratio / HOUR_SECONDS

    def unused(self, cause: Cause) -> float:
        """Return what was not used for a cause, in the same hours."""
        return self.hours(self.spent.waste_seconds.get(cause, 0.0))


_NOTHING: Final = summed(())
_HELD_UP: Final = (Cause.HOST, Cause.STORAGE, Cause.PCIE, Cause.LAUNCH, Cause.THROTTLED)


class WasteView(Struct, frozen=True):
    """Breakdown of all known time of some devices; `used_text` is empty if nothing is known."""

    used_text: str
    known_seconds: float
    """Of a GPU."""
    parts: tuple[Share, ...]
    """Used first, then the causes in order, without empty ones."""
    label: str
    lost: str = ""
    """Unused time, including headroom, in GPU-hours and energy."""
    wasted: UsageAmount = _NOTHING
    """Idle, stalled or held up."""
    left_over: UsageAmount = _NOTHING
    """Headroom: what work leaves of its GPUs, not wasted, yet smaller ones may do."""
    price_basis: str = ""
    """Kinds of the devices' prices; empty without any."""
    use: SubjectUse = SubjectUse()

    @property
    def known_text(self) -> str:
        """Known GPU time."""
        return _gpu_hours_label(self.known_seconds / HOUR_SECONDS)

    @property
    def wasted_ratio(self) -> float:
        """Share of time that was idle, stalled or held up."""
        return self.use.wasted_ratio or 0.0

    @property
    def held_up_ratio(self) -> float:
        """Share of time lost to the host, storage, PCIe, launches or throttling."""
        return sum(part_of(self.parts, f"waste-{cause}") for cause in _HELD_UP)


def _gpu_hours_label(hours: float) -> str:
    """Return a text such as `16.5 GPU-hours`."""
    return f"{hours:,.1f} GPU-hours"


def waste_view(spendings: Iterable[Spending]) -> WasteView:
    """Return the breakdown of the time of some devices."""
    spendings = [*spendings]
    used = sum(spending.hours(spending.spent.used_seconds) for spending in spendings)
    unused = {cause: sum(spending.unused(cause) for spending in spendings) for cause in Cause}
    joules = sum(sum(spending.spent.waste_joules.values()) for spending in spendings)
    bases = {spending.rate.basis for spending in spendings if spending.rate is not None}
    basis = " and ".join(sorted(bases))
    unused_hours = sum(unused.values())
    known_hours = used + unused_hours
    if known_hours <= 0:
        return WasteView("", 0.0, (), "nothing known yet", price_basis=basis)
    names = {cause: PAGE_CAUSE_LABELS.get(cause, display_name(cause)) for cause in Cause}
    named = [("used", "Effective utilization", used)]
    named += [(cause, names[cause], hours) for cause, hours in unused.items()]
    parts = tuple(
        Share(f"waste-{key}", name, percent_text(hours / known_hours), hours / known_hours)
        for key, name, hours in named
        if hours > 0
    )
    energy = f", {joules / JOULES_PER_KILOWATT_HOUR:,.1f} kWh" if joules > 0 else ""
    return WasteView(
        used_text=percent_text(used / known_hours),
        known_seconds=known_hours * HOUR_SECONDS,
        parts=parts,
        label=", ".join(f"{part.name} {part.text}" for part in parts),
        lost=f"{_gpu_hours_label(unused_hours)}{energy}",
        wasted=summed(
            priced(spending.hours(wasted_in(spending.spent.waste_seconds)), None, spending.rate)
            for spending in spendings
        ),
        left_over=summed(
            priced(spending.unused(Cause.HEADROOM), None, spending.rate) for spending in spendings
        ),
        price_basis=basis,
        use=SubjectUse.of(used, unused),
    )


def savings_notes(savings: Savings) -> str:
    """What it comes to in a month, and of when the prices are."""
    hours = savings.gpu_hours_per_month_low, savings.gpu_hours_per_month_high
    energy = savings.kilowatt_hours_per_month_low, savings.kilowatt_hours_per_month_high
    parts = [
        f"{interval_text(low or 0.0, high, '{:,.0f}'.format)} {what} a month"
        for (low, high), what in ((hours, "GPU-hours"), (energy, "kWh"))
        if high
    ]
    if savings.dollars_per_hour_low is not None and savings.price_date:
        parts.append(f"prices of {savings.price_date}")
    return ", ".join(parts)


def daily_label(savings: Savings | SavingsSum) -> str:
    """Return the money typically saved per day; empty if unknown."""
    daily = savings.dollars_per_hour * HOURS_A_DAY
    return f"{dollars_text(daily)} a day" if daily > 0 else ""


def range_label(waste: WasteView) -> str:
    """Return the range of what the wasted time costs."""
    amount = waste.wasted
    return f"{dollars(amount.dollars_low, amount.dollars_high)} at {waste.price_basis}"


def savings_range(saved: SavingsSum) -> str:
    """Return the range of daily savings."""
    return dollars(
        saved.dollars_per_hour_low * HOURS_A_DAY, saved.dollars_per_hour_high * HOURS_A_DAY
    )


class DeviceCounts(Struct, frozen=True):
    """Counts of devices with their own state: MIG instances, and undivided GPUs."""

    counted: int
    working: int
    idle: int
    stalled: int
    unknown: int
    """Including those without fresh readings."""
    gpus: int
    """Physical ones."""
    instances: int
    """Of MIG."""
    silent: int
    """Devices of any kind without fresh readings."""
    power_watts: float | None
    """Sum over GPUs that report it; `None` if none does."""


def device_counts(report: Report, fresh: Collection[str]) -> DeviceCounts:
    """Count the devices of a report, given which are fresh."""
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
    stalled = states.count(State.HIDDEN_STALL)
    unknown = states.count(State.UNKNOWN)
    return DeviceCounts(
        counted=len(counted),
        working=len(counted) - idle - stalled - unknown,
        idle=idle,
        stalled=stalled,
        unknown=unknown,
        gpus=sum(device.device.mig is None for device in report.devices),
        instances=sum(device.device.mig is not None for device in report.devices),
        silent=sum(device.device.uuid not in fresh for device in report.devices),
        power_watts=sum(draws) if draws else None,
    )


def severity_counts(advice: Iterable[Advice]) -> dict[Severity, int]:
    """Return the number of each severity present, most urgent first."""
    counts = Counter(piece.finding.severity for piece in advice)
    return {severity: counts[severity] for severity in SEVERITY_COLORS if counts[severity]}


def part_of(shares: Sequence[Share], key: str) -> float:
    """Return the share of time with this key, a state or a cause of waste; 0 if absent."""
    return sum(share.ratio for share in shares if share.key == key)
