"""Metrics of the fleet's agents in Prometheus: our own, and results of our recording rules."""

import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from estate.character import SLOTS, STEP_SECONDS, Key
from estate.identity import device_identity, workload_identity
from estate.layout import Machine
from estate.life import Gpu, Life
from estate.series import Counters, Pairs, Piece, Run, pieces, sliced

__all__ = ["own_runs", "target_labels"]

_RAW_DAYS: Final = 1
"""Retention of scrapes if rules record the rest."""
_RULES: Final = Path(__file__).parents[3] / "config" / "prometheus" / "rules.yaml"
_RECORDED: Final = frozenset(re.findall(r"record: (\S+)", _RULES.read_text("utf-8")))
_COUNTERS: Final = (
    "rightsizer_state_seconds",
    "rightsizer_condition_seconds",
    "rightsizer_used_seconds",
    "rightsizer_waste_seconds",
    "rightsizer_used_joules",
    "rightsizer_waste_joules",
    "rightsizer_energy_joules",
    "rightsizer_gpu_busy_distribution",
    "rightsizer_sm_work_distribution",
    "rightsizer_dram_active_distribution",
    "rightsizer_power_distribution",
)
"""Counters used by a fleet's view, without those that only a node's own page shows."""
_GAUGES: Final = frozenset(
    {
        "rightsizer_gpu_busy_ratio",
        "rightsizer_sm_active_ratio",
        "rightsizer_sm_work_ratio",
        "rightsizer_tensor_active_ratio",
        "rightsizer_dram_active_ratio",
        "rightsizer_memory_used_bytes",
        "rightsizer_memory_total_bytes",
        "rightsizer_power_limit_watts",
        "rightsizer_power_ratio",
        "rightsizer_pcie_receive_bytes_per_second",
        "rightsizer_pcie_transmit_bytes_per_second",
        "rightsizer_nvlink_receive_bytes_per_second",
        "rightsizer_nvlink_transmit_bytes_per_second",
    }
)
_LASTING: Final = frozenset({"rightsizer_memory_total_bytes", "rightsizer_power_limit_watts"})
"""Gauges fixed by the device or its settings."""
_DERIVED: Final = frozenset(
    {
        ("rightsizer_need_ratio", "current"),
        ("rightsizer_underprovisioned_ratio", "current"),
        ("rightsizer_underprovisioned_ratio", "24h"),
        ("rightsizer_saturated_ratio", "24h"),
    }
)
"""Gauges by their window. A day of a character has one value of each."""
_AVERAGED: Final = ("gpu_busy", "sm_work", "dram_active", "power")
_AVERAGES: Final = frozenset(f"uuid:rightsizer_{signal}_ratio:avg5m" for signal in _AVERAGED)


def own_runs(
    life: Life, counters: Counters, first: int, last: int, *, records: bool = False
) -> Iterator[Run]:
    """The samples between two slots; request adjoining stretches of time, oldest first.

    Args:
        life: The fleet.
        counters: The state of the counters.
        first: The first slot.
        last: The one after the last.
        records: Whether the results of `config/prometheus/rules.yaml` were kept, and of the scrapes
            no more than a day.
    """
    if not records:
        yield from _runs(life, counters, first, last, records=False)
        return
    for run in _runs(life, counters, first, last, records=True):
        if run.name in _RECORDED:
            yield run
    raw = max(first, life.slots - _RAW_DAYS * SLOTS)
    if raw < last:
        yield from _runs(life, counters, raw, last, records=False)


def _runs(life: Life, counters: Counters, first: int, last: int, *, records: bool) -> Iterator[Run]:
    for gpu in life.gpus:
        found = pieces(life, gpu, first, last)
        if not found:
            continue
        target = target_labels(gpu.machine, "rightsizer", 19400)
        labels = (("uuid", gpu.device.uuid), *target)
        for key in _counter_keys(found):
            growth = [(piece.first, _grown(piece, key)) for piece in found]
            if records:
                yield from _recorded(key, growth, labels)
            else:
                yield from _counted(gpu, counters, key, growth, labels)
        yield from _gauges(found, labels, records=records)
        yield from device_identity(gpu, found, target, records=records)
    for machine in life.layout.machines:
        target = target_labels(machine, "rightsizer", 19400)
        yield from workload_identity(life, machine, first, last, target, records=records)


def target_labels(machine: Machine, job: str, port: int) -> Pairs:
    """Labels that Prometheus adds to all scrapes of a machine; Slurm's include the partition."""
    labels = (("instance", f"{machine.name}:{port}"), ("job", job))
    return (*labels, ("pool", machine.pool)) if machine.pool == "train" else labels


def _counter_keys(found: Sequence[Piece]) -> Iterator[Key]:
    keys = {key: None for piece in found for key in piece.character.grown}
    return (key for key in keys if key[0].startswith(_COUNTERS))


def _grown(piece: Piece, key: Key) -> "array[float]":
    values = piece.character.grown.get(key)
    if values is None:
        return array("d", bytes(8 * (piece.last - piece.first)))
    return sliced(values, piece)


def _counted(
    gpu: Gpu,
    counters: Counters,
    key: Key,
    growth: Sequence[tuple[int, "array[float]"]],
    labels: Pairs,
) -> Iterator[Run]:
    name, more = key
    for first, before, values in counters.grown(gpu, key, growth):
        is_steady = values[0] == values[-1]
        yield Run(name, (*labels, *more), first, values, before, is_steady)


def _recorded(
    key: Key, growth: Sequence[tuple[int, "array[float]"]], labels: Pairs
) -> Iterator[Run]:
    name, more = key
    level = "_".join(("uuid", *(label for label, _ in more)))
    rule = f"{level}:{name.removesuffix('_total')}:increase5m"
    for first, values in growth:
        yield Run(rule, (*labels, *more), first, values, is_steady=not any(values))


def _gauges(found: Sequence[Piece], labels: Pairs, *, records: bool) -> Iterator[Run]:
    for key in {key: None for piece in found for key in piece.character.gauges}:
        name, more = key
        is_derived = (name, dict(more).get("window")) in _DERIVED
        if not (is_derived or name in _GAUGES):
            continue
        for rule in _rules_of(name, more) if records else (name,):
            for piece in found:
                if key in piece.character.gauges:
                    values = sliced(piece.character.gauges[key], piece)
                    is_steady = is_derived or name in _LASTING
                    yield Run(rule, (*labels, *more), piece.first, values, is_steady=is_steady)
    if records:
        yield from _averages(found, labels)


def _rules_of(name: str, more: Pairs) -> Sequence[str]:
    """Results of our rules for a gauge; means known to the histograms come from those."""
    if dict(more).get("window"):
        is_kept = ("window", "current") in more
        return [f"uuid_resource:{name}:last5m"] if is_kept else []
    forms = [f"uuid:{name}:max5m", f"uuid:{name}:avg5m"]
    return [form for form in forms if form in _RECORDED and form not in _AVERAGES]


def _averages(found: Sequence[Piece], labels: Pairs) -> Iterator[Run]:
    """The exact means over each slot, from the histograms' sums."""
    for signal in _AVERAGED:
        key = (f"rightsizer_{signal}_distribution_ratio_sum", ())
        for piece in found:
            if key in piece.character.grown:
                mean = array(
                    "d", (x / STEP_SECONDS for x in sliced(piece.character.grown[key], piece))
                )
                yield Run(f"uuid:rightsizer_{signal}_ratio:avg5m", labels, piece.first, mean)
