"""Limits of the cost of reading a file, and settings of timelines."""

from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """Thresholds of where a device's time went.

    Attributes:
        timeline_moments: Moments that a timeline is divided into.
            Source: a part of a fifth still fills a page of 900 pixels
        adjacent_maximum_nanoseconds: Kernels no further apart than this follow each other directly.
            Source: HolisticTraceAnalysis, consecutive_kernel_delay
        long_collective_minimum_ratio: Part of its step that a collective takes at least, for its
            start to tell a straggler.
            Source: HolisticTraceAnalysis, straggler analysis
        launch_maximum_nanoseconds: An operator of a CPU that takes no longer is shorter on a GPU
            than its launch.
            Source: HolisticTraceAnalysis: a launch takes 5 to 20 µs
        pause_minimum_nanoseconds: Time without an operator of the host from which it is the
            program's own, not the dispatch of the next one.
            Source: ten launches
    """

    timeline_moments: int = setting(1000, unit="", within=(10, 2000))
    adjacent_maximum_nanoseconds: int = setting(30, within=(0, None))
    long_collective_minimum_ratio: float = setting(0.01)
    launch_maximum_nanoseconds: int = setting(20_000, within=(0, None))
    pause_minimum_nanoseconds: int = setting(200_000, within=(0, None))


@dataclass(frozen=True, slots=True)
class FileLimits:
    """What a file may ask of this program.

    Attributes:
        unpacked_maximum_bytes: Size of a file once it is unpacked, beyond which it is refused.
            Source: the longest traces that people open are a few GB
        expansion_maximum_ratio: By how much a packed file may grow as it is unpacked.
            Source: JSON of traces packs 10 to 60 times; deflate's limit is 1032
        event_maximum_bytes: Size of a single event or line, beyond which it is passed over and
            counted.
        events_maximum: Events beyond which a file is refused.
            Source: a kernel takes 40 bytes here; 300 MB hold 7 million of them
        faulty_events_maximum: Events that cannot be understood at all, beyond which no more of a
            file is read.
            Source: each may take a millisecond to find the end of
        kernel_names_maximum: Kernel names that are kept; the kernels of others are counted as one.
        frames_maximum: Frames of the host that kernels' time is attributed to; beyond, it counts
            for the frame around.
            Source: a step of a transformer has some 500
        name_maximum_characters: Length of a kernel's or span's name, beyond which it is cut.
            Source: the longest names of C++ templates in real traces have some 2,000
        files_maximum: Files of a folder, beyond which it is refused.
            Source: a rank or a host writes one file each
        devices_maximum: Devices that are kept; the rest are shown as one.
        steps_maximum: Steps that are kept; the rest are counted as not read.
        export_maximum_seconds: How long a vendor's program may take to turn its own report into a
            readable file.
            Source: `nsys export` wrote two minutes of training of two GPUs in 20 seconds
    """

    unpacked_maximum_bytes: int = setting(16 * 2**30, within=(2**20, None))
    expansion_maximum_ratio: float = setting(1000.0, unit="", within=(1.0, None))
    event_maximum_bytes: int = setting(4 * 2**20, within=(2**10, None))
    events_maximum: int = setting(50_000_000, within=(1000, None))
    faulty_events_maximum: int = setting(1000, within=(0, None))
    kernel_names_maximum: int = setting(20_000, within=(100, None))
    frames_maximum: int = setting(2000, within=(0, None))
    name_maximum_characters: int = setting(2000, within=(64, None))
    files_maximum: int = setting(2000, within=(1, None))
    devices_maximum: int = setting(1024, within=(1, None))
    steps_maximum: int = setting(100_000, within=(1, None))
    export_maximum_seconds: float = setting(600.0, within=(1.0, None))


@dataclass(frozen=True, slots=True)
class ReadLimits(FileLimits):
    """What a file may ask for, and what counts as near and as long on its timeline."""

    time: TimeSettings = field(default_factory=TimeSettings)
