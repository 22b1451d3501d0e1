"""What serving engines tell, given to the devices that their pods hold."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping
from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.fleet.sources.dcgm_exporter.holders import Holder
from rightsizer.fleet.sources.dcgm_exporter.holdings import Presence
from rightsizer.fleet.sources.dcgm_exporter.readings import DeviceDay
from rightsizer.fleet.sources.kubernetes_series import Pod
from rightsizer.fleet.sources.serving import Told

__all__ = ["give_pressure", "pods_of"]

_WORST: Final = frozenset({Signal.KV_CACHE_USED})
"""Of several engines on one device the fullest counts; of all else they add up."""


def pods_of(holders: Collection[Holder | None]) -> frozenset[Pod]:
    """The pods among some holders."""
    return frozenset(Pod(each.namespace, each.pod) for each in holders if each and each.pod)


def give_pressure(
    days: Mapping[str, DeviceDay], presences: Mapping[str, Presence], told: Mapping[Pod, Told]
) -> None:
    """Add to each device what the engines on it tell.

    The pressure is the application's: each GPU of an engine on several has the same.
    """
    for device, day in days.items():
        presence = presences.get(device)
        if presence is None:
            continue
        for pod in sorted(pods_of(presence.counts.keys())):
            for signal, column in told.get(pod, {}).items():
                former = day.means.get(signal)
                day.means[signal] = column if former is None else _together(signal, former, column)


def _together(signal: Signal, one: array[float], other: array[float]) -> array[float]:
    is_worst = signal in _WORST

    def both(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return b if math.isnan(a) else a
        return max(a, b) if is_worst else a + b

    return array("d", map(both, one, other))
