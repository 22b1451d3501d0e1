"""Which findings a profile is taken for, and when: the settings."""

from dataclasses import dataclass

from rightsizer.domain.finding import Reason
from rightsizer.domain.settings import setting

__all__ = ["CaptureTiming"]


@dataclass(frozen=True, slots=True)
class CaptureTiming:
    """Which findings a profile is taken for, and when."""

    reasons: tuple[Reason, ...] = setting(
        (
            *(Reason.HOST_BOUND, Reason.LAUNCH_BOUND, Reason.PCIE_BOUND, Reason.STORAGE_BOUND),
            *(Reason.TENSOR_CORES_UNUSED, Reason.RANK_IMBALANCE, Reason.HIDDEN_STALL),
        ),
        help="Reasons of findings that a profile would settle.",
        source="docs/profiles.md, findings: what the rules over profiles judge, and stalls",
    )
    minimum_confidence_ratio: float = setting(
        0.5,
        help="Confidence of a finding below which no workload is disturbed for it.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="docs/definitions.md, conduct: the least confidence of advice",
    )
    maximum_confidence_ratio: float = setting(
        1.0,
        help="Confidence above which nothing is left to settle; 1 for never, since telemetry that "
        "is sure that a GPU waits does not know for which line.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
    )
    minimum_age_seconds: float = setting(
        600.0,
        help="How long its processes must have been there, and have been at work: past start-up, "
        "compilation and warming up.",
        unit="seconds",
        minimum=0.0,
        maximum=86400.0,
        source="compilation and autotuning of large models take minutes",
    )
    steady_seconds: float = setting(
        300.0,
        help="Time at the end of which a workload must have been steady and at work.",
        unit="seconds",
        minimum=60.0,
        maximum=3600.0,
        source="one block of the accounts",
    )
    unsteadiness_maximum_ratio: float = setting(
        0.25,
        help="By how much the shares of states may differ from one look to the next, as total "
        "variation: a checkpoint, a validation or a restart differs by more.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
    )
    minimum_active_ratio: float = setting(
        0.5,
        help="Part of that time that it must have been at work.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
    )
    cool_down_seconds: float = setting(
        86400.0,
        help="How long a workload is left alone after a profile of it was taken.",
        unit="seconds",
        minimum=600.0,
        maximum=366 * 86400.0,
        source="a profile holds until the code changes, daily at the soonest",
    )
    retry_after_seconds: float = setting(
        3600.0,
        help="How long it is left alone where no profile came of it.",
        unit="seconds",
        minimum=600.0,
        maximum=366 * 86400.0,
    )
    maximum_a_day: int = setting(
        4, help="Captures on this node in any 24 hours.", minimum=1, maximum=1000
    )

    def __post_init__(self) -> None:
        """Refuse bounds that leave no room between them."""
        if self.minimum_confidence_ratio > self.maximum_confidence_ratio:
            raise ValueError("minimum_confidence_ratio is above maximum_confidence_ratio")
