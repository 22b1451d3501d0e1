"""A node whose training job is starved, minute by minute, with a service that has it profiled."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agent_process import eventually
from cases import judgement
from readings import EPOCH, TRAINING, gpu, snapshot, workload
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.storage import Storage
from rightsizer.io.clock import FastClock
from rightsizer.model.advice import Advice
from rightsizer.model.finding import FindingKind, Reason
from rightsizer.model.profile import Profile
from rightsizer.model.reading import Process
from rightsizer.model.report import AgentReport
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.model.workload import Holding
from rightsizer.profiler.capture.feature import CaptureContext, CaptureState
from rightsizer.profiler.capture.repository import CaptureOutcome, CaptureRecord, CaptureRepository
from rightsizer.profiler.capture.service import CaptureService
from rightsizer.profiler.capture.settings import CaptureKind, CaptureSettings, DropFolderSettings
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.source import ReleasableResource, ReleaseController, ReleaseRequest

__all__ = ["LLAMA", "CaptureNode", "DurableRepository", "capture_node", "host_bound", "recorder"]

LLAMA: Final = workload("llama")
_RECORDER: Final = Path(__file__).parent / "capture_recorder.py"
_AGENT: Final = AgentReport("0", "test", EPOCH, 60.0)


def recorder(behavior: str = "well") -> tuple[str, ...]:
    """The command of a program in a profiler's place."""
    return (sys.executable, str(_RECORDER), "{folder}", "{pid}", "{seconds}", behavior)


def host_bound(**facts: Any) -> Judgement:
    """A finding on the job that a profile would settle."""
    usual: dict[str, Any] = {
        "key": LLAMA.key,
        "rule": "host_bound",
        "kind": FindingKind.INEFFICIENT,
        "reasons": (Reason.HOST_BOUND,),
    }
    return replace(judgement(**usual | facts), workload=LLAMA)


class SetClock(FastClock):
    """A clock that is moved by hand, and whose wall time someone may set."""

    def __init__(self) -> None:
        super().__init__(0, speed=1.0)
        self.ahead: Nanoseconds = EPOCH

    def wall_time(self) -> Nanoseconds:
        """The steady clock's, and what was set."""
        return self.time() + self.ahead

    def pass_seconds(self, passed: float) -> None:
        """Let time pass."""
        self._now += nanoseconds(passed)


class DurableRepository(CaptureRepository):
    """A repository in memory that is said to outlast a kill."""

    is_kept = True

    def __init__(self) -> None:
        super().__init__(Storage("").database)


class CaptureNode:
    """The node, its service, and what it made of profiles."""

    def __init__(
        self, folder: Path, repository: CaptureRepository, settings: CaptureSettings
    ) -> None:
        self.clock, self.accountant = SetClock(), AccountingService(AccountingSettings())
        self.controls = ReleaseController(self.clock)
        self.judgements: Sequence[Judgement] = (host_bound(),)
        self.advice: Sequence[Advice] = ()
        self.holders: tuple[Holding, ...] = (Holding(LLAMA, 1.0),)
        self.pids: tuple[int, ...] | None = (4201, 4202)
        self.still_held: str | None = None
        self.taken: list[str] = []
        self.uuids: set[str] = set()
        self.folder, self.repository = folder, repository
        self.service = self.new_service(settings)

    def new_service(self, settings: CaptureSettings) -> CaptureService:
        """A service as an agent makes it when it starts."""
        service = CaptureService(
            DropFolderSettings(str(self.folder), read_timeout=30.0),
            settings,
            CaptureContext(self.accountant.latest, lambda: self.judgements, lambda: self.advice),
            self.repository,
            self.take,
            limits=ReadLimits,
            controls=self.controls,
            still_held=lambda _: self.still_held,
            clock=self.clock,
        )
        service.start()
        return service

    def take(self, profiles: Sequence[Profile]) -> None:
        """Note the names of profiles, as the controller of profiles takes them."""
        self.taken.extend(each.source for each in profiles)
        self.uuids |= {each.device.uuid for found in profiles for each in found.devices}

    @property
    def state(self) -> CaptureState:
        """What the API tells."""
        return self.service.state()

    @property
    def captures(self) -> Sequence[CaptureRecord]:
        """All captures, oldest first."""
        return tuple(self.state.captures)

    @property
    def outcomes(self) -> list[CaptureOutcome]:
        """What became of each."""
        return [each.outcome for each in self.captures]

    @property
    def waits(self) -> str | None:
        """Why the only finding gets no capture."""
        (found,) = self.state.candidates
        return found.why_not

    @property
    def released(self) -> ReleaseRequest | None:
        """The release of the counters that is in force."""
        return self.controls.released(ReleasableResource.COUNTERS)

    def run(self, name: str) -> None:
        """Let a job run once."""
        (job,) = (each for each in self.service.jobs if each.name == name)
        job.run()

    def pass_minutes(self, count: int) -> None:
        """Train on, looked at once a minute."""
        device = gpu()
        for _ in range(count):
            self.clock.pass_seconds(60.0)
            at = self.clock.time() / 1e9
            seen = snapshot(at, [device], {device: TRAINING}, interval_seconds=60.0)
            processes = None if self.pids is None else tuple(map(Process, self.pids))
            readings = {
                uuid: replace(each, processes=processes) for uuid, each in seen.readings.items()
            }
            seen = replace(
                seen,
                readings=readings,
                holdings={device.uuid: self.holders},
                wall_time=self.clock.wall_time(),
            )
            self.accountant.post(seen, (), lambda: _AGENT)
            self.run("capture")

    def pass_its_start(self) -> None:
        """Train on until someone is called, and no longer."""
        for _ in range(60):
            if self.captures:
                return
            self.pass_minutes(1)
        raise AssertionError(f"nobody was called: {self.state.candidates}")

    def settle(self) -> None:
        """Wait until the call under way is over."""
        eventually(lambda: CaptureOutcome.RUNNING not in self.outcomes)


@contextmanager
def capture_node(
    folder: Path, repository: CaptureRepository | None = None, **settings: Any
) -> Iterator[CaptureNode]:
    """The node, with a folder where profiles land; by a command that records unless told else."""
    drop = folder / "drop"
    drop.mkdir(exist_ok=True)
    usual: dict[str, Any] = {
        "kind": CaptureKind.COMMAND,
        "command": recorder(),
        "seconds": 0.1,
        "timeout": 30.0,
        "margin": 0.0,
    }
    node = CaptureNode(drop, repository or DurableRepository(), CaptureSettings(**usual | settings))
    try:
        yield node
    finally:
        node.service.stop()
