"""Settings of the agent: the sections of all packages under the keys of the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, Final

from rightsizer.accounting.history import MAXIMUM_BYTES
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.actions.settings import ActionSettings, ActionsSettings
from rightsizer.advice.market import MarketSettings
from rightsizer.advice.policy import NodeSettings, Policy, policies_of_pool
from rightsizer.advice.rules import RULES
from rightsizer.advice.settings import LedgerSettings
from rightsizer.broker.settings import BrokerSection, GpuPlacementSettings
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.host.settings import HostSettings
from rightsizer.io.log import LogSettings
from rightsizer.model.errors import UsageError
from rightsizer.model.settings import LIVE, setting
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.webhook.settings import WebhookSettings
from rightsizer.owners.settings import OwnerSettings
from rightsizer.profiler.settings import ProfileSettings
from rightsizer.sizing.settings import SizingSettings
from rightsizer.telemetry.dcgm.settings import DcgmSettings
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.serving.settings import ServingTelemetrySettings
from rightsizer.web.settings import WebSettings, checked_path, parse_address


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """What is kept on disk."""

    path: str = setting(
        "/var/lib/rightsizer/history.db",
        help="The database; empty to keep nothing over a restart.",
    )
    retention: float = setting(
        30 * 86400.0,
        help="How long windows are kept.",
        unit="seconds",
        minimum=86400.0,
        maximum=366 * 86400.0,
        source="the longest window that a rule asks for, twice",
        is_live=True,
    )
    fine_retention: float = setting(
        48 * 3600.0,
        help="How long five-minute windows are kept before they are merged into hours.",
        unit="seconds",
        minimum=86400.0,
        maximum=366 * 86400.0,
        source="the 24 h that are answered from five-minute windows, twice",
        is_live=True,
    )
    maximum_size_bytes: int = setting(
        MAXIMUM_BYTES,
        help="What the database may take; beyond it the oldest windows are forgotten before "
        "their time. Its log takes up to 4 MiB more.",
        unit="bytes",
        minimum=2**20,
        source="docs/benchmarks.md: 64 devices for 30 days",
    )
    flush_interval: float = setting(
        60.0,
        help="Time between two writes; a crash loses no more than this.",
        unit="seconds",
        minimum=1.0,
        maximum=3600.0,
        is_live=True,
    )


@dataclass(frozen=True, slots=True)
class LabelSettings:
    """The feature file for node-feature-discovery."""

    file: str = setting(
        "",
        help="The feature file to keep up to date, mostly "
        "/etc/kubernetes/node-feature-discovery/features.d/rightsizer; empty for none.",
    )
    interval: float = setting(
        60.0,
        help="Time between two writings.",
        unit="seconds",
        minimum=10.0,
        maximum=3600.0,
        source="node-feature-discovery looks for new labels once a minute (its sleepInterval)",
    )
    settled: float = setting(
        600.0,
        help="How long a GPU must have been healthy, or not, before a label says so.",
        unit="seconds",
        minimum=0.0,
        maximum=86400.0,
        source="a reset and a driver's restart take minutes; labels move pods",
    )
    expiry: float = setting(
        3600.0,
        help="How long labels hold after the agent wrote them last.",
        unit="seconds",
        minimum=120.0,
        maximum=7 * 86400.0,
        source="longer than an update of the agent takes",
    )


OTHERS: Final = frozenset({"fleet"})
"""Sections of the same file that an agent passes over: reading them would take it 2 MB."""


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How often the devices are read."""

    interval: float = setting(
        1.0,
        help="Time between two readings of a device.",
        unit="seconds",
        minimum=0.1,
        maximum=100.0,
        source="docs/definitions.md, sources: shares of time need 1 Hz in the node",
    )


@dataclass(frozen=True, slots=True)
class SimulatedSettings:
    """A simulated node in place of the real one."""

    scenario: str = setting(
        "",
        help="Name of a built-in scenario, or a scenario file; empty to read the real driver.",
    )


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Where readings come from."""

    nvml: LiveSettings = field(default_factory=LiveSettings)
    dcgm: DcgmSettings = field(default_factory=DcgmSettings)
    host: HostSettings = field(default_factory=HostSettings)
    owners: OwnerSettings = field(default_factory=OwnerSettings)
    serving: ServingTelemetrySettings = field(default_factory=ServingTelemetrySettings)
    simulated: SimulatedSettings = field(default_factory=SimulatedSettings)


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Where things lie on this machine; a container may see the host's file systems elsewhere."""

    procfs: str = setting("/proc", help="Mount point of procfs.")
    sysfs: str = setting("/sys", help="Mount point of sysfs.")
    api_socket: str = setting(
        "/run/rightsizer/api.sock",
        help="Socket for commands on this node, for the agent's own user and group alone; empty "
        "for none.",
    )


