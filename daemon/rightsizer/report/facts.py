"""What a report is made of: sums of a span as a history has them, advice, prices."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from rightsizer.advice.market import Market
from rightsizer.model.advice import Advice
from rightsizer.model.device import Device
from rightsizer.model.finding import Finding
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.state import State
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Provisioning, Window


@dataclass(frozen=True, slots=True)
class PriceRate:
    """What an hour of a board costs, and by which source."""

    dollars_per_hour_low: float
    dollars_per_hour_high: float
    dollars_per_hour_typical: float
    """The median."""
    billing: str
    source: str
    date: str


RateOf: TypeAlias = Callable[[Device], PriceRate | None]
"""Answers what an hour of a device's board costs."""


def no_rate(_: Device) -> None:
    """No price is known."""


def price_rate(market: Market, board: str | None) -> PriceRate | None:
    """What an hour of a board costs; `None` where no price is known."""
    if (cost := market.cost(market.board(board))) is None:
        return None
    price = cost.dollars_per_hour
    return PriceRate(price.low, price.high, price.value, cost.billing, cost.source, cost.date)


def spanning_rate(rates: Iterable[PriceRate | None]) -> PriceRate | None:
    """From the cheapest at the least to the dearest at the most; `None` unless all are known."""
    found = list(rates)
    if not (known := [each for each in found if each is not None]) or len(known) < len(found):
        return None
    return replace(
        known[0],
        dollars_per_hour_low=min(each.dollars_per_hour_low for each in known),
        dollars_per_hour_high=max(each.dollars_per_hour_high for each in known),
        dollars_per_hour_typical=sum(each.dollars_per_hour_typical for each in known) / len(known),
    )


@dataclass(frozen=True, slots=True)
class Slice:
    """The time that a device spent in each state, within the hour that begins at a time."""

    start: Nanoseconds
    states: Mapping[State, Nanoseconds]


@dataclass(frozen=True, slots=True)
class ReportDeviceFacts:
    """A device over the span."""

    device: Device
    window: Window
    provisioning: Provisioning
    slices: tuple[Slice, ...]
    """Oldest first."""
    workloads: tuple[str, ...] = ()
    """Keys of those that held it within the span."""
    rate: PriceRate | None = None
    """`None` without a price."""

    @property
    def label(self) -> str:
        """What the device is called: `GPU 3`, `MIG 12 (1g.10gb)`."""
        mig = self.device.mig
        return self.device.title if mig is None else f"MIG {self.device.index} ({mig.profile})"


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """A workload over the span; its window sums over its devices."""

    key: str
    window: Window
    devices: tuple[str, ...] = ()
    """Uuids of those that it held within the span."""


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """How the advice of a rule fared since the ledger began."""

    rule: str
    reason: str
    outcomes: Mapping[str, int]
    realized_gpu_hours: float
    realized_kilowatt_hours: float


@dataclass(frozen=True, slots=True)
class Gap:
    """A time of which nothing was recorded of any device, in seconds since the epoch."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """All of it."""

    since: Nanoseconds
    until: Nanoseconds
    history_start: Nanoseconds
    history_end: Nanoseconds
    devices: tuple[ReportDeviceFacts, ...]
    workloads: tuple[WorkloadFacts, ...] = ()
    advice: tuple[Advice, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What the rules say of the span as a whole, whether it is advice or not."""
    rules: tuple[RuleFacts, ...] = ()
    gaps: tuple[Gap, ...] = ()
    timezone: dt.tzinfo = dt.UTC
    timezone_name: str = "UTC"
    is_judged_now: bool = False
    """The advice is what the rules say at the end of the history, for its ledger is empty."""
    version: str = ""
