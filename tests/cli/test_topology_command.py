"""`rightsizer topology` over real trees, simulated drivers and none."""

import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from nvml_driver import FakeDriver, FakeGpu, installed
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.main import main
from rightsizer.cli.topology import topology_blocks
from rightsizer.model.device import Device
from rightsizer.model.topology import GpuLink, LinkKind, Placement, Topology, cpu_list
from rightsizer.report.block_text import text_of
from rightsizer.telemetry.node_survey import NodeSurvey, survey_node
from simulated_driver import simulated_driver
from sysfs_trees import SysfsTree, flat_virtual_machine, grace_hopper, hgx, no_numa, one_socket

Captured = pytest.CaptureFixture[str]
Golden = Callable[[str, str], None]

TREES: Final = (one_socket, hgx, no_numa, flat_virtual_machine, grace_hopper)


def answer(captured: Captured, *arguments: str | Path) -> str:
    """The printed output."""
    assert main(["topology", *map(str, arguments)]) == 0
    return captured.readouterr().out


def document(captured: Captured, *arguments: str | Path) -> Any:
    """The JSON answer."""
    return json.loads(answer(captured, "--json", *arguments))


def survey(tree: SysfsTree, patience_seconds: float = 10.0) -> NodeSurvey:
    """A survey of a tree, with the given driver."""
    return survey_node(tree.root, built_in(), patience_seconds=patience_seconds)


@pytest.fixture
def no_driver() -> FakeDriver:
    """A library that finds no kernel module."""
    driver = FakeDriver()
    driver.is_loaded = False
    return driver


def test_the_matrix_of_a_node_with_driver_and_bus(
    tmp_path: Path, capsys: Captured, golden: Golden
) -> None:
    """NVLink from the driver, everything else from the bus."""
    arguments = ("--scenario", "eight-gpu-node", "--path.sysfs", hgx(tmp_path).root)

    golden("topology-eight-gpu-node.txt", answer(capsys, *arguments))
    golden("topology-eight-gpu-node.json", answer(capsys, *arguments, "--json"))


@pytest.mark.parametrize("build", TREES, ids=lambda build: build.__name__)
def test_the_matrix_of_a_bus_without_a_driver(
    build: Callable[[Path], SysfsTree],
    no_driver: FakeDriver,
    tmp_path: Path,
    capsys: Captured,
    golden: Golden,
) -> None:
    """GPUs are named by their addresses, with the reason why the driver does not answer."""
    with installed(no_driver):
        assert main(["topology", "--path.sysfs", str(build(tmp_path).root)]) == 0
    out, err = capsys.readouterr()

    golden(f"topology-{build.__name__.replace('_', '-')}.txt", out)
    assert err == (
        "rightsizer: warning: the NVIDIA kernel module is not loaded: run 'modprobe nvidia' and "
        "look for its reason in 'dmesg'; GPUs go by their PCI addresses\n"
    )


def test_a_simulated_node_has_no_bus_of_this_machine(capsys: Captured) -> None:
    """Real devices of this machine are not shown beside simulated GPUs."""
    found = document(capsys, "--scenario", "eight-gpu-node")

    assert len(found["gpus"]) == 8
    assert {link["kind"] for link in found["links"]} == {"NV"}
    assert {link["nvlinks"] for link in found["links"]} == {18}
    assert {gpu["numa_node"] for gpu in found["gpus"]} == {0, 1}
    assert (found["adapters"], found["numa_nodes"]) == ([], [])


