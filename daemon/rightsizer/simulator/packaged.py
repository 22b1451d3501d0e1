"""Packaged scenarios by name."""

from pathlib import Path
from typing import Final

SCENARIO_FOLDER: Final = Path(__file__).with_name("scenarios")
ACTIVITIES_FILE: Final = "activities.yaml"
"""Activities of workloads; in the scenario folder, but no scenario."""


def packaged_scenarios() -> tuple[str, ...]:
    """Return the names of the packaged scenarios."""
    files = SCENARIO_FOLDER.glob("*.yaml")
    return tuple(sorted(file.stem for file in files if file.name != ACTIVITIES_FILE))
