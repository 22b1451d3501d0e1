"""Probe of a store for agents' metrics: history, capabilities, and warnings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.fleet.cache.grid import COARSE_STEP, DAY
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.settings import AgentSourceSettings
from rightsizer.fleet.source import DAYS_AT_ONCE, MetricStore, SourceReport
from rightsizer.fleet.sources.figures import (
    BUCKETS,
    DEVICE_NAMES,
    POWER_BUCKETS,
    first_form,
    names_in,
    unrecorded,
)
from rightsizer.fleet.sources.series import (
    at_moment,
    divided,
    number_of,
    seconds_by_day,
    word_of,
)
from rightsizer.model.values import (
    DAY_SECONDS,
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    Tier,
    format_duration,
    seconds,
)

NAME: Final = "rightsizer"
STATES: Final = "rightsizer_state_seconds_total"
_HISTOGRAMS: Final = tuple(form for figure in (*BUCKETS, *POWER_BUCKETS) for form in figure.forms)
_UP: Final = "rightsizer_device_up"
_USED: Final = f'{STATES}{{state="unknown"}}'
_TIER: Final = "rightsizer_device_telemetry_info"
_RECORDED: Final = "uuid:rightsizer_used_seconds:increase5m"
_RECORDED_STATES: Final = "uuid_state:rightsizer_state_seconds:increase5m"
_TIME: Final = "rightsizer_device_last_sample_timestamp_seconds"
_HELD: Final = "rightsizer_workload_share_ratio"
_OTHER_NAMES: Final = (
    _HELD,
    f"uuid_workload:{_HELD}:avg5m",
    "rightsizer_workload_info",
    "workload:rightsizer_workload_info:last5m",
    "rightsizer_advice_info",
    "rightsizer_build_info",
)
"""Metrics that any few devices may lack, such as those of holders."""
_LOOK: Final[Nanoseconds] = 600 * NANOSECONDS_PER_SECOND
_SPAN: Final = "10m"
"""Recorded samples are five minutes apart, so an instant query might miss them."""


def _latest(name: str) -> str:
    return f"last_over_time({name}[{_SPAN}])"


# A device without time of its own, such as a divided GPU, is not representative.
_PICKS: Final = (
    f"topk(2, max by (uuid) ({_latest(_UP)}))",
    f"topk by (tier) (2, max by (uuid, tier) ({_latest(_TIER)}))",
    *(f"topk(2, max by (uuid) ({_latest(used)}))" for used in (_USED, _RECORDED)),
    *(
        f"topk by (model) (2, max by (uuid, model) ({_latest(info)}) and on (uuid) {_latest(used)})"
        for used, info in (
            (_USED, "rightsizer_device_info"),
            (_RECORDED, "uuid:rightsizer_device_info:last5m"),
        )
    ),
)
_MOST_PICKED: Final = 64
"""If a fleet is read part by part, each part has some."""
_WINDOWS: Final = (600, 3600)
"""Seconds in which scrapes are counted; the longer where the shorter has few, and it has more: by
an hour, a store that has just begun would seem to scrape rarely."""
_FEW_SCRAPES: Final = 5
_TIERS: Final = f"count by (tier) (max by (uuid, tier) ({_TIER}) and on (uuid) {_USED})"
"""Of devices with time of their own, unlike divided GPUs."""
_VERSIONS_SHOWN: Final = 5
_RULES_SHOWN: Final = 3
_CAN: Final = {
    STATES: "where each device's time went, by state, condition and cause of waste",
    "rightsizer_sm_work_ratio": "how much compute and memory bandwidth were in use, from "
    "profiling counters",
    _HELD: "who held each device, and which part of it",
    "rightsizer_advice_info": "what the nodes' own agents advise",
    _RECORDED_STATES: "long spans at little cost to the store, from recording rules",
}


_AHEAD: Final = (
    "the clocks of the nodes of {:.0f} devices are ahead of the store's by up to {}: advice's "
    "times are off by that; see to their time service"
)
_DOWN: Final = "{:.0f} devices do not answer their agents: their last hours are unknown"
_STALE: Final = (
    "the last readings of {:.0f} devices are up to {} older than their scrapes: their agents "
    "stall, or the clocks of their nodes are behind"
)


def _unrecorded(names: frozenset[str]) -> Iterator[str]:
    """Yield a sentence if only some of our rules' series exist."""
    if (missing := sorted(unrecorded(names))) and _RECORDED_STATES in names:
        shown = ", ".join(missing[:_RULES_SHOWN])
        more = ", ..." if len(missing) > _RULES_SHOWN else ""
        yield (
            f"{len(missing)} series of our recording rules are missing ({shown}{more}), though "
            "others are there: load config/prometheus/rules.yaml of this version, and check that "
            "the ruler accepts every group (Mimir takes 20 rules in one)"
        )


