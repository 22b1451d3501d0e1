"""Imports of settings: reading a configuration loads no driver and no server."""

import subprocess
import sys
from typing import Final

import pytest

FOREIGN: Final = frozenset(
    {
        "apscheduler",
        "bcrypt",
        "h2",
        "http.client",
        "http.server",
        "jinja2",
        "prometheus_client",
        "pynvml",
        "sqlite3",
        "ssl",
        "structlog",
        "urllib3",
    }
)
MACHINERY: Final = (
    "rightsizer.accounting.history",
    "rightsizer.advice.ledger",
    "rightsizer.broker.broker",
    "rightsizer.exposition.exposition",
    "rightsizer.io.database",
    "rightsizer.io.http",
    "rightsizer.telemetry.live",
    "rightsizer.telemetry.nvml.library",
    "rightsizer.profiles.registry",
    "rightsizer.web.server",
)
PACKAGES: Final = (
    "accounting advice broker catalogue exposition host notify.grafana notify.webhook owners"
    " profiler profiler.capture sizing telemetry telemetry.dcgm telemetry.nvml telemetry.serving"
    " actions planner web"
)


def loaded_by(module: str) -> frozenset[str]:
    """Modules loaded by a fresh interpreter after an import."""
    program = f"import sys, {module}\nprint(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return frozenset(result.stdout.split())


def test_the_agents_settings_load_no_machinery() -> None:
    """No driver, server, TLS, SQLite, scheduler or profile reader."""
    loaded = loaded_by("rightsizer.agent.settings")
    profiler = {
        name
        for name in loaded
        if name.startswith("rightsizer.profiler.") and not name.endswith((".settings", ".capture"))
    }

    assert "rightsizer.advice.rules.idle" in loaded
    assert loaded & FOREIGN == set()
    assert loaded.isdisjoint(MACHINERY)
    assert profiler == set()


@pytest.mark.parametrize("package", PACKAGES.split())
def test_a_packages_settings_load_no_machinery(package: str) -> None:
    """Commands read it that need nothing else of the package."""
    loaded = loaded_by(f"rightsizer.{package}.settings")

    assert loaded & FOREIGN == set()
    assert loaded.isdisjoint(MACHINERY)
