"""Pool of one worker for each GPU: polled together, so that none delays another."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rightsizer.io.clock import Clock
from rightsizer.io.worker import Crashed, Stuck, Worker, WorkerJob
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    CollectorOutcome,
    Down,
    Missing,
    Nanoseconds,
    Slow,
)
from rightsizer.telemetry.nvml.device_reader import DeviceReader, PollResult
from rightsizer.telemetry.nvml.inventory import Gpu, Inventory
from rightsizer.telemetry.nvml.settings import LiveSettings

_SLOW_ROUNDS: Final = 3
"""Slow rounds before a driver counts as slow: one hiccup, and the round after it, do not."""
_QUICK_AGAIN_AFTER: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND
"""Time without a slow round after which the driver counts as quick again."""


class SlowDriverDetector:
    """Detects from the rounds of one GPU whether its driver is slow."""

    def __init__(self, deadline_seconds: float) -> None:
        self._deadline_seconds = deadline_seconds
        self._until: Nanoseconds = 0
        self._rounds = 0
        self._longest_seconds = 0.0
        self._postponed: dict[str, Nanoseconds] = {}

    def add_round(
        self, duration_seconds: float, postponed: Iterable[str], now: Nanoseconds
    ) -> None:
        """Record a round: its duration, and the collectors it postponed."""
        names = tuple(postponed)
        if not names and duration_seconds <= self._deadline_seconds:
            return
        if now >= self._until:
            self._rounds = 0
            self._longest_seconds = 0.0
        self._rounds += 1
        self._longest_seconds = max(self._longest_seconds, duration_seconds)
        self._until = now + _QUICK_AGAIN_AFTER
        self._postponed.update(dict.fromkeys(names, self._until))

    def state(self, now: Nanoseconds) -> Slow | None:
        """Return how slow the driver is, or `None` while it is quick."""
        if now >= self._until or self._rounds < _SLOW_ROUNDS:
            return None
        names = sorted(name for name, until in self._postponed.items() if now < until)
        return Slow(self._longest_seconds, tuple(names))


@dataclass(slots=True)
class _PooledDevice:
    """A GPU of the current inventory with its worker."""

    gpu: Gpu
    generation: int
    worker: Worker[DeviceReader, PollResult]
    slowness: SlowDriverDetector
    is_pending: bool = False
    """Whether a round is under way, or its answer not yet taken."""
    is_waited_for: bool = False
    """Whether this tick waits for it: the previous round was in time."""
    arrived: PollResult | None = None
    """Answer to a round of an earlier tick that has arrived since."""
    last: PollResult | None = None
    """Last answer; valid while the next one is late."""
    is_hung: bool = False
    holds_counters: bool = True
    """Whether its last round may have left GPM samples in the driver."""
    unknown_rounds: int = 0


class DevicePool:
    """Workers by GPU uuid; they outlive inventories, so that hangs stay counted."""

    def __init__(
        self,
        *,
        clock: Clock,
        settings: LiveSettings,
        sysfs: Path = Path("/sys"),
        counters_are_released: Callable[[], bool] = lambda: False,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._sysfs = sysfs
        self._counters_are_released = counters_are_released
        self._workers: dict[str, Worker[DeviceReader, PollResult]] = {}
        self._devices: dict[str, _PooledDevice] = {}
        self._inventory: Inventory | None = None
        # Left behind in a slow GPU; their number is limited by the GPUs that can hang.
        self._in_turn: Worker[None, None] = Worker(
            "gpus",
            nullcontext,
            abandon_after_seconds=settings.in_turn_seconds,
            abandoned_maximum=sys.maxsize,
        )

    @property
    def workers(self) -> tuple[Worker[DeviceReader, PollResult], ...]:
        """All workers, including those of former GPUs."""
        return tuple(self._workers.values())

    @property
    def abandoned(self) -> int:
        """Number of abandoned threads that hang in the driver."""
        return sum(worker.abandoned for worker in self.workers)

    @property
    def counters_held(self) -> int:
        """Number of GPUs that have not yet freed their profiling counters after a request."""
        # Copied: called from any thread, while the coordinator's changes the devices.
        return sum(1 for device in tuple(self._devices.values()) if device.holds_counters)

    @property
    def is_unknown_for_long(self) -> bool:
        """Whether a GPU has had only unknown errors for too many rounds."""
        return any(
            device.unknown_rounds >= self._settings.unknown_errors_before_reopening
            for device in self._devices.values()
        )

    def set_inventory(self, inventory: Inventory | None) -> None:
        """Assign workers to the GPUs of an inventory; an unchanged GPU keeps its device."""
        if inventory is self._inventory:
            return
        self._inventory = inventory
        gpus = {} if inventory is None else {gpu.whole.device.uuid: gpu for gpu in inventory.gpus}
        for uuid in self._devices.keys() - gpus.keys():
            self._devices.pop(uuid).worker.close()
        for uuid, gpu in gpus.items():
            device = self._devices.get(uuid)
            generation = inventory.generation if inventory is not None else 0
            if device is None or device.generation != generation or device.gpu != gpu:
                pooled = self._devices[uuid] = self._pooled(gpu, generation)
                if device is not None:
                    # Slowness and hangs carry over.
                    pooled.slowness = device.slowness
                    pooled.last = device.last
                    pooled.is_hung = device.is_hung

    def start_rounds(self) -> None:
        """Take late rounds, and start one on every GPU that has none under way.

        One thread reads all GPUs that respond at once: several would contend for the interpreter
        lock at every call. Slower GPUs get threads of their own.
        """
        rounds = [job for device in self._devices.values() if (job := self._next_round(device))]
        # Shared iterator: each thread takes what no other has taken.
        waiting = iter(rounds)

        def read_in_turn(_: None) -> None:
            for job in waiting:
                job.run()

        if rounds and self._in_turn.ask(read_in_turn):
            self._in_turn.answer(time.monotonic() + self._settings.in_turn_seconds)
        for job in waiting:
            job.start()

    def finish_rounds(self, deadline: float) -> list[PollResult]:
        """Return the rounds of this tick, waiting until a point on the monotonic clock.

        Later ticks do not wait for a GPU that is late: its round counts in the tick after it came,
        and its last answer stays valid until then, with its own time.
        """
        # Started last, so once it has answered most others have: this saves nearly all waits.
        poll_results = [
            self._result(device, deadline) for device in reversed(self._devices.values())
        ]
        return poll_results[::-1]

    def slow(self) -> Mapping[str, Slow]:
        """Return the GPUs whose calls are slow, by uuid."""
        now = self._clock.time()
        states = {uuid: device.slowness.state(now) for uuid, device in self._devices.items()}
        return {uuid: slow for uuid, slow in states.items() if slow is not None}

    def close(self, deadline: float) -> None:
        """End all threads, and wait for those that do end."""
        self.set_inventory(None)
        self._in_turn.close()
        for worker in self.workers:
            worker.join(deadline)
        self._in_turn.join(deadline)

    def _pooled(self, gpu: Gpu, generation: int) -> _PooledDevice:
        device = gpu.whole.device
        enter = partial(
            DeviceReader,
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
                moved_at=lambda session: session.library.asked_at,
            )
        else:
            worker.renew(enter)
        return _PooledDevice(
            gpu, generation, worker, SlowDriverDetector(self._settings.deadline_seconds)
        )

    def _next_round(self, device: _PooledDevice) -> WorkerJob[DeviceReader, PollResult] | None:
        """Return a round to start on a GPU, or `None` while one is under way."""
        device.arrived = None
        device.is_waited_for = False
        if device.is_pending:
            answer = device.worker.answer(time.monotonic())
            if isinstance(answer, Stuck):
                # A round that ends now is taken in the next tick.
                if answer.still_seconds >= self._settings.abandon_after_seconds:
                    return device.worker.prepare(DeviceReader.read)
                return None
            device.arrived = self._record(device, answer)
            if device.arrived.duration_seconds <= self._settings.deadline_seconds:
                # Quick again: the next tick asks and waits as usual.
                device.is_pending = False
                return None
        device.is_waited_for = device.arrived is None
        job = device.worker.prepare(DeviceReader.read)
        device.is_pending = job is not None
        return job

    def _result(self, device: _PooledDevice, deadline: float) -> PollResult:
        if device.arrived is not None:
            return device.arrived
        if device.is_pending and device.is_waited_for:
            answer = device.worker.answer(deadline)
            if not isinstance(answer, Stuck):
                device.is_pending = False
                return self._record(device, answer)
        return self._late_result(device, device.worker.stuck())

    def _record(self, device: _PooledDevice, answer: PollResult | Crashed) -> PollResult:
        if isinstance(answer, Crashed):
            reason = f"reading it failed: {answer.error!r}"
            answer = _without_readings(device, Down(Missing.FAILED, reason))
        else:
            device.holds_counters = answer.holds_counters
            device.unknown_rounds = device.unknown_rounds + 1 if answer.is_unknown else 0
        now = self._clock.time()
        device.slowness.add_round(answer.duration_seconds, answer.postponed, now)
        device.last = answer
        device.is_hung = False
        return answer

    def _late_result(self, device: _PooledDevice, stuck: Stuck[DeviceReader]) -> PollResult:
        """Result of a GPU whose round is under way: its last answer, unless it hangs."""
        device.is_hung |= stuck.still_seconds >= self._settings.hung_after_seconds
        if device.is_hung:
            call = (stuck.state.library.asking if stuck.state else None) or "the driver"
            reason = f"hung in {call} for {stuck.still_seconds:.1f} s"
            collector = stuck.state.collecting if stuck.state else None
            failed = {collector: CollectorOutcome(False, stuck.seconds)} if collector else {}
            return _without_readings(device, Down(Missing.TIMED_OUT, reason), failed)
        last = device.last or _NO_RESULT
        first = Down(Missing.NO_SAMPLE, f"its first round takes {stuck.seconds:.1f} s so far")
        uuids = [target.device.uuid for target in device.gpu.targets]
        return PollResult(
            {uuid: last.readings[uuid] for uuid in uuids if uuid in last.readings},
            {uuid: last.down.get(uuid, first) for uuid in uuids if uuid not in last.readings},
            last.collectors,
        )


_NO_RESULT: Final = PollResult({}, {}, {})


def _without_readings(
    device: _PooledDevice, down: Down, collectors: Mapping[str, CollectorOutcome] | None = None
) -> PollResult:
    uuids = (target.device.uuid for target in device.gpu.targets)
    return PollResult({}, dict.fromkeys(uuids, down), collectors or {})
