"""`rightsizer actions` explains why nothing is done: no advice, or none with an action."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from action_node import ActionNode, DurableRepository, action
from publish_reports import node_report
from readings import workload
from rightsizer.actions.controller import ActionController
from rightsizer.actions.encoder import ActionState
from rightsizer.actions.feature import actions_route
from rightsizer.actions.repository import ActionOutcome, ActionRepository
from rightsizer.actions.settings import ActionMode, ActionSettings
from rightsizer.advice.policy import RuleTree
from rightsizer.advice.storage import Storage
from rightsizer.cli.main import main
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Reason, Savings
from rightsizer.web.advice_api import AdviceApi
from rightsizer.web.server import WebServer
from rightsizer.web.settings import WebSettings

Captured = pytest.CaptureFixture[str]
DRY: ActionSettings = action(mode=ActionMode.DRY_RUN)


@contextmanager
def served(
    folder: Path, controller: ActionController, actions: Sequence[ActionSettings]
) -> Iterator[Path]:
    """A controller with the given state, at the returned socket."""
    path = folder / "api.sock"
    route = actions_route(lambda: ActionState(actions=actions, proposals=controller.proposals))
    server = WebServer(
        ["127.0.0.1:0"],
        latest=node_report,
        exposition=MetricsExposition(node_report),
        settings=WebSettings(),
        local_socket=str(path),
        local_routes=(route,),
    )
    server.start()
    try:
        yield path
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("advised", "message"),
    [
        ((), "nothing to do: no advice was open when the agent last looked"),
        (
            (Reason.HOST_BOUND,),
            "nothing to do: 1 recommendation is open, none of a reason and workload named here",
        ),
        ((Reason.IDLE_HELD,), "not now on advice-0 by release: its mode is dry_run"),
    ],
)
def test_people_see_why_nothing_is_done(
    advised: tuple[Reason, ...], message: str, tmp_path: Path, capsys: Captured
) -> None:
    """Each in one sentence, below the actions."""
    node = ActionNode(ActionRepository(Storage("").database), [workload("llama")])
    controller = node.controller(DRY)
    if advised:
        node.advise(reasons=advised)
    node.run(controller)
    capsys.readouterr()
    with served(tmp_path, controller, [DRY]) as path:
        assert main(["actions", "--path.api-socket", str(path)]) == 0

    lines = capsys.readouterr().out
    assert lines.startswith("release (command, dry_run): IdleHeld\n")
    assert message in " ".join(lines.split())
    assert ("nothing to do" in lines) == message.startswith("nothing to do")


def test_without_an_agent_only_what_was_done_is_known(tmp_path: Path, capsys: Captured) -> None:
    """The output says so, since pending actions are unknown."""
    storage = Storage(str(tmp_path / "history.db"))
    node = ActionNode(ActionRepository(storage.database), [workload("llama")])
    node.advise()
    node.run(node.controller(DRY))
    storage.close()
    capsys.readouterr()
    file = tmp_path / "settings.yaml"
    file.write_text("actions: [{name: release, reasons: [IdleHeld], command: ['true']}]\n")
    history = ("--history.path", str(tmp_path / "history.db"))

    assert main(["actions", *history, "--config.file", str(file)]) == 0
    output = capsys.readouterr().out
    assert "no agent was asked" in output
    assert "dry_run" in output.splitlines()[-1]


class NodeLedger:
    """The advice of a node, and decisions on it by clients of its socket."""

    def __init__(self, node: ActionNode) -> None:
        self._node = node

    @property
    def advice(self) -> tuple[Advice, ...]:
        """All of it."""
        return tuple(self._node.advice)

    def act(
        self, advice_id: str, state: AdviceState, actor: str, why: str, for_seconds: float | None
    ) -> Advice:
        """Decide as root."""
        self._node.become(advice_id, state, actor, why)
        return next(each for each in self._node.advice if each.id == advice_id)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[ActionNode]:
    """Three notebooks of research and one of sales, whose release waits for approval."""
    names = ("research/a", "research/b", "research/c", "sales/a")
    node = ActionNode(DurableRepository(), [workload(name) for name in names])
    controller = node.controller(action(mode=ActionMode.APPROVE, at_most_per_day=10))
    for index, _ in enumerate(names):
        node.advise(
            index, reasons=(Reason.IDLE_HELD,), savings=Savings(1.0, 1.0, 2.0, 2.0, price_date="x")
        )
    node.run(controller)
    server = WebServer(
        (),
        latest=node_report,
        exposition=MetricsExposition(node_report),
        local_socket=str(tmp_path / "s"),
        local_routes=(
            *AdviceApi(NodeLedger(node), RuleTree()).routes,
            actions_route(controller.state),
        ),
    )
    server.start()
    yield node
    server.stop()


def approve(tmp_path: Path, *flags: str) -> int:
    """Ask the node to approve."""
    return main(["actions", "approve", "--path.api-socket", str(tmp_path / "s"), *flags])


def test_a_group_is_listed_before_it_is_approved(
    group: ActionNode, tmp_path: Path, capsys: Captured
) -> None:
    """With what it saves; without a terminal nothing is approved."""
    capsys.readouterr()
    assert approve(tmp_path, "--workload", "slurm/research/*") == 0
    told = capsys.readouterr().out
    assert told.startswith("Waiting for approval: 3 actions, which save $144 a day together\n")
    assert [line.split()[1] for line in told.splitlines()[2:5]] == [
        "advice-0",
        "advice-1",
        "advice-2",
    ]
    assert told.endswith("Nothing is approved: add --yes to approve them.\n")
    assert not any(advice.trial_since for advice in group.advice)


def test_a_group_is_approved_by_one_confirmation(
    group: ActionNode, tmp_path: Path, capsys: Captured
) -> None:
    """The agent does them in turn, and its audit log has who approved."""
    capsys.readouterr()
    flags = ("--workload", "slurm/research/*", "--reason", "IdleHeld", "--actor", "ana")
    assert approve(tmp_path, *flags, "--yes") == 0
    assert "Approved by ana: 3 actions." in capsys.readouterr().out
    (controller,) = group.controllers
    for _ in range(4):
        group.run(controller)
    done = [record for record in group.records if record.outcome is ActionOutcome.DONE]
    assert [each.advice for each in done] == ["advice-0", "advice-1", "advice-2"]
    assert {each.actor for each in done} == {"ana (uid 0)"}


def test_nothing_that_waits_is_no_fault(
    group: ActionNode, tmp_path: Path, capsys: Captured
) -> None:
    """Of another reason, or of a workload that is not there."""
    capsys.readouterr()
    assert approve(tmp_path, "--reason", "HiddenStall", "--yes") == 0
    assert approve(tmp_path, "--reason", "Idelheld", "--yes") == 2
    assert "did you mean IdleHeld?" in capsys.readouterr().err
    assert approve(tmp_path, "--reason", "HiddenStall", "--yes") == 0
    assert "No action of these waits for an approval" in capsys.readouterr().out
    assert not any(advice.trial_since for advice in group.advice)


def test_json_is_one_document(group: ActionNode, tmp_path: Path, capsys: Captured) -> None:
    """Without --yes it only lists."""
    capsys.readouterr()
    assert approve(tmp_path, "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert (len(listed["waiting"]), listed["approved"]) == (4, [])
    assert approve(tmp_path, "--json", "--yes") == 0
    logged = capsys.readouterr().out
    done = json.loads(logged[logged.index("{\n") :])
    assert len(done["approved"]) == 4
    assert sum(advice.trial_since is not None for advice in group.advice) == 4


def test_without_an_agent_nothing_can_be_approved(tmp_path: Path, capsys: Captured) -> None:
    """The socket is named."""
    assert approve(tmp_path, "--yes") == 1
    assert f"no agent answers at {tmp_path / 's'}" in capsys.readouterr().err
    assert main(["actions", "--yes"]) == 2
