"""Profile of a program, in one form for all profilers.

Event times are integer nanoseconds on the profile's own clock. Idle causes are those of
HolisticTraceAnalysis. Contains no user names, host names or environment variables.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from rightsizer.model.units import Nanoseconds


class ProfileFormat(StrEnum):
    """Format of a profile, named for its writer."""

    PYTORCH = "pytorch"
    NSIGHT_SYSTEMS = "nsight-systems"
    NSIGHT_SYSTEMS_STATS = "nsight-systems-stats"
    NSIGHT_COMPUTE = "nsight-compute"
    XPLANE = "xplane"
    TRACE_VIEWER = "trace-viewer"
    ROCPROF = "rocprofv3"
    ROCPD = "rocpd"
    TENSORFLOW_PAGE = "tensorflow-page"
    MLPERF_INFERENCE = "mlperf-inference"
    MLPERF_TRAINING = "mlperf-training"


class CopyKind(StrEnum):
    """Direction of a memory copy."""

    HOST_TO_DEVICE = "host_to_device"
    DEVICE_TO_HOST = "device_to_host"
    DEVICE_TO_DEVICE = "device_to_device"
    PEER = "peer"
    OTHER = "other"


class HostMemory(StrEnum):
    """Host memory of a copy; only pinned memory is copied at link speed."""

    PAGEABLE = "pageable"
    PINNED = "pinned"
    MANAGED = "managed"
    UNKNOWN = "unknown"


class SpanKind(StrEnum):
    """Host activity of a span."""

    LOADER = "loader"
    CHECKPOINT = "checkpoint"
    SYNCHRONIZATION = "synchronization"
    COLLECTIVE = "collective"
    ANNOTATION = "annotation"
    PAUSE = "pause"
    """No operator of the host for longer than between two of them; named for the frame around."""


class TimeUse(Struct, frozen=True):
    """Breakdown of a device's time, over its span or over one step.

    `kernel_seconds` and the idle causes add up to `span_seconds`.
    """

    span_seconds: float
    """From the start of the first kernel, or the step, to the end of the last."""
    kernel_seconds: float
    """Any kernel running, collectives included; a union, since streams overlap."""
    collective_seconds: float = 0.0
    exposed_collective_seconds: float = 0.0
    """A collective running and no other kernel: communication that is not hidden."""
    copy_seconds: float = 0.0
    """A copy running, with or without kernels."""
    exposed_copy_seconds: float = 0.0
    """A copy running and no kernel."""
    host_wait_seconds: float = 0.0
    """Idle because the next kernel was not yet launched."""
    loader_wait_seconds: float = 0.0
    """Part of `host_wait_seconds` that the host spent in its data loader."""
    synchronization_wait_seconds: float = 0.0
    """Part of `host_wait_seconds`, outside the loader and copies, in calls that wait for the
    device, and in short gaps after such a call, as it kept the host from launching ahead."""
    dispatch_wait_seconds: float = 0.0
    """Part of `host_wait_seconds`, outside of all these, in gaps as short as it takes to issue the
    next kernel."""
    copy_wait_seconds: float = 0.0
    """Part of `host_wait_seconds`, outside the loader, with a copy or fill running."""
    kernel_wait_seconds: float = 0.0
    """Idle between consecutive kernels: hardware gaps."""
    other_idle_seconds: float = 0.0
    """Idle for another reason: the next kernel was launched in time but waited for a stream, an
    event or a copy, or its launch is not in the profile."""
    checkpoint_wait_seconds: float = 0.0
    """Part of `host_wait_seconds` and `other_idle_seconds` that the host spent in a checkpoint."""
    exposed_fill_seconds: float = 0.0
    """Part of the idle time with a memory fill and no copy."""

    @property
    def idle_host_wait_seconds(self) -> float:
        """Part of `host_wait_seconds` with nothing running, copies included."""
        return self.host_wait_seconds - self.copy_wait_seconds

    @property
    def idle_seconds(self) -> float:
        """No kernel running."""
        return self.host_wait_seconds + self.kernel_wait_seconds + self.other_idle_seconds


class KernelFamily(StrEnum):
    """Purpose of a kernel, derived from its name."""

    COLLECTIVE = "collective"
    FUSED = "fused"
    """Several operators fused by a compiler."""
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


class KernelCounters(Struct, frozen=True):
    """Hardware counters and launch figures of one kernel, averaged over its runs."""

    memory_ratio: float | None = None
    """Throughput of the busiest memory level over its peak."""
    theoretical_occupancy_ratio: float | None = None
    """Warps allowed by registers, shared memory and block size, over the maximum."""
    register_blocks: float | None = None
    """Blocks per multiprocessor by registers."""
    shared_memory_blocks: float | None = None
    """Blocks per multiprocessor by shared memory."""
    warp_blocks: float | None = None
    """Blocks per multiprocessor by warps."""
    waves: float | None = None
    """Number of times that its blocks fill all multiprocessors."""
    spill_requests: float | None = None
    """Requests of local memory, where registers spill."""
    excess_sectors_ratio: float | None = None
    """Share of global memory sectors moved that coalesced access would avoid."""
    active_threads: float | None = None
    """Mean active threads per warp instruction, of 32."""
    stall: str = ""
    """What its warps wait for most between two instructions."""
    stall_ratio: float | None = None
    """Of the cycles between two instructions, those of that reason."""


class KernelUse(Struct, frozen=True):
    """All runs of one kernel."""

    name: str
    count: int
    seconds: float
    """Summed over its runs, which may overlap with others."""
    shortest_seconds: float
    longest_seconds: float
    is_collective: bool = False
    uses_tensor_cores: bool | None = None
    """From counters, else from its name; `None` if neither tells."""
    occupancy_ratio: float | None = None
    """Achieved occupancy if measured, else the launch's estimate."""
    compute_ratio: float | None = None
    """SM throughput over its peak."""
    dram_ratio: float | None = None
    """DRAM throughput over its peak."""
    dram_bytes_per_second: float | None = None
    """Reads and writes, if counted."""
    flops_per_second: float | None = None
    """From counted arithmetic, if any."""
    family: KernelFamily = KernelFamily.OTHER
    counters: KernelCounters | None = None


