"""What is known of one of DCGM's fields, under the name that dcgm-exporter gives it."""

from dataclasses import dataclass
from enum import StrEnum

from rightsizer.model.signal_name import Signal


class DcgmType(StrEnum):
    """How dcgm-exporter declares a metric, which is not always what it is."""

    GAUGE = "gauge"
    COUNTER = "counter"
    LABEL = "label"
    """No metric: a label on all the others."""


@dataclass(frozen=True, slots=True)
class DcgmField:
    """One field of DCGM, or one metric that dcgm-exporter makes itself."""

    name: str
    type: DcgmType
    unit: str
    """A spelling that `domain.units.convert` knows; `count` for plain numbers."""
    meaning: str
    signal: Signal | None = None
    short_name: str | None = None
    """The heading of its column in `dcgmi dmon`."""
    rank: int = 0
    """Of several fields with one signal, the one with the highest rank is believed."""
    is_default: bool = True
    """Whether dcgm-exporter's own list of counters turns it on."""
    is_of_card: bool = False
    """Tells of the whole card even where it is labelled with a MIG instance."""
    is_part: bool = False
    """The signal is the sum of all fields that are parts of it."""
    unused_because: str = ""
    """Why nobody reads it, where it has no signal."""

    @property
    def is_profiling(self) -> bool:
        """Whether it comes from the hardware's counters rather than from NVML."""
        return self.name.startswith("DCGM_FI_PROF_")
