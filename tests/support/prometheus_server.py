"""A real Prometheus for tests, of Debian's package."""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

from msgspec import Struct

from debian_program import program, run_program, running_program

ON_DISK: Final = "/var/tmp"
"""Where blocks are laid out: what they reserve is free on a disk, and takes seconds in memory."""
_LISTENS: Final = re.compile(r'msg="Listening on".* address=(127\.0\.0\.1:\d+)')


def binary(name: str) -> Path:
    """`prometheus` or `promtool`; the test is skipped, with the reason, where there is none."""
    return program("prometheus", name)


def promtool(
    *arguments: str | Path, timeout_seconds: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run promtool to its end; nothing is raised for what it finds."""
    return run_program(binary("promtool"), *arguments, timeout_seconds=timeout_seconds)


class Prometheus(Struct, frozen=True):
    """A running server."""

    url: str

    def get(self, path: str, **query: str) -> Any:
        """The `data` of an answer of its HTTP API.

        Raises:
            ValueError: the server refused; the message is the server's.
        """
        url = f"{self.url}/api/v1/{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            with urlopen(url, timeout=60) as answer:
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

    def query_range(
        self, promql: str, start: float, end: float, step_seconds: float
    ) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """The labels and the times and values of a query over a range."""
        times = {"start": str(start), "end": str(end), "step": str(step_seconds)}
        data = self.get("query_range", query=promql, **times)
        return [
            (series["metric"], [(float(time), float(value)) for time, value in series["values"]])
            for series in data["result"]
        ]

    def wait_for(
        self, promql: str, timeout_seconds: float = 60.0
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


def scrape_config(
    *targets: str,
    rule_files: tuple[str, ...] = (),
    interval: str = "1s",
    alertmanager: str | None = None,
) -> str:
    """A configuration that scrapes `host:port` targets as the job `rightsizer`."""
    jobs = [{"job_name": "rightsizer", "static_configs": [{"targets": list(targets)}]}]
    alerting = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
    return json.dumps(
        {
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "rule_files": list(rule_files),
            "scrape_configs": jobs,
            **({"alerting": alerting} if alertmanager else {}),
        }
    )


@contextmanager
def prometheus_server(
    config: str,
    files: Mapping[str, str] | None = None,
    past: str = "",
    *,
    flags: Sequence[str] = (),
    data: Path | None = None,
) -> Iterator[Prometheus]:
    """A Prometheus on loopback with its data in a temporary folder, gone after the block.

    Args:
        config: The text of its configuration.
        files: Further files beside the configuration, such as rules, by their names.
        past: What it has scraped before it starts, as OpenMetrics with timestamps.
        flags: Further ones of its command line.
        data: A folder of blocks that it starts with, in place of an empty one of its own.
    """
    prometheus = binary("prometheus")
    with tempfile.TemporaryDirectory(prefix="prometheus-", dir=ON_DISK) as name:
        folder = Path(name)
        for file, text in {**(files or {}), "prometheus.yml": config}.items():
            (folder / file).write_text(text)
        if past:
            _fill(folder, past)
        command: list[str | Path] = [
            prometheus,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={data or folder / 'data'}",
            "--web.listen-address=127.0.0.1:0",
            "--log.level=info",
            *flags,
        ]
        with running_program(command, folder, _LISTENS, "/-/ready") as url:
            yield Prometheus(url)


def _fill(folder: Path, past: str) -> None:
    (folder / "past").write_text(past)
    filled = promtool("tsdb", "create-blocks-from", "openmetrics", folder / "past", folder / "data")
    if filled.returncode:
        raise AssertionError(f"promtool did not take the past: {filled.stderr}")