class CopyUse(Struct, frozen=True):
    """All copies of one kind."""

    kind: CopyKind
    memory: HostMemory
    count: int
    bytes: int | None
    """`None` if no size was recorded."""
    seconds: float


class CollectiveUse(Struct, frozen=True):
    """All collectives of one kind over groups of one size, with messages of like sizes."""

    kind: str
    group_size: int
    count: int
    bytes: float
    """Of a message, on average: what all ranks together gather, reduce or scatter."""
    seconds: float
    """Summed; a collective waits for its last rank."""
    bus_bytes_per_second: float
    """Sent by each rank, by the factors of NCCL's tests: at least, as waiting counts."""
    best_bus_bytes_per_second: float
    """The same of the fastest of them."""


class LaunchUse(Struct, frozen=True):
    """Kernel launches of a device."""

    count: int
    """Calls that launch a kernel or a graph."""
    host_seconds: float
    """Total host time in these calls."""
    short_kernels: int = 0
    """Kernels shorter than their own single launch call."""
    matched: int = 0
    """Kernels with a launch in the profile."""


class AttentionUse(Struct, frozen=True):
    """Attention by kernels in a row: a product of matrices, a softmax, a second product."""

    passes: int
    score_seconds: float
    """In the softmax, and in elementwise operators and copies between the products."""
    product_seconds: float

    @property
    def seconds(self) -> float:
        """Time of all its kernels."""
        return self.score_seconds + self.product_seconds


class GapUse(Struct, frozen=True):
    """Short waits of a device for the host, each for the launch of its next kernel."""

    count: int
    median_seconds: float


