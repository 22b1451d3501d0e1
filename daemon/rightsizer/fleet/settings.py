"""Where the store is, how it is spoken to, and how far back is looked."""

from dataclasses import dataclass, field, make_dataclass
from typing import Any

from rightsizer.domain.settings import setting
from rightsizer.fleet.kept.day_demands import DemandSettings
from rightsizer.fleet.rules import ESTATE_RULES
from rightsizer.fleet.sources.agent.settings import AgentSourceSettings

__all__ = ["EstateRuleTree", "FleetSettings", "StoreSettings"]

_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The store's address, credentials, and how gently it is asked."""

    url: str = setting(
        "",
        help="Address of Prometheus, Thanos Query, Mimir or VictoriaMetrics, up to what comes "
        "before `/api/v1`; empty for none.",
    )
    tenant: str = setting(
        "",
        help="Sent as `X-Scope-OrgID`, which Mimir and Cortex ask for, and as `THANOS-TENANT`.",
    )
    token_file: str = setting("", help="A file that holds a bearer token; read at each request.")
    username: str = setting("", help="User of basic authentication.")
    password_file: str = setting("", help="A file that holds that user's password.")
    ca_file: str = setting("", help="PEM file of authorities to trust; the system's without.")
    certificate_file: str = setting("", help="PEM file of the certificate to show.")
    key_file: str = setting("", help="PEM file of that certificate's key.")
    timeout_seconds: float = setting(
        60.0,
        help="How long one query may take; told to the store too.",
        unit="seconds",
        minimum=1.0,
        maximum=600.0,
        source="half of Prometheus's --query.timeout of 2 min",
    )
    concurrency: int = setting(
        4,
        help="Queries that run at the same time.",
        minimum=1,
        maximum=64,
        source="a fifth of Prometheus's --query.max-concurrency of 20",
    )
    series_maximum: int = setting(
        2000,
        help="Series that one query should bring at most.",
        minimum=50,
        maximum=100_000,
        source="2000 series of 288 samples are a tenth of Prometheus's --query.max-samples",
    )
    response_maximum_bytes: int = setting(
        64 * 2**20,
        help="The largest answer that is read; beyond it less is asked for.",
        unit="bytes",
        minimum=2**20,
    )
    tries: int = setting(
        4, help="How often a query is sent before the run gives up.", minimum=1, maximum=20
    )
    backoff_seconds: float = setting(
        1.0,
        help="The wait before the second try; it doubles with each further one.",
        unit="seconds",
        minimum=0.0,
        maximum=60.0,
    )
    retry_after_maximum_seconds: float = setting(
        60.0,
        help="The longest wait before a try that the store may ask for.",
        unit="seconds",
        minimum=0.0,
        maximum=600.0,
    )


EstateRuleTree: Any = make_dataclass(
    "EstateRuleTree",
    [
        (rule.name, type(rule.settings), field(default_factory=type(rule.settings)))
        for rule in ESTATE_RULES
    ],
    frozen=True,
    slots=True,
    namespace={"__doc__": "The estate's own rules by name.", "__module__": __name__},
)
"""Each rule's own settings under its name, so that a rule is registered in one place."""


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """The `fleet` section of the configuration."""

    store: StoreSettings = field(default_factory=StoreSettings)
    lookback_seconds: float = setting(
        14 * _DAY_SECONDS,
        help="How far back is looked.",
        unit="seconds",
        minimum=_DAY_SECONDS,
        maximum=90 * _DAY_SECONDS,
        source="docs/definitions.md, conduct: sizing rests on 14 days",
    )
    matchers: str = setting(
        "",
        help='Label matchers that every query carries, as in `cluster="paris"`; empty for all.',
    )
    cluster_label: str = setting(
        "cluster", help="Label that tells clusters apart, where there are several in the store."
    )
    pool_labels: tuple[str, ...] = setting(
        (
            "label_cloud_google_com_gke_nodepool",
            "label_eks_amazonaws_com_nodegroup",
            "label_karpenter_sh_nodepool",
            "label_agentpool",
            "label_node_pool",
            "pool",
        ),
        help="Labels that name a node's pool, the first that is there; the board without.",
    )
    team_labels: tuple[str, ...] = setting(
        ("label_team", "label_app_kubernetes_io_part_of", "account"),
        help="Labels that name who answers for a workload, the first that is there; its "
        "namespace without.",
    )
    sources: tuple[str, ...] = setting(
        (),
        help="Sources to read, of `rightsizer`, `dcgm-exporter`, `kube-state-metrics`, `slurm` "
        "and `serving`; empty for all that are found.",
    )
    samples_maximum: int = setting(
        20_000_000,
        help="Samples a first run may ask for, as far as it can choose: within that, days are "
        "read by five minutes from the newest on. All others are read by the hour, whatever "
        "that comes to.",
        minimum=100_000,
        source="a fortnight of 150 GPUs by five minutes; half a gigabyte of answers",
    )
    fine_seconds: float = setting(
        6 * 3600.0,
        help="How far back days are read by five minutes whatever that comes to, so that what "
        "lasts for minutes is seen while it lasts; a UTC day is read by one step.",
        unit="seconds",
        minimum=0.0,
        maximum=_DAY_SECONDS,
        source="docs/definitions.md, conduct: bottlenecks are looked for in six hours",
    )
    agents: AgentSourceSettings = field(default_factory=AgentSourceSettings)
    rules: EstateRuleTree = field(default_factory=EstateRuleTree)
    demands: DemandSettings = field(default_factory=DemandSettings)
    late_seconds: float = setting(
        900.0,
        help="How long after its end a day is asked for once more, for samples that come late.",
        unit="seconds",
        minimum=0.0,
        maximum=_DAY_SECONDS,
        source="a receiver that was away, and recording rules that lag",
    )
    absent_seconds: float = setting(
        3600.0,
        help="How long a device may be silent before it is taken to be gone.",
        unit="seconds",
        minimum=300.0,
        maximum=_DAY_SECONDS,
        source="a node that restarts is no node less",
    )
    workers: int = setting(
        0,
        help="Processes that read and judge; 0 for one a core, at most 8.",
        minimum=0,
        maximum=64,
    )
    path: str = setting(
        "",
        help="Where days that were read are kept, and beside them the ledger; empty for "
        "`fleet.db` in the folder of `history.path`, or in the user's cache where that is out of "
        "reach.",
    )
    api_socket: str = setting(
        "/run/rightsizer-fleet/api.sock",
        help="Socket for commands on this machine while `rightsizer fleet --serve` runs, for its "
        "own user and group alone; empty for none. It is not the agent's, which may run beside.",
    )
    exported_maximum: int = setting(
        200,
        help="Pools, and teams, of which `/metrics` tells at most, the largest first.",
        minimum=1,
        maximum=10_000,
        source="2,000 series for both; a team is whatever a label of a workload says",
    )
    interval_seconds: float = setting(
        3600.0,
        help="How often `rightsizer fleet --serve` looks anew.",
        unit="seconds",
        minimum=60.0,
        maximum=_DAY_SECONDS,
    )
