"""Fourteen days of eight GPUs: bytes on disk, time to restore, query and export."""

import io
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.month_history import fill
from benchmarks.options import Options
from measured import Figure, quantile
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.advice.storage import Storage
from rightsizer.cli.export import ExportQuery, export_rows
from rightsizer.report.export import EXPORT_FORMATS

_DAYS: Final = 14
_MEGABYTE: Final = 1e6
_MOST_MEGABYTES: Final = 30.0
_MOST_MILLISECONDS: Final = 50.0
_ANSWERS: Final = 20
_GRAINS: Final = {"5m": 300 * 10**9, "1h": 3600 * 10**9}


def measure(_: Options) -> Iterator[Figure]:
    """Two days of five-minute windows and twelve of hours, as an agent leaves them."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "history.db"
        fill(path, _DAYS)
        size = path.stat().st_size
        yield Figure(
            f"history of {_DAYS} days", size / _MEGABYTE, "MB", _MOST_MEGABYTES, "devices and jobs"
        )
        started = time.perf_counter()
        accounts, windows = _restored(path)
        took = time.perf_counter() - started
        yield Figure("coming back after a restart", 1e3 * took, "ms", note=f"{windows:,} windows")
        answers = [1e3 * _answer_seconds(accounts) for _ in range(_ANSWERS)]
        yield Figure(
            "answering every gauge of every device, p50",
            quantile(answers, 0.5),
            "ms",
            _MOST_MILLISECONDS,
            "24h, 7d and current; strips too",
        )
        yield Figure("the same, the slowest", max(answers), "ms")
        for grain, span in _GRAINS.items():
            yield _export(path, grain, span)


def _restored(path: Path) -> tuple[NodeAccounts, int]:
    storage = Storage(str(path), read_only=True)
    assert storage.history is not None
    accounts = NodeAccounts()
    windows = 0
    for device in storage.history.devices():
        accounts.restore_record(device)
    for window in storage.history.load():
        accounts.restore(window)
        windows += 1
    storage.close()
    return accounts, windows


def _answer_seconds(accounts: NodeAccounts) -> float:
    now = time.time_ns()
    started = time.perf_counter()
    for device in accounts.devices:
        accounts.provisioning(device.uuid)
        accounts.device(device.uuid).windows.strip(now)
    return time.perf_counter() - started


def _export(path: Path, grain: str, span: int) -> Figure:
    out = io.BytesIO()
    started = time.perf_counter()
    with export_rows(path, ExportQuery(span)) as found:
        EXPORT_FORMATS["csv"](found, out)
    took = time.perf_counter() - started
    rows = out.getvalue().count(b"\n") - 1
    size = f"{rows:,} rows, {len(out.getvalue()) / _MEGABYTE:.1f} MB in {took:.1f} s"
    return Figure(f"rows exported in a second, grain {grain}", rows / took, note=size)
