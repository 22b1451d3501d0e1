"""The serving engines as neighbors: what they say stands beside the readings of their GPUs."""

from dataclasses import replace
from typing import Final

import structlog

from rightsizer.domain.snapshot import Snapshot
from rightsizer.telemetry.serving.serving_engines import ServingEngines

__all__ = ["ServingNeighbor"]

_ORIGIN: Final = "serving"


class ServingNeighbor:
    """Puts queues and latencies into the readings, and says once what it cannot place."""

    def __init__(self, engines: ServingEngines) -> None:
        """Says nothing before the first snapshot."""
        self._engines = engines
        self._told: dict[str, str] = {}
        self._log = structlog.get_logger(component="serving")

    def supplement(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what the engines say."""
        values = self._engines.read(snapshot.devices, snapshot.holdings)
        readings = {
            uuid: replace(
                reading,
                values={**reading.values, **values[uuid]},
                origins={**reading.origins, **dict.fromkeys(values[uuid], _ORIGIN)},
            )
            if uuid in values
            else reading
            for uuid, reading in snapshot.readings.items()
        }
        self._tell()
        collectors = {**snapshot.collectors, **self._engines.outcomes()}
        return replace(snapshot, readings=readings, collectors=collectors)

    def close(self) -> None:
        """Ask no more."""
        self._engines.close()

    def _tell(self) -> None:
        troubles = dict(self._engines.troubles())
        for name, trouble in troubles.items():
            if self._told.get(name) != trouble:
                self._log.warning("serving_unread", endpoint=name, reason=trouble)
        self._told = troubles
