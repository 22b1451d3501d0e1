"""Why a store has no GPUs now: it never had any, or nothing came in of late."""

from typing import Final

from rightsizer.domain.dcgm_names import DCGM_FIELDS
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, format_duration
from rightsizer.fleet.kept.grid import COARSE_STEP
from rightsizer.fleet.sources.dcgm_exporter.fields import spellings
from rightsizer.fleet.sources.labels import one_of
from rightsizer.fleet.store import Store

__all__ = ["why_nothing"]

_NAMES: Final = (
    *("rightsizer_device_up", "uuid:rightsizer_device_info:last5m"),
    *spellings(DCGM_FIELDS["DCGM_FI_DEV_FB_USED"]),
    *spellings(DCGM_FIELDS["DCGM_FI_DEV_GPU_UTIL"]),
)
_JUST_NOW: Final = (900, 3600)
"""Seconds: how far clocks are apart where nobody looks after them."""


def why_nothing(store: Store, now: Nanoseconds, lookback: Nanoseconds) -> str:
    """What a store that has no devices now lacks, and the remedy; begins with "has no".

    Raises:
        StoreError: it does not answer.
    """
    age = _age_seconds(store, now, lookback)
    if age is not None:
        return (
            f"has no series of GPUs now; the last are about {format_duration(age)} old: see "
            "whether it still scrapes, and whether this machine's clock is ahead of its own; to "
            "look back from a time before that, give --at"
        )
    return (
        "has no series of GPUs: neither rightsizer_device_info nor DCGM_FI_DEV_*; let it scrape "
        "the agents, or check fleet.matchers, tenant and sources"
    )


def _age_seconds(store: Store, now: Nanoseconds, lookback: Nanoseconds) -> float | None:
    selector = f"{{{one_of('__name__', _NAMES)}}}"
    for span in _JUST_NOW:
        if store.instant(f"count(last_over_time({selector}[{span}s]))", now):
            return span
    start = now - lookback // COARSE_STEP * COARSE_STEP
    found = store.range(f"count({selector})", start, now, COARSE_STEP)
    times = [each.times[-1] for each in found if each.times]
    return (now - max(times)) / NANOSECONDS_PER_SECOND if times else None
