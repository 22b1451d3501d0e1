"""Scenarios that come with the program, by name."""

from pathlib import Path
from typing import Final

SCENARIO_FOLDER: Final = Path(__file__).with_name("scenarios")
ACTIVITIES_FILE: Final = "activities.yaml"
"""What workloads do; beside the scenarios, and none itself."""


def packaged_scenarios() -> tuple[str, ...]:
    """The names of the scenarios that come with the program."""
    files = SCENARIO_FOLDER.glob("*.yaml")
    return tuple(sorted(file.stem for file in files if file.name != ACTIVITIES_FILE))