class AgentProbe(Struct, frozen=True):
    """Queries of a store about agents' metrics."""

    store: MetricStore
    now: Nanoseconds
    lookback: Nanoseconds
    settings: AgentSourceSettings

    def report(self) -> SourceReport:
        """Report what there is now, how far back, how dense, and what follows."""
        few = self._some_devices(self.now)
        names = self._names_at(few, self.now)
        names_by_day = self._names_by_day(few)
        oldest = self._oldest(min(names_by_day, default=self.now // DAY))
        if not names and oldest is None:
            return SourceReport(NAME, cannot=("no series of Rightsizer's agents are in the store",))
        tiers = {
            tier: int(series.value)
            for series in self.store.instant(_TIERS, self.now)
            if (tier := word_of(Tier, series.labels.get("tier", ""))) is not None
        }
        some_series = selector(_UP, {"uuid": few})
        report = SourceReport(
            source=NAME,
            devices=int(
                number_of(self.store, f"count(max by (uuid) ({_UP}))", self.now, ("uuid",))
            ),
            oldest=oldest,
            resolution_seconds=self._resolution_seconds(),
            tier=max(tiers, key=lambda tier: tiers[tier]) if tiers else Tier.NONE,
            metrics=names.union(*names_by_day.values()),
            names_by_day=names_by_day,
            days_at_once=DAYS_AT_ONCE,
            resolution_by_day=seconds_by_day(self.store, some_series, self.now, self.lookback),
            can=tuple(can for name, can in _CAN.items() if name in names),
            warnings=(*self._warnings(), *_unrecorded(names)),
        )
        return replace(report, cannot=tuple(self._cannot(report, names, tiers)))

    def _names_by_day(self, uuids: Sequence[str]) -> dict[int, frozenset[str]]:
        """Return the names at the start of each UTC day, by a few cheap queries per day."""
        start = self.now - self.lookback
        names = {}
        for day in range(self.now // DAY, start // DAY - 1, -1):
            # A sample at the very start of a day belongs to the day before.
            moment = max(day * DAY, start) + _LOOK
            if moment > self.now:
                continue
            day_names = self._names_at(uuids, moment)
            if not day_names and self._is_there(moment):
                uuids = self._some_devices(moment) or uuids
                day_names = self._names_at(uuids, moment)
            if day_names:
                names[day] = day_names
        return names

    def _some_devices(self, moment: Nanoseconds) -> tuple[str, ...]:
        """Return a few devices with their own states, of each tier and model."""
        uuids = {
            series.labels.get("uuid", "")
            for pick in _PICKS
            for series in divided(self.store, at_moment(pick, moment))
        }
        return tuple(sorted(uuids - {""})[:_MOST_PICKED])

    def _names_at(self, uuids: Sequence[str], moment: Nanoseconds) -> frozenset[str]:
        """Return the names of these devices' series at a moment, and others of the fleet."""
        names: set[str] = set()
        of_devices = {"uuid": uuids, "__name__": DEVICE_NAMES}
        for labels in (of_devices, {"__name__": _OTHER_NAMES}) if uuids else ():
            query = at_moment(f"count by (__name__) ({_latest(selector('', labels))})", moment)
            names.update(series.labels.get("__name__", "") for series in divided(self.store, query))
            if not names:
                break
        return frozenset(names)

    def _resolution_seconds(self) -> float | None:
        """Return the median time between scrapes of an agent."""
        longest = 0
        scrapes = 0.0
        for window in _WINDOWS:
            count = self._number(f"quantile(0.5, count_over_time({_UP}[{window}s]))")
            if count > scrapes:
                longest = window
                scrapes = count
            if scrapes >= _FEW_SCRAPES:
                break
        return longest / scrapes if scrapes >= 1 else None

    def _oldest(self, first_day: int) -> Nanoseconds | None:
        """Return when samples begin, within the first day with any or the day before."""
        start = self.now - self.lookback
        low = max(start, (first_day - 1) * DAY)
        high = max(start, first_day * DAY)
        if not self._is_there(min(self.now, high + COARSE_STEP)):
            low = high
            high = self.now
            if not self._is_there(self.now):
                return None
        while high - low > _LOOK:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_there(middle) else (middle, high)
        return low if self._is_there(low + _LOOK) else high

    def _is_there(self, moment: Nanoseconds) -> bool:
        queries = (f"count({_latest(name)})" for name in (_UP, _RECORDED))
        return any(self.store.instant(query, moment) for query in queries)

    def _cannot(
        self, report: SourceReport, names: frozenset[str], tiers: Mapping[Tier, int]
    ) -> list[str]:
        reach = 0.0 if report.oldest is None else seconds(self.now - report.oldest)
        days = report.names_by_day.values()
        with_rules = sum(_RECORDED_STATES in of_day for of_day in days)
        is_recorded = _RECORDED_STATES in names
        resolution = report.resolution_seconds or 0.0
        poor = {tier: count for tier, count in tiers.items() if tier is not Tier.PROFILING}
        counts = ", ".join(f"{count} {tier.value}" for tier, count in sorted(poor.items()))
        sentences = {
            f"no `{STATES}` now: the time since they ended is unknown; check that the agents run "
            "and are scraped, and that the collector `states` is on": STATES not in names,
            f"samples reach back {format_duration(reach)}: sizing advice needs "
            f"{self.settings.sizing_days:g} days and abstains": (
                reach < self.settings.sizing_days * DAY_SECONDS
            ),
            f"no recording rules: {format_duration(seconds(self.lookback))} are read from raw "
            "counters, which costs the store more; docs/alerts.md has them": not is_recorded,
            f"recording rules are there for {with_rules} of {len(days)} days: the others are read "
            "from raw counters": is_recorded and with_rules < len(days),
            f"samples are {format_duration(resolution)} apart: peaks of less than an hour are not "
            "seen, and what is happening now is judged by the last whole hour instead of the last "
            "ten minutes; scrape every 15 to 60 s": (
                resolution > self.settings.fine_resolution_seconds
            ),
            f"no `{''.join(names_in(_HISTOGRAMS[1]))}`: how much of a GPU is needed is estimated "
            "by the mean and the peak of samples; for distributions of every second set "
            "`web.metrics.level: full` on the agents": (
                STATES in names and not first_form(_HISTOGRAMS, names)
            ),
            f"no `{_TIER}`: how far readings can be trusted is unknown, so that no verdict becomes "
            "advice; upgrade the agents": STATES in names and not tiers,
            f"{sum(poor.values())} of {sum(tiers.values())} devices have no profiling ({counts}): "
            "of compute an upper bound is known, of memory bandwidth nothing": bool(poor),
        }
        return [sentence for sentence, is_so in sentences.items() if is_so]

    def _warnings(self) -> Iterator[str]:
        more = self.store.instant(f"count by (uuid) ({_UP}) > 1", self.now)
        # Only the first by name, so that the sentence is stable.
        for uuid in sorted(series.labels.get("uuid", "") for series in more)[:1]:
            sampled_series = self.store.instant(selector(_UP, {"uuid": uuid}), self.now)
            values = {
                name: sorted({series.labels.get(name, "") for series in sampled_series})
                for name in sorted({name for series in sampled_series for name in series.labels})
            }
            how = "; ".join(
                f"`{name}` is {' and '.join(map(repr, texts))}"
                for name, texts in values.items()
                if len(texts) > 1
            )
            yield (
                f"{len(more)} devices are scraped more than once "
                f"({uuid}: {how}): each is counted once, but the store keeps all of it; scrape "
                "each agent from one job, or deduplicate replicas"
            )
        # Old readings of a device that is down, or a stalled agent, are not clock skew.
        skew = self.settings.clock_skew_seconds
        stale = self.settings.stale_seconds
        for those, warning in (
            (f"{_TIME} - timestamp({_TIME}) > {skew:g}", _AHEAD),
            (f"max by (uuid) ({_UP}) == 0", _DOWN),
            (f"(timestamp({_TIME}) - {_TIME} > {stale:g}) and on (uuid) {_UP} == 1", _STALE),
        ):
            if count := self._number(f"count({those})"):
                longest = self._number(f"max({those})") if "{}" in warning else 0.0
                yield warning.format(count, format_duration(longest))
        counts = {
            series.labels.get("version", ""): series.value
            for series in self.store.instant("count by (version) (rightsizer_build_info)", self.now)
        }
        if len(counts) > 1:
            ordered = sorted(counts, key=lambda version: (-counts[version], version))
            shown = ", ".join(
                f"{version} ({counts[version]:.0f})" for version in ordered[:_VERSIONS_SHOWN]
            )
            yield f"agents of {len(counts)} versions run: {shown}; later ones may know more causes"

    def _number(self, query: str) -> float:
        return number_of(self.store, query, self.now)
