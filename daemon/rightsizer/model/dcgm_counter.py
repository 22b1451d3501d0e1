"""dcgm-exporter's default counters as it writes them: the order, the sentence, the figures."""

from dataclasses import dataclass
from typing import Final

from rightsizer.model.dcgm_field import DcgmField
from rightsizer.model.dcgm_names import DCGM_FIELDS
from rightsizer.model.signal_name import Signal
from rightsizer.model.units import Unit, convert


@dataclass(frozen=True, slots=True)
class DcgmCounter:
    """One of the counters that dcgm-exporter has on by default."""

    field: DcgmField
    help: str
    """In its own words, which dashboards and people look for."""
    signals: tuple[Signal, ...]
    """Their sum is the value; none where it comes from no signal."""
    unit: str
    """Its unit; empty for a plain number."""
    base_units: float
    """How many of our base units one of its units is."""
    decimals: int = 0
    """dcgm-exporter writes whole numbers, and fractions with six digits."""

    @property
    def name(self) -> str:
        """The name of the metric."""
        return self.field.name

    def text(self, value: float) -> str:
        """A value in base units as dcgm-exporter writes it."""
        return f"{value / self.base_units:.{self.decimals}f}"


def _counter(name: str, sentence: str, decimals: int = 0) -> DcgmCounter:
    field = DCGM_FIELDS[name]
    _, base_units = convert(field.unit)
    unit = "" if field.unit == Unit.COUNT else field.unit
    signals = () if field.signal is None else (field.signal,)
    return DcgmCounter(field, sentence, signals, unit, base_units, decimals)


DCGM_COUNTERS: Final = (
    _counter("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz)."),
    _counter("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz)."),
    _counter("DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C)."),
    _counter("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C)."),
    _counter("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", 6),
    _counter(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ)."
    ),
    _counter("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "Total number of PCIe retries."),
    _counter("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %)."),
    _counter("DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %)."),
    _counter("DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %)."),
    _counter("DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %)."),
    _counter("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered."),
    _counter("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB)."),
    _counter("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB)."),
    _counter("DCGM_FI_DEV_FB_RESERVED", "Framebuffer memory reserved (in MiB)."),
    _counter(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "Number of remapped rows for uncorrectable errors",
    ),
    _counter(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for correctable errors"
    ),
    _counter("DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed"),
    DcgmCounter(
        DCGM_FIELDS["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"],
        "Total number of NVLink bandwidth counters for all lanes.",
        (Signal.NVLINK_RECEIVE_BYTES_PER_SECOND, Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND),
        "MB/s",
        # A rate, whatever it is declared as: KiB/s by the driver, divided by 1000 in DCGM.
        # https://github.com/NVIDIA/dcgm-exporter/pull/658
        1024_000.0,
    ),
    _counter("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", 6),
    _counter(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        6,
    ),
    _counter(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        6,
    ),
    _counter(
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "The rate of data transmitted over the PCIe bus - including both protocol headers and "
        "data payloads - in bytes per second.",
    ),
    _counter(
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "The rate of data received over the PCIe bus - including both protocol headers and "
        "data payloads - in bytes per second.",
    ),
)
"""In the order of its list. The state of a vGPU license is not read, and so not claimed."""
