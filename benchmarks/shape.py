"""Shape of the code: its size, modules loaded by a command, modules that a value passes.

`make shape` prints it. Ways are measured by walking them: a value that occurs nowhere else is read
from the driver, and every module is counted in which a function takes or gives it, or what holds
it.
"""

import argparse
import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from advice_node import AdviceNode, NodeServices, Sink
from grafana_server import TOKEN, grafana_server
from measured import Figure, listed, machine
from readings import EPOCH, gpu
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.rules import idle
from rightsizer.advice.storage import Storage
from rightsizer.agent.settings import Settings
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.io.clock import FastClock
from rightsizer.model.report import Report
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.service import NotificationService
from rightsizer.report.freshness import FreshnessSettings
from whole_node import whole_node

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "daemon" / "rightsizer"

_PLAN: Final = "model: {parameters: 70e9}\n"
_RECORDING: Final = "timestamp,device,gpu_busy,power\n" + "".join(
    f"2026-01-01T00:00:{second:02d}Z,gpu-0,0.9,0.5\n" for second in range(60)
)
_REPORT: Final = """
import atexit, json, os, resource, sys
def tell():
    own = sum(
        name.partition(".")[0] == "rightsizer" and not name.startswith("rightsizer.simulator")
        for name in sys.modules
    )
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open(os.environ["SHAPE_FILE"], "w") as file:
        json.dump({"own": own, "all": len(sys.modules), "cpu": used.ru_utime + used.ru_stime}, file)
atexit.register(tell)
from rightsizer.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Modules loaded by a command at its end, without the simulator's."""

    own: int
    cpu_seconds: float


def measure() -> Iterator[Figure]:
    """All figures, the cheap ones first."""
    files = sorted(PACKAGE.rglob("*.py"))
    yield Figure("modules", len(files), ceiling=700)
    yield Figure("lines", sum(_lines(file) for file in files), ceiling=105_000)
    yield Figure("class names defined more than once", len(doubled_classes(PACKAGE)), ceiling=0)
    for what, loaded, most_modules, most_seconds in _commands():
        yield Figure(f"own modules loaded by `{what}`", loaded.own, ceiling=most_modules)
        yield Figure(f"CPU of `{what}`", loaded.cpu_seconds, "s", most_seconds)
    yield Figure("modules between a power reading and its metric", len(power_way()), ceiling=25)
    what = "modules between an idle window and its annotation"
    yield Figure(what, len(annotation_way()), ceiling=20)


