"""Limits of what a file may cost to read, and settings of the arithmetic of time lines."""

from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """Thresholds of where a device's time went."""

    timeline_moments: int = setting(
        200,
        help="Moments that a time line is drawn with.",
        unit="",
        within=(10, 2000),
        source="four pixels each on a page of 900",
    )
    adjacent_maximum_nanoseconds: int = setting(
        30,
        help="Kernels no further apart than this follow each other directly.",
        within=(0, None),
        source="HolisticTraceAnalysis, consecutive_kernel_delay",
    )
    long_collective_minimum_ratio: float = setting(
        0.01,
        help="Part of its step that a collective takes at least, for its start to tell a "
        "straggler.",
        source="HolisticTraceAnalysis, straggler analysis",
    )


@dataclass(frozen=True, slots=True)
class FileLimits:
    """What a file may ask of this program."""

    unpacked_maximum_bytes: int = setting(
        16 * 2**30,
        help="Size of a file once it is unpacked, beyond which it is refused.",
        within=(2**20, None),
        source="the longest traces that people open are a few GB",
    )
    expansion_maximum_ratio: float = setting(
        1000.0,
        help="By how much a packed file may grow as it is unpacked.",
        unit="",
        within=(1.0, None),
        source="JSON of traces packs 10 to 60 times; deflate's limit is 1032",
    )
    event_maximum_bytes: int = setting(
        4 * 2**20,
        help="Size of a single event or line, beyond which it is passed over and counted.",
        within=(2**10, None),
    )
    events_maximum: int = setting(
        50_000_000,
        help="Events beyond which a file is refused.",
        within=(1000, None),
        source="a kernel takes 40 bytes here; 300 MB hold 7 million of them",
    )
    faulty_events_maximum: int = setting(
        1000,
        help="Events that cannot be understood at all, beyond which no more of a file is read.",
        within=(0, None),
        source="each may take a millisecond to find the end of",
    )
    kernel_names_maximum: int = setting(
        20_000,
        help="Different kernels that are told apart; the rest are counted as one.",
        within=(100, None),
    )
    name_maximum_characters: int = setting(
        2000,
        help="Length of a kernel's or span's name, beyond which it is cut.",
        within=(64, None),
        source="the longest names of C++ templates in real traces have some 2,000",
    )
    files_maximum: int = setting(
        2000,
        help="Files of a folder, beyond which it is refused.",
        within=(1, None),
        source="a rank or a host writes one file each",
    )
    devices_maximum: int = setting(
        1024, help="Devices that are told apart; the rest are shown as one.", within=(1, None)
    )
    steps_maximum: int = setting(
        100_000,
        help="Steps that are told apart; the rest are counted as not read.",
        within=(1, None),
    )
    export_maximum_seconds: float = setting(
        600.0,
        help="How long a vendor's program may take to turn its own report into a readable file.",
        within=(1.0, None),
        source="`nsys export` wrote two minutes of training of two GPUs in 20 seconds",
    )


@dataclass(frozen=True, slots=True)
class ReadLimits(FileLimits):
    """What a file may ask for, and what counts as near and as long on its time line."""

    time: TimeSettings = field(default_factory=TimeSettings)
