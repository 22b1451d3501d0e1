"""`rightsizer fleet --serve` as a process: read, scraped, given decisions, and ended."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from advice_history import keep_advice
from agent_process import RIGHTSIZER, eventually, run_rightsizer
from fleet_loopback import LoopbackStore, loopback_store
from slow_sync import SlowSync

GPUS: Final = 16
ENDS_SECONDS: Final = 40.0
CONFIG: Final = """\
fleet:
  path: FOLDER/fleet.db
  api_socket: FOLDER/api.sock
  lookback: 1d
  workers: 1
  store: {url: STORE}
log: {format: json}
"""


class Service:
    """A service in a process of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self._log = log

    def events(self, name: str) -> list[dict[str, Any]]:
        """Its log entries of a name."""
        whole = [line for line in self._log.read_text().splitlines() if line.endswith("}")]
        return [event for event in map(json.loads, whole) if event["event"] == name]

    def get(self, path: str) -> tuple[int, str]:
        """The status and text of a response."""
        address = eventually(lambda: self.events("fleet_started"), 30.0)[0]["addresses"]
        try:
            with urlopen(f"http://{address}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    def end(self) -> int:
        """Stop the service; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(ENDS_SECONDS)


@pytest.fixture
def store() -> Iterator[LoopbackStore]:
    """A store of two nodes."""
    with loopback_store(GPUS) as found:
        yield found


@pytest.fixture
def config(store: LoopbackStore, tmp_path: Path) -> Path:
    """A configuration with its files in the test's folder."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text(CONFIG.replace("FOLDER", str(tmp_path)).replace("STORE", f"'{store.url}'"))
    return file


@contextmanager
def serving(config: Path, prefix: Sequence[str] = ()) -> Iterator[Service]:
    """A service that is always stopped afterwards."""
    log = config.with_suffix(".log")
    command = [*prefix, *RIGHTSIZER, "fleet", "--serve", "--config.file", str(config)]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*command, "--web.listen-address", "127.0.0.1:0"], stdout=sink, stderr=sink
        )
    try:
        yield Service(process, log)
    finally:
        process.kill()
        process.wait()


def children_of(process: int) -> list[int]:
    """Its child processes."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # It may end during the check.
            number, rest = stat.read_text().split(" ", 1)
            if rest.rpartition(")")[2].split()[1] == str(process):
                found.append(int(number))
    return found


def test_a_service_looks_tells_and_takes_decisions(config: Path) -> None:
    """Page, JSON, metrics and readiness; a claim by the command; a prompt end."""
    advice_id = keep_advice(config.with_name("fleet-advice.db"), time.time_ns())
    with serving(config) as service:
        eventually(lambda: service.get("/-/ready")[0] == 200, 30.0)
        assert f"{GPUS} GPUs in 1 pool" in service.get("/")[1]
        assert json.loads(service.get("/api/v1/fleet")[1])["gpus"] == GPUS
        metrics = service.get("/metrics")[1]
        assert f'rightsizer_fleet_pool_gpus{{pool="pool-0"}} {GPUS}' in metrics
        assert service.get("/-/healthy")[0] == 200

        claimed = run_rightsizer("claim", "--fleet", advice_id, "--config.file", config)
        assert claimed.returncode == 0, claimed.stderr
        result = run_rightsizer("explain", "--fleet", "--json", advice_id, "--config.file", config)
        assert json.loads(result.stdout)["lifecycle"]["state"] == "claimed"
        assert f'id="{advice_id}"' in service.get("/metrics")[1]
        assert 'state="claimed"' in service.get("/metrics")[1]

        beside = run_rightsizer("fleet", "--config.file", config)
        assert beside.returncode == 1
        assert "written by process" in beside.stderr

        assert service.end() == 0
        assert service.events("fleet_stopped")[0]["is_looking"] is False
    # Without a service the command changes the ledger itself.
    dismissed = run_rightsizer("dismiss", "--fleet", advice_id, "--config.file", config)
    assert dismissed.returncode == 0, dismissed.stderr


def test_it_ends_at_once_in_the_middle_of_a_look(store: LoopbackStore, config: Path) -> None:
    """It waits neither for the store nor for fetching processes; a reload does not end it."""
    config.write_text(config.read_text().replace("workers: 1", "workers: 2"))
    store.goes_on.clear()
    with serving(config) as service:
        eventually(lambda: store.ranges, 30.0)
        readers = children_of(service.process.pid)
        service.process.send_signal(signal.SIGHUP)
        eventually(lambda: service.events("reload_unsupported"))
        assert service.get("/-/ready")[0] == 503
        assert service.end() == 0
        assert service.events("fleet_stopped")[0]["is_looking"] is True
        eventually(lambda: not [reader for reader in readers if Path(f"/proc/{reader}").exists()])


def test_a_disk_that_hangs_does_not_keep_a_service(config: Path) -> None:
    """The ledger that a decision waits to write is given up, and the log says so."""
    slow_sync = SlowSync.built_in(config.parent)
    advice_id = keep_advice(config.with_name("fleet-advice.db"), time.time_ns())
    with serving(config, slow_sync.prefix) as service:
        eventually(lambda: service.get("/-/ready")[0] == 200, 30.0)
        slow_sync.begin()
        claim = [*RIGHTSIZER, "claim", "--fleet", advice_id, "--config.file", str(config)]
        with subprocess.Popen(claim, stderr=subprocess.DEVNULL):
            eventually(lambda: slow_sync.is_hit, 30.0)
            assert service.end() == 0
        (event,) = service.events("shutdown_abandoned")
        assert event["part"] == "ledger"


@pytest.mark.soak  # The first delivery comes after a minute.
@pytest.mark.parametrize(
    "section",
    [
        "grafana: {url: SILENT, http: {timeout: 60s}}\n",
        "webhooks: [{url: SILENT, http: {timeout: 60s}}]\n",
    ],
)
def test_a_silent_server_does_not_keep_a_service(config: Path, section: str) -> None:
    """It ends while a recommendation waits for its answer."""
    keep_advice(config.with_name("fleet-advice.db"), time.time_ns(), is_pending=True)
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(120)
        silent = f"http://127.0.0.1:{server.getsockname()[1]}"
        config.write_text(config.read_text() + section.replace("SILENT", silent))
        service = stack.enter_context(serving(config))
        connection, _ = server.accept()
        with connection:
            assert service.end() == 0
        assert service.events("fleet_stopped")


def test_a_store_that_is_away_ends_nothing(config: Path) -> None:
    """Its outputs report it, and it retries later."""
    text = config.read_text()
    config.write_text(
        text.replace("store: {", "store: {tries: 1, ").replace("127.0.0.1:", "127.0.0.2:")
    )
    with serving(config) as service:
        failed = eventually(lambda: service.events("job_failed"), 30.0)
        assert "127.0.0.2" in failed[0]["error"]
        status, why = service.get("/-/ready")
        assert (status, "127.0.0.2" in why) == (503, True)
        assert service.get("/-/healthy")[0] == 200
        assert service.end() == 0
