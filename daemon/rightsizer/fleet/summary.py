"""What a fleet costs, how much of that is wasted, and what its recommendations give back."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from rightsizer.advice.compatible import ExclusiveKey, compatible, savings_of
from rightsizer.fleet.advice_groups import AdviceGroup, groups_of, open_recommendations
from rightsizer.fleet.pools.pool import is_of_whole_pool, pool_key
from rightsizer.io.codec import plain
from rightsizer.io.terminal import counted
from rightsizer.model.values import DAY_SECONDS, Savings, dollars_text, number_text, percent_text
from rightsizer.report.advice_rows import sum_known
from rightsizer.report.figures import dollars
from rightsizer.report.labels import HOURS_A_DAY, headroom_text
from rightsizer.sizing.estimate import EstimateInterval

HOUR_PARTS: Final = {
    "used": "used",
    "headroom": "headroom",
    "idle": "held idle",
    "stalled": "stalled",
    "lost": "lost otherwise",
    "unknown": "unknown",
    "free": "free",
}
"""Parts of the hours of all GPUs, each hour in one, and their names."""


class HourPart(Struct, frozen=True):
    """A part of all GPU-hours."""

    key: str
    name: str
    hours: float
    ratio: float


class FleetSummary(Struct, frozen=True):
    """Money of a fleet a day, its hours by what became of them, and what to do."""

    spent: EstimateInterval | None
    """Dollars a day; `None` where a price is unknown."""
    wasted: EstimateInterval | None
    left_over: float
    """Dollars a day of headroom: not wasted, yet smaller GPUs may do."""
    reclaimable: EstimateInterval | None
    """Dollars a day of recommendations that can be done together."""
    gpus: float | None
    """GPUs that they give back at least."""
    hours: float
    parts: tuple[HourPart, ...]
    advice: tuple[Mapping[str, Any], ...]
    """Open recommendations, by savings, then by severity."""
    groups: tuple[AdviceGroup, ...]
    waiting_gpus: float
    saved_gpu_hours: float
    """Of recommendations that were followed, as verified."""
    saved_dollars: float | None
    """`None` without a price."""

    @property
    def headline(self) -> str:
        """What is spent, what is wasted, and why, in a sentence; empty without GPU-hours."""
        shares = ", ".join(f"{percent_text(part.ratio)} {part.name}" for part in self.parts)
        if not shares:
            return ""
        if self.spent is None or self.wasted is None:
            return f"Of {self.hours:,.1f} GPU-hours: {shares}."
        spent = dollars_text(self.spent.value)
        wasted = dollars_text(self.wasted.value)
        left = headroom_text(dollars_text(self.left_over)) if self.left_over else ""
        return f"Costs {spent} a day, {wasted} of it wasted{left}. Of the GPU-hours: {shares}."

    @property
    def wasted_text(self) -> str:
        """What of the money is wasted, after a count; empty without a price."""
        if self.spent is None or self.wasted is None:
            return ""
        spent = dollars_text(self.spent.value)
        return f": {dollars_text(self.wasted.value)} of {spent} a day wasted"

    @property
    def reclaim_text(self) -> str:
        """What the recommendations give back together."""
        pieces = [counted(len(self.advice), "open recommendation")]
        if self.gpus:
            pieces.append(f"{number_text(self.gpus)} GPU{'' if self.gpus == 1 else 's'}")
        if (money := self.reclaimable) is not None:
            pieces.append(f"{dollars(money.low, money.high, money.value)} a day together")
        if self.saved_gpu_hours:
            worth = "" if self.saved_dollars is None else f" ({dollars_text(self.saved_dollars)})"
            pieces.append(
                f"{number_text(self.saved_gpu_hours)} GPU-hours{worth} saved so far, verified"
            )
        return ", ".join(pieces)


def summarized(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return `summary` and `groups` of an answer in JSON."""
    summary = summary_of(answer)
    document = {
        "summary": {
            "spent_dollars_per_day": summary.spent,
            "wasted_dollars_per_day": summary.wasted,
            "left_over_dollars_per_day": summary.left_over,
            "reclaimable_dollars_per_day": summary.reclaimable,
            "reclaimable_gpus": summary.gpus,
            "recommendations": len(summary.advice),
            "waiting_gpus": summary.waiting_gpus,
            "saved_gpu_hours": summary.saved_gpu_hours,
            "saved_dollars": summary.saved_dollars,
            "hours": {part.key: part.hours for part in summary.parts},
        },
        "groups": [group.document() for group in summary.groups],
    }
    return plain(document)


