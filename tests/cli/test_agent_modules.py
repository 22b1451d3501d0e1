"""What the agent keeps in memory for months: nothing that only other commands need."""

import subprocess
import sys
from functools import cache
from typing import Final

import pytest

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
        "rightsizer.sizing.planner",
        "rightsizer.publish.export",
        "rightsizer.telemetry.recorded",
        "rightsizer.telemetry.simulated.node",
        "rightsizer.domain.profile",
        "rightsizer.placement.choice",
        "rightsizer.profiles.formats",
        "rightsizer.profiles.reader",
        "rightsizer.runtime.broker.desk",
        "rightsizer.runtime.broker.child",
        "rightsizer.runtime.capture.station",
        "rightsizer.runtime.placing",
        "rightsizer.runtime.actions.book",
        "rightsizer.runtime.capture.book",
        "rightsizer.publish.grafana.annotations",
        "rightsizer.publish.webhook.webhooks",
        "rightsizer.publish.schedulers.feature_file",
        "rightsizer.advice.action",
        "rightsizer.advice.capture",
        "rightsizer.advice.profile_rules",
        "rightsizer.advice.profile_join",
        "difflib",
        "jinja2",
        "urllib3",
        "h2",
    ],
)
def test_the_agent_does_not_load_what_others_need(other: str) -> None:
    """Other commands, the model of a node, and what no setting asks for."""
    loaded = modules("agent")
    assert "rightsizer.runtime.agent" in loaded
    assert other not in loaded


def test_a_command_is_loaded_without_the_others() -> None:
    """Whoever asks for the version in a script does not wait for the planner and the agent."""
    loaded = modules("version")
    assert "rightsizer.cli.version" in loaded
    assert loaded.isdisjoint({"rightsizer.cli.agent", "rightsizer.cli.plan", "rightsizer.config"})


def test_help_has_all_commands() -> None:
    """Whoever asks for help chooses from all."""
    assert {"rightsizer.cli.plan", "rightsizer.cli.agent"} <= modules("--help")
