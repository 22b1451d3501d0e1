"""A fleet without its ledger: the store and Grafana have the state of its advice."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from agent_process import eventually
from fleet_command import asked_in_process, configured
from grafana_server import TOKEN, Grafana, grafana_server
from odd_estate import gpu, odd_estate
from prometheus_server import Prometheus
from rightsizer.config.loader import load_sections
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.ledger import opened_ledger
from rightsizer.fleet.service import FleetService
from rightsizer.fleet.settings import FleetConfig
from rightsizer.io.clock import SystemClock
from rightsizer.model.advice import AdviceState
from rightsizer.model.units import seconds
from webhook_server import Inbox, webhook_server

pytestmark = pytest.mark.prometheus

OPENED: Final = "rightsizer_advice_opened_timestamp_seconds"
WASTED: Final = {gpu(0), gpu(2), gpu(3)}
"""GPUs that idle for days: three items of advice."""


def free_port() -> int:
    """A free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def serving(config: Path) -> Iterator[FleetService]:
    """The complete service, listening; it runs on request."""
    settings = load_sections(FleetConfig, config)
    clock = SystemClock()
    with FleetJudge(settings, clock) as judge:
        storage = opened_ledger(judge.ledger_path)
        try:
            service = FleetService(settings, judge, storage, clock)
            service.server.start()
            yield service
            service.server.stop()
        finally:
            storage.close()


def configured_to_tell(folder: Path, url: str, port: int, grafana: Grafana, inbox: Inbox) -> Path:
    """A configuration with all notification targets."""
    (folder / "token").write_text(f"{TOKEN}\n")
    other = {
        "grafana": {"url": grafana.url, "token_file": str(folder / "token")},
        "webhooks": [{"url": f"{inbox.url}/hook"}],
        "web": {"listen_addresses": [f"127.0.0.1:{port}"]},
    }
    return configured(folder, url, api_socket="", other=other)


def opened_times(document: dict[str, Any]) -> dict[str, float]:
    """Opening times of advice, by id."""
    return {each["id"]: each["opened"] for each in document["advice"]}


def lose(folder: Path) -> None:
    """Delete the ledger."""
    for file in folder.glob("fleet-advice.db*"):
        file.unlink()


def decide(service: FleetService) -> tuple[str, str, str]:
    """Claim one item, snooze one, dismiss one; return their ids."""
    claimed, snoozed, dismissed = (each.id for each in service.advice)
    service.act(claimed, AdviceState.CLAIMED, "ana", "next week", None)
    service.act(snoozed, AdviceState.SNOOZED, "ben", "after the fair", 3 * 86400.0)
    service.act(dismissed, AdviceState.DISMISSED, "cem", "for demonstrations", 90 * 86400.0)
    return claimed, snoozed, dismissed


def stands(document: dict[str, Any]) -> dict[str, tuple[str, str | None, str, bool]]:
    """State of advice by id: the state, author, reason, and whether it ends."""
    return {
        each["id"]: (each["state"], each["actor"], each["why"], each["expires"] is not None)
        for each in document["advice"]
    }


def expiries(document: dict[str, Any]) -> dict[str, float]:
    """End of each decision, by id."""
    return {each["id"]: each["expires"] for each in document["advice"] if each["expires"]}


@contextmanager
def decided(folder: Path) -> Iterator[tuple[Path, Grafana, Inbox, tuple[str, str, str]]]:
    """A fleet with decisions, notified and scraped, with its ledger, not served."""
    port = free_port()
    now = int(time.time())
    with (
        odd_estate(["plain"], now, [f"127.0.0.1:{port}"]) as url,
        grafana_server() as grafana,
        webhook_server() as inbox,
    ):
        config = configured_to_tell(folder, url, port, grafana, inbox)
        with serving(config) as service:
            service.look()
            ids = decide(service)
            service.advice_service.deliver()
            store = Prometheus(url)
            for state in ("claimed", "snoozed"):
                store.wait_for(f'rightsizer_advice_info{{state="{state}"}}')
            eventually(lambda: len(store.query(OPENED)) == 2)
        yield config, grafana, inbox, ids


