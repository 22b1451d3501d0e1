"""Settings of the agent: the sections of all packages under the keys of the file."""

from collections.abc import Mapping

from rightsizer.accounting.settings import AccountingSettings, HistorySettings
from rightsizer.actions.settings import ActionSettings, ActionsSettings
from rightsizer.advice.policy import NodeSettings, Policy, RecommenderSettings, policies_of_pool
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.catalogue.settings import CatalogueSettings, PriceSettings
from rightsizer.host.settings import PathSettings
from rightsizer.io.log_settings import LogSettings
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import LIVE, setting
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.webhook.settings import WebhookSettings
from rightsizer.profiler.settings import ProfileSettings
from rightsizer.sizing.settings import SizingSettings
from rightsizer.telemetry.settings import SamplingSettings, SourceSettings
from rightsizer.web.settings import WebTree


@dataclass(frozen=True, slots=True)
class LabelSettings:
    """Feature file for node-feature-discovery.

    Attributes:
        file: Feature file to maintain, usually
            /etc/kubernetes/node-feature-discovery/features.d/rightsizer.
        interval: Time between writes of the file.
            Source: node-feature-discovery looks for new labels once a minute (its sleepInterval)
        settled: How long a GPU must be healthy or unhealthy before its label changes.
            Source: a reset and a driver's restart take minutes; labels move pods
        expiry: How long labels stay valid after the agent's last write.
            Source: longer than an update of the agent takes
    """

    file: str = setting("")
    interval: float = setting(60.0, unit="seconds", within=(10.0, 3600.0))
    settled: float = setting(600.0, unit="seconds", within=(0.0, 86400.0))
    expiry: float = setting(3600.0, unit="seconds", within=(120.0, 7 * 86400.0))


@dataclass(frozen=True, slots=True)
class Settings:
    """Configuration of the agent.

    Attributes:
        webhooks: Receivers of recommendations: Alertmanager, or any receiver of JSON.
        actions: Automated actions on recommendations; none by default.
        policies: Operator-provided facts and thresholds by workload; the first match applies.
    """

    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    sources: SourceSettings = field(default_factory=SourceSettings)
    catalogue: CatalogueSettings = field(default_factory=CatalogueSettings, metadata=LIVE)
    prices: PriceSettings = field(default_factory=PriceSettings, metadata=LIVE)
    accounting: AccountingSettings = field(default_factory=AccountingSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    recommender: RecommenderSettings = field(default_factory=RecommenderSettings, metadata=LIVE)
    sizing: SizingSettings = field(default_factory=SizingSettings, metadata=LIVE)
    placement: GpuPlacementSettings = field(default_factory=GpuPlacementSettings, metadata=LIVE)
    broker: BrokerSettings = field(default_factory=BrokerSettings, metadata=LIVE)
    labels: LabelSettings = field(default_factory=LabelSettings, metadata=LIVE)
    profiles: ProfileSettings = field(default_factory=ProfileSettings, metadata=LIVE)
    grafana: GrafanaSettings = field(default_factory=GrafanaSettings, metadata=LIVE)
    webhooks: tuple[WebhookSettings, ...] = setting((), is_live=True)
    actions: tuple[ActionSettings, ...] = setting(())
    acting: ActionsSettings = field(default_factory=ActionsSettings)
    web: WebTree = field(default_factory=WebTree)
    log: LogSettings = field(default_factory=LogSettings)
    path: PathSettings = field(default_factory=PathSettings)
    node: NodeSettings = field(default_factory=NodeSettings, metadata=LIVE)
    policies: tuple[Policy, ...] = setting((), is_live=True)

    @property
    def rule_trees(self) -> Mapping[str, object]:
        """Settings of all rules of a node: rule trees by their key in the file."""
        return {"recommender.rules": self.recommender.rules, "profiles.rules": self.profiles.rules}

    @property
    def policies_here(self) -> tuple[Policy, ...]:
        """Policies that apply to this node's pool."""
        return policies_of_pool(self.policies, self.node.pool)
