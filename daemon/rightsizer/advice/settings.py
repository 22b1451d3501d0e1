"""Settings of the ledger, of verification and of the track record."""

from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class TrackRecordSettings:
    """When advice of a kind that is wrong too often must be surer before it is given."""

    raises_floors: bool = setting(True)
    least_precision_ratio: float = setting(0.7)
    least_answers: int = setting(20, within=(1, 100_000))
    highest_floor_ratio: float = setting(0.95)


@dataclass(frozen=True, slots=True)
class VerificationSettings:
    """When advice that was followed counts as a success."""

    span_seconds: float = setting(7 * 86400.0, within=(600, None))
    long_spans: float = setting(12.0, within=(1, 1000))
    least_savings_ratio: float = setting(0.5)
    tolerated_harm_ratio: float = setting(0.1, within=(0, None))
    noticeable_harm_ratio: float = setting(0.01)

    most_peers: int = setting(30, within=(1, 10_000))

    def span_for(self, long_seconds: float) -> float:
        """The time to compare for a rule that looks at a span, in seconds."""
        return min(self.span_seconds, self.long_spans * long_seconds)


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """How long the ledger remembers."""

    gone_after_seconds: float = setting(3600.0)
    dismissed_seconds: float = setting(30 * 86400.0)
    snoozed_seconds: float = setting(7 * 86400.0)
    rested_seconds: float = setting(7 * 86400.0)
    regressed_within_seconds: float = setting(30 * 86400.0)
    closed_kept_seconds: float = setting(30 * 86400.0)
    most_records: int = setting(2000, within=(10, 100_000))
    verification: VerificationSettings = field(default_factory=VerificationSettings)
    track_record: TrackRecordSettings = field(default_factory=TrackRecordSettings)
