"""How many replicas a workload needs, five minutes by five minutes, by time-aligned sums."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.confidence import sizing_factors
from rightsizer.domain.block import BLOCK_SPAN, Measure
from rightsizer.domain.finding import Case
from rightsizer.domain.settings import setting
from rightsizer.domain.state import Resource
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.domain.window import Window

__all__ = ["ReplicaLoad", "ReplicaSettings", "replica_load"]

_NOISE_RATIO: Final = 0.01
_DAY_SECONDS: Final = 86400.0
_HISTORY_DAYS: Final = 3.0
"""docs/definitions.md, conduct."""
_PLACES: Final = 6
"""Digits of a sum that are more than rounding."""
_SEVERAL: Final = 2


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """When a replica counts as needed."""

    busy_ratio: float = setting(
        0.01,
        help="Busy share of five minutes from which on a replica was used.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, sources: busy from 1 % on",
    )
    light_ratio: float = setting(
        0.25,
        help="Busy share up to which replicas that share their requests hardly queue them.",
        unit="ratio",
        minimum=0.01,
        maximum=0.9,
        source="M/M/1: a third of a service time of waiting at a quarter of load",
    )
    apart_ratio: float = setting(
        0.05,
        help="Part of the busy time in which only some of the GPUs must be busy, for each to be "
        "a replica; parts of one model are busy together.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="one five minutes in twenty; ranks of one model have none",
    )


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """A workload's load, counted in replicas."""

    starts: tuple[Nanoseconds, ...]
    """Of the five minutes of which anything is known, oldest first."""
    held: tuple[int, ...]
    """Replicas that were there; what was not seen is not counted."""
    needed: tuple[int, ...]
    """Those of them that had work."""
    size: int
    """Replicas that the workload has."""
    gpus_each: int

    @property
    def known_seconds(self) -> float:
        """Of the group, whoever of it was seen."""
        return len(self.starts) * seconds(BLOCK_SPAN)

    def factors(self, case: Case, margin: float) -> dict[str, float]:
        """How sure a judgement of the group is: by its history, not by that of a passing replica.

        Args:
            case: What is judged.
            margin: How far the measured value is beyond the rule's threshold, as a ratio.
        """
        span = max(1, (self.starts[-1] - self.starts[0]) // BLOCK_SPAN + 1)
        days = self.known_seconds / _DAY_SECONDS
        return sizing_factors(case, margin) | {
            "coverage": len(self.starts) / span,
            "history": 1.0 - math.exp(-days / _HISTORY_DAYS),
            "samples": days / (days + 1.0),
        }


def replica_load(case: Case, settings: ReplicaSettings) -> ReplicaLoad | None:
    """The load over the windows of a case; `None` where nothing is known of it.

    Each device is a replica, unless they talk over NVLink or are always busy together; then all
    of them are one.
    """
    devices = [_means(window) for window in case.windows]
    starts = tuple(sorted(set().union(*devices)))
    if not starts:
        return None
    busy = [
        [each[start] >= settings.busy_ratio for each in devices if start in each]
        for start in starts
    ]
    if not _is_apart(case, busy, settings):
        needed = tuple(int(any(each)) for each in busy)
        return ReplicaLoad(starts, (1,) * len(starts), needed, 1, len(devices))
    together = _together(case)
    return ReplicaLoad(
        starts=starts,
        held=tuple(map(len, busy)),
        needed=tuple(
            # One that has work is needed, however little.
            at_work
            if at_work < _SEVERAL
            else min(at_work, _enough(start, devices, together, settings))
            for start, at_work in zip(starts, map(sum, busy), strict=True)
        ),
        size=len(devices),
        gpus_each=1,
    )


def _is_apart(case: Case, busy: list[list[bool]], settings: ReplicaSettings) -> bool:
    if len(case.windows) == 1:
        return True
    links = [fit.resources.get(Resource.NVLINK) for fit in case.provisioning]
    if any(link is not None and (link.need or 0.0) > _NOISE_RATIO for link in links):
        return False
    at_work = [each for each in busy if any(each) and len(each) > 1]
    partly = sum(not all(each) for each in at_work)
    return bool(at_work) and partly >= settings.apart_ratio * len(at_work)


def _means(window: Window) -> Mapping[Nanoseconds, float]:
    series = window.blocks.series(Measure.BUSY)
    return dict(zip(series.starts, series.means, strict=True))


def _together(case: Case) -> Mapping[Nanoseconds, float]:
    """The peaks of all devices at the same moments."""
    window = case.workload_window
    if window is None:
        return {}
    series = window.blocks.series(Measure.BUSY)
    return dict(zip(series.starts, series.peaks, strict=True))


def _enough(
    start: Nanoseconds,
    devices: list[Mapping[Nanoseconds, float]],
    together: Mapping[Nanoseconds, float],
    settings: ReplicaSettings,
) -> int:
    """Replicas that would have been lightly loaded, and enough for the worst moment."""
    means = sum(each[start] for each in devices if start in each)
    peak = together.get(start, len(devices))
    return max(
        math.ceil(round(means / settings.light_ratio, _PLACES)), math.ceil(round(peak, _PLACES))
    )
