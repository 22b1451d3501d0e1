"""What a profiler wrote of a program at work, in one form whichever profiler it was.

Times of events are whole nanoseconds on the profile's own clock. The idle causes are those of
HolisticTraceAnalysis. Nothing here names a person, a host or an environment variable.
"""

from collections.abc import Mapping
from enum import StrEnum

from rightsizer.model.frozen import dataclass, field
from rightsizer.model.units import Nanoseconds


class ProfileFormat(StrEnum):
    """Who wrote the file."""

    PYTORCH = "pytorch"
    NSIGHT_SYSTEMS = "nsight-systems"
    NSIGHT_SYSTEMS_STATS = "nsight-systems-stats"
    NSIGHT_COMPUTE = "nsight-compute"
    XPLANE = "xplane"
    TRACE_VIEWER = "trace-viewer"
    TENSORFLOW_PAGE = "tensorflow-page"
    MLPERF_INFERENCE = "mlperf-inference"
    MLPERF_TRAINING = "mlperf-training"


class CopyKind(StrEnum):
    """From where to where."""

    HOST_TO_DEVICE = "host_to_device"
    DEVICE_TO_HOST = "device_to_host"
    DEVICE_TO_DEVICE = "device_to_device"
    PEER = "peer"
    OTHER = "other"


class HostMemory(StrEnum):
    """What the host's side of a copy is; only pinned memory is copied at the link's speed."""

    PAGEABLE = "pageable"
    PINNED = "pinned"
    MANAGED = "managed"
    UNKNOWN = "unknown"


class SpanKind(StrEnum):
    """What a program was doing on the host."""

    LOADER = "loader"
    CHECKPOINT = "checkpoint"
    SYNCHRONIZATION = "synchronization"
    COLLECTIVE = "collective"
    ANNOTATION = "annotation"


@dataclass(frozen=True, slots=True)
class TimeUse:
    """Where the time of a device went, over its span or over one step.

    `kernel_seconds` and the idle causes sum to `span_seconds`.
    """

    span_seconds: float
    """From the start of the first kernel to the end of the last, or of the step."""
    kernel_seconds: float
    """With any kernel running, collectives included: a union, for streams overlap."""
    collective_seconds: float = 0.0
    exposed_collective_seconds: float = 0.0
    """With a collective running and no other kernel: communication that is not hidden."""
    copy_seconds: float = 0.0
    """With a copy running, kernels beside it or not."""
    exposed_copy_seconds: float = 0.0
    """With a copy running and no kernel."""
    host_wait_seconds: float = 0.0
    """Idle while the next kernel was not launched yet."""
    loader_wait_seconds: float = 0.0
    """Of `host_wait_seconds`, what the host spent in its loader."""
    synchronization_wait_seconds: float = 0.0
    """Of `host_wait_seconds`, outside of the loader, waits that began while the host waited for the
    device: it could not launch ahead."""
    kernel_wait_seconds: float = 0.0
    """Idle between kernels that follow each other directly: the hardware's own gaps."""
    other_idle_seconds: float = 0.0
    """Idle for neither reason: the next kernel was launched in time and waited for another stream,
    an event or a copy; or its launch is not in the profile."""
    checkpoint_wait_seconds: float = 0.0
    """Of `host_wait_seconds` and `other_idle_seconds`, what the host spent at a checkpoint."""
    exposed_fill_seconds: float = 0.0
    """Of the idle time, with memory being set and no copy."""

    @property
    def idle_seconds(self) -> float:
        """Without any kernel."""
        return self.host_wait_seconds + self.kernel_wait_seconds + self.other_idle_seconds


