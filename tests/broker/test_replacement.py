"""A lease with a lost GPU: its holder is notified, and offered another before the queue."""

import pytest
from msgspec.structs import replace

from broker_node import Running, World, client, hgx, ticket
from readings import HOUR, MINUTE, SECOND
from rightsizer.broker.broker import Broker
from rightsizer.broker.lease import EventKind
from rightsizer.broker.lease_encoder import broker_document
from rightsizer.broker.lease_manager import BrokerOverview
from rightsizer.broker.queue_command import queue_blocks
from rightsizer.broker.repository import decode_item, encode_item
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import BrokerState
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.io.codec import plain
from rightsizer.report.block_text import text_of

BROKER = Broker(BrokerSettings(), GpuPlacementSettings())
LOST = "lease aaaaaaaa has lost GPU 0 (fell off the bus)"


class LentNode:
    """A node with one active lease of the first GPUs."""

    def __init__(self, gpus: int, leased: int = 1, broker: Broker = BROKER) -> None:
        self.world = World(hgx(gpus))
        self.broker = broker
        self.now = 0
        self.state = BrokerState("boot")
        self.asks("aaaaaaaa", leased)

    def asks(self, name: str, gpus: int = 1, user: str = "ada", **more: object) -> BrokerTransition:
        """Queue a ticket and run a step; a granted lease is active from then on."""
        wanted = ticket(name, gpus, user, **more)
        self.state = self.broker.ask(self.state, self.now, wanted, self.world.observe()).state
        return self.looks()

    def looks(self, later: int = SECOND) -> BrokerTransition:
        """A step some time later."""
        self.now += later
        seen = self.world.observations(self.state)
        step = self.broker.turn(self.state, self.now, seen, self.world.observe())
        self.state = step.state
        for record in step.grants:
            self.world.running[record.id] = Running(record.lease.uuids, 0.0)
        return step

    def messages(self, later: int = SECOND) -> list[str]:
        """The holder's messages on lost GPUs after a step."""
        step = self.looks(later)
        return [event.message for event in step.events if event.kind is EventKind.GPU_LOST]


def test_a_lost_gpu_is_reported_once_and_another_one_is_kept() -> None:
    """After the grace for a driver reload, and before the queue."""
    node = LentNode(2)
    node.world.broken = {"GPU-0"}
    assert node.messages() == []
    assert node.messages(9 * SECOND) == []
    (message,) = node.messages()
    assert message == (
        f"{LOST}; kept for you for 15 min: GPU 1; end your command and start it again with the "
        "same flags and --reservation aaaaaaaar"
    )
    assert node.messages(MINUTE) == []
    assert not node.asks("bbbbbbbb", user="bo").grants
    assert node.state.leases[0].notices == {EventKind.GPU_LOST}


def test_the_holder_starts_again_on_what_was_kept() -> None:
    """On the rest of its GPUs and the new one, not limited by the reservation's end."""
    node = LentNode(3, leased=2)
    node.world.broken = {"GPU-0"}
    node.looks()
    node.looks(10 * SECOND)
    assert node.state.bookings[0].uuids == ("GPU-1", "GPU-2")
    del node.world.running["aaaaaaaa"]
    node.looks()
    assert not node.asks("bbbbbbbb", 2, "bo").grants
    drawn = node.asks("cccccccc", 2, reservation="aaaaaaaar", limit_seconds=7200.0)
    (grant,) = drawn.grants
    assert set(grant.lease.uuids) == {"GPU-1", "GPU-2"}
    assert grant.lease.ends == node.now + 2 * HOUR
    assert node.state.bookings == ()
    assert EventKind.RESERVATION_OVER in {event.kind for event in drawn.events}


def test_an_offer_that_is_not_used_ends() -> None:
    """There is no second offer: the holder keeps the lost GPU."""
    node = LentNode(2)
    node.world.broken = {"GPU-0"}
    node.looks()
    node.looks(10 * SECOND)
    assert node.messages(15 * MINUTE) == []
    assert node.state.bookings == ()
    assert node.asks("bbbbbbbb", user="bo").grants


def test_lease_holder_is_warned_when_no_gpu_is_free() -> None:
    """Before the waiting ticket gets it."""
    node = LentNode(2)
    node.asks("bbbbbbbb", user="bo")
    node.asks("cccccccc", user="cy")
    node.world.broken = {"GPU-0"}
    node.looks()
    (message,) = node.messages(10 * SECOND)
    assert (
        message == f"{LOST}; no other GPUs are free for it now, and you are notified when there are"
    )
    assert node.messages() == []
    del node.world.running["bbbbbbbb"]
    (message,) = node.messages()
    assert "kept for you for 15 min: GPU 1" in message
    assert [each.id for each in node.state.tickets] == ["cccccccc"]


def test_a_further_lost_gpu_is_reported_too() -> None:
    """A GPU that returns is forgotten."""
    node = LentNode(4, leased=2)
    node.world.broken = {"GPU-0"}
    node.looks()
    assert len(node.messages(10 * SECOND)) == 1
    node.world.broken = {"GPU-0", "GPU-1"}
    node.looks()
    (message,) = node.messages(10 * SECOND)
    assert message.startswith(f"{LOST} and GPU 1 (fell off the bus)")
    node.world.broken = set()
    node.looks()
    assert node.state.leases[0].loss is None


def test_a_lost_gpu_does_not_count_against_its_holder() -> None:
    """Nor does a restart of the agent count it again."""
    node = LentNode(1)
    node.world.broken = {"GPU-0"}
    node.looks()
    (record,) = node.state.leases
    assert node.state.rates() == {}
    assert decode_item("lease", encode_item(record)) == replace(record, measured_bytes=())


@pytest.mark.parametrize("offers", [True, False])
def test_everybody_sees_it_in_the_queue(*, offers: bool) -> None:
    """The lease, its GPU, the reason, and the replacement kept for it."""
    settings = BrokerSettings(replacement_hold_seconds=900.0 if offers else 0.0)
    node = LentNode(2, broker=Broker(settings, GpuPlacementSettings()))
    node.world.broken = {"GPU-0"}
    node.looks()
    node.looks(10 * SECOND)
    document = plain(broker_document(BrokerOverview(node.state, node=node.world.observe()), 0))
    shown = text_of(queue_blocks(document, node.now / SECOND))
    assert "  Lease aaaaaaaa has lost GPU 0: fell off the bus.\n" in shown
    assert ("in place of lease aaaaaaaa, which has lost a GPU" in shown) is offers
    assert bool(node.state.bookings) is offers


def test_replacement_reservation_does_not_count_for_its_user() -> None:
    """It is not among the reservations that a user may have."""
    settings = BrokerSettings(maximum_reservations_per_user=1)
    node = LentNode(3, broker=Broker(settings, GpuPlacementSettings()))
    node.world.broken = {"GPU-0"}
    node.looks()
    node.looks(10 * SECOND)
    kept = node.state.bookings[0].reservation
    own = replace(kept, id="own", starts=node.now, ends=node.now + HOUR)
    step = node.broker.reserve(node.state, node.now, own, client(), node.world.observe())
    assert not step.is_refused, step.events
