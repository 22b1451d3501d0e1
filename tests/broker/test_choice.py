"""The best set of slots of real machines and of hypothetical ones."""

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from placement_nodes import (
    GIBIBYTE,
    PlacementNode,
    board_of_four,
    bridged_pairs,
    cube_mesh,
    dual_socket,
    grace_blackwell,
    grace_hopper,
    hgx,
    mig_node,
    switched_pcie,
    two_trays,
    virtual_machine,
)
from rightsizer.broker.choice import PlacementChoice, PlacementRefusal, choose
from rightsizer.broker.lease import GpuRequest, Interconnect
from rightsizer.broker.scoring import CandidateTable, score_set, table_of
from rightsizer.broker.search import best_sets
from rightsizer.broker.settings import GpuPlacementSettings, SearchSettings
from rightsizer.broker.slot import LeaseSlot, SlotHolder, judge_slot
from rightsizer.model.device import Device
from rightsizer.model.state import Condition, State
from rightsizer.model.topology import GpuLink, LinkKind, Placement, Topology

_SETTINGS = GpuPlacementSettings()
_NVLINK = Interconnect.NVLINK
_MACHINES = {
    "hgx": hgx,
    "cube_mesh": cube_mesh,
    "switched_pcie": switched_pcie,
    "dual_socket": dual_socket,
    "bridged_pairs": bridged_pairs,
    "board_of_four": board_of_four,
    "grace_hopper": grace_hopper,
    "grace_blackwell": grace_blackwell,
    "virtual_machine": virtual_machine,
}


def by_hand(
    node: PlacementNode, request: GpuRequest, *, joined: bool = False
) -> tuple[tuple[int, ...], ...]:
    """All sets in the order of rank, then of position."""
    table = _table(node, request)
    sets = [
        places
        for places in combinations(range(len(table.candidates)), request.gpus)
        if not joined or all(table.joined[one][other] for one, other in combinations(places, 2))
    ]
    return tuple(sorted(sets, key=lambda each: score_set(each, table).rank, reverse=True))


def _table(node: PlacementNode, request: GpuRequest) -> CandidateTable:
    verdicts = [judge_slot(slot, request, _SETTINGS.free) for slot in node.slots]
    in_use = frozenset(
        s.device.board_uuid for s in node.slots if s.holders or s.state is State.PRODUCTIVE
    )
    free = [verdict for verdict in verdicts if verdict.is_free]
    return table_of(free, node.topology, request, _SETTINGS.scoring, in_use)


def _agree(node: PlacementNode, request: GpuRequest) -> None:
    choice = node.choose(request)
    joined = request.interconnect is _NVLINK
    ranked = by_hand(node, request, joined=joined)
    if not ranked:
        assert isinstance(choice, PlacementRefusal)
        return
    assert isinstance(choice, PlacementChoice)
    table = _table(node, request)
    scores = [score_set(each, table) for each in ranked]
    assert choice.uuids == tuple(table.candidates[at].slot.uuid for at in ranked[0])
    assert choice.score == scores[0]
    assert choice.equals == scores.count(scores[0]) - 1
    different = list(dict.fromkeys(scores))[1:11]
    assert [each.score for each in choice.rejected] == different


@pytest.mark.parametrize("machine", sorted(_MACHINES))
@pytest.mark.parametrize("interconnect", list(Interconnect))
def test_the_choice_is_that_of_an_exhaustive_search(
    machine: str, interconnect: Interconnect
) -> None:
    """Of each machine, for each number of GPUs, all free and with two of them taken."""
    node = _MACHINES[machine]()
    for held in ((), (0, len(node.slots) - 1), (1,)):
        for count in range(1, len(node.slots) + 1):
            _agree(node.taken(*held), GpuRequest(count, interconnect=interconnect))


def test_sixteen_gpus_are_looked_through_too() -> None:
    """Two trays, with one GPU faulty, one held, and different headrooms."""
    node = two_trays().taken(3, trouble="has fallen off the bus").taken(9)
    node = replace(
        node,
        slots=tuple(
            replace(slot, power_headroom_watts=25.0 * place)
            for place, slot in enumerate(node.slots)
        ),
    )
    for count in (1, 2, 5, 13, 14, 15):
        _agree(node, GpuRequest(count))


