"""Settings of the fleet recommender, and the paths of its day cache and ledger."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from operator import gt, lt
from pathlib import Path
from typing import Annotated, Any, Final
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.settings import AccountingSettings, HistorySettings
from rightsizer.advice.policy import Policy, RecommenderSettings
from rightsizer.advice.settings import LedgerSettings
from rightsizer.catalogue.settings import CatalogueSettings, PriceSettings
from rightsizer.fleet.rules import FLEET_RULES
from rightsizer.io.files import private_folder
from rightsizer.io.log_settings import LogSettings
from rightsizer.model.values import (
    CONSTANT,
    DAY_SECONDS,
    Spec,
    UsageError,
    bounds_of,
    format_duration,
    settings_class,
)
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.mail.settings import MailSettings
from rightsizer.notify.webhook.settings import WebhookSettings
from rightsizer.sizing.settings import SizingSettings
from rightsizer.web.settings import WebTree


class AgentSourceSettings(Struct, frozen=True):
    """Thresholds for warnings about the agents' metrics.

    Attributes:
        clock_skew_seconds: Clock difference between node and store from which it is reported.
            Source: one scrape at the longest usual interval
        stale_seconds: Age of a device's last reading from which it is reported.
            Source: docs/alerts.md: RightsizerDeviceDown fires after 5 min
        sizing_days: Days of samples required for sizing.
            Source: docs/definitions.md, conduct: a week has one of each day
        fine_resolution_seconds: Maximum sample spacing at which a day is read in five-minute steps.
            Source: increase needs two samples in a range of five minutes, and one may be missing
    """

    clock_skew_seconds: Annotated[float, Spec(within=(1.0, 3600.0)), CONSTANT] = 60.0
    stale_seconds: Annotated[float, Spec(within=(10.0, 86400.0)), CONSTANT] = 300.0
    sizing_days: Annotated[float, Spec(within=(1.0, 90.0)), CONSTANT] = 7.0
    fine_resolution_seconds: Annotated[float, Spec(within=(1.0, 300.0)), CONSTANT] = 120.0


class DemandSettings(Struct, frozen=True):
    """Estimated demand distributions where only means and peaks are known.

    Attributes:
        peak_share_ratio: Share of an interval's active time assumed at its peak, without an
            exported distribution.
            Source: its P99 is then the P90 of the peaks; single spikes are ignored
    """

    peak_share_ratio: Annotated[float, Spec(within=(0.001, 1)), CONSTANT] = 0.1


class StoreSettings(Struct, frozen=True):
    """The store's address, credentials, and query limits.

    Attributes:
        url: Base URL of Prometheus, Thanos Query, Mimir or VictoriaMetrics, without `/api/v1`.
        tenant: Tenant, sent as `X-Scope-OrgID` for Mimir and Cortex, and as `THANOS-TENANT`.
        token_file: File with a bearer token; read at each request.
        username: User name for basic authentication.
        password_file: File with that user's password.
        ca_file: PEM file with the certificate authorities to trust; empty for the system's.
        certificate_file: PEM file with the client certificate.
        key_file: PEM file with the client certificate's key.
        timeout_seconds: Time limit of one query, passed to the store as `timeout`.
            Source: half of Prometheus's --query.timeout of 2 min
        concurrency: Maximum concurrent queries.
            Source: a fifth of Prometheus's --query.max-concurrency of 20
        series_maximum: Target maximum of series per query; more are split over several queries.
            Source: 2000 series of 288 samples are a tenth of Prometheus's --query.max-samples
        response_maximum_bytes: Maximum size of a response; a larger one is split into smaller
            queries.
        tries: Minimum attempts of a query before the run fails, whatever the patience.
        patience_seconds: How long to wait for a store that answered before and is down or busy.
            Source: a Prometheus of some million series replays its log for minutes as it restarts
        backoff_seconds: Delay before the second attempt; doubles with each further one.
        retry_after_maximum_seconds: Maximum delay before a retry that the store may request.
    """

    url: str = ""
    tenant: str = ""
    token_file: str = ""
    username: str = ""
    password_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    timeout_seconds: Annotated[float, Spec(within=(1.0, 600.0))] = 60.0
    concurrency: Annotated[int, Spec(within=(1, 64))] = 4
    series_maximum: Annotated[int, Spec(within=(50, 100_000)), CONSTANT] = 2000
    response_maximum_bytes: Annotated[int, Spec(within=(2**20, None))] = 64 * 2**20
    tries: Annotated[int, Spec(within=(1, 20))] = 4
    patience_seconds: Annotated[float, Spec(within=(0.0, 86400.0))] = 600.0
    backoff_seconds: Annotated[float, Spec(within=(0.0, 60.0))] = 1.0
    retry_after_maximum_seconds: Annotated[float, Spec(within=(0.0, 600.0)), CONSTANT] = 60.0


_OF_RULES: Final = [(rule.name, type(rule.settings)) for rule in FLEET_RULES]
FleetRuleTree: Any = settings_class(
    "FleetRuleTree",
    __name__,
    "Rules of the fleet, by name.",
    ((name, kind, kind()) for name, kind in _OF_RULES),
)
_MOST_SHARDS: Final = 1024


class Shard(Struct, frozen=True):
    """Subset of a store's clusters, or of their nodes."""

    index: int = 0
    """Less than the count."""
    count: int = 1
    is_by_node: bool = False

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse `3/16` or `node:3/16`; `16/16` is `0/16`, so that counting from 1 works too.

        Raises:
            ValueError: the text has another form.
        """
        parts = re.fullmatch(r"(node:)?(\d{1,4})/(\d{1,4})", text)
        index, count = map(int, parts.groups()[1:]) if parts else (1, 0)
        if not 1 <= count <= _MOST_SHARDS or index > count:
            raise ValueError(
                f"shard: '{text}' is no part of a fleet; write it as 3/16, or node:3/16 for a part "
                f"of the nodes, of {_MOST_SHARDS} parts at most"
            )
        return cls(index % count, count, bool(parts and parts[1]))

    def has_cluster(self, name: str) -> bool:
        """Whether some of a cluster belongs to it, independent of other clusters."""
        return self.is_by_node or self._has(name)

    def has_node(self, cluster: str, node: str) -> bool:
        """Whether a node of such a cluster belongs to it, independent of other nodes."""
        return not self.is_by_node or self._has(f"{cluster}/{node}")

    def _has(self, name: str) -> bool:
        return crc32(name.encode()) % self.count == self.index

    def path(self, path: Path) -> Path:
        """Return the shard's own path beside that of the whole."""
        return path.with_name(f"{path.stem}-{self.index}-of-{self.count}{path.suffix}")


