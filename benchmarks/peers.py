"""Cost of another exporter on the same simulated driver, where one is installed."""

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from agent_process import eventually
from benchmarks.options import Options
from benchmarks.process import cpu_seconds, memory_mebibytes
from measured import Figure, quantile

_SCRAPES: Final = 50


def measure(options: Options) -> Iterator[Figure]:
    """nvitop-exporter, sampling once a second too."""
    if importlib.util.find_spec("nvitop_exporter") is None:
        yield Figure("nvitop-exporter", None, note="skipped: it is not installed here")
        return
    port = _free_port()
    script = Path(__file__).parent / "peer_exporter.py"
    process = subprocess.Popen(
        [sys.executable, str(script), str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: _scrape(port), 30)
        time.sleep(options.seconds / 4)
        before = cpu_seconds(process.pid)
        time.sleep(options.seconds)
        used = cpu_seconds(process.pid) - before
        times = []
        body = b""
        for _ in range(_SCRAPES):
            started = time.perf_counter()
            body = _scrape(port)
            times.append(time.perf_counter() - started)
        resident = memory_mebibytes(process.pid)
    finally:
        process.kill()
        process.wait()
    lines = body.decode().splitlines()
    yield Figure(
        "nvitop-exporter: CPU of one core, the simulator in it", 100 * used / options.seconds, "%"
    )
    yield Figure("nvitop-exporter: memory (RSS), the simulator in it", resident, "MiB")
    yield Figure("nvitop-exporter: scrape, p50", 1e3 * quantile(times, 0.5), "ms")
    yield Figure("nvitop-exporter: series", len([line for line in lines if line[:1] != "#"]))


def _scrape(port: int) -> bytes:
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            body: bytes = answer.read()
            return body
    except OSError:
        return b""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
