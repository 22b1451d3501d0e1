"""Settings of the ledger, of verification and of the track record."""

from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class TrackRecordSettings:
    """When advice of a kind that is wrong too often must be surer before it is given.

    Attributes:
        raises_floors: Whether a reason that was wrong too often needs more confidence from then on.
        least_precision_ratio: Part of the answered advice that must have been right.
            Source: docs/definitions.md, conduct
        least_answers: Answers without which nothing is concluded.
        highest_floor_ratio: Confidence that is asked for at most, so that a reason may win back
            trust.
    """

    raises_floors: bool = setting(True)
    least_precision_ratio: float = setting(0.7)
    least_answers: int = setting(20, within=(1, 100_000))
    highest_floor_ratio: float = setting(0.95)


@dataclass(frozen=True, slots=True)
class VerificationSettings:
    """When advice that was followed counts as a success.

    Attributes:
        span_seconds: Time that is compared before and after, at most.
            Source: a week holds every day of it
        long_spans: The same for rules that look at short spans, in spans of the rule.
            Source: a day for what is seen within two hours
        least_savings_ratio: Part of the lower estimate that must have been saved.
            Source: docs/definitions.md, conduct
        tolerated_harm_ratio: How much worse a signal of harm may be, of what it was.
            Source: docs/definitions.md, conduct
        noticeable_harm_ratio: Share of time below which a rise of a signal of harm is no harm.
            Source: a minute in a hundred
        most_peers: Workloads of the same class that one is compared with at most.
            Source: the mean of thirty is known to a fifth of their spread
    """

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
    """How long the ledger remembers.

    Attributes:
        gone_after_seconds: How long a workload may be away before its advice expires.
            Source: a restart or a reschedule is no end
        dismissed_seconds: How long a dismissal lasts.
            Source: docs/definitions.md, conduct
        snoozed_seconds: How long advice stays snoozed.
            Source: a week's planning
        rested_seconds: How long claimed advice is not repeated that was verified while it still
            held.
            Source: a week's planning
        regressed_within_seconds: How long after a success the same trouble counts as its return.
            Source: as long as the history
        closed_kept_seconds: How long closed advice is remembered.
            Source: as long as the history
        most_records: Pieces of advice that are kept at most; the longest closed give way, then the
            least severe.
            Source: eight GPUs with a dozen pieces of advice a day for a month, at most 10 MB
    """

    gone_after_seconds: float = setting(3600.0)
    dismissed_seconds: float = setting(30 * 86400.0)
    snoozed_seconds: float = setting(7 * 86400.0)
    rested_seconds: float = setting(7 * 86400.0)
    regressed_within_seconds: float = setting(30 * 86400.0)
    closed_kept_seconds: float = setting(30 * 86400.0)
    most_records: int = setting(2000, within=(10, 100_000))
    verification: VerificationSettings = field(default_factory=VerificationSettings)
    track_record: TrackRecordSettings = field(default_factory=TrackRecordSettings)
