"""The cache of past spans: read outside the accounts' lock, and rebuilt only when needed."""

import threading
from typing import Final

from readings import EPOCH, HOUR, SECOND, entry, gpu, snapshot
from rightsizer.accounting.device_account import DeviceWindows
from rightsizer.accounting.rollup_store import WindowQuery
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.model.report import DEFAULT_SPAN, SPANS, AgentReport
from rightsizer.model.signal import Signal
from rightsizer.model.state import State
from rightsizer.model.units import Nanoseconds
from rightsizer.web.page import SpanCache

AGENT: Final = AgentReport("0", "test", EPOCH, 1.0)


class Memory:
    """Devices with a past, counting their detailed reads."""

    def __init__(self) -> None:
        self.devices = [DeviceWindows("GPU-0")]
        self.now = EPOCH

    def live(self, seconds: float, state: State = State.PRODUCTIVE) -> None:
        """Let time pass in a state."""
        start = (self.now - EPOCH) / 1e9
        for device in self.devices:
            device.add(entry(start, start + seconds, state))
        self.now += int(seconds * 1e9)

    def query(self) -> tuple[Nanoseconds, tuple[WindowQuery, ...]]:
        """A query of the cache."""
        return self.now, tuple(device.rollups.window_query() for device in self.devices)


def test_a_span_is_put_together_again_once_that_can_be_seen() -> None:
    """After part of a cell, and not before."""
    memory = Memory()
    cache = SpanCache(memory.query)
    memory.live(3600.0)
    first = cache(DEFAULT_SPAN)
    memory.live(5.0)
    assert cache(DEFAULT_SPAN) is first
    memory.live(60.0)
    renewed = cache(DEFAULT_SPAN)
    assert sum(renewed["GPU-0"].states.values()) == 3665 * SECOND


def test_a_new_device_and_a_clock_set_back_are_seen_at_once() -> None:
    """The cached result is of another node."""
    memory = Memory()
    cache = SpanCache(memory.query)
    memory.live(3600.0)
    first = cache(DEFAULT_SPAN)
    memory.devices.append(DeviceWindows("GPU-1"))
    assert set(cache(DEFAULT_SPAN)) == {"GPU-0", "GPU-1"}
    memory.now -= HOUR
    assert cache(DEFAULT_SPAN) is not first


def test_each_span_is_known_by_itself() -> None:
    """An hour is not a day."""
    memory = Memory()
    cache = SpanCache(memory.query)
    memory.live(2 * 3600.0)
    known = {span.name: sum(cache(span)["GPU-0"].states.values()) // HOUR for span in SPANS}
    assert known == {"1h": 1, "6h": 2, "24h": 2, "7d": 2, "30d": 2}


def test_span_cache_reads_the_accounts_of_a_service() -> None:
    """Of devices with states of their own, at the time of the last snapshot."""
    device = gpu()
    accounting = AccountingService(AccountingSettings())
    cache = SpanCache(accounting.device_queries)
    assert cache(DEFAULT_SPAN) == {}
    for second in range(3):
        values = {Signal.GPU_BUSY: 0.0, Signal.MEMORY_USED: 0.0}
        accounting.post(snapshot(second, [device], {device: values}), (), lambda: AGENT)
    past = cache(DEFAULT_SPAN)
    assert sum(past[device.uuid].states.values()) == 2 * SECOND


def test_many_readers_get_the_same_answer() -> None:
    """At once, from threads of their own."""
    memory = Memory()
    memory.live(6 * 3600.0)
    cache = SpanCache(memory.query)
    answers: list[object] = []
    readers = [
        threading.Thread(target=lambda: answers.append(cache(DEFAULT_SPAN))) for _ in range(8)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(answers) == 8
    assert all(answer is answers[0] for answer in answers)