class FleetSettings(Struct, frozen=True):
    """Cluster-wide recommendations from a metrics store.

    Attributes:
        lookback_seconds: Length of the history to read.
            Source: docs/definitions.md, conduct: sizing rests on 14 days
        matchers: Label matchers added to every query, such as `cluster="paris"`.
        cluster_label: Label that distinguishes the clusters of a store, or several together, such
            as `region,cluster`; empty for the first found of `cluster`, `k8s_cluster`,
            `cluster_name`, `k8s_cluster_name`, `kubernetes_cluster`.
        shard: Part of the clusters by name, such as `3/16`, or of the nodes, such as `node:3/16`,
            counted from 0 or 1. Each has its own cache and ledger; parts of the nodes are for
            `rightsizer fleet merge`.
        pool_labels: Labels that name a node's pool, in order of precedence; without any, the board.
        team_labels: Labels that name a workload's team, in order of precedence; without any, the
            namespace.
        sources: Sources to read: `rightsizer`, `dcgm-exporter`, `kube-state-metrics`, `slurm`,
            `serving`; empty for all found.
        samples_maximum: Samples of a cluster in a first run up to which all days are read in
            five-minute steps, else older ones by the hour.
            Source: a fortnight of 150 GPUs by five minutes; half a gigabyte of answers
        fine_seconds: Recent history always read in five-minute steps; each UTC day has one step
            size.
            Source: docs/definitions.md, conduct: bottlenecks are looked for in six hours
        late_seconds: How long after its end a day is read again, for late samples.
            Source: a receiver that was down, and recording rules that lag
        absent_seconds: How long a device may be silent before it counts as gone.
            Source: longer than a node's restart
        workers: Worker processes; 0 for one per core and 1,000 GPUs, at most 8.
        path: Cache of days, next to the ledger; empty for `fleet.db` beside `history.path`, or in
            the user's cache.
        api_socket: Unix socket for commands while `rightsizer fleet --serve` runs, for its user and
            group; not the agent's.
        exported_maximum: Maximum pools, and of teams, in `/metrics`, largest first.
            Source: 2,000 series for both; a team is whatever a label of a workload says
        most_records: Maximum recommendations kept, in place of recommender.ledger.most_records.
            Source: a recommendation for each GPU of a large fleet, some 60 MB
        interval_seconds: Time between runs of `rightsizer fleet --serve`.
    """

    store: StoreSettings = StoreSettings()
    lookback_seconds: Annotated[float, Spec(within=(DAY_SECONDS, 90 * DAY_SECONDS))] = (
        14 * DAY_SECONDS
    )
    matchers: str = ""
    cluster_label: str = ""
    shard: str = ""
    pool_labels: tuple[str, ...] = (
        "label_cloud_google_com_gke_nodepool",
        "label_eks_amazonaws_com_nodegroup",
        "label_alpha_eksctl_io_nodegroup_name",
        "label_karpenter_sh_nodepool",
        "label_kubernetes_azure_com_agentpool",
        "label_agentpool",
        "label_alibabacloud_com_nodepool_id",
        "label_compute_coreweave_com_node_pool",
        "label_doks_digitalocean_com_node_pool",
        "label_ibm_cloud_kubernetes_io_worker_pool_name",
        "label_k8s_scaleway_com_pool_name",
        "label_lke_linode_com_pool_id",
        "label_kops_k8s_io_instancegroup",
        "label_node_pool",
        "pool",
    )
    team_labels: tuple[str, ...] = ("label_team", "label_app_kubernetes_io_part_of", "account")
    sources: tuple[str, ...] = ()
    samples_maximum: Annotated[int, Spec(within=(100_000, None))] = 20_000_000
    fine_seconds: Annotated[float, Spec(within=(0.0, DAY_SECONDS))] = 6 * 3600.0
    agents: AgentSourceSettings = AgentSourceSettings()
    rules: FleetRuleTree = FleetRuleTree()
    demands: Annotated[DemandSettings, CONSTANT] = DemandSettings()
    late_seconds: Annotated[float, Spec(within=(0.0, DAY_SECONDS)), CONSTANT] = 900.0
    absent_seconds: Annotated[float, Spec(within=(300.0, DAY_SECONDS))] = 3600.0
    workers: Annotated[int, Spec(within=(0, 64))] = 0
    path: str = ""
    api_socket: str = "/run/rightsizer-fleet/api.sock"
    exported_maximum: Annotated[int, Spec(within=(1, 10_000))] = 200
    most_records: Annotated[int, Spec(within=(10, 100_000)), CONSTANT] = 20_000
    interval_seconds: Annotated[float, Spec(within=(60.0, DAY_SECONDS))] = 3600.0

    def __post_init__(self) -> None:
        _ = self.part

    @property
    def part(self) -> Shard:
        """Part of the fleet to read; by default all of it."""
        return Shard.parse(self.shard) if self.shard else Shard()


