"""Policies through the command: they reach the processes that evaluate."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from dcgm_estate import HELD, NOW, EstatePast, Phase, basic, gpu
from fleet_command import Said, configured, fleet_process
from prometheus_server import Prometheus
from rightsizer.advice.policy import Policy
from rightsizer.config.loader import load
from rightsizer.fleet.settings import FleetConfig
from victoria_server import victoria_server

DEVICES: Final = 40
"""Enough for more than one process to evaluate."""
POLICIES: Final[list[dict[str, Any]]] = [
    {"match": {"owner": "warm-*"}, "class": "standby"},
    {"match": {"owner": "cold-2*"}, "ignore": [{"reasons": ["IdleHeld"], "why": "for the fair"}]},
    {"match": {"owner": "cold-*"}, "thresholds": {"idle": {"on_ratio": 1.0}}},
]


@pytest.fixture(scope="module")
def store() -> Iterator[Prometheus]:
    """Forty held GPUs that idled for a day, half of them kept warm."""
    past = EstatePast(300)
    for number in range(DEVICES):
        name = f"{'warm' if number % 2 else 'cold'}-{number}"
        held = {"pod": name, "namespace": "web", "container": "main"}
        labels = {"UUID": gpu(number), "Hostname": f"n{number // 8}", "gpu": str(number % 8)}
        model = {"modelName": "NVIDIA H100 80GB HBM3"}
        past.device([Phase(0, 24, basic(HELD), held)], **labels, **model)
    with victoria_server(past=past.text()) as server:
        yield server


def run_fleet(store: Prometheus, folder: Path, policies: list[dict[str, Any]]) -> Said:
    """Run with two processes."""
    config = configured(folder, store.url, workers=2, lookback="1d", other={"policies": policies})
    return fleet_process(config, "--json", "--all", "--at", str(NOW // 10**9))


@pytest.mark.prometheus
def test_policies_hold_in_every_process_that_judges(store: Prometheus, tmp_path: Path) -> None:
    """Classes and thresholds are the policy's, and ignored findings state why."""
    findings = run_fleet(store, tmp_path, POLICIES).document["findings"]
    found = {each["key"]: each for each in findings if each["rule"] == "idle"}
    assert len(found) == DEVICES
    for key, finding in found.items():
        assert bool(finding["reasons"]) is ("/cold-" in key)
        assert ("fair" in str(finding["evidence"].get("excluded"))) is ("/cold-2" in key)
        is_strict = "/cold-" in key and "/cold-2" not in key
        assert (finding["evidence"].get("threshold_ratio") == 1.0) is is_strict


def test_settings_of_policies_are_the_same_in_another_process() -> None:
    """Classes of settings are generated from those of the rules as the program starts."""
    text = "policies:\n  - {thresholds: {idle: {on_ratio: 0.9}}, ignore: [{why: fair}]}\n"
    policies = load(FleetConfig, text, "x.yaml").policies
    assert again(policies) == policies
    assert again(policies)[0].thresholds.idle.on_ratio == 0.9


def again(policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
    """Policies as another process receives them."""
    found: tuple[Policy, ...] = pickle.loads(pickle.dumps(policies))
    return found
