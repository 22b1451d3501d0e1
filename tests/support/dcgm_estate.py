"""A fleet in a store by its dcgm-exporters, kube-state-metrics and engines."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from rightsizer.fleet.cache.grid import DAY, FINE_STEP, Grid
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.settings import StoreSettings
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from victoria_server import victoria_server

__all__ = [
    "BUSY",
    "EMPTY",
    "HELD",
    "HOUR",
    "NOW",
    "YESTERDAY",
    "EstatePast",
    "Phase",
    "basic",
    "gpu",
    "stored",
    "unprofiled",
]

HOUR: Final = 3600
YESTERDAY: Final = Grid(time.time_ns() // DAY - 1, FINE_STEP)
NOW: Final[Nanoseconds] = YESTERDAY.end
"""The time of the query, with no scrapes since."""

BUSY: Final[Mapping[str, float]] = {
    "DCGM_FI_DEV_GPU_UTIL": 98,
    "DCGM_FI_DEV_POWER_USAGE": 560,
    "DCGM_FI_DEV_SM_CLOCK": 1980,
    "DCGM_FI_DEV_FB_USED": 61_440,
    "DCGM_FI_DEV_FB_FREE": 20_000,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.97,
    "DCGM_FI_PROF_SM_ACTIVE": 0.9,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.62,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.3,
}
HELD: Final = {
    **dict.fromkeys(BUSY, 0),
    "DCGM_FI_DEV_POWER_USAGE": 118,
    "DCGM_FI_DEV_SM_CLOCK": 1980,
    "DCGM_FI_DEV_FB_USED": 61_440,
    "DCGM_FI_DEV_FB_FREE": 20_000,
}
EMPTY: Final = {
    **HELD,
    "DCGM_FI_DEV_POWER_USAGE": 72,
    "DCGM_FI_DEV_FB_USED": 4,
    "DCGM_FI_DEV_FB_FREE": 81_436,
}


def unprofiled(values: Mapping[str, float]) -> dict[str, float]:
    """Without profiling fields."""
    return {name: value for name, value in values.items() if "_PROF_" not in name}


def basic(values: Mapping[str, float]) -> dict[str, float]:
    """Utilization and memory alone."""
    names = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE")
    return {name: values[name] for name in names}


def gpu(number: int) -> str:
    """The uuid of an invented GPU."""
    return f"GPU-{number:08x}-1111-4222-8333-444455556666"


class Phase(Struct, frozen=True):
    """Some hours of a day with the same readings and the same labels."""

    first: float
    last: float
    values: Mapping[str, float]
    labels: Mapping[str, str] = {}


class EstatePast:
    """Scrapes, series by series."""

    def __init__(self, interval_seconds: int = 60) -> None:
        """Start without scrapes."""
        self.interval_seconds = interval_seconds
        self._samples: dict[str, list[str]] = {}

    def device(self, phases: Sequence[Phase], **labels: str) -> None:
        """The day of one device; `labels` are on all of its series."""
        for phase in phases:
            for name, value in phase.values.items():
                self.series(name, {**labels, **phase.labels}, value, phase.first, phase.last)

    def series(  # noqa: PLR0913 - all that a series is.
        self,
        name: str,
        labels: Mapping[str, str],
        value: float,
        first: float = 0.0,
        last: float = 24.0,
        *,
        grows_by: float = 0.0,
    ) -> None:
        """A metric over some hours, constant or growing with each sample."""
        inside = ",".join(f'{label}="{text}"' for label, text in labels.items())
        start = YESTERDAY.start // NANOSECONDS_PER_SECOND
        times = range(
            int(start + first * HOUR + 1), int(start + last * HOUR + 1), self.interval_seconds
        )
        lines = self._samples.setdefault(name, [])
        for count, at in enumerate(times):
            lines.append(f"{name}{{{inside}}} {value + count * grows_by} {at}\n")

    def text(self) -> str:
        """As OpenMetrics, with each name once, as the format requires."""
        parts = [
            f"# TYPE {name} unknown\n{''.join(lines)}" for name, lines in self._samples.items()
        ]
        return "".join([*parts, "# EOF\n"])


@contextmanager
def stored(past: EstatePast) -> Iterator[PrometheusStore]:
    """A real VictoriaMetrics with these scrapes as a store: promtool takes seconds for them."""
    with victoria_server(past=past.text()) as server:
        yield PrometheusStore(StoreSettings(url=server.url))
