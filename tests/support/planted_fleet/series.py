"""What a store has of the planted fleet: exporters, kube-state-metrics, vLLM and Slurm."""

import hashlib
from collections.abc import ItemsView, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from planted_fleet.activity import BASE_SECONDS, Floats, readings
from planted_fleet.plant import Plant, Style
from planted_fleet.plants import PENDING, PLANTS

__all__ = ["DAYS", "END", "Gpu", "Series", "fleet_series", "planted_gpus", "times"]

DAYS: Final = 8
"""A size rests on a week."""
END: Final = 1_768_125_600
"""Of all samples, in seconds since the epoch: 2026-01-11, 10:00 UTC."""
_GPUS_PER_NODE: Final = 8
_BEYOND_DEFAULT: Final = frozenset(
    {
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    }
)
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class Series(Struct, frozen=True):
    """Samples of one series at the moments of a fleet's scrapes, from one place to another."""

    name: str
    labels: tuple[tuple[str, str], ...]
    first: int
    values: Floats


class Gpu(Struct, frozen=True, eq=False):
    """A GPU of the fleet."""

    style: Style
    plant: Plant
    rank: int
    node: str
    index: int

    @property
    def uuid(self) -> str:
        """Unique over all clusters, whose nodes have the same names."""
        digest = hashlib.sha256(f"{self.style}{self.node}{self.index}".encode()).hexdigest()
        cuts = (0, 8, 12, 16, 20, 32)
        parts = (digest[first:last] for first, last in pairwise(cuts))
        return "GPU-" + "-".join(parts)

    @property
    def is_last(self) -> bool:
        """Whether it is the one with the faults of single GPUs."""
        return self.rank == self.plant.gpus - 1

    @property
    def gone_hours(self) -> float:
        """Before the present: its last sample."""
        plant = self.plant
        return plant.gone_hours if plant.are_all_gone or self.is_last else 0.0


def times(interval_seconds: int) -> range:
    """Moments of scrapes, in seconds since the epoch."""
    return range(END - DAYS * 86400 + interval_seconds, END + 1, interval_seconds)


def planted_gpus() -> tuple[Gpu, ...]:
    """All GPUs: those of a board share nodes, but for plants with nodes of their own."""
    found: list[Gpu] = []
    for style in Style:
        mine = [plant for plant in PLANTS if style in plant.styles]
        mine.sort(key=lambda plant: (plant.on_own_nodes, plant.pool, plant.board.name))
        number = 0
        for (is_own, _, _), plants in groupby(
            mine, key=lambda plant: (plant.on_own_nodes, plant.pool, plant.board.name)
        ):
            index = _GPUS_PER_NODE
            for plant in plants:
                if is_own or index + plant.gpus > _GPUS_PER_NODE:
                    number = number + 1
                    index = 0
                found += [
                    Gpu(style, plant, rank, f"gpu-{number:02d}", index + rank)
                    for rank in range(plant.gpus)
                ]
                index += plant.gpus
    return tuple(found)


def fleet_series(interval_seconds: int) -> Iterator[Series]:
    """All series of the fleet, by its scrape interval."""
    fleet = planted_gpus()
    for gpu in fleet:
        yield from _exporter(gpu, interval_seconds)
    for style in Style:
        mine = [gpu for gpu in fleet if gpu.style is style]
        found = _slurm(mine) if style is Style.SLURM else _kubernetes(mine, style)
        for name, labels, (since, until) in found:
            yield _constant(name, (*labels, ("cluster", style)), since, until, interval_seconds)
    for pending in PENDING:
        for name, labels, value in _pending(
            pending.style, pending.name, pending.gpus, pending.pool
        ):
            series = _constant(name, labels, 0.5, 0.0, interval_seconds)
            yield replace(series, values=series.values * value)


def _exporter(gpu: Gpu, interval_seconds: int) -> Iterator[Series]:
    """A GPU's series, one for each of its holders."""
    count = DAYS * 86400 // BASE_SECONDS
    hours = (np.arange(1, count + 1) - count) * BASE_SECONDS / 3600.0
    random = np.random.default_rng(int(gpu.uuid[4:12], 16))
    plant = gpu.plant
    values = dict(readings(plant.board, plant.ranks.get(gpu.rank, plant.load), hours, random))
    if gpu.is_last or plant.fields_of_all:
        values |= {name: course(hours, random) for name, course in plant.fields.items()}
    engine = {name: course(hours, random) for name, course in plant.engine.items()}
    if not plant.has_profiling:
        values = {
            name: value
            for name, value in values.items()
            if "_PROF_" not in name and name not in _BEYOND_DEFAULT
        }
    every = interval_seconds // BASE_SECONDS
    hours = hours[every - 1 :: every]
    for first, last, holder in _held(gpu, hours):
        labels = _labels(gpu, holder)
        for name, column in values.items():
            end = last
            if plant.unprofiled_hours and "_PROF_" in name:
                end = min(last, int(np.searchsorted(hours, -plant.unprofiled_hours)))
            if first < end:
                yield Series(name, labels, first, column[every - 1 :: every][first:end])
        if holder:
            target = (("instance", f"{holder}:8000"), ("job", "vllm"), ("cluster", gpu.style))
            named = _pod_labels(gpu, holder, is_honored=True)
            for name, column in engine.items():
                whole = (*named, ("model_name", "llama"), *target)
                yield Series(name, whole, first, column[every - 1 :: every][first:last])


