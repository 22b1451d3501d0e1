"""An option with what is projected of it."""

from dataclasses import replace
from typing import Final

from rightsizer.domain.finding import Option
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.projection import Projection

__all__ = ["costing", "projected"]

_DIGITS: Final = 4
_UTILIZATION: Final = (
    "gpu_busy",
    "sm_active",
    "tensor_active",
    "dram_active",
    "pcie_receive",
    "nvlink_receive",
)


def projected(option: Option, projection: Projection | None) -> Option:
    """The option with slowdown, shares and fit; as it is where there is no projection."""
    if projection is None:
        return option
    ratio = projection.time_ratio
    shares = {name: getattr(projection.shares, name) for name in _UTILIZATION}
    return replace(
        option,
        time_ratio=round(ratio.value, _DIGITS),
        time_ratio_low=round(ratio.low, _DIGITS),
        time_ratio_high=round(ratio.high, _DIGITS),
        utilization={
            name: round(share, _DIGITS) for name, share in shares.items() if share is not None
        },
        fits=projection.fits,
    )


def costing(option: Option, dollars_per_hour: Interval | None) -> Option:
    """The option with its price; as it is where nobody states one."""
    if dollars_per_hour is None:
        return option
    return replace(
        option,
        dollars_per_hour_low=dollars_per_hour.low,
        dollars_per_hour_high=dollars_per_hour.high,
    )
