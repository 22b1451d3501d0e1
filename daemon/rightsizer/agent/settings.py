"""Settings of the agent: the sections of all packages under the keys of the file."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from rightsizer.accounting.settings import AccountingSettings, HistorySettings
from rightsizer.actions.settings import ActionSettings, ActionsSettings
from rightsizer.advice.policy import NodeSettings, Policy, RecommenderSettings, policies_of_pool
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.catalogue.settings import CatalogueSettings, PriceSettings
from rightsizer.host.settings import PathSettings
from rightsizer.io.log_settings import LogSettings
from rightsizer.model.values import CONSTANT, LIVE, Spec
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.mail.settings import MailSettings
from rightsizer.notify.webhook.settings import WebhookSettings
from rightsizer.profiler.settings import ProfileSettings
from rightsizer.sizing.settings import SizingSettings
from rightsizer.telemetry.settings import SamplingSettings, SourceSettings
from rightsizer.web.settings import WebTree


class LabelSettings(Struct, frozen=True):
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

    file: str = ""
    interval: Annotated[float, Spec(unit="seconds", within=(10.0, 3600.0))] = 60.0
    settled: Annotated[float, Spec(unit="seconds", within=(0.0, 86400.0)), CONSTANT] = 600.0
    expiry: Annotated[float, Spec(unit="seconds", within=(120.0, 7 * 86400.0)), CONSTANT] = 3600.0


class Settings(Struct, frozen=True):
    """Configuration of the agent.

    Attributes:
        webhooks: Receivers of recommendations: Slack, Teams, Alertmanager, or any receiver of JSON.
        mails: Receivers of recommendations by mail.
        actions: Automated actions on recommendations; none by default.
        policies: Operator-provided facts and thresholds by workload; the first match applies.
    """

    sampling: SamplingSettings = SamplingSettings()
    sources: SourceSettings = SourceSettings()
    catalogue: Annotated[CatalogueSettings, LIVE] = CatalogueSettings()
    prices: Annotated[PriceSettings, LIVE] = PriceSettings()
    accounting: AccountingSettings = AccountingSettings()
    history: HistorySettings = HistorySettings()
    recommender: Annotated[RecommenderSettings, LIVE] = RecommenderSettings()
    sizing: Annotated[SizingSettings, LIVE] = SizingSettings()
    placement: Annotated[GpuPlacementSettings, LIVE] = GpuPlacementSettings()
    broker: Annotated[BrokerSettings, LIVE] = BrokerSettings()
    labels: Annotated[LabelSettings, LIVE] = LabelSettings()
    profiles: Annotated[ProfileSettings, LIVE] = ProfileSettings()
    grafana: Annotated[GrafanaSettings, LIVE] = GrafanaSettings()
    webhooks: Annotated[tuple[WebhookSettings, ...], Spec(is_live=True)] = ()
    mails: Annotated[tuple[MailSettings, ...], Spec(is_live=True)] = ()
    actions: tuple[ActionSettings, ...] = ()
    acting: ActionsSettings = ActionsSettings()
    web: WebTree = WebTree()
    log: LogSettings = LogSettings()
    path: PathSettings = PathSettings()
    node: Annotated[NodeSettings, LIVE] = NodeSettings()
    policies: Annotated[tuple[Policy, ...], Spec(is_live=True)] = ()

    @property
    def rule_trees(self) -> Mapping[str, object]:
        """Settings of all rules of a node: rule trees by their key in the file."""
        return {"recommender.rules": self.recommender.rules, "profiles.rules": self.profiles.rules}

    @property
    def policies_here(self) -> tuple[Policy, ...]:
        """Policies that apply to this node's pool."""
        return policies_of_pool(self.policies, self.node.pool)
