"""Settings of the ledger, of verification and of the track record."""

from typing import Annotated

from msgspec import Struct

from rightsizer.model.values import CONSTANT, Spec


class TrackRecordSettings(Struct, frozen=True):
    """Confidence required of reasons that were often wrong.

    Attributes:
        raises_floors: Whether a reason that was wrong too often needs more confidence.
        least_precision_ratio: Minimum share of a reason's outcomes that must be right.
            Source: docs/definitions.md, conduct
        least_answers: Minimum outcomes before a reason is judged.
        highest_floor_ratio: Maximum confidence required, so that a reason can recover.
    """

    raises_floors: bool = True
    least_precision_ratio: float = 0.7
    least_answers: Annotated[int, Spec(within=(1, 100_000)), CONSTANT] = 20
    highest_floor_ratio: Annotated[float, CONSTANT] = 0.95


class VerificationSettings(Struct, frozen=True):
    """Conditions under which a followed recommendation counts as a success.

    Attributes:
        span_seconds: Maximum time compared before and after the change.
            Source: a week holds every day of it
        long_spans: The same for rules with short spans, as a multiple of their long span.
            Source: a day for what is seen within two hours
        least_savings_ratio: Share of the estimate's lower bound that must have been saved.
            Source: docs/definitions.md, conduct
        tolerated_harm_ratio: Relative increase of a harm signal that is tolerated.
            Source: docs/definitions.md, conduct
        noticeable_harm_ratio: Share of time below which an increase of harm is ignored.
            Source: a minute in a hundred
        most_peers: Maximum workloads of the same class to compare with.
            Source: the mean of thirty is known to a fifth of their spread
    """

    span_seconds: Annotated[float, Spec(within=(600, None))] = 7 * 86400.0
    long_spans: Annotated[float, Spec(within=(1, 1000)), CONSTANT] = 12.0
    least_savings_ratio: Annotated[float, CONSTANT] = 0.5
    tolerated_harm_ratio: Annotated[float, Spec(within=(0, None)), CONSTANT] = 0.1
    noticeable_harm_ratio: Annotated[float, CONSTANT] = 0.01

    most_peers: Annotated[int, Spec(within=(1, 10_000)), CONSTANT] = 30

    def span_for(self, long_seconds: float) -> float:
        """Time to compare in seconds, for a rule with the given long span."""
        return min(self.span_seconds, self.long_spans * long_seconds)


class LedgerSettings(Struct, frozen=True):
    """Retention and lifecycle of recommendations.

    Attributes:
        gone_after_seconds: How long a workload may be absent before its recommendations expire.
            Source: longer than a restart or a reschedule
        dismissed_seconds: How long a dismissal lasts.
            Source: docs/definitions.md, conduct
        snoozed_seconds: How long a snooze lasts.
            Source: a week's planning
        rested_seconds: How long a claimed recommendation that still applied when verified is not
            repeated.
            Source: a week's planning
        regressed_within_seconds: Time after a success within which a recurrence is a regression.
            Source: as long as the history
        closed_kept_seconds: How long closed recommendations are kept.
            Source: as long as the history
        most_records: Maximum recommendations kept; the longest closed are dropped first, then the
            least severe.
            Source: eight GPUs with a dozen recommendations a day for a month, at most 10 MB
    """

    gone_after_seconds: Annotated[float, CONSTANT] = 3600.0
    dismissed_seconds: float = 30 * 86400.0
    snoozed_seconds: float = 7 * 86400.0
    rested_seconds: float = 7 * 86400.0
    regressed_within_seconds: Annotated[float, CONSTANT] = 30 * 86400.0
    closed_kept_seconds: Annotated[float, CONSTANT] = 30 * 86400.0
    most_records: Annotated[int, Spec(within=(10, 100_000)), CONSTANT] = 2000
    verification: VerificationSettings = VerificationSettings()
    track_record: TrackRecordSettings = TrackRecordSettings()
