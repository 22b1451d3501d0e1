"""A real VictoriaMetrics and its vmalert for tests, of Debian's package."""

import json
import re
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from debian_program import program, running_program
from prometheus_server import Prometheus

__all__ = ["fill", "rule_groups", "victoria_server", "vmalert"]

_PACKAGE: Final = "victoria-metrics"


@contextmanager
def victoria_server(
    scrape_config: str = "scrape_configs: []", *, past: str = "", flags: Sequence[str] = ()
) -> Iterator[Prometheus]:
    """A VictoriaMetrics on loopback that scrapes; it answers as a Prometheus does.

    Args:
        scrape_config: What it scrapes.
        past: What it has scraped before, as OpenMetrics with timestamps.
        flags: Further ones of its command line.
    """
    server = program(_PACKAGE, "victoria-metrics")
    with tempfile.TemporaryDirectory(prefix="victoria-") as name:
        folder = Path(name)
        (folder / "scrape.yml").write_text(scrape_config)
        address = _free_address()
        command: list[str | Path] = [
            server,
            f"-promscrape.config={folder / 'scrape.yml'}",
            f"-storageDataPath={folder / 'data'}",
            f"-httpListenAddr={address}",
            # Otherwise what was scraped in the last 30 s is not answered.
            "-search.latencyOffset=0s",
            "-memory.allowedBytes=128MB",
            "-retentionPeriod=100y",
            *flags,
        ]
        with running_program(command, folder, _listens(address), "/health") as url:
            if past:
                fill(url, past)
            yield Prometheus(url)


def fill(victoria_url: str, past: str) -> None:
    """Put what was scraped in the past into a VictoriaMetrics, and wait until it is answered.

    Args:
        victoria_url: A running server.
        past: OpenMetrics with timestamps, which are seconds; this store reads milliseconds.
    """
    lines = [line.rsplit(" ", 1) for line in past.splitlines() if line and line[0] != "#"]
    text = "".join(f"{sample} {round(float(time) * 1000)}\n" for sample, time in lines)
    for path, body in (("api/v1/import/prometheus", text.encode()), ("internal/force_flush", b"")):
        with urlopen(f"{victoria_url}/{path}", data=body, timeout=60):
            pass


@contextmanager
def vmalert(store: Prometheus, rules: Mapping[str, str]) -> Iterator[str]:
    """A vmalert that evaluates rule files over a store and writes to it, by its URL."""
    evaluator = program(_PACKAGE, "vmalert")
    with tempfile.TemporaryDirectory(prefix="vmalert-") as name:
        folder = Path(name)
        for file, text in rules.items():
            (folder / file).write_text(text)
        address = _free_address()
        command: list[str | Path] = [
            evaluator,
            *(f"-rule={folder / file}" for file in rules),
            f"-datasource.url={store.url}",
            f"-remoteWrite.url={store.url}",
            f"-remoteRead.url={store.url}",
            # No one is told in a test; vmalert does not start without an address.
            f"-notifier.url=http://{_free_address()}",
            f"-httpListenAddr={address}",
        ]
        with running_program(command, folder, _listens(address), "/health") as url:
            yield url


def rule_groups(vmalert_url: str) -> list[dict[str, Any]]:
    """The groups that a vmalert evaluates, with what became of each rule."""
    with urlopen(f"{vmalert_url}/api/v1/rules", timeout=60) as answer:
        groups: list[dict[str, Any]] = json.load(answer)["data"]["groups"]
        return groups


def _listens(address: str) -> re.Pattern[str]:
    return re.compile(rf"http://({re.escape(address)})/")


def _free_address() -> str:
    """An address that was free a moment ago: these programs do not say which port 0 became."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"
