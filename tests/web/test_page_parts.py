"""Parts of the page besides the cards: topology, workloads, options, evidence, money."""

import itertools
import re

import pytest
from msgspec.structs import replace

from publish_advice import node_advice
from publish_reports import full_report, node_report
from rightsizer.advice.compatible import savings_sum
from rightsizer.model.finding import Action, Instruction, Option, Risk, Savings
from rightsizer.model.report import DeviceSpan, JobReport, Report, WorkloadReport
from rightsizer.model.state import Cause, State
from rightsizer.model.topology import (
    Adapter,
    AdapterKind,
    Bridge,
    GpuLink,
    LinkKind,
    Placement,
    Topology,
)
from rightsizer.model.workload import Holding
from rightsizer.report.evidence_labels import evidence_labels
from rightsizer.report.facts import PriceRate
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.report.labels import risk_word, savings_label
from rightsizer.web.page import WebPage
from rightsizer.web.page_query import PageQuery
from rightsizer.web.settings import FitSettings
from rightsizer.web.view.advice import (
    cost_label,
    expected_label,
    outcome_label,
    reasons_label,
    risks_label,
    time_label,
)
from rightsizer.web.view.drawing import nvlink_groups
from rightsizer.web.view.node import NodeView, node_view, workload_rows
from rightsizer.web.view.topology import topology_view
from rightsizer.web.view.totals import (
    Spending,
    daily_label,
    part_of,
    range_label,
    waste_view,
)
from sample_devices import HOUR, NOW, TRAINING


def view_of(report: Report, chosen: str = "") -> NodeView:
    """View of a report, or of one of its devices."""
    return node_view(report, NOW, FreshnessSettings(), FitSettings(), PageQuery(gpu=chosen))


def page_of(report: Report, gpu: str = "") -> str:
    """HTML document of a report."""
    page = WebPage(FreshnessSettings(), FitSettings(), 60.0)
    return page.render(report, NOW, PageQuery(gpu=gpu)).decode()


def placed_report() -> Report:
    """Four GPUs of two NUMA nodes, two of them joined by NVLink, one in a narrower slot."""
    report = full_report(4)
    uuids = [device.device.uuid for device in report.devices]
    placements = {
        uuid: Placement(
            uuid,
            numa_node=number // 2,
            generation=5,
            width=8 if number == 3 else 16,
            generation_maximum=5,
            width_maximum=16,
            bridges=(Bridge("0000:00:01.0", 5, 16, 5, 16),),
        )
        for number, uuid in enumerate(uuids)
    }
    links = [
        GpuLink(one, other, LinkKind.NVLINK, 12)
        if {one, other} == set(uuids[:2])
        else GpuLink(one, other, LinkKind.SYSTEM)
        for one, other in itertools.combinations(uuids, 2)
    ]
    near = Adapter("mlx5_0", AdapterKind.INFINIBAND, "0000:1a:00.0", 0, {uuids[1]: LinkKind.PIX})
    far = Adapter("nvme0", AdapterKind.NVME, "0000:9a:00.0", 1, {uuids[2]: LinkKind.NODE})
    topology = Topology(placements, tuple(links), (near, far))
    return replace(report, node=replace(report.node, topology=topology))


def test_topology_is_drawn_by_numa_node() -> None:
    """GPUs are drawn in their node, adapters at the GPU that they share a switch with."""
    view = view_of(placed_report()).topology
    assert view is not None
    assert view.label == (
        "NUMA node 0: GPU 0, GPU 1; NUMA node 1: GPU 2, GPU 3; NVLink NV12: GPU 0, GPU 1"
    )
    for drawing in (view.wide, view.narrow):
        places = [box.place for box in drawing.boxes if box.place]
        assert [place.title for place in places] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
        assert [chip for place in places for chip in place.chips] == ["mlx5_0 · PIX"]
        assert [box.text for box in drawing.boxes if box.kind == "chip"] == [
            "mlx5_0 · PIX",
            "nvme0",
        ]
        assert [place.is_degraded for place in places] == [False, False, False, True]
        assert places[3].detail == "PCIe 5 \u00d78 of \u00d716"
        assert all(box.x >= 0 and box.x + box.width <= drawing.width for box in drawing.boxes)
        assert all(box.y >= 0 and box.y + box.height <= drawing.height for box in drawing.boxes)
    assert "SYS: between the NUMA nodes" in [line.text for line in view.wide.lines]


