"""Labels for node-feature-discovery: facts of a node as valid label values."""

import re
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from placement_nodes import PlacementNode, bridged_pairs, cube_mesh, hgx, mig_node, virtual_machine
from rightsizer.model.device import Device
from rightsizer.model.topology import GpuLink, LinkKind, Placement, Topology
from rightsizer.report.schedulers import NodeFacts, feature_file, labels

VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def labels_of(node: PlacementNode, healthy: int = 99) -> dict[str, str]:
    """Labels without the prefix; the given number of slots is healthy."""
    places = {slot.uuid: slot.placement or Placement(slot.uuid) for slot in node.slots}
    facts = NodeFacts(
        tuple(slot.device for slot in node.slots),
        replace(node.topology, placements=places),
        frozenset(slot.uuid for slot in node.slots[:healthy]),
    )
    return {name.removeprefix("rightsizer."): value for name, value in labels(facts).items()}


def test_feature_file_describes_the_boards_of_a_node() -> None:
    """Eight boards on switches, one of them broken."""
    assert labels_of(hgx(), healthy=7) == {
        "gpu-count": "8",
        "gpu-healthy-count": "7",
        "gpu-memory-mib": "81920",
        "gpu-product": "H100",
        "gpus-per-numa-node": "4-4",
        "nvlink-set-size": "8",
    }


def test_the_largest_set_that_nvlink_joins_each_to_each() -> None:
    """A cube mesh joins four so, a bridge two, and PCIe none."""
    assert labels_of(cube_mesh())["nvlink-set-size"] == "4"
    assert labels_of(bridged_pairs())["nvlink-set-size"] == "2"
    assert labels_of(virtual_machine())["nvlink-set-size"] == "1"


def test_mig_instances_are_counted_by_profile() -> None:
    """They are not counted as GPUs."""
    found = labels_of(mig_node([["1g.10gb", "1g.10gb", "2g.20gb"], []]))

    assert found["gpu-count"] == "2"
    assert found["mig-1g.10gb"] == "2"
    assert found["mig-2g.20gb"] == "1"


def test_boards_that_differ_are_called_mixed() -> None:
    """One name would be wrong for some of them."""
    node = hgx()
    other = replace(node.slots[0], device=replace(node.slots[0].device, name="L4"))

    assert labels_of(replace(node, slots=(other, *node.slots[1:])))["gpu-product"] == "mixed"


def test_the_file_says_until_when_it_holds() -> None:
    """Labels of a stopped agent expire."""
    text = feature_file({"rightsizer.gpu-count": "8"}, 1_700_000_000 * 10**9)

    assert text == (
        "# +expiry-time=2023-11-14T22:13:20Z\nfeature.node.kubernetes.io/rightsizer.gpu-count=8\n"
    )


@given(st.text(max_size=100))
def test_label_of_any_board_name_is_valid(name: str) -> None:
    """One invalid label makes node-feature-discovery drop all of them."""
    facts = NodeFacts((Device("GPU-0", 0, name=name),), Topology(), frozenset())

    for key, value in labels(facts).items():
        assert VALUE.fullmatch(key), key
        assert VALUE.fullmatch(value), value


@given(st.integers(1, 7), st.data())
def test_the_largest_set_is_that_of_looking_at_all_of_them(count: int, data: st.DataObject) -> None:
    """The search is exact, for any links."""
    pairs = list(combinations(range(count), 2))
    chosen = {pair for pair in pairs if data.draw(st.booleans())}
    links = tuple(
        GpuLink(f"GPU-{a}", f"GPU-{b}", LinkKind.NVLINK if (a, b) in chosen else LinkKind.PHB)
        for a, b in pairs
    )
    devices = tuple(Device(f"GPU-{each}", each) for each in range(count))

    found = labels(NodeFacts(devices, Topology(links=links), frozenset()))

    largest = max(
        size
        for size in range(1, count + 1)
        for those in combinations(range(count), size)
        if all(pair in chosen for pair in combinations(those, 2))
    )
    assert found["rightsizer.nvlink-set-size"] == str(largest)
