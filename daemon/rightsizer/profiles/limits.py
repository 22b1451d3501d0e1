"""Limits of the cost of reading a file, and settings of timelines."""

from typing import Annotated

from msgspec import Struct

from rightsizer.model.values import CONSTANT, ProfileError, Spec


class TimeSettings(Struct, frozen=True):
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

    timeline_moments: Annotated[int, Spec(unit="", within=(10, 2000))] = 1000
    adjacent_maximum_nanoseconds: Annotated[int, Spec(within=(0, None))] = 30
    long_collective_minimum_ratio: float = 0.01
    launch_maximum_nanoseconds: Annotated[int, Spec(within=(0, None))] = 20_000
    pause_minimum_nanoseconds: Annotated[int, Spec(within=(0, None))] = 200_000


class FileLimits(Struct, frozen=True):
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

    unpacked_maximum_bytes: Annotated[int, Spec(within=(2**20, None))] = 16 * 2**30
    expansion_maximum_ratio: Annotated[float, Spec(unit="", within=(1.0, None)), CONSTANT] = 1000.0
    event_maximum_bytes: Annotated[int, Spec(within=(2**10, None)), CONSTANT] = 4 * 2**20
    events_maximum: Annotated[int, Spec(within=(1000, None))] = 50_000_000
    faulty_events_maximum: Annotated[int, Spec(within=(0, None)), CONSTANT] = 1000
    kernel_names_maximum: Annotated[int, Spec(within=(100, None)), CONSTANT] = 20_000
    frames_maximum: Annotated[int, Spec(within=(0, None)), CONSTANT] = 2000
    name_maximum_characters: Annotated[int, Spec(within=(64, None)), CONSTANT] = 2000
    files_maximum: Annotated[int, Spec(within=(1, None))] = 2000
    devices_maximum: Annotated[int, Spec(within=(1, None)), CONSTANT] = 1024
    steps_maximum: Annotated[int, Spec(within=(1, None)), CONSTANT] = 100_000
    export_maximum_seconds: Annotated[float, Spec(within=(1.0, None))] = 600.0


class ReadLimits(FileLimits, frozen=True):
    """What a file may ask for, and what counts as near and as long on its timeline."""

    time: TimeSettings = TimeSettings()

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
