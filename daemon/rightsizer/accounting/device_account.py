"""DeviceAccount: windows, totals and tenancy of one device; DeviceRecord.

What a restart restores of it.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from rightsizer.accounting.device_windows import DeviceWindows
from rightsizer.accounting.power import LearnedPower
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.entry import EnergySource, Entry
from rightsizer.model.histogram import Histogram
from rightsizer.model.report import Totals
from rightsizer.model.signal import RATIO_SIGNALS, Signal
from rightsizer.model.state import Cause, Condition, Resource, State
from rightsizer.model.units import Nanoseconds, nanoseconds, seconds
from rightsizer.model.workload import Allocator, Holding, Workload, WorkloadClass, WorkloadKind


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """A device with its holder."""

    device: Device
    holder: Workload | None = None
    holder_since: Nanoseconds = 0
    power: LearnedPower | None = None
    """The range of its draw as far as it was learned."""


def encode_device(known: DeviceRecord) -> str:
    """The device as JSON."""
    form = asdict(known)
    form["held_since"] = form.pop("holder_since")  # The stored name.
    return json.dumps(form)


def decode_device(text: str) -> DeviceRecord:
    """The device that `to_text` wrote.

    Raises:
        ValueError: the text is not such a device.
    """
    try:
        form: dict[str, Any] = json.loads(text)
        facts, holder = form["device"], form["holder"]
        power = form.get("power")  # Former versions did not keep it.
        mig = facts["mig"]
        return DeviceRecord(
            device=Device(
                **facts
                | {
                    "mig": None if mig is None else MigInstance(**mig),
                    "assumed": tuple(facts.get("assumed", ())),
                }
            ),
            holder=None if holder is None else _workload(holder),
            holder_since=form["held_since"],
            power=None if power is None else _power(power),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a device: {error!r}") from None


def _power(form: dict[str, Any]) -> LearnedPower:
    idle_watts = form["idle_watts"]
    return LearnedPower(
        lowest_watts=float(form["lowest_watts"]),
        highest_watts=float(form["highest_watts"]),
        idle_watts=None if idle_watts is None else float(idle_watts),
        empty_seconds=float(form["empty_seconds"]),
    )


def _workload(form: dict[str, Any]) -> Workload:
    return Workload(
        **form
        | {
            "kind": WorkloadKind(form["kind"]),
            "workload_class": WorkloadClass(form["workload_class"]),
            "allocator": Allocator(form["allocator"]),
        }
    )


class Tenancy:
    """One device's present holder."""

    def __init__(self, gap: Nanoseconds) -> None:
        """Nobody holds the device yet.

        Args:
            gap: How long a device may stand empty before its holder has left.
        """
        self._gap = gap
        self._empty_since: Nanoseconds | None = None
        self.holder: Workload | None = None
        """The workload with the largest share, `None` where nobody holds the device."""
        self.since: Nanoseconds = 0
        """When the holder took the device, or left it; wall time."""

    def restore(self, holder: Workload | None, since: Nanoseconds) -> None:
        """Go on where a history ended."""
        self.holder, self.since = holder, since

    def see(self, holdings: tuple[Holding, ...], entry: Entry) -> bool:
        """Take note of who held the device over a stretch; whether somebody has taken it."""
        if entry.end < self.since:  # The clock was set back, and nobody holds it from then on.
            self.since = entry.start
        if holdings:
            largest = max(holdings, key=lambda held: held.share_ratio)
            return self._take(largest.workload, entry.start)
        if entry.state is State.IDLE_EMPTY:
            self._stand_empty(entry)
        elif entry.state is not State.UNKNOWN:
            self._empty_since = None
        return False

    def _take(self, holder: Workload, start: Nanoseconds) -> bool:
        is_new = self.holder is None or holder.key != self.holder.key
        if is_new:
            self.since = start
        self.holder, self._empty_since = holder, None
        return is_new

    def _stand_empty(self, entry: Entry) -> None:
        if self._empty_since is None or entry.end < self._empty_since:
            self._empty_since = entry.start
        if self.holder is not None and entry.end - self._empty_since >= self._gap:
            self.holder, self.since = None, self._empty_since


class RunningTotals:
    """The totals of one device or workload while they grow."""

    def __init__(self, *, keeps_distributions: bool = True) -> None:
        self._keeps_distributions = keeps_distributions
        self._states: Counter[State] = Counter()
        self._conditions: Counter[Condition] = Counter()
        self._waste_seconds: dict[Cause, float] = {}
        self._waste_joules: dict[Cause, float] = {}
        self._used_seconds = 0.0
        self._used_joules = 0.0
        self._energy_joules: dict[EnergySource, float] = {}
        self._distributions: dict[Signal, Histogram] = {}
        self._signal_seconds: dict[Signal, float] = {}

    def add(self, entry: Entry) -> None:
        """Add one stretch of the device's time."""
        duration = entry.duration
        self._states[entry.state] += duration
        for condition in entry.conditions:
            self._conditions[condition] += duration
        if self._keeps_distributions:
            for signal, value in entry.signals.items():
                if signal in RATIO_SIGNALS:
                    self._add_signal(signal, value, duration)
        if entry.used_ratio is not None:
            self._add_waste(entry, entry.used_ratio)

    def totals(self) -> Totals:
        """The totals so far, for any thread to read."""
        return Totals(
            state_seconds={state: seconds(time) for state, time in self._states.items()},
            condition_seconds={name: seconds(time) for name, time in self._conditions.items()},
            waste_seconds=dict(self._waste_seconds),
            waste_joules=dict(self._waste_joules),
            used_seconds=self._used_seconds,
            used_joules=self._used_joules,
            distributions={signal: found.copy() for signal, found in self._distributions.items()},
            signal_seconds=dict(self._signal_seconds),
            energy_joules=dict(self._energy_joules),
        )

    def _add_signal(self, signal: Signal, value: float, duration: Nanoseconds) -> None:
        found = self._distributions.get(signal)
        if found is None:
            found = self._distributions[signal] = Histogram()
            self._signal_seconds[signal] = 0.0
        found.add(value, duration)
        self._signal_seconds[signal] += value * seconds(duration)

    def _add_waste(self, entry: Entry, used_ratio: float) -> None:
        length, joules = seconds(entry.duration), entry.energy_joules or 0.0
        if entry.energy_source is not None:
            source = entry.energy_source
            self._energy_joules[source] = self._energy_joules.get(source, 0.0) + joules
        self._used_seconds += used_ratio * length
        self._used_joules += used_ratio * joules
        for cause, part in entry.waste.items():
            self._waste_seconds[cause] = self._waste_seconds.get(cause, 0.0) + part * length
            self._waste_joules[cause] = self._waste_joules.get(cause, 0.0) + part * joules


class DeviceAccount:
    """One device's."""

    def __init__(self, uuid: str, settings: AccountingSettings) -> None:
        self.windows = DeviceWindows(uuid, settings.decay)
        self.totals = RunningTotals()
        self.whole = WindowBuilder(uuid)
        self.last: Entry | None = None
        self.tenancy = Tenancy(nanoseconds(settings.holder_gap_seconds))

    def current_demands(self) -> dict[Resource, float]:
        """What is needed now. Memory does not fade: what was needed once may be needed again."""
        demands = self.windows.demands.demand()
        return {
            resource: share
            for resource, share in demands.items()
            if resource is not Resource.MEMORY
        }
