"""The workloads of a scenario's YAML, against the slots that they hold."""

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from typing import Final

from rightsizer.domain.reading import ProcessKind
from rightsizer.domain.state import Condition, State
from rightsizer.domain.workload import Allocator, Workload, WorkloadClass, WorkloadKind
from rightsizer.telemetry.simulated.activity import Activity
from rightsizer.telemetry.simulated.fields import Fields
from rightsizer.telemetry.simulated.memory import instance_memory_bytes, reserved_memory_bytes
from rightsizer.telemetry.simulated.physics import nvlink_is_up
from rightsizer.telemetry.simulated.plan import (
    DAY_SECONDS,
    Host,
    MemoryPlan,
    Phase,
    Slot,
    Spot,
    Task,
)
from rightsizer.telemetry.simulated.shapes import Bursty, Constant, Diurnal, Shape

__all__ = ["read_task"]

_GIB: Final = 2.0**30
_HOST: Final = tuple(field.name for field in dataclass_fields(Host))


def read_task(entry: Fields, slots: tuple[Slot, ...], activities: Mapping[str, Activity]) -> Task:
    """One entry of `workloads`.

    Raises:
        ScenarioError: it contradicts itself or the slots.
    """
    entry.only(
        (
            *("name", "kind", "class", "allocator", "namespace", "pod", "gpus", "instances"),
            *("start", "stop", "memory_gib", "memory_ratio", "processes", "cores", "load"),
            *("phases", "process_kind"),
        )
    )
    name, kind = entry.text("name"), entry.word("kind", WorkloadKind, WorkloadKind.SIMULATED)
    namespace = entry.text("namespace", "")
    spots = _spots(entry, slots)
    return Task(
        workload=Workload(
            key="/".join(part for part in (kind.value, namespace, name) if part),
            kind=kind,
            name=name,
            workload_class=entry.word("class", WorkloadClass, WorkloadClass.UNKNOWN),
            allocator=entry.word("allocator", Allocator, Allocator.UNKNOWN),
            namespace=namespace,
            pod=entry.text("pod", ""),
        ),
        spots=spots,
        start_seconds=entry.time_of_day("start", 0.0),
        stop_seconds=entry.time_of_day("stop", DAY_SECONDS),
        memory=tuple(_memory(entry, slots[spot.gpu], spot) for spot in spots),
        processes=entry.integer("processes", 1, 1, 64),
        cores=entry.number("cores", 8.0, 0.1, 1024.0),
        shape=_shape(entry.child("load")),
        phases=_phases(entry, activities, alone=_alone(slots, spots)),
        process_kind=entry.word("process_kind", ProcessKind, ProcessKind.COMPUTE),
    )


def _alone(slots: tuple[Slot, ...], spots: tuple[Spot, ...]) -> bool:
    """Whether a task has nobody to talk to over NVLink; MIG instances have none."""
    return len(spots) == 1 or any(
        spot.instance is not None or not nvlink_is_up(slots[spot.gpu].board) for spot in spots
    )


def _spots(entry: Fields, slots: tuple[Slot, ...]) -> tuple[Spot, ...]:
    spots: list[Spot] = []
    for gpu in entry.sequence("gpus"):
        slot = _gpu(entry, "gpus", gpu, slots)
        if not slot.is_ever_whole:
            entry.fail(f"GPU {gpu} is cut into MIG instances; hold them by 'instances'", "gpus")
        spots.append(Spot(slot.index))
    for text in entry.sequence("instances"):
        gpu, _, instance = str(text).partition("/")
        slot = _gpu(entry, "instances", int(gpu) if gpu.isdigit() else text, slots)
        if not instance.isdigit() or int(instance) >= len(slot.all_profiles):
            entry.fail(
                f"'{text}' is not an instance; GPU {slot.index} has {len(slot.all_profiles)}, "
                f"write the first as '{slot.index}/0'",
                "instances",
            )
        spots.append(Spot(slot.index, int(instance)))
    if not spots:
        entry.fail("holds nothing; add 'gpus: [0]' or 'instances: [\"0/0\"]'")
    return tuple(spots)


def _gpu(entry: Fields, key: str, gpu: object, slots: tuple[Slot, ...]) -> Slot:
    if not isinstance(gpu, int) or isinstance(gpu, bool) or not 0 <= gpu < len(slots):
        entry.fail(f"'{gpu}' is not a GPU of this node; it has 0 to {len(slots) - 1}", key)
    return slots[gpu]


def _memory(entry: Fields, slot: Slot, spot: Spot) -> MemoryPlan:
    profile = slot.profile(spot.instance)
    total = instance_memory_bytes(slot.board, profile)
    most = total - reserved_memory_bytes(slot.board, profile)
    if entry.has("memory_gib") == entry.has("memory_ratio"):
        entry.fail("needs either 'memory_gib' or 'memory_ratio', of each device it holds")
    if entry.has("memory_gib"):
        first, last = entry.pair("memory_gib", 0.0, most / _GIB)
        return MemoryPlan(first * _GIB, last * _GIB)
    first, last = entry.pair("memory_ratio", 0.0, most / total)
    return MemoryPlan(first * total, last * total)


def _shape(entry: Fields) -> Shape:
    entry.only(("shape", "level", "share", "interval_seconds", "peak", "night_ratio"))
    kind = entry.text("shape", "constant")
    level = entry.number("level", 1.0, 0.0, 1.0)
    if kind == "constant":
        return Constant(level)
    share = entry.number("share", 0.6, 0.0, 1.0)
    interval_seconds = entry.number("interval_seconds", 20.0, 1.0, DAY_SECONDS)
    if kind == "bursty":
        return Bursty(level, share, interval_seconds)
    if kind != "diurnal":
        entry.fail(f"'{kind}' is not a load shape; one of: constant, bursty, diurnal", "shape")
    peak, night = entry.time_of_day("peak", 15 * 3600.0), entry.number("night_ratio", 0.0, 0, 1)
    return Diurnal(level, share, interval_seconds, peak, night)


def _phases(entry: Fields, activities: Mapping[str, Activity], *, alone: bool) -> tuple[Phase, ...]:
    phases = tuple(_phase(child, activities, alone=alone) for child in entry.children("phases"))
    if all(phase.between is not None for phase in phases):
        entry.fail("needs a phase without 'between' to fill the rest of its time", "phases")
    return phases


def _phase(entry: Fields, activities: Mapping[str, Activity], *, alone: bool) -> Phase:
    entry.only(
        (
            *("activity", "state", "seconds", "jitter_ratio", "host", "conditions", "between"),
            "follows_load",
        )
    )
    name = entry.text("activity")
    if name not in activities:
        entry.fail(f"'{name}' is not an activity; known: {', '.join(activities)}", "activity")
    activity = activities[name]
    if alone:
        activity = replace(activity, nvlink_receive=0.0, nvlink_transmit=0.0)
    host = entry.child("host")
    host.only(_HOST)
    return Phase(
        activity=activity,
        state=entry.word("state", State),
        seconds=entry.number("seconds", 3600.0, 1.0, DAY_SECONDS),
        jitter_ratio=entry.number("jitter_ratio", 0.0, 0.0, 1.0),
        host=Host(**{ratio: host.number(ratio, 0.0, 0.0, 1.0) for ratio in host.data}),
        conditions=entry.words("conditions", Condition),
        between=entry.times_of_day("between") if entry.has("between") else None,
        follows_load=entry.data.get("follows_load", True) is True,
    )
