"""`rightsizer actions` explains why nothing is done: no advice, or none with an action."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from action_node import ActionNode, action
from publish_reports import node_report
from readings import workload
from rightsizer.actions.controller import ActionController
from rightsizer.actions.encoder import ActionState
from rightsizer.actions.feature import actions_route
from rightsizer.actions.repository import ActionRepository
from rightsizer.actions.settings import ActionMode, ActionSettings
from rightsizer.advice.storage import Storage
from rightsizer.cli.main import main
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.finding import Reason
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