def doubled_classes(package: Path) -> Mapping[str, list[str]]:
    """Names of classes that several modules define, with those modules."""
    found: dict[str, list[str]] = {}
    for file in sorted(package.rglob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(file.relative_to(package).as_posix())
    return {name: files for name, files in found.items() if len(files) > 1}


def _lines(file: Path) -> int:
    return file.read_text(encoding="utf-8").count("\n")


def _commands() -> Iterator[tuple[str, Loaded, float | None, float | None]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan, recording = folder / "plan.yaml", folder / "recording.csv"
        plan.write_text(_PLAN, encoding="utf-8")
        recording.write_text(_RECORDING, encoding="utf-8")
        yield "--version", _loaded("--version"), None, 0.15
        yield "--help", _loaded("--help"), None, 0.15
        yield "plan FILE", _loaded("plan", plan), 220, 0.5
        yield "replay FILE", _loaded("replay", recording, "--board", "h100-sxm"), None, None
        config = folder / "rightsizer.yaml"
        config.write_text(
            "sources: {simulated: {scenario: eight-gpu-node}}\nhistory: {path: ''}\n"
            "path: {api_socket: ''}\nlog: {level: error}\n",
            encoding="utf-8",
        )
        arguments = ("agent", "--config.file", config, "--web.listen-address", "127.0.0.1:0")
        # No node with a GPU loads the simulator, which stands in for the driver here.
        yield "agent, for five seconds", _loaded(*arguments, seconds=5.0), 330, None
        store = ("fleet", "--prometheus.url", "http://127.0.0.1:9", "--dry-run")
        yield "fleet, without a store", _loaded(*store), None, None


def _loaded(*arguments: object, seconds: float | None = None) -> Loaded:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "shape.json"
        process = subprocess.Popen(
            [sys.executable, "-c", _REPORT, *map(str, arguments)],
            env={**os.environ, "SHAPE_FILE": str(file)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if seconds is not None:
            time.sleep(seconds)
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)
        document = json.loads(file.read_text(encoding="utf-8"))
    return Loaded(document["own"], document["cpu"])


class MarkedPower:
    """A driver library in which every GPU draws the same unusual power, in every call."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        marks: dict[str, Callable[..., None]] = {
            "nvmlDeviceGetPowerUsage": _mark_usage,
            "nvmlDeviceGetFieldValues": _mark_fields,
            "nvmlDeviceGetSamples": _mark_samples,
        }
        mark = marks.get(name)
        if mark is None:
            return function

        def marked(*arguments: Any) -> int:
            code: int = function(*arguments)
            if code == 0:
                mark(*arguments)
            return code

        return marked


def _mark_usage(_: Any, milliwatts: Any) -> None:
    milliwatts._obj.value = MARK_MILLIWATTS


def _mark_fields(_: Any, count: Any, fields_read: Any) -> None:
    for number in range(getattr(count, "value", count)):
        field = fields_read[number]
        if field.fieldId in _POWER_FIELDS and field.nvmlReturn == 0:
            field.value.ullVal = MARK_MILLIWATTS


def _mark_samples(_: Any, kind: Any, *rest: Any) -> None:
    samples = rest[-1]
    if getattr(kind, "value", kind) == 0 and samples is not None:
        for number in range(rest[-2]._obj.value):
            samples[number].sampleValue.uiVal = MARK_MILLIWATTS


MARK_MILLIWATTS: Final = 123_457
_POWER_FIELDS: Final = frozenset({185, 186})
_MARKS: Final = (123_457.0, 123.457)
_DEEP: Final = 2


def holds_mark(value: object, depth: int = _DEEP) -> bool:
    """Whether something is the marked power, or holds it within a few steps."""
    if isinstance(value, bool):
        return False
    if isinstance(value, (int, float)):
        return any(abs(value - mark) < 1e-6 * mark for mark in _MARKS)
    if isinstance(value, str):
        return "123.457" in value
    if depth == 0:
        return False
    if isinstance(value, Mapping):
        inside: Any = value.values()
    elif isinstance(value, (list, tuple)):
        inside = value[:64]
    elif is_dataclass(value) and not isinstance(value, type):
        inside = [getattr(value, each.name, None) for each in fields(value)]
    else:
        return False
    return any(holds_mark(each, depth - 1) for each in inside)


def power_way() -> frozenset[str]:
    """Modules that a power reading passes from the bindings to the metrics page."""

    def walk(name: str) -> None:
        with whole_node(Path(name), around=MarkedPower) as node:
            latest: Report | None = None
            for _ in range(3):
                latest = node.tick()
            MetricsExposition(
                lambda: latest, MetricsSettings(), FreshnessSettings(), node.clock.wall_time
            ).render()

    with tempfile.TemporaryDirectory() as name, _watched(holds_mark) as passed:
        walk(name)
    return frozenset(passed)


_IDLE_MINUTES: Final = 180
_CARRIED: Final = 3
"""A case holds devices, which hold their names."""


def annotation_way() -> frozenset[str]:
    """Modules that an idle GPU passes from its windows to Grafana's annotation."""
    name = gpu().uuid

    def holds(value: object, depth: int = _CARRIED) -> bool:
        if isinstance(value, str):
            return value == name
        return depth > 0 and any(holds(each, depth - 1) for each in _inside(value))

    passed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, grafana_server() as grafana:
        path = Path(folder) / "history.db"
        storage = Storage(str(path))
        advice_node = AdviceNode(
            path, FastClock(EPOCH), AccountingService(AccountingSettings()), storage, Sink(path)
        )
        advice_node.leave_empty(0, _IDLE_MINUTES)
        token = Path(folder) / "token"
        token.write_text(TOKEN, encoding="utf-8")
        receivers = NotificationService(
            Settings(grafana=GrafanaSettings(url=grafana.url, token_file=str(token))),
            storage.database,
            lambda: advice_node.advice_service.advice,
            clock=advice_node.clock,
            warn=lambda *_: None,
            sleep=lambda _: True,
        )
        advice_node.take(
            NodeServices(
                advice_node.accounting, storage, advice_node.clock, (receivers,), rules=(idle.RULE,)
            )
        )
        # What the services log is no part of the table.
        with redirect_stdout(StringIO()), _watched(holds) as passed:
            advice_node.advice_service.recommend()
            advice_node.advice_service.deliver()
        storage.close()
        if not grafana.annotations:
            raise RuntimeError("no annotation arrived; the way cannot be told")
    return frozenset(passed)


def _inside(value: object) -> Iterable[Any]:
    """Members of an object, one level deep; of long ones the first few."""
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()][:64]
    if isinstance(value, (list, tuple)):
        return value[:64]
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, each.name, None) for each in fields(value)]
    return ()


@contextmanager
def _watched(holds: Any) -> Iterator[Counter[str]]:
    """Counts calls, by own module, that take or give what `holds` knows."""
    passed: Counter[str] = Counter()

    def look(frame: FrameType, event: str, argument: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("rightsizer.") or ".simulat" in module:
            return
        if event == "call":
            code = frame.f_code
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(holds(frame.f_locals.get(name)) for name in names):
                passed[module] += 1
        elif event == "return" and holds(argument):
            passed[module] += 1

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield passed
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modules", action="store_true", help="name the modules of each way too")
    parser.add_argument("--rows", action="store_true", help="also what nothing was promised of")
    arguments = parser.parse_args()
    print(f"Measured on: {machine()}.\n")
    figures = (each for each in measure() if arguments.rows or each.ceiling is not None)
    print(listed(figures))
    if arguments.modules:
        print("\n".join(["", "From a power reading to its metric:", *sorted(power_way())]))
        print("\n".join(["", "From an idle window to its annotation:", *sorted(annotation_way())]))


if __name__ == "__main__":
    main()
