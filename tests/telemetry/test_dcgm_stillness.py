"""Exporters that keep serving old values."""

import pytest

from dcgm_exporter import BUSY, OTHER, lines, page
from readings import SECOND
from rightsizer.catalogue.catalogue import built_in
from rightsizer.telemetry.dcgm.endpoint import StalledCollectionDetector, XidGaugeTracker
from rightsizer.telemetry.dcgm.series import DcgmExpositionParser

MIG = {"GPU_I_PROFILE": "3g.40gb", "GPU_I_ID": "2"}
INSTANCE = f"{BUSY}/gi2"
POWER = "DCGM_FI_DEV_POWER_USAGE"
UTIL = "DCGM_FI_DEV_GPU_UTIL"


def still(*pages: str, every_seconds: float = 30) -> list[frozenset[str]]:
    """Stuck devices after each page."""
    stillness = StalledCollectionDetector(60 * SECOND)
    return [
        stillness.update(
            DcgmExpositionParser(built_in()).read(text), int(at * every_seconds * SECOND)
        )
        for at, text in enumerate(pages)
    ]


def test_a_counter_of_energy_that_stops_is_no_reading() -> None:
    """All other values may repeat on an idle GPU, energy cannot."""
    assert still(*[page()] * 4) == [frozenset()] * 3 + [frozenset({BUSY})]
    assert still(*[page(energy=at) for at in range(1, 9)]) == [frozenset()] * 8


def test_values_may_repeat_between_two_collections() -> None:
    """Between two collections of the exporter, fetched pages are equal."""
    pages = [page(energy=1 + at // 4) for at in range(16)]

    assert still(*pages, every_seconds=15) == [frozenset()] * 16


def test_one_gpu_may_stand_still_alone() -> None:
    """A hung GPU is not kept up by its neighbors' values."""
    pages = [page() + page(energy=at, uuid=OTHER) for at in range(1, 6)]

    assert still(*pages)[-1] == {BUSY}


def test_exporter_that_collects_again_is_accepted_at_once() -> None:
    """The next collection is accepted at once."""
    assert still(*[page()] * 4, page(energy=9))[-2:] == [{BUSY}, frozenset()]


def test_without_energy_all_values_must_repeat() -> None:
    """An equal power draw alone is no evidence; all of the GPU's values must repeat."""
    moving = [lines(BUSY, {POWER: 70.5, UTIL: at}) for at in range(5)]

    assert still(*moving)[-1] == frozenset()
    assert still(*[moving[0]] * 5)[-1] == {BUSY}


def test_devices_without_any_draw_do_not_count_as_stalled() -> None:
    """A virtual GPU exports neither power nor energy; its zeros may be true."""
    assert still(*[lines(BUSY, {UTIL: 0})] * 9)[-1] == frozenset()


@pytest.mark.parametrize("moves", [True, False])
def test_an_instance_follows_its_gpu(moves: bool) -> None:  # noqa: FBT001 - a parameter.
    """An idle instance has no changing value of its own."""
    idle = lines(BUSY, {"DCGM_FI_PROF_SM_ACTIVE": 0}, **MIG)
    pages = [page(energy=1 + at * moves) + idle for at in range(5)]

    assert still(*pages)[-1] == (frozenset() if moves else {BUSY, INSTANCE})


def test_value_without_evidence_is_stale_with_the_page() -> None:
    """The page is stale where all values that could change repeat."""
    quiet = lines(OTHER, {UTIL: 0})

    assert still(*[page() + quiet] * 5)[-1] == {BUSY, OTHER}
    assert still(*[page(energy=at) + quiet for at in range(1, 6)])[-1] == frozenset()


def test_an_xid_counts_when_the_gauge_changes() -> None:
    """The first value may be a week old, as the gauge is not reset."""
    watch = XidGaugeTracker()
    for at, xids in enumerate([{BUSY: 13}, {BUSY: 13}, {BUSY: 79}, {}, {BUSY: 79}, {BUSY: 13}]):
        watch.update(xids, at * SECOND)

    assert watch.logs[BUSY].counts == {79: 1, 13: 1}
    assert (watch.logs[BUSY].last, watch.logs[BUSY].last_wall_time) == (13, 5 * SECOND)
