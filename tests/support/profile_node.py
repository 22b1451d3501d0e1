"""A node whose GPU is active minute by minute, with a profile service."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from msgspec.structs import replace

from advice_node import AGENT, AdviceNode, NodeServices, advice_node
from profile_beside import waiting_profile
from profiles_built import device, time_use
from readings import EPOCH, MINUTE, TRAINING, gpu, snapshot, workload
from rightsizer.io.clock import FastClock
from rightsizer.model.profile import Profile
from rightsizer.model.units import Nanoseconds
from rightsizer.profiler.service import ProfileService
from rightsizer.profiler.settings import ProfileSettings

__all__ = ["JOB", "Node", "advice_node", "node", "waits", "works"]

JOB: Final = workload("llama")


class Node:
    """Services with a profile service, over a GPU's activity minute by minute."""

    def __init__(self, advice_node: AdviceNode) -> None:
        self.base = advice_node
        self.minute = 0
        self.profiles: ProfileService
        self.restart()

    def restart(self, settings: ProfileSettings | None = None) -> None:
        """A new program over the same database and accounts."""
        self.clock = FastClock(self.now)
        storage = self.base.storage
        self.profiles = ProfileService(self.base.accounting, storage, self.clock, settings)
        services = NodeServices(self.base.accounting, storage, self.clock, profiles=self.profiles)
        self.recommender = services.recommender
        self.advice_service = services.advice_service
        self.history_service = services.history_service

    @property
    def now(self) -> Nanoseconds:
        """The wall time of the last reading."""
        return EPOCH + max(0, self.minute - 1) * MINUTE

    def work(
        self, minutes: int, signals: Any = TRAINING, holder: Any = JOB, index: int = 0
    ) -> None:
        """Let a workload hold the GPU for a while, and restart the services afterward."""
        found = gpu(index)
        for minute in range(self.minute, self.minute + minutes):
            seen = snapshot(
                minute * 60.0,
                [found],
                {found: signals},
                interval_seconds=60.0,
                holders={found: holder} if holder else {},
            )
            self.base.accounting.post(seen, (), lambda: AGENT)
        self.minute += minutes
        self.restart()

    def open(self) -> list[tuple[str, str]]:
        """Rule and workload of the open advice that is no size."""
        self.advice_service.recommend()
        return [
            (advice.finding.rule, advice.finding.workload or "")
            for advice in self.advice_service.advice
            if advice.is_open and "bound" in advice.finding.rule
        ]


@pytest.fixture
def node(advice_node: AdviceNode) -> Iterator[Node]:
    """A GPU at work for half an hour."""
    found = Node(advice_node)
    found.work(31)
    yield found
    advice_node.storage.close()


def waits(node: Node, minutes_ago: float = 5.0, **changes: Any) -> Profile:
    """A second of its GPU that waits for its host, some time ago."""
    return waiting_profile(node.now - round(minutes_ago * MINUTE), **changes)


def works(node: Node) -> Profile:
    """The same second after the fix."""
    profile = device(time=time_use(0.99, 0.01), start=0)
    return replace(waits(node, 1.0), devices=(profile,), source="after.json")
