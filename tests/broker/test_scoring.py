"""Criteria that compare sets, in their documented order."""

import re
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from placement_nodes import hgx
from rightsizer.broker.choice import why_worse
from rightsizer.broker.lease import GpuRequest
from rightsizer.broker.scoring import PlacementScore, score_set, table_of
from rightsizer.broker.settings import FreeSettings, ScoringSettings
from rightsizer.broker.slot import SlotObstacle, judge_slot
from rightsizer.model.topology import GpuLink, LinkKind
from rightsizer.sizing.gpu_sets import LinkScores, link_score, pcie_score

_PAGE: Final = Path(__file__).parents[2] / "docs" / "broker.md"
_NAMES: Final = list(PlacementScore.__struct_fields__)
_MORE_IS_BETTER: Final = {
    "weakest",
    "total",
    "kept",
    "kept_pcie",
    "power_steps",
    "temperature_steps",
}
_EVEN: Final = PlacementScore(**dict.fromkeys(_NAMES, 5))


def better(name: str) -> PlacementScore:
    """A score that is better by one criterion."""
    step = 1 if name in _MORE_IS_BETTER else -1
    return replace(_EVEN, **{name: getattr(_EVEN, name) + step})


def test_the_order_of_criteria_is_documented() -> None:
    """The page numbers them by their keys."""
    rows = re.findall(r"^\| \d+ \|.*\(`(\w+)`\)", _PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows == _NAMES


def test_every_obstacle_is_documented() -> None:
    """By its name in the API."""
    text = _PAGE.read_text("utf-8")
    assert [each for each in SlotObstacle if f"- `{each}`: " not in text] == []


@pytest.mark.parametrize("name", _NAMES)
def test_a_criterion_goes_before_all_later_ones(name: str) -> None:
    """Later ones never outweigh it, and the reason names it."""
    later = _NAMES[_NAMES.index(name) + 1 :]
    best_later = replace(
        _EVEN, **{each: 10**6 if each in _MORE_IS_BETTER else -(10**6) for each in later}
    )
    assert better(name).rank > best_later.rank
    assert why_worse(_EVEN, better(name)).endswith(f": 5, not {getattr(better(name), name)}")


def test_sets_that_are_equal_say_so() -> None:
    """No reason is invented."""
    assert why_worse(_EVEN, _EVEN) == "just as good, and later by index"


def test_memory_that_nobody_asked_for_counts_whole() -> None:
    """More of it is better, and the reason has sizes without a sign."""
    worse = replace(_EVEN, spare_gibibytes=-40)
    best = replace(_EVEN, spare_gibibytes=-80)
    assert best.rank > worse.rank
    assert why_worse(worse, best) == "GiB of memory in all: 40, not 80"


def test_links_score_as_the_device_plugin_has_them() -> None:
    """By the number of NVLinks; an uncounted link counts as one."""
    scores = LinkScores()
    kinds = ("PIX", "PXB", "PHB", "NODE", "SYSTEM", "UNKNOWN")
    found = [link_score(GpuLink("a", "b", LinkKind[kind]), scores) for kind in kinds]
    assert found == [50, 40, 30, 20, 10, 0]
    assert link_score(GpuLink("a", "b", LinkKind.NVLINK, 18), scores) == 1800
    assert link_score(GpuLink("a", "b", LinkKind.NVLINK, 0), scores) == 100
    joined = GpuLink("a", "b", LinkKind.NVLINK, 18, LinkKind.PIX)
    assert pcie_score(joined, scores) == 50
    assert link_score(None, scores) == pcie_score(None, scores) == 0
    assert link_score(joined) == link_score(joined, scores)


def test_a_score_can_be_checked_by_hand() -> None:
    """GPUs 1 and 4 of an HGX with GPU 0 in use."""
    node = hgx().taken(0)
    verdicts = [judge_slot(slot, GpuRequest(2), FreeSettings()) for slot in node.slots]
    free = [verdict for verdict in verdicts if verdict.is_free]
    table = table_of(free, node.topology, GpuRequest(2), ScoringSettings())
    assert score_set((0, 3), table) == PlacementScore(
        instances=0,
        uncertain=0,
        impaired=0,
        models=1,
        weakest=1800,
        total=1800,
        numa_nodes=2,
        spare_gibibytes=-160,
        opened=2,
        kept=10 * 1800,
        # 2-3 and 6-7 share a switch; 5 is on their node or the other; the two halves are far.
        kept_pcie=2 * 50 + 2 * 20 + 6 * 10,
        power_steps=24,
        temperature_steps=10,
    )
