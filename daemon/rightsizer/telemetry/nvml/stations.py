"""One worker for each GPU: asked together, waited for together, and none holds up another."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rightsizer.domain.reading import Missing
from rightsizer.domain.snapshot import CollectorOutcome, Down
from rightsizer.edge.clock import Clock
from rightsizer.telemetry.nvml.inventory import Gpu, Inventory
from rightsizer.telemetry.nvml.session import Round, Session
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.worker import Crashed, Stuck, Worker

__all__ = ["Stations"]


@dataclass(slots=True)
class _Station:
    """A GPU of the current inventory, at its worker."""

    gpu: Gpu
    generation: int
    worker: Worker[Session, Round]
    is_asked: bool = False
    holds_counters: bool = True
    """Whether its last round may have left samples with the driver."""
    unknown_rounds: int = 0
    """How many rounds in a row brought nothing but unknown errors."""


class Stations:
    """The workers, by the uuids of their GPUs; they outlive inventories, so hangs stay counted."""

    def __init__(
        self,
        *,
        clock: Clock,
        settings: LiveSettings,
        sysfs: Path = Path("/sys"),
        counters_are_released: Callable[[], bool] = lambda: False,
    ) -> None:
        """No GPU, no worker."""
        self._sysfs = sysfs
        self._counters_are_released = counters_are_released
        self._clock = clock
        self._settings = settings
        self._workers: dict[str, Worker[Session, Round]] = {}
        self._stations: dict[str, _Station] = {}
        self._inventory: Inventory | None = None

    @property
    def workers(self) -> tuple[Worker[Session, Round], ...]:
        """All workers that there ever were."""
        return tuple(self._workers.values())

    @property
    def abandoned(self) -> int:
        """How many threads hang in the driver and were given up."""
        return sum(worker.abandoned for worker in self.workers)

    @property
    def counters_held(self) -> int:
        """How many GPUs have not let their profiling counters go since that was asked."""
        # Asked from any thread, while the coordinator's changes the stations.
        return sum(1 for station in tuple(self._stations.values()) if station.holds_counters)

    @property
    def is_unknown_for_long(self) -> bool:
        """Whether a GPU has given nothing but unknown errors for too many rounds."""
        return any(
            station.unknown_rounds >= self._settings.unknown_errors_before_reopening
            for station in self._stations.values()
        )

    def follow(self, inventory: Inventory | None) -> None:
        """Staff the GPUs of an inventory; one that has not changed keeps its station."""
        if inventory is self._inventory:
            return
        self._inventory = inventory
        gpus = {} if inventory is None else {gpu.whole.device.uuid: gpu for gpu in inventory.gpus}
        for uuid in self._stations.keys() - gpus.keys():
            self._stations.pop(uuid).worker.close()
        for uuid, gpu in gpus.items():
            known = self._stations.get(uuid)
            generation = inventory.generation if inventory is not None else 0
            if known is None or known.generation != generation or known.gpu != gpu:
                self._stations[uuid] = self._station(gpu, generation)

    def ask(self) -> None:
        """Start a round on every station that is not stuck in a former one."""
        for station in self._stations.values():
            station.is_asked = station.worker.ask(Session.read)

    def answers(self, deadline: float) -> list[Round]:
        """The rounds, each waited for until a point on the monotonic clock."""
        return [self._answer(station, deadline) for station in self._stations.values()]

    def close(self, deadline: float) -> None:
        """Let all threads end, and wait for those that do."""
        self.follow(None)
        for worker in self.workers:
            worker.join(deadline)

    def _station(self, gpu: Gpu, generation: int) -> _Station:
        device = gpu.whole.device
        enter = partial(
            Session,
            gpu,
            clock=self._clock,
            settings=self._settings,
            sysfs=self._sysfs,
            counters_are_released=self._counters_are_released,
        )
        worker = self._workers.get(device.uuid)
        if worker is None:
            worker = self._workers[device.uuid] = Worker(
                f"gpu-{device.index}",
                enter,
                abandon_after_seconds=self._settings.abandon_after_seconds,
                abandoned_maximum=self._settings.abandoned_threads_maximum,
            )
        else:
            worker.renew(enter)
        return _Station(gpu, generation, worker)

    def _answer(self, station: _Station, deadline: float) -> Round:
        worker = station.worker
        answer = worker.answer(deadline) if station.is_asked else worker.stuck()
        if isinstance(answer, Round):
            station.holds_counters = answer.holds_counters
            station.unknown_rounds = station.unknown_rounds + 1 if answer.is_unknown else 0
            return answer
        down, failed = _stuck(answer) if isinstance(answer, Stuck) else _crashed(answer)
        return Round({}, {target.device.uuid: down for target in station.gpu.targets}, failed)


def _stuck(stuck: Stuck[Session]) -> tuple[Down, dict[str, CollectorOutcome]]:
    session = stuck.state
    call = (session.library.asking if session else None) or "the driver"
    down = Down(Missing.TIMED_OUT, f"hung in {call} for {stuck.seconds:.1f} s")
    collector = session.collecting if session else None
    return down, {collector: CollectorOutcome(False, stuck.seconds)} if collector else {}


def _crashed(crashed: Crashed) -> tuple[Down, dict[str, CollectorOutcome]]:
    return Down(Missing.FAILED, f"reading it failed: {crashed.error!r}"), {}
