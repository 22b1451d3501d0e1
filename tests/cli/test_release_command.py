"""`rightsizer release` and `rightsizer resume`, over a real socket to real controls."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from readings import EPOCH, SECOND
from rightsizer.agent.local_api import ControlRoutes
from rightsizer.cli.main import main
from rightsizer.cli.release import wait_until_done
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.io.clock import FastClock, SystemClock
from rightsizer.model.errors import RightsizerError
from rightsizer.telemetry.source import ReleasableResource, ReleaseController, ReleaseRequest
from rightsizer.web.server import WebServer

Captured = pytest.CaptureFixture[str]


class Agent:
    """Controls behind a socket, and a driver that takes its time."""

    def __init__(self, path: Path) -> None:
        self.controls = ReleaseController(SystemClock())
        self.polls_until_done = 0
        self.path = path
        self._server = WebServer(
            (),
            latest=lambda: None,
            exposition=MetricsExposition(lambda: None),
            local_socket=str(path),
            local_routes=ControlRoutes(self.controls, SystemClock(), self._still_held).routes,
        )
        self._server.start()

    def _still_held(self, release: ReleaseRequest) -> str | None:
        self.polls_until_done -= 1
        return f"2 handles of the {release.held}" if self.polls_until_done >= 0 else None

    def stop(self) -> None:
        """Stop listening."""
        self._server.stop()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """An agent that releases at once."""
    agent = Agent(tmp_path / "api.sock")
    # Its log is no output of the command.
    with capture_logs():
        yield agent
    agent.stop()


def at(agent: Agent, *arguments: str) -> list[str]:
    """A command line that names the agent."""
    return [*arguments, "--path.api-socket", str(agent.path)]


def test_the_gpus_are_let_go_until_they_are_taken_back(agent: Agent, capsys: Captured) -> None:
    """The output says what was released, and how to resume it."""
    assert main(at(agent, "release")) == 0
    release = agent.controls.released(ReleasableResource.GPUS)
    assert capsys.readouterr().out == (
        "Let go of the GPUs: every handle is closed and nothing is read.\n"
        "It stays so until 'rightsizer resume gpus', or until the agent restarts.\n"
    )
    assert release is not None
    assert release.until is None

    assert main(at(agent, "resume", "gpus")) == 0
    assert capsys.readouterr().out == "Taken back: gpus.\n"
    assert agent.controls.released(ReleasableResource.GPUS) is None


def test_the_counters_are_let_go_for_a_time(agent: Agent, capsys: Captured) -> None:
    """The time of the resumption is in UTC."""
    assert main(at(agent, "release", "counters", "--for", "30m")) == 0
    release = agent.controls.released(ReleasableResource.COUNTERS)
    said = capsys.readouterr().out

    assert said.startswith("Let go of the profiling counters: all else is read on.\n")
    assert " UTC, or before by 'rightsizer resume counters'." in said
    assert release is not None
    assert release.until == release.since + 1800 * SECOND
    assert agent.controls.released(ReleasableResource.GPUS) is None


def test_it_waits_until_all_is_let_go(agent: Agent, capsys: Captured) -> None:
    """A script may continue once the command has ended."""
    agent.polls_until_done = 3
    assert main(at(agent, "release", "gpus", "--json")) == 0
    document = json.loads(capsys.readouterr().out)

    assert agent.polls_until_done < 0
    assert (document["held"], document["is_done"], document["still_held"]) == ("gpus", True, None)
    assert document["until"] is None


def test_release_timeout_names_what_is_still_held(agent: Agent, capsys: Captured) -> None:
    """The request stays in force."""
    agent.polls_until_done = 10**6
    assert main(at(agent, "release", "gpus", "--wait", "200ms")) == 1
    said = capsys.readouterr()

    assert said.out == ""
    assert said.err == (
        "rightsizer: the gpus are not let go after 0.2 s: 2 handles of the gpus; the request "
        "stands: wait longer with --wait, or drop it by 'rightsizer resume gpus'\n"
    )
    assert agent.controls.released(ReleasableResource.GPUS) is not None


def test_resuming_without_a_name_takes_all_back(agent: Agent, capsys: Captured) -> None:
    """It says so, in both forms; a second time there is nothing to resume."""
    for held in ReleasableResource:
        agent.controls.release(held)
    assert main(at(agent, "resume")) == 0
    assert capsys.readouterr().out == "Taken back: gpus and counters.\n"
    assert main(at(agent, "resume")) == 0
    assert capsys.readouterr().out == "Nothing to take back: it was not let go.\n"
    assert main(at(agent, "resume", "--json")) == 0
    assert json.loads(capsys.readouterr().out) == {"resumed": []}


def test_the_configuration_names_the_socket(agent: Agent, tmp_path: Path, capsys: Captured) -> None:
    """The file is the agent's."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text(f"path: {{api_socket: {agent.path}}}\n")
    assert main(["release", "--config.file", str(file)]) == 0
    capsys.readouterr()

    file.write_text("path: {api_socket: ''}\n")
    assert main(["release", "--config.file", str(file)]) == 1
    assert "path.api_socket is empty, so the agent takes no requests" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["release", "resume"])
