"""Settings of the broker: placement, queue, leases, fair share, who may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rightsizer.broker.lease import LeaseOwner
from rightsizer.host.settings import PathSettings
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.units import DAY_SECONDS
from rightsizer.sizing.gpu_sets import LinkScores
from rightsizer.telemetry.settings import SamplingSettings

if TYPE_CHECKING:
    from rightsizer.advice.policy import RecommenderSettings


@dataclass(frozen=True, slots=True)
class FreeSettings:
    """When a seat counts as free."""

    empty_memory_bytes: float = setting(512 * 1024.0**2)
    empty_memory_ratio: float = setting(0.01)
    shared_memory_reserve_bytes: float = setting(1024.0**3)
    shared_compute_ratio: float = setting(0.5)
    shared_bandwidth_ratio: float = setting(0.5)


@dataclass(frozen=True, slots=True)
class ScoringSettings:
    """What the criteria weigh by."""

    links: LinkScores = field(default_factory=LinkScores)
    power_step_watts: float = setting(25.0, unit="watts", within=(1, None))
    temperature_step_celsius: float = setting(5.0, unit="celsius", within=(1, None))


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How far is looked."""

    sets_maximum: int = setting(12_870, within=(1, 1_000_000))
    beginnings: int = setting(64, within=(1, 4096))
    rejected_maximum: int = setting(10, within=(0, 100))


@dataclass(frozen=True, slots=True)
class GpuPlacementSettings:
    """When a seat is free, and which set of free seats is best."""

    free: FreeSettings = field(default_factory=FreeSettings)
    scoring: ScoringSettings = field(default_factory=ScoringSettings)
    search: SearchSettings = field(default_factory=SearchSettings)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """How GPUs of this node are lent, and to whom."""

    enabled: bool = setting(False, is_live=False)
    path: str = setting("/var/lib/rightsizer/broker.db", is_live=False)
    users: tuple[str, ...] = setting(())
    groups: tuple[str, ...] = setting(())
    tell_webhooks: bool = setting(False)
    processes_maximum: int = setting(1000, within=(10, 100_000))
    maximum_tickets: int = setting(1000, within=(1, 100_000))
    maximum_tickets_per_user: int = setting(200, within=(1, 100_000))
    maximum_leases_per_user: int = setting(64, within=(1, 4096))
    default_limit_seconds: float = setting(DAY_SECONDS, within=(60.0, 366 * DAY_SECONDS))
    longest_limit_seconds: float = setting(7 * DAY_SECONDS, within=(60.0, 366 * DAY_SECONDS))
    fair_share_half_life_seconds: float = setting(7 * DAY_SECONDS, within=(60.0, 366 * DAY_SECONDS))
    fair_share_weight: float = setting(1.0, within=(0.0, 1.0))
    aging_seconds: float = setting(DAY_SECONDS / 4, within=(60.0, 366 * DAY_SECONDS))
    lowest_priority: int = setting(-10, within=(-1000, 0))
    highest_priority: int = setting(0, within=(0, 1000))
    operator_priority: int = setting(10, within=(0, 1000))
    operators: tuple[str, ...] = setting(("root",))
    operator_groups: tuple[str, ...] = setting(())
    backfill: bool = setting(True)
    backfill_depth: int = setting(100, within=(1, 100_000))
    unknown_patience_seconds: float = setting(3600.0, within=(0.0, 30 * DAY_SECONDS))
    settling_seconds: float = setting(600.0, within=(0.0, 7 * DAY_SECONDS))
    start_grace_seconds: float = setting(0.0, within=(0.0, 3600.0))
    idle_grace_seconds: float = setting(3600.0, within=(60.0, 30 * DAY_SECONDS))
    over_memory_grace_seconds: float = setting(300.0, within=(0.0, DAY_SECONDS))
    lost_grace_seconds: float = setting(10.0, within=(0.0, 3600.0))
    replacement_hold_seconds: float = setting(900.0, within=(0.0, DAY_SECONDS))
    maximum_reservations_per_user: int = setting(0, within=(0, 1000))
    longest_reservation_seconds: float = setting(2 * DAY_SECONDS, within=(60.0, 366 * DAY_SECONDS))
    furthest_reservation_seconds: float = setting(
        14 * DAY_SECONDS, within=(60.0, 366 * DAY_SECONDS)
    )

    def is_operator(self, client: LeaseOwner) -> bool:
        """Whether a client may go before others and end what others own."""
        return (
            client.uid == 0
            or client.user in self.operators
            or not set(self.operator_groups).isdisjoint(client.groups)
        )


class PlacementSettings(Protocol):
    """Sections by which the best GPUs are chosen."""

    @property
    def placement(self) -> GpuPlacementSettings:
        """How sets of GPUs are compared."""

    @property
    def recommender(self) -> RecommenderSettings:
        """What counts as trouble of a GPU, among its rules."""


class BrokerFeatureSettings(PlacementSettings, Protocol):
    """Sections that the broker of an agent reads."""

    @property
    def broker(self) -> BrokerSettings:
        """How GPUs of this node are leased, and to whom."""

    @property
    def path(self) -> PathSettings:
        """Where procfs and the agent's socket are."""

    @property
    def sampling(self) -> SamplingSettings:
        """How often the devices are read."""
