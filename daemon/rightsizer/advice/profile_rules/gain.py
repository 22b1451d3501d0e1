"""What removing a cause would give, as an interval: never more than the time that it exposes."""

from dataclasses import dataclass

from rightsizer.advice.profile_rules.member import Member
from rightsizer.domain.finding import Action, Option, Risk

__all__ = ["Gain"]


@dataclass(frozen=True, slots=True)
class Gain:
    """A share of the time of the same work that would no longer be spent."""

    low_ratio: float
    high_ratio: float
    step_seconds: float | None
    """`None` where the profile marks no step."""

    @classmethod
    def of(cls, member: Member, exposed_ratio: float, removed_low_ratio: float) -> "Gain":
        """Of one device.

        Args:
            member: The device.
            exposed_ratio: What the cause exposes, of the device's span (Amdahl's bound).
            removed_low_ratio: How much of it goes at least, where the remedy works.
        """
        high = min(1.0, exposed_ratio)
        return cls(high * removed_low_ratio, high, member.step_seconds)

    def option(self, description: str, action: Action, risk: Risk) -> Option:
        """As a way to act."""
        return Option(
            description=description,
            risk=risk,
            action=action,
            time_ratio_low=round(1.0 - self.high_ratio, 4),
            time_ratio_high=round(1.0 - self.low_ratio, 4),
        )

    @property
    def evidence(self) -> dict[str, object]:
        """Its figures."""
        found: dict[str, object] = {
            "saved_ratio_low": round(self.low_ratio, 4),
            "saved_ratio_high": round(self.high_ratio, 4),
        }
        if self.step_seconds is not None:
            found |= {
                "step_seconds": round(self.step_seconds, 9),
                "saved_seconds_per_step_low": round(self.step_seconds * self.low_ratio, 9),
                "saved_seconds_per_step_high": round(self.step_seconds * self.high_ratio, 9),
            }
        return found
