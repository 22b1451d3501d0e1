"""Probe of a store for agents' metrics: how far back, what can be concluded, and warnings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rightsizer.fleet.cache.day_frame import COARSE_STEP, DAY
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.settings import AgentSourceSettings
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.series import seconds_by_day, word_of
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.state import Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, format_duration

UP: Final = "rightsizer_device_up"
_USED: Final = 'rightsizer_state_seconds_total{state="unknown"}'
_TIER: Final = "rightsizer_device_telemetry_info"
_INFO: Final = "rightsizer_device_info"
_RECORDED_INFO: Final = "uuid:rightsizer_device_info:last5m"
_RECORDED: Final = "uuid:rightsizer_used_seconds:increase5m"
_OTHER_NAMES: Final = (
    *("rightsizer_workload_info", "workload:rightsizer_workload_info:last5m"),
    *("rightsizer_advice_info", "rightsizer_build_info"),
)
_LOOK: Final[Nanoseconds] = 600 * NANOSECONDS_PER_SECOND
_SPAN: Final = "10m"
"""Recorded samples are five minutes apart, so that a look at one moment might miss them."""


@dataclass(frozen=True, slots=True)
class Lookback:
    """What was found of the past."""

    oldest: Nanoseconds | None = None
    """To ten minutes."""
    names_by_day: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Of each UTC day that began with samples."""