@pytest.mark.parametrize(
    ("node", "request_", "places"),
    [
        (hgx(), GpuRequest(1), (0,)),
        (hgx().taken(1), GpuRequest(1), (0,)),
        (hgx().taken(5), GpuRequest(1), (4,)),
        (hgx().taken(0, 2), GpuRequest(1), (1,)),
        (hgx().taken(0), GpuRequest(4), (4, 5, 6, 7)),
        (hgx().taken(0, 4), GpuRequest(4), (1, 2, 3, 5)),
        (bridged_pairs(), GpuRequest(2), (0, 1)),
        (bridged_pairs().taken(1), GpuRequest(1), (0,)),
        (bridged_pairs().taken(0), GpuRequest(1), (1,)),
        (bridged_pairs().taken(0), GpuRequest(2), (2, 3)),
        (bridged_pairs().taken(0), GpuRequest(2, interconnect=_NVLINK), (2, 3)),
        (cube_mesh(), GpuRequest(4), (0, 1, 2, 3)),
        (cube_mesh().taken(0), GpuRequest(4), (4, 5, 6, 7)),
        (switched_pcie().taken(0), GpuRequest(4), (4, 5, 6, 7)),
        (switched_pcie().taken(4, 5), GpuRequest(2), (6, 7)),
        (dual_socket().taken(0, 1), GpuRequest(3), (4, 5, 6)),
        (dual_socket().taken(0, 1), GpuRequest(2), (2, 3)),
        (board_of_four(), GpuRequest(2), (0, 1)),
        (board_of_four().taken(1), GpuRequest(2), (2, 3)),
        (grace_blackwell().taken(0), GpuRequest(2), (2, 3)),
        (grace_hopper(), GpuRequest(2), (0, 1)),
        (virtual_machine().taken(0), GpuRequest(2), (1, 2)),
    ],
)
def test_machines_are_filled_as_a_person_would(
    node: PlacementNode, request_: GpuRequest, places: tuple[int, ...]
) -> None:
    """Pairs, switches and sockets stay whole, and partly used ones are taken first."""
    assert node.places(request_) == places


def test_a_collective_is_never_split_over_the_cube_mesh() -> None:
    """Five V100 of a DGX-1 are not fully connected: the reason says so, with alternatives."""
    refusal = cube_mesh().choose(GpuRequest(5, interconnect=_NVLINK))
    assert isinstance(refusal, PlacementRefusal)
    assert refusal.is_hopeless
    assert "no such set is among the 8 free" in refusal.reasons[0]


def test_mig_instances_that_fit_best_are_taken() -> None:
    """The smallest sufficient one; among equals, one on a GPU already in use."""
    node = mig_node([["3g.40gb", "1g.10gb"], ["1g.10gb", "1g.10gb"], ["1g.10gb", "2g.20gb"]])
    assert node.places(GpuRequest(memory_bytes=15.0 * GIBIBYTE)) == (8,)
    assert node.places(GpuRequest(memory_bytes=5.0 * GIBIBYTE)) == (2,)
    held = node.taken(5)
    assert held.places(GpuRequest(mig_profile="1g.10gb")) == (4,)
    assert held.places(GpuRequest(3, mig_profile="1g.10gb")) == (2, 4, 7)


def test_a_whole_gpu_goes_before_an_instance() -> None:
    """A request for one GPU gets an instance only if no GPU is left."""
    node = mig_node([["7g.80gb"], []])
    assert node.places(GpuRequest()) == (2,)
    assert node.taken(2).places(GpuRequest()) == (1,)
    refusal = node.choose(GpuRequest(2))
    assert isinstance(refusal, PlacementRefusal)
    assert refusal.is_hopeless


def test_a_client_that_asks_for_a_profile_that_is_not_there_is_reported_those_that_are() -> None:
    """With the number of each, or that there are none."""
    for node, expected in (
        (mig_node([["3g.40gb", "1g.10gb"], ["1g.10gb"]]), "this node has 2 1g.10gb, 1 3g.40gb."),
        (hgx(), "this node has no MIG instances."),
    ):
        refusal = node.choose(GpuRequest(mig_profile="2g.20gb"))
        assert isinstance(refusal, PlacementRefusal)
        assert refusal.reasons[-1].endswith(expected)


