"""A workload's key on the page: it may break after its slashes, and is escaped."""

import pytest
from msgspec.structs import replace

from publish_reports import node_report
from readings import workload
from rightsizer.model.workload import Holding
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.page import WebPage
from rightsizer.web.settings import FitSettings


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("bare", "bare"),
        ("slurm/finetune-ddp", "slurm/<wbr/>finetune-ddp"),
        ("a//b/", "a/<wbr/>/<wbr/>b/<wbr/>"),
        ("k/<b>&amp;</b>", "k/<wbr/>&lt;b&gt;&amp;amp;&lt;/<wbr/>b&gt;"),
    ],
)
def test_a_key_may_break_after_its_slashes_alone(key: str, shown: str) -> None:
    """This holds in the row of the GPU that its workload holds."""
    report = node_report()
    held = replace(report.devices[0], holdings=(Holding(replace(workload(), key=key), 1.0),))
    report = replace(report, devices=(held, *report.devices[1:]), advice=())
    page = WebPage(FreshnessSettings(), FitSettings(), 0.0)

    assert f'">{shown}</a></span>' in page.render(report, report.wall_time).decode()
