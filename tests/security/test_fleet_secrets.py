"""A fleet with every kind of secret: none leaks, even if a store repeats it."""

import base64
import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest

from agent_process import eventually, run_rightsizer
from faulty_store import Reply, StoreRequest, faulty_store
from fleet_command import asked_in_process, configured, fleet_process, look_command
from odd_estate import END, odd_estate

pytestmark = pytest.mark.timeout(240)

MARK: Final = "s3cret"
TENANT: Final = f"tenant-{MARK}"
PASSWORD: Final = f"pass w0rd {MARK}"
BASIC: Final = base64.b64encode(f"ali:{PASSWORD}".encode()).decode()
MARKS: Final = (MARK, BASIC)
AT: Final = ("--at", str(END))


def secrets(folder: Path, *, has_user: bool) -> dict[str, Any]:
    """Settings of the store with one secret of each kind."""
    (folder / "token").write_text(f"t0ken-{MARK}\n")
    (folder / "password").write_text(f"{PASSWORD}\n")
    if has_user:
        return {
            "tenant": TENANT,
            "username": "ali",
            "password_file": str(folder / "password"),
            "tries": 1,
        }
    return {"tenant": TENANT, "token_file": str(folder / "token"), "tries": 1}


def leaks(texts: dict[str, str]) -> list[str]:
    """Where a secret is found."""
    assert all(texts.values()), "nothing was said"
    return [where for where, text in texts.items() if any(mark in text for mark in MARKS)]


def echo(asked: StoreRequest, status: int, *, is_json: bool) -> Reply:
    """Response of a proxy that repeats the request."""
    said = (
        f"no: {asked.headers['X-Scope-OrgID']}, {asked.headers['Authorization']}: "
        f"'{asked.headers['X-Scope-OrgID']}'"
    )
    if not is_json:
        return Reply(status, said.encode())
    is_error = {"status": "error", "errorType": "forbidden", "error": said}
    data = {"resultType": "vector", "result": []}
    is_partial = {"status": "success", "data": data, "warnings": [said]}
    return Reply(status, json.dumps(is_partial if status == 200 else is_error).encode())


@pytest.mark.parametrize("has_user", [True, False])
@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 422, 429, 500, 503])
@pytest.mark.parametrize("is_json", [True, False])
def test_secret_in_an_answer_of_the_store_is_masked(
    tmp_path: Path,
    has_user: bool,  # noqa: FBT001 - the parameter.
    status: int,
    is_json: bool,  # noqa: FBT001 - the parameter.
) -> None:
    """The message has the rest of any answer."""
    with faulty_store() as store:
        store.judge = lambda asked: echo(asked, status, is_json=is_json)
        config = configured(tmp_path, store.url, secrets(tmp_path, has_user=has_user))
        said = asked_in_process(config)
    assert said.status == 1
    assert leaks({"error": said.refusal}) == []
    assert "***" in said.refusal


def test_a_token_that_no_header_may_hold_is_not_reported(tmp_path: Path) -> None:
    """The error names the file of a token with a line break."""
    (tmp_path / "token").write_text(f"{MARK}\n{MARK}\n")
    with faulty_store() as store:
        config = configured(tmp_path, store.url, {"token_file": str(tmp_path / "token")})
        said = asked_in_process(config)
    assert leaks({"error": said.refusal}) == []
    assert "check fleet.store.token_file" in said.refusal


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A real Prometheus with a fleet, without authentication."""
    with odd_estate(["plain"]) as url:
        yield url


@pytest.mark.prometheus
@pytest.mark.parametrize("has_user", [True, False])
def test_no_answer_tells_a_secret(
    tmp_path: Path,
    url: str,
    has_user: bool,  # noqa: FBT001 - the parameter.
) -> None:
    """Covers table, JSON, page, plan, explanation and progress line."""
    config = configured(tmp_path, url, secrets(tmp_path, has_user=has_user))
    page = tmp_path / "page.html"
    document = asked_in_process(config, *AT, "--json", "--all", "--html", str(page))
    texts = {
        "text": asked_in_process(config, *AT).out,
        "json": document.out,
        "page": page.read_text(),
        "plan": asked_in_process(config, *AT, "--dry-run").out,
        "reasoning": asked_in_process(
            config, *AT, "--explain", document.document["advice"][0]["id"]
        ).out,
        "terminal": _on_a_terminal(config),
        "check": run_rightsizer("check-config", str(config)).stdout,
    }
    assert leaks(texts) == []


def _on_a_terminal(config: Path) -> str:
    """Output during the run on a terminal."""
    ours, theirs = pty.openpty()
    command = [each for each in look_command(config, *AT) if each != "--no-progress"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, timeout=60, check=True)
    os.close(theirs)
    drawn = os.read(ours, 65536).decode()
    os.close(ours)
    assert "reading" in drawn
    return drawn


@pytest.mark.prometheus
def test_a_service_tells_no_secret(tmp_path: Path, url: str) -> None:
    """Neither pages nor log have it, even if the store rejects it."""
    with faulty_store() as store:
        store.judge = lambda asked: echo(asked, 403, is_json=True)
        other = {"log": {"level": "debug"}, "web": {"listen_addresses": ["127.0.0.1:0"]}}
        config = configured(
            tmp_path, store.url, secrets(tmp_path, has_user=False), api_socket="", other=other
        )
        log = tmp_path / "log"
        command = look_command(config, "--serve")
        with log.open("wb") as file, subprocess.Popen(command, stderr=file, stdout=file) as process:
            try:
                address = eventually(lambda: _address(log), 30)
                eventually(lambda: "403" in _page(address, "/-/ready"))
                names = ("/metrics", "/-/ready", "/", "/api/v1/fleet", "/api/v1/advice")
                texts = {name: _page(address, name) for name in names}
            finally:
                process.terminate()
                process.wait(20)
        texts["log"] = log.read_text()
    assert "403" in texts["log"]
    assert leaks(texts) == []


def _address(log: Path) -> str:
    started = [line for line in log.read_text().splitlines() if "fleet_started" in line]
    return json.loads(started[0])["addresses"] if started else ""


def _page(address: str, path: str) -> str:
    try:
        with urlopen(f"http://{address}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
    except OSError as refusal:
        return refusal.read().decode() if hasattr(refusal, "read") else ""
    return text


def test_a_secret_on_the_command_line_is_refused(tmp_path: Path) -> None:
    """Any user of the machine could read it there."""
    config = configured(tmp_path, "http://127.0.0.1:9")
    said = fleet_process(config, "--store.url", f"http://ali:{MARK}@127.0.0.1:9")
    assert said.status == 78
    assert leaks({"error": said.refusal}) == []
    assert "fleet.store.token_file" in said.refusal
