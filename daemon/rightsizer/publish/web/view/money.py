"""What acting would save, in words: GPUs, money, energy, and where the prices come from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rightsizer.domain.advice import Advice
from rightsizer.domain.finding import Savings

__all__ = ["Sum", "interval", "savings_notes", "savings_sum", "savings_words"]


@dataclass(frozen=True, slots=True)
class Sum:
    """What all of some advice together would save at least and at most."""

    gpus_low: float
    gpus_high: float
    dollars_per_hour_low: float
    dollars_per_hour_high: float
    has_price: bool


def savings_words(savings: Savings) -> str:
    """GPUs and money, or why there is no figure."""
    parts = []
    if savings.gpus_low is not None and (savings.gpus_low or savings.gpus_high):
        parts.append(f"{interval(savings.gpus_low, savings.gpus_high, '{:.3g}')} GPU")
    if savings.dollars_per_hour_low is not None:
        parts.append(_money(savings.dollars_per_hour_low, savings.dollars_per_hour_high))
    return ", ".join(parts) or (f"no figure: {savings.reason}" if savings.reason else "no figure")


def savings_notes(savings: Savings) -> str:
    """What it comes to in a month, and of when the prices are."""
    parts = []
    if savings.gpu_hours_per_month_high:
        low = savings.gpu_hours_per_month_low or 0.0
        hours = interval(low, savings.gpu_hours_per_month_high, "{:,.0f}")
        parts.append(f"{hours} GPU hours a month")
    if savings.kilowatt_hours_per_month_high:
        low = savings.kilowatt_hours_per_month_low or 0.0
        energy = interval(low, savings.kilowatt_hours_per_month_high, "{:,.0f}")
        parts.append(f"{energy} kWh a month")
    if savings.dollars_per_hour_low is not None and savings.price_date:
        parts.append(f"prices of {savings.price_date}")
    return ", ".join(parts)


def savings_sum(advice: Iterable[Advice]) -> Sum:
    """Over all that can be followed together: of a group that excludes itself, the best one."""
    groups: dict[str, list[Savings]] = {}
    for piece in advice:
        group = piece.finding.exclusive_group or piece.id
        groups.setdefault(group, []).append(piece.finding.savings)
    best = [_best(group) for group in groups.values()]
    return Sum(
        sum(each.gpus_low or 0.0 for each in best),
        sum(each.gpus_high or each.gpus_low or 0.0 for each in best),
        sum(each.dollars_per_hour_low or 0.0 for each in best),
        sum(each.dollars_per_hour_high or each.dollars_per_hour_low or 0.0 for each in best),
        any(each.dollars_per_hour_low is not None for each in best),
    )


def interval(low: float, high: float | None, form: str) -> str:
    """`1` or `1 to 2`."""
    first = form.format(low)
    last = form.format(low if high is None else high)
    return first if first == last else f"{first} to {last}"


def _money(low: float, high: float | None) -> str:
    """Money an hour; what is saved below nothing is what it costs more."""
    most = low if high is None else high
    if low < 0 and most <= 0:
        return f"costs ${interval(-most, -low, '{:,.2f}')} more an hour"
    if low < 0:
        return f"from ${-low:,.2f} more to ${most:,.2f} less an hour"
    return f"${interval(low, most, '{:,.2f}')} an hour"


def _best(group: Sequence[Savings]) -> Savings:
    return max(group, key=lambda each: (each.dollars_per_hour_high or 0.0, each.gpus_high or 0.0))
