"""What rules of the size of a pool have in common: how much of a week they ask for."""

from rightsizer.advice.rules.rule import Conduct
from rightsizer.domain.settings import setting

__all__ = ["covered", "mostly_covered", "weekly_conduct"]

_DAY_SECONDS = 86400.0


def covered() -> float:
    """The setting of the known time that a judgement of size rests on."""
    result: float = setting(
        6 * _DAY_SECONDS,
        help="Known time under which the rule abstains; every hour of a week must be seen too.",
        unit="seconds",
        minimum=_DAY_SECONDS,
        source="docs/definitions.md, conduct: not before the history covers the load's cycle",
    )
    return result


def mostly_covered() -> float:
    """The setting of the part of the span that must be known."""
    result: float = setting(
        0.8,
        help="Part of the span that must be known; what was not seen may have been a peak.",
        unit="ratio",
        minimum=0.1,
        maximum=1,
        source="assumed; a day a week may be missing",
    )
    return result


def weekly_conduct() -> Conduct:
    """Two weeks, and one week at their end, so that both have every hour of a week."""
    return Conduct(
        long_seconds=14 * _DAY_SECONDS,
        short_seconds=7 * _DAY_SECONDS,
        minimum_known_seconds=6 * _DAY_SECONDS,
        close_after_seconds=_DAY_SECONDS,
    )
