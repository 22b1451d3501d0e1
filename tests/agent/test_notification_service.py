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


@pytest.mark.parametrize(
    ("method", "arguments"), [("deliver", ()), ("offer", ((),)), ("notify", ("{}",))]
)
def test_raising_grafana_sink_does_not_starve_webhooks(
    monkeypatch: pytest.MonkeyPatch, method: str, arguments: tuple[object, ...]
) -> None:
    """Webhooks are notified and deliver too, and the failure is raised afterwards."""
    delivered: list[str] = []

    def broken(*_: object) -> None:
        raise HistoryError("disk full")

    monkeypatch.setattr(GrafanaAnnotations, method, broken)
    monkeypatch.setattr(Webhook, method, lambda *_: delivered.append("webhooks"))
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
        getattr(service, method)(*arguments)

    assert delivered == ["webhooks"]
