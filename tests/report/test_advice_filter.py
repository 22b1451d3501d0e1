"""`/api/v1/advice`: filters of a query."""

import pytest

from publish_advice import node_advice
from rightsizer.model.errors import UsageError
from rightsizer.web.api import filter_advice
from sample_devices import uuid_of

IDLE, STALL, MEMORY, CLOSED = (advice.id for advice in node_advice())


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, [IDLE, STALL, MEMORY, CLOSED]),
        ({"state": ["open"]}, [IDLE, STALL, MEMORY]),
        ({"state": ["claimed", "succeeded"]}, [STALL, CLOSED]),
        ({"reason": ["IdleHeld"]}, [IDLE, CLOSED]),
        ({"reason": ["IdleHeld"], "state": ["active"]}, [IDLE]),
        ({"gpu": [uuid_of(1)]}, [STALL]),
        ({"gpu": ["GPU-none"]}, []),
        ({"workload": ["*pretrain*"]}, [STALL]),
    ],
)
def test_filters_are_all_passed(query: dict[str, list[str]], found: list[str]) -> None:
    """Values of one filter are alternatives, filters combine; the order stays."""
    assert [advice.id for advice in filter_advice(node_advice(), query)] == found


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"status": ["open"]}, "'status' is no filter; choose from state, reason, workload, gpu"),
        ({"state": ["opened"]}, "state: there is no 'opened'; choose from open, active"),
        ({"reason": ["Idle"]}, "reason: there is no 'Idle'"),
    ],
)
def test_a_filter_that_is_none_is_refused(query: dict[str, list[str]], said: str) -> None:
    """Ignoring it would answer another question."""
    with pytest.raises(UsageError) as refused:
        filter_advice(node_advice(), query)

    assert said in str(refused.value)