def test_every_way_is_in_the_table() -> None:
    """Links have nvidia-smi's names, adapters included; the table covers what the drawing omits."""
    view = view_of(placed_report()).topology
    assert view is not None
    rows = dict(view.matrix)
    assert rows["GPU 0"] == ("\u2013", "NV12", "SYS", "SYS")
    assert rows["mlx5_0"] == ("?", "PIX", "?", "?")


def test_boxes_of_gpus_never_overlap() -> None:
    """This holds for any number."""
    report = full_report(16)
    placements = {
        device.device.uuid: Placement(device.device.uuid, numa_node=number % 3)
        for number, device in enumerate(report.devices)
    }
    assert report.node.topology is not None
    topology = replace(report.node.topology, placements=placements)
    names = {device.device.uuid: str(number) for number, device in enumerate(report.devices)}
    view = topology_view(
        replace(report, node=replace(report.node, topology=topology)), names, frozenset(names)
    )
    assert view is not None
    for drawing in (view.wide, view.narrow):
        boxes = [box for box in drawing.boxes if box.kind != "numa"]
        for one, other in itertools.combinations(boxes, 2):
            assert (
                one.x + one.width <= other.x
                or other.x + other.width <= one.x
                or one.y + one.height <= other.y
                or other.y + other.height <= one.y
            )


def test_nvlink_in_part_is_said_to_be() -> None:
    """Three in a row form one group, but not all to all; a GPU without NVLink is in no group."""
    topology = Topology(
        links=(
            GpuLink("a", "b", LinkKind.NVLINK, 4),
            GpuLink("b", "c", LinkKind.NVLINK, 2),
            GpuLink("a", "c", LinkKind.PHB),
        )
    )
    (group,) = nvlink_groups(topology, ["a", "b", "c", "d"])
    assert group.uuids == ("a", "b", "c")
    assert group.text == "NVLink NV2 to NV4, in part"


def test_a_node_without_topology_has_no_drawing() -> None:
    """An unknown topology is not drawn."""
    report = node_report()
    assert view_of(report).topology is None
    assert 'id="topology"' not in page_of(report)


def worked(key: str, seconds_busy: float, last_seen: int = NOW) -> WorkloadReport:
    """A workload that was busy for the given time, and idle for the rest of an hour."""
    report = node_report().devices[0]
    states = {State.COMPUTE_BOUND: seconds_busy, State.IDLE_HELD: 3600.0 - seconds_busy}
    totals = replace(report.totals, state_seconds=states)
    return WorkloadReport(replace(TRAINING, key=key), (report.device.uuid,), last_seen, totals)


def test_workloads_are_reported_by_what_they_did() -> None:
    """Present ones come first; one that has left shows since when."""
    report = node_report()
    gone = worked("slurm/gone", 3600.0, NOW - HOUR)
    here = worked("slurm/here", 900.0)
    holding = Holding(here.workload, 0.5)
    devices = (replace(report.devices[0], holdings=(holding,)), *report.devices[1:])
    names = {device.device.uuid: f"GPU {device.device.index}" for device in devices}
    rows = workload_rows(replace(report, devices=devices, workloads=(gone, here)), names, NOW)
    assert [(row.title, row.busy_ratio, row.held_ratio) for row in rows] == [
        ("slurm/here", 0.25, 0.5),
        ("slurm/gone", 1.0, 0.5),
    ]
    assert rows[0].gpus == "GPU 0 (50%)"
    assert rows[0].left is None
    assert rows[1].left is not None
    assert rows[1].left.age == "1 h"
    (former,) = workload_rows(replace(report, devices=devices, workloads=(gone,)), {}, NOW)
    assert former.gpus == "1 gone"


def test_a_row_tells_whose_trouble_it_is() -> None:
    """An action for another GPU of the job names that GPU; one for the row's GPU does not."""
    report = node_report()
    rows = page_of(report).split('<tr id="row-')[1:]
    title = re.compile(r'href="#advice-[^>]*>([^<]*)<')
    titles = {row.partition('"')[0]: title.findall(row)[:1] for row in rows}
    stall = next(each.finding for each in report.advice if each.finding.culprits)
    (culprit,) = stall.culprits
    (other,) = (uuid for uuid in stall.devices if uuid != culprit)
    assert titles[culprit] == ["Find the rank that the others wait for"]
    assert titles[other] == ["Find the rank that the others wait for: llama-pretrain"]


