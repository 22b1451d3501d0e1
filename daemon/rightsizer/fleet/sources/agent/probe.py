"""What a store has of our agents, and what can be concluded from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.state import Tier
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, format_duration
from rightsizer.fleet.kept.grid import DAY
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.agent.reach import UP, Reach, names_at, reach, some_devices
from rightsizer.fleet.sources.agent.settings import AgentSourceSettings
from rightsizer.fleet.sources.agent.warnings import warnings_of
from rightsizer.fleet.sources.density import seconds_by_day
from rightsizer.fleet.sources.labels import word_of
from rightsizer.fleet.store import Store

__all__ = ["NAME", "STATES", "probe"]

NAME: Final = "rightsizer"
STATES: Final = "rightsizer_state_seconds_total"
_RULES: Final = "uuid_state:rightsizer_state_seconds:increase5m"
_RESOLUTION: Final = f"quantile(0.5, count_over_time({UP}[1h]))"
_TIERS: Final = (
    "count by (tier) (max by (uuid, tier) (rightsizer_device_telemetry_info) "
    'and on (uuid) rightsizer_state_seconds_total{state="unknown"})'
)
"""Of whatever has time of its own, which a GPU that is divided has not."""
_HOUR_SECONDS: Final = 3600.0
_DAY_SECONDS: Final = DAY / NANOSECONDS_PER_SECOND
_DAYS_AT_ONCE: Final = 14
"""A fortnight by the hour has hardly more samples than a day by five minutes, and the same
shards."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What the sentences are made of."""

    names: frozenset[str]
    past: Reach
    tiers: Mapping[Tier, int]
    resolution_seconds: float | None
    reach_seconds: float
    """From the first sample until now."""
    lookback_seconds: float


def probe(
    store: Store, now: Nanoseconds, lookback: Nanoseconds, settings: AgentSourceSettings
) -> SourceReport:
    """What there is now, how far back, how dense, and what follows."""
    few = some_devices(store, now)
    names = names_at(store, few, now)
    past = reach(store, now, lookback)
    if not names and past.oldest is None:
        return SourceReport(NAME, cannot=("no series of Rightsizer's agents are in the store",))
    counts = [series.values[-1] for series in store.instant(_RESOLUTION, now)]
    devices = [series.values[-1] for series in store.instant(f"count(max by (uuid) ({UP}))", now)]
    tiers = {
        tier: int(series.values[-1])
        for series in store.instant(_TIERS, now)
        if (tier := word_of(Tier, series.labels.get("tier", ""))) is not None
    }
    found = _Found(
        names=names,
        past=past,
        tiers=tiers,
        resolution_seconds=_HOUR_SECONDS / counts[0] if counts and counts[0] >= 1 else None,
        reach_seconds=0.0 if past.oldest is None else (now - past.oldest) / NANOSECONDS_PER_SECOND,
        lookback_seconds=lookback / NANOSECONDS_PER_SECOND,
    )
    return SourceReport(
        source=NAME,
        devices=int(devices[0]) if devices else 0,
        oldest=past.oldest,
        resolution_seconds=found.resolution_seconds,
        tier=max(tiers, key=lambda tier: tiers[tier]) if tiers else Tier.NONE,
        metrics=names.union(*past.names_by_day.values()),
        names_by_day=past.names_by_day,
        days_at_once=_DAYS_AT_ONCE,
        resolution_by_day=seconds_by_day(store, selector(UP, {"uuid": few}), now, lookback),
        can=tuple(_can(found)),
        cannot=tuple(_cannot(found, settings)),
        warnings=warnings_of(store, now, settings),
    )


def _can(found: _Found) -> Iterator[str]:
    if STATES in found.names:
        yield "where each device's time went, by state, condition and cause of waste"
    if "rightsizer_sm_work_ratio" in found.names:
        yield "how much compute and memory bandwidth were in use, from profiling counters"
    if "rightsizer_workload_share_ratio" in found.names:
        yield "who held each device, and which part of it"
    if "rightsizer_advice_info" in found.names:
        yield "what the nodes' own agents advise"
    if _RULES in found.names:
        yield "long spans at little cost to the store, from recording rules"


def _cannot(found: _Found, settings: AgentSourceSettings) -> Iterator[str]:
    if STATES not in found.names:
        yield (
            f"no `{STATES}` now: nothing can be said of the time since they ended; see that the "
            "agents run, are scraped, and that the collector `states` is on"
        )
    if found.reach_seconds < settings.sizing_days * _DAY_SECONDS:
        yield (
            f"samples reach back {format_duration(found.reach_seconds)}: sizing advice needs "
            f"{settings.sizing_days:g} days and abstains"
        )
    yield from _cannot_cheaply(found)
    yield from _cannot_finely(found, settings)


def _cannot_cheaply(found: _Found) -> Iterator[str]:
    with_rules = sum(_RULES in names for names in found.past.names_by_day.values())
    days = len(found.past.names_by_day)
    if _RULES not in found.names:
        yield (
            f"no recording rules: {format_duration(found.lookback_seconds)} are read from raw "
            "counters, which costs the store more; docs/alerts.md has them"
        )
    elif with_rules < days:
        yield (
            f"recording rules are there for {with_rules} of {days} days: the others are read "
            "from raw counters"
        )


def _cannot_finely(found: _Found, settings: AgentSourceSettings) -> Iterator[str]:
    resolution = found.resolution_seconds
    if resolution is not None and resolution > settings.fine_resolution_seconds:
        yield (
            f"samples are {format_duration(resolution)} apart: peaks of less than an hour are "
            "not seen, and what is happening now is judged by the last whole hour instead of the "
            "last ten minutes; scrape every 15 to 60 s"
        )
    if STATES in found.names and not found.tiers:
        yield (
            "no `rightsizer_device_telemetry_info`: how far readings can be trusted is unknown, so "
            "that no verdict becomes advice; upgrade the agents"
        )
    poor = {tier: count for tier, count in found.tiers.items() if tier is not Tier.PROFILING}
    if poor:
        counts = ", ".join(f"{count} {tier.value}" for tier, count in sorted(poor.items()))
        of_all = sum(found.tiers.values())
        yield (
            f"{sum(poor.values())} of {of_all} devices have no profiling ({counts}): of compute "
            "an upper bound is known, of memory bandwidth nothing"
        )
