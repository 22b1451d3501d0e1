"""Facts of a report: sums over a span of a history, advice, prices."""

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.market import Market
from rightsizer.model.values import (
    Advice,
    Device,
    Finding,
    Nanoseconds,
    Provisioning,
    State,
    Window,
)


class PriceRate(Struct, frozen=True):
    """Hourly price of a board, with its source."""

    dollars_per_hour_low: float
    dollars_per_hour_high: float
    dollars_per_hour_typical: float
    """Median price."""
    billing: str
    source: str
    date: str
    basis: str
    """Kind of price: list prices, your prices, or assumed costs."""


RateOf: TypeAlias = Callable[[Device], PriceRate | None]
"""Returns the hourly price of a device's board."""


def no_rate(_: Device) -> None:
    """Return `None`: prices are unknown."""


def price_rate(market: Market, board: str | None) -> PriceRate | None:
    """Return the hourly price of a board, or `None`."""
    if (cost := market.cost(market.board(board))) is None:
        return None
    price = cost.dollars_per_hour
    return PriceRate(
        price.low, price.high, price.value, cost.billing, cost.source, cost.date, cost.basis
    )


def spanning_rate(rates: Iterable[PriceRate | None]) -> PriceRate | None:
    """Return the range over several prices; `None` unless all are known."""
    all_rates = list(rates)
    if not (price_rates := [rate for rate in all_rates if rate is not None]) or len(
        price_rates
    ) < len(all_rates):
        return None
    return replace(
        price_rates[0],
        dollars_per_hour_low=min(rate.dollars_per_hour_low for rate in price_rates),
        dollars_per_hour_high=max(rate.dollars_per_hour_high for rate in price_rates),
        dollars_per_hour_typical=sum(rate.dollars_per_hour_typical for rate in price_rates)
        / len(price_rates),
    )


class Slice(Struct, frozen=True):
    """Time of a device by state within the hour from `start`."""

    start: Nanoseconds
    states: Mapping[State, Nanoseconds]


class ReportDeviceFacts(Struct, frozen=True):
    """A device over the span."""

    device: Device
    window: Window
    provisioning: Provisioning
    slices: tuple[Slice, ...]
    """Oldest first."""
    workloads: tuple[str, ...] = ()
    """Keys of the workloads that held it within the span."""
    rate: PriceRate | None = None
    """`None` without a price."""

    @property
    def label(self) -> str:
        """Display name, such as `GPU 3` or `MIG 6:2 (1g.10gb)`."""
        return self.device.label


class WorkloadFacts(Struct, frozen=True):
    """A workload over the span; its window sums over its devices."""

    key: str
    window: Window
    devices: tuple[str, ...] = ()
    """Uuids of the devices that it held within the span."""


class RuleFacts(Struct, frozen=True):
    """Track record of a rule's advice since the ledger began."""

    rule: str
    reason: str
    outcomes: Mapping[str, int]
    realized_gpu_hours: float
    realized_kilowatt_hours: float


class Gap(Struct, frozen=True):
    """A time without records of any device, in seconds since the epoch."""

    start: float
    end: float


class ReportFacts(Struct, frozen=True):
    """All facts of a report."""

    since: Nanoseconds
    until: Nanoseconds
    history_start: Nanoseconds
    history_end: Nanoseconds
    devices: tuple[ReportDeviceFacts, ...]
    workloads: tuple[WorkloadFacts, ...] = ()
    advice: tuple[Advice, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Findings over the whole span, with or without advice."""
    rules: tuple[RuleFacts, ...] = ()
    gaps: tuple[Gap, ...] = ()
    timezone: dt.tzinfo = dt.UTC
    timezone_name: str = "UTC"
    is_judged_now: bool = False
    """Whether the advice is of a run at the end of the history, because the ledger is empty."""
    version: str = ""

    @property
    def decided_until(self) -> float:
        """When decisions count for the last time.

        At the end of a history all of them do: what was dismissed since, as in an old log, is not
        open.
        """
        return math.inf if self.until >= self.history_end else self.until
