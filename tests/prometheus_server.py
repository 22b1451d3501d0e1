"""A real Prometheus for tests: Debian's package, fetched once, unpacked beside the checkout.

Nothing is installed and nobody has to be root: `apt-get download` and `dpkg-deb -x` suffice.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = ROOT / ".cache" / "prometheus"
_FETCH_SECONDS: Final = 90
_START_SECONDS: Final = 30


class Unavailable(Exception):  # noqa: N818 - a state of the machine, not a fault.
    """There is no Prometheus to be had here; the message says why."""


def binary(name: str) -> Path:
    """`prometheus` or `promtool`; the test is skipped, with the reason, where there is none."""
    try:
        return _binaries() / name
    except Unavailable as reason:
        pytest.skip(f"no Prometheus on this machine: {reason}")


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool to its end; nothing is raised for what it finds."""
    command = [str(binary("promtool")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    url: str

    def get(self, path: str, **query: str) -> Any:
        """The `data` of an answer of its HTTP API.

        Raises:
            ValueError: the server refused; the message is the server's.
        """
        url = f"{self.url}/api/v1/{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            with urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except HTTPError as refusal:
            with refusal:
                raise ValueError(json.load(refusal)["error"]) from None

    def query(self, promql: str) -> list[tuple[dict[str, str], float]]:
        """The labels and values of an instant query; a scalar has no labels."""
        data = self.get("query", query=promql)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(series["metric"], float(series["value"][1])) for series in data["result"]]

    def wait_for(
        self, promql: str, timeout_seconds: float = 30.0
    ) -> list[tuple[dict[str, str], float]]:
        """The first answer to a query that is not empty; a new server scrapes after 5 s or so.

        Raises:
            AssertionError: there was none in time; the message tells how the targets stand.
        """
        deadline = time.monotonic() + timeout_seconds
        while not (found := self.query(promql)):
            if time.monotonic() > deadline:
                targets = self.get("targets")["activeTargets"]
                states = [(target["scrapeUrl"], target["lastError"]) for target in targets]
                raise AssertionError(f"'{promql}' gave nothing; targets: {states}")
            time.sleep(0.1)
        return found


def scrape_config(*targets: str, rule_files: tuple[str, ...] = (), interval: str = "1s") -> str:
    """A configuration that scrapes `host:port` targets as the job `rightsizer`."""
    jobs = [{"job_name": "rightsizer", "static_configs": [{"targets": list(targets)}]}]
    return json.dumps(
        {
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "rule_files": list(rule_files),
            "scrape_configs": jobs,
        }
    )


@contextmanager
def prometheus_server(
    config: str, files: Mapping[str, str] | None = None, past: str = ""
) -> Iterator[Prometheus]:
    """A Prometheus on loopback with its data in a temporary folder, gone after the block.

    Args:
        config: The text of its configuration.
        files: Further files beside the configuration, such as rules, by their names.
        past: What it has scraped before it starts, as OpenMetrics with timestamps.
    """
    program = binary("prometheus")
    with tempfile.TemporaryDirectory(prefix="prometheus-") as name:
        folder = Path(name)
        for file, text in {**(files or {}), "prometheus.yml": config}.items():
            (folder / file).write_text(text)
        if past:
            _fill(folder, past)
        log = folder / "log"
        command = [
            *_dying_with_its_parent(),
            str(program),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--web.listen-address=127.0.0.1:0",
            "--log.level=info",
        ]
        with log.open("wb") as sink:
            process = subprocess.Popen(command, stdout=sink, stderr=sink, cwd=folder)
        try:
            yield _ready(process, log)
        finally:
            _stop(process)


def _fill(folder: Path, past: str) -> None:
    (folder / "past").write_text(past)
    filled = promtool("tsdb", "create-blocks-from", "openmetrics", folder / "past", folder / "data")
    if filled.returncode:
        raise AssertionError(f"promtool did not take the past: {filled.stderr}")


def _ready(process: "subprocess.Popen[bytes]", log: Path) -> Prometheus:
    deadline = time.monotonic() + _START_SECONDS
    url = None
    while time.monotonic() < deadline and process.poll() is None:
        if url is None:
            found = re.search(r'msg="Listening on" address=(127\.0\.0\.1:\d+)', log.read_text())
            url = f"http://{found[1]}" if found else None
        elif _answers(f"{url}/-/ready"):
            return Prometheus(url)
        time.sleep(0.02)
    raise AssertionError(f"Prometheus did not start:\n{log.read_text()[-3000:]}")


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except URLError as error:
        if isinstance(error, HTTPError):
            error.close()
        return False


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _dying_with_its_parent() -> tuple[str, ...]:
    """A prefix under which the server ends even if the test run is killed."""
    return ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


@cache
def _binaries() -> Path:
    """The folder with the binaries, fetched if need be."""
    for folder in (CACHE / "usr" / "bin", Path("/usr/bin"), Path("/usr/local/bin")):
        if all(os.access(folder / name, os.X_OK) for name in ("prometheus", "promtool")):
            return folder
    if missing := [tool for tool in ("apt-get", "dpkg-deb") if not shutil.which(tool)]:
        raise Unavailable(f"{' and '.join(missing)} not found; put prometheus into /usr/local/bin")
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE.parent, prefix="fetch-") as name:
        package = _fetch(Path(name))
        unpacked = Path(name) / "root"
        _run(["dpkg-deb", "-x", str(package), str(unpacked)], Path(name))
        try:
            unpacked.rename(CACHE)
        except OSError:
            if not (CACHE / "usr").is_dir():  # Another run was faster otherwise.
                raise
    return CACHE / "usr" / "bin"


def _fetch(folder: Path) -> Path:
    """Download the package, with package lists of our own where the machine has none."""
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "archives" / "partial").mkdir(parents=True)
    own_lists = [
        *("-o", f"Dir::State::lists={folder / 'lists'}"),
        *("-o", f"Dir::Cache={folder}", "-o", "APT::Sandbox::User=root"),
    ]
    try:
        _run(["apt-get", "download", "prometheus"], folder)
    except Unavailable:
        _run(["apt-get", *own_lists, "update"], folder)
        _run(["apt-get", *own_lists, "download", "prometheus"], folder)
    return next(folder.glob("prometheus_*.deb"))


def _run(arguments: list[str], folder: Path) -> None:
    try:
        subprocess.run(
            arguments,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"'{' '.join(arguments[:2])}' took too long") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip() or "it said nothing").splitlines()[-1]
        raise Unavailable(f"'{arguments[0]} {arguments[-1]}' failed: {said}") from None
