"""Holders are looked at again immediately before an action runs; real processes hold the GPU."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from action_node import LLAMA, ActionNode, action, action_node, noting
from readings import workload
from rightsizer.actions.repository import ActionOutcome, ActionVerdict
from rightsizer.actions.runner import ActionRunner
from rightsizer.actions.settings import ActionWebhookSettings
from rightsizer.host.process_table import ProcessTable
from webhook_server import webhook_server


class LateRunner(ActionRunner):
    """Something happens between the decision and the action."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__()
        self._happens = happens

    def start(self, *arguments: Any) -> None:
        """Let it happen, and start the action."""
        self._happens()
        super().start(*arguments)


@pytest.fixture
def node() -> Iterator[ActionNode]:
    """A node with a workload on one GPU."""
    with action_node() as node:
        yield node


@pytest.fixture
def holder(node: ActionNode) -> Iterator["subprocess.Popen[bytes]"]:
    """Its process."""
    process = subprocess.Popen(["sleep", "600"])
    hold_by(node, process.pid)
    yield process
    process.kill()
    process.wait()


def hold_by(node: ActionNode, *pids: int) -> None:
    """Let processes hold the GPU, as the last report says."""
    table = ProcessTable("/proc")
    found = [table.generation(pid) for pid in pids]
    node.processes[0] = tuple(each for each in found if each is not None)
    node.hold()


def another_tenant(node: ActionNode) -> None:
    """Another workload takes the GPU."""
    node.holders = [workload("other")]
    node.hold()


def no_tenant(node: ActionNode) -> None:
    """Nothing holds the GPU."""
    node.holders = []
    node.hold()


def doubt(node: ActionNode) -> None:
    """The owner is not proven any more."""
    node.holders = [replace(LLAMA, unproven="user 7 may name what is in group /x")]
    node.hold()


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (another_tenant, f"{LLAMA.key} no longer holds GPU-0"),
        (no_tenant, f"{LLAMA.key} no longer holds GPU-0"),
        (doubt, f"the owner of {LLAMA.key} on GPU-0 has changed: user 7 may name"),
    ],
)
@pytest.mark.usefixtures("holder")
def test_action_for_changed_holders_is_refused(
    node: ActionNode, tmp_path: Path, happens: Callable[[ActionNode], None], why: str
) -> None:
    """By command and by webhook; the record says what changed."""
    file = tmp_path / "notes"
    with webhook_server() as inbox:
        hook = ActionWebhookSettings(f"{inbox.url}/act")
        for facts in ({"command": noting(file)}, {"command": (), "webhook": hook}):
            node.holders = [LLAMA]
            runner = LateRunner(lambda: happens(node))
            controller = node.controller(action(**facts), runner=runner)
            node.advise()
            node.run(controller)
            last = node.records[-1]
            assert (last.outcome, last.verdict) == (ActionOutcome.REFUSED, ActionVerdict.CHANGED)
            assert last.why.startswith(why)
        assert inbox.paths == []
    assert not file.exists()


def test_action_is_refused_where_the_process_has_ended(
    node: ActionNode, holder: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    """The last report does not know yet; what holds the GPU next is decided on by itself."""
    file = tmp_path / "notes"

    def end() -> None:
        holder.kill()
        holder.wait()

    controller = node.controller(action(command=noting(file)), runner=LateRunner(end))
    node.advise()
    node.run(controller)
    (refused,) = node.records
    assert refused.verdict is ActionVerdict.CHANGED
    assert refused.why == f"{LLAMA.key} has other processes on GPU-0 than when it was decided"
    assert not file.exists()
    assert node.advice[0].actor != "action:release"
    with subprocess.Popen(["sleep", "600"]) as successor:
        hold_by(node, successor.pid)
        node.run(controller)
        successor.kill()
    assert node.outcomes == [ActionOutcome.REFUSED, ActionOutcome.DONE]
    assert file.exists()


def test_action_is_refused_for_a_later_process_of_the_same_number(
    node: ActionNode, holder: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    """The kernel gives pids again; the start tells them apart, and so does the control group."""
    file = tmp_path / "notes"
    (seen,) = node.processes[0]
    assert seen.pid == holder.pid
    for other in (
        replace(seen, started_ticks=seen.started_ticks - 1),
        replace(seen, control_groups="0::/other\n"),
    ):
        node.processes[0] = (other,)
        node.advise()
        node.run(node.controller(action(command=noting(file))))
        assert node.records[-1].verdict is ActionVerdict.CHANGED
    assert not file.exists()


@pytest.mark.usefixtures("holder")
def test_action_runs_while_a_process_of_its_workload_remains(
    node: ActionNode, holder: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    """Others of the same workload come and go."""
    file = tmp_path / "notes"
    with subprocess.Popen(["sleep", "600"]) as helper:
        hold_by(node, holder.pid, helper.pid)

        def end() -> None:
            helper.kill()
            helper.wait()

        node.advise()
        node.run(node.controller(action(command=noting(file)), runner=LateRunner(end)))
    assert node.outcomes == [ActionOutcome.DONE]
    assert file.exists()
