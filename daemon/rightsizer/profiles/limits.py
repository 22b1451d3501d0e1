"""Limits of the cost of reading a file, and settings of timelines."""

from rightsizer.model.errors import ProfileError
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """Thresholds of the time analysis.

    Attributes:
        timeline_moments: Points of a timeline.
            Source: a part of a fifth still fills a page of 900 pixels
        adjacent_maximum_nanoseconds: Maximum gap between kernels that follow each other directly.
            Source: HolisticTraceAnalysis, consecutive_kernel_delay
        long_collective_minimum_ratio: Share of its step from which a collective's start identifies
            a straggler.
            Source: HolisticTraceAnalysis, straggler analysis
        launch_maximum_nanoseconds: CPU time up to which an operator would be shorter on a GPU than
            its launch.
            Source: HolisticTraceAnalysis: a launch takes 5 to 20 µs
        pause_minimum_nanoseconds: Minimum time between host operators that is the program's own,
            not dispatch of the next.
            Source: ten launches
    """

    timeline_moments: int = setting(1000, unit="", within=(10, 2000))
    adjacent_maximum_nanoseconds: int = setting(30, within=(0, None))
    long_collective_minimum_ratio: float = setting(0.01)
    launch_maximum_nanoseconds: int = setting(20_000, within=(0, None))
    pause_minimum_nanoseconds: int = setting(200_000, within=(0, None))


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits on profile files.

    Attributes:
        unpacked_maximum_bytes: Maximum unpacked size of a file; a larger one is rejected.
            Source: the longest traces that people open are a few GB
        expansion_maximum_ratio: Maximum ratio of unpacked to packed size.
            Source: JSON of traces packs 10 to 60 times; deflate's limit is 1032
        event_maximum_bytes: Maximum size of an event or line; a larger one is skipped and counted.
        events_maximum: Maximum events; a file with more is rejected.
            Source: a kernel takes 40 bytes here; 300 MB hold 7 million of them
        faulty_events_maximum: Unreadable events after which the rest of a file is not read.
            Source: each may take a millisecond to find the end of
        kernel_names_maximum: Maximum kernel names kept; kernels with others are counted together.
        frames_maximum: Maximum host frames with kernel time; that of others counts for the
            enclosing frame.
            Source: a step of a transformer has some 500
        name_maximum_characters: Length at which names of kernels and spans are truncated.
            Source: the longest names of C++ templates in real traces have some 2,000
        files_maximum: Maximum files in a directory; one with more is rejected.
            Source: a rank or a host writes one file each
        devices_maximum: Maximum devices kept; the rest are shown as one.
        steps_maximum: Maximum steps kept; the rest are counted as unread.
        export_maximum_seconds: Time limit for a vendor's program to convert its report.
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

    def check_events(self, count: int) -> None:
        """Raise `ProfileError` for more events, or launches, than allowed."""
        if count > self.events_maximum:
            raise ProfileError(
                f"more than {self.events_maximum} events; record fewer steps, or a shorter time, "
                "or raise events_maximum"
            )

    def check_size(self, size_bytes: int) -> None:
        """Raise `ProfileError` for a file, once unpacked, that is larger than allowed."""
        if size_bytes > self.unpacked_maximum_bytes:
            raise ProfileError(
                f"more than {self.unpacked_maximum_bytes} bytes unpacked; record fewer steps, or a "
                "shorter time, or raise unpacked_maximum_bytes"
            )
