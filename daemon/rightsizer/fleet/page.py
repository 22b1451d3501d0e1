"""An estate as one HTML document: pools, who wastes what, and what to do about it.

It takes the form that `rightsizer fleet --json` prints, which docs/fleet.md tells. Its lists are
cut, so that an estate of any size is a page that a browser shows at once; JSON has all.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from rightsizer.model.advice import OPEN_STATES
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import format_duration
from rightsizer.report.figures import dollars, moment_text, number, span_text
from rightsizer.report.labels import confidence_label, readable_name
from rightsizer.report.template import rendered

_HOURS_PER_MONTH: Final = 730.0
_MOST_NAMED: Final = 8
_MOST_POOLS: Final = 100
_MOST_ADVICE: Final = 60
_MOST_NODE_ADVICE: Final = 50
_MOST_TEAMS: Final = 50
_MOST_WAITING: Final = 50
_LONGEST_STEP: Final = 1500
"""Characters of a step to take: a list of a thousand nodes is for JSON."""


@dataclass(frozen=True, slots=True)
class FleetAdviceRow:
    """One piece of open advice."""

    id: str
    form: Mapping[str, Any]
    who: str
    saves: str
    money: str
    sure: str
    steps: tuple[tuple[str, str], ...]
    """Title and text."""


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A row of the table of pools."""

    form: Mapping[str, Any]
    held: str
    peak: str
    active: str
    waiting: str
    held_width: float
    """Of 100."""
    active_width: float


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A piece of waiting work."""

    form: Mapping[str, Any]
    since: str
    now: str
    after: str
    steps: str


@dataclass(frozen=True, slots=True)
class FleetPagePart:
    """The first of a list, and how many there are beside."""

    rows: Sequence[Any]
    more: int


def fleet_document(form: Mapping[str, Any]) -> str:
    """The whole page.

    Args:
        form: What `rightsizer fleet --json` prints.
    """
    opened = sorted((each for each in form["advice"] if each["state"] in OPEN_STATES), key=_rank)
    pools = sorted(form["pools"], key=lambda pool: (-pool["gpus"], pool["name"]))
    return rendered(
        "fleet.html",
        {},
        form=form,
        until=moment_text(form["time"], dt.UTC),
        lookback=format_duration(form["lookback_seconds"]),
        open=len(opened),
        pools=_part(map(_pool, pools), len(pools), _MOST_POOLS),
        advice=_part(map(_advice, opened), len(opened), _MOST_ADVICE),
        node_advice=_part(
            ((each, _named(each["devices"])) for each in form["node_advice"]),
            len(form["node_advice"]),
            _MOST_NODE_ADVICE,
        ),
        waiting=_part(
            map(_waiting, form["waiting_work"]), len(form["waiting_work"]), _MOST_WAITING
        ),
        teams=_part(form["teams"], len(form["teams"]), _MOST_TEAMS),
        sources=[each for each in form["sources"] if each["is_found"]],
        absent=", ".join(each["source"] for each in form["sources"] if not each["is_found"]),
        saved=_sum(opened, "gpus"),
        saved_dollars=_sum(opened, "dollars_per_hour"),
        number=_number,
        range=_range,
    )


def _part(rows: Iterable[Any], total: int, most: int) -> FleetPagePart:
    return FleetPagePart(list(islice(rows, most)), max(0, total - most))


def _advice(form: Mapping[str, Any]) -> FleetAdviceRow:
    savings = form["savings"]
    gpus = (savings["gpus_low"], savings["gpus_high"])
    return FleetAdviceRow(
        id=form["id"],
        form=form,
        who=form["key"] or _named(form["devices"]),
        saves="" if None in gpus else _saves(span_text(*gpus)),
        money=""
        if savings["dollars_per_hour_low"] is None
        else dollars(
            _monthly(savings["dollars_per_hour_low"]), _monthly(savings["dollars_per_hour_high"])
        )
        + " a month",
        sure=f"{form['confidence']:.2f} ({confidence_label(form['confidence'])})",
        steps=tuple((each["title"], _cut(each["text"])) for each in form["instructions"]),
    )


def _saves(gpus: str) -> str:
    return f"saves {gpus} GPU{'' if gpus == '1' else 's'}"


def _named(devices: Sequence[str]) -> str:
    more = len(devices) - _MOST_NAMED
    return ", ".join(devices[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _cut(text: str) -> str:
    if len(text) <= _LONGEST_STEP:
        return text
    whole = text[:_LONGEST_STEP].rpartition("\n")[0] or text[:_LONGEST_STEP]
    return f"{whole}\n# and so on: rightsizer fleet --json has all of it"


def _rank(form: Mapping[str, Any]) -> tuple[float, float, str]:
    savings = form["savings"]
    return (
        -(savings["dollars_per_hour_low"] or 0.0),
        -(savings["gpus_low"] or 0.0),
        form["id"],
    )


def _pool(form: Mapping[str, Any]) -> PoolRow:
    gpus = form["gpus"] or 1.0
    return PoolRow(
        form=form,
        held=_number(form["held_mean"]),
        peak=_number(form["held_peak"]),
        active=_number(form["active_mean"]),
        waiting=_number(form["waiting_gpus"]),
        held_width=100.0 * min(1.0, (form["held_mean"] or 0.0) / gpus),
        active_width=100.0 * min(1.0, (form["active_mean"] or 0.0) / gpus),
    )


def _waiting(form: Mapping[str, Any]) -> WaitingRow:
    since = form["waiting_seconds"]
    steps = dict.fromkeys(_step(step) for offer in form["offers"] for step in offer["steps"])
    return WaitingRow(
        form=form,
        since="-" if since is None else format_duration(since),
        now=_pools_of(form["offers"], is_now=True),
        after=_pools_of(form["offers"], is_now=False),
        steps=_cut("; ".join(steps)),
    )


def _pools_of(offers: Iterable[Mapping[str, Any]], *, is_now: bool) -> str:
    found: dict[str, float] = {}
    for each in offers:
        if each["is_now"] is is_now:
            found[each["pool"]] = found.get(each["pool"], 0.0) + each["gpus"]
    return ", ".join(f"{number(gpus)} of {pool}" for pool, gpus in found.items()) or "-"


def _step(step: Mapping[str, Any]) -> str:
    to = f" to {step['target']}" if step["target"] else ""
    return f"{readable_name(step['action'])} {_named(step['workloads'])}{to}"


def _sum(advice: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The lower ends of what can be had together: of pieces on the same GPUs what saves most."""
    found = {each["id"]: each["savings"][f"{key}_low"] for each in advice}
    known = sorted(
        (each for each in advice if found[each["id"]] is not None),
        key=lambda each: (-found[each["id"]], each["id"]),
    )
    taken: set[str] = set()
    total = 0.0
    for each in known:
        about = {*each["devices"], each["exclusive_group"] or each["id"]}
        if taken.isdisjoint(about):
            total += found[each["id"]]
        taken |= about
    return total if known else None


def _monthly(hourly: float | None) -> float | None:
    return None if hourly is None else hourly * _HOURS_PER_MONTH


def _number(value: float | None) -> str:
    return "-" if value is None else number(value)


def _range(interval: Mapping[str, float] | None) -> str:
    return "-" if interval is None else dollars(interval["low"], interval["high"])