def test_similar_advice_is_folded() -> None:
    """From three GPUs without a workload on; savings are summed, and each has its own card."""
    report = node_report()
    idle = next(each for each in report.advice if each.is_open)
    saves = Savings(gpus_low=1.0, gpus_high=1.0, dollars_per_hour_low=1.0)
    finding = replace(idle.finding, action=Action.RELEASE, workload=None, savings=saves)
    empty = tuple(
        replace(idle, finding=replace(finding, id=f"empty{device.device.index}", devices=(uuid,)))
        for device in report.devices[:3]
        for uuid in (device.device.uuid,)
    )
    document = page_of(replace(report, advice=empty))
    (summary,) = re.findall(r'<summary class="panel">(.*?)</summary>', document)
    assert re.sub("<[^>]*>", "", summary) == "Release 3 GPUs saves $72 a day"
    assert document.count("<article") == 3
    assert 'class="group"' not in page_of(replace(report, advice=empty[:2]))


def test_options_are_rows_and_dashes_stand_for_the_unknown() -> None:
    """Each row has the option's risk, time, cost and savings."""
    whole = Option(
        "NVIDIA L40S",
        Risk.MEDIUM,
        time_ratio=1.2,
        time_ratio_low=1.1,
        time_ratio_high=1.4,
        fits=False,
        dollars_per_hour_low=0.8,
        dollars_per_hour_high=1.9,
        savings=Savings(gpus_low=0.0, gpus_high=0.0, dollars_per_hour_low=-0.5),
        risks={"memory": Risk.MEDIUM, "compute": Risk.VERY_LOW},
    )
    assert (risk_word(whole.risk), risks_label(whole)) == (
        "medium",
        "Memory medium, Compute very low",
    )
    assert (time_label(whole), cost_label(whole)) == (
        "\u00d7 1.10 to 1.40",
        "$0.80 to 1.90 an hour",
    )
    assert whole.savings is not None
    assert savings_label(whole.savings) == "costs $12 more a day"
    assert expected_label(whole) == "its memory does not fit"
    bare = Option("give it back", Risk.UNKNOWN)
    assert (risk_word(bare.risk), time_label(bare), cost_label(bare)) == (
        "unknown",
        "\u2013",
        "\u2013",
    )


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1.0, 2.0, "$36 a day ($24 to $48)"),
        (0.1, 0.2, "$3.60 a day ($2.40 to $4.80)"),
        (1.0, 1.0, "$24 a day"),
        (-2.0, -1.0, "costs $36 more a day ($24 to $48)"),
        (-1.0, 0.5, "from $24 more to $12 less a day"),
    ],
)
def test_money_that_is_spent_is_not_called_saved(low: float, high: float, words: str) -> None:
    """A larger GPU costs money."""
    savings = Savings(dollars_per_hour_low=low, dollars_per_hour_high=high)
    assert savings_label(savings) == words


def test_advice_that_excludes_itself_is_counted_once() -> None:
    """The same GPUs cannot be saved twice."""
    first, second = node_advice()[:2]
    saves = Savings(gpus_low=1.0, gpus_high=1.0, dollars_per_hour_low=2.0)
    less = Savings(gpus_low=0.5, gpus_high=0.5, dollars_per_hour_low=1.0)
    pieces = [
        replace(first, finding=replace(first.finding, savings=less, exclusive_group="a")),
        replace(second, finding=replace(second.finding, savings=saves, exclusive_group="a")),
    ]
    assert savings_sum(pieces[:1]).gpus_low == 0.5
    together = savings_sum(pieces)
    assert (together.gpus_low, together.has_price) == (1.0, True)
    apart = [pieces[0], replace(pieces[1], finding=replace(pieces[1].finding, exclusive_group="b"))]
    assert savings_sum(apart).gpus_high == 1.5


def test_savings_stand_at_the_median_price() -> None:
    """The middle of the range is not used: hardly anyone pays its upper end."""
    savings = Savings(
        dollars_per_hour_low=2.0, dollars_per_hour_high=10.0, dollars_per_hour_typical=4.0
    )
    assert savings_label(savings) == "$96 a day ($48 to $240)"
    assert daily_label(savings) == "$96 a day"