class StepUse(Struct, frozen=True):
    """One step of a device."""

    name: str
    start: Nanoseconds
    end: Nanoseconds
    time: TimeUse
    loader_seconds: float = 0.0
    """Host time spent waiting for its loader."""
    last_long_collective: Nanoseconds | None = None
    """Start of the last collective that took over 1 % of the step."""
    collectives: Mapping[str, tuple[tuple[Nanoseconds, Nanoseconds], ...]] = {}
    """Start and end of each collective, in order, by its kernel and group; without the recording's
    first, which also waits for ranks that began to record later."""


class ProfiledDevice(Struct, frozen=True):
    """Identity of a device; `None` or empty where the profile does not state it."""

    key: str
    """Key that identifies the device within the profile."""
    index: int | None = None
    name: str = ""
    uuid: str = ""
    memory_bytes: int | None = None
    multiprocessors: int | None = None


class TimelineLane(StrEnum):
    """Category of a device's time; lanes may overlap."""

    COMPUTE = "compute"
    """Kernels other than collectives."""
    COLLECTIVE = "collective"
    COPY = "copy"
    LOADER_WAIT = "loader_wait"
    HOST_WAIT = "host_wait"
    """Waiting for the host, other than its loader."""
    OTHER_IDLE = "other_idle"


class ProfileTimeline(Struct, frozen=True):
    """A device's time over moments of equal length."""

    moment_seconds: float
    lanes: Mapping[TimelineLane, tuple[float, ...]] = {}
    """Share of each moment, 0 to 1; empty lanes are omitted."""
    streams: Mapping[str, tuple[float, ...]] = {}
    """The same for the busiest streams; empty if there is only one."""
    threads: Mapping[str, tuple[float, ...]] = {}
    """The same for the host threads with the most launches: operators, launches and waits."""
    memory_bytes: tuple[int | None, ...] = ()
    """Peak memory in use per moment; empty if unknown."""
    start_seconds: float = 0.0
    """Of the first moment, on the profile's own clock."""


class FrameUse(Struct, frozen=True):
    """Host frame with the kernels it launched: a module, operator, range or source line."""

    name: str
    parent: int | None
    """Index of the enclosing frame; `None` for the outermost."""
    seconds: float
    """Total time of kernels launched in it, nested frames included."""
    self_seconds: float
    """Without nested frames."""
    kernels: int
    calls: int | None = None
    """Calls that launched a kernel; `None` if only kernels are known."""


class ProductUse(Struct, frozen=True):
    """All calls of one operator and shape: matrix products, convolutions, attention."""

    name: str
    shape: str
    number_format: str
    """`fp32`, `bf16`, `fp16`, `fp8` or `int8`."""
    calls: int
    seconds: float
    """Summed over the kernels of these calls."""
    flops: float
    bytes: float
    """Minimum traffic: inputs and outputs, once each."""


class HostSpanUse(Struct, frozen=True):
    """All spans of one kind and name on the host."""

    kind: SpanKind
    name: str
    count: int
    seconds: float


