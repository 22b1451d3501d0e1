"""Pages of dcgm-exporters with more than this node has."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dcgm_exporter import BUSY, OTHER, dcgm_exporter, lines, page
from foreign_documents import foreign_page, foreign_uuid, held_page, node_bus
from readings import gpu, snapshot
from rightsizer.catalogue.catalogue import built_in
from rightsizer.host.pcie import expected_gpus
from rightsizer.io.clock import FastClock
from rightsizer.model.errors import DocumentError, DriverError
from rightsizer.model.signal import Signal
from rightsizer.owners.workload_limits import OTHER_WORKLOADS, WorkloadNameLimiter
from rightsizer.telemetry.dcgm.enrichment import DcgmSecondarySource
from rightsizer.telemetry.dcgm.node_gpus import NodeGpus
from rightsizer.telemetry.dcgm.series import DcgmExpositionParser, ExporterPage
from rightsizer.telemetry.dcgm.settings import DcgmSettings

OURS = gpu(uuid=BUSY, pci_bus_id="00000000:1B:00.0")
FIRST = "0000:1b:00.0"
SECOND = "0000:5e:00.0"


def read(text: str, node: NodeGpus, workloads_maximum: int = 200) -> ExporterPage:
    """A page as read on a node."""
    return DcgmExpositionParser(built_in(), workloads_maximum).read(text, node=node)


@pytest.mark.parametrize("count", [1, 200, 5000])
def test_gpus_that_the_driver_does_not_have_are_refused(count: int) -> None:
    """Those of the driver are read, and the others counted."""
    found = read(foreign_page(count, [BUSY]), NodeGpus.of([OURS], ()))

    assert [device.uuid for device in found.devices] == [BUSY]
    assert found.readings[BUSY].values == {Signal.GPU_BUSY: 0.05}
    assert found.refusal is not None
    assert found.refusal.items == count
    assert "not this node's" in found.refusal.reason


def test_page_of_another_node_alone_is_rejected() -> None:
    """None of its GPUs is the driver's or on the bus."""
    with pytest.raises(DriverError, match="none of this node's GPUs"):
        read(foreign_page(8), NodeGpus.of([OURS], ()))


@pytest.mark.parametrize(
    ("boards", "own"),
    [
        ({OTHER: SECOND}, {OTHER}),
        ({OTHER: "00000000:5E:00.0", BUSY: None}, {OTHER, BUSY}),
        ({OTHER: "0000:99:00.0", BUSY: FIRST}, {BUSY}),
        ({OTHER: None, BUSY: None}, {OTHER, BUSY}),
        ({OTHER: None, BUSY: None, foreign_uuid(1): None}, {BUSY}),
        ({OTHER: SECOND, foreign_uuid(1): SECOND, BUSY: FIRST}, {BUSY}),
        ({OTHER: SECOND, foreign_uuid(1): None, BUSY: FIRST}, {OTHER, BUSY}),
    ],
    ids=["slot", "spelling", "elsewhere", "spare", "too many", "one slot twice", "slot and more"],
)
def test_gpus_are_known_by_uuid_then_slot_then_number(
    tmp_path: Path, boards: Mapping[str, str | None], own: set[str]
) -> None:
    """The bus has one GPU more than the driver offers; only it can be added."""
    bus = expected_gpus(node_bus(tmp_path, FIRST, SECOND))

    assert NodeGpus.of([OURS], bus).own(boards) == own


def test_node_without_driver_and_bus_has_as_many_gpus_as_dcgm_can_list() -> None:
    """Those of earlier pages keep their places."""
    node = NodeGpus.of((), ())
    assert len(node.own({foreign_uuid(each): None for each in range(32)})) == 32
    assert node.own({foreign_uuid(each): None for each in range(33)}) == set()
    later = NodeGpus.of((), (), frozenset({BUSY}))
    assert later.own({BUSY: None, **{foreign_uuid(each): None for each in range(200)}}) == {BUSY}


def test_bus_limits_the_page_where_no_driver_answers(tmp_path: Path) -> None:
    """An agent without NVML has the exporter alone."""
    bus = expected_gpus(node_bus(tmp_path, FIRST, SECOND))
    node = NodeGpus.of((), bus)
    assert len(read(page() + page(uuid=OTHER, gpu="1"), node).devices) == 2
    with pytest.raises(DriverError, match="none of this node's GPUs"):
        read(foreign_page(3), node)


def test_instances_of_a_gpu_are_as_many_as_it_can_have() -> None:
    """Lines of further ones are left out."""
    text = page() + "".join(
        lines(BUSY, {"DCGM_FI_PROF_SM_ACTIVE": 0.5}, GPU_I_ID=str(each), GPU_I_PROFILE="1g.10gb")
        for each in range(5000)
    )
    assert len(read(text, NodeGpus.of([OURS], ())).readings) == 1 + 8


def test_holders_beyond_the_limit_become_one() -> None:
    """Their shares of the GPU are kept."""
    found = read(held_page(5000, BUSY), NodeGpus.of([OURS], ()), workloads_maximum=10)
    holdings = found.readings[BUSY].holdings

    assert len(holdings) == 11
    others = next(holding for holding in holdings if holding.workload is OTHER_WORKLOADS)
    assert others.share_ratio == pytest.approx(4990 / 5000)
    assert found.refusal is not None
    assert found.refusal.items == 4990
    assert "workloads_maximum" in found.refusal.reason


def test_limit_of_holders_is_the_nodes() -> None:
    """Whatever other sources have named takes room from the exporter's holders."""
    limiter = WorkloadNameLimiter(5, 30.0)
    with dcgm_exporter(held_page(100, BUSY)) as exporter:
        settings = DcgmSettings(url=exporter.url)
        source = DcgmSecondarySource(
            settings, built_in(), FastClock(0), sysfs=Path("/nowhere"), name_limiter=limiter
        )
        try:
            ours = snapshot(5, [OURS], {OURS: {}})
            source.enrich(ours)
            source.view(10)
            found = source.enrich(ours)
        finally:
            source.close()
    assert len(found.holdings[BUSY]) == 6
    assert found.collectors["dcgm"].success
    assert found.collectors["dcgm"].refusal is not None


def test_page_of_more_lines_than_a_nodes_is_rejected() -> None:
    """Before any of them is read."""
    with pytest.raises(DocumentError, match="more than 10000 lines"):
        read("\n" * 20_000, NodeGpus())


def test_line_of_a_megabyte_is_skipped() -> None:
    """Parsing labels takes time with the square of a line's length."""
    labels = ",".join(f'l{each}="x"' for each in range(200_000))
    text = f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} 5\n" + page()
    assert list(read(text, NodeGpus.of([OURS], ())).readings) == [BUSY]


def test_lines_of_other_nodes_are_not_remembered() -> None:
    """However many names come and go, what is kept is the node's own."""
    parser = DcgmExpositionParser(built_in())
    node = NodeGpus.of([OURS], ())
    parser.read(foreign_page(5000, [BUSY]), node=node)
    assert len(parser.meanings) == 1
