"""Whether an agent lends its GPUs, where it remembers to whom, and who may ask."""

from dataclasses import dataclass

from rightsizer.domain.settings import setting
from rightsizer.placement.broker_settings import BrokerSettings

__all__ = ["BrokerSection", "DeskSettings"]


# Without slots: a class may inherit those of one base only.
@dataclass(frozen=True)
class DeskSettings:
    """What the agent needs to know beside the rules of lending."""

    enabled: bool = setting(
        False,
        help="Lend the GPUs to those who ask by `rightsizer run`, over the local socket.",
        is_live=False,
    )
    path: str = setting(
        "/var/lib/rightsizer/broker.db",
        help="The file of leases, tickets and reservations, which outlive the agent.",
        is_live=False,
    )
    users: tuple[str, ...] = setting(
        (),
        help="Users who may ask; with `groups` empty too, everybody who can open the socket.",
    )
    groups: tuple[str, ...] = setting(
        (),
        help="Groups whose members may ask.",
    )
    tell_webhooks: bool = setting(
        False,
        help="Whether webhooks in JSON are told too of what holders are told: idle, over memory, "
        "time up, a reservation at risk.",
    )
    processes_maximum: int = setting(
        1000,
        help="Processes of one lease, and new ones of the node, that are looked at in one look; "
        "while more are left to look at, a lease counts as alive.",
        minimum=10,
        maximum=100_000,
        source="about 15 ms of processor time at 15 us for a file of procfs",
    )


@dataclass(frozen=True, slots=True)
class BrokerSection(BrokerSettings, DeskSettings):
    """How GPUs of this node are lent, and to whom."""