def reach(store: MetricStore, now: Nanoseconds, lookback: Nanoseconds) -> Lookback:
    """What there was when each day of the lookback began: a few cheap looks a day."""
    start = now - lookback
    names, uuids = {}, some_devices(store, now)
    for day in range(now // DAY, start // DAY - 1, -1):
        # A sample at a day's very beginning belongs to the one before.
        moment = max(day * DAY, start) + _LOOK
        if moment > now:
            continue
        found = names_at(store, uuids, moment)
        if not found and _is_there(store, moment):
            uuids = some_devices(store, moment) or uuids
            found = names_at(store, uuids, moment)
        if found:
            names[day] = found
    oldest = _oldest(store, min(names, default=now // DAY), start, now)
    return Lookback(oldest, names)


def some_devices(store: MetricStore, moment: Nanoseconds) -> tuple[str, ...]:
    """A few devices that have states of their own, of each tier and model."""
    picks = [
        f"topk(2, max by (uuid) ({_latest(UP)}))",
        f"topk by (tier) (2, max by (uuid, tier) ({_latest(_TIER)}))",
    ]
    for used, info in ((_USED, _INFO), (_RECORDED, _RECORDED_INFO)):
        # Whoever has no time of its own, such as a GPU that is divided, stands for nobody.
        model = f"max by (uuid, model) ({_latest(info)}) and on (uuid) {_latest(used)}"
        picks += [f"topk(2, max by (uuid) ({_latest(used)}))", f"topk by (model) (2, {model})"]
    found = {
        series.labels.get("uuid", "") for pick in picks for series in store.instant(pick, moment)
    }
    return tuple(sorted(found - {""}))


def names_at(store: MetricStore, uuids: Sequence[str], moment: Nanoseconds) -> frozenset[str]:
    """The names of these devices' series at a moment, and of what is no device's."""
    if not uuids:
        return frozenset()
    of_devices = frozenset(_names(store, selector("", {"uuid": uuids}), moment))
    if not of_devices:
        return of_devices
    others = selector("", {"__name__": _OTHER_NAMES})
    return of_devices.union(_names(store, others, moment))


def _names(store: MetricStore, chosen: str, moment: Nanoseconds) -> Iterator[str]:
    query = f"count by (__name__) ({_latest(chosen)})"
    return (series.labels.get("__name__", "") for series in store.instant(query, moment))


def _oldest(
    store: MetricStore, first_day: int, start: Nanoseconds, now: Nanoseconds
) -> Nanoseconds | None:
    """When samples begin, within the first day that has any or the one before."""
    low, high = max(start, (first_day - 1) * DAY), max(start, first_day * DAY)
    if not _is_there(store, min(now, high + COARSE_STEP)):
        low, high = max(start, first_day * DAY), now
        if not _is_there(store, now):
            return None
    while high - low > _LOOK:
        middle = (low + high) // 2
        if _is_there(store, middle):
            high = middle
        else:
            low = middle
    return low if _is_there(store, low + _LOOK) else high


def _is_there(store: MetricStore, moment: Nanoseconds) -> bool:
    return any(store.instant(f"count({_latest(name)})", moment) for name in (UP, _RECORDED))


def _latest(name: str) -> str:
    return f"last_over_time({name}[{_SPAN}])"


_TIME: Final = "rightsizer_device_last_sample_timestamp_seconds"
_VERSIONS_SHOWN: Final = 5


def warnings_of(
    store: MetricStore, now: Nanoseconds, settings: AgentSourceSettings
) -> tuple[str, ...]:
    """A sentence each, with what to do."""
    checks: tuple[Callable[[MetricStore, Nanoseconds, AgentSourceSettings], Iterator[str]], ...] = (
        _duplicates,
        _clocks,
        _silent,
        _versions,
    )
    return tuple(warning for check in checks for warning in check(store, now, settings))


def _duplicates(
    store: MetricStore, now: Nanoseconds, _settings: AgentSourceSettings
) -> Iterator[str]:
    twice = store.instant("topk(1, count by (uuid) (rightsizer_device_up) > 1)", now)
    if not twice:
        return
    count = _number(store, "count(count by (uuid) (rightsizer_device_up) > 1)", now)
    uuid = twice[0].labels.get("uuid", "")
    series = store.instant(selector("rightsizer_device_up", {"uuid": uuid}), now)
    names = sorted({name for each in series for name in each.labels})
    differing = {
        name: values
        for name in names
        if len(values := sorted({each.labels.get(name, "") for each in series})) > 1
    }
    how = "; ".join(f"`{name}` is {' and '.join(map(repr, it))}" for name, it in differing.items())
    yield (
        f"{count:.0f} devices are scraped more than once ({uuid}: {how}): each is counted once, "
        "but the store keeps all of it; scrape each agent from one job, or deduplicate replicas"
    )


def _clocks(store: MetricStore, now: Nanoseconds, settings: AgentSourceSettings) -> Iterator[str]:
    limit = settings.clock_skew_seconds
    # An old reading of a device that is down, or an agent that stalls, is no matter of clocks.
    ahead = _number(store, f"count({_TIME} - timestamp({_TIME}) > {limit:g})", now)
    if ahead:
        most = _number(store, f"max({_TIME} - timestamp({_TIME}))", now)
        yield (
            f"the clocks of the nodes of {ahead:.0f} devices are ahead of the store's by up to "
            f"{format_duration(most)}: advice's times are off by that; see to their time service"
        )


def _silent(store: MetricStore, now: Nanoseconds, settings: AgentSourceSettings) -> Iterator[str]:
    down = _number(store, "count(max by (uuid) (rightsizer_device_up) == 0)", now)
    if down:
        yield f"{down:.0f} devices do not answer their agents: their last hours are unknown"
    limit = settings.stale_seconds
    age = f"(timestamp({_TIME}) - {_TIME} > {limit:g})"
    stale = _number(store, f"count({age} and on (uuid) rightsizer_device_up == 1)", now)
    if stale:
        most = _number(store, f"max({age} and on (uuid) rightsizer_device_up == 1)", now)
        yield (
            f"the last readings of {stale:.0f} devices are up to {format_duration(most)} older "
            "than their scrapes: their agents stall, or the clocks of their nodes are behind"
        )


def _versions(
    store: MetricStore, now: Nanoseconds, _settings: AgentSourceSettings
) -> Iterator[str]:
    counts = {
        series.labels.get("version", ""): series.values[-1]
        for series in store.instant("count by (version) (rightsizer_build_info)", now)
    }
    if len(counts) > 1:
        ordered = sorted(counts, key=lambda version: (-counts[version], version))
        shown = ", ".join(f"{each} ({counts[each]:.0f})" for each in ordered[:_VERSIONS_SHOWN])
        yield f"agents of {len(counts)} versions run: {shown}; later ones may know more causes"


def _number(store: MetricStore, query: str, now: Nanoseconds) -> float:
    """The one value of an answer, 0 where there is none."""
    return next((series.values[-1] for series in store.instant(query, now)), 0.0)


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
class _ProbedMetrics:
    """What the sentences are made of."""

    names: frozenset[str]
    past: Lookback
    tiers: Mapping[Tier, int]
    resolution_seconds: float | None
    reach_seconds: float
    """From the first sample until now."""
    lookback_seconds: float


def probe(
    store: MetricStore, now: Nanoseconds, lookback: Nanoseconds, settings: AgentSourceSettings
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
    found = _ProbedMetrics(
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


def _can(found: _ProbedMetrics) -> Iterator[str]:
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


def _cannot(found: _ProbedMetrics, settings: AgentSourceSettings) -> Iterator[str]:
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


def _cannot_cheaply(found: _ProbedMetrics) -> Iterator[str]:
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


def _cannot_finely(found: _ProbedMetrics, settings: AgentSourceSettings) -> Iterator[str]:
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
