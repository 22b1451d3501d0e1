"""Reader of scenarios, packaged or from a file."""

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath

from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.config.loader import read_document, refusal
from rightsizer.config.validator import rule_fault
from rightsizer.io.yaml import Document, YamlError, load_yaml
from rightsizer.model.values import DAY_SECONDS, GIB, ConfigurationError, ScenarioError, Workload
from rightsizer.simulator.activity import KernelActivity
from rightsizer.simulator.board_reader import Path, check_within, read_faults, read_slots, slot_of
from rightsizer.simulator.packaged import ACTIVITIES_FILE, SCENARIO_FOLDER, packaged_scenarios
from rightsizer.simulator.physics import instance_memory_bytes, nvlink_is_up, reserved_memory_bytes
from rightsizer.simulator.scenario import (
    BoardSlot,
    DeviceLocation,
    DiurnalLoad,
    MemoryPlan,
    SimulatedScenario,
    SimulatedTask,
    TaskPhase,
)
from rightsizer.simulator.scenario_document import (
    ActivitiesDocument,
    PhaseEntry,
    RuleError,
    ScenarioDocument,
    WorkloadEntry,
)


class _TaskReader:
    """Reads workloads against the slots and activities of their scenario."""

    def __init__(
        self,
        slots: tuple[BoardSlot, ...],
        activities: Mapping[str, KernelActivity],
        midnight_seconds: float,
    ) -> None:
        self._slots = slots
        self._activities = activities
        self._midnight_seconds = midnight_seconds

    def read(self, entry: WorkloadEntry, path: Path) -> SimulatedTask:
        """Read one entry of `workloads`; raise a `RuleError` if it contradicts the slots."""
        spots = tuple(self._spots(entry, path))
        names = (entry.kind, entry.namespace, entry.name)
        load = entry.load
        if isinstance(load, DiurnalLoad):
            load = replace(load, peak_seconds=self._later(load.peak_seconds))
        return SimulatedTask(
            workload=Workload(
                key="/".join(filter(None, names)),
                kind=entry.kind,
                name=entry.name,
                workload_class=entry.class_,
                allocator=entry.allocator,
                namespace=entry.namespace,
                pod=entry.pod,
                unproven="",  # Whoever writes the scenario is the operator.
            ),
            spots=spots,
            start_seconds=self._later(entry.start),
            stop_seconds=self._later(entry.stop),
            memory=tuple(self._memory(entry, path, spot) for spot in spots),
            processes=entry.processes,
            cores=entry.cores,
            shape=load,
            phases=tuple(
                self._phase(phase, (*path, "phases", place), alone=self._is_alone(spots))
                for place, phase in enumerate(entry.phases)
            ),
            process_kind=entry.process_kind,
            engine=entry.engine,
        )

    def _later(self, seconds: float) -> float:
        """Time of day by the midnight of the scenario."""
        midnight_seconds = self._midnight_seconds
        return (seconds + midnight_seconds) % DAY_SECONDS if midnight_seconds else seconds

    def _is_alone(self, spots: tuple[DeviceLocation, ...]) -> bool:
        """Whether a task has no peer over NVLink; MIG instances have none."""
        return len(spots) == 1 or any(
            spot.instance is not None or not nvlink_is_up(self._slots[spot.gpu].board)
            for spot in spots
        )

    def _spots(self, entry: WorkloadEntry, path: Path) -> Iterator[DeviceLocation]:
        for gpu in entry.gpus:
            slot = slot_of(gpu, (*path, "gpus"), self._slots)
            if not slot.is_ever_whole:
                fault = f"GPU {gpu} is cut into MIG instances; hold them by 'instances'"
                raise RuleError((*path, "gpus"), fault)
            yield DeviceLocation(slot.index)
        for text in entry.instances:
            place = (*path, "instances")
            number, _, instance = text.partition("/")
            slot = slot_of(int(number) if number.isdigit() else text, place, self._slots)
            if not instance.isdigit() or int(instance) >= len(slot.all_profiles):
                fault = f"'{text}' is not an instance; GPU {slot.index} has"
                remedy = f"write the first as '{slot.index}/0'"
                raise RuleError(place, f"{fault} {len(slot.all_profiles)}, {remedy}")
            yield DeviceLocation(slot.index, int(instance))

    def _memory(self, entry: WorkloadEntry, path: Path, spot: DeviceLocation) -> MemoryPlan:
        slot = self._slots[spot.gpu]
        profile = slot.profile(spot.instance)
        total = instance_memory_bytes(slot.board, profile)
        usable_bytes = total - reserved_memory_bytes(slot.board, profile)
        states = entry.memory_gib or entry.memory_ratio
        key, unit = ("memory_ratio", total) if entry.memory_gib is None else ("memory_gib", GIB)
        if states is None:
            raise RuleError(path, "needs either 'memory_gib' or 'memory_ratio'")
        for value in (states.first, states.last):
            check_within((*path, key), value, 0.0, usable_bytes / unit)
        return MemoryPlan(states.first * unit, states.last * unit)

    def _phase(self, entry: PhaseEntry, path: Path, *, alone: bool) -> TaskPhase:
        activity = self._activities.get(entry.activity)
        if activity is None:
            activity_names = ", ".join(self._activities)
            fault = f"'{entry.activity}' is not an activity; known: {activity_names}"
            raise RuleError((*path, "activity"), fault)
        if alone:
            activity = replace(activity, nvlink_receive=0.0, nvlink_transmit=0.0)
        between = entry.between
        return TaskPhase(
            activity=activity,
            state=entry.state,
            seconds=entry.seconds,
            jitter_ratio=entry.jitter_ratio,
            host=entry.host,
            conditions=frozenset(entry.conditions),
            between=None
            if between is None
            else (self._later(between.start), self._later(between.stop)),
            follows_load=entry.follows_load,
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
    try:
        return _scenario(document, catalogue, midnight_seconds)
    except RuleError as error:
        fault = refusal(document, [rule_fault(error.path, str(error))])
        raise ScenarioError(str(fault)) from None
    except ConfigurationError as error:
        raise ScenarioError(str(error)) from None


def _scenario(
    document: Document, catalogue: Catalogue, midnight_seconds: float
) -> SimulatedScenario:
    read = read_document(ScenarioDocument, document)
    slots = read_slots(read.boards, catalogue)
    slots, faults = read_faults(read.faults, slots, midnight_seconds)
    reader = _TaskReader(slots, {**_usual_activities(), **read.activities}, midnight_seconds)
    return SimulatedScenario(
        name=read.name,
        seed=read.seed,
        slots=slots,
        tasks=tuple(
            reader.read(entry, ("workloads", place)) for place, entry in enumerate(read.workloads)
        ),
        cores=read.cores,
        driver_version=read.driver_version,
        faults=faults,
    )


def _usual_activities() -> Mapping[str, KernelActivity]:
    packaged = _packaged(ACTIVITIES_FILE)
    document = replace(packaged, data={"activities": packaged.data})
    return read_document(ActivitiesDocument, document).activities


def _document(name_or_path: str) -> Document:
    if name_or_path in packaged_scenarios():
        return _packaged(f"{name_or_path}.yaml")
    path = FilePath(name_or_path)
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
