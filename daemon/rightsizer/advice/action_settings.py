"""What an operator lets the agent do on advice: for which reasons, how surely, and how often."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rightsizer.domain.finding import Reason, Risk
from rightsizer.domain.settings import setting

__all__ = ["ActingLimits", "ActionMode", "ActionTerms"]

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?")
_LONGEST_NAME: Final = 40


class ActionMode(StrEnum):
    """Who decides that an action is done."""

    DRY_RUN = "dry_run"
    """Nobody: what would be done is told."""
    APPROVE = "approve"
    """A person, who claims the advice."""
    AUTOMATIC = "automatic"
    """The agent, within the bounds."""


@dataclass(frozen=True, slots=True)
class ActionTerms:
    """When an action is done, whatever it is.

    Raises:
        ValueError: it has no name that a metric can bear, or is for no reason.
    """

    name: str = setting(
        "", help="What the log, the metrics and the audit log call it; small letters, digits, - _."
    )
    reasons: tuple[Reason, ...] = setting(
        (), help="Reasons of advice that it is done for; at least one, for nothing is done unasked."
    )
    mode: ActionMode = setting(
        ActionMode.DRY_RUN,
        help="`dry_run` tells what would be done, `approve` waits for `rightsizer claim`, "
        "`automatic` waits for nobody.",
    )
    minimum_confidence_ratio: float = setting(
        0.9,
        help="Confidence of advice below which nothing is done.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="docs/benchmarks.md, advice on simulated nodes: what is as sure is seldom wrong",
    )
    maximum_risk: Risk = setting(
        Risk.LOW, help="The highest risk of advice that is acted on; Unknown is above High."
    )
    cool_down_seconds: float = setting(
        86400.0,
        help="How long a workload is left alone after any action on it.",
        unit="seconds",
        minimum=60.0,
        maximum=366 * 86400.0,
        source="a day shows what came of it at every hour",
    )
    at_most_per_day: int = setting(
        1, help="How often it is done within any 24 hours.", minimum=1, maximum=1000
    )
    at_most_per_workload_per_day: int = setting(
        1,
        help="How often any action is done on one workload within any 24 hours.",
        minimum=1,
        maximum=100,
    )
    at_most_share_of_gpus: float = setting(
        0.25,
        help="Part of the machine's GPUs that actions may be about within any 24 hours, all "
        "together; one GPU always may.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
    )

    def __post_init__(self) -> None:
        """Refuse what could not be told apart, and what would be done unasked."""
        if len(self.name) > _LONGEST_NAME or not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name: '{self.name}' is no name of small letters, digits, - and _, of "
                f"{_LONGEST_NAME} at most; write it like 'scale-to-zero'"
            )
        if not self.reasons:
            raise ValueError("reasons: is empty; name each reason that it is done for")


@dataclass(frozen=True, slots=True)
class ActingLimits:
    """What all actions of a machine keep to together, and when one is suspended."""

    pause_seconds: float = setting(
        300.0,
        help="Time between two actions, whichever they are.",
        unit="seconds",
        minimum=0.0,
        maximum=86400.0,
    )
    at_most_per_day: int = setting(
        4, help="Actions of all kinds within any 24 hours.", minimum=1, maximum=1000
    )
    suspended_above_ratio: float = setting(
        0.34,
        help="Part of an action's results that may be failures before it is suspended.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="more than one of three",
    )
    minimum_results: int = setting(
        2, help="Results of an action below which it is not suspended.", minimum=1, maximum=100
    )
    results_within_seconds: float = setting(
        30 * 86400.0,
        help="How long a result counts; a suspension ends once its failures are older.",
        unit="seconds",
        minimum=86400.0,
        maximum=366 * 86400.0,
        source="as long as the history",
    )
