"""Hours by team: every known hour of every GPU is in each table exactly once."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cached_fleet import FIRST_DAY, day_frame, day_frames, subject_of
from dcgm_estate import BUSY, HELD, NOW, EstatePast, Phase, gpu
from estate_views import H100, MARKET
from fleet_command import asked_in_process, configured
from readings import gpu as reading_gpu
from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.day_frame import DayFrame
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY
from rightsizer.fleet.columns.subject import Subject
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.tables import usage_tables
from rightsizer.fleet.usage import (
    FREE,
    UNKNOWN,
    HeldDevice,
    UseKey,
    UseSum,
    WorkloadOwner,
    holder_hours,
    usage_of,
    uses_of,
)
from rightsizer.io.codec import plain
from rightsizer.model.state import State
from rightsizer.model.units import Nanoseconds
from victoria_server import victoria_server

DEVICE: Final = FleetDevice(reading_gpu(0, board=H100), "n0", "train", "paris")
OWNERS: Final = {
    "slurm:1": WorkloadOwner("physics", "slurm"),
    "kubernetes:web/chat": WorkloadOwner("chat", "kubernetes"),
}
ALL: Final = (0, (FIRST_DAY + 9) * DAY)
PARTS: Final = (
    "used_gpu_hours",
    "headroom_gpu_hours",
    "idle_gpu_hours",
    "stalled_gpu_hours",
    "lost_gpu_hours",
    "free_gpu_hours",
)
FIGURES: Final = (
    "held_gpu_hours",
    "unknown_gpu_hours",
    "wasted_gpu_hours",
    *PARTS,
)


def days_of(frame: DayFrame) -> Subject:
    """A device of one day."""
    return subject_of(frame)


def row(workload: str, first: int, last: int, share: float, frame: DayFrame) -> HoldingRow:
    """A workload's share of a device."""
    return HoldingRow("GPU-0", "rightsizer", frame.grid, workload, first, last, share)


def uses(
    days: Subject, rows: Iterable[HoldingRow], span: tuple[Nanoseconds, Nanoseconds] = ALL
) -> dict[UseKey, UseSum]:
    """Hours of the device by what they are summed by."""
    hours = holder_hours([HeldDevice(DEVICE, days, [*rows])], span)
    return uses_of(DEVICE, hours[DEVICE.device.uuid], OWNERS)


def tables(of: Mapping[UseKey, UseSum]) -> dict[str, Any]:
    """Tables of an answer."""
    return usage_tables([plain(each) for each in usage_of(of, MARKET)])


def held(of: Mapping[UseKey, UseSum]) -> dict[tuple[str, str], float]:
    """Hours by team and kind."""
    return {(key.team, key.kind): round(use.held, 6) for key, use in of.items()}


def test_a_job_that_ended_has_its_hours() -> None:
    """It has eight hours of a day; later use has no owner."""
    frame = day_frame(FIRST_DAY)
    found = uses(days_of(frame), [row("slurm:1", 0, 7, 1.0, frame)])
    assert held(found) == {("physics", "slurm"): 8.0, ("", UNKNOWN): 16.0}


def test_time_without_a_holder_is_free_where_the_gpu_was_empty() -> None:
    """It is waste, but no team's."""
    frame = day_frame(FIRST_DAY, state=State.IDLE_EMPTY, busy=0.0)
    assert held(uses(days_of(frame), ())) == {("", FREE): 24.0}


def test_those_who_share_a_gpu_have_its_hours_by_their_parts() -> None:
    """A quarter and a half for half of the day; the rest is unknown."""
    frame = day_frame(FIRST_DAY)
    rows = [row("slurm:1", 0, 11, 0.25, frame), row("kubernetes:web/chat", 6, 17, 0.5, frame)]
    assert held(uses(days_of(frame), rows)) == {
        ("physics", "slurm"): 3.0,
        ("chat", "kubernetes"): 6.0,
        ("", UNKNOWN): 15.0,
    }


