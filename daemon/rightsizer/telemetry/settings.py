"""Settings of telemetry: sampling interval and sources."""

from typing import Annotated

from msgspec import Struct

from rightsizer.host.settings import HostSettings
from rightsizer.model.values import DAY_SECONDS, Spec
from rightsizer.owners.settings import OwnerSettings
from rightsizer.telemetry.dcgm.settings import DcgmSettings
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.serving.settings import ServingTelemetrySettings


class SamplingSettings(Struct, frozen=True):
    """Sampling of the devices.

    Attributes:
        interval: Time between readings of a device; shorter load changes go unseen.
            Source: shares of time by values that are 30 to 60 s apart are imprecise
    """

    interval: Annotated[float, Spec(unit="seconds", within=(0.1, 100.0))] = 1.0


class SimulatedSettings(Struct, frozen=True):
    """Simulated node in place of the real one.

    Attributes:
        scenario: Built-in scenario or scenario file; empty to read the real driver.
        midnight: When the scenario's day begins, after 00:00 UTC.
    """

    scenario: str = ""
    midnight: Annotated[float, Spec(unit="seconds", within=(0.0, DAY_SECONDS))] = 0.0


class SourceSettings(Struct, frozen=True):
    """Sources of readings."""

    nvml: LiveSettings = LiveSettings()
    dcgm: DcgmSettings = DcgmSettings()
    host: HostSettings = HostSettings()
    owners: OwnerSettings = OwnerSettings()
    serving: ServingTelemetrySettings = ServingTelemetrySettings()
    simulated: SimulatedSettings = SimulatedSettings()
