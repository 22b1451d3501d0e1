"""What an operator may set of the live source."""

from rightsizer.model.frozen import dataclass
from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """How patiently the driver is asked, and for what."""

    deadline_seconds: float = setting(0.8, within=(0.01, 60.0))
    hung_after_seconds: float = setting(3.0, within=(0.01, 3600.0))
    first_look_patience_seconds: float = setting(0.4, within=(0.01, 3600.0))
    slow_interval_seconds: float = setting(10.0, within=(1.0, 3600.0))
    enumeration_interval_seconds: float = setting(60.0, within=(1.0, 86400.0))
    retry_first_seconds: float = setting(1.0, within=(0.1, 3600.0))
    retry_longest_seconds: float = setting(60.0, within=(0.1, 86400.0))
    unknown_errors_before_reopening: int = setting(3, within=(1, 1000))
    abandon_after_seconds: float = setting(30.0, within=(0.01, 86400.0))
    abandoned_threads_maximum: int = setting(2, within=(0, 100))
    lost_retention_seconds: float = setting(86400.0, within=(0.0, 2592000.0))
    settling_seconds: float = setting(3.0, within=(0.0, 600.0))
    gpm_shortest_seconds: float = setting(0.1, within=(0.0, 60.0))
    gpm_overshoot_ratio: float = setting(0.05)
    suspect_busy_ratio: float = setting(0.5, within=(0.01, 1.0))
    disabled_collectors: tuple[str, ...] = setting(("pcie_throughput",))
