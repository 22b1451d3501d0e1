"""What an agent's advice rests on is read from the accounts once a minute, whoever asks."""

import threading
from collections.abc import Sequence

from msgspec.structs import replace

from publish_reports import node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.device import Device
from rightsizer.model.report import Report
from rightsizer.model.units import HOUR, NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.window import Window
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.api import NodeApi
from rightsizer.web.message import WebRequest
from rightsizer.web.page import WebPage
from rightsizer.web.router import Router
from rightsizer.web.settings import FitSettings
from sample_devices import NOW


class Agent:
    """The API of an agent, counting reads of its accounts."""

    def __init__(self) -> None:
        self.report: Report = node_report()
        self.now: Nanoseconds = NOW
        self.reads: list[Nanoseconds] = []
        page = WebPage(FreshnessSettings(), FitSettings(), 5.0)
        api = NodeApi(
            lambda: self.report,
            MetricsExposition(lambda: self.report),
            page,
            lambda: self.now,
            accounts=self._accounts,
        )
        self._router = Router(api.routes())

    def ask(self) -> bytes:
        """One request for the advice."""
        return self._router.answer(WebRequest("GET", "/api/v1/advice")).body

    def _accounts(self, end: Nanoseconds) -> Sequence[tuple[Device, Window]]:
        self.reads.append(end)
        devices = [device.device for device in self.report.devices]
        return [(device, Window(device.uuid, end - HOUR, end)) for device in devices]


def test_requests_of_a_minute_read_the_accounts_once() -> None:
    """However many there are, at once or one after the other."""
    agent = Agent()
    clients = [threading.Thread(target=agent.ask) for _ in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    agent.now += 59 * NANOSECONDS_PER_SECOND
    agent.ask()
    assert agent.reads == [NOW]
    agent.now += NANOSECONDS_PER_SECOND
    agent.ask()
    assert agent.reads == [NOW, NOW + 60 * NANOSECONDS_PER_SECOND]


def test_other_devices_and_a_clock_set_back_are_read_at_once() -> None:
    """What is kept is of another node, or of later."""
    agent = Agent()
    whole = agent.ask()
    agent.report = replace(agent.report, devices=agent.report.devices[:1])
    assert agent.ask() != whole
    assert len(agent.reads) == 2
    agent.now -= HOUR
    agent.ask()
    assert agent.reads == [NOW, NOW, NOW - HOUR]