_NAME: Final = "fleet.db"


class FleetConfig(Struct, frozen=True):
    """Sections of the configuration that the fleet recommender reads."""

    fleet: FleetSettings = FleetSettings()
    catalogue: CatalogueSettings = CatalogueSettings()
    prices: PriceSettings = PriceSettings()
    accounting: AccountingSettings = AccountingSettings()
    history: HistorySettings = HistorySettings()
    recommender: RecommenderSettings = RecommenderSettings()
    sizing: SizingSettings = SizingSettings()
    grafana: GrafanaSettings = GrafanaSettings()
    webhooks: tuple[WebhookSettings, ...] = ()
    mails: tuple[MailSettings, ...] = ()
    web: WebTree = WebTree()
    log: LogSettings = LogSettings()
    policies: tuple[Policy, ...] = ()


def with_lookback(settings: FleetConfig, lookback_seconds: float, name: str) -> FleetConfig:
    """Return settings with another lookback, in the bounds of the setting; raises `UsageError`."""
    bounds = bounds_of(FleetSettings)["lookback_seconds"]
    for limit, word, is_beyond in ((bounds.minimum, "less", lt), (bounds.maximum, "more", gt)):
        if limit is not None and is_beyond(lookback_seconds, limit):
            asked = format_duration(lookback_seconds)
            raise UsageError(f"{name}: {asked} is {word} than {format_duration(limit)}")
    return replace(settings, fleet=replace(settings.fleet, lookback_seconds=lookback_seconds))


def rule_trees(settings: FleetConfig) -> Mapping[str, object]:
    """Return the settings of node and fleet rules, by key in the file."""
    return {"recommender.rules": settings.recommender.rules, "fleet.rules": settings.fleet.rules}


def ledger_settings(settings: FleetConfig) -> LedgerSettings:
    """Return the settings of a ledger, with the fleet's own limit."""
    return replace(settings.recommender.ledger, most_records=settings.fleet.most_records)


def day_cache_path(settings: FleetConfig) -> Path:
    """Return the path of the day cache; all of it can be fetched again.

    Falls back to the user's cache if the service's folder is inaccessible; each shard has its own.
    """
    fleet = settings.fleet
    history = settings.history.path
    if fleet.path:
        path = Path(fleet.path)
    elif history and os.access(Path(history).parent, os.W_OK):
        path = Path(history).parent / _NAME
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "rightsizer"
        private_folder(cache)
        path = cache / _NAME
    return fleet.part.path(path) if fleet.shard else path


def ledger_path(settings: FleetConfig) -> Path:
    """Return the path of the ledger and of pending notifications."""
    days = day_cache_path(settings)
    return days.with_name(f"{days.stem}-advice{days.suffix}")
