"""What an operator may set of profiles: how files are read and judged, and how long that counts."""

from dataclasses import dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any

from rightsizer.advice.comparison_settings import ComparisonSettings
from rightsizer.advice.profile_thresholds import THRESHOLDS
from rightsizer.domain.settings import setting
from rightsizer.profiles.read_limits import FileLimits, ReadLimits
from rightsizer.profiles.time_settings import TimeSettings
from rightsizer.runtime.capture.settings import CaptureKind, CaptureSettings, DropFolderSettings

if TYPE_CHECKING:
    from rightsizer.advice.profile_rules.rule import ProfileRule

__all__ = ["ProfileRuleTree", "ProfileSettings"]

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
    comparison: ComparisonSettings = field(default_factory=ComparisonSettings)
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
    def judges(self) -> tuple["ProfileRule[Any]", ...]:
        """The rules over profiles with an operator's settings; they are loaded by this."""
        from rightsizer.advice.profile_rules import PROFILE_RULES  # noqa: PLC0415 - said above.

        return tuple(rule.with_settings(getattr(self.rules, rule.name)) for rule in PROFILE_RULES)
