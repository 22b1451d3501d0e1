"""Served models of a look: what engines in the store serve, and what each would need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rightsizer.fleet.context import FleetContext
from rightsizer.fleet.sources.pod_owners import LookbackSpan
from rightsizer.fleet.sources.served_models import GpuWorkload, served_loads
from rightsizer.fleet.sources.serving import ServingMetrics
from rightsizer.io.terminal import counted
from rightsizer.model.values import Nanoseconds, RightsizerError, ServedLoad
from rightsizer.report.served_answers import served_answers

if TYPE_CHECKING:
    from rightsizer.fleet.cases.case import BatchRequest


class ServedModels(Struct, frozen=True):
    """What engines serve, as `rightsizer served` answers, in the order in which to act."""

    answers: tuple[Mapping[str, Any], ...] = ()
    fault: str = ""
    """Why there are no answers, if engines serve."""
    loads: int = 0
    """Number of models that engines serve."""
    unlearned: tuple[str, ...] = ()
    """Why what they teach was not kept."""

    @property
    def notes(self) -> list[str]:
        """What a reader must know beside the answers."""
        notes = [f"Not learned: {note}." for note in self.unlearned]
        if self.fault:
            notes.append(f"Not planned: {counted(self.loads, 'served model')}: {self.fault}.")
        return notes


def served_models(
    context: FleetContext,
    request: BatchRequest,
    lookback: Nanoseconds,
    config_file: Path | None,
    *,
    learns: bool = False,
) -> ServedModels:
    """Return what the engines of a fleet serve on its kinds of GPU; keep what they teach.

    Raises:
        StoreError: the store does not answer.
    """
    loads = tuple(_loads(context, request, lookback))
    kinds = {device.device.board for device in request.devices.values()}
    notes: list[str] = []
    try:
        answers = served_answers(
            loads, config_file, sorted(filter(None, kinds)), notes.append if learns else None
        )
    except RightsizerError as error:
        return ServedModels((), str(error), len(loads))
    return ServedModels(tuple(answers), unlearned=tuple(notes))


def _loads(
    context: FleetContext, request: BatchRequest, lookback: Nanoseconds
) -> Iterator[ServedLoad]:
    """Yield the loads of each cluster with engines."""
    for report in context.reports:
        if report.source != ServingMetrics.name or not report.metrics:
            continue
        cluster = report.cluster
        holders = dict(_holders(request, cluster.named("kubernetes:")))
        span = LookbackSpan(report.time or context.now, lookback)
        yield from served_loads(context.store.within(cluster.matchers), holders, cluster, span)


def _holders(request: BatchRequest, start: str) -> Iterator[tuple[str, GpuWorkload]]:
    """Yield the workloads of a cluster with the GPUs that they hold now."""
    for key, uuids in request.occupancy.present.items():
        if not key.startswith(start) or key not in request.workloads:
            continue
        yield key, _held(request, key, uuids)


def _held(request: BatchRequest, key: str, uuids: Sequence[str]) -> GpuWorkload:
    names = {request.devices[uuid].device.name for uuid in uuids}
    name = names.pop() if len(names) == 1 else ""
    return GpuWorkload(request.workloads[key], tuple(sorted(uuids)), name or "")
