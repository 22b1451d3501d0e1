"""A fleet whose ledger is gone: the store and Grafana know how its advice stood."""

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
"""Those that idle for days: three pieces of advice."""


def free_port() -> int:
    """A port that no one listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def serving(config: Path) -> Iterator[FleetService]:
    """The service as it is wired, listening; it looks when it is told to."""
    settings, clock = load_sections(FleetConfig, config), SystemClock()
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
    """A configuration with everybody who wants to know of advice."""
    (folder / "token").write_text(f"{TOKEN}\n")
    other = {
        "grafana": {"url": grafana.url, "token_file": str(folder / "token")},
        "webhooks": [{"url": f"{inbox.url}/hook"}],
        "web": {"listen_addresses": [f"127.0.0.1:{port}"]},
    }
    return configured(folder, url, api_socket="", other=other)


def opened_times(document: dict[str, Any]) -> dict[str, float]:
    """Since when advice is open, by id."""
    return {each["id"]: each["opened"] for each in document["advice"]}


def lose(folder: Path) -> None:
    """The ledger."""
    for file in folder.glob("fleet-advice.db*"):
        file.unlink()


def decide(service: FleetService) -> tuple[str, str, str]:
    """Claim one piece of advice, snooze one, dismiss one; their ids."""
    claimed, snoozed, dismissed = (each.id for each in service.advice)
    service.act(claimed, AdviceState.CLAIMED, "ana", "next week", None)
    service.act(snoozed, AdviceState.SNOOZED, "ben", "after the fair", 3 * 86400.0)
    service.act(dismissed, AdviceState.DISMISSED, "cem", "for demonstrations", 90 * 86400.0)
    return claimed, snoozed, dismissed


def stands(document: dict[str, Any]) -> dict[str, tuple[str, str | None, str, bool]]:
    """How advice stands, by id: its state, who, why, and whether that ends."""
    return {
        each["id"]: (each["state"], each["actor"], each["why"], each["expires"] is not None)
        for each in document["advice"]
    }


def expiries(document: dict[str, Any]) -> dict[str, float]:
    """When what was decided ends, by id."""
    return {each["id"]: each["expires"] for each in document["advice"] if each["expires"]}


@contextmanager
def decided(folder: Path) -> Iterator[tuple[Path, Grafana, Inbox, tuple[str, str, str]]]:
    """An estate whose advice was decided upon, told and scraped, with its ledger, not served."""
    port, now = free_port(), int(time.time())
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
    """State, who, why and until when are back, the one who looks, and no one is told again."""
    with decided(tmp_path) as (config, grafana, inbox, (claimed, snoozed, dismissed)):
        before = asked_in_process(config, "--json").document
        assert stands(before) == {
            claimed: ("claimed", "ana", "next week", False),
            snoozed: ("snoozed", "ben", "after the fair", True),
            dismissed: ("dismissed", "cem", "for demonstrations", True),
        }
        marks, delivered = dict(grafana.annotations), len(inbox.bodies)
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
    """Whatever is the matter with it; what metrics tell is back, and what they do not is said."""
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
    """Its advice keeps its age, and no one is told of it again, in Grafana or by webhook."""
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
    """Where the store remembers nothing, advice is new, and told."""
    now = int(time.time())
    with odd_estate(["plain"], now) as url, grafana_server() as grafana, webhook_server() as inbox:
        config = configured_to_tell(tmp_path, url, free_port(), grafana, inbox)
        document = asked_in_process(config, "--json", "--save").document
        assert all(each >= now for each in opened_times(document).values())
        assert len(grafana.annotations) == len(document["advice"]) == len(WASTED)
        assert "opened" in str(inbox.bodies)


def test_a_broken_ledger_is_told(tmp_path: Path) -> None:
    """It is set aside, and what is forgotten with it is said."""
    (tmp_path / "fleet-advice.db").write_bytes(b"no database at all, " * 999)
    with odd_estate(["plain"], int(time.time())) as url:
        document = asked_in_process(configured(tmp_path, url), "--json", "--save").document
    (aside,) = tmp_path.glob("fleet-advice.db.corrupt-*")
    (note,) = document["notes"]
    assert note.startswith(f"The fleet's ledger was broken and is now '{aside}'; a new one")
    assert len(document["advice"]) == len(WASTED)
