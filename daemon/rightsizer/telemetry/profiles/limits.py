"""Limits of what a file may cost to read, and settings of the arithmetic of time lines."""

from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """Thresholds of where a device's time went."""

    timeline_moments: int = setting(200, unit="", within=(10, 2000))
    adjacent_maximum_nanoseconds: int = setting(30, within=(0, None))
    long_collective_minimum_ratio: float = setting(0.01)


@dataclass(frozen=True, slots=True)
class FileLimits:
    """What a file may ask of this program."""

    unpacked_maximum_bytes: int = setting(16 * 2**30, within=(2**20, None))
    expansion_maximum_ratio: float = setting(1000.0, unit="", within=(1.0, None))
    event_maximum_bytes: int = setting(4 * 2**20, within=(2**10, None))
    events_maximum: int = setting(50_000_000, within=(1000, None))
    faulty_events_maximum: int = setting(1000, within=(0, None))
    kernel_names_maximum: int = setting(20_000, within=(100, None))
    name_maximum_characters: int = setting(2000, within=(64, None))
    files_maximum: int = setting(2000, within=(1, None))
    devices_maximum: int = setting(1024, within=(1, None))
    steps_maximum: int = setting(100_000, within=(1, None))
    export_maximum_seconds: float = setting(600.0, within=(1.0, None))


@dataclass(frozen=True, slots=True)
class ReadLimits(FileLimits):
    """What a file may ask for, and what counts as near and as long on its time line."""

    time: TimeSettings = field(default_factory=TimeSettings)
