"""`rightsizer claim`, `dismiss` and `snooze`: by socket, or under the history's lock."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from advice_history import keep_advice, saved_advice
from fake_ledger import FakeLedger
from grafana_server import grafana_server
from rightsizer.advice.policy import RuleTree
from rightsizer.advice.storage import Storage
from rightsizer.cli.main import main
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.advice import AdviceState
from rightsizer.notify.grafana.service import AnnotationOutbox
from rightsizer.web.advice_api import AdviceApi
from rightsizer.web.server import WebServer

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Restore logging, which the command sets up."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with a history and no running agent."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text(
        f"history: {{path: {tmp_path}/h.db}}\npath: {{api_socket: {tmp_path}/s}}\n"
        "web: {listen_addresses: ['127.0.0.1:9']}\n"
    )
    return file


def run(config: Path, *arguments: str) -> int:
    """A command line with this configuration."""
    return main([*arguments, "--config.file", str(config)])


def test_the_running_agent_is_asked(config: Path, capsys: Captured) -> None:
    """By its socket; it returns the resulting state of the advice."""
    ledger = FakeLedger()
    server = WebServer(
        (),
        latest=lambda: None,
        exposition=MetricsExposition(lambda: None),
        local_socket=str(config.parent / "s"),
        local_routes=AdviceApi(ledger, RuleTree()).routes,
    )
    server.start()
    with capture_logs():
        status = run(config, "snooze", "a1b2c3", "--why", "later", "--for", "7d", "--actor", "ana")
        wrong = run(config, "snooze", "a1b2c4")
        closed = run(config, "claim", "d4e5f6")
    server.stop()
    said = capsys.readouterr()

    assert (status, wrong, closed) == (0, 2, 2)
    assert ledger.acts == [("a1b2c3", AdviceState.SNOOZED, "ana", "later", 7 * 86400.0)]
    assert said.out == "Snoozed by ana: GPU-0 has been held idle for 6 h.\n"
    unknown, done = said.err.splitlines()
    assert unknown == "rightsizer: there is no advice 'a1b2c4'; did you mean a1b2c3?"
    assert done.startswith("rightsizer: advice 'd4e5f6' is closed already: dismissed by ana; see")


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("claim", AdviceState.CLAIMED),
        ("dismiss", AdviceState.DISMISSED),
        ("snooze", AdviceState.SNOOZED),
    ],
)
def test_without_an_agent_the_history_is_changed(
    config: Path, capsys: Captured, verb: str, state: AdviceState
) -> None:
    """Author, reason and end are kept for the next agent."""
    history = config.parent / "h.db"
    id_ = keep_advice(history)
    assert run(config, verb, id_, "--why", "later", "--actor", "ana", "--json") == 0
    document = json.loads(capsys.readouterr().out)["advice"]
    (advice,) = saved_advice(history)

    assert (document["state"], document["actor"]) == (state, "ana")
    assert (advice.state, advice.actor, advice.why) == (state, "ana", "later")


def test_a_dismissal_without_an_agent_ends_its_annotation_later(config: Path) -> None:
    """The event waits in the outbox; nothing is sent meanwhile."""
    history = config.parent / "h.db"
    id_ = keep_advice(history)
    with grafana_server() as grafana:
        config.write_text(config.read_text() + f"grafana: {{url: {grafana.url}}}\n")
        assert run(config, "dismiss", id_) == 0
        asked = list(grafana.requests)
    storage = Storage(str(history), read_only=True)
    waiting = [letter.body.event for letter in AnnotationOutbox(storage.database).pending()]
    storage.close()

    assert asked == []
    assert waiting == ["closed"]


def test_impossible_claim_is_refused_with_the_reason(config: Path, capsys: Captured) -> None:
    """No history, a locked one, an unknown id, or closed advice."""
    assert run(config, "claim", "abc") == 1
    history = config.parent / "h.db"
    id_ = keep_advice(history)
    assert run(config, "claim", "x" + id_[1:]) == 2
    holder = Storage(str(history))
    assert run(config, "claim", id_) == 1
    holder.close()
    assert run(config, "dismiss", id_, "--actor", "ana") == 0
    assert run(config, "dismiss", id_) == 2
    said = capsys.readouterr().err.splitlines()

    assert "does not exist; name one with --history.path" in said[0]
    assert f"no agent answers at {config.parent}/s" in said[0]
    assert f"did you mean {id_}?" in said[1]
    assert f"no agent answers at {config.parent}/s" in said[2]
    assert "closed already: dismissed by ana" in said[3]


@pytest.mark.parametrize("span", ["0s", "soon", "-1d"])
def test_a_time_that_is_none_is_refused(config: Path, capsys: Captured, span: str) -> None:
    """Before any request."""
    with pytest.raises(SystemExit) as left:
        run(config, "snooze", "abc", f"--for={span}")

    assert left.value.code == 2
    assert "--for" in capsys.readouterr().err
