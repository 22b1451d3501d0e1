"""Memory of a shared GPU is never promised twice."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker_node import TOTAL_BYTES, Running, World, hgx, ticket
from readings import GIBIBYTE, MINUTE
from rightsizer.broker.broker import Broker
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import BrokerState

SETTINGS = GpuPlacementSettings()
BROKER = Broker(BrokerSettings(settling_seconds=0.0), SETTINGS)
AMOUNTS = st.sampled_from([4, 12, 30])
CHANGES = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 9), AMOUNTS),
    st.tuples(st.just("ask"), st.integers(0, 9), AMOUNTS),
    st.tuples(st.just("use"), st.integers(0, 9), AMOUNTS),
    st.tuples(st.just("use"), st.integers(0, 9), AMOUNTS),
    st.tuples(st.just("intrude"), st.integers(0, 1), AMOUNTS),
    st.tuples(st.just("end"), st.integers(0, 9), AMOUNTS),
)
"""A change, the item that it affects, and gibibytes."""


@given(changes=st.lists(CHANGES, min_size=4, max_size=25), are_named=st.booleans())
def test_reserved_and_outside_memory_fit_together_at_every_grant(
    *, changes: list[tuple[str, int, int]], are_named: bool
) -> None:
    """With the reserve, for any use by leases, and for known and unknown outsiders."""
    world = World(hgx(1))
    state = BrokerState("boot")
    for number, (what, pick, gibibytes) in enumerate(changes):
        names = [record.id for record in state.leases]
        name = names[pick % len(names)] if names else ""
        if what == "ask":
            wanted = ticket(f"{number:02}", memory=gibibytes, may_share=True, limit_seconds=60.0)
            state = BROKER.ask(state, number * MINUTE, wanted).state
        elif what == "use" and name:
            world.running[name] = Running(("GPU-0",), gibibytes * GIBIBYTE, 0.01)
        elif what == "intrude":
            world.outsiders[str(pick)] = Running(("GPU-0",), gibibytes * GIBIBYTE, 0.01)
        elif what == "end" and name:
            world.running.pop(name, None)
            state = BROKER.end(state, number * MINUTE, name).state
        state = _looked(world, state, number * MINUTE, are_named=are_named)


def _looked(world: World, state: BrokerState, now: int, *, are_named: bool) -> BrokerState:
    look = world.observe()
    if not are_named:
        look = replace(look, slots=tuple(replace(slot, holders=()) for slot in look.slots))
    seen = {
        name: observation
        for name, observation in world.observations(state).items()
        if name in world.running
    }
    step = BROKER.turn(state, now, seen, look)
    promised = sum(record.set_aside_on("GPU-0") for record in step.state.leases)
    if step.grants and (len(step.state.leases) > 1 or (world.outsiders and are_named)):
        reserve = SETTINGS.free.shared_memory_reserve_bytes
        assert promised + world.outside_bytes("GPU-0") <= TOTAL_BYTES - reserve
    return step.state
