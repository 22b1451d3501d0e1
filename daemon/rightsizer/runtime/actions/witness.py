"""What actions go by: the node as it is, the advice, and who claimed it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rightsizer.domain.advice import Advice
from rightsizer.domain.report import Report
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Workload

__all__ = ["ActionWitness", "holders"]


@dataclass(frozen=True, slots=True)
class ActionWitness:
    """Asked anew at every look, from a job's thread."""

    report: Callable[[], Report | None]
    """The latest."""
    advice: Callable[[], Sequence[Advice]]
    """All of it, what was closed too."""
    claims: Callable[[], Mapping[str, Nanoseconds]]
    """Since when advice is claimed, by its id."""
    claim: Callable[[str, str, str], object]
    """Claims advice, by whom and why, so that before and after are compared."""


def holders(report: Report | None) -> dict[str, Workload]:
    """Whoever holds a device now, by key."""
    if report is None:
        return {}
    return {
        held.workload.key: held.workload for device in report.devices for held in device.holdings
    }
