"""What an operator does not want to hear of, why, and until when."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from rightsizer.domain.finding import Finding, Reason
from rightsizer.domain.settings import setting
from rightsizer.domain.units import Nanoseconds, nanoseconds

__all__ = ["Exclusion"]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Findings that are kept as findings and never become advice."""

    reasons: tuple[Reason, ...] = setting((), help="Reasons to be silent about; empty for all.")
    until: str = setting(
        "", help="The last day that it holds, as '2027-01-31' in UTC; empty for ever."
    )
    why: str = setting("", help="Why, in a few words; it is shown beside what it holds back.")
    actor: str = setting("", help="Who decided it.")

    def __post_init__(self) -> None:
        """Refuse a date that is none, and an exclusion that nobody explains."""
        if self.until:
            try:
                date.fromisoformat(self.until)
            except ValueError:
                raise ValueError(
                    f"until: '{self.until}' is not a date; write it like '2027-01-31'"
                ) from None
        if not self.why:
            raise ValueError("why: say in a few words why this is ignored")

    @property
    def expires(self) -> Nanoseconds | None:
        """The end of its last day, `None` for one without."""
        if not self.until:
            return None
        last = datetime.combine(date.fromisoformat(self.until), time(), UTC) + timedelta(days=1)
        return nanoseconds(last.timestamp())

    def holds(self, finding: Finding, now: Nanoseconds) -> bool:
        """Whether it keeps a finding from becoming advice."""
        if self.expires is not None and now >= self.expires:
            return False
        return not self.reasons or any(reason in self.reasons for reason in finding.reasons)

    def __str__(self) -> str:
        until = f" until {self.until}" if self.until else ""
        actor = f" ({self.actor})" if self.actor else ""
        return f"ignored{until}: {self.why}{actor}"
