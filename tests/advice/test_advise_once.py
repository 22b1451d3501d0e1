"""One run of the recommender over a history without an agent."""

from pathlib import Path
from typing import Final

import pytest

from advice_history import keep_advice, saved_advice
from grafana_server import TOKEN, grafana_server
from recordings import BOARD, write_states
from rightsizer.advice.storage import Storage
from rightsizer.agent.offline_advice import explain_offline, run_offline
from rightsizer.agent.replay import filled_history, replay
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.main import main
from rightsizer.model.errors import HistoryError
from rightsizer.model.finding import Risk
from rightsizer.model.state import State
from rightsizer.recordings.source import open_recording

IDLE_SECONDS: Final = 4 * 3600


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Hours of a GPU that is held and idle."""
    idle = (State.IDLE_HELD, IDLE_SECONDS)
    log = write_states(tmp_path / "log.csv", idle, interval_seconds=10)
    source = open_recording([log], catalogue=built_in(), board=BOARD)
    with filled_history(tmp_path / "history.db") as filling:
        replay(source, Settings(), into=filling)
    source.close()
    return tmp_path / "history.db"


def test_advise_command_stores_the_advice_it_shows(history: Path) -> None:
    """The ledger then holds the same advice; a second run over the same past changes nothing."""
    _, shown, _ = run_offline(history, Settings())
    _, kept, _ = run_offline(history, Settings(), save=True)
    assert [each.id for each in kept] == [each.id for each in shown] != []
    assert [each.id for each in saved_advice(history)] == [each.id for each in kept]
    _, again, _ = run_offline(history, Settings(), save=True)
    assert [(each.id, each.opened) for each in again] == [(each.id, each.opened) for each in kept]


def test_explain_has_the_risk_that_advise_has(history: Path) -> None:
    """For any agent data saved before the history went on."""
    findings, (shown,), _ = run_offline(history, Settings())
    (found,) = (finding for finding in findings if finding.id == shown.id)
    old = {field: getattr(found, field) for field in found.__struct_fields__}
    old["risk"] = Risk.VERY_LOW
    keep_advice(history, shown.opened, **old)
    assert saved_advice(history)[0].finding.risk is Risk.VERY_LOW
    explained = explain_offline(history, Settings(), shown.id).advice
    assert explained.risk == shown.finding.risk != Risk.VERY_LOW


def test_grafana_is_reported_once(history: Path, tmp_path: Path) -> None:
    """Opened advice is annotated at the end of the run, and not again by the next."""
    token = tmp_path / "token"
    config = tmp_path / "rightsizer.yaml"
    token.write_text(TOKEN)
    with grafana_server() as server:
        config.write_text(f"grafana: {{url: '{server.url}', token_file: {token}}}\n")
        flags = ("--history.path", str(history), "--config.file", str(config))
        for _ in range(2):
            assert main(["advise", "--save", *flags]) == 0
        assert len(server.annotations) == len(saved_advice(history))
        assert not server.complaints


def test_advise_save_is_refused_beside_an_agent(history: Path) -> None:
    """The writer of the history holds its lock; reading is still allowed."""
    agent = Storage(str(history))
    try:
        with pytest.raises(HistoryError, match="history"):
            run_offline(history, Settings(), save=True)
        assert run_offline(history, Settings())
    finally:
        agent.close()


def test_advise_without_a_history_is_refused(tmp_path: Path) -> None:
    """A missing history is not created, and an empty one gives no advice."""
    absent = tmp_path / "none.db"
    with pytest.raises(HistoryError, match="does not exist; name one"):
        run_offline(absent, Settings(), save=True)
    assert not absent.exists()
    with filled_history(tmp_path / "empty.db"):
        pass
    (tmp_path / "empty.db").touch()
    with pytest.raises(HistoryError, match="is empty"):
        run_offline(tmp_path / "empty.db", Settings(), save=True)
