"""A month of a node: recommendations open, are acted on, verified and closed; annotations match."""

from typing import Final

import pytest

from evaluation.advice.long_run import AnnotationStore, Month, simulate_month
from rightsizer.advice.storage import Storage
from rightsizer.model.advice import AdviceEventKind, AdviceState
from rightsizer.notify.grafana.annotation import AnnotationBody
from rightsizer.notify.grafana.service import AnnotationOutbox

pytestmark = pytest.mark.timeout(240)

DAYS: Final = 24
"""The last event is on day 23."""
TICK_SECONDS: Final = 7200.0
RUN_EVERY_SECONDS: Final = 12 * 3600.0
GPUS: Final = 3
"""GPUs of the healthy job, of the starved one, and of the notebook."""


@pytest.fixture(scope="module")
def month() -> Month:
    """All days with events, at coarse ticks; `make eval` uses one a minute."""
    return simulate_month(
        days=DAYS, gpus=GPUS, tick_seconds=TICK_SECONDS, run_every_seconds=RUN_EVERY_SECONDS
    )


def test_claimed_fix_is_verified(month: Month) -> None:
    """It is claimed on day 5 and fixed on day 9; its return on day 23 is reported."""
    days = {kind: month.days_of(kind, "image-train") for kind in AdviceEventKind}

    assert days[AdviceEventKind.OPENED] == {"HostBound": (1, 23)}
    assert days[AdviceEventKind.CLOSED] == {"HostBound": (9,)}
    (verified,) = days[AdviceEventKind.VERIFIED]["HostBound"]
    assert verified in range(9, 23)
    assert days[AdviceEventKind.REGRESSED] == {"HostBound": (23,)}


def test_workload_that_returns_is_advised_again(month: Month) -> None:
    """A notebook is gone from day 12 to 22, and as idle as before when it is back."""
    opened = month.days_of(AdviceEventKind.OPENED, "notebook-ana")["IdleHeld"]

    assert opened == (1, 22)


def test_nothing_is_said_of_the_healthy_job(month: Month) -> None:
    """This holds on every day."""
    assert not month.days_of(AdviceEventKind.OPENED, "llm-pretrain")


def test_annotations_are_the_advice_and_its_points(month: Month) -> None:
    """Each has one region that ends when it closes, and one point for each change."""
    expected = month.count(AdviceEventKind.OPENED) + month.points

    assert len(month.wall.annotations) == expected > 0
    assert (month.wall.twice, month.wall.unknown) == (0, 0)
    is_open = {advice.id for advice in month.ledger.advice() if advice.is_open}
    assert month.wall.open_regions == is_open


def test_it_neither_nags_nor_flaps(month: Month) -> None:
    """At most one flap in twenty days of an entity is allowed."""
    assert month.flaps / month.entity_days < 0.05
    assert all(advice.state is not AdviceState.SNOOZED for advice in month.ledger.advice())


def test_the_wall_sees_what_is_reported_twice_or_ends_without_a_beginning() -> None:
    """Otherwise the counts above could not fail."""
    wall = AnnotationStore()
    outbox = AnnotationOutbox(Storage("").database)
    tags = ("rightsizer", "advice:x", "event:opened")
    opened = AnnotationBody("x", "opened", 1, 1, tags, "")
    closed = AnnotationBody("x", "closed", 2, 3, tags, "")
    outbox.put([opened, opened, closed])
    wall.take(outbox)

    assert (wall.twice, wall.unknown, len(wall.annotations)) == (1, 1, 2)
    assert wall.open_regions == {"x"}
    assert not outbox.pending()
