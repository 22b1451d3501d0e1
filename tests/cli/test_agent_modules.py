"""Modules in the agent's memory: none that only other commands need."""

import contextlib
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from fleet_command import configured
from fleet_loopback import loopback_store
from rightsizer.cli.main import COMMANDS

PROGRAM: Final = """
import sys
from contextlib import suppress
from rightsizer.cli.main import main
with suppress(SystemExit):
    main(sys.argv[1:])
print("modules:", *sys.modules, file=sys.stderr)
"""
MARK: Final = "modules:"
HEAVY: Final = {
    "structlog",
    "sqlite3",
    "asyncio",
    "http.server",
    "prometheus_client",
    "pynvml",
    "yaml",
    "apscheduler",
    "jinja2",
}
"""Modules that take longer to load than everything a client of the agent needs."""


@cache
def modules(command: str) -> set[str]:
    """Modules loaded once a command has parsed its flags."""
    return modules_of(command, "--help")


def modules_of(*arguments: str | Path) -> set[str]:
    """Modules loaded by the end of a command."""
    program = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    return set(done.stderr.rpartition(MARK)[2].split())


@pytest.mark.parametrize(
    "other",
    [
        "rightsizer.cli.plan",
        "rightsizer.planner.planner",
        "rightsizer.report.export",
        "rightsizer.recordings",
        "rightsizer.simulator.node",
        "rightsizer.model.profile",
        "rightsizer.broker.choice",
        "rightsizer.profiles.registry",
        "rightsizer.profiles.reader",
        "rightsizer.broker.lease_manager",
        "rightsizer.broker.child_process",
        "rightsizer.profiler.capture.service",
        "rightsizer.broker.placement",
        "rightsizer.actions.repository",
        "rightsizer.profiler.capture.repository",
        "rightsizer.notify.grafana.service",
        "rightsizer.notify.webhook.service",
        "rightsizer.report.schedulers",
        "rightsizer.actions.proposals",
        "rightsizer.profiler.capture.policy",
        "rightsizer.profiler.rules",
        "rightsizer.profiler.join",
        "difflib",
        "jinja2",
        "urllib3",
        "h2",
    ],
)
def test_the_agent_does_not_load_what_others_need(other: str) -> None:
    """Modules of other commands, the model of a node, and disabled features."""
    loaded = modules("agent")
    assert "rightsizer.agent.agent" in loaded
    assert other not in loaded


def test_top_loads_no_model_of_a_node_to_parse_its_flags() -> None:
    """It tells in a moment that a library is missing, or how it is called."""
    loaded = modules("top")
    assert "rightsizer.cli.top" in loaded
    assert "rightsizer.model.values" not in loaded


def test_a_command_is_loaded_without_the_others() -> None:
    """A script that asks for the version does not wait for the planner and the agent."""
    loaded = modules("version")
    assert "rightsizer.cli.version" in loaded
    assert loaded.isdisjoint({"rightsizer.cli.agent", "rightsizer.cli.plan", "rightsizer.config"})


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_load_no_command(flag: str) -> None:
    """Fewer than 20 modules of the package, so that both answer at once."""
    loaded = modules(flag)
    own = {name for name in loaded if name.partition(".")[0] == "rightsizer"}

    assert "rightsizer.cli.main" in own
    assert len(own) < 20
    assert own.isdisjoint(entry.place.partition(":")[0] for entry in COMMANDS)


@pytest.mark.parametrize("question", ["FILE", "--model 70B", "--model llama-3.1-70b --rps 20"])
def test_a_plan_loads_what_it_computes_with(question: str, tmp_path: Path) -> None:
    """No rules, server, telemetry or profiler: at most 100 modules of the package, 250 in all."""
    file = tmp_path / "plan.yaml"
    file.write_text("model: {parameters: 70e9}\n", encoding="utf-8")
    argv = [word.replace("FILE", str(file)) for word in question.split()]
    loaded = modules_of("plan", *argv)
    own = {name for name in loaded if name.partition(".")[0] == "rightsizer"}

    assert "rightsizer.planner.planner" in own
    assert len(own) <= 100
    # Python 3.14 loads six modules more by itself.
    assert len(loaded) <= 250 + 6 * (sys.version_info >= (3, 14))
    assert own.isdisjoint(
        {
            "rightsizer.advice.rules",
            "rightsizer.agent.settings",
            "rightsizer.profiles.registry",
            "rightsizer.web",
        }
    )


@pytest.mark.parametrize(
    "argv",
    [
        ("run", "--", "true"),
        ("queue",),
        ("reserve", "--for", "1h"),
        ("cancel", "5e6c0197d268"),
        ("release",),
        ("resume",),
        ("place", "--gpus", "2"),
    ],
    ids=lambda argv: argv[0],
)
def test_a_client_of_the_agent_loads_a_client(tmp_path: Path, argv: tuple[str, ...]) -> None:
    """Commands run at a training's start or in a loop: fewer than 50 modules of the package.

    It asks a running agent, and loads neither its server nor its settings, nor any library.
    """
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "api.sock"))
        agent.listen()
        answering = threading.Thread(target=_refuse, args=(agent,), daemon=True)
        answering.start()
        flags = ("--path.api-socket", tmp_path / "api.sock")
        loaded = modules_of(argv[0], *flags, *argv[1:])
        agent.shutdown(socket.SHUT_RDWR)
        answering.join()
    own = {name for name in loaded if name.partition(".")[0] == "rightsizer"}

    assert "rightsizer.io.local" in own
    assert len(own) < 50
    assert loaded.isdisjoint(HEAVY)


def _refuse(agent: socket.socket) -> None:
    """Refuse each request, which ends the command, until the socket is shut down."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = agent.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno")


def test_a_look_at_a_fleet_loads_no_server(tmp_path: Path) -> None:
    """Nor what exports metrics: of both only the settings, which are in its configuration file."""
    with loopback_store(gpus=1) as store:
        config = configured(tmp_path, store.url)
        loaded = modules_of("fleet", "--no-progress", "--config.file", config)

    assert "rightsizer.fleet.judge" in loaded
    assert {name for name in loaded if name.startswith(("rightsizer.web.", "rightsizer.expo"))} == {
        "rightsizer.web.settings",
        "rightsizer.exposition",
        "rightsizer.exposition.settings",
    }


SPARED: Final = frozenset(
    {"http.client", "http.server", "numpy", "orjson", "prometheus_client", "urllib3", "h2"}
)


def test_an_agent_loads_no_library_that_its_settings_do_not_need() -> None:
    """Its own server and page are loaded; clients of what is not configured are not."""
    loaded = modules("agent")

    assert {"rightsizer.web.server", "apscheduler.schedulers.background"} <= loaded
    assert loaded.isdisjoint(SPARED)


def test_each_module_is_what_its_name_says() -> None:
    """Nothing is put in the place of a library's module."""
    program = """
import sys
from contextlib import suppress
from rightsizer.cli.main import entry_point
sys.argv = ["rightsizer", "agent", "--help"]
with suppress(SystemExit):
    entry_point()
print(*(name for name, module in sys.modules.items() if module is None), file=sys.stderr)
import importlib.metadata
assert importlib.metadata.version("msgspec") != "3"
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert ended.stderr.split() == []
