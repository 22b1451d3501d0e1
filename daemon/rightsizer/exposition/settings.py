"""What an operator may change about the exposition."""

from collections.abc import Collection
from enum import StrEnum
from typing import Any, Final

from rightsizer.model.frozen import dataclass, field, fields, replace
from rightsizer.model.metric_family import COLLECTORS, DEFAULT_COLLECTORS, Collector, Level
from rightsizer.model.settings import setting, settings_class


class DcgmLabels(StrEnum):
    """Which generation of dcgm-exporter's label names is written."""

    CURRENT = "current"
    """`Hostname`, `pod`: dcgm-exporter 2 to 4.5."""
    LOWERCASE = "lowercase"
    """`hostname`, `pod`: dcgm-exporter since May 2026."""
    FORMER = "former"
    """`uuid`, `pod_name`, `pod_namespace`, `container_name`: dcgm-exporter 1, and `-o` since."""


_SWITCHES: Final = (
    (collector.value, bool, setting(collector in DEFAULT_COLLECTORS, help=sentence))
    for collector, sentence in COLLECTORS.items()
)
CollectorSwitches: Any = settings_class(
    "CollectorSwitches", __name__, "Which collectors are on.", _SWITCHES
)


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """How much is exported, and how hard it is compressed."""

    advice_limit: int = setting(500, within=(0, 10_000))
    level: Level = setting(Level.STANDARD)
    details: bool = setting(False)
    gzip_level: int = setting(3, within=(1, 9))
    dcgm: bool = setting(False)
    dcgm_labels: DcgmLabels = setting(DcgmLabels.CURRENT)
    collectors: CollectorSwitches = field(default_factory=CollectorSwitches)

    @property
    def enabled(self) -> frozenset[Collector]:
        """The collectors that are on."""
        if self.details:
            return frozenset(Collector)
        return frozenset(
            Collector(each.name)
            for each in fields(self.collectors)
            if getattr(self.collectors, each.name)
        )

    def switched(
        self, on: Collection[Collector] = (), off: Collection[Collector] = ()
    ) -> "MetricsSettings":
        """The settings with some collectors switched on and others off."""
        enabled = (self.enabled | frozenset(on)) - frozenset(off)
        switches = {collector.value: collector in enabled for collector in Collector}
        return replace(self, details=False, collectors=CollectorSwitches(**switches))
