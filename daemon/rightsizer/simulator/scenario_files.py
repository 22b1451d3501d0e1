"""Packaged scenario files: folder and names, without loading the model."""

from importlib import resources
from typing import Final

SCENARIO_FOLDER: Final = resources.files("rightsizer.simulator") / "scenarios"
ACTIVITIES_FILE: Final = "activities.yaml"
"""What workloads do; beside the scenarios, and none itself."""


def packaged_scenarios() -> tuple[str, ...]:
    """The names of the scenarios that come with the program."""
    names = (entry.name for entry in SCENARIO_FOLDER.iterdir())
    return tuple(
        sorted(
            name.removesuffix(".yaml")
            for name in names
            if name.endswith(".yaml") and name != ACTIVITIES_FILE
        )
    )
