"""Which scenarios come with the program; apart from the model, which few ever load."""

from importlib import resources
from typing import Final

__all__ = ["ACTIVITIES", "FOLDER", "packaged_scenarios"]

FOLDER: Final = resources.files("rightsizer.telemetry.simulated") / "scenarios"
ACTIVITIES: Final = "activities.yaml"
"""What workloads do; beside the scenarios, and none itself."""


def packaged_scenarios() -> tuple[str, ...]:
    """The names of the scenarios that come with the program."""
    names = (entry.name for entry in FOLDER.iterdir())
    return tuple(
        sorted(
            name.removesuffix(".yaml")
            for name in names
            if name.endswith(".yaml") and name != ACTIVITIES
        )
    )
