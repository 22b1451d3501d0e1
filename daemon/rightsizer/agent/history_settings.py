"""What is kept on disk, for how long, and how much of it at most."""

from dataclasses import dataclass

from rightsizer.accounting.history import MAXIMUM_BYTES
from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """What is kept on disk."""

    path: str = setting(
        "/var/lib/rightsizer/history.db",
        help="The database; empty to keep nothing over a restart.",
    )
    retention: float = setting(
        30 * 86400.0,
        help="How long windows are kept.",
        unit="seconds",
        minimum=86400.0,
        maximum=366 * 86400.0,
        source="the longest window that a rule asks for, twice",
        is_live=True,
    )
    fine_retention: float = setting(
        48 * 3600.0,
        help="How long five-minute windows are kept before they are merged into hours.",
        unit="seconds",
        minimum=86400.0,
        maximum=366 * 86400.0,
        source="the 24 h that are answered from five-minute windows, twice",
        is_live=True,
    )
    maximum_size_bytes: int = setting(
        MAXIMUM_BYTES,
        help="What the database may take; beyond it the oldest windows are forgotten before "
        "their time. Its log takes up to 4 MiB more.",
        unit="bytes",
        minimum=2**20,
        source="docs/benchmarks.md: 64 devices for 30 days",
    )
    flush_interval: float = setting(
        60.0,
        help="Time between two writes; a crash loses no more than this.",
        unit="seconds",
        minimum=1.0,
        maximum=3600.0,
        is_live=True,
    )
