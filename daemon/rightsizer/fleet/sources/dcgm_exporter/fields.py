"""Which of DCGM's fields are asked for, and under which names a store may have them."""

from collections.abc import Iterable, Mapping
from typing import Final

from rightsizer.domain.dcgm_names import DCGM_FIELDS, FORMER_DCGM_NAMES, DcgmField
from rightsizer.domain.signal import PIPES, Signal
from rightsizer.domain.state import Tier

__all__ = [
    "DIVIDED_NAMES",
    "ENERGY",
    "FIGURES",
    "MEASURED",
    "PEAKED",
    "POWER_VIOLATION",
    "REASONS",
    "THERMAL_VIOLATION",
    "XID",
    "presence_names",
    "spellings",
    "tier_of_metrics",
]

_LOAD: Final = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
    "DCGM_FI_PROF_PIPE_INT_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_PCIE_TX_BYTES",
    "DCGM_FI_PROF_PCIE_RX_BYTES",
    "DCGM_FI_PROF_NVLINK_TX_BYTES",
    "DCGM_FI_PROF_NVLINK_RX_BYTES",
    "DCGM_FI_DEV_POWER_USAGE_INSTANT",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_FB_USED",
)
_ENGINES: Final = (
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_ENC_UTIL",
    "DCGM_FI_DEV_DEC_UTIL",
)

PEAKED: Final = tuple(DCGM_FIELDS[name] for name in _LOAD)
"""Those of which the largest reading counts too. Bytes over PCIe and NVLink are rates, whatever
type an exporter declares: DCGM itself divides by time (dcgm-exporter#658)."""
MEASURED: Final = (*PEAKED, *(DCGM_FIELDS[name] for name in _ENGINES))
"""Those of which a mean is asked for."""
ENERGY: Final = DCGM_FIELDS["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]
POWER_VIOLATION: Final = DCGM_FIELDS["DCGM_FI_DEV_POWER_VIOLATION"]
THERMAL_VIOLATION: Final = DCGM_FIELDS["DCGM_FI_DEV_THERMAL_VIOLATION"]
REASONS: Final = (
    DCGM_FIELDS["DCGM_FI_DEV_CLOCKS_EVENT_REASONS"],
    DCGM_FIELDS["DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"],
)
XID: Final = DCGM_FIELDS["DCGM_FI_DEV_XID_ERRORS"]

FIGURES: Final = tuple(
    DCGM_FIELDS[name]
    for name in (
        "DCGM_FI_DEV_FB_TOTAL",
        "DCGM_FI_DEV_FB_FREE",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_FB_RESERVED",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT",
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
        "DCGM_FI_DEV_MAX_SM_CLOCK",
    )
)
"""What says how large a device is."""

_PRESENCE: Final = (
    # Memory is told of instances too, which have no utilization.
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_DEV_POWER_USAGE",
)
_FORMER: Final[Mapping[str, str]] = {new: old for old, new in FORMER_DCGM_NAMES.items()}
_PROFILING: Final = frozenset(
    field.name
    for field in MEASURED
    if field.signal in {Signal.SM_ACTIVE, Signal.DRAM_ACTIVE, *PIPES}
)
_BUSY: Final = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"})
_POWER: Final = frozenset({"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE_INSTANT"})


def spellings(field: DcgmField) -> tuple[str, ...]:
    """Today's name, that of dcgm-exporter 1.x, and what a relay makes of a counter."""
    former = _FORMER.get(field.name)
    return (field.name, *((former,) if former else ()), f"{field.name}_total")


DIVIDED_NAMES: Final = frozenset(
    name
    for field in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED")
    for name in spellings(DCGM_FIELDS[field])
)
"""What dcgm-exporter divides among the pods that share a device, since 4.6.0-4.8.3 and with
`--kubernetes-virtual-gpus`: `isPerProcessMetric` of its process_metrics.go."""


def presence_names(metrics: Iterable[str]) -> tuple[str, ...]:
    """The metrics whose samples say that a device is watched: one field, in all its spellings."""
    found = frozenset(metrics)
    for name in _PRESENCE:
        there = tuple(each for each in spellings(DCGM_FIELDS[name]) if each in found)
        if there:
            return there
    return ()


def tier_of_metrics(metrics: Iterable[str]) -> Tier:
    """What the metrics of an estate allow to be claimed at best."""
    found = {FORMER_DCGM_NAMES.get(name, name).removesuffix("_total") for name in metrics}
    if found & _PROFILING:
        return Tier.PROFILING
    if not found & _BUSY:
        return Tier.NONE
    return Tier.POWER if found & _POWER else Tier.BASIC