def test_many_instances_are_looked_through_by_kind() -> None:
    """Fifty-six instances of eight GPUs have few distinguishable sets."""
    node = mig_node([["1g.10gb"] * 7] * 8)
    choice = node.choose(GpuRequest(4, mig_profile="1g.10gb"))
    assert isinstance(choice, PlacementChoice)
    assert choice.is_exact
    assert {slot.device.board_uuid for slot in choice.slots} == {"GPU-0"}
    assert choice.score.opened == 1


def test_too_many_different_sets_are_searched_from_the_best_beginnings() -> None:
    """The answer says that it is not exact; here it is still the best."""
    node = two_trays().taken(3)
    few = SearchSettings(sets_maximum=5)
    table = _table(node, GpuRequest(6))
    found = best_sets(table, 6, few)
    assert not found.is_exact
    assert found.sets[0] == best_sets(table, 6, SearchSettings()).sets[0]


def test_the_memory_that_fits_best_is_taken() -> None:
    """The least that suffices for a stated amount, the most for an unstated one."""
    small = dual_socket().slots[0]
    large = hgx().slots[1]
    node = PlacementNode((small, large), Topology())
    assert node.places(GpuRequest(memory_bytes=40.0 * GIBIBYTE)) == (0,)
    assert node.places(GpuRequest(memory_bytes=60.0 * GIBIBYTE)) == (1,)
    assert node.places(GpuRequest()) == (1,)


@pytest.mark.parametrize(
    "facts",
    [
        {"state": State.UNKNOWN},
        {"conditions": frozenset({Condition.THERMAL_THROTTLED})},
        {"conditions": frozenset({Condition.PCIE_LINK_DEGRADED})},
        {"power_headroom_watts": 100.0},
        {"power_headroom_watts": None},
        {"temperature_headroom_celsius": 10.0},
    ],
)
def test_uncertain_or_suppressed_gpu_is_chosen_last(facts: dict[str, object]) -> None:
    """State, conditions and headroom decide among equally connected GPUs."""
    node = board_of_four().taken(0, **facts)
    assert node.places(GpuRequest()) != (0,)
    assert node.places(GpuRequest(4)) == (0, 1, 2, 3)


def test_reserved_seats_are_kept_and_reported() -> None:
    """A refused client sees what blocks its request."""
    refusal = hgx().choose(GpuRequest(7), reserved={"GPU-0", "GPU-1"})
    assert isinstance(refusal, PlacementRefusal)
    assert not refusal.is_hopeless
    assert refusal.reasons == (
        "7 GPUs are asked for, 6 of 8 can be given.",
        "In the way: 2 reserved.",
    )
    assert [each.slot.uuid for each in refusal.occupied] == ["GPU-0", "GPU-1"]
    assert len(refusal.free) == 6


def test_reasons_say_what_was_found() -> None:
    """Of the chosen set, and of the others."""
    choice = hgx().taken(0).choose(GpuRequest(2))
    assert isinstance(choice, PlacementChoice)
    assert choice.reasons == (
        "All 2 are empty, as was measured.",
        "NVLink joins each to each; pairs by their links: 1 NV18.",
        "On NUMA node 0.",
        "At least 80.0 GiB of memory are left each.",
        "At least 600 W are left below the power limit.",
        "At least 50 °C are left before the clocks slow down.",
        "2 others are just as good; the first by index is taken.",
    )
    assert choice.cpus == tuple(range(8))
    assert choice.numa_nodes == (0,)
    assert choice.rejected[-1].why == "NUMA nodes: 2, not 1"
    assert [(each.slot.label, each.why) for each in choice.occupied] == [("GPU 0", "held by train")]


