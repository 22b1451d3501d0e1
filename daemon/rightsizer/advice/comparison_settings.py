"""From when on what a profile and telemetry say of the same time is a contradiction."""

from dataclasses import dataclass

from rightsizer.domain.settings import setting

__all__ = ["ComparisonSettings"]


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """From when on a profile and telemetry contradict each other."""

    difference_minimum_ratio: float = setting(
        0.3,
        help="By how much two shares of the same time must differ to contradict each other.",
        unit="ratio",
        minimum=0.01,
        maximum=1.0,
        source="as much as a wait for the host must take to be called a limit",
    )
    tensor_maximum_ratio: float = setting(
        0.01,
        help="Share of the time of kernels up to which tensor cores count as unused.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="the part of a collective's own arithmetic",
    )
    memory_tolerance_ratio: float = setting(
        0.1,
        help="By how much a profile's peak of memory may be above what telemetry saw.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="memory is read once a second, and its shares are kept in steps of 1 %",
    )
    tick_seconds: float = setting(
        2.0,
        help="Work that may fall between two readings of an idle GPU.",
        unit="seconds",
        minimum=0.0,
        source="two readings at the default interval",
    )
    contradicted_ratio: float = setting(
        0.75,
        help="Part that is left of a finding's confidence where telemetry measured the same thing "
        "and contradicts it.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="a profile is the closer look, but may be of another time or GPU",
    )
