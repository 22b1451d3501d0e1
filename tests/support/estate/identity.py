"""Identity of the fleet's devices and their holders, as exported by their agents."""

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby

from estate.character import workload
from estate.layout import Machine
from estate.life import Gpu, Life, Part
from estate.series import Pairs, Piece, Run
from rightsizer.model.device import Device

__all__ = ["device_identity", "ones", "workload_identity"]


def ones(count: int) -> "array[float]":
    """That many ones."""
    return array("d", [1.0]) * count


def device_identity(
    gpu: Gpu, found: Sequence[Piece], target: Pairs, *, records: bool
) -> Iterator[Run]:
    """The identity of a device, and its holder's share of it.

    Args:
        gpu: The device.
        found: Its life.
        target: Labels added by the scraper.
        records: Whether rules have recorded it.
    """
    uuid = ("uuid", gpu.device.uuid)
    has_profile = any("sm_work" in key[0] for key in found[0].character.grown)
    tier = ("tier", "profiling" if has_profile else "power")
    before, after = ("uuid:", ":last5m") if records else ("", "")
    for piece in found:
        whole = ones(piece.last - piece.first)
        facts = (uuid, *_facts(gpu.device), *target)
        name = f"{before}rightsizer_device_info{after}"
        yield Run(name, facts, piece.first, whole, is_steady=True)
        name = f"{before}rightsizer_device_capacity_ratio{after}"
        yield Run(name, (uuid, *target), piece.first, whole, is_steady=True)
        if not records:
            yield Run("rightsizer_device_up", (uuid, *target), piece.first, whole)
            labels = (uuid, tier, ("source", "nvml"), *target)
            name = "rightsizer_device_telemetry_info"
            yield Run(name, labels, piece.first, whole, is_steady=True)
        if piece.part.job is not None:
            labels = (uuid, ("workload", piece.part.job.key), *target)
            share = "rightsizer_workload_share_ratio"
            name = f"uuid_workload:{share}:avg5m" if records else share
            yield Run(name, labels, piece.first, whole)


def workload_identity(  # noqa: PLR0913 - a stretch of a machine's time.
    life: Life, machine: Machine, first: int, last: int, target: Pairs, *, records: bool
) -> Iterator[Run]:
    """The workloads of a machine: with several pods of one, that of its last device."""
    name = "rightsizer_workload_info"
    name = f"workload:{name}:last5m" if records else name
    held: dict[str, list[Part | None]] = {}
    for gpu in life.gpus:
        for part in gpu.parts if gpu.machine is machine else ():
            at = max(first, part.first)
            end = min(last, part.last)
            if part.job is not None and at < end:
                slots = held.setdefault(part.job.key, [None] * (last - first))
                slots[at - first : end - first] = [part] * (end - at)
    for slots in held.values():
        at = first
        for held_part, group in groupby(slots):
            count = len(list(group))
            if held_part is not None:
                yield Run(name, (*_workload(held_part), *target), at, ones(count))
            at += count


def _facts(device: Device) -> Pairs:
    return (
        ("gpu", str(device.index)),
        ("pci_bus_id", device.pci_bus_id or ""),
        ("model", device.name),
        ("architecture", device.architecture or ""),
        ("parent_uuid", ""),
        ("mig_profile", ""),
        ("numa_node", "0" if device.index < 4 else "1"),
    )


def _workload(part: Part) -> Pairs:
    job = part.job
    assert job is not None
    known = workload(job.name)
    return (
        ("workload", job.key),
        ("kind", known.kind),
        ("class", known.workload_class.value),
        ("namespace", job.namespace),
        ("name", job.name),
        ("pod", part.pod),
        ("container", "main" if part.pod else ""),
        ("allocator", known.allocator.value),
    )
