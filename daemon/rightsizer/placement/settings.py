"""What an operator may set of placement; an agent has it at once, and the search when asked."""

from dataclasses import dataclass, field

from rightsizer.domain.settings import setting
from rightsizer.placement.link_scores import LinkScores

__all__ = ["FreeSettings", "PlacementSettings", "ScoringSettings", "SearchSettings"]


@dataclass(frozen=True, slots=True)
class FreeSettings:
    """When a seat counts as free."""

    empty_memory_bytes: float = setting(
        512 * 1024.0**2,
        help="Memory in use below which a GPU without a known state and without a known holder is "
        "taken for empty.",
        unit="bytes",
        minimum=0,
        source="docs/definitions.md, idle_empty",
    )
    empty_memory_ratio: float = setting(
        0.01,
        help="The same as a part of the GPU's memory; the larger of the two counts.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, idle_empty",
    )
    shared_memory_reserve_bytes: float = setting(
        1024.0**3,
        help="Memory of a shared GPU that is given to nobody.",
        unit="bytes",
        minimum=0,
        source="assumed: a further context of CUDA and its libraries takes some 500 MiB, and "
        "allocators fragment",
    )
    shared_compute_ratio: float = setting(
        0.5,
        help="Measured demand for compute up to which a GPU takes further work.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="advice/rules/sharing: half a GPU is what another workload can use",
    )
    shared_bandwidth_ratio: float = setting(
        0.5,
        help="Measured demand for memory bandwidth up to which a GPU takes further work.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="advice/rules/sharing: half a GPU is what another workload can use",
    )


@dataclass(frozen=True, slots=True)
class ScoringSettings:
    """What the criteria weigh by."""

    links: LinkScores = field(default_factory=LinkScores)
    power_step_watts: float = setting(
        25.0,
        help="Differences in power headroom below this do not matter.",
        unit="watts",
        minimum=1,
        source="assumed: boards of one kind draw some 20 W more or less at rest",
    )
    temperature_step_celsius: float = setting(
        5.0,
        help="Differences in thermal headroom below this do not matter.",
        unit="celsius",
        minimum=1,
        source="assumed: places in a chassis differ by some degrees at rest",
    )


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How far is looked."""

    sets_maximum: int = setting(
        12_870,
        help="Different sets of free seats up to which all are looked at; where there are more, "
        "only those that grow out of the best beginnings.",
        minimum=1,
        maximum=1_000_000,
        source="the sets of eight of sixteen GPUs; of sixteen there are no more of any size",
    )
    beginnings: int = setting(
        64,
        help="How many beginnings of sets are followed where there are too many sets.",
        minimum=1,
        maximum=4096,
        source="assumed; more are slower and find more",
    )
    rejected_maximum: int = setting(
        10,
        help="How many sets that were nearly as good are told of.",
        minimum=0,
        maximum=100,
        source="what fits on a screen",
    )


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """When a seat is free, and which set of free seats is best."""

    free: FreeSettings = field(default_factory=FreeSettings)
    scoring: ScoringSettings = field(default_factory=ScoringSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
