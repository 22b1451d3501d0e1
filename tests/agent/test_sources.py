"""The source selected by the settings."""

import threading
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from readings import EPOCH, SECOND
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.io.clock import FastClock
from rightsizer.model.errors import ScenarioError
from rightsizer.model.snapshot import Snapshot
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.telemetry.settings import SimulatedSettings


@pytest.fixture(autouse=True)
def _real_library_again() -> Iterator[None]:
    yield
    use_library(None)


def settings_for(scenario: str) -> Settings:
    """Settings for a simulated node."""
    sources = replace(Settings().sources, simulated=SimulatedSettings(scenario=scenario))
    return replace(Settings(), sources=sources)


def first_snapshot(settings: Settings) -> tuple[str, Snapshot]:
    """The name of the source, and its first snapshot with known devices."""
    clock = FastClock(EPOCH)
    named = live_source(settings, clock)
    try:
        for _ in range(20):
            clock.wait_until(clock.time() + SECOND, threading.Event())
            snapshot = named.source.read()
            assert snapshot is not None
            if snapshot.readings:
                break
    finally:
        named.source.close()
    return named.name, snapshot


def test_a_scenario_stands_below_the_live_source() -> None:
    """Names, devices and holders are the scenario's; readings come through the bindings."""
    name, snapshot = first_snapshot(settings_for("t4-pair"))

    assert name == "simulated (t4-pair)"
    assert [device.name for device in snapshot.devices] == ["Tesla T4", "Tesla T4"]
    assert set(snapshot.readings) == {device.uuid for device in snapshot.devices}
    assert "utilization" in snapshot.collectors


def test_a_scenario_that_does_not_exist_is_named_with_those_that_do() -> None:
    """Before anything starts."""
    with pytest.raises(ScenarioError, match=r"eigth-gpu-node.*eight-gpu-node"):
        live_source(settings_for("eigth-gpu-node"), FastClock(EPOCH))


def test_without_a_scenario_the_driver_is_read() -> None:
    """The snapshot shows whether this machine has one."""
    named = live_source(Settings(), FastClock(EPOCH))
    snapshot = named.source.read()
    named.source.close()

    assert named.name == "nvml"
    assert snapshot is not None
    assert bool(snapshot.devices) != bool(snapshot.trouble)
