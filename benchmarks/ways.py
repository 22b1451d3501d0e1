"""Ways through the code: modules entered on each, and carriers, the value classes passed.

`benchmarks/shape.py` runs each way in a process of its own: `python benchmarks/ways.py NAME`
prints both as JSON. A module is entered when one of its functions is called, imports apart. A
carrier is a frozen value class of which a function takes or returns an instance; settings carry
nothing. The simulated driver, which stands in for a real one, is left out.
"""

import inspect
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from advice_node import AdviceNode, NodeServices, Sink
from fleet_command import configured
from fleet_loopback import loopback_store
from grafana_server import TOKEN, grafana_server
from profile_examples import launch_bound_trace
from readings import EPOCH
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.storage import Storage
from rightsizer.agent.settings import Settings
from rightsizer.cli.main import main as rightsizer
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.io.clock import FastClock
from rightsizer.model.report import Report
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.service import NotificationService
from rightsizer.report.freshness import FreshnessSettings
from whole_node import whole_node

PACKAGE: Final = "rightsizer"
_SIMULATOR: Final = f"{PACKAGE}.simulator"

PLAN: Final = "plan --model llama-3.1-70b --rps 20 --in 2000 --out 500 --ttft 1s --tpot 50ms"
"""As in docs/cli.md."""
_TICKS: Final = 3
"""After the first ones all collectors have been asked."""
_IDLE_MINUTES: Final = 180
_GPUS: Final = 16


@dataclass(slots=True)
class Way:
    """Functions called while it is watched."""

    entered: set[str] = field(default_factory=set)
    """Modules."""
    passed: set[type] = field(default_factory=set)
    """Classes of all arguments and results."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch this thread, and threads that start meanwhile."""

        def start_of_thread(frame: FrameType, event: str, argument: object) -> None:
            watch = self._watch()
            sys.setprofile(watch)
            watch(frame, event, argument)

        threading.setprofile(start_of_thread)
        sys.setprofile(self._watch())
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _watch(self) -> Callable[[FrameType, str, object], None]:
        """Profile function of one thread."""
        importing = 0

        def watch(frame: FrameType, event: str, argument: object) -> None:
            nonlocal importing
            if event not in {"call", "return"}:
                return
            if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
                # The body of a module or a class.
                importing += 1 if event == "call" else -1
            elif not importing and _is_own(frame.f_globals.get("__name__", "")):
                self._take(frame, event, argument)

        return watch

    def _take(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "return":
            self.passed.add(type(argument))
            return
        self.entered.add(frame.f_globals["__name__"])
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.passed.update(type(frame.f_locals.get(name)) for name in names if name != "self")

    @property
    def carriers(self) -> frozenset[str]:
        """Names of value classes passed."""
        return frozenset(
            f"{value.__module__}.{value.__qualname__}"
            for value in self.passed
            if _is_own(value.__module__)
            and is_value(value)
            and not value.__name__.endswith("Settings")
        )


def _is_own(module: str) -> bool:
    return module.startswith(f"{PACKAGE}.") and not module.startswith(_SIMULATOR)


def is_value(cls: type) -> bool:
    """Whether a class is a frozen structure or a named tuple."""
    if issubclass(cls, msgspec.Struct):
        return bool(cls.__struct_config__.frozen)
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def metric(folder: Path, way: Way) -> None:
    """From readings of eight GPUs, with host and owners, to the metrics page."""
    with whole_node(folder) as node:
        latest: Report | None = None
        with way.watched():
            for _ in range(_TICKS):
                latest = node.tick()
            exposition = MetricsExposition(
                lambda: latest, MetricsSettings(), FreshnessSettings(), node.clock.wall_time
            )
            exposition.render()


def annotation(folder: Path, way: Way) -> None:
    """From the windows of an idle GPU to Grafana's annotation."""
    path = folder / "history.db"
    token = folder / "token"
    token.write_text(TOKEN, encoding="utf-8")
    with grafana_server() as grafana:
        storage = Storage(str(path))
        accounting = AccountingService(AccountingSettings())
        node = AdviceNode(path, FastClock(EPOCH), accounting, storage, Sink(path))
        node.leave_empty(0, _IDLE_MINUTES)
        receivers = NotificationService(
            Settings(grafana=GrafanaSettings(url=grafana.url, token_file=str(token))),
            storage.database,
            lambda: node.advice_service.advice,
            clock=node.clock,
            warn=lambda *_: None,
            sleep=lambda _: True,
        )
        node.take(NodeServices(node.accounting, storage, node.clock, (receivers,)))
        with way.watched():
            node.advice_service.recommend()
            node.advice_service.deliver()
        storage.close()
        if not grafana.annotations:
            raise RuntimeError("no annotation arrived; the way is not whole")


def plan(_: Path, way: Way) -> None:
    """A plan of a serving model, as in the documentation."""
    _command(way, *PLAN.split())


def fleet(folder: Path, way: Way) -> None:
    """A look at a store of agents' metrics."""
    with loopback_store(_GPUS) as store:
        config = configured(folder, store.url)
        _command(way, "fleet", "--no-progress", "--config.file", str(config))


def profile(folder: Path, way: Way) -> None:
    """A trace of PyTorch's profiler in which the CPU is too slow."""
    trace = launch_bound_trace(folder)
    _command(way, "profile", str(trace))


def _command(way: Way, *arguments: str) -> None:
    errors = StringIO()
    with redirect_stdout(StringIO()), redirect_stderr(errors), way.watched():
        status = rightsizer(arguments)
    if status:
        raise RuntimeError(f"rightsizer {arguments[0]} exited with {status}: {errors.getvalue()}")


WAYS: Final[Mapping[str, Callable[[Path, Way], None]]] = MappingProxyType(
    {
        "a reading to its metric": metric,
        "an idle window to its annotation": annotation,
        "a plan in one line": plan,
        "a look at a fleet": fleet,
        "a profile": profile,
    }
)


def main(name: str) -> None:
    """Print modules and carriers of a way."""
    way = Way()
    # What the services log is no part of the table.
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        WAYS[name](Path(folder), way)
    print(json.dumps({"modules": sorted(way.entered), "carriers": sorted(way.carriers)}))


if __name__ == "__main__":
    main(sys.argv[1])
