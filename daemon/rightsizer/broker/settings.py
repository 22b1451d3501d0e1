"""Settings of the broker: placement, queue, leases, fair share, who may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol

from msgspec import Struct

from rightsizer.broker.lease import LeaseOwner
from rightsizer.host.settings import PathSettings
from rightsizer.model.values import CONSTANT, DAY_SECONDS, Spec
from rightsizer.sizing.gpu_sets import LinkScores
from rightsizer.telemetry.settings import SamplingSettings

if TYPE_CHECKING:
    from rightsizer.advice.policy import RecommenderSettings


class FreeSettings(Struct, frozen=True):
    """Conditions under which a GPU takes further work.

    Attributes:
        empty_memory_bytes: Memory in use below which a GPU without a known state or holder is
            empty.
            Source: docs/definitions.md, idle_empty
        empty_memory_ratio: The same as a share of the GPU's memory; the larger applies.
            Source: docs/definitions.md, idle_empty
        shared_memory_reserve_bytes: Memory kept free on a shared GPU.
            Source: assumed: a further context of CUDA and its libraries takes some 500 MiB, and
            allocators fragment
        shared_compute_ratio: Measured compute demand up to which a GPU takes further work.
            Source: advice/rules/sharing: half a GPU is what another workload can use
        shared_bandwidth_ratio: Measured memory bandwidth demand up to which a GPU takes further
            work.
            Source: advice/rules/sharing: half a GPU is what another workload can use
    """

    empty_memory_bytes: Annotated[float, CONSTANT] = 512 * 1024.0**2
    empty_memory_ratio: Annotated[float, CONSTANT] = 0.01
    shared_memory_reserve_bytes: float = 1024.0**3
    shared_compute_ratio: float = 0.5
    shared_bandwidth_ratio: float = 0.5


class ScoringSettings(Struct, frozen=True):
    """Weights of the placement criteria.

    Attributes:
        power_step_watts: Difference in power headroom below which GPUs rank equal.
            Source: assumed: boards of one kind draw some 20 W more or less at rest
        temperature_step_celsius: Difference in thermal headroom below which GPUs rank equal.
            Source: assumed: places in a chassis differ by some degrees at rest
    """

    links: LinkScores = LinkScores()
    power_step_watts: Annotated[float, Spec(unit="watts", within=(1, None))] = 25.0
    temperature_step_celsius: Annotated[float, Spec(unit="celsius", within=(1, None))] = 5.0


class SearchSettings(Struct, frozen=True):
    """Limits of the search for GPUs.

    Attributes:
        sets_maximum: GPU sets up to which the search is exact.
            Source: the sets of eight of sixteen GPUs; of sixteen there are no more of any size
        beginnings: Partial sets extended when the search is not exact.
            Source: assumed; more are slower and find more
        rejected_maximum: Maximum next best sets shown.
            Source: what fits on a screen
    """

    sets_maximum: Annotated[int, Spec(within=(1, 1_000_000))] = 12_870
    beginnings: Annotated[int, Spec(within=(1, 4096))] = 64
    rejected_maximum: Annotated[int, Spec(within=(0, 100))] = 10


class GpuPlacementSettings(Struct, frozen=True):
    """Placement: which GPUs are free, and which set of them is best."""

    free: FreeSettings = FreeSettings()
    scoring: Annotated[ScoringSettings, CONSTANT] = ScoringSettings()
    search: Annotated[SearchSettings, CONSTANT] = SearchSettings()


class BrokerSettings(Struct, frozen=True):
    """Leases of this node's GPUs: queue, limits, users.

    Attributes:
        enabled: Lease GPUs to `rightsizer run` over the local socket.
        path: File of leases, tickets and reservations, which survive a restart.
        users: Users who may request GPUs; without `groups` too, all who can open the socket.
        groups: Groups whose members may request GPUs.
        tell_webhooks: Whether JSON webhooks receive notices to holders.
        processes_maximum: Maximum processes of a lease, and new processes of the node, examined per
            pass; while more remain, a lease is alive.
            Source: about 15 ms of processor time at 15 us for a file of procfs
        maximum_tickets: Maximum waiting tickets; beyond it requests are rejected.
            Source: Slurm's MaxJobCount is 10,000, for a cluster
        maximum_tickets_per_user: Maximum waiting tickets per user.
            Source: a starting point: a fifth of the queue
        maximum_leases_per_user: Maximum active leases per user; further tickets wait without
            holding up others.
            Source: a starting point: eight shared GPUs, eight leases on each
        default_limit_seconds: Time limit of a lease requested without one; then the holder is
            notified.
            Source: Slurm's DefaultTime, which sites set; a day and a night
        longest_limit_seconds: Maximum time limit of a lease.
            Source: Slurm's MaxTime, which sites set; a week
        fair_share_half_life_seconds: Half-life of a user's past GPU time in the fair share.
            Source: Slurm's PriorityDecayHalfLife, 7-0 by default
        fair_share_weight: Weight of the fair share in the queue, in steps of priority.
            Source: no more than one step: priority goes before fair share
        aging_seconds: Waiting time that counts as one step of priority.
            Source: evaluation/RESULTS.md, the node broker: against a day it halves the wait
            for eight GPUs, at no cost to others; less gains no more
        lowest_priority: Minimum priority of a request.
            Source: a starting point: the half of nice(1)'s range below
        highest_priority: Maximum priority of a request by ordinary users.
            Source: nice(1): only the superuser goes before others
        operator_priority: Maximum priority of a request by operators.
            Source: a starting point: the half of nice(1)'s range above
        operators: Users who may raise priorities, reserve for others, cancel others' leases, and
            change the agent over its socket: release, resume, reload, claim.
            Source: root
        operator_groups: Groups whose members have the rights of `operators`; the socket's group
            only if named.
        backfill: Let a later ticket start first if it does not delay the first one.
            Source: EASY backfill: Lifka, JSSPP 1995; Slurm's sched/backfill, its default
        backfill_depth: Tickets considered behind the first waiting one.
            Source: Slurm's bf_max_job_test is 500, for a cluster
        unknown_patience_seconds: Delay of the first waiting ticket accepted for backfill when an
            end is unknown.
            Source: a starting point: what a person who waits for a process without a limit would
            hardly notice
        settling_seconds: Time a shared lease has a GPU alone, to measure its load, before another
            joins.
            Source: docs/definitions.md, provisioning: demand is not told under 600 s of work
        start_grace_seconds: How long a lease outlives its requesting process.
            Source: `rightsizer run` stays as long as its lease: if it is gone, so is its need
        idle_grace_seconds: Idle time on all GPUs of a lease after which its holder is notified.
            Source: a starting point: the hour that notebooks get of reapers
        over_memory_grace_seconds: Time within the memory limit after which a holder may be notified
            again.
            Source: a starting point: a training step or an evaluation that takes memory and gives
            it back comes round within minutes
        lost_grace_seconds: How long a lease's GPU must be gone before its holder is notified.
            Source: a starting point: a driver that is loaded again, or lists its GPUs one by one,
            has them back within seconds
        replacement_hold_seconds: How long replacement GPUs stay reserved for the holder of a lost
            GPU.
            Source: a starting point: a holder at work reads it, and starts from the last checkpoint
        maximum_reservations_per_user: Maximum reservations per user; 0 restricts them to operators.
            Source: Slurm's reservations, which operators alone make; 2 are one that runs and the
            next
        longest_reservation_seconds: Maximum length of a reservation; operators may exceed it.
            Source: a starting point: a weekend
        furthest_reservation_seconds: Maximum time in advance at which a reservation may begin.
            Source: a starting point: twice the longest lease, so that all of them can end before
    """

    enabled: Annotated[bool, Spec(is_live=False)] = False
    path: Annotated[str, Spec(is_live=False)] = "/var/lib/rightsizer/broker.db"
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    tell_webhooks: bool = False
    processes_maximum: Annotated[int, Spec(within=(10, 100_000))] = 1000
    maximum_tickets: Annotated[int, Spec(within=(1, 100_000))] = 1000
    maximum_tickets_per_user: Annotated[int, Spec(within=(1, 100_000))] = 200
    maximum_leases_per_user: Annotated[int, Spec(within=(1, 4096))] = 64
    default_limit_seconds: Annotated[float, Spec(within=(60.0, 366 * DAY_SECONDS))] = DAY_SECONDS
    longest_limit_seconds: Annotated[float, Spec(within=(60.0, 366 * DAY_SECONDS))] = (
        7 * DAY_SECONDS
    )
    fair_share_half_life_seconds: Annotated[float, Spec(within=(60.0, 366 * DAY_SECONDS))] = (
        7 * DAY_SECONDS
    )
    fair_share_weight: Annotated[float, Spec(within=(0.0, 1.0))] = 1.0
    aging_seconds: Annotated[float, Spec(within=(60.0, 366 * DAY_SECONDS)), CONSTANT] = (
        DAY_SECONDS / 4
    )
    lowest_priority: Annotated[int, Spec(within=(-1000, 0))] = -10
    highest_priority: Annotated[int, Spec(within=(0, 1000))] = 0
    operator_priority: Annotated[int, Spec(within=(0, 1000))] = 10
    operators: tuple[str, ...] = ("root",)
    operator_groups: tuple[str, ...] = ()
    backfill: bool = True
    backfill_depth: Annotated[int, Spec(within=(1, 100_000)), CONSTANT] = 100
    unknown_patience_seconds: Annotated[float, Spec(within=(0.0, 30 * DAY_SECONDS)), CONSTANT] = (
        3600.0
    )
    settling_seconds: Annotated[float, Spec(within=(0.0, 7 * DAY_SECONDS)), CONSTANT] = 600.0
    start_grace_seconds: Annotated[float, Spec(within=(0.0, 3600.0))] = 0.0
    idle_grace_seconds: Annotated[float, Spec(within=(60.0, 30 * DAY_SECONDS))] = 3600.0
    over_memory_grace_seconds: Annotated[float, Spec(within=(0.0, DAY_SECONDS))] = 300.0
    lost_grace_seconds: Annotated[float, Spec(within=(0.0, 3600.0))] = 10.0
    replacement_hold_seconds: Annotated[float, Spec(within=(0.0, DAY_SECONDS))] = 900.0
    maximum_reservations_per_user: Annotated[int, Spec(within=(0, 1000))] = 0
    longest_reservation_seconds: Annotated[float, Spec(within=(60.0, 366 * DAY_SECONDS))] = (
        2 * DAY_SECONDS
    )
    furthest_reservation_seconds: Annotated[float, Spec(within=(60.0, 366 * DAY_SECONDS))] = (
        14 * DAY_SECONDS
    )

    def is_operator(self, client: LeaseOwner) -> bool:
        """Whether a client may raise priorities and end others' items."""
        return (
            client.uid == 0
            or client.user in self.operators
            or not set(self.operator_groups).isdisjoint(client.groups)
        )


class PlacementSettings(Protocol):
    """Settings sections used to choose GPUs."""

    @property
    def placement(self) -> GpuPlacementSettings:
        """Criteria for sets of GPUs."""

    @property
    def recommender(self) -> RecommenderSettings:
        """Rules, which define what counts as a hardware fault."""


class BrokerFeatureSettings(PlacementSettings, Protocol):
    """Settings sections used by an agent's broker."""

    @property
    def broker(self) -> BrokerSettings:
        """Terms of leases, and who may request them."""

    @property
    def path(self) -> PathSettings:
        """Locations of procfs and of the agent's socket."""

    @property
    def sampling(self) -> SamplingSettings:
        """Interval at which devices are read."""
