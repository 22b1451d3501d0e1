"""Owners that are not proven: shown, never acted on; with real processes in real control groups."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from action_node import LLAMA, ActionNode, DurableRepository, action, action_node, noting
from nvml_driver import FakeDriver, FakeGpu, reading
from pretended_owner import JOB, POD, USER, hierarchies, made_group, pretended_owner, process_in
from rightsizer.actions.repository import ActionOutcome, ActionVerdict
from rightsizer.actions.settings import ActionMode, ActionWebhookSettings
from rightsizer.host.process_table import ProcessTable
from rightsizer.io.clock import FastClock
from rightsizer.model.advice import AdviceState
from rightsizer.model.workload import Holding, Workload
from webhook_server import webhook_server

GPU: Final = "GPU-0"
DOUBTED: Final = replace(LLAMA, unproven="user 7 may name what is in control group /x")


@pytest.mark.parametrize("mode", [ActionMode.AUTOMATIC, ActionMode.APPROVE, ActionMode.DRY_RUN])
def test_action_on_unproven_owner_is_refused(tmp_path: Path, mode: ActionMode) -> None:
    """In each mode, by command and webhook, and with the approval of root; the reason is logged."""
    file = tmp_path / "notes"
    with webhook_server() as inbox, acting([DOUBTED]) as node:
        hook = ActionWebhookSettings(f"{inbox.url}/act")
        controller = node.controller(
            action(mode=mode, command=noting(file)),
            action(name="tell", mode=mode, command=(), webhook=hook),
        )
        node.advise()
        node.run(controller)
        node.become("advice-0", AdviceState.CLAIMED)
        node.run(controller)
        assert inbox.paths == []
    assert not file.exists()
    assert not any(outcome.is_execution for outcome in node.outcomes)
    first = {record.action: (record.verdict, record.why) for record in reversed(node.records)}
    refused = ActionVerdict.UNPROVEN, f"its owner is not proven: {DOUBTED.unproven}"
    assert first == {"release": refused, "tell": refused}


def test_one_doubt_about_a_workload_is_enough(tmp_path: Path) -> None:
    """A pretender of the same key on another GPU must not lend it the proof of the real one."""
    for holders in ([LLAMA, DOUBTED], [DOUBTED, LLAMA]):
        with acting(holders) as node:
            controller = node.controller(action(command=noting(tmp_path / "notes")))
            node.advise()
            node.run(controller)
            assert [record.verdict for record in node.records] == [ActionVerdict.UNPROVEN]
    assert not (tmp_path / "notes").exists()


@pytest.mark.parametrize("path", [JOB, POD])
@pytest.mark.parametrize("hierarchy", ["", "name=systemd"])
def test_pretended_owner_leads_to_no_action(tmp_path: Path, hierarchy: str, path: str) -> None:
    """From a user's process on a GPU to an automatic action for any owner."""
    with pretender(hierarchy, path) as pid:
        (workload,) = holders_of(pid)
    assert workload.unproven
    assert "4242" not in workload.name
    assert acted(workload, tmp_path / "notes") is False


@pytest.mark.parametrize("hierarchy", ["", "name=systemd"])
def test_job_of_slurmd_is_acted_on(tmp_path: Path, hierarchy: str) -> None:
    """The same groups made by root at slurmd's place are a job, whose number is handed on."""
    name = f"slurm_rightsizer-{USER}/uid_0/job_4242/step_0"
    with ExitStack() as stack:
        folder = stack.enter_context(made_group(mount_of(hierarchy), name))
        pid = stack.enter_context(process_in(folder))
        ((workload, processes),) = ((each.workload, each.processes) for each in held_by(pid))
        assert processes == (ProcessTable("/proc").generation(pid),)
    assert (workload.key, workload.unproven) == ("slurm:4242", "")
    assert acted(workload, tmp_path / "notes") is True
    assert (tmp_path / "notes").read_text() == "['4242']\n"


def mount_of(hierarchy: str) -> Path:
    """Mount point of a hierarchy that can be written."""
    mounts = hierarchies()
    if hierarchy not in mounts:
        pytest.skip(f"no hierarchy '{hierarchy}' is mounted here")
    try:
        with made_group(mounts[hierarchy], f"rightsizer-probe-{USER}"):
            return mounts[hierarchy]
    except OSError as error:
        pytest.skip(f"control groups cannot be made here: {error}")


@contextmanager
def pretender(hierarchy: str, path: str) -> Iterator[int]:
    """A pretended owner, if the machine allows it."""
    with pretended_owner(path, root=mount_of(hierarchy)) as pid:
        yield pid


@contextmanager
def acting(holders: list[Workload]) -> Iterator[ActionNode]:
    """A node with a GPU for each holder."""
    with action_node() as node:
        node.holders = holders
        node.hold()
        yield node


def holders_of(pid: int) -> tuple[Workload, ...]:
    """Workloads on a GPU that the driver says a process is on, by this machine's files."""
    return tuple(holding.workload for holding in held_by(pid))


def held_by(pid: int) -> tuple[Holding, ...]:
    """The same, with the processes."""
    driver = FakeDriver(FakeGpu(GPU, processes={pid: 1 << 30}))
    with reading(driver, FastClock(0), Path("/")) as source:
        return source.read().holdings[GPU]


def acted(workload: Workload, file: Path, **facts: Any) -> bool:
    """Whether an automatic action for anything idle ran for a workload."""
    node = ActionNode(DurableRepository(), [workload])
    controller = node.controller(action(command=noting(file, "{workload}"), **facts))
    try:
        node.advise()
        for _ in range(3):
            node.run(controller)
    finally:
        controller.stop()
    assert file.exists() is (ActionOutcome.DONE in node.outcomes)
    return file.exists()
