"""The fleet's service in process: runs, published results, and notifications to systemd."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from advice_history import keep_advice
from agent_process import eventually
from fleet_loopback import LoopbackStore, loopback_store
from readings import DAY, EPOCH
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.ledger import opened_ledger
from rightsizer.fleet.service import FleetService
from rightsizer.fleet.settings import FleetConfig, FleetSettings, StoreSettings, ledger_path
from rightsizer.host.settings import PathSettings
from rightsizer.io.clock import FastClock
from rightsizer.io.http_settings import HttpSettings
from rightsizer.io.local import LocalClient
from rightsizer.io.systemd import Notifier
from rightsizer.model.advice import AdviceState
from rightsizer.model.errors import StoreError
from rightsizer.notify.grafana.settings import GrafanaSettings

NOW: Final = EPOCH + 30 * DAY


@pytest.fixture
def settings(tmp_path: Path) -> FleetConfig:
    """A lookback of a day, in this process; the store does not respond."""
    fleet = FleetSettings(
        store=StoreSettings(url="http://127.0.0.1:9", tries=1),
        path=str(tmp_path / "fleet.db"),
        lookback_seconds=86400.0,
        workers=1,
        api_socket=str(tmp_path / "api.sock"),
    )
    whole = FleetConfig()
    return replace(whole, fleet=fleet, web=replace(whole.web, listen_addresses=("127.0.0.1:0",)))


def at(settings: FleetConfig, store: LoopbackStore) -> FleetConfig:
    """Settings with a store that responds."""
    return replace(settings, fleet=replace(settings.fleet, store=StoreSettings(url=store.url)))


@contextmanager
def service_of(settings: FleetConfig, notifier: Notifier | None = None) -> Iterator[FleetService]:
    """A service before its first run."""
    clock = FastClock(NOW)
    with FleetJudge(settings, clock) as judge:
        storage = opened_ledger(judge.ledger_path)
        try:
            yield FleetService(settings, judge, storage, clock, notifier or Notifier({}))
        finally:
            storage.close()


@contextmanager
def running(service: FleetService) -> Iterator[None]:
    """The service's loop in a thread of its own."""
    stop = threading.Event()
    thread = threading.Thread(target=service.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_look_puts_up_what_it_found(settings: FleetConfig) -> None:
    """Answer, gauges and use of the store are published."""
    with loopback_store(8) as store, service_of(at(settings, store)) as service:
        assert service.answer is None
        service.look()
        assert service.answer is not None
        assert service.answer.use.queries > 0
        assert service.trouble is None


def test_an_empty_ledger_needs_no_grafana(settings: FleetConfig) -> None:
    """The log has the failure to read decisions from Grafana, and the run continues."""
    with loopback_store(8) as store:
        away = GrafanaSettings(url="http://127.0.0.1:9", http=HttpSettings(tries=1))
        with service_of(replace(at(settings, store), grafana=away)) as service:
            with capture_logs() as lines:
                service.look()
            assert service.answer is not None
            (said,) = [line for line in lines if line["event"] == "ledger_lost"]
            assert "127.0.0.1:9" in said["message"]


def test_a_look_that_fails_leaves_the_last_answer(settings: FleetConfig) -> None:
    """The error is published until a run succeeds."""
    with service_of(settings) as service:
        with pytest.raises(StoreError):
            service.look()
        assert service.trouble is not None
        assert "127.0.0.1:9" in service.trouble
        assert service.answer is None
        assert service.is_looking is False


def test_looks_do_not_overlap(settings: FleetConfig) -> None:
    """A run that becomes due during another is skipped."""
    with loopback_store(8) as store, service_of(at(settings, store)) as service:
        store.goes_on.clear()
        first = threading.Thread(target=service.look)
        first.start()
        eventually(lambda: store.ranges)
        assert service.is_looking
        asked = store.ranges
        service.look()
        assert store.ranges == asked
        store.goes_on.set()
        first.join()
        assert service.answer is not None


def test_a_decision_is_put_up_at_once(settings: FleetConfig) -> None:
    """It comes over the local socket, and needs no run; the answer has it too."""
    advice_id = keep_advice(ledger_path(settings), NOW)
    with loopback_store(8) as store, service_of(at(settings, store)) as service, running(service):
        eventually(lambda: service.answer)
        client = LocalClient(Path(settings.fleet.api_socket))
        with capture_logs():
            client.post(f"/api/v1/advice/{advice_id}/claim", {"actor": "ana", "why": "mine"})
        decided = client.get(f"/api/v1/advice/{advice_id}")
        assert (decided["lifecycle"]["state"], decided["lifecycle"]["actor"]) == ("claimed", "ana")
        assert service.answer is not None
        states = {each.id: each.state for each in service.answer.advice}
        assert states[advice_id] is AdviceState.CLAIMED
        (listed,) = client.get("/api/v1/advice")["advice"]
        assert listed["state"] == "claimed"


def test_advice_exported_by_a_node_is_not_exported_again(settings: FleetConfig) -> None:
    """A recommendation is one series and one alert; the API still lists it."""
    advice_id = keep_advice(ledger_path(settings), NOW)
    with loopback_store(8) as store, service_of(at(settings, store)) as service:
        store.advised = advice_id
        with running(service):
            eventually(lambda: service.answer)
            client = LocalClient(Path(settings.fleet.api_socket))
            (listed,) = client.get("/api/v1/advice")["advice"]
            with urlopen(f"http://{service.server.addresses[0]}/metrics", timeout=10) as answer:
                scraped = answer.read().decode()
        assert service.answer is not None
        assert [each.id for each in service.answer.node_advice] == [advice_id]
    assert listed["id"] == advice_id
    assert f'id="{advice_id}"' not in scraped
    assert 'rightsizer_fleet_node_advice{finding="idle"} 1' in scraped


def test_the_service_manager_is_notified(settings: FleetConfig, tmp_path: Path) -> None:
    """Covers readiness, status, stopping, and the watchdog fed by the loop."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(10.0)
        notifier = Notifier({"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "200000"})
        said = []
        with service_of(settings, notifier) as service, running(service):
            while not {"WATCHDOG=1", "READY=1"} <= set(said) or len(said) < 4:
                said.append(manager.recv(4096).decode())
        while "STOPPING=1" not in said:
            said.append(manager.recv(4096).decode())
    assert said.index("READY=1") < said.index("STOPPING=1")
    assert any(each.startswith("STATUS=") and "127.0.0.1:9" in each for each in said)


def test_a_loop_that_hangs_asks_to_be_restarted(settings: FleetConfig) -> None:
    """A store that is away is no reason, nor a look that lasts."""
    with service_of(settings) as service, running(service):
        eventually(lambda: service.trouble is not None)
        url = f"http://{service.server.addresses[0]}/-/healthy"
        with urlopen(url) as answer:
            assert answer.read() == b"healthy\n"
        service._clock.wait_until(NOW + 3 * 60 * 10**9, threading.Event())
        with pytest.raises(HTTPError, match="503") as refused:
            urlopen(url)
        with refused.value as answer:
            assert answer.read() == b"hangs: no turn of its loop has ended for 3 min\n"


def test_the_agents_socket_is_not_taken(settings: FleetConfig) -> None:
    """The service's socket is another setting, so that both can run on one machine."""
    fleets = FleetConfig().fleet.api_socket
    agents = PathSettings().api_socket
    assert fleets != agents
    assert Path(fleets).parent != Path(agents).parent
    with service_of(settings) as service, running(service):
        eventually(Path(settings.fleet.api_socket).exists)
    assert not Path(settings.fleet.api_socket).exists()