def test_decisions_are_restored(tmp_path: Path) -> None:
    """State, author, reason and end are restored by the next run, without notifications."""
    with decided(tmp_path) as (config, grafana, inbox, (claimed, snoozed, dismissed)):
        before = asked_in_process(config, "--json").document
        assert stands(before) == {
            claimed: ("claimed", "ana", "next week", False),
            snoozed: ("snoozed", "ben", "after the fair", True),
            dismissed: ("dismissed", "cem", "for demonstrations", True),
        }
        marks = dict(grafana.annotations)
        delivered = len(inbox.bodies)
        lose(tmp_path)
        for flags in (["--json"], ["--json", "--save"], ["--json", "--save"]):
            found = asked_in_process(config, *flags).document
            assert stands(found) == stands(before)
            assert opened_times(found) == pytest.approx(opened_times(before), abs=0.002)
            assert expiries(found) == pytest.approx(expiries(before), abs=0.002)
            assert found["notes"] == before["notes"]
        assert grafana.annotations == marks
        assert inbox.bodies[delivered:] == []
        assert "demonstrations" in asked_in_process(config, "--explain", dismissed).out


def test_a_grafana_that_cannot_say_costs_a_note(tmp_path: Path) -> None:
    """For any failure; the state from metrics is restored, and what they lack is reported."""
    why = "from metrics, which tell neither who nor why"
    with decided(tmp_path) as (config, grafana, _, (claimed, snoozed, dismissed)):
        lose(tmp_path)
        for fault in ("500", "html", "shape", "away"):
            if fault == "away":
                address = f"http://127.0.0.1:{free_port()}"
                config.write_text(config.read_text().replace(grafana.url, address))
            else:
                grafana.faults.append(f"GET {fault}")
            document = asked_in_process(config, "--json").document
            assert grafana.faults == []
            assert stands(document) == {
                claimed: ("claimed", None, why, False),
                snoozed: ("snoozed", None, f"{why}; until when is taken from the settings", True),
                dismissed: ("active", None, "", False),
            }
            (note,) = document["notes"]
            assert note.startswith("The fleet's ledger is empty, and Grafana could not say what ")


def test_a_lost_ledger_is_remembered_by_the_store(tmp_path: Path) -> None:
    """Advice keeps its age, and neither Grafana nor webhooks are notified again."""
    port = free_port()
    now = int(time.time())
    with (
        odd_estate(["plain"], now, [f"127.0.0.1:{port}"]) as url,
        grafana_server() as grafana,
        webhook_server() as inbox,
    ):
        config = configured_to_tell(tmp_path, url, port, grafana, inbox)
        with serving(config) as service:
            service.look()
            service.advice_service.deliver()
            before = {each.id: seconds(each.opened) for each in service.advice}
            assert {each.finding.devices[0] for each in service.advice} == WASTED
            eventually(lambda: len(Prometheus(url).query(OPENED)) == len(before))
        assert len(grafana.annotations) == len(before)
        delivered = len(inbox.bodies)

        lose(tmp_path)
        assert opened_times(asked_in_process(config, "--json").document) == pytest.approx(before)
        saved = asked_in_process(config, "--json", "--save").document
        assert opened_times(saved) == pytest.approx(before)
        again = asked_in_process(config, "--json", "--save").document
        assert opened_times(again) == pytest.approx(before)
        assert len(grafana.annotations) == len(before)
        assert "opened" not in str(inbox.bodies[delivered:])


def test_a_ledger_that_never_was_opens_advice_now(tmp_path: Path) -> None:
    """Without a record in the store, advice is new, and announced."""
    now = int(time.time())
    with odd_estate(["plain"], now) as url, grafana_server() as grafana, webhook_server() as inbox:
        config = configured_to_tell(tmp_path, url, free_port(), grafana, inbox)
        document = asked_in_process(config, "--json", "--save").document
        assert all(opened_time >= now for opened_time in opened_times(document).values())
        assert len(grafana.annotations) == len(document["advice"]) == len(WASTED)
        assert "opened" in str(inbox.bodies)


def test_a_broken_ledger_is_reported(tmp_path: Path) -> None:
    """It is set aside, and the lost contents are reported."""
    (tmp_path / "fleet-advice.db").write_bytes(b"no database at all, " * 999)
    with odd_estate(["plain"], int(time.time())) as url:
        document = asked_in_process(configured(tmp_path, url), "--json", "--save").document
    (aside,) = tmp_path.glob("fleet-advice.db.corrupt-*")
    (note,) = document["notes"]
    assert note.startswith(f"The fleet's ledger was broken and is now '{aside}'; a new one")
    assert len(document["advice"]) == len(WASTED)
