"""Limits hold for any order, restarts and clock changes."""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from action_node import ActionNode, DurableRepository, action
from readings import workload
from rightsizer.actions.controller import ActionController
from rightsizer.actions.repository import ActionOutcome
from rightsizer.actions.runner import ActionOrder, ActionResult, ActionRunner
from rightsizer.actions.settings import ActionLimits
from rightsizer.model.advice import AdviceState
from rightsizer.model.units import nanoseconds, seconds

HOLDERS: Final = 6
DAY: Final = 86400.0
LIMITS: Final = ActionLimits(pause_seconds=600.0, at_most_per_day=3)
ACTIONS: Final = (
    action(name="one", at_most_per_day=2, cool_down_seconds=3600.0, at_most_share_of_gpus=0.34),
    action(name="two", at_most_per_day=2, cool_down_seconds=7200.0, at_most_share_of_gpus=0.34),
)
STEPS: Final = st.lists(
    st.tuples(
        st.sampled_from(["pass", "pass", "advise", "close", "set", "restart"]),
        st.integers(0, HOLDERS - 1),
        st.integers(-40, 40),
    ),
    min_size=20,
    max_size=80,
)


class Done(Struct, frozen=True):
    """A completed action, with its true time."""

    at_seconds: float
    action: str
    workload: str
    devices: frozenset[str]


class AtOnce(ActionRunner):
    """Runs every action at once, successfully or not."""

    def __init__(self, node: ActionNode) -> None:
        super().__init__()
        self._node = node
        self.done: list[Done] = []

    def start(
        self, order: ActionOrder, note: Callable[[int], None], done: Callable[[ActionResult], None]
    ) -> None:
        """Run the action."""
        del note
        finding = order.advice.finding
        now = seconds(self._node.clock.time())
        key = finding.workload or ""
        self.done.append(Done(now, order.settings.name, key, frozenset(finding.devices)))
        fails = len(self.done) % 4 == 0
        done(ActionResult(ActionOutcome.UNKNOWN if fails else ActionOutcome.DONE))


def lived(steps: list[tuple[str, int, int]]) -> list[Done]:
    """All actions of a node over its life."""
    node = ActionNode(DurableRepository(), [workload(f"job-{number}") for number in range(HOLDERS)])
    runner = AtOnce(node)

    def started() -> ActionController:
        return node.controller(*ACTIONS, limits=LIMITS, runner=runner)

    controller = started()
    for index in range(HOLDERS):
        node.advise(index)
    for kind, index, amount in steps:
        if kind == "advise":
            node.advise(index)
        elif kind == "close":
            node.become(f"advice-{index}", AdviceState.SUCCEEDED)
        elif kind == "set":
            node.clock.ahead += nanoseconds(amount * DAY / 4)
        elif kind == "restart":
            controller = started()
        else:
            node.clock.pass_seconds(abs(amount) * 450.0)
        controller.run()
    return runner.done


@given(STEPS)
def test_no_day_sees_more_than_was_allowed(steps: list[tuple[str, int, int]]) -> None:
    """By action, in total, by workload, by share of GPUs, and with pauses in between."""
    done = lived(steps)
    for last in done:
        day = [each for each in done if 0 <= last.at_seconds - each.at_seconds < DAY]
        for one in ACTIONS:
            assert sum(each.action == one.name for each in day) <= one.at_most_per_day
        assert len(day) <= LIMITS.at_most_per_day
        assert sum(each.workload == last.workload for each in day) <= 1
        assert len(frozenset().union(*(each.devices for each in day))) <= HOLDERS // 3
    assert all(
        after.at_seconds - before.at_seconds >= LIMITS.pause_seconds
        for before, after in pairwise(done)
    )


def test_actions_within_the_limits_are_run() -> None:
    """The limits above are reached: three on one day, and more on the next."""
    done = lived([("pass", 0, 8)] * 60)
    assert [each.action for each in done][:2] == ["one", "one"]
    assert len(done) > LIMITS.at_most_per_day