@dataclass(frozen=True, slots=True)
class CatalogueSettings:
    """What an operator knows better of boards and prices."""

    boards_file: str = setting(
        "", help="A YAML file of boards to change or add; empty for the packaged ones alone."
    )
    prices_file: str = setting(
        "", help="A YAML file of prices to change or add; empty for the packaged ones, which age."
    )

    @property
    def boards_path(self) -> Path | None:
        """The file of boards, if there is one."""
        return Path(self.boards_file) if self.boards_file else None

    @property
    def prices_path(self) -> Path | None:
        """The file of prices, if there is one."""
        return Path(self.prices_file) if self.prices_file else None


RuleTree: Any = make_dataclass(
    "RuleTree",
    [
        (rule.name, type(rule.settings), field(default_factory=type(rule.settings)))
        for rule in RULES
    ],
    frozen=True,
    slots=True,
    namespace={"__doc__": "The rules by name.", "__module__": __name__},
)
"""Each rule's own settings under its name, so that a rule is registered in one place."""


@dataclass(frozen=True, slots=True)
class RecommenderSettings:
    """When advice is made, and by which thresholds."""

    interval: float = setting(
        600.0,
        help="Time between two runs.",
        unit="seconds",
        minimum=10.0,
        maximum=86400.0,
        source="the shortest span that a rule looks at",
    )
    jitter: float = setting(
        30.0,
        help="How far a run may be shifted, so that a fleet's agents do not run together.",
        unit="seconds",
        minimum=0.0,
        maximum=3600.0,
    )
    rules: RuleTree = field(default_factory=RuleTree)
    market: MarketSettings = field(default_factory=MarketSettings)
    ledger: LedgerSettings = field(default_factory=LedgerSettings)


@dataclass(frozen=True, slots=True)
class WebTree:
    """Where and how HTTP is served."""

    listen_addresses: tuple[str, ...] = setting(
        (":19400",), help="Addresses to listen on, as host:port, :port or [::1]:port."
    )
    config_file: str = setting(
        "",
        help="A file of TLS, users, headers and limits, in the format of all Prometheus exporters; "
        "empty for plain HTTP without users.",
    )
    enable_lifecycle: bool = setting(
        False,
        help="Take /-/reload over TCP, and from those who prove who they are whatever changes "
        "something.",
    )
    telemetry_path: str = setting("/metrics", help="Where the metrics are.")
    route_prefix: str = setting(
        "", help="What every path begins with, like /gpu, behind a proxy that passes paths on."
    )
    systemd_socket: bool = setting(
        False, help="Listen on the sockets that systemd hands over, and not on the addresses."
    )
    server: WebSettings = field(default_factory=WebSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings, metadata=LIVE)

    def __post_init__(self) -> None:
        """Refuse an address that nobody can listen at, and a path that nobody can ask for."""
        for address in self.listen_addresses:
            try:
                parse_address(address)
            except UsageError as error:
                raise ValueError(f"listen_addresses: {error}") from None
        for key, path in (
            ("telemetry_path", self.telemetry_path),
            ("route_prefix", self.route_prefix or "/"),
        ):
            try:
                checked_path(path)
            except UsageError as error:
                raise ValueError(f"{key}: {error}") from None


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that an operator may set."""

    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    sources: SourceSettings = field(default_factory=SourceSettings)
    catalogue: CatalogueSettings = field(default_factory=CatalogueSettings, metadata=LIVE)
    accounting: AccountingSettings = field(default_factory=AccountingSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    recommender: RecommenderSettings = field(default_factory=RecommenderSettings, metadata=LIVE)
    sizing: SizingSettings = field(default_factory=SizingSettings, metadata=LIVE)
    placement: GpuPlacementSettings = field(default_factory=GpuPlacementSettings, metadata=LIVE)
    broker: BrokerSection = field(default_factory=BrokerSection, metadata=LIVE)
    labels: LabelSettings = field(default_factory=LabelSettings, metadata=LIVE)
    profiles: ProfileSettings = field(default_factory=ProfileSettings, metadata=LIVE)
    grafana: GrafanaSettings = field(default_factory=GrafanaSettings, metadata=LIVE)
    webhooks: tuple[WebhookSettings, ...] = setting(
        (),
        help="Who else is told of advice: an Alertmanager, or anybody who takes JSON.",
        is_live=True,
    )
    actions: tuple[ActionSettings, ...] = setting(
        (), help="What is done on advice, where an operator wants that; nothing by itself."
    )
    acting: ActionsSettings = field(default_factory=ActionsSettings)
    web: WebTree = field(default_factory=WebTree)
    log: LogSettings = field(default_factory=LogSettings)
    path: PathSettings = field(default_factory=PathSettings)
    node: NodeSettings = field(default_factory=NodeSettings, metadata=LIVE)
    policies: tuple[Policy, ...] = setting(
        (),
        help="What operators know of their workloads and the agent cannot see; first match.",
        is_live=True,
    )

    @property
    def rule_trees(self) -> Mapping[str, object]:
        """The settings of all rules of a node by their names, by their keys in the file."""
        return {"recommender.rules": self.recommender.rules, "profiles.rules": self.profiles.rules}

    @property
    def policies_here(self) -> tuple[Policy, ...]:
        """The policies that are about this machine."""
        return policies_of_pool(self.policies, self.node.pool)
