"""Settings of the exposition."""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from rightsizer.model.values import (
    COLLECTORS,
    CONSTANT,
    DEFAULT_COLLECTORS,
    Collector,
    Level,
    Spec,
    settings_class,
)


class DcgmLabels(StrEnum):
    """Which generation of dcgm-exporter's label names is written."""

    CURRENT = "current"
    """`Hostname`, `pod`: dcgm-exporter 2 to 4.5."""
    LOWERCASE = "lowercase"
    """`hostname`, `pod`: dcgm-exporter since May 2026."""
    FORMER = "former"
    """`uuid`, `pod_name`, `pod_namespace`, `container_name`: dcgm-exporter 1, and `-o` since."""


_SWITCHES: Final = (
    (collector.value, Annotated[bool, Spec(help=sentence)], collector in DEFAULT_COLLECTORS)
    for collector, sentence in COLLECTORS.items()
)
CollectorSwitches: Any = settings_class(
    "CollectorSwitches", __name__, "Enabled metric collectors.", _SWITCHES
)


class MetricsSettings(Struct, frozen=True):
    """Amount and compression of exported metrics.

    Attributes:
        advice_limit: Maximum open recommendations exported individually; totals count all.
            Source: six series each; a node has a few
        level: What default collectors export: `essential` (states, waste, provisioning, advice,
            health), `standard` (also conditions, errors, usual readings) or `full` (also
            histograms). Others export everything.
            Source: measured on eight GPUs: 40, 71 and 231 series a GPU
        details: Enable every collector: also single NVLinks, links between GPUs, BAR1, the host by
            workload and others. About 40 more series per GPU, 108 with 18 NVLinks.
            Source: the default set keeps to 1,920 series for eight GPUs
        gzip_level: Compression level of a scrape, from 1 (fastest) to 9 (smallest).
            Source: measured: level 3 is within a tenth of level 6 in a third of its time
        dcgm: Also serve /metrics/dcgm with dcgm-exporter's names; rejected while `sources.dcgm`
            reads a dcgm-exporter.
        dcgm_labels: Label names of /metrics/dcgm: `current` has Hostname and pod, `lowercase`
            hostname, `former` uuid, pod_name, pod_namespace and container_name.
            Source: dcgm-exporter changed Hostname to hostname in May 2026; most dashboards are
            older
    """

    advice_limit: Annotated[int, Spec(within=(0, 10_000))] = 500
    level: Level = Level.STANDARD
    details: bool = False
    gzip_level: Annotated[int, Spec(within=(1, 9)), CONSTANT] = 3
    dcgm: bool = False
    dcgm_labels: DcgmLabels = DcgmLabels.CURRENT
    collectors: CollectorSwitches = field(default_factory=CollectorSwitches)

    @property
    def enabled(self) -> frozenset[Collector]:
        """Collectors that are enabled."""
        if self.details:
            return frozenset(Collector)
        return frozenset(
            Collector(struct_field)
            for struct_field in self.collectors.__struct_fields__
            if getattr(self.collectors, struct_field)
        )

    def switched(
        self, on: Collection[Collector] = (), off: Collection[Collector] = ()
    ) -> "MetricsSettings":
        """Return the settings with some collectors switched on and others off."""
        enabled = (self.enabled | frozenset(on)) - frozenset(off)
        switches = {collector.value: collector in enabled for collector in Collector}
        return replace(self, details=False, collectors=CollectorSwitches(**switches))
