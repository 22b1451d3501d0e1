"""What a rule over profiles is: its settings, and one judgement of one workload's profiles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from rightsizer.domain.finding import Finding
from rightsizer.domain.profile import Profile

__all__ = ["ProfileRule"]

Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True)
class ProfileRule(Generic[Settings]):
    """A rule by its parts."""

    name: str
    settings: Settings
    judge_with: Callable[[Sequence[Profile], Settings], Finding]

    def judge(self, profiles: Sequence[Profile]) -> Finding:
        """The verdict on the profiles of one workload: one file, or one for each rank."""
        return self.judge_with(profiles, self.settings)

    def with_settings(self, settings: Settings) -> "ProfileRule[Settings]":
        """The same rule with an operator's settings."""
        return replace(self, settings=settings)
