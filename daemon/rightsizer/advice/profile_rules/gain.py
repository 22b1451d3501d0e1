"""What removing a cause would give, as an interval: never more than the time that it exposes."""

from collections.abc import Callable
from dataclasses import dataclass

from rightsizer.advice.profile_rules.member import Member
from rightsizer.domain.finding import Action, Option, Risk
from rightsizer.domain.profile import TimeUse

__all__ = ["Gain", "StepGain"]


@dataclass(frozen=True, slots=True)
class StepGain:
    """Seconds of a step on average that would no longer be spent."""

    step_seconds: float
    """How long a step is."""
    low_seconds: float
    high_seconds: float


@dataclass(frozen=True, slots=True)
class Gain:
    """A share of the time of the same work that would no longer be spent."""

    low_ratio: float
    high_ratio: float
    step: StepGain | None
    """`None` where the profile marks no step."""

    @classmethod
    def of(
        cls,
        member: Member,
        exposed: Callable[[TimeUse], float],
        removed_low_ratio: float,
        removed_high_ratio: float = 1.0,
    ) -> "Gain":
        """Of one device.

        Args:
            member: The device.
            exposed: Seconds that the cause exposes, of the device's span or of a step: Amdahl's
                bound. A step may hold what is before the first kernel, so that each is told by
                its own time.
            removed_low_ratio: How much of it goes at least, where the remedy works.
            removed_high_ratio: And at most.
        """
        ratio = min(1.0, member.share(exposed(member.time)))
        step, length = None, member.step_seconds
        of_a_step = member.of_a_step(exposed)
        if length is not None and of_a_step is not None:
            most = min(length, of_a_step)
            step = StepGain(length, most * removed_low_ratio, most * removed_high_ratio)
        return cls(ratio * removed_low_ratio, ratio * removed_high_ratio, step)

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
        if self.step is not None:
            found |= {
                "step_seconds": round(self.step.step_seconds, 9),
                "saved_seconds_per_step_low": round(self.step.low_seconds, 9),
                "saved_seconds_per_step_high": round(self.step.high_seconds, 9),
            }
        return found
