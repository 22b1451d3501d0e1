"""Metrics in Prometheus of a fleet without our agent: those of dcgm-exporter."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from estate.character import workload
from estate.layout import Owner
from estate.life import Gpu, Life, Part
from estate.own import target_labels
from estate.series import Counters, Pairs, Piece, Run, pieces, sliced
from rightsizer.exposition.dcgm import DcgmLabelEncoder
from rightsizer.exposition.settings import DcgmLabels
from rightsizer.model.workload import Holding

__all__ = ["dcgm_runs"]

_PROFILING: Final = "DCGM_FI_PROF_"


def dcgm_runs(  # noqa: PLR0913 - how exporters differ.
    life: Life,
    counters: Counters,
    first: int,
    last: int,
    *,
    spelling: DcgmLabels = DcgmLabels.CURRENT,
    is_exported: bool = False,
    has_profiling: bool = True,
) -> Iterator[Run]:
    """The samples between two slots; request adjoining stretches of time, oldest first.

    Args:
        life: The fleet.
        counters: The state of the counters.
        first: The first slot.
        last: The one after the last.
        spelling: The generation whose labels are written.
        is_exported: Whether the scraper has put `exported_` before the labels of pods, for it has
            labels of its own of that name.
        has_profiling: Whether profiling fields are exported, of boards that have them.
    """
    for gpu in life.gpus:
        labels = DcgmLabelEncoder(spelling, gpu.machine.name, "580.95.05")
        target = target_labels(gpu.machine, "dcgm-exporter", 9400)
        own = tuple(labels.device(gpu.device, gpu.device).items())
        found = pieces(life, gpu, first, last)
        for piece in found:
            of_holder = _holder(labels, piece.part, is_exported=is_exported)
            whole = (*own, *of_holder, *target)
            for name, values in piece.character.dcgm_gauges.items():
                if has_profiling or not name.startswith(_PROFILING):
                    yield Run(name, whole, piece.first, sliced(values, piece))
            yield from _counted(gpu, counters, piece, whole)


def _counted(gpu: Gpu, counters: Counters, piece: Piece, labels: Pairs) -> Iterator[Run]:
    for name, grown in piece.character.dcgm_grown.items():
        growth = [(piece.first, sliced(grown, piece))]
        # The driver counts, and does not restart with the exporter.
        for first, before, values in counters.grown(gpu, name, growth, resets=False):
            yield Run(name, labels, first, values, before)


def _holder(labels: DcgmLabelEncoder, part: Part, *, is_exported: bool) -> Pairs:
    """The labels of the device's holder; other labels may take their names."""
    if part.job is None:
        return ()
    known = workload(part.job.name)
    if part.job.owner is not Owner.SLURM:
        known = replace(known, pod=part.pod, namespace=part.job.namespace, container="main")
    held = labels.holders([Holding(known, 1.0)])[0]
    if not is_exported or part.job.owner is Owner.SLURM:
        return tuple(held.items())
    exported = ((f"exported_{name}", value) for name, value in held.items())
    return (*exported, ("pod", "dcgm-exporter-x7k2p"), ("namespace", "gpu-operator"))