def test_without_an_agent_there_is_one_line(command: str, tmp_path: Path, capsys: Captured) -> None:
    """It names the socket and how to start an agent."""
    assert main([command, "--path.api-socket", str(tmp_path / "api.sock")]) == 1
    (line,) = capsys.readouterr().err.splitlines()

    assert line.startswith("rightsizer: no agent runs here: there is no socket ")
    assert "systemctl start rightsizer" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["release", "handles"], "invalid choice: 'handles'"),
        (["release", "--for", "0s"], "release: --for: '0s' is no time at all"),
        (["release", "--for", "soon"], "release: --for: 'soon' is not a duration"),
        (["release", "--wait", "5"], "release: --wait: '5' is not a duration"),
        (["resume", "everything"], "invalid choice: 'everything'"),
    ],
)
def test_a_value_that_makes_no_sense_never_reaches_the_agent(
    arguments: list[str], message: str, capsys: Captured
) -> None:
    """The error names its flag."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_request_refused_by_the_agent_is_a_usage_error(agent: Agent, capsys: Captured) -> None:
    """With the agent's message."""
    assert main(at(agent, "release", "--for", "2y")) == 2
    assert "for: '2y' is not between 0 s and 366 d" in capsys.readouterr().err


def test_help_has_the_recipe_of_a_driver_update(capsys: Captured) -> None:
    """As separate lines to copy, between wrapped text."""
    with pytest.raises(SystemExit):
        main(["release", "--help"])
    said = capsys.readouterr().out

    assert "\n\n  rightsizer release gpus --wait 30s\n  systemctl stop" in said
    assert "\n  systemctl restart rightsizer\n\nThe restart loads" in said
    assert all(word in said for word in ("VFIO", "profiler", "30m", "default: 10s", "api.sock"))


def test_a_release_that_ends_while_it_is_waited_for_is_reported() -> None:
    """Its time was over, or someone resumed it."""
    forms = iter([{"is_done": False, "still_held": "a handle"}, None])
    with pytest.raises(RightsizerError, match="the gpus were taken back before all of them"):
        wait_until_done(ReleasableResource.GPUS, lambda: next(forms), 5.0, FastClock(EPOCH))


def test_it_asks_once_more_when_the_time_is_over() -> None:
    """A timeout below the polling interval suffices for a quick agent."""
    clock = FastClock(EPOCH)
    answers = threading.Event()

    def ask() -> dict[str, object]:
        is_done = answers.is_set()
        answers.set()
        return {"is_done": is_done, "still_held": "a handle"}

    assert wait_until_done(ReleasableResource.GPUS, ask, 0.01, clock)["is_done"] is True
    assert clock.time() == EPOCH + SECOND // 100
