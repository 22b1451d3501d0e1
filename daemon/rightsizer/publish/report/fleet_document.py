"""An estate as one HTML document: pools, who wastes what, and what to do about it.

It takes the form that `rightsizer fleet --json` prints, which docs/fleet.md tells.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rightsizer.domain.advice import OPEN_STATES
from rightsizer.domain.units import format_duration
from rightsizer.publish.report.figures import dollars, moment_text, number, span_text
from rightsizer.publish.report.template import rendered
from rightsizer.publish.report.words import confidence_word

__all__ = ["fleet_document"]

_HOURS_PER_MONTH: Final = 730.0
_MOST_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class AdviceView:
    """One piece of open advice."""

    id: str
    form: Mapping[str, Any]
    who: str
    saves: str
    money: str
    sure: str


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A row of the table of pools."""

    form: Mapping[str, Any]
    held: str
    peak: str
    active: str
    held_width: float
    """Of 100."""
    active_width: float


def fleet_document(form: Mapping[str, Any]) -> str:
    """The whole page.

    Args:
        form: What `rightsizer fleet --json` prints.
    """
    opened = [each for each in form["advice"] if each["state"] in OPEN_STATES]
    views = sorted((_advice(each) for each in opened), key=_rank)
    return rendered(
        "fleet.html",
        {},
        form=form,
        until=moment_text(form["time"], dt.UTC),
        lookback=format_duration(form["lookback_seconds"]),
        pools=[_pool(each) for each in form["pools"]],
        advice=views,
        saved=_sum(opened, "gpus"),
        saved_dollars=_sum(opened, "dollars_per_hour"),
        number=_number,
        range=_range,
    )


def _advice(form: Mapping[str, Any]) -> AdviceView:
    savings = form["savings"]
    gpus = (savings["gpus_low"], savings["gpus_high"])
    named = form["devices"][:_MOST_NAMED]
    more = len(form["devices"]) - len(named)
    devices = ", ".join(named) + (f" and {more} more" if more else "")
    return AdviceView(
        id=form["id"],
        form=form,
        who=form["workload"] or devices,
        saves="-" if None in gpus else f"{span_text(*gpus)} GPUs",
        money=dollars(
            _monthly(savings["dollars_per_hour_low"]), _monthly(savings["dollars_per_hour_high"])
        ),
        sure=f"{form['confidence']:.2f} ({confidence_word(form['confidence'])})",
    )


def _rank(view: AdviceView) -> tuple[float, float, str]:
    savings = view.form["savings"]
    return (
        -(savings["dollars_per_hour_low"] or 0.0),
        -(savings["gpus_low"] or 0.0),
        view.id,
    )


def _pool(form: Mapping[str, Any]) -> PoolRow:
    gpus = form["gpus"] or 1.0
    return PoolRow(
        form=form,
        held=_number(form["held_mean"]),
        peak=_number(form["held_peak"]),
        active=_number(form["active_mean"]),
        held_width=100.0 * min(1.0, (form["held_mean"] or 0.0) / gpus),
        active_width=100.0 * min(1.0, (form["active_mean"] or 0.0) / gpus),
    )


def _sum(advice: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The lower ends of what can be had together: of exclusive pieces the one that saves most."""
    best: dict[str, float] = {}
    for each in advice:
        value = each["savings"][f"{key}_low"]
        if value is not None:
            group = each["exclusive_group"] or each["id"]
            best[group] = max(best.get(group, 0.0), value)
    return sum(best.values()) if best else None


def _monthly(hourly: float | None) -> float | None:
    return None if hourly is None else hourly * _HOURS_PER_MONTH


def _number(value: float | None) -> str:
    return "-" if value is None else number(value)


def _range(interval: Mapping[str, float] | None) -> str:
    return "-" if interval is None else dollars(interval["low"], interval["high"])
