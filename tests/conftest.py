"""What all tests share: golden files, and logging that no test leaves changed."""

import gc
import logging
import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import hypothesis
import pytest
import structlog

# How long an example takes says how busy the machine is. Every run draws the same examples, so that
# what fails is of the change; `pytest --hypothesis-profile thorough` draws many others.
hypothesis.settings.register_profile(
    "usual", deadline=None, max_examples=25, derandomize=True, database=None
)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("usual")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the switch that `make golden` uses."""
    parser.addoption(
        "--write-golden",
        action="store_true",
        help="write the golden files instead of comparing with them",
    )


def pytest_configure() -> None:
    """Let processes of tests be ended, though a shell's background or `nohup` ignores signals."""
    # Servers in Go live for seconds: to collect garbage less often saves a sixth of their CPU.
    os.environ.setdefault("GOGC", "400")
    # A worker has the width of the terminal that started it, which answers would obey.
    os.environ.pop("COLUMNS", None)
    # What a test's engines teach is no truth of this machine.
    os.environ.setdefault("RIGHTSIZER_SIZING__LEARNED_FILE", "")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without golden files when these are written: collecting all takes longer."""
    if not config.getoption("--write-golden") or collection_path.suffix != ".py":
        return None
    return _GOLDEN not in collection_path.read_text(encoding="utf-8") or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put first what may take longest: a long file that comes last keeps one worker alone busy."""
    if config.getoption("--write-golden"):
        writers = [item for item in items if _writes_golden(item)]
        config.hook.pytest_deselected(items=[item for item in items if not _writes_golden(item)])
        items[:] = writers
    items.sort(key=_patience_seconds, reverse=True)


def _writes_golden(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and _GOLDEN in item.fixturenames


def pytest_collectstart() -> None:
    """Look for no garbage while all that is made stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of tests that stay to the end, and most rounds."""
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    gc.enable()


_GOLDEN: Final = "golden"
"""Fixture that compares with golden files, or writes them."""
_ALLOCATIONS_BETWEEN_COLLECTIONS: Final = 10_000
"""With the default of 700 a tenth of the tests' time goes into collections that find nothing."""
_PROCESSES: Final = frozenset({"endtoend", "deploy", "evaluation"})
"""Folders whose tests mostly wait for processes."""
_SERVERS: Final = ("prometheus", "browser")
"""Marks of such tests elsewhere."""


def _patience_seconds(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        return float(marker.args[0])
    is_waiting = _has_processes(item.path) or any(map(item.get_closest_marker, _SERVERS))
    return 120.0 if is_waiting else 0.0


@cache
def _has_processes(file: Path) -> bool:
    return not _PROCESSES.isdisjoint(parent.name for parent in file.parents)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A command that runs in this process sets logging up for all of it."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.level = level


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str | Path, str], None]:
    """Hold a text against a file: in `golden/` beside the test, or wherever a whole path says."""

    def hold(name: str | Path, text: str) -> None:
        path = request.path.parent / "golden" / name
        if request.config.getoption("--write-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        assert text == expected, f"{path} differs; if the change is meant, run 'make golden'"

    return hold
