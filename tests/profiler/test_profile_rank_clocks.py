"""Ranks on one clock: how far each is ahead, and what is drawn below each other."""

import json
import re
from html import unescape

import pytest
from msgspec.structs import replace

from profiles_built import device, profile, step, time_use
from rightsizer.io.codec import plain
from rightsizer.model.profile import Profile, ProfileTimeline, StepUse, TimelineLane
from rightsizer.profiler.page import profile_document
from rightsizer.profiler.profile_encoder import answer_document
from rightsizer.profiler.workload import ProfileAnswer, ProfiledWorkload

AHEAD = 7_000_000
"""Nanoseconds of the second rank's clock before the first's."""


def later(moved: StepUse, by: int) -> StepUse:
    """A step as another clock has it."""
    return replace(
        moved,
        start=moved.start + by,
        end=moved.end + by,
        collectives={
            kind: tuple((start + by, end + by) for start, end in intervals)
            for kind, intervals in moved.collectives.items()
        },
    )


def rank(number: int, late: float, by: int, busy: float) -> Profile:
    """One step of 100 ms, which ends with a collective that the rank joins late."""
    joined = round(late)
    shares = tuple(float(place >= joined) for place in range(100))
    return profile(
        device(
            steps=(later(step(0, late=late), by),),
            time=time_use(kernel=busy),
            timeline=ProfileTimeline(
                0.001, {TimelineLane.COLLECTIVE: shares}, start_seconds=by / 1e9
            ),
        ),
        source=f"rank{number}.json",
        rank=number,
        world_size=2,
    )


RANKS = ProfiledWorkload("ranks", (rank(0, 40.0, 0, 0.8), rank(1, 70.0, AHEAD, 0.5)), ())


def test_a_clock_is_told_by_the_ends_of_collectives() -> None:
    """They end at once; when a rank joined them says nothing."""
    assert RANKS.clock_offsets_seconds == pytest.approx(
        {"rank 0, GPU 0": 0.0, "rank 1, GPU 0": 0.007}
    )
    alone = replace(RANKS, profiles=RANKS.profiles[:1])
    assert alone.clock_offsets_seconds == {}


def test_ranks_are_drawn_on_one_clock() -> None:
    """The collective ends in the same moment on both, and begins when each joined."""
    page = profile_document(plain(answer_document(ProfileAnswer((RANKS,)))))
    (drawn,) = re.findall(r"one clock</h3>.*?data-lanes=\"(.*?)\"", page, re.DOTALL)
    lanes = {words: digits for words, _, _, digits in json.loads(unescape(drawn))}
    first, second = (lanes[f"rank {number}, collectives"] for number in (0, 1))
    starts = [re.search("[^0]", digits) for digits in (first, second)]
    assert [start and start.start() for start in starts] == [400, 700]
    assert len(first.rstrip("0")) == len(second.rstrip("0")) == 1000


def test_one_rank_alone_is_not_aligned() -> None:
    """Nor are ranks without collectives."""
    alone = replace(RANKS, profiles=RANKS.profiles[:1])
    page = profile_document(plain(answer_document(ProfileAnswer((alone,)))))
    assert "one clock" not in page
