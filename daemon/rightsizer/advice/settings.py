"""Settings of the ledger, of verification and of the track record."""

from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class TrackRecordSettings:
    """When advice of a kind that is wrong too often must be surer before it is given."""

    raises_floors: bool = setting(
        True, help="Whether a reason that was wrong too often needs more confidence from then on."
    )
    least_precision_ratio: float = setting(
        0.7,
        help="Part of the answered advice that must have been right.",
        source="docs/definitions.md, conduct",
    )
    least_answers: int = setting(
        20, help="Answers without which nothing is concluded.", within=(1, 100_000)
    )
    highest_floor_ratio: float = setting(
        0.95, help="Confidence that is asked for at most, so that a reason may win back trust."
    )


@dataclass(frozen=True, slots=True)
class VerificationSettings:
    """When advice that was followed counts as a success."""

    span_seconds: float = setting(
        7 * 86400.0,
        help="Time that is compared before and after, at most.",
        within=(600, None),
        source="a week holds every day of it",
    )
    long_spans: float = setting(
        12.0,
        help="The same for rules that look at short spans, in spans of the rule.",
        within=(1, 1000),
        source="a day for what is seen within two hours",
    )
    least_savings_ratio: float = setting(
        0.5,
        help="Part of the lower estimate that must have been saved.",
        source="docs/definitions.md, conduct",
    )
    tolerated_harm_ratio: float = setting(
        0.1,
        help="How much worse a signal of harm may be, of what it was.",
        within=(0, None),
        source="docs/definitions.md, conduct",
    )
    noticeable_harm_ratio: float = setting(
        0.01,
        help="Share of time below which a rise of a signal of harm is no harm.",
        source="a minute in a hundred",
    )

    most_peers: int = setting(
        30,
        help="Workloads of the same class that one is compared with at most.",
        within=(1, 10_000),
        source="the mean of thirty is known to a fifth of their spread",
    )

    def span_for(self, long_seconds: float) -> float:
        """The time to compare for a rule that looks at a span, in seconds."""
        return min(self.span_seconds, self.long_spans * long_seconds)


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """How long the ledger remembers."""

    gone_after_seconds: float = setting(
        3600.0,
        help="How long a workload may be away before its advice expires.",
        source="a restart or a reschedule is no end",
    )
    dismissed_seconds: float = setting(
        30 * 86400.0, help="How long a dismissal lasts.", source="docs/definitions.md, conduct"
    )
    snoozed_seconds: float = setting(
        7 * 86400.0, help="How long advice stays snoozed.", source="a week's planning"
    )
    rested_seconds: float = setting(
        7 * 86400.0,
        help="How long claimed advice is not repeated that was verified while it still held.",
        source="a week's planning",
    )
    regressed_within_seconds: float = setting(
        30 * 86400.0,
        help="How long after a success the same trouble counts as its return.",
        source="as long as the history",
    )
    closed_kept_seconds: float = setting(
        30 * 86400.0, help="How long closed advice is remembered.", source="as long as the history"
    )
    most_records: int = setting(
        2000,
        help="Pieces of advice that are kept at most; the longest closed give way, then the least "
        "severe.",
        within=(10, 100_000),
        source="eight GPUs with a dozen pieces of advice a day for a month, at most 10 MB",
    )
    verification: VerificationSettings = field(default_factory=VerificationSettings)
    track_record: TrackRecordSettings = field(default_factory=TrackRecordSettings)
