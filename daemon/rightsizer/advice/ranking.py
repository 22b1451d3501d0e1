"""The order of options: the safest first, then those that save most."""

from collections.abc import Iterable

from rightsizer.advice.risk import rank_of
from rightsizer.domain.finding import Option

__all__ = ["ranked"]


def ranked(options: Iterable[Option]) -> tuple[Option, ...]:
    """Options by risk, then by what they save; equals stay in the order given, mildest first.

    Money decides where every option tells of it, GPUs otherwise.
    """
    given = tuple(options)
    has_prices = all(
        each.savings is not None and each.savings.dollars_per_hour_high is not None
        for each in given
    )
    return tuple(sorted(given, key=lambda each: (rank_of(each.risk), -_saved(each, has_prices))))


def _saved(option: Option, has_prices: bool) -> float:  # noqa: FBT001 - private.
    savings = option.savings
    if savings is None:
        return 0.0
    if has_prices:
        return (savings.dollars_per_hour_low or 0.0) + (savings.dollars_per_hour_high or 0.0)
    return (savings.gpus_low or 0.0) + (savings.gpus_high or 0.0)
