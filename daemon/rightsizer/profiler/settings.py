"""Settings of profiles: reading, rules, capture, and how long a profile counts."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any

from rightsizer.model.settings import setting
from rightsizer.profiler.capture.settings import CaptureKind, CaptureSettings, DropFolderSettings
from rightsizer.profiler.thresholds import THRESHOLDS, ProfileComparisonSettings
from rightsizer.telemetry.profiles.limits import FileLimits, ReadLimits, TimeSettings

if TYPE_CHECKING:
    from rightsizer.profiler.rules.rule import ProfileRule


ProfileRuleTree: Any = make_dataclass(
    "ProfileRuleTree",
    [(name, settings, field(default_factory=settings)) for name, settings in THRESHOLDS],
    frozen=True,
    slots=True,
    namespace={"__doc__": "The rules over profiles by name.", "__module__": __name__},
)
"""Each rule's own settings under its name, so that a rule is registered in one place."""


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """How what profilers wrote is read and judged, and how long that counts."""

    limits: FileLimits = field(default_factory=FileLimits)
    time: TimeSettings = field(default_factory=TimeSettings)
    rules: ProfileRuleTree = field(default_factory=ProfileRuleTree)
    comparison: ProfileComparisonSettings = field(default_factory=ProfileComparisonSettings)
    valid_for: float = setting(
        14 * 86400.0,
        help="How long what a profile shows is held against a workload that stays the same.",
        unit="seconds",
        minimum=3600.0,
        maximum=366 * 86400.0,
        source="two weeks of releases; older code is other code",
    )
    kept_maximum: int = setting(
        64,
        help="Profiles of which the verdict is kept; the oldest give way.",
        minimum=1,
        maximum=10_000,
        source="8 KiB each: half a MiB of memory and of the history",
    )
    drop_folder: DropFolderSettings = field(
        default_factory=DropFolderSettings, metadata={"is_live": False}
    )
    capture: CaptureSettings = field(default_factory=CaptureSettings, metadata={"is_live": False})

    def __post_init__(self) -> None:
        """Refuse captures that would land nowhere."""
        if self.capture.kind is not CaptureKind.NONE and not self.drop_folder.path:
            raise ValueError(
                f"capture.kind: '{self.capture.kind}' needs a folder where profiles land; set "
                "drop_folder.path"
            )

    @property
    def read_limits(self) -> ReadLimits:
        """What readers of files go by."""
        values = {each.name: getattr(self.limits, each.name) for each in fields(self.limits)}
        return ReadLimits(**values, time=self.time)

    @property
    def judges(self) -> tuple[ProfileRule[Any], ...]:
        """The rules over profiles with an operator's settings; they are loaded by this."""
        from rightsizer.profiler.rules import PROFILE_RULES  # noqa: PLC0415 - said above.

        return tuple(rule.with_settings(getattr(self.rules, rule.name)) for rule in PROFILE_RULES)
