"""`--url`: advise, explain, claim and top ask an agent at its address."""

import argparse
import base64
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Final, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import bcrypt
import pytest
from rich.console import Console
from structlog.testing import capture_logs

from advice_history import keep_advice
from fake_ledger import FakeLedger
from publish_reports import node_report
from rightsizer.advice.policy import RuleTree
from rightsizer.cli.main import main
from rightsizer.console.node_screen import frame_of
from rightsizer.console.node_table import TableView, node_view, shown_rows
from rightsizer.console.remote_agent import RemoteAgent, add_url_flags
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.io.http import HttpClient
from rightsizer.io.http_settings import HttpSettings
from rightsizer.model.errors import RightsizerError
from rightsizer.model.state import State, Tier, UnknownReason
from rightsizer.model.units import HOUR, Nanoseconds
from rightsizer.model.window import Window
from rightsizer.web.advice_api import AdviceApi
from rightsizer.web.authenticator import Authenticator, Passwords
from rightsizer.web.server import WebAccess, WebServer
from rightsizer.web.settings import PasswordSettings
from rightsizer.web.web_config import WebConfigFile, WebConfigReader
from sample_devices import NOW
from web_certificates import Authority

REPORT: Final = node_report()
HASH: Final = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
ROWS: Final = sum(not device.device.has_mig_instances for device in REPORT.devices)
DEVICE: Final = REPORT.devices[0].device
Captured = pytest.CaptureFixture[str]


def window_until(end: Nanoseconds) -> Window:
    """Ten hours by utilization alone, one of them without a reading."""
    return Window(
        DEVICE.uuid,
        end - 10 * HOUR,
        end,
        states={State.PRODUCTIVE: 9 * HOUR, State.UNKNOWN: HOUR},
        unknown_reasons={UnknownReason.NO_READING: HOUR},
        tiers={Tier.BASIC: 9 * HOUR},
    )


class Place:
    """Servers of one report, with and without users, and the advice that they change."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.ledger = FakeLedger()
        self.folder = folder
        self._stack = stack
        self.password_file = folder / "password"
        self.password_file.write_text("secret\n")

    def url(self, web_config: str = "", *, is_open: bool = False) -> str:
        """The address of a server."""
        path = self.folder / "web.yml"
        path.write_text(web_config)
        file = WebConfigFile(WebConfigReader(path), settle_seconds=0.0)
        passwords = Passwords(PasswordSettings(share_ratio=1.0))
        server = WebServer(
            ["127.0.0.1:0"],
            latest=lambda: REPORT,
            exposition=MetricsExposition(lambda: REPORT),
            wall_time=lambda: NOW,
            accounts=lambda end: [(DEVICE, window_until(end))],
            access=WebAccess(
                authenticator=Authenticator(file.current, passwords),
                allows_changes=True,
                is_open=is_open,
            ),
            local_routes=AdviceApi(self.ledger, RuleTree()).routes,
        )
        server.start()
        self._stack.callback(server.stop)
        return f"http://{server.addresses[0].removeprefix('http://')}"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Running agents."""
    with ExitStack() as stack, capture_logs():
        yield Place(tmp_path, stack)


def test_one_table_where_there_is_no_terminal(place: Place, capsys: Captured) -> None:
    """A row per GPU, the worst first, as wide as the space allows; plain text."""
    assert main(["top", "--url", place.url()]) == 0
    text = capsys.readouterr().out
    begins = "GPU ", "MIG "
    lines = [line.split() for line in text.splitlines() if line.strip().startswith(begins)]
    assert lines[0][:2] == ["GPU", "Last"] or lines[0][:2] == ["GPU", "Now"]
    assert len(lines) - 1 == ROWS
    assert "\x1b" not in text
    instances = sum(device.device.mig is not None for device in REPORT.devices)
    assert instances
    assert text.startswith(f"{len(REPORT.devices) - instances} GPUs, {instances} MIG instances: ")


def test_page_top_and_advise_agree_on_the_worst_gpu(place: Place, capsys: Captured) -> None:
    """GPUs are in the order of their recommendations in `advise`, after those that are down."""
    url = place.url()
    assert main(["advise", "--url", url]) == 0
    text = capsys.readouterr().out
    advice = [each.finding for each in REPORT.advice if each.is_open]
    advice.sort(key=lambda each: text.index(each.summary[:40]))
    expected = [device.device.uuid for device in REPORT.devices if device.down]
    for finding in advice:
        expected += sorted(finding.devices, key=lambda uuid: uuid not in finding.culprits)

    frame = frame_of(RemoteAgent(HttpClient(url, HttpSettings())))
    rows = shown_rows(frame, TableView())
    assert [row.uuid for row in rows][: len(expected)] == expected
    with urlopen(url, timeout=10) as answer:
        page = answer.read().decode()
    assert re.findall(r'id="row-([^"]+)"', page)[: len(expected)] == expected


