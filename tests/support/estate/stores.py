"""A real Prometheus and a real VictoriaMetrics, each filled with the fleet's days."""

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from estate.life import Life
from estate.series import Run
from estate.writing import json_lines, open_metrics
from prometheus_server import ON_DISK, Prometheus, prometheus_server, promtool, scrape_config
from recorded_past import recording
from victoria_server import victoria_server

__all__ = [
    "Source",
    "filled_folder",
    "filled_prometheus",
    "filled_victoria",
    "recorded_prometheus",
    "stretches",
]

Source = Callable[[int, int], Iterable[Run]]
"""The samples between two slots; requested for adjoining stretches, oldest first."""

_STRETCH_SECONDS: Final = 18 * 3600
"""The largest block that Prometheus writes in one piece and that fits one pass."""
_AT_ONCE: Final = 2
"""Stretches written in parallel; each has its text on disk until then."""
_RECORDED_SECONDS: Final = 48 * 3600
"""The span that is read: promtool is slow."""
_SEND_BYTES: Final = 8 * 2**20
_SEARCHABLE_SECONDS: Final = 30.0


def stretches(life: Life, step_seconds: int = 300) -> Iterator[tuple[int, int]]:
    """Slots with samples in one block of Prometheus at equal intervals, oldest first."""
    at = 0
    while at < life.slots:
        moment = life.start + (at + 1) * step_seconds
        left = _STRETCH_SECONDS - moment % _STRETCH_SECONDS
        until = min(life.slots, at + -(-left // step_seconds))
        if at < life.fine_from:
            until = min(until, life.fine_from)
        yield at, until
        at = until


@contextmanager
def filled_prometheus(life: Life, *sources: Source) -> Iterator[Prometheus]:
    """A Prometheus that has all scrapes, without scrape targets."""
    with (
        filled_folder(life, *sources) as data,
        prometheus_server(scrape_config(), data=data) as server,
    ):
        yield server


@contextmanager
def filled_folder(life: Life, *sources: Source) -> Iterator[Path]:
    """The blocks of a Prometheus with all scrapes."""
    with tempfile.TemporaryDirectory(prefix="estate-", dir=ON_DISK) as name:
        folder = Path(name)
        _make_blocks(life, sources, folder)
        yield folder / "data"


@contextmanager
def recorded_prometheus(life: Life, data: Path, rules: str) -> Iterator[Prometheus]:
    """A Prometheus over such blocks with recorded rules for the last two days."""
    with recording(data, rules, life.end - _RECORDED_SECONDS, life.end) as server:
        yield server


@contextmanager
def filled_victoria(life: Life, *sources: Source) -> Iterator[Prometheus]:
    """A VictoriaMetrics with all imports searchable."""
    sent: set[str] = set()
    with victoria_server() as server:
        for first, last in stretches(life):
            for source in sources:
                _send(server, _noted(json_lines(life, source(first, last)), sent))
        deadline = time.monotonic() + _SEARCHABLE_SECONDS
        while _searchable(server) < len(sent):
            assert time.monotonic() < deadline, "series that were sent are not found"
        yield server


def _noted(lines: Iterable[str], sent: set[str]) -> Iterator[str]:
    """The lines unchanged, recording the series of each."""
    for line in lines:
        sent.add(line[: line.index("}") + 1])
        yield line


def _searchable(server: Prometheus) -> int:
    """Number of searchable series after a flush."""
    with urlopen(f"{server.url}/internal/force_flush", timeout=60):
        pass
    with urlopen(f"{server.url}/api/v1/series/count", timeout=60) as answer:
        return int(json.loads(answer.read())["data"][0])


def _make_blocks(life: Life, sources: tuple[Source, ...], folder: Path) -> None:
    """A block for each stretch; some are built while the next is written."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        waiting: list[Future[None]] = []
        for number, (first, last) in enumerate(stretches(life)):
            text = folder / f"{number}.txt"
            with text.open("w", encoding="ascii") as sink:
                for source in sources:
                    for lines in open_metrics(life, source(first, last)):
                        sink.write(lines)
                sink.write("# EOF\n")
            if len(waiting) == _AT_ONCE:
                waiting.pop(0).result()
            waiting.append(pool.submit(_lay_out, text, folder / "data"))
        for each in waiting:
            each.result()


def _lay_out(text: Path, data: Path) -> None:
    done = promtool(
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "--quiet",
        f"--max-block-duration={_STRETCH_SECONDS}s",
        text,
        data,
        timeout_seconds=300.0,
    )
    text.unlink()
    if done.returncode:
        raise AssertionError(f"promtool did not take {text.name}: {done.stderr[-2000:]}")


def _send(server: Prometheus, lines: Iterable[str]) -> None:
    waiting = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size > _SEND_BYTES:
            _post(server, waiting)
            waiting = []
            size = 0
    if waiting:
        _post(server, waiting)


def _post(server: Prometheus, lines: list[str]) -> None:
    request = Request(f"{server.url}/api/v1/import", data="".join(lines).encode(), method="POST")
    with urlopen(request, timeout=60):
        pass