def summary_of(answer: Mapping[str, Any]) -> FleetSummary:
    """Return the summary of an answer in JSON."""
    total = answer["usage"]["total"]
    days = answer["lookback_seconds"] / DAY_SECONDS
    advice = tuple(open_recommendations(answer["advice"]))
    savings = [
        savings_of(recommendation) for recommendation in compatible(advice, _exclusive_keys(answer))
    ]
    hours = {part: total[f"{part}_gpu_hours"] for part in HOUR_PARTS}
    verified = [piece for piece in answer["advice"] if piece["realized_gpu_hours"]]
    whole = sum(hours.values())
    return FleetSummary(
        spent=_a_day(total["dollars"], days),
        wasted=_a_day(total["wasted_dollars"], days),
        left_over=sum(map(_left_over, answer["usage"]["parts"])) / days,
        reclaimable=_reclaimable(savings),
        gpus=sum_known(saving.gpus_low for saving in savings),
        hours=whole,
        parts=tuple(
            HourPart(part, name, hours[part], hours[part] / whole)
            for part, name in HOUR_PARTS.items()
            if hours[part]
        ),
        advice=advice,
        groups=tuple(groups_of(advice)),
        waiting_gpus=sum(work["gpus"] for work in answer["waiting"]),
        saved_gpu_hours=sum(piece["realized_gpu_hours"] for piece in verified),
        saved_dollars=sum_known(map(_saved_dollars, verified)),
    )


def _exclusive_keys(
    answer: Mapping[str, Any],
) -> Callable[[Mapping[str, Any]], ExclusiveKey]:
    """Return a function for what a recommendation is about; what names some GPUs of a pool, all."""
    pools = defaultdict[str, list[str]](list)
    for held in answer["holdings"]:
        pools[pool_key(held["pool"])].append(held["uuid"])

    def key_of(piece: Mapping[str, Any]) -> ExclusiveKey:
        key = ExclusiveKey.of_form(piece)
        is_pool = is_of_whole_pool(piece["key"] or "", piece["devices"])
        return key._replace(devices=pools[piece["key"]]) if is_pool else key

    return key_of


def _left_over(part: Mapping[str, Any]) -> float:
    """Return what the headroom of a part of the hours cost; 0 without a price."""
    if not part["dollars"] or not part["held_gpu_hours"]:
        return 0.0
    return float(part["dollars"]["value"] * part["headroom_gpu_hours"] / part["held_gpu_hours"])


def _saved_dollars(piece: Mapping[str, Any]) -> float | None:
    """Return what verified GPU-hours cost, at the price of the GPUs that were to be saved."""
    savings = savings_of(piece)
    if savings.dollars_per_hour_low is None or not savings.gpus:
        return None
    return float(piece["realized_gpu_hours"]) * savings.dollars_per_hour / savings.gpus


def _a_day(span: Mapping[str, float] | None, days: float) -> EstimateInterval | None:
    return None if span is None else EstimateInterval(**span).scaled(1.0 / days)


def _reclaimable(savings: Sequence[Savings]) -> EstimateInterval | None:
    low = sum_known(saving.dollars_per_hour_low for saving in savings)
    high = sum_known(saving.dollars_per_hour_high for saving in savings)
    if low is None or high is None:
        return None
    value = sum(saving.dollars_per_hour for saving in savings)
    return EstimateInterval(value, low, high).scaled(HOURS_A_DAY)
