"""A sink of annotations with its dependencies."""

import threading
from typing import Any

from advice_events import NOW, SECOND
from grafana_server import TOKEN
from rightsizer.advice.storage import Storage
from rightsizer.io.clock import FastClock
from rightsizer.io.http import HttpClient
from rightsizer.io.http_settings import HttpSettings
from rightsizer.model.advice import Advice
from rightsizer.notify.delivery import DeliveryContext
from rightsizer.notify.grafana.service import AnnotationOutbox, GrafanaAnnotations
from rightsizer.notify.grafana.settings import GrafanaSettings

__all__ = ["GrafanaFixture"]


class GrafanaFixture:
    """A sink, its outbox and its clock, and its logged errors."""

    def __init__(
        self,
        url: str,
        outbox: AnnotationOutbox | None = None,
        node: str = "",
        timeout_seconds: float = 10.0,
        **settings: Any,
    ) -> None:
        self.advice: list[Advice] = []
        self.outbox = outbox or AnnotationOutbox(Storage("").database)
        self.clock = FastClock(NOW)
        self.errors: list[str] = []
        limits = HttpSettings(timeout_seconds=timeout_seconds)
        http = HttpClient(url, limits, token=lambda: TOKEN, sleep=lambda _: None)
        self.sink = GrafanaAnnotations(
            GrafanaSettings(url=url, **settings),
            self.outbox,
            DeliveryContext(
                lambda: self.advice,
                self.clock,
                lambda _, message: self.errors.append(message),
                node=node,
            ),
            http,
        )

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.wait_until(self.clock.time() + int(seconds * SECOND), threading.Event())
