"""Scenarios as files: those that come with the program, and those that people write."""

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.domain.errors import ScenarioError
from rightsizer.edge.yaml import Document, YamlError, load_yaml
from rightsizer.telemetry.simulated.activity import Activity
from rightsizer.telemetry.simulated.faults import read_faults
from rightsizer.telemetry.simulated.fields import Fields
from rightsizer.telemetry.simulated.packaged import ACTIVITIES, FOLDER, packaged_scenarios
from rightsizer.telemetry.simulated.plan import Scenario
from rightsizer.telemetry.simulated.slots import read_slots
from rightsizer.telemetry.simulated.tasks import read_task

__all__ = ["Scenario", "load_scenario", "packaged_scenarios"]

_RATIOS: Final = tuple(field.name for field in dataclass_fields(Activity))


def load_scenario(name_or_path: str, catalogue: Catalogue) -> Scenario:
    """A packaged scenario by name, or one in a file of your own.

    Raises:
        ScenarioError: there is none, or it contradicts itself or the catalogue; the message
            starts with `file:line:column`.
    """
    document = _document(name_or_path)
    activities = _activities(Fields.root(_packaged(ACTIVITIES)), {})
    top = Fields.root(document)
    top.only(
        (
            *("name", "seed", "cores", "driver_version", "activities", "boards", "workloads"),
            "faults",
        )
    )
    if top.has("activities"):
        activities = _activities(top.child("activities"), activities)
    slots, faults = read_faults(top, read_slots(top, catalogue))
    return Scenario(
        name=top.text("name"),
        seed=top.integer("seed", 1, 0, 2**31),
        slots=slots,
        tasks=tuple(read_task(entry, slots, activities) for entry in top.children("workloads")),
        cores=top.number("cores", 112.0, 1.0, 4096.0),
        driver_version=top.text("driver_version", "580.95.05"),
        faults=faults,
    )


def _document(name_or_path: str) -> Document:
    if name_or_path in packaged_scenarios():
        return _packaged(f"{name_or_path}.yaml")
    path = Path(name_or_path)
    if path.suffix not in {".yaml", ".yml"} and not path.exists():
        raise ScenarioError(
            f"scenario '{name_or_path}' is neither packaged nor a file; "
            f"packaged: {', '.join(packaged_scenarios())}"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(
            f"scenario {path} cannot be read: {error.strerror}; "
            f"packaged: {', '.join(packaged_scenarios())}"
        ) from None
    except UnicodeDecodeError:
        raise ScenarioError(f"scenario {path} is not text; save it as UTF-8") from None
    return _parsed(text, path.name)


def _packaged(file: str) -> Document:
    return _parsed((FOLDER / file).read_text(encoding="utf-8"), file)


def _parsed(text: str, name: str) -> Document:
    try:
        return load_yaml(text, name)
    except YamlError as error:
        raise ScenarioError(f"{error}; a scenario is a YAML mapping") from None


def _activities(top: Fields, known: Mapping[str, Activity]) -> dict[str, Activity]:
    activities = dict(known)
    for name in top.data:
        entry = top.child(name)
        entry.only(_RATIOS)
        activities[name] = Activity(
            **{ratio: entry.number(ratio, 0.0, 0.0, 1.0) for ratio in entry.data}
        )
    return activities