def test_only_the_span_that_is_looked_back_over_counts() -> None:
    """The first half of the day is before it."""
    frame = day_frame(FIRST_DAY)
    span = (frame.grid.start + 12 * COARSE_STEP, frame.grid.end)
    found = uses(days_of(frame), [row("slurm:1", 0, 15, 1.0, frame)], span)
    assert held(found) == {("physics", "slurm"): 4.0, ("", UNKNOWN): 8.0}


def test_where_nothing_was_exported_the_holder_before_and_after_has_the_time() -> None:
    """It is unknown what the GPU did, but not whose it was; two days are too long to tell."""
    frames = [day_frame(FIRST_DAY + at) for at in (0, 1, 2, 4, 7)]
    days = subject_of(*frames)
    rows = [row("slurm:1", 0, 23, 1.0, frame) for frame in frames]
    (use,) = uses(days, rows).values()
    assert (use.held, use.unknown) == (5 * 24.0, 24.0)
    others = [rows[0], row("kubernetes:web/chat", 0, 23, 1.0, frames[3])]
    found = uses(days, others)
    assert sum(use.unknown for use in found.values()) == 0.0


def test_the_most_wasteful_team_comes_first() -> None:
    """Not the largest."""
    found = {
        UseKey("", "large", "p", "slurm", H100): UseSum(held=900.0, used=890.0, wasted=10.0),
        UseKey("", "lazy", "p", "slurm", H100): UseSum(held=100.0, used=10.0, wasted=90.0),
        UseKey("", "", "p", FREE, H100): UseSum(held=500.0, wasted=500.0, free=500.0),
    }
    names = [row["team"] for row in tables(found)["teams"]]
    assert names == ["lazy", "large", "(free)"]


@settings(max_examples=30, deadline=None)
@given(
    day_frames(),
    st.lists(
        st.tuples(
            st.sampled_from((*OWNERS, "slurm:unknown")),
            st.integers(0, 23),
            st.integers(0, 23),
            st.sampled_from((0.25, 0.5, 1.0)),
        ),
        max_size=4,
    ),
)
def test_every_table_sums_to_all_hours_of_all_gpus(
    frame: DayFrame, parts: list[tuple[str, int, int, float]]
) -> None:
    """This holds for any holders and any known time."""
    rows = [row(key, min(a, b), max(a, b), share, frame) for key, a, b, share in parts]
    days = days_of(frame)
    found = tables(uses(days, rows))
    usage = found["usage"]
    (segment,) = days.segments
    whole = usage["total"]
    total = whole["held_gpu_hours"] + whole["unknown_gpu_hours"]
    for line in (whole, *found["teams"]):
        spent = sum(line[part] for part in PARTS)
        assert spent == pytest.approx(line["held_gpu_hours"], abs=1e-3)
        losses = line["idle_gpu_hours"] + line["stalled_gpu_hours"] + line["lost_gpu_hours"]
        assert losses + line["free_gpu_hours"] == pytest.approx(line["wasted_gpu_hours"], abs=1e-3)
    assert whole["held_gpu_hours"] == pytest.approx(sum(segment.known[0]) / 3600, abs=1e-3)
    # Between two sightings of a holder, time without any series is its own, too.
    assert sum(segment.present[0]) / 3600 - 1e-3 <= total <= 24.0 + 1e-3
    for table in (found["teams"], *(usage[name] for name in ("pools", "clusters", "kinds"))):
        for figure in FIGURES:
            assert sum(each[figure] for each in table) == pytest.approx(whole[figure], abs=1e-6)
        assert sum(map(cost, table)) == pytest.approx(cost(whole))


def cost(row: Mapping[str, Any]) -> float:
    """Dollars of the held hours."""
    return 0.0 if row["dollars"] is None else float(row["dollars"]["value"])


