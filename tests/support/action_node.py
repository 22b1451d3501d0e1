"""A node with idle workloads, their advice, and a controller that may act on it."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from agent_process import eventually
from capture_node import SetClock
from cases import finding
from readings import EPOCH, HELD, gpu, snapshot, workload
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.actions.audit_log import AuditLog
from rightsizer.actions.controller import ActionContext, ActionController
from rightsizer.actions.repository import ActionOutcome, ActionRecord, ActionRepository
from rightsizer.actions.runner import ActionRunner
from rightsizer.actions.settings import ActionLimits, ActionMode, ActionSettings, ActionsSettings
from rightsizer.advice.storage import Storage
from rightsizer.host.process_table import ProcessTable
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Reason
from rightsizer.model.report import AgentReport
from rightsizer.model.workload import Holding, ProcessGeneration, Workload
from rightsizer.web.message import SocketPeer

__all__ = [
    "FREE",
    "LLAMA",
    "ROOT",
    "ActionNode",
    "DurableRepository",
    "action",
    "action_node",
    "noting",
]

LLAMA: Final = workload("llama")
ROOT: Final = SocketPeer(1, 0, 0)
FREE: Final = ActionLimits(pause_seconds=0.0)
_AGENT: Final = AgentReport("0", "test", EPOCH, 60.0)
_NOTES: Final = "import sys; open(sys.argv[1], 'a').write(repr(sys.argv[2:]) + chr(10))"


class DurableRepository(ActionRepository):
    """A repository in memory that claims to survive a kill."""

    is_kept = True

    def __init__(self) -> None:
        super().__init__(Storage("").database)


def noting(file: Path, *words: str) -> tuple[str, ...]:
    """The command of a program that records its arguments."""
    return (sys.executable, "-IS", "-c", _NOTES, str(file), *words)


def action(**facts: Any) -> ActionSettings:
    """An action on held idle GPUs, run immediately by default."""
    usual: dict[str, Any] = {
        "name": "release",
        "reasons": (Reason.IDLE_HELD,),
        "mode": ActionMode.AUTOMATIC,
        "command": ("true",),
        "at_most_share_of_gpus": 1.0,
    }
    return ActionSettings(**usual | facts)


class ActionNode:
    """The node, with one GPU for each holder."""

    def __init__(self, repository: ActionRepository, holders: Sequence[Workload]) -> None:
        self.clock = SetClock()
        self.accounting = AccountingService(AccountingSettings())
        self.clock.pass_seconds(1000.0)
        self.repository = repository
        self.holders = holders
        self.advice: list[Advice] = []
        self.controllers: list[ActionController] = []
        self.processes: dict[int, tuple[ProcessGeneration, ...]] = {}
        """Of holders on their GPUs, by index."""
        self.hold()

    def hold(self) -> None:
        """Let every holder hold its GPU and idle."""
        devices = [gpu(index) for index in range(len(self.holders))]
        seen = snapshot(
            self.clock.time() / 1e9, devices, dict.fromkeys(devices, HELD), interval_seconds=1.0
        )
        seen = replace(
            seen,
            wall_time=self.clock.wall_time(),
            holdings={
                device.uuid: (Holding(held, 1.0, processes=self.processes.get(device.index, ())),)
                for device, held in zip(devices, self.holders, strict=True)
            },
        )
        self.accounting.post(seen, (), lambda: _AGENT)

    def advise(self, index: int = 0, **facts: Any) -> Advice:
        """Open advice on a holder's GPU."""
        held = self.holders[index]
        now = self.clock.wall_time()
        usual = {
            "id": f"advice-{index}",
            "devices": (f"GPU-{index}",),
            "workload": held.key,
            "confidence": 0.95,
        }
        advice = Advice(finding(**usual | facts), AdviceState.ACTIVE, opened=now, updated=now)
        self.advice = [*(each for each in self.advice if each.id != advice.id), advice]
        return advice

    def become(  # noqa: PLR0913 - what, by whom, and as whom the kernel knows him.
        self,
        advice_id: str,
        state: AdviceState,
        actor: str = "ana",
        why: str = "",
        *,
        peer: SocketPeer | None = ROOT,
        identity: str | None = None,
    ) -> None:
        """Apply a user's decision or an outcome to advice."""
        now = self.clock.wall_time()
        trial_since = now if state is AdviceState.CLAIMED else None
        self.advice = [
            replace(advice, state=state, actor=actor, why=why, updated=now, trial_since=trial_since)
            if advice.id == advice_id
            else advice
            for advice in self.advice
        ]
        if state is AdviceState.CLAIMED:
            (claimed,) = (advice for advice in self.advice if advice.id == advice_id)
            for controller in self.controllers:
                controller.note_claim(claimed, actor, peer, identity)

    def controller(
        self,
        *actions: ActionSettings,
        limits: ActionLimits = FREE,
        boot: str = "boot",
        journal: Path | None = None,
        runner: ActionRunner | None = None,
        approvers: tuple[str, ...] = (),
    ) -> ActionController:
        """A controller as constructed at the agent's start."""
        table = ProcessTable("/proc")
        context = ActionContext(
            self.accounting.latest,
            lambda: self.advice,
            self._claim,
            lambda process: table.generation(process.pid) == process,
        )
        self.audit = AuditLog(self.repository, str(journal or ""), self.clock, boot)
        acting = ActionsSettings(approvers=approvers, limits=limits)
        runner = runner or ActionRunner()
        controller = ActionController(
            actions, acting, context, runner, self.audit, clock=self.clock
        )
        controller.start()
        self.controllers.append(controller)
        return controller

    def _claim(self, advice_id: str, actor: str, why: str) -> None:
        self.become(advice_id, AdviceState.CLAIMED, actor, why, peer=None)

    @property
    def records(self) -> Sequence[ActionRecord]:
        """All entries, oldest first."""
        return self.repository.records()

    @property
    def outcomes(self) -> list[ActionOutcome]:
        """The outcome of each action."""
        return [record.outcome for record in self.records]

    def run(self, controller: ActionController, passed_seconds: float = 60.0) -> None:
        """Run a controller once, a while later, and wait for its actions."""
        self.clock.pass_seconds(passed_seconds)
        self.hold()
        controller.run()
        eventually(lambda: ActionOutcome.STARTED not in self.outcomes)


@contextmanager
def action_node(
    repository: ActionRepository | None = None, holders: int = 1
) -> Iterator[ActionNode]:
    """The node; its controllers are stopped at the end."""
    names = ["llama", *(f"job-{number}" for number in range(1, holders))]
    node = ActionNode(repository or DurableRepository(), [workload(name) for name in names])
    try:
        yield node
    finally:
        for controller in node.controllers:
            controller.stop()