def _held(gpu: Gpu, hours: Floats) -> Iterator[tuple[int, int, str]]:
    """Places of its samples, divided by the pod or job that holds it; empty for none."""
    plant = gpu.plant
    at = int(np.searchsorted(hours, -plant.since_hours))
    end = int(np.searchsorted(hours, -gpu.gone_hours, side="right"))
    spans = plant.held_hours if plant.holder else ()
    for number, (since, until) in enumerate(spans):
        first = min(end, max(at, int(np.searchsorted(hours, -since))))
        last = min(end, int(np.searchsorted(hours, -until, side="right")))
        if at < first:
            yield at, first, ""
        if first < last:
            yield first, last, _holder_name(gpu, number)
        at = max(at, last)
    if at < end:
        yield at, end, ""


def _letters(text: str, count: int) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_LETTERS[each % len(_LETTERS)] for each in digest[:count])


def _holder_name(gpu: Gpu, number: int) -> str:
    """A pod's name by its owner's kind, the same in each Kubernetes cluster; or a job's number."""
    holder = gpu.plant.holder
    assert holder is not None
    if gpu.style is Style.SLURM:
        return holder.name if holder.name.isdecimal() else str(_job_number(holder.name))
    pod = gpu.rank // holder.gpus_each
    tail = _letters(f"{holder.name}{number}{pod}", 5)
    match holder.kind:
        case "Deployment":
            return f"{_replica_set(holder.name)}-{tail}"
        case "StatefulSet":
            return f"{holder.name}-{pod}"
        case "CronJob":
            return f"{_cron_run(holder.name, number)}-{tail}"
        case "Job":
            return f"{holder.name}-{tail}"
    return holder.name


def _job_number(name: str) -> int:
    return 50_000 + int(hashlib.sha256(name.encode()).hexdigest()[:4], 16)


def _replica_set(name: str) -> str:
    return f"{name}-{_letters(name, 10)}"


def _cron_run(name: str, number: int) -> str:
    return f"{name}-{29_460_000 + 1440 * number}"


Labels = tuple[tuple[str, str], ...]


def _pod_labels(gpu: Gpu, pod: str, *, is_honored: bool) -> Labels:
    holder = gpu.plant.holder
    assert holder is not None
    prefix = "" if is_honored else "exported_"
    names = (("pod", pod), ("namespace", holder.namespace), ("container", "main"))
    return tuple((f"{prefix}{name}", value) for name, value in names)


def _labels(gpu: Gpu, holder: str) -> Labels:
    """All labels of an exporter's series."""
    own: Labels = (
        ("gpu", str(gpu.index)),
        ("UUID", gpu.uuid),
        ("pci_bus_id", f"00000000:{gpu.index + 16:02X}:00.0"),
        ("device", f"nvidia{gpu.index}"),
        ("modelName", gpu.plant.board.name),
        ("Hostname", gpu.node),
        ("DCGM_FI_DRIVER_VERSION", "570.133.20"),
        ("cluster", gpu.style.value),
    )
    exporter = f"nvidia-dcgm-exporter-{_letters(gpu.node, 5)}"
    match gpu.style:
        case Style.KUBERNETES:
            target: Labels = (("instance", f"10.0.3.{gpu.node[-2:]}:9400"), ("job", "dcgm"))
            return (*own, *target, *(_pod_labels(gpu, holder, is_honored=True) if holder else ()))
        case Style.EXPORTED:
            target = (
                ("instance", f"10.1.3.{gpu.node[-2:]}:9400"),
                ("job", "nvidia-dcgm-exporter"),
                ("pod", exporter),
                ("namespace", "gpu-operator"),
                ("endpoint", "gpu-metrics"),
                ("container", "nvidia-dcgm-exporter"),
                ("service", "nvidia-dcgm-exporter"),
            )
            return (*own, *target, *(_pod_labels(gpu, holder, is_honored=False) if holder else ()))
    job = (("hpc_job", holder),) if holder else ()
    # Slurm leaves the domain out.
    own = tuple((name, f"{value}.hall" if name == "Hostname" else value) for name, value in own)
    return (*own, ("instance", f"{gpu.node}:9400"), ("job", "gpu"), *job)


Fact = tuple[str, Labels, tuple[float, float]]
"""A metric that is 1, its labels, and from when to when, in hours before the present."""
_ALWAYS: Final = (1e9, 0.0)


