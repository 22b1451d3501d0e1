"""Files of the agent: any content is read, or rejected with our own error."""

import json
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given

from mutations import mutated_bytes, mutated_tree
from readings import EPOCH, HOUR, MINUTE
from rightsizer.accounting.history import HistoryRepository
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.accounting.window_codec import decode_window, encode_window
from rightsizer.advice.policy import PolicySet
from rightsizer.advice.rules import RULES
from rightsizer.advice.service import Recommender
from rightsizer.advice.storage import MIGRATIONS
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.config.loader import load
from rightsizer.io.clock import FastClock
from rightsizer.io.database import Database
from rightsizer.io.yaml import dump_yaml
from rightsizer.model.errors import ConfigurationError, RecordingError
from rightsizer.model.state import State
from rightsizer.model.window import Window
from rightsizer.recordings.source import open_recording

TESTS: Final = Path(__file__).parent.parent
RECORDINGS: Final = {
    path.name: path.read_bytes()[:4000]
    for path in sorted((TESTS / "recordings" / "data").iterdir())
    if path.suffix in {".csv", ".prom", ".txt"}
}
CONFIGURATION: Final[dict[str, Any]] = {
    "web": {"listen_addresses": ["127.0.0.1:19400"], "server": {"connections_maximum": 64}},
    "history": {"path": "/tmp/h.db", "retention": "30d"},
    "sources": {
        "dcgm": {"url": "http://127.0.0.1:9400/metrics"},
        "serving": {"endpoints": [{"url": "http://127.0.0.1:8000/metrics", "gpus": ["0"]}]},
    },
    "recommender": {"interval": "10m", "rules": {"idle": {}}},
    "webhooks": [{"url": "http://127.0.0.1:9/hook", "name": "chat"}],
    "grafana": {"url": "http://127.0.0.1:3000", "token_file": "/nowhere"},
    "log": {"level": "info"},
}
WINDOW: Final = Window(
    uuid="GPU-0",
    start=EPOCH,
    end=EPOCH + 5 * MINUTE,
    states={State.PRODUCTIVE: 5 * MINUTE},
    used_seconds=200.0,
    energy_joules=1e5,
)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_of_each_format(tmp_path: Path, name: str) -> None:
    """Real recordings with odd bytes in a few places."""
    path = tmp_path / name

    @given(mutated_bytes(RECORDINGS[name]))
    def check(content: bytes) -> None:
        message = ""
        path.write_bytes(content)
        try:
            source = open_recording([path], catalogue=built_in())
            while source.read() is not None:
                pass
            source.close()
        except RecordingError as error:
            message = str(error)
        assert not message or str(path) in message

    check()


def test_the_configuration_is_right_to_begin_with() -> None:
    """The unmodified input is accepted."""
    assert load(Settings, dump_yaml(CONFIGURATION), "a.yaml").log.level == "info"


@given(mutated_tree(CONFIGURATION))
def test_a_configuration_with_odd_values(tree: Any) -> None:
    """It loads, or every line of the error has its place."""
    assert all(line.startswith("a.yaml:") for line in _faults(dump_yaml(tree)))


@given(mutated_bytes(yaml.safe_dump(CONFIGURATION).encode()))
def test_a_configuration_with_odd_bytes(content: bytes) -> None:
    """This simulates a bad disk."""
    text = content.decode("utf-8", "replace")
    assert all(line.startswith("a.yaml:") for line in _faults(text))


def _faults(text: str) -> list[str]:
    try:
        load(Settings, text, "a.yaml")
    except ConfigurationError as error:
        return str(error).splitlines()
    return []


@given(mutated_bytes(encode_window(WINDOW)))
def test_a_packed_window_with_odd_bytes(data: bytes) -> None:
    """It is a valid window or rejected."""
    with suppress(ValueError):
        assert decode_window("GPU-0", data).uuid == "GPU-0"


WINDOW_DOCUMENT: Final[dict[str, Any]] = {
    "v": 1,
    "start": EPOCH,
    "end": EPOCH + HOUR,
    "states": {"productive": HOUR},
    "tiers": {"profiling": HOUR},
    "used_seconds": 3000.0,
    "used_joules": 1e5,
    "energy_joules": 2e5,
    "demands": {"compute": [[50, HOUR]]},
    "waste_seconds": {"idle": 1.0},
    "compute_at_least": [[40, HOUR]],
}


@given(mutated_tree(WINDOW_DOCUMENT))
def test_a_row_with_odd_values_stops_nobody(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]
) -> None:
    """It is skipped, or the agent starts with it and its rules run."""
    path = tmp_path_factory.mktemp("rows") / "history.db"
    with closing(Database(path, MIGRATIONS, is_durable=False)) as database:
        with database.transaction() as connection:
            connection.execute(
                "INSERT INTO window (uuid, start, finish, data) VALUES (?, ?, ?, ?)",
                ("GPU-0", EPOCH, EPOCH + HOUR, json.dumps(document).encode()),
            )
        history = HistoryRepository(database)
        accounting = AccountingService(AccountingSettings())
        accounting.restore(history.devices(), history.load())
    recommender = Recommender(accounting, RULES, PolicySet(), FastClock(EPOCH + HOUR))
    recommender.run()
    assert not recommender.failures
