"""What an operator should look at: devices scraped twice, clocks that disagree, old agents."""

from collections.abc import Callable, Iterator
from typing import Final

from rightsizer.domain.units import Nanoseconds, format_duration
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.sources.agent.settings import AgentSourceSettings
from rightsizer.fleet.store import Store

__all__ = ["warnings_of"]

_TIME: Final = "rightsizer_device_last_sample_timestamp_seconds"
_VERSIONS_SHOWN: Final = 5


def warnings_of(store: Store, now: Nanoseconds, settings: AgentSourceSettings) -> tuple[str, ...]:
    """A sentence each, with what to do."""
    checks: tuple[Callable[[Store, Nanoseconds, AgentSourceSettings], Iterator[str]], ...] = (
        _duplicates,
        _clocks,
        _silent,
        _versions,
    )
    return tuple(warning for check in checks for warning in check(store, now, settings))


def _duplicates(store: Store, now: Nanoseconds, _settings: AgentSourceSettings) -> Iterator[str]:
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


def _clocks(store: Store, now: Nanoseconds, settings: AgentSourceSettings) -> Iterator[str]:
    limit = settings.clock_skew_seconds
    # An old reading of a device that is down, or an agent that stalls, is no matter of clocks.
    ahead = _number(store, f"count({_TIME} - timestamp({_TIME}) > {limit:g})", now)
    if ahead:
        most = _number(store, f"max({_TIME} - timestamp({_TIME}))", now)
        yield (
            f"the clocks of the nodes of {ahead:.0f} devices are ahead of the store's by up to "
            f"{format_duration(most)}: advice's times are off by that; see to their time service"
        )


def _silent(store: Store, now: Nanoseconds, settings: AgentSourceSettings) -> Iterator[str]:
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


def _versions(store: Store, now: Nanoseconds, _settings: AgentSourceSettings) -> Iterator[str]:
    counts = {
        series.labels.get("version", ""): series.values[-1]
        for series in store.instant("count by (version) (rightsizer_build_info)", now)
    }
    if len(counts) > 1:
        ordered = sorted(counts, key=lambda version: (-counts[version], version))
        shown = ", ".join(f"{each} ({counts[each]:.0f})" for each in ordered[:_VERSIONS_SHOWN])
        yield f"agents of {len(counts)} versions run: {shown}; later ones may know more causes"


def _number(store: Store, query: str, now: Nanoseconds) -> float:
    """The one value of an answer, 0 where there is none."""
    return next((series.values[-1] for series in store.instant(query, now)), 0.0)