def test_the_scenario_of_the_configuration_counts_too(tmp_path: Path, capsys: Captured) -> None:
    """As for the agent."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text("sources: {simulated: {scenario: t4-pair}}\n")

    assert [gpu["name"] for gpu in document(capsys, "--config.file", file)["gpus"]] == [
        "Tesla T4"
    ] * 2


def test_boards_of_the_operator_count_too(tmp_path: Path, capsys: Captured) -> None:
    """As for the agent."""
    boards, scenario, file = (tmp_path / name for name in ("boards.yaml", "lab.yaml", "own.yaml"))
    figures = "sm_count: 100, memory_mib: 65536, memory_bandwidth_gbs: 2000, power_limit_watts: 300"
    boards.write_text(
        "boards: {LAB-1: {architecture: Hopper, compute_capability: '9.0', "
        f"{figures}, dense_peak_tera: {{bf16: 500}}}}}}\n"
    )
    scenario.write_text("{name: lab, boards: [{board: LAB-1}], workloads: []}\n")
    file.write_text(
        f"catalogue: {{boards_file: {boards}}}\nsources: {{simulated: {{scenario: {scenario}}}}}\n"
    )

    assert len(document(capsys, "--config.file", file)["gpus"]) == 1


def test_unknown_fact_is_null(no_driver: FakeDriver, tmp_path: Path, capsys: Captured) -> None:
    """It is never a number or word that could be taken for a value."""
    with installed(no_driver):
        found = document(capsys, "--path.sysfs", flat_virtual_machine(tmp_path).root)
    gpu = found["gpus"][0]
    link = found["links"][0]

    assert (gpu["uuid"], gpu["offered"], gpu["index"]) == ("0000:00:05.0", False, None)
    assert (gpu["name"], gpu["numa_node"], gpu["cpus"], gpu["bridges"]) == (None, None, None, [])
    assert set(gpu["link"].values()) | set(gpu["slot"].values()) == {None}
    assert (link["kind"], link["pcie_kind"], link["can_read_peer"]) == (None, None, None)
    assert found["adapters"][0]["links"] == {"0000:00:05.0": None, "0000:00:06.0": None}


def test_a_gpu_that_the_driver_does_not_offer_is_shown(tmp_path: Path) -> None:
    """Another driver may have it, or it fell off the bus; its position is known."""
    tree = one_socket(tmp_path)
    (tmp_path / "bus/pci/devices/0000:02:00.0/driver").unlink()
    with installed(FakeDriver(FakeGpu("GPU-a", bus_id="00000000:01:00.0"))):
        found = survey(tree)

    assert [device.uuid for device in found.devices] == ["GPU-a", "0000:02:00.0"]
    assert found.offered == {"GPU-a"}
    assert found.warnings == (
        "0000:02:00.0 is on the bus without a driver, and NVML does not offer it",
    )
    link = found.topology.link("GPU-a", "0000:02:00.0")
    assert link is not None
    assert link.label == "PHB"


def survey_with_hang(folder: Path, call: str) -> NodeSurvey:
    """A survey of eight GPUs while a call of the driver hangs."""
    tree = hgx(folder)
    with simulated_driver("eight-gpu-node") as bench:
        bench.library.faults.hang(call)
        found = survey(tree, patience_seconds=1.0)
        bench.library.faults.clear()
        for thread in threading.enumerate():
            if thread.name == "nvml":
                thread.join(10.0)  # It must still close this driver, and no other.
    return found


def test_a_driver_that_hangs_is_left_alone(tmp_path: Path) -> None:
    """The GPUs are shown without what it would tell, and the hanging call is named."""
    found = survey_with_hang(tmp_path, "nvmlDeviceGetP2PStatus")
    assert len(found.offered) == len(found.devices) == 8
    assert found.warnings == ("NVML hangs in nvmlDeviceGetP2PStatus",)


def test_a_driver_that_hangs_as_it_opens_leaves_the_bus(tmp_path: Path) -> None:
    """Nothing of the driver is known, and the hanging call is named."""
    found = survey_with_hang(tmp_path, "nvmlInitWithFlags")
    assert (found.offered, len(found.devices)) == (frozenset(), 8)
    assert found.warnings[0].startswith("NVML is slow: it is not open after ")


def test_a_gpu_that_hangs_leaves_the_others(tmp_path: Path) -> None:
    """It is named; the others are shown with their links."""
    tree = hgx(tmp_path)
    with simulated_driver("eight-gpu-node") as bench:
        bench.library.faults.hang(uuid=survey(tree).devices[3].uuid)
        found = survey(tree)
        bench.library.faults.clear()
        for thread in threading.enumerate():
            if thread.name == "nvml":
                thread.join(10.0)

    assert len(found.offered) == 7
    assert any(warning.startswith("GPU 3: ") for warning in found.warnings)


def test_a_gpu_that_is_asleep_is_not_woken(tmp_path: Path) -> None:
    """The bus has its position; the driver is asked about the others only."""
    tree = hgx(tmp_path)
    tree.write("0000:3b:00.0", "power/runtime_status", "suspended")
    with simulated_driver("eight-gpu-node"):
        found = survey(tree)
    asleep = [device.uuid for device in found.devices if device.uuid not in found.offered]

    assert (asleep, len(found.offered)) == (["0000:3b:00.0"], 7)
    assert found.warnings == ("0000:3b:00.0 is asleep, and asking the driver would wake it",)
    assert found.topology.placements["0000:3b:00.0"].numa_node == 0


def test_driver_is_not_opened_while_all_gpus_sleep(tmp_path: Path) -> None:
    """Opening it would wake them."""
    tree = one_socket(tmp_path)
    for address in tree.gpus:
        tree.write(address, "power/runtime_status", "suspended")
    driver = FakeDriver(FakeGpu("GPU-a", bus_id="00000000:01:00.0"))
    with installed(driver):
        found = survey(tree)

    assert driver.calls == []
    assert found.offered == frozenset()
    assert found.warnings == ("all GPUs are asleep, and asking would wake them",)


def linked(*can_read: bool | None) -> NodeSurvey:
    """Four GPUs, of which the given number of pairs can read each other's memory."""
    uuids = [f"GPU-{index}" for index in range(4)]
    pairs = itertools.combinations(uuids, 2)
    links = itertools.zip_longest(pairs, can_read)
    return NodeSurvey(
        Topology(
            {uuid: Placement(uuid) for uuid in uuids},
            tuple(GpuLink(*pair, LinkKind.PIX, can_read_peer=may) for pair, may in links),
        ),
        tuple(Device(uuid, index) for index, uuid in enumerate(uuids)),
        frozenset(uuids),
    )


