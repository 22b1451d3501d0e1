"""Table of GPUs at the top of the page: order, actions and savings."""

from msgspec.structs import replace

from publish_reports import node_report, rated_report
from rightsizer.model.advice import AdviceState
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.report.labels import action_label
from rightsizer.web.page import WebPage
from rightsizer.web.page_query import PageQuery
from rightsizer.web.settings import FitSettings
from rightsizer.web.view.node import node_view
from rightsizer.web.view.totals import daily_label
from sample_devices import HOUR, NOW


def test_the_table_of_gpus_begins_with_what_saves_most() -> None:
    """Each board has a row, silent ones first, with its one most important action."""
    rows = node_view(rated_report(), NOW, FreshnessSettings(), FitSettings(), PageQuery()).overview
    ranks = [row.opened[0].finding.rank for row in rows if row.opened]
    assert ranks == sorted(ranks)
    wasted = [row.waste.wasted.gpu_hours for row in rows if not (row.opened or row.down)]
    assert wasted == sorted(wasted, reverse=True)
    assert [bool(row.down) for row in rows] == sorted(
        (bool(row.down) for row in rows), reverse=True
    )
    advised = {row.title: row.opened[0].finding for row in rows if row.opened}
    assert {
        title: action_label(finding.action, finding.kind) for title, finding in advised.items()
    } == {
        "GPU 0": "Find the rank that the others wait for",
        "GPU 1": "Find the rank that the others wait for",
        "GPU 3": "Release the GPU",
        "GPU 4": "Move to a larger GPU",
    }
    assert daily_label(advised["GPU 3"].savings) == "$72 a day"


def test_of_equally_urgent_advice_on_a_gpu_the_one_that_saves_most_stands_first() -> None:
    """The order is that of `advise` and of the savings tile."""
    report = rated_report()
    idle = next(each for each in report.advice if each.finding.rule == "held_idle")
    savings = replace(idle.finding.savings, dollars_per_hour_high=9.0)
    worth_more = replace(idle.finding, id="dearer", confidence=0.6, savings=savings)
    report = replace(report, advice=(*report.advice, replace(idle, finding=worth_more)))
    view = node_view(report, NOW, FreshnessSettings(), FitSettings(), PageQuery())
    row = next(each for each in view.overview if each.title == "GPU 3")
    assert [each.id for each in row.opened] == ["dearer", idle.id]


def test_gpu_without_open_advice_names_the_advice_that_has_ended() -> None:
    """A stall that is over explains the red in the GPU's strip."""
    report = node_report()
    stall = next(each for each in report.advice if each.finding.rule == "hidden_stall")
    ended = replace(stall, state=AdviceState.EXPIRED, closed=report.wall_time - 2 * HOUR)
    page = WebPage(FreshnessSettings(), FitSettings(), 60.0)
    text = page.render(replace(report, advice=(ended,)), NOW, PageQuery()).decode()
    assert text.count("expired 2 h ago: find the rank that the others wait for") == len(
        stall.finding.devices
    )