@st.composite
def nodes(draw: st.DrawFn) -> PlacementNode:
    """Up to seven slots of any kind and state, with any links."""
    count = draw(st.integers(1, 7))
    slots = []
    for index in range(count):
        uuid = f"GPU-{index}"
        held = draw(
            st.sampled_from([(), (), (), (SlotHolder("a", True),), (SlotHolder("b", False),)])
        )
        gibibytes = draw(st.sampled_from([24, 80, None]))
        slots.append(
            LeaseSlot(
                device=Device(
                    uuid,
                    index,
                    name=draw(st.sampled_from(["A", "B"])),
                    memory_total_bytes=gibibytes and float(gibibytes * GIBIBYTE),
                ),
                placement=Placement(uuid, numa_node=draw(st.sampled_from([None, 0, 1]))),
                state=draw(st.sampled_from([State.IDLE_EMPTY, State.UNKNOWN, State.PRODUCTIVE])),
                conditions=frozenset(draw(st.sets(st.sampled_from(list(Condition)), max_size=1))),
                trouble=draw(st.sampled_from([None, None, None, "lost"])),
                holders=held,
                memory_used_bytes=draw(st.sampled_from([0.0, 0.0, None])),
                power_headroom_watts=draw(st.sampled_from([None, 20.0, 300.0])),
            )
        )
    kinds = st.sampled_from([*LinkKind])
    links = [
        GpuLink(f"GPU-{one}", f"GPU-{other}", draw(kinds), draw(st.integers(0, 3)), draw(kinds))
        for one, other in combinations(range(count), 2)
    ]
    return PlacementNode(tuple(slots), Topology(links=tuple(links)))


requests = st.builds(
    GpuRequest,
    gpus=st.integers(1, 8),
    memory_bytes=st.sampled_from([None, 10.0 * GIBIBYTE, 40.0 * GIBIBYTE]),
    interconnect=st.sampled_from(Interconnect),
)


@given(nodes(), requests)
def test_any_node_is_searched_to_the_end(node: PlacementNode, request_: GpuRequest) -> None:
    """The packed search and a plain one over the same scores agree on everything."""
    _agree(node, request_)


@given(nodes(), requests)
def test_nothing_unhealthy_held_or_missing_is_ever_given(
    node: PlacementNode, request_: GpuRequest
) -> None:
    """Exactly the requested number is given."""
    choice = node.choose(request_)
    if isinstance(choice, PlacementRefusal):
        assert choice.reasons
        assert len(choice.free) + len(choice.occupied) == len(node.slots)
        return
    assert len(set(choice.uuids)) == request_.gpus <= len(node.slots)
    for slot in choice.slots:
        assert slot.trouble is None
        assert not slot.holders
        assert slot.state is not State.PRODUCTIVE
        assert Condition.HARDWARE_SLOWDOWN not in slot.conditions
        if request_.memory_bytes is not None:
            assert slot.device.memory_total_bytes is not None
            assert slot.device.memory_total_bytes >= request_.memory_bytes
    if request_.interconnect is _NVLINK:
        for one, other in combinations(choice.uuids, 2):
            link = node.topology.link(one, other)
            assert link is not None
            assert link.kind is LinkKind.NVLINK


@given(nodes(), requests, st.randoms(use_true_random=False))
def test_the_order_of_seats_and_links_does_not_matter(
    node: PlacementNode, request_: GpuRequest, chance: random.Random
) -> None:
    """Neither for the choice nor for the reasons."""
    slots = list(node.slots)
    links = list(node.topology.links)
    chance.shuffle(slots)
    chance.shuffle(links)
    other = PlacementNode(tuple(slots), Topology(links=tuple(links)))
    assert node.choose(request_) == other.choose(request_)


@given(nodes(), requests)
def test_a_further_free_seat_never_makes_it_worse(
    node: PlacementNode, request_: GpuRequest
) -> None:
    """Neither whether a set exists, nor its score."""
    fewer = choose(node.slots[:-1], node.topology, request_, _SETTINGS)
    more = node.choose(request_)
    if isinstance(fewer, PlacementChoice):
        assert isinstance(more, PlacementChoice)
        assert more.score.rank >= fewer.score.rank


@given(nodes(), requests)
def test_sets_that_were_nearly_as_good_come_in_their_order(
    node: PlacementNode, request_: GpuRequest
) -> None:
    """Each worse than the previous one, and each with a reason."""
    choice = node.choose(request_)
    if isinstance(choice, PlacementChoice):
        ranks = [choice.score.rank, *(each.score.rank for each in choice.rejected)]
        assert ranks == sorted(set(ranks), reverse=True)
        assert all(each.why for each in choice.rejected)