class DeviceProfile(Struct, frozen=True):
    """Activity of one device."""

    device: ProfiledDevice
    time: TimeUse | None
    """`None` without a timeline or kernels."""
    kernels: tuple[KernelUse, ...] = ()
    """By total time, longest first."""
    copies: tuple[CopyUse, ...] = ()
    attention: AttentionUse | None = None
    """`None` where no softmax runs between two products."""
    collectives: tuple[CollectiveUse, ...] = ()
    """Longest in sum first; empty where the profile has no sizes."""
    inline_collective_seconds: float = 0.0
    """Time of collectives on streams that run other kernels, too: nothing can hide them."""
    launches: LaunchUse | None = None
    steps: tuple[StepUse, ...] = ()
    memory_peak_bytes: int | None = None
    start: Nanoseconds | None = None
    """Start of its first kernel on the profile's clock; `None` without a timeline."""
    steps_time: TimeUse | None = None
    """From the start of its first step, if that precedes the first kernel; else `None`."""
    work_time: TimeUse | None = None
    """All of its time in which no graph is recorded; `None` if none is."""
    dispatch_gaps: GapUse | None = None
    """Those of `dispatch_wait_seconds`; `None` without any."""
    host_calls: tuple[HostSpanUse, ...] = ()
    """Calls that its waits for the host are due to: the number of waits and their time."""
    longest_host_wait_seconds: float = 0.0
    """Longest single wait of `host_wait_seconds`, including that before the first kernel."""
    timeline: ProfileTimeline | None = None
    """From the start of its first step or kernel to the end of the last."""
    frames: tuple[FrameUse, ...] = ()
    """Parents before children, longest first; empty if the profile has none."""
    products: tuple[ProductUse, ...] = ()
    """By total time, longest first; empty if the profile has no shapes."""

    @property
    def judged_time(self) -> TimeUse | None:
        """Breakdown of its time, including the first step's wait before the first kernel."""
        return self.work_time or self.steps_time or self.time

    @property
    def captured_ratio(self) -> float:
        """Share of its time in which graphs are recorded."""
        whole = self.steps_time or self.time
        if whole is None or self.work_time is None or not whole.span_seconds:
            return 0.0
        return 1.0 - self.work_time.span_seconds / whole.span_seconds


class HostStep(Struct, frozen=True):
    """Step marked by the host, if no device shows it."""

    name: str
    start: Nanoseconds
    end: Nanoseconds
    loader_seconds: float = 0.0
    """Time spent waiting for its loader."""
    collective_seconds: float = 0.0
    """Time spent in collectives."""
    checkpoint_seconds: float = 0.0
    """Time spent in checkpoints."""
    collectives: Mapping[str, tuple[tuple[Nanoseconds, Nanoseconds], ...]] = {}
    """By name, as those of a device's step."""
    operators: int | None = None
    """Calls of operators, or of compiled functions, that hold no other; `None` where they are not
    known, or were launched onto a GPU that was not recorded."""
    dispatch_seconds: float = 0.0
    """In operators that are shorter than a launch, and between operators, but in pauses."""
    pause_seconds: float = 0.0
    """Of times with no operator, those longer than between two of them; without what has a kind."""
    read_backs: int = 0
    """Times that it asked for a value that a GPU would have had to compute first."""


class BenchmarkResult(Struct, frozen=True):
    """Results stated in a benchmark's log; times in seconds, rates per second."""

    benchmark: str
    scenario: str
    is_valid: bool | None
    figures: Mapping[str, float] = {}
    """By stable names: `samples_per_second`, `tokens_per_second`, `latency_p90_seconds`,
    `ttft_p99_seconds`, `tpot_p99_seconds`, `time_to_train_seconds`."""
    device_name: str = ""
    """Accelerators named in the log; empty if it names none."""


class Profile(Struct, frozen=True):
    """Parsed profile file."""

    format: ProfileFormat
    source: str
    """File name without directories."""
    version: str = ""
    """Version of the format or its writer."""
    start: Nanoseconds | None = None
    """Wall time of time 0 of the profile; `None` if unknown."""
    rank: int | None = None
    world_size: int | None = None
    devices: tuple[DeviceProfile, ...] = ()
    host_spans: tuple[HostSpanUse, ...] = ()
    benchmark: BenchmarkResult | None = None
    host_steps: tuple[HostStep, ...] = ()
    """Empty if a device has a timeline: its own steps are more precise."""
    events: int = 0
    """Number of events read."""
    unread: Mapping[str, int] = {}
    """Unused or unrecognized events, counted by type."""
    notes: tuple[str, ...] = ()
    """Limitations, one sentence each."""
    is_whole: bool = True
    """Whether the file is complete: neither truncated nor with many records dropped."""
