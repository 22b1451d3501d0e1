"""NotificationService: sinks by name, each isolated from the others."""

import pytest

from rightsizer.advice.storage import Storage
from rightsizer.agent.settings import Settings
from rightsizer.io.clock import SystemClock
from rightsizer.model.errors import HistoryError
from rightsizer.notify.grafana.service import GrafanaAnnotations
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.service import NotificationService
from rightsizer.notify.webhook.service import Webhook
from rightsizer.notify.webhook.settings import WebhookSettings


def test_raising_grafana_sink_does_not_starve_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Webhooks deliver too, and the failure is raised after them."""
    delivered: list[str] = []

    def broken(_: object) -> None:
        raise HistoryError("disk full")

    monkeypatch.setattr(GrafanaAnnotations, "deliver", broken)
    monkeypatch.setattr(Webhook, "deliver", lambda _: delivered.append("webhooks"))
    settings = Settings(
        grafana=GrafanaSettings(url="http://127.0.0.1:9"),
        webhooks=(WebhookSettings(url="http://127.0.0.1:9"),),
    )
    service = NotificationService(
        settings,
        Storage("").database,
        tuple,
        clock=SystemClock(),
        warn=lambda *_: None,
        sleep=lambda _: True,
    )

    with pytest.raises(HistoryError, match="disk full"):
        service.deliver()

    assert delivered == ["webhooks"]
