"""What one place has of each resource, over what another has."""

import math
from dataclasses import dataclass

from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.place import Place

__all__ = ["CapacityRatios", "achieved_ratios", "peak_ratios"]


@dataclass(frozen=True, slots=True)
class CapacityRatios:
    """Source over target: how many times as long the same work takes."""

    compute: float
    vector: float
    memory_bandwidth: float
    pcie: float
    nvlink: float
    """Traffic between GPUs goes over PCIe where there is no NVLink."""


def achieved_ratios(
    source: Place, runs: Precision, target: Place, will_run: Precision, matrix_ratio: float
) -> CapacityRatios:
    """Of what large kernels reach where so much of the time goes to matrix products."""
    return _ratios(
        source,
        target,
        compute=_over(source.achieved(runs, matrix_ratio), target.achieved(will_run, matrix_ratio)),
        memory_bandwidth=source.achieved_bytes_per_second / target.achieved_bytes_per_second,
    )


def peak_ratios(
    source: Place, runs: Precision, target: Place, will_run: Precision
) -> CapacityRatios:
    """Of what the datasheets promise, which is what shares are measured against."""
    return _ratios(
        source,
        target,
        compute=_over(source.peak(runs), target.peak(will_run)),
        memory_bandwidth=source.peak_bytes_per_second / target.peak_bytes_per_second,
    )


def _ratios(
    source: Place, target: Place, compute: float, memory_bandwidth: float
) -> CapacityRatios:
    pcie = target.board.pcie_bytes_per_second
    return CapacityRatios(
        compute=compute,
        vector=_over(source.peak(Precision.FP32), target.peak(Precision.FP32)),
        memory_bandwidth=memory_bandwidth,
        pcie=source.board.pcie_bytes_per_second / pcie,
        nvlink=source.link_bytes_per_second / (target.link_bytes_per_second or pcie),
    )


def _over(source: float | None, target: float | None) -> float:
    """1 where either is unknown; a target that cannot compute is refused before."""
    return 1.0 if source is None or target is None else source / max(target, math.ulp(1.0))