class KernelFamily(StrEnum):
    """What a kernel is for, by its name."""

    COLLECTIVE = "collective"
    FUSED = "fused"
    """Several operators that a compiler joined."""
    ATTENTION = "attention"
    CONVOLUTION = "convolution"
    MATRIX_PRODUCT = "matrix_product"
    NORMALIZATION = "normalization"
    SOFTMAX = "softmax"
    OPTIMIZER = "optimizer"
    LOOKUP = "lookup"
    """Embeddings, gathers and scatters."""
    COPY = "copy"
    """Casts, transposes, concatenations and fills."""
    REDUCTION = "reduction"
    ELEMENTWISE = "elementwise"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """What hardware counters and its launch tell of one kernel, each the mean over its runs."""

    memory_ratio: float | None = None
    """Throughput of the busiest level of memory, of its peak."""
    theoretical_occupancy_ratio: float | None = None
    """Warps that its registers, shared memory and block size leave room for, of the most."""
    register_blocks: float | None = None
    """Blocks that a multiprocessor has the registers for."""
    shared_memory_blocks: float | None = None
    """Blocks that a multiprocessor has the shared memory for."""
    warp_blocks: float | None = None
    """Blocks that a multiprocessor has the warps for."""
    waves: float | None = None
    """Times that its blocks fill all multiprocessors."""
    excess_sectors_ratio: float | None = None
    """Of the sectors of global memory that are moved, those that coalesced access would not."""
    active_threads: float | None = None
    """Threads of a warp at work in an instruction, of 32."""


@dataclass(frozen=True, slots=True)
class KernelUse:
    """All runs of one kernel."""

    name: str
    count: int
    seconds: float
    """Summed over its runs, which may overlap others'."""
    shortest_seconds: float
    longest_seconds: float
    is_collective: bool = False
    uses_tensor_cores: bool | None = None
    """By its counters, or by its name where that tells; `None` where nothing does."""
    occupancy_ratio: float | None = None
    """Achieved, where it was measured; the launch's estimate where the profile has only that."""
    compute_ratio: float | None = None
    """SM throughput, of its peak."""
    dram_ratio: float | None = None
    """DRAM throughput, of its peak."""
    dram_bytes_per_second: float | None = None
    """Read and written, where that was counted."""
    flops_per_second: float | None = None
    """Where its arithmetic was counted."""
    family: KernelFamily = KernelFamily.OTHER
    counters: KernelCounters | None = None


@dataclass(frozen=True, slots=True)
class CopyUse:
    """All copies of one kind."""

    kind: CopyKind
    memory: HostMemory
    count: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LaunchUse:
    """How kernels came to the device."""

    count: int
    """Calls that launch a kernel or a graph."""
    host_seconds: float
    """Summed, in these calls."""
    short_kernels: int = 0
    """Kernels shorter than a launch that brought them alone."""
    matched: int = 0
    """Kernels whose launch is in the profile."""


@dataclass(frozen=True, slots=True)
class StepUse:
    """One step of a device."""

    name: str
    start: Nanoseconds
    end: Nanoseconds
    time: TimeUse
    loader_seconds: float = 0.0
    """In which the host waited for its loader."""
    last_long_collective: Nanoseconds | None = None
    """Start of its last collective that took over 1% of the step: who starts it latest was
    waited for."""


@dataclass(frozen=True, slots=True)
class ProfiledDevice:
    """Which device; `None` and empty where the profile does not say."""

    key: str
    """As the profile tells devices apart."""
    index: int | None = None
    name: str = ""
    uuid: str = ""
    memory_bytes: int | None = None
    multiprocessors: int | None = None


class TimelineLane(StrEnum):
    """What a moment of a device's time went to; lanes may overlap."""

    COMPUTE = "compute"
    """Kernels but collectives."""
    COLLECTIVE = "collective"
    COPY = "copy"
    LOADER_WAIT = "loader_wait"
    HOST_WAIT = "host_wait"
    """For the host, and not for its loader."""
    OTHER_IDLE = "other_idle"


