"""Settings of telemetry: sampling interval and sources."""

from rightsizer.host.settings import HostSettings
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.units import DAY_SECONDS
from rightsizer.owners.settings import OwnerSettings
from rightsizer.telemetry.dcgm.settings import DcgmSettings
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.serving.settings import ServingTelemetrySettings


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """Sampling of the devices.

    Attributes:
        interval: Time between readings of a device; shorter load changes go unseen.
            Source: shares of time by values that are 30 to 60 s apart are imprecise
    """

    interval: float = setting(1.0, unit="seconds", within=(0.1, 100.0))


@dataclass(frozen=True, slots=True)
class SimulatedSettings:
    """Simulated node in place of the real one.

    Attributes:
        scenario: Built-in scenario or scenario file; empty to read the real driver.
        midnight: When the scenario's day begins, after 00:00 UTC.
    """

    scenario: str = setting("")
    midnight: float = setting(0.0, unit="seconds", within=(0.0, DAY_SECONDS))


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Sources of readings."""

    nvml: LiveSettings = field(default_factory=LiveSettings)
    dcgm: DcgmSettings = field(default_factory=DcgmSettings)
    host: HostSettings = field(default_factory=HostSettings)
    owners: OwnerSettings = field(default_factory=OwnerSettings)
    serving: ServingTelemetrySettings = field(default_factory=ServingTelemetrySettings)
    simulated: SimulatedSettings = field(default_factory=SimulatedSettings)
