"""What a GPU wasted is one figure: on the page, in `top`, in the report and in JSON."""

from typing import Final

import pytest
from msgspec.structs import replace

from publish_reports import node_report
from report_samples import RATE, report_facts
from rightsizer.console.node_frame import NodeFrame, node_rows
from rightsizer.io.codec import plain
from rightsizer.model.report import DeviceSpan
from rightsizer.model.units import HOUR_SECONDS
from rightsizer.report.builder import report_model
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.report.node_document import report_document
from rightsizer.report.report_blocks import report_blocks
from rightsizer.report.rows import GPU_COLUMNS
from rightsizer.report.summary import summary_of
from rightsizer.web.page_query import NodePast, PageQuery
from rightsizer.web.settings import FitSettings
from rightsizer.web.summary import strip_document, summary_document
from rightsizer.web.view.node import node_view
from sample_devices import NOW

TEXTS: Final = {column.name: column.text for column in GPU_COLUMNS}


def test_wasted_time_is_the_same_figure_everywhere() -> None:
    """Headroom is left over, not wasted; the same hours of one GPU at the same price."""
    trainer = report_facts().devices[0]
    facts = report_facts(devices=(trainer,), workloads=(), advice=())
    window = trainer.window
    report = node_report()
    report = replace(report, devices=report.devices[:1], advice=())
    uuid = report.devices[0].device.uuid
    span = DeviceSpan(
        (), window.states, window.used_seconds, 0.0, window.waste_seconds, window.waste_joules
    )
    past = {uuid: span}

    view = node_view(
        report,
        NOW,
        FreshnessSettings(),
        FitSettings(),
        PageQuery(),
        NodePast(past, rate_of=lambda _: RATE),
    )
    strip = plain(strip_document(report, PageQuery().span, past, [uuid]))
    (of_top,) = node_rows(NodeFrame(plain(report_document(report)), strip))
    model = report_model(facts)
    of_report = "\n".join(summary_of(model))

    (of_page,) = view.overview
    of_summary = summary_document(report, NOW, FreshnessSettings(), PageQuery().span, past)["span"]
    assert isinstance(of_summary, dict)
    assert TEXTS["Wasted"](of_page) == "14%, $24"
    assert view.waste is not None
    assert "14% of" in view.headline
    assert view.headline.endswith("wasted: $24")
    assert TEXTS["Wasted"](of_top) == "14%"
    assert view.waste.use == of_page.use
    assert plain(of_top.use) == pytest.approx(plain(of_page.use))
    assert of_summary["wasted_seconds"] == pytest.approx(
        of_page.use.wasted_gpu_hours * HOUR_SECONDS
    )
    assert of_summary["waste_seconds"] == pytest.approx(sum(window.waste_seconds.values()))
    assert "9.4 h of GPU time (14%) was wasted, worth $24 " in of_report
    assert "$20 more is headroom, left by GPUs at work" in of_report
    assert view.waste.left_over.dollars_typical == model.summary.left_over.dollars_typical
    assert model.summary.wasted.gpu_hours == pytest.approx(of_page.use.wasted_gpu_hours)
    assert model.devices[0].wasted == model.summary.wasted
    assert "14%, $24 (9.4 h)" in str([*report_blocks(model, facts.timezone)])
