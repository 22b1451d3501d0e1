"""Reader of scenarios, packaged or from a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.io.yaml import Document, YamlError, load_yaml
from rightsizer.model.errors import ScenarioError
from rightsizer.model.reading import ProcessKind
from rightsizer.model.state import Condition, State
from rightsizer.model.units import DAY_SECONDS, GIB
from rightsizer.model.workload import Allocator, Workload, WorkloadClass, WorkloadKind
from rightsizer.simulator.activity import KernelActivity
from rightsizer.simulator.board_reader import read_faults, read_slots, slot_of
from rightsizer.simulator.packaged import ACTIVITIES_FILE, SCENARIO_FOLDER, packaged_scenarios
from rightsizer.simulator.physics import instance_memory_bytes, nvlink_is_up, reserved_memory_bytes
from rightsizer.simulator.scenario import (
    BoardSlot,
    BurstyLoad,
    ConstantLoad,
    DeviceLocation,
    DiurnalLoad,
    HostLoad,
    LoadShape,
    MemoryPlan,
    SimulatedScenario,
    SimulatedTask,
    TaskPhase,
)
from rightsizer.simulator.scenario_row import ScenarioRow

_HOST: Final = tuple(field for field in HostLoad.__struct_fields__)
_RATIOS: Final = tuple(field for field in KernelActivity.__struct_fields__)


def read_task(
    entry: ScenarioRow, slots: tuple[BoardSlot, ...], activities: Mapping[str, KernelActivity]
) -> SimulatedTask:
    """Read one entry of `workloads`; fail if it contradicts itself or the slots."""
    entry.refuse_unknown(
        (
            "name",
            "kind",
            "class",
            "allocator",
            "namespace",
            "pod",
            "gpus",
            "instances",
            "start",
            "stop",
            "memory_gib",
            "memory_ratio",
            "processes",
            "cores",
            "load",
            "phases",
            "process_kind",
        )
    )
    name = entry.needed_text("name")
    kind = entry.word("kind", WorkloadKind, WorkloadKind.SIMULATED)
    namespace = entry.text("namespace") or ""
    spots = _spots(entry, slots)
    return SimulatedTask(
        workload=Workload(
            key="/".join(part for part in (kind.value, namespace, name) if part),
            kind=kind,
            name=name,
            workload_class=entry.word("class", WorkloadClass, WorkloadClass.UNKNOWN),
            allocator=entry.word("allocator", Allocator, Allocator.UNKNOWN),
            namespace=namespace,
            pod=entry.text("pod") or "",
            unproven="",  # Whoever writes the scenario is the operator.
        ),
        spots=spots,
        start_seconds=entry.time_of_day("start", "00:00"),
        stop_seconds=entry.time_of_day("stop", "24:00"),
        memory=tuple(_memory(entry, slots[spot.gpu], spot) for spot in spots),
        processes=entry.count_or("processes", 1, 1, 64),
        cores=entry.number_or("cores", 8.0, 0.1, 1024.0),
        shape=_shape(entry.row("load")),
        phases=_phases(entry, activities, alone=_alone(slots, spots)),
        process_kind=entry.word("process_kind", ProcessKind, ProcessKind.COMPUTE),
    )


def _alone(slots: tuple[BoardSlot, ...], spots: tuple[DeviceLocation, ...]) -> bool:
    """Whether a task has no peer over NVLink; MIG instances have none."""
    return len(spots) == 1 or any(
        spot.instance is not None or not nvlink_is_up(slots[spot.gpu].board) for spot in spots
    )


def _spots(entry: ScenarioRow, slots: tuple[BoardSlot, ...]) -> tuple[DeviceLocation, ...]:
    spots: list[DeviceLocation] = []
    for gpu in entry.items("gpus"):
        slot = slot_of(entry, "gpus", gpu, slots)
        if not slot.is_ever_whole:
            entry.fail(f"GPU {gpu} is cut into MIG instances; hold them by 'instances'", "gpus")
        spots.append(DeviceLocation(slot.index))
    for text in entry.items("instances"):
        gpu, _, instance = str(text).partition("/")
        slot = slot_of(entry, "instances", int(gpu) if gpu.isdigit() else text, slots)
        if not instance.isdigit() or int(instance) >= len(slot.all_profiles):
            entry.fail(
                f"'{text}' is not an instance; GPU {slot.index} has {len(slot.all_profiles)}, "
                f"write the first as '{slot.index}/0'",
                "instances",
            )
        spots.append(DeviceLocation(slot.index, int(instance)))
    if not spots:
        entry.fail("holds nothing; add 'gpus: [0]' or 'instances: [\"0/0\"]'")
    return tuple(spots)


def _memory(entry: ScenarioRow, slot: BoardSlot, spot: DeviceLocation) -> MemoryPlan:
    profile = slot.profile(spot.instance)
    total = instance_memory_bytes(slot.board, profile)
    most = total - reserved_memory_bytes(slot.board, profile)
    if ("memory_gib" in entry) == ("memory_ratio" in entry):
        entry.fail("needs either 'memory_gib' or 'memory_ratio', of each device it holds")
    key, unit = ("memory_gib", GIB) if "memory_gib" in entry else ("memory_ratio", total)
    first, last = entry.pair(key, 0.0, most / unit)
    return MemoryPlan(first * unit, last * unit)


def _shape(entry: ScenarioRow) -> LoadShape:
    entry.refuse_unknown(("shape", "level", "share", "interval_seconds", "peak", "night_ratio"))
    kind = entry.choice("shape", ("constant", "bursty", "diurnal"), "constant")
    level = entry.number_or("level", 1.0, 0.0, 1.0)
    if kind == "constant":
        return ConstantLoad(level)
    share = entry.number_or("share", 0.6, 0.0, 1.0)
    interval_seconds = entry.number_or("interval_seconds", 20.0, 1.0, DAY_SECONDS)
    if kind == "bursty":
        return BurstyLoad(level, share, interval_seconds)
    peak = entry.time_of_day("peak", "15:00")
    night = entry.number_or("night_ratio", 0.0, 0, 1)
    return DiurnalLoad(level, share, interval_seconds, peak, night)


def _phases(
    entry: ScenarioRow, activities: Mapping[str, KernelActivity], *, alone: bool
) -> tuple[TaskPhase, ...]:
    phases = tuple(_phase(child, activities, alone=alone) for child in entry.rows("phases"))
    if all(phase.between is not None for phase in phases):
        entry.fail("needs a phase without 'between' to fill the rest of its time", "phases")
    return phases


def _phase(
    entry: ScenarioRow, activities: Mapping[str, KernelActivity], *, alone: bool
) -> TaskPhase:
    entry.refuse_unknown(
        (
            "activity",
            "state",
            "seconds",
            "jitter_ratio",
            "host",
            "conditions",
            "between",
            "follows_load",
        )
    )
    name = entry.needed_text("activity")
    if name not in activities:
        entry.fail(f"'{name}' is not an activity; known: {', '.join(activities)}", "activity")
    activity = activities[name]
    if alone:
        activity = replace(activity, nvlink_receive=0.0, nvlink_transmit=0.0)
    host = entry.row("host")
    host.refuse_unknown(_HOST)
    return TaskPhase(
        activity=activity,
        state=entry.word("state", State),
        seconds=entry.number_or("seconds", 3600.0, 1.0, DAY_SECONDS),
        jitter_ratio=entry.number_or("jitter_ratio", 0.0, 0.0, 1.0),
        host=HostLoad(**{ratio: host.number_or(ratio, 0.0, 0.0, 1.0) for ratio in _HOST}),
        conditions=entry.words("conditions", Condition),
        between=entry.times_of_day("between") if "between" in entry else None,
        follows_load=entry.flag("follows_load", default=True),
    )


def load_scenario(
    name_or_path: str, catalogue: Catalogue, midnight_seconds: float = 0.0
) -> SimulatedScenario:
    """Load a packaged scenario by name, or one from a file, whose day begins at a time in UTC.

    Raises:
        ScenarioError: there is none, or it contradicts itself or the catalogue; the message
            starts with `file:line:column`.
    """
    document = _document(name_or_path)
    activities = _activities(ScenarioRow.root(_packaged(ACTIVITIES_FILE)), {})
    top = ScenarioRow.root(document, midnight_seconds)
    top.refuse_unknown(
        (
            "name",
            "seed",
            "cores",
            "driver_version",
            "activities",
            "boards",
            "workloads",
            "faults",
        )
    )
    if "activities" in top:
        activities = _activities(top.row("activities"), activities)
    slots, faults = read_faults(top, read_slots(top, catalogue))
    scenario = SimulatedScenario(
        name=top.needed_text("name"),
        seed=top.count_or("seed", 1, 0, 2**31),
        slots=slots,
        tasks=tuple(read_task(entry, slots, activities) for entry in top.rows("workloads")),
        cores=top.number_or("cores", 112.0, 1.0, 4096.0),
        driver_version=top.text("driver_version") or "580.95.05",
        faults=faults,
    )
    top.refuse()
    return scenario


def _document(name_or_path: str) -> Document:
    if name_or_path in packaged_scenarios():
        return _packaged(f"{name_or_path}.yaml")
    path = Path(name_or_path)
    packaged = f"packaged: {', '.join(packaged_scenarios())}"
    if path.suffix not in {".yaml", ".yml"} and not path.exists():
        raise ScenarioError(f"scenario '{name_or_path}' is neither packaged nor a file; {packaged}")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        what = f"cannot be read: {error.strerror}; {packaged}"
        raise ScenarioError(f"scenario {path} {what}") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"scenario {path} is not text; save it as UTF-8") from None
    return _parsed(text, path.name)


def _packaged(file: str) -> Document:
    return _parsed((SCENARIO_FOLDER / file).read_text(encoding="utf-8"), file)


def _parsed(text: str, name: str) -> Document:
    try:
        return load_yaml(text, name)
    except YamlError as error:
        raise ScenarioError(f"{error}; a scenario is a YAML mapping") from None


def _activities(top: ScenarioRow, known: Mapping[str, KernelActivity]) -> dict[str, KernelActivity]:
    activities = dict(known)
    for name in top.values:
        entry = top.row(name)
        entry.refuse_unknown(_RATIOS)
        activities[name] = KernelActivity(
            **{ratio: entry.number_or(ratio, 0.0, 0.0, 1.0) for ratio in _RATIOS}
        )
    return activities
