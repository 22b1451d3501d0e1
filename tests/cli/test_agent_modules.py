"""What the agent keeps in memory for months: nothing that only other commands need."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from rightsizer.cli.main import COMMANDS

PROGRAM: Final = """
import sys
from contextlib import suppress
from rightsizer.cli.main import main
with suppress(SystemExit):
    main([sys.argv[1], "--help"])
print(*sys.modules, file=sys.stderr)
"""


@cache
def modules(command: str) -> set[str]:
    """What is loaded once a command knows its flags."""
    program = [sys.executable, "-c", PROGRAM, command]
    return set(subprocess.run(program, capture_output=True, text=True, check=True).stderr.split())


@pytest.mark.parametrize(
    "other",
    [
        "rightsizer.cli.plan",
        "rightsizer.planner.planner",
        "rightsizer.report.export",
        "rightsizer.telemetry.recordings",
        "rightsizer.simulator.node",
        "rightsizer.model.profile",
        "rightsizer.broker.choice",
        "rightsizer.telemetry.profiles.registry",
        "rightsizer.telemetry.profiles.reader",
        "rightsizer.broker.lease_manager",
        "rightsizer.broker.child_process",
        "rightsizer.profiler.capture.service",
        "rightsizer.broker.placement",
        "rightsizer.actions.repository",
        "rightsizer.profiler.capture.repository",
        "rightsizer.notify.grafana.service",
        "rightsizer.notify.webhook.service",
        "rightsizer.report.feature_file",
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
    """Other commands, the model of a node, and what no setting asks for."""
    loaded = modules("agent")
    assert "rightsizer.agent.agent" in loaded
    assert other not in loaded


def test_a_command_is_loaded_without_the_others() -> None:
    """Whoever asks for the version in a script does not wait for the planner and the agent."""
    loaded = modules("version")
    assert "rightsizer.cli.version" in loaded
    assert loaded.isdisjoint({"rightsizer.cli.agent", "rightsizer.cli.plan", "rightsizer.config"})


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_load_no_command(flag: str) -> None:
    """Fewer than 20 modules of our own, so that both answer at once."""
    loaded = modules(flag)
    own = {name for name in loaded if name.partition(".")[0] == "rightsizer"}

    assert "rightsizer.cli.main" in own
    assert len(own) < 20
    assert own.isdisjoint(entry.place.partition(":")[0] for entry in COMMANDS)


def test_a_plan_loads_what_it_computes_with(tmp_path: Path) -> None:
    """No rules, server, telemetry or profiler: at most 220 modules of our own."""
    file = tmp_path / "plan.yaml"
    file.write_text("model: {parameters: 70e9}\n", encoding="utf-8")
    program = PROGRAM.replace('"--help"', repr(str(file)))
    done = subprocess.run(
        [sys.executable, "-c", program, "plan"], capture_output=True, text=True, check=True
    )
    own = {name for name in done.stderr.split() if name.partition(".")[0] == "rightsizer"}

    assert "H100" in done.stdout
    assert len(own) <= 220
    assert own.isdisjoint(
        {
            "rightsizer.advice.rules",
            "rightsizer.agent.settings",
            "rightsizer.telemetry.profiles.registry",
            "rightsizer.web",
        }
    )