def test_anyone_may_claim_where_nothing_is_at_stake(place: Place, capsys: Captured) -> None:
    """As on a demonstration; but a page of another site may not."""
    url = place.url(is_open=True)
    (advice_id,) = (each.id for each in place.ledger.advice if each.is_open)
    assert main(["claim", advice_id, "--url", url]) == 0
    assert capsys.readouterr().out.startswith("Claimed by ")
    with urlopen(url, timeout=10) as answer:
        assert 'value="claim"' in answer.read().decode()
    foreign = Request(f"{url}/api/v1/advice/{advice_id}/snooze", b"{}", method="POST")
    foreign.add_header("Origin", "http://example.org")
    with pytest.raises(HTTPError, match="403") as refusal:
        urlopen(foreign, timeout=10)
    refusal.value.close()


def test_advice_of_an_agent_far_away(place: Place, capsys: Captured) -> None:
    """As `advise` prints local advice, and as JSON; saving is not available."""
    url = place.url()
    assert main(["advise", "--url", url]) == 0
    text = capsys.readouterr().out
    still_open = [each for each in REPORT.advice if each.is_open]
    told = f"{len(still_open)} recommendations are open. 'rightsizer explain ID --url {url}' tells"
    assert told in text
    rests = " ".join(text.partition(told)[2].split())
    assert "dropped: 1.0 GPU-hours without a state; " in rests
    assert "assumed: work of 1 GPU by utilization alone" in rests
    assert all(each.id in text for each in still_open)

    assert main(["advise", "--url", url, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in document["evidence"]] == ["assumed", "dropped", "read"]
    listed = document["advice"]
    assert {each["id"] for each in listed} >= {each.id for each in still_open}

    assert main(["advise", "--url", url, "--save"]) != 0
    assert "leave out --save or --url" in capsys.readouterr().err


def test_agent_of_this_node_needs_no_address(place: Place, capsys: Captured) -> None:
    """Where no history is kept, or another one, the addresses of the configuration are asked."""
    address = place.url(is_open=True).removeprefix("http://127.0.0.1")
    file = place.folder / "rightsizer.yaml"
    file.write_text(
        f"web: {{listen_addresses: ['127.0.0.1:9', '{address}']}}\n"
        f"history: {{path: {place.folder}/none.db}}\npath: {{api_socket: {place.folder}/none}}\n"
    )
    config = ["--config.file", str(file)]
    (found, *_) = (each.id for each in place.ledger.advice if each.is_open)
    assert main(["explain", found, *config]) == 0
    assert main(["claim", found, "--actor", "ana", *config]) == 0
    assert main(["advise", *config]) == 0
    said = capsys.readouterr().out
    assert said.startswith(found)
    assert "Claimed by ana: " in said
    assert f"are open. 'rightsizer explain ID {' '.join(config)}' tells why." in " ".join(
        said.split()
    )
    assert main(["explain", "nothing", *config]) != 0
    keep_advice(place.folder / "none.db")  # A history of another agent.
    assert main(["explain", found, *config]) == 0
    assert main(["explain", "nothing", *config]) == 2
    assert "there is no advice 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["advise"], ["explain", "abc"], ["claim", "abc"], ["report"]])
def test_every_place_asked_is_named(command: list[str], tmp_path: Path, capsys: Captured) -> None:
    """With the history that is not there; a history that was named is the only place."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text(
        "web: {listen_addresses: ['0.0.0.0:9', '[::]:9'], route_prefix: /gpu}\n"
        f"history: {{path: {tmp_path}/none.db}}\npath: {{api_socket: {tmp_path}/socket}}\n"
    )
    assert main([*command, "--config.file", str(file)]) == 1
    said = capsys.readouterr().err
    socket = f"{tmp_path}/socket or " * (command[0] in {"explain", "claim"})
    assert f"no agent answers at {socket}http://127.0.0.1:9/gpu or http://[::1]:9/gpu, and" in said
    assert f"history '{tmp_path}/none.db' does not exist" in said
    named = ["--history.path", str(tmp_path / "mine.db")]
    assert main([*command, "--config.file", str(file), *named]) == 1
    assert "no agent answers" not in capsys.readouterr().err


@pytest.mark.parametrize("command", [["advise"], ["explain", "abc"], ["claim", "abc"], ["report"]])
@pytest.mark.parametrize(
    ("status", "words"),
    [(200, "answered 200 with something that is not JSON"), (500, "is no agent of Rightsizer")],
)
def test_answer_of_another_server_does_not_replace_the_history(
    command: list[str], status: int, words: str, tmp_path: Path, capsys: Captured
) -> None:
    """What stands at the configured address is said, and that the history is not there."""
    page = b"<!DOCTYPE html>\n<html><body>Grafana</body></html>"
    with other_server(status, page) as address:
        file = _without_history(tmp_path, address)
        assert main([*command, "--config.file", str(file)]) == 1
    said = capsys.readouterr()
    assert "html" not in said.out + said.err
    assert f"rightsizer: http://{address}: " in said.err
    assert words in said.err
    assert f"; and history '{tmp_path}/none.db' does not exist; " in said.err


def test_agent_of_this_node_is_asked_over_its_tls(place: Place, capsys: Captured) -> None:
    """As its web configuration says; without trust, both reasons are told."""
    authority = Authority.made(place.folder / "authority")
    pair = authority.sign("node", "IP:127.0.0.1")
    web_config = f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key}}}\n"
    address = place.url(web_config, is_open=True).removeprefix("http://")
    file = _without_history(place.folder, address, place.folder / "web.yml")
    config = ["--config.file", str(file)]
    assert main(["advise", *config, "--ca-file", str(authority.certificate)]) == 0
    assert "recommendations are open" in capsys.readouterr().out
    assert main(["advise", *config]) == 1
    said = capsys.readouterr().err
    assert f"https://{address}: " in said
    assert "give --ca-file" in said
    assert f"history '{place.folder}/none.db' does not exist" in said


def _without_history(folder: Path, address: str, web_config: Path | str = "") -> Path:
    """Write a configuration whose history and socket are not there."""
    file = folder / "rightsizer.yaml"
    file.write_text(
        f"web: {{listen_addresses: ['{address}'], config_file: '{web_config}'}}\n"
        f"history: {{path: {folder}/none.db}}\npath: {{api_socket: {folder}/none}}\n"
    )
    return file


def test_explained_and_claimed_from_afar(place: Place, capsys: Captured) -> None:
    """A user may decide; an anonymous client is told which credentials to give."""
    url = place.url(f"basic_auth_users: {{ana: {HASH}}}\n")
    login = ["--url", url, "--user", "ana", "--password-file", str(place.password_file)]
    (found, *_) = (each.id for each in place.ledger.advice if each.is_open)

    assert main(["explain", found, *login]) == 0
    assert found in capsys.readouterr().out
    assert main(["claim", found, *login, "--actor", "ana"]) == 0
    assert capsys.readouterr().out.startswith("Claimed by ana: ")
    assert len(place.ledger.acts) == 1

    (closed,) = (each.id for each in place.ledger.advice if not each.is_open)
    assert main(["explain", closed, *login]) == 0
    assert "dismissed by ana" in capsys.readouterr().out

    assert main(["claim", found, "--url", url]) != 0
    assert "give --user and --password-file" in capsys.readouterr().err
    assert main(["explain", "nothing", *login]) != 0
    assert "there is no advice 'nothing'" in capsys.readouterr().err
    assert len(place.ledger.acts) == 1


def test_decisions_of_strangers_are_refused(place: Place, capsys: Captured) -> None:
    """Without configured users all clients are anonymous; the agent's reason is shown."""
    assert main(["claim", "a1b2c3", "--url", place.url()]) != 0
    assert "refused over TCP" in capsys.readouterr().err
    assert not place.ledger.acts


def test_an_agent_that_is_not_there_is_named(capsys: Captured) -> None:
    """With what to check; an invalid address is a usage error."""
    assert main(["top", "--once", "--url", "http://127.0.0.1:9"]) != 0
    errors = capsys.readouterr().err
    assert "http://127.0.0.1:9: " in errors
    assert "check that an agent listens there, or give --url" in errors
    assert main(["top", "--once", "--url", "node:19400"]) != 0
    assert "--url: " in capsys.readouterr().err


@pytest.mark.parametrize("command", [["advise"], ["top", "--once"], ["claim", "abc"]])
@pytest.mark.parametrize("status", [200, 404])
def test_address_of_another_server_is_refused(
    command: list[str], status: int, capsys: Captured
) -> None:
    """It is detected by an answer that no agent gives."""
    with other_server(status, b'{"status": "ok"}') as address:
        assert main([*command, "--url", f"http://{address}"]) == 1
    errors = capsys.readouterr().err
    is_own = status == 404 and command[0] == "claim"  # Agents answer unknown paths like this.
    assert ("what answers there is no agent of Rightsizer" in errors) is not is_own
    assert "Traceback" not in errors


@contextmanager
def other_server(status: int, body: bytes) -> Iterator[str]:
    """Serve one request as no agent does; yield the address."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        thread.join()


def test_password_is_sent_and_never_shown(tmp_path: Path) -> None:
    """It is sent in the header; a missing file is named."""
    parser = argparse.ArgumentParser()
    add_url_flags(parser)
    flags = ["--url", "http://127.0.0.1:9", "--user", "ana", "--password-file"]
    agent = RemoteAgent.of(parser.parse_args([*flags, str(tmp_path / "none")]))
    with pytest.raises(RightsizerError, match=r"cannot be read: no such file"):
        agent.get("/")
    (tmp_path / "secret").write_text("a b\n")
    agent = RemoteAgent.of(parser.parse_args([*flags, str(tmp_path / "secret")]))
    with pytest.raises(RightsizerError) as caught:
        agent.get("/")
    assert base64.b64encode(b"ana:a b").decode() not in str(caught.value)


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, *arguments: str, lines: int = 30, columns: int = 160) -> None:
        self._own, theirs = pty.openpty()
        code = "import sys; from rightsizer.cli.main import main; sys.exit(main(sys.argv[1:]))"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"TERM": "xterm", "COLUMNS": str(columns), "LINES": str(lines)},
            start_new_session=True,
        )
        os.close(theirs)
        self.text = ""

    def shows(self, wanted: str, timeout_seconds: float = 60.0) -> bool:
        """Whether the text appears from now on."""
        self.text = ""
        deadline = time.monotonic() + timeout_seconds
        while wanted not in self.text and time.monotonic() < deadline:
            if select.select([self._own], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self._own, 65536).decode(errors="replace")
                except OSError:  # All ends of the terminal are closed.
                    break
        return wanted in self.text

    def press(self, keys: str) -> None:
        """Send a key press."""
        os.write(self._own, keys.encode())

    def ends(self) -> int:
        """Wait for the command to end; return its status."""
        # Its remaining output must be read, or it blocks forever.
        while self.shows("nothing at all", 0.2) or self.process.poll() is None:
            pass
        return self.process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._own)


def test_live_view_obeys_keys(place: Place) -> None:
    """Selection shows the advice and its command; s sorts, / filters, q quits."""
    with Terminal("top", "--url", place.url(), "--interval", "1") as terminal:
        assert terminal.shows("s sort: urgency")
        terminal.press("\x1b[B")
        assert terminal.shows("No open advice.")
        terminal.press("\x1b[B\x1b[Bjk")
        assert terminal.shows("rightsizer explain ")
        terminal.press("s")
        assert terminal.shows("s sort: gpu")
        terminal.press("/nothing-like-it\r")
        assert terminal.shows("No GPU matches 'nothing-like-it'; Esc")
        terminal.press("q")
        assert terminal.ends() == 0


def test_text_fits_a_narrow_terminal(place: Place) -> None:
    """A pipe has lines of a hundred columns, whatever the terminal."""
    with Terminal("advise", "--url", place.url(), columns=60) as terminal:
        assert terminal.shows("dropped: 1.0 GPU-hours")
        lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text).splitlines()
        # A command stays on one line, to be copied.
        assert max(len(line) for line in lines if "explain ID" not in line) <= 60
        assert terminal.ends() == 0


def test_narrow_table_keeps_what_to_do(place: Place, capsys: Captured) -> None:
    """The savings column is dropped last."""
    frame = frame_of(RemoteAgent(HttpClient(place.url(), HttpSettings())))
    for width, heading in (
        (40, "GPU Wasted Saves To do"),
        (80, "GPU Now Memory Wasted Saves To do"),
        (120, "GPU Last 24 h Now Holder Busy Memory Power Wasted Saves To do"),
    ):
        Console(width=width).print(node_view(frame, TableView(width=width)))
        text = capsys.readouterr().out
        assert heading in {" ".join(line.split()) for line in text.splitlines()}
        assert "Rele" in text
        assert max(map(len, text.splitlines())) <= width


def test_small_terminal_shows_the_selected_gpu(place: Place) -> None:
    """As many rows as fit; the rest is counted."""
    with Terminal("top", "--url", place.url(), lines=10) as terminal:
        assert terminal.shows("more GPUs; ")
        terminal.press("k")
        assert terminal.shows("s sort: ")
        terminal.press("q")
        assert terminal.ends() == 0


def test_faults_of_a_login_are_reported(place: Place, capsys: Captured, tmp_path: Path) -> None:
    """Missing, refused and unreadable credentials."""
    url = place.url(f"basic_auth_users: {{ana: {HASH}}}")
    wrong = tmp_path / "wrong"
    wrong.write_text("guess")
    for flags, expected in (
        ([], "the agent wants a user; give --user and --password-file"),
        (["--user", "ana", "--password-file", wrong], "refuses user 'ana'; check the name and"),
        (["--user", "ana", "--password-file", tmp_path / "none"], "none cannot be read: no such"),
        (["--password-file", wrong], "--user tells; give both"),
    ):
        assert main(["advise", "--url", url, *map(str, flags)]) != 0
        assert expected in capsys.readouterr().err
