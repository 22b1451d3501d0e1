"""Ranks without a GPU in their traces: who is late to the sums, and by what."""

from pathlib import Path
from typing import Final

import pytest

from profile_traces import KinetoTrace
from rightsizer.model.finding import Finding, Reason
from rightsizer.profiler.workload import ProfiledWorkload, judged_workloads
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import read_all

_STEPS: Final = 6
_WORK: Final = 30_000.0
_LOADS: Final = 5_000.0
_LATE: Final = 40_000.0
_SUM: Final = 1_500.0
_RULE: Final = "profile_rank_imbalance"
_LOADER: Final = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
_CAUSES: Final = {
    "loader": (_LOADER, "is in its loader", "load faster"),
    "checkpoint": ("save_checkpoint", "is in checkpoints", "asynchronously"),
    "pause": ("train.py(9): tokenized", "runs no operator", "Prepare the next batch ahead"),
}
"""What the late rank does, by the name in its trace; what is said of it, and of the remedy."""


class _Rank:
    """A trace on a clock of its own, filled as time passes; microseconds."""

    def __init__(self, number: int, ranks: int) -> None:
        self.trace = KinetoTrace(
            distributedInfo={"backend": "gloo", "rank": number, "world_size": ranks}
        )
        self.number = number
        self.now = 0.0
        self.begun = 0.0
        self._ahead = 1_000_000.0 + 7_000.0 * number

    def spend(self, duration: float, category: str = "", name: str = "") -> None:
        """Pass time in a span; without a category, in nothing that has a name."""
        if category:
            self.trace.complete(category, name, self.now + self._ahead, duration)
        self.now += duration

    def end_step(self, number: int) -> None:
        """Mark the time since the last step, and the frame around it."""
        length = self.now - self.begun
        for category, name in (
            ("user_annotation", f"ProfilerStep#{number}"),
            ("python_function", "train.py(3): step"),
        ):
            self.trace.complete(category, name, self.begun + self._ahead, length)
        self.begun = self.now


def _sum(ranks: list[_Rank], lasts: float) -> None:
    """Let each wait until all have come."""
    until = max(rank.now for rank in ranks) + lasts
    for rank in ranks:
        rank.spend(until - rank.now, "user_annotation", "gloo:all_reduce")


def _judged(
    folder: Path, count: int, late: tuple[int, ...], cause: str, sum_lasts: float = _SUM
) -> ProfiledWorkload:
    """Read and judge ranks of which some spend more time on something in each step."""
    ranks = [_Rank(number, count) for number in range(count)]
    for step in range(_STEPS):
        for rank in ranks:
            more = _LATE if rank.number in late else 0.0
            rank.spend(_LOADS + (more if cause == "loader" else 0.0), "user_annotation", _LOADER)
            rank.spend(_WORK, "cpu_op", "aten::mm")
            if more and cause == "pause":
                rank.spend(more, "python_function", _CAUSES[cause][0])
            if cause == "work":
                rank.spend(more, "cpu_op", "aten::mm")
        _sum(ranks, sum_lasts)
        _sum(ranks, sum_lasts)
        for rank in ranks:
            if rank.number in late and cause == "checkpoint":
                rank.spend(_LATE, "user_annotation", _CAUSES[cause][0])
            rank.end_step(step)
    for rank in ranks:
        rank.trace.write(folder, f"rank{rank.number}.json")
    (workload,) = judged_workloads(read_all([folder], ReadLimits()))
    return workload


def _complaints(workload: ProfiledWorkload) -> dict[Reason, Finding]:
    return {finding.reasons[0]: finding for finding in workload.findings if finding.is_actionable}


@pytest.mark.parametrize("cause", _CAUSES)
@pytest.mark.parametrize("count", [2, 4])
def test_the_late_rank_and_its_cause_are_named(tmp_path: Path, count: int, cause: str) -> None:
    """Those that wait are named by no finding, nor are their sums, which mostly wait."""
    late = count - 1
    complaints = _complaints(_judged(tmp_path, count, (late,), cause))
    finding = complaints.pop(Reason.RANK_IMBALANCE)
    name, does, remedy = _CAUSES[cause]
    more = f"; the latest {does} ({name}) {_LATE / 1e3:,.2f} ms longer than the others."

    assert finding.culprits == (f"rank {late} of rank0.json and {count - 1} more",)
    assert more in finding.summary
    assert remedy in finding.instructions[0].title
    assert finding.evidence["cause"] == cause
    assert finding.evidence["behind_seconds"] == pytest.approx(_LATE / 1e6, rel=0.2)
    assert all(other.culprits == finding.culprits for other in complaints.values())
    assert Reason.COMMUNICATION_BOUND not in complaints


def test_more_work_of_a_rank_is_its_load(tmp_path: Path) -> None:
    """Nothing but operators differs."""
    finding = _complaints(_judged(tmp_path, 4, (1,), "work"))[Reason.RANK_IMBALANCE]

    assert finding.culprits == ("rank 1 of rank0.json and 3 more",)
    assert "the latest computes 40.00 ms longer" in finding.summary
    assert finding.instructions[0].title == "Compare the slow rank with the others"


def test_ranks_that_are_late_together_are_named(tmp_path: Path) -> None:
    """The others are compared with both."""
    finding = _complaints(_judged(tmp_path, 4, (1, 2), "pause"))[Reason.RANK_IMBALANCE]

    assert set(finding.culprits) == {f"rank {late} of rank0.json and 3 more" for late in (1, 2)}
    assert finding.evidence["cause"] == "pause"


def test_what_waits_is_not_named_for_what_is_sent(tmp_path: Path) -> None:
    """Each sum takes 6 ms of a step of 87; three ranks wait 40 ms more for the last one."""
    complaints = _complaints(_judged(tmp_path, 4, (3,), "work", sum_lasts=6_000.0))
    finding = complaints[Reason.COMMUNICATION_BOUND]

    assert finding.culprits == complaints[Reason.RANK_IMBALANCE].culprits
    assert "runs collectives 13.8% of the time, 12.0 ms of a step" in finding.summary


def test_ranks_that_mostly_send_are_all_named(tmp_path: Path) -> None:
    """However long the latest rank computes."""
    complaints = _complaints(_judged(tmp_path, 4, (3,), "work", sum_lasts=30_000.0))

    assert len(complaints[Reason.COMMUNICATION_BOUND].culprits) == 4


def test_a_rank_alone_has_none_to_wait_for(tmp_path: Path) -> None:
    """It is no device: its trace has none."""
    workload = _judged(tmp_path, 1, (), "pause")
    (why,) = (found.abstained for found in workload.findings if found.rule == _RULE)

    assert why == "fewer than two ranks with marked steps; give the files of several ranks"


def test_ranks_alike_are_not_late_and_their_clocks_are_known(tmp_path: Path) -> None:
    """Sums end at once, on whatever clock."""
    workload = _judged(tmp_path, 4, (), "pause")

    assert not _complaints(workload)
    (finding,) = (found for found in workload.findings if found.rule == _RULE)
    assert finding.summary.endswith("and at most 2.75 ms is sent.")
    assert finding.evidence["cause"] is None
    assert [*workload.clock_offsets_seconds.values()] == [0.0, 0.007, 0.014, 0.021]