@pytest.mark.parametrize(
    ("access", "words"),
    [
        ([None] * 6, "the driver does not say who can read whose"),
        ([True] * 6, "each GPU can read every other's"),
        ([False] * 6, "no GPU can read another's"),
        (
            [True, False, True, True, True, False],
            "each GPU can read every other's, but not GPU0-GPU2, GPU2-GPU3",
        ),
        ([True, *[False] * 5], "1 of 6 pairs can read each other's"),
        ([True, True, False, None, None, None], "2 of 6 pairs can read each other's"),
    ],
)
def test_peer_access_is_summarized_in_one_line(access: list[bool | None], words: str) -> None:
    """For any number of pairs."""
    assert f"\nPeer memory: {words}\n" in text_of(topology_blocks(linked(*access)))


def test_without_any_gpu_it_fails(no_driver: FakeDriver, tmp_path: Path, capsys: Captured) -> None:
    """With the places searched and the remedy."""
    with installed(no_driver):
        assert main(["topology", "--path.sysfs", str(tmp_path)]) == 1
    out, err = capsys.readouterr()

    assert out == ""
    assert f"no NVIDIA GPU is on the bus under {tmp_path}" in err
    assert "modprobe nvidia" in err
    assert "--path.sysfs" in err


def test_a_sysfs_that_is_not_there_is_a_usage_error(capsys: Captured) -> None:
    """Nothing is guessed instead."""
    assert main(["topology", "--path.sysfs", "/nowhere"]) == 2
    assert capsys.readouterr().err == (
        "rightsizer: --path.sysfs: /nowhere is no folder; name the mount point of sysfs\n"
    )


@pytest.mark.parametrize(
    ("cpus", "text"),
    [((), ""), ((3,), "3"), ((0, 1, 2, 5, 7, 8), "0-2,5,7-8")],
)
def test_cpus_are_written_as_the_kernel_writes_them(cpus: tuple[int, ...], text: str) -> None:
    """So that `taskset` and `numactl` accept them."""
    assert cpu_list(cpus) == text
