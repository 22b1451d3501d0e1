"""DCGM's fields of what a GPU does: activity, clocks, temperature, power and memory."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rightsizer.model.signal import Signal


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


_GAUGE: Final = DcgmType.GAUGE
_COUNTER: Final = DcgmType.COUNTER

LOAD_FIELDS: Final = (
    DcgmField(
        "DCGM_FI_DEV_GPU_UTIL",
        _GAUGE,
        "%",
        "Share of time with a kernel resident.",
        Signal.GPU_BUSY,
        "GPUTL",
    ),
    DcgmField(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        _GAUGE,
        "%",
        "Share of time the memory was read or written.",
        Signal.MEMORY_CONTROLLER_BUSY,
        "MCUTL",
    ),
    DcgmField(
        "DCGM_FI_DEV_ENC_UTIL",
        _GAUGE,
        "%",
        "Share of time the video encoder was busy.",
        Signal.ENCODER,
        "ECUTL",
    ),
    DcgmField(
        "DCGM_FI_DEV_DEC_UTIL",
        _GAUGE,
        "%",
        "Share of time the video decoder was busy.",
        Signal.DECODER,
        "DCUTL",
    ),
    DcgmField(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        _GAUGE,
        "ratio",
        "Share of time the graphics or compute engine was active.",
        Signal.GPU_BUSY,
        "GRACT",
        rank=1,
    ),
    DcgmField(
        "DCGM_FI_PROF_SM_ACTIVE",
        _GAUGE,
        "ratio",
        "Share of cycles an SM had a warp.",
        Signal.SM_ACTIVE,
        "SMACT",
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_PROF_SM_OCCUPANCY",
        _GAUGE,
        "ratio",
        "Resident warps of those possible.",
        Signal.SM_OCCUPANCY,
        "SMOCC",
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        _GAUGE,
        "ratio",
        "Share of cycles the tensor pipe was active.",
        Signal.TENSOR_ACTIVE,
        "TENSO",
    ),
    DcgmField(
        "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
        _GAUGE,
        "ratio",
        "Share of cycles the FP64 pipe was active.",
        Signal.FP64_ACTIVE,
        "FP64A",
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
        _GAUGE,
        "ratio",
        "Share of cycles the FP32 pipe was active.",
        Signal.FP32_ACTIVE,
        "FP32A",
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
        _GAUGE,
        "ratio",
        "Share of cycles the FP16 pipe was active.",
        Signal.FP16_ACTIVE,
        "FP16A",
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_PROF_PIPE_INT_ACTIVE",
        _GAUGE,
        "ratio",
        "Share of cycles the integer pipe was active.",
        Signal.INTEGER_ACTIVE,
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        _GAUGE,
        "ratio",
        "Share of cycles the memory interface was active.",
        Signal.DRAM_ACTIVE,
        "DRAMA",
    ),
    DcgmField(
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        _GAUGE,
        "B/s",
        "Sent over PCIe, headers included.",
        Signal.PCIE_TRANSMIT_BYTES_PER_SECOND,
        "PCITX",
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        _GAUGE,
        "B/s",
        "Received over PCIe, headers included.",
        Signal.PCIE_RECEIVE_BYTES_PER_SECOND,
        "PCIRX",
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_PROF_NVLINK_TX_BYTES",
        _GAUGE,
        "B/s",
        "Sent over NVLink.",
        Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
        "NVLTX",
        is_default=False,
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_PROF_NVLINK_RX_BYTES",
        _GAUGE,
        "B/s",
        "Received over NVLink.",
        Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
        "NVLRX",
        is_default=False,
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_PCIE_LINK_GEN",
        _GAUGE,
        "count",
        "Negotiated PCIe generation.",
        Signal.PCIE_LINK_GENERATION,
        is_default=False,
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_PCIE_LINK_WIDTH",
        _GAUGE,
        "count",
        "Negotiated PCIe lanes.",
        Signal.PCIE_LINK_WIDTH,
        is_default=False,
        is_of_card=True,
    ),
)


STATE_FIELDS: Final = (
    DcgmField("DCGM_FI_DEV_SM_CLOCK", _GAUGE, "MHz", "SM clock.", Signal.SM_CLOCK_HERTZ, "SMCLK"),
    DcgmField(
        "DCGM_FI_DEV_MEM_CLOCK", _GAUGE, "MHz", "Memory clock.", Signal.MEMORY_CLOCK_HERTZ, "MMCLK"
    ),
    DcgmField(
        "DCGM_FI_DEV_MAX_SM_CLOCK",
        _GAUGE,
        "MHz",
        "Highest SM clock.",
        Signal.SM_CLOCK_MAXIMUM_HERTZ,
        "SMMAX",
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
        _GAUGE,
        "count",
        "Bit mask of why the clocks are what they are, by its older name.",
        Signal.CLOCK_EVENT_REASONS,
        "DVCCTR",
        is_default=False,
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
        _GAUGE,
        "count",
        "Bit mask of why the clocks are what they are.",
        Signal.CLOCK_EVENT_REASONS,
        "CLEVT",
        rank=1,
        is_default=False,
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_MEMORY_TEMP",
        _GAUGE,
        "C",
        "Temperature of the memory.",
        Signal.MEMORY_TEMPERATURE_CELSIUS,
        "MMTMP",
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_GPU_TEMP",
        _GAUGE,
        "C",
        "Temperature of the GPU.",
        Signal.TEMPERATURE_CELSIUS,
        "TMPTR",
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_MAX_MEM_CLOCK",
        _GAUGE,
        "MHz",
        "Highest memory clock.",
        Signal.MEMORY_CLOCK_MAXIMUM_HERTZ,
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_DEV_APP_SM_CLOCK",
        _GAUGE,
        "MHz",
        "SM clock that applications ask for.",
        Signal.SM_CLOCK_APPLICATION_HERTZ,
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_DEV_APP_MEM_CLOCK",
        _GAUGE,
        "MHz",
        "Memory clock that applications ask for.",
        Signal.MEMORY_CLOCK_APPLICATION_HERTZ,
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_DEV_VIDEO_CLOCK",
        _GAUGE,
        "MHz",
        "Clock of the video engines.",
        Signal.VIDEO_CLOCK_HERTZ,
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_DEV_PSTATE",
        _GAUGE,
        "count",
        "Performance state, 0 the highest.",
        Signal.PERFORMANCE_STATE,
        is_default=False,
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_FAN_SPEED",
        _GAUGE,
        "%",
        "Speed of the fan.",
        Signal.FAN_SPEED,
        is_default=False,
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_POWER_USAGE_INSTANT",
        _GAUGE,
        "W",
        "Power draw at this instant.",
        Signal.POWER_WATTS,
        "POWINST",
        is_default=False,
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_POWER_USAGE",
        _GAUGE,
        "W",
        "Power draw.",
        Signal.POWER_WATTS,
        "POWER",
        rank=1,
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_POWER_MGMT_LIMIT",
        _GAUGE,
        "W",
        "Power limit that was asked for.",
        Signal.POWER_LIMIT_WATTS,
        "PMLMT",
        is_default=False,
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
        _GAUGE,
        "W",
        "Power limit that the driver enforces.",
        Signal.POWER_LIMIT_WATTS,
        "EPLMT",
        rank=1,
        is_default=False,
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        _COUNTER,
        "mJ",
        "Energy since the driver was loaded.",
        Signal.ENERGY_JOULES,
        "TOTEC",
        is_of_card=True,
    ),
    DcgmField(
        "DCGM_FI_DEV_FB_FREE",
        _GAUGE,
        "MiB",
        "Framebuffer memory free.",
        Signal.MEMORY_FREE_BYTES,
        "FBFRE",
    ),
    DcgmField(
        "DCGM_FI_DEV_FB_USED",
        _GAUGE,
        "MiB",
        "Framebuffer memory in use.",
        Signal.MEMORY_USED_BYTES,
        "FBUSD",
    ),
    DcgmField(
        "DCGM_FI_DEV_FB_RESERVED",
        _GAUGE,
        "MiB",
        "Framebuffer memory that the driver keeps.",
        Signal.MEMORY_RESERVED_BYTES,
        "FBRSV",
    ),
    DcgmField(
        "DCGM_FI_DEV_FB_TOTAL",
        _GAUGE,
        "MiB",
        "Framebuffer memory in all.",
        Signal.MEMORY_TOTAL_BYTES,
        "FBTTL",
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_DEV_BAR1_USED",
        _GAUGE,
        "MiB",
        "Mapped of the PCIe window to the memory.",
        Signal.BAR1_USED_BYTES,
        is_default=False,
    ),
    DcgmField(
        "DCGM_FI_DEV_BAR1_TOTAL",
        _GAUGE,
        "MiB",
        "The PCIe window to the memory in all.",
        Signal.BAR1_TOTAL_BYTES,
        is_default=False,
    ),
)