def test_unknown_cost_and_energy_are_none() -> None:
    """The board has no price, or the GPU's energy was not measured."""
    key = UseKey("", "search", "p", "kubernetes", H100)
    known = UseSum(held=2.0, used=1.0, wasted=0.5, joules=3.6e6)
    dark = UseSum(held=1.0, is_measured=False)
    (whole,) = tables({key: known})["teams"]
    (row,) = tables({key: known, key._replace(board="NO-SUCH-BOARD"): dark})["teams"]
    assert whole["kilowatt_hours"] == pytest.approx(1.0)
    assert (whole["dollars"]["low"], whole["dollars"]["high"]) == (
        pytest.approx(7.2),
        pytest.approx(8.8),
    )
    assert (whole["price_source"], whole["price_date"]) == ("our contract", "2026-08")
    assert (row["dollars"], row["wasted_dollars"], row["kilowatt_hours"]) == (None, None, None)
    assert row["held_gpu_hours"] == pytest.approx(3.0)
    assert tables({})["teams"] == []
    assert tables({})["usage"]["total"]["dollars"] == {"value": 0, "low": 0, "high": 0}


def test_a_workload_of_two_pools_counts_once_in_each_row() -> None:
    """One of its name in another cluster is another."""
    key = UseKey("east", "search", "a", "kubernetes", H100)
    found = tables(
        {
            key: UseSum(held=10.0, workloads={"chat"}),
            key._replace(pool="b"): UseSum(held=10.0, workloads={"chat", "rank"}),
            key._replace(cluster="west", pool="c"): UseSum(held=1.0, workloads={"chat"}),
        }
    )
    usage = found["usage"]
    assert [row["workloads"] for row in found["teams"]] == [2, 1]
    assert {row["name"]: row["workloads"] for row in usage["pools"]} == {"a": 1, "b": 2, "c": 1}
    assert {row["name"]: row["workloads"] for row in usage["clusters"]} == {"east": 2, "west": 1}
    assert [row["workloads"] for row in (*usage["kinds"], usage["total"])] == [3, 3]
    assert [row["workloads"] for row in usage["parts"]] == [["chat"], ["chat", "rank"], ["chat"]]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Two jobs, one after the other, and one on a GPU that has disappeared."""
    past = EstatePast(300)
    board = {"modelName": "NVIDIA H100 80GB HBM3", "Hostname": "n0"}
    past.device(
        [Phase(0, 12, BUSY, {"hpc_job": "11"}), Phase(12, 24, HELD, {"hpc_job": "12"})],
        UUID=gpu(0),
        **board,
    )
    past.device([Phase(0, 10, BUSY, {"hpc_job": "13"})], UUID=gpu(1), **board)
    for job, account, first, last in (
        ("11", "physics", 0, 12),
        ("12", "chemistry", 12, 24),
        ("13", "physics", 0, 10),
    ):
        past.series("slurm_job_info", {"jobid": job, "account": account}, 1, first, last)
    with victoria_server(past=past.text()) as server:
        config = configured(tmp_path_factory.mktemp("jobs"), server.url, lookback="1d")
        yield asked_in_process(config, "--json", "--at", str(NOW // 10**9)).document


@pytest.mark.prometheus
def test_ended_jobs_and_gpus_that_are_gone_are_counted(document: dict[str, Any]) -> None:
    """The command reads them from a store with Slurm's accounts."""
    teams = {each["team"]: each for each in document["teams"]}
    assert teams["physics"]["held_gpu_hours"] == pytest.approx(22.0, abs=0.3)
    assert teams["chemistry"]["held_gpu_hours"] == pytest.approx(12.0, abs=0.3)
    assert (teams["physics"]["workloads"], teams["chemistry"]["workloads"]) == (2, 1)
    assert teams["chemistry"]["used_gpu_hours"] == pytest.approx(0.0, abs=0.1)


@pytest.mark.prometheus
def test_the_answers_tables_sum_to_its_total(document: dict[str, Any]) -> None:
    """This is checked on the printed document."""
    usage = document["usage"]
    for table in (document["teams"], usage["pools"], usage["clusters"], usage["kinds"]):
        for figure in FIGURES:
            assert sum(each[figure] for each in table) == pytest.approx(usage["total"][figure])
    assert usage["total"]["held_gpu_hours"] == pytest.approx(34.0, abs=0.5)
