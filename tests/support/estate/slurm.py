"""A Slurm exporter's metrics of the fleet: only the number of waiting jobs per partition."""

from collections.abc import Iterator
from typing import Final

from estate.character import STEP_SECONDS
from estate.life import Life
from estate.series import Run
from estate.waiting import QUEUED

__all__ = ["slurm_runs"]

_TARGET: Final = (("instance", "slurm-exporter:8080"), ("job", "slurm"))


def slurm_runs(life: Life, first: int, last: int) -> Iterator[Run]:
    """The samples between two slots, in the format of forks of prometheus-slurm-exporter.

    The jobs were submitted an hour before the end.
    """
    at = max(first, life.slots - 3600 // STEP_SECONDS)
    for partition, users in QUEUED.items():
        for user, jobs in users.items() if at < last else ():
            labels = (("partition", partition), ("user", user), ("reason", "Resources"))
            yield Run("slurm_queue_pending", (*labels, *_TARGET), at, [float(jobs)] * (last - at))