def test_waste_costs_what_its_hours_do() -> None:
    """An instance costs its share of the GPU; the total is the sum of the parts."""
    rate = PriceRate(2.0, 10.0, 4.0, "on_demand", "a list", "2026-01", "list prices")
    idle = DeviceSpan((), waste_seconds={Cause.IDLE: 7200.0, Cause.HEADROOM: 3600.0})
    whole = Spending(idle, 1.0, rate)
    part = Spending(idle, 0.5, rate)
    found = waste_view([whole, part])
    assert found.wasted.gpu_hours == pytest.approx(3.0)
    assert found.wasted.dollars_typical == pytest.approx(12.0)
    assert found.left_over.dollars_typical == pytest.approx(6.0)
    assert part_of(found.parts, "waste-headroom") == pytest.approx(1 / 3)
    assert found.wasted_ratio == pytest.approx(2 / 3)
    assert range_label(found) == "$6 to $30 at list prices"
    assert waste_view([whole, Spending(idle)]).wasted.dollars_typical is None
    own = Spending(idle, 1.0, replace(rate, basis="your prices"))
    assert waste_view([whole, own]).price_basis == "list prices and your prices"


def test_evidence_has_its_units_and_the_names_of_devices() -> None:
    """Ratios are percentages, spans are durations, UUIDs are the page's names of devices."""
    facts = evidence_labels(
        {
            "idle_ratio": {"GPU-1": 0.5},
            "window_seconds": 3600.0,
            "peak_bytes": 2.0**31,
            "power_watts": 71.5,
            "schedule": [{"from_hour": 0, "replicas": 2}],
            "seen": True,
            "bound_ratio": None,
        },
        {"GPU-1": "GPU 1"},
    )
    assert {name: value.replace("\u00a0", " ") for name, value in facts} == {
        "Idle": "GPU 1 50%",
        "Window": "1 h",
        "Peak": "2 GiB",
        "Power": "71.5 W",
        "Schedule": "from hour 0, replicas 2",
        "Seen": "yes",
        "Bound": "not known",
    }


def test_advice_shows_how_and_what_came_of_it() -> None:
    """Instructions can be copied; verified recommendations show before and after."""
    report = node_report()
    first, *others, closed = report.advice
    steps = (Instruction("Give it <back>", "scancel 4711\n", "sh"),)
    first = replace(first, finding=replace(first.finding, instructions=steps))
    why = "1.00 GPUs wasted before, 0.10 after"
    closed = replace(closed, why=why, verified=NOW, realized_gpu_hours=21.5)
    report = replace(report, advice=(first, *others, closed))
    document = page_of(report)
    assert "<code>scancel 4711</code></pre>" in document
    assert "Give it &lt;back&gt;" in document
    outcome = outcome_label(closed)
    assert outcome == f"{why}; 21 h 30 min of GPU time saved while before and after were compared"
    assert outcome in document


def test_one_device_can_be_looked_at_alone() -> None:
    """Only its card and recommendations are shown; of an unknown device, nothing."""
    report = node_report()
    uuid = report.devices[3].device.uuid
    alone = view_of(report, uuid)
    assert [row.uuid for row in alone.overview] == [uuid]
    assert [reasons_label(piece.finding) for piece in alone.advice] == ["Idle, but held"]
    assert view_of(report, "GPU-nobody").overview == ()
    assert f"?span=7d&amp;gpu={uuid}" in page_of(report, uuid)


def test_many_devices_are_rows_that_fit_in_300_kb() -> None:
    """Sixty-four devices, each with a day of noise, have rows; their cards are separate pages."""
    report = node_report()
    devices = tuple(
        replace(
            report.devices[number % 6],
            device=replace(report.devices[0].device, uuid=f"GPU-{number}", index=number),
        )
        for number in range(64)
    )
    document = page_of(replace(report, devices=devices))
    assert len(document) < 300_000
    assert document.count("<tr id=") == 64
    assert '<article class="card device"' not in document
    assert page_of(replace(report, devices=devices), "GPU-7").count('class="card device"') == 1


def test_the_agents_own_trouble_is_reported() -> None:
    """Failing collectors and jobs are named; the reason is in the log, which may show paths."""
    report = node_report()
    job = JobReport("prune", 1, 1, last_error="[Errno 28] /secret/path")
    document = page_of(replace(report, agent=replace(report.agent, jobs=(job,))))
    assert "failing: processes" in document
    assert "the last run failed of prune" in document
    assert "/secret/path" not in document