@dataclass(frozen=True, slots=True)
class ProfileTimeline:
    """Where a device's time went, moment after moment of equal length."""

    moment_seconds: float
    lanes: Mapping[TimelineLane, tuple[float, ...]] = field(default_factory=dict, hash=False)
    """The part of each moment, 0 to 1; a lane in which nothing ever was is left out."""
    streams: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)
    """The same of the busiest streams; empty where all ran on one."""
    threads: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)
    """Of the host's threads that launched most: in operators, launches and waits."""
    memory_bytes: tuple[int | None, ...] = ()
    """The most that was in use in each moment; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class FrameUse:
    """A frame of the host with what it launched: a module, an operator, a range or a line."""

    name: str
    parent: int | None
    """Place of the frame around it among all; `None` of the outermost."""
    seconds: float
    """Summed over the kernels that it launched, in the frames within it too."""
    self_seconds: float
    """In none of the frames within it."""
    kernels: int
    calls: int | None = None
    """That launched anything; `None` where kernels alone are known."""


@dataclass(frozen=True, slots=True)
class ProductUse:
    """All products of one operator and shape: of matrices, a convolution, attention."""

    name: str
    shape: str
    number_format: str
    """`fp32`, `bf16`, `fp16`, `fp8` or `int8`."""
    calls: int
    seconds: float
    """Summed over the kernels of these calls."""
    flops: float
    bytes: float
    """The least that they move: factors and results, once."""


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """What one device did."""

    device: ProfiledDevice
    time: TimeUse | None
    """`None` where the profile has no timeline, or no kernel."""
    kernels: tuple[KernelUse, ...] = ()
    """Longest in sum first."""
    copies: tuple[CopyUse, ...] = ()
    launches: LaunchUse | None = None
    steps: tuple[StepUse, ...] = ()
    memory_peak_bytes: int | None = None
    start: Nanoseconds | None = None
    """Of its first kernel, on the profile's clock; `None` where the profile has no timeline."""
    steps_time: TimeUse | None = None
    """From the start of its first step on, where that came before the first kernel; else `None`."""
    longest_host_wait_seconds: float = 0.0
    """The longest single wait of `host_wait_seconds`, that before the first kernel included."""
    timeline: ProfileTimeline | None = None
    """From the start of its first step or kernel to the end of the last."""
    frames: tuple[FrameUse, ...] = ()
    """Each before those within it, the longest first; empty where the profile has none."""
    products: tuple[ProductUse, ...] = ()
    """Longest in sum first; empty where the profile has no shapes."""

    @property
    def judged_time(self) -> TimeUse | None:
        """Where its time went, with what its first step waited before the first kernel."""
        return self.steps_time or self.time


@dataclass(frozen=True, slots=True)
class HostSpanUse:
    """All spans of one kind and name on the host."""

    kind: SpanKind
    name: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class HostStep:
    """One step as the host marked it, where no device shows it."""

    name: str
    start: Nanoseconds
    end: Nanoseconds
    loader_seconds: float = 0.0
    """In which the host waited for its loader."""
    collective_seconds: float = 0.0
    """In which it ran a collective."""


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """What a benchmark's log states; times in seconds, rates a second."""

    benchmark: str
    scenario: str
    is_valid: bool | None
    figures: Mapping[str, float] = field(default_factory=dict, hash=False)
    """By stable names: `samples_per_second`, `tokens_per_second`, `latency_p90_seconds`,
    `ttft_p99_seconds`, `tpot_p99_seconds`, `time_to_train_seconds`."""
    device_name: str = ""
    """Of its accelerators, as the log names them; empty where it does not."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One file, read."""

    format: ProfileFormat
    source: str
    """The file's name, without its folders."""
    version: str = ""
    """Of the format or of who wrote it."""
    start: Nanoseconds | None = None
    """Wall time of the profile's time 0; `None` where it is not known."""
    rank: int | None = None
    world_size: int | None = None
    devices: tuple[DeviceProfile, ...] = ()
    host_spans: tuple[HostSpanUse, ...] = ()
    benchmark: BenchmarkResult | None = None
    host_steps: tuple[HostStep, ...] = ()
    """Empty where a device has a timeline: its own steps tell more."""
    events: int = 0
    """That were read in all."""
    unread: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Events that are of no use here or are not understood, counted by what they are."""
    notes: tuple[str, ...] = ()
    """What limits it, a sentence each."""
    is_whole: bool = True
    """Whether the file ends where its writer ended it."""