def _kubernetes(fleet: Sequence[Gpu], style: Style) -> Iterator[Fact]:
    """Nodes, pods and their owners by kube-state-metrics; one cluster labels its pools."""
    target = (("instance", "kube-state-metrics:8080"), ("job", "kube-state-metrics"))
    for node, gpus in _nodes(fleet):
        plant = gpus[0].plant
        span = _ALWAYS if plant.is_listed else (1e9, plant.gone_hours)
        yield "kube_node_info", (("node", node), *target), span
        pool = plant.pool or plant.board.name.split()[1].lower()
        label = (("label_node_pool", pool),) if style is Style.KUBERNETES else ()
        yield "kube_node_labels", (("node", node), *label, *target), span
    seen = set[tuple[str, str]]()
    for gpu in fleet:
        holder = gpu.plant.holder
        plant = gpu.plant
        for number, span in enumerate(plant.held_hours if holder else ()):
            assert holder is not None
            name = _holder_name(gpu, number)
            if (holder.namespace, name) in seen:
                continue
            seen.add((holder.namespace, name))
            pod = (("namespace", holder.namespace), ("pod", name))
            until = max(span[1], plant.gone_hours) if not plant.is_listed else span[1]
            while_held = (span[0], until)
            owner, above = _owners(gpu, number)
            yield "kube_pod_owner", (*pod, *owner, *target), while_held
            yield "kube_pod_info", (*pod, ("node", gpu.node), *target), while_held
            yield "kube_pod_labels", (*pod, ("label_team", holder.namespace), *target), while_held
            running = (*pod, ("phase", "Running"), *target)
            yield "kube_pod_status_phase", running, while_held
            if above is not None and (holder.namespace, above[0]) not in seen:
                seen.add((holder.namespace, above[0]))
                metric, labels = above
                yield metric, (("namespace", holder.namespace), *labels, *target), while_held


def _owners(gpu: Gpu, number: int) -> tuple[Labels, tuple[str, Labels] | None]:
    """A pod's owner, and the metric and labels of that one's own."""
    holder = gpu.plant.holder
    assert holder is not None

    def owned(kind: str, name: str) -> Labels:
        return (("owner_kind", kind), ("owner_name", name), ("owner_is_controller", "true"))

    match holder.kind:
        case "Deployment":
            made = _replica_set(holder.name)
            above = (("replicaset", made), *owned("Deployment", holder.name))
            return owned("ReplicaSet", made), ("kube_replicaset_owner", above)
        case "CronJob":
            made = _cron_run(holder.name, number)
            above = (("job_name", made), *owned("CronJob", holder.name))
            return owned("Job", made), ("kube_job_owner", above)
        case "Pod":
            return (("owner_kind", ""), ("owner_name", ""), ("owner_is_controller", "")), None
    return owned(holder.kind, holder.name), None


def _slurm(fleet: Sequence[Gpu]) -> Iterator[Fact]:
    """Nodes with their partition, and jobs, by a Slurm exporter."""
    target = (("instance", "slurmctld:9341"), ("job", "slurm"))
    for node, gpus in _nodes(fleet):
        plant = gpus[0].plant
        span = _ALWAYS if plant.is_listed else (1e9, plant.gone_hours)
        partition = plant.board.name.split()[1].lower()
        labels = (("node", node), ("partition", partition), ("state", "allocated"), *target)
        yield "slurm_node_info", labels, span
    seen = set[str]()
    for gpu in fleet:
        if gpu.plant.holder is None:
            continue
        for number, span in enumerate(gpu.plant.held_hours):
            job = _holder_name(gpu, number)
            if job not in seen:
                seen.add(job)
                named = (("job_id", job), ("job_name", gpu.plant.holder.name))
                job_labels = (*named, ("user", "lee"), ("account", "physics"), *target)
                yield "slurm_job_info", job_labels, span


def _nodes(fleet: Sequence[Gpu]) -> ItemsView[str, list[Gpu]]:
    found: dict[str, list[Gpu]] = {}
    for gpu in fleet:
        found.setdefault(gpu.node, []).append(gpu)
    return found.items()


def _pending(style: Style, name: str, gpus: int, pool: str) -> Iterator[tuple[str, Labels, float]]:
    """A pod without a node, of a job."""
    target = (("job", "kube-state-metrics"), ("cluster", style.value))
    pod = (("namespace", "research"), ("pod", f"{name}-{_letters(name, 5)}"))
    owner = (("owner_kind", "Job"), ("owner_name", name), ("owner_is_controller", "true"))
    yield "kube_pod_owner", (*pod, *owner, *target), 1.0
    yield "kube_pod_created", (*pod, *target), END - 1800.0
    yield "kube_pod_status_phase", (*pod, ("phase", "Pending"), *target), 1.0
    yield "kube_pod_status_phase", (*pod, ("phase", "Running"), *target), 0.0
    resource = (("container", "main"), ("resource", "nvidia_com_gpu"), ("unit", "integer"))
    yield "kube_pod_container_resource_requests", (*pod, *resource, *target), float(gpus)
    if pool:
        labels = (*pod, ("nodeselector_node_pool", pool), *target)
        yield "kube_pod_nodeselectors", labels, 1.0


def _constant(
    name: str, labels: Labels, since: float, until: float, interval_seconds: int
) -> Series:
    count = len(times(interval_seconds))
    per_hour = 3600 / interval_seconds
    first, last = (count - round(min(hours * per_hour, count)) for hours in (since, until))
    return Series(name, labels, first, np.ones(max(1, last - first)))
