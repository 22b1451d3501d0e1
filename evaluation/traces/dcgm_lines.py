"""Expected reading of a line of a dcgm-exporter's page, independent of the reader.

Expressions, a table of names and units of its own, and nothing that the package says.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from rightsizer.model.signal import Signal

_LINE: Final = re.compile(r"(\w+)\{(.*)\} (\S+)$")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_MIB: Final = 2.0**20
_SMALLEST_BLANK: Final = 2.0**47
_MEANINGS: Final[Mapping[str, tuple[Signal, float]]] = {
    "DEV_SM_CLOCK": (Signal.SM_CLOCK_HERTZ, 1e6),
    "DEV_MEM_CLOCK": (Signal.MEMORY_CLOCK_HERTZ, 1e6),
    "DEV_MEMORY_TEMP": (Signal.MEMORY_TEMPERATURE_CELSIUS, 1),
    "DEV_GPU_TEMP": (Signal.TEMPERATURE_CELSIUS, 1),
    "DEV_POWER_USAGE": (Signal.POWER_WATTS, 1),
    "DEV_TOTAL_ENERGY_CONSUMPTION": (Signal.ENERGY_JOULES, 1e-3),
    "DEV_PCIE_REPLAY_COUNTER": (Signal.PCIE_REPLAYS, 1),
    "DEV_GPU_UTIL": (Signal.GPU_BUSY, 1e-2),
    "DEV_MEM_COPY_UTIL": (Signal.MEMORY_CONTROLLER_BUSY, 1e-2),
    "DEV_ENC_UTIL": (Signal.ENCODER, 1e-2),
    "DEV_DEC_UTIL": (Signal.DECODER, 1e-2),
    "DEV_FB_FREE": (Signal.MEMORY_FREE_BYTES, _MIB),
    "DEV_FB_USED": (Signal.MEMORY_USED_BYTES, _MIB),
    "DEV_FB_RESERVED": (Signal.MEMORY_RESERVED_BYTES, _MIB),
    "DEV_UNCORRECTABLE_REMAPPED_ROWS": (Signal.REMAPPED_ROWS_UNCORRECTABLE, 1),
    "DEV_CORRECTABLE_REMAPPED_ROWS": (Signal.REMAPPED_ROWS_CORRECTABLE, 1),
    "DEV_ROW_REMAP_FAILURE": (Signal.REMAPPED_ROWS_FAILED, 1),
    "PROF_GR_ENGINE_ACTIVE": (Signal.GPU_BUSY, 1),
    "PROF_SM_ACTIVE": (Signal.SM_ACTIVE, 1),
    "PROF_SM_OCCUPANCY": (Signal.SM_OCCUPANCY, 1),
    "PROF_PIPE_TENSOR_ACTIVE": (Signal.TENSOR_ACTIVE, 1),
    "PROF_DRAM_ACTIVE": (Signal.DRAM_ACTIVE, 1),
    "PROF_PCIE_TX_BYTES": (Signal.PCIE_TRANSMIT_BYTES_PER_SECOND, 1),
    "PROF_PCIE_RX_BYTES": (Signal.PCIE_RECEIVE_BYTES_PER_SECOND, 1),
}


class Line(Struct, frozen=True):
    """One sample as a person would read it."""

    text: str
    metric: str
    device: str
    pod: str
    signal: Signal | None
    """`None` where no signal is expected of it."""
    number: float
    """In the signal's base unit."""
    is_blank: bool

    @property
    def head(self) -> str:
        """Name and labels."""
        return self.text.rpartition("}")[0] + "}"


def lines_of(page: Iterable[str]) -> list[Line]:
    """The samples of a page.

    Raises:
        ValueError: a line is no sample.
    """
    return [_line(text.strip()) for text in page if text.strip() and not text.startswith("#")]


def _line(text: str) -> Line:
    match = _LINE.fullmatch(text)
    if match is None:
        raise ValueError(f"no sample: {text}")
    labels = dict(_LABEL.findall(match[2]))
    device = labels["UUID"] + (f"/gi{labels['GPU_I_ID']}" if labels.get("GPU_I_ID") else "")
    signal, factor = _MEANINGS.get(match[1].removeprefix("DCGM_FI_"), (None, 1.0))
    number = float(match[3])
    has_no_sensor = signal is Signal.MEMORY_TEMPERATURE_CELSIUS and number == 0
    return Line(
        text=text,
        metric=match[1],
        device=device,
        pod=labels.get("pod", ""),
        signal=signal,
        number=number * factor,
        is_blank=number >= _SMALLEST_BLANK or has_no_sensor,
    )
