"""Users of a broker over the socket of a real agent: they lease and wait, and operate nothing."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from agent_process import agent_process
from lent_place import Place
from run_commands import run_commands

NOBODY: Final = 65534
_ASK: Final = """\
import http.client, json, socket, sys

class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("api.sock")

answers = []
for method, path, body in json.load(sys.stdin):
    connection = Local("localhost")
    connection.request(method, path, body)
    answer = connection.getresponse()
    answers.append([answer.status, answer.read().decode()])
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An agent with a broker, whose socket every user may open."""
    if os.getuid() != 0:
        pytest.skip("only root can start a process of another user")
    folder = tmp_path_factory.mktemp("users")
    with run_commands(tmp_path_factory.mktemp("runs")) as commands:
        found = Place(folder, commands)
        with agent_process(folder, config=found.config):
            folder.chmod(0o755)
            (folder / "api.sock").chmod(0o666)
            yield found


def asked(folder: Path, *requests: tuple[str, str, str]) -> list[tuple[int, str]]:
    """Status and text of each answer to a user without rights."""
    done = subprocess.run(
        ["python3", "-c", _ASK],
        cwd=folder,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        env={"PATH": "/usr/bin:/bin"},
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        check=True,
    )
    return [(status, text) for status, text in json.loads(done.stdout)]


def test_user_operates_nothing(place: Place) -> None:
    """Each change but leases is refused with the remedy, and has no effect."""
    changes = [
        ("POST", "/api/v1/release", '{"held": "gpus"}'),
        ("POST", "/api/v1/resume", "{}"),
        ("POST", "/-/reload", ""),
        ("PUT", "/-/reload", ""),
        ("POST", "/api/v1/history/flush", "{}"),
        *(("POST", f"/api/v1/advice/abcdefgh/{verb}", "{}") for verb in ("claim", "dismiss")),
        ("POST", "/api/v1/advice/abcdefgh/snooze", "{}"),
    ]
    answers = asked(place.folder, *changes)
    assert {status for status, _ in answers} == {403}
    assert all("broker.operators" in text for _, text in answers)
    assert place.client.get("/api/v1/releases") == {"releases": []}


def test_user_leases_and_waits(place: Place) -> None:
    """And reads what everybody may read."""
    ((made, text),) = asked(place.folder, ("POST", "/api/v1/leases", '{"id": "ofnobody"}'))
    assert made == 200, text
    reads = ("/api/v1/broker", "/api/v1/releases", "/api/v1/place?gpus=1", "/metrics")
    answers = asked(place.folder, *(("GET", path, "") for path in reads))
    assert {status for status, _ in answers} == {200}


def test_root_operates(place: Place) -> None:
    """Over the same socket."""
    assert place.client.post("/api/v1/resume", {}) == {"resumed": []}
