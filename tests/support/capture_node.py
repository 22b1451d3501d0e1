"""A node with a starved training job, minute by minute, and a service that captures profiles."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

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
from rightsizer.profiles.limits import ReadLimits
from rightsizer.telemetry.source import ReleasableResource, ReleaseController, ReleaseRequest

__all__ = ["LLAMA", "CaptureNode", "DurableRepository", "capture_node", "host_bound", "recorder"]

LLAMA: Final = workload("llama")
_RECORDER: Final = Path(__file__).parent / "capture_recorder.py"
_AGENT: Final = AgentReport("0", "test", EPOCH, 60.0)


def recorder(behavior: str = "well") -> tuple[str, ...]:
    """The command of a program in place of a profiler."""
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
    """A clock advanced by the test, with a settable wall time."""

    def __init__(self) -> None:
        super().__init__(0, speed=1.0)
        self.ahead: Nanoseconds = EPOCH

    def wall_time(self) -> Nanoseconds:
        """The monotonic time plus the set offset."""
        return self.time() + self.ahead

    def pass_seconds(self, passed: float) -> None:
        """Let time pass."""
        self._now += nanoseconds(passed)


class DurableRepository(CaptureRepository):
    """A repository in memory that claims to survive a kill."""

    is_kept = True

    def __init__(self) -> None:
        super().__init__(Storage("").database)


class CaptureNode:
    """The node, its service, and the outcomes of its profiles."""

    def __init__(
        self, folder: Path, repository: CaptureRepository, settings: CaptureSettings
    ) -> None:
        self.clock = SetClock()
        self.accounting = AccountingService(AccountingSettings())
        self.controls = ReleaseController(self.clock)
        self.judgements: Sequence[Judgement] = (host_bound(),)
        self.advice: Sequence[Advice] = ()
        self.holders: tuple[Holding, ...] = (Holding(LLAMA, 1.0),)
        self.pids: tuple[int, ...] | None = (4201, 4202)
        self.still_held: str | None = None
        self.taken: list[str] = []
        self.uuids: set[str] = set()
        self.folder = folder
        self.repository = repository
        self.service = self.new_service(settings)

    def new_service(self, settings: CaptureSettings) -> CaptureService:
        """A service as constructed at the agent's start."""
        service = CaptureService(
            DropFolderSettings(str(self.folder), read_timeout=30.0),
            settings,
            CaptureContext(self.accounting.latest, lambda: self.judgements, lambda: self.advice),
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
        """Record the names of profiles, in place of the controller of profiles."""
        self.taken.extend(profile.source for profile in profiles)
        self.uuids |= {device.device.uuid for profile in profiles for device in profile.devices}

    @property
    def state(self) -> CaptureState:
        """The state in the API."""
        return self.service.state()

    @property
    def captures(self) -> Sequence[CaptureRecord]:
        """All captures, oldest first."""
        return tuple(self.state.captures)

    @property
    def outcomes(self) -> list[CaptureOutcome]:
        """The outcome of each capture."""
        return [capture.outcome for capture in self.captures]

    @property
    def waits(self) -> str | None:
        """The reason why the only finding is not captured."""
        (candidate,) = self.state.candidates
        return candidate.why_not

    @property
    def released(self) -> ReleaseRequest | None:
        """The active release of the counters."""
        return self.controls.released(ReleasableResource.COUNTERS)

    def run(self, name: str) -> None:
        """Run a job once."""
        (job,) = (each for each in self.service.jobs if each.name == name)
        job.run()

    def pass_minutes(self, count: int) -> None:
        """Continue training, with one observation a minute."""
        device = gpu()
        for _ in range(count):
            self.clock.pass_seconds(60.0)
            at = self.clock.time() / 1e9
            seen = snapshot(at, [device], {device: TRAINING}, interval_seconds=60.0)
            processes = None if self.pids is None else tuple(map(Process, self.pids))
            readings = {
                uuid: replace(reading, processes=processes)
                for uuid, reading in seen.readings.items()
            }
            seen = replace(
                seen,
                readings=readings,
                holdings={device.uuid: self.holders},
                wall_time=self.clock.wall_time(),
            )
            self.accounting.post(seen, (), lambda: _AGENT)
            self.run("capture")

    def pass_its_start(self) -> None:
        """Continue training until the recorder is called."""
        for _ in range(60):
            if self.captures:
                return
            self.pass_minutes(1)
        raise AssertionError(f"nobody was called: {self.state.candidates}")

    def settle(self) -> None:
        """Wait for the end of the running call."""
        eventually(lambda: CaptureOutcome.RUNNING not in self.outcomes)


@contextmanager
def capture_node(
    folder: Path, repository: CaptureRepository | None = None, **settings: Any
) -> Iterator[CaptureNode]:
    """The node, with a drop folder for profiles; the command records by default."""
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
