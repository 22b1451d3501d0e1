"""How the ledger keeps advice, and how it finds out what came of it."""

from dataclasses import dataclass, field

from rightsizer.advice.track_record import TrackSettings
from rightsizer.advice.verification import VerificationSettings
from rightsizer.domain.settings import setting

__all__ = ["LedgerSettings"]


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """How long the ledger remembers."""

    gone_after_seconds: float = setting(
        3600.0,
        help="How long a workload may be away before its advice expires.",
        unit="seconds",
        minimum=0,
        source="a restart or a reschedule is no end",
    )
    dismissed_seconds: float = setting(
        30 * 86400.0,
        help="How long a dismissal lasts.",
        unit="seconds",
        minimum=0,
        source="docs/definitions.md, conduct",
    )
    snoozed_seconds: float = setting(
        7 * 86400.0,
        help="How long advice stays snoozed.",
        unit="seconds",
        minimum=0,
        source="a week's planning",
    )
    rested_seconds: float = setting(
        7 * 86400.0,
        help="How long claimed advice is not repeated that was verified while it still held.",
        unit="seconds",
        minimum=0,
        source="a week's planning",
    )
    regressed_within_seconds: float = setting(
        30 * 86400.0,
        help="How long after a success the same trouble counts as its return.",
        unit="seconds",
        minimum=0,
        source="as long as the history",
    )
    closed_kept_seconds: float = setting(
        30 * 86400.0,
        help="How long closed advice is remembered.",
        unit="seconds",
        minimum=0,
        source="as long as the history",
    )
    most_records: int = setting(
        2000,
        help="Pieces of advice that are kept at most; the longest closed give way.",
        minimum=10,
        maximum=100_000,
        source="eight GPUs with a dozen pieces of advice a day for a month, at most 10 MB",
    )
    verification: VerificationSettings = field(default_factory=VerificationSettings)
    track_record: TrackSettings = field(default_factory=TrackSettings)
