"""An Alertmanager over real sockets: firing alerts, repetition, and resolution."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advice_events import NOW, SECOND, event
from rightsizer.model.advice import AdviceEventKind, AdviceState
from rightsizer.model.finding import INCIDENT, Severity
from rightsizer.notify.webhook.encoder import alerts_of
from webhook_fixture import MINUTE, WebhookFixture, alerts_to, severe
from webhook_server import alert_faults, webhook_server

OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED


def test_an_alertmanager_is_told_of_what_fires_again_and_again() -> None:
    """Each message until its end has an end time four intervals ahead."""
    with webhook_server(is_alertmanager=True) as inbox:
        fixture = WebhookFixture(
            alerts_to(inbox.url, external_url="http://node-1:19400/"), start=NOW + MINUTE
        )
        fixture.advice = [severe(event(OPENED), Severity.HIGH).advice]
        fixture.send(event(OPENED))
        fixture.wait(60)
        fixture.send()
    first, second = (alert for body in inbox.bodies for alert in body)

    assert first["labels"] == second["labels"]
    assert first["labels"] == {
        "alertname": "RightsizerAdvice",
        "advice": "a1b2c3",
        "finding": "idle",
        "reason": "IdleHeld",
        "action": "scale_to_zero",
        "severity": "warning",
        "instance": "node-1",
        "uuid": "GPU-0",
        "workload": "team-a/notebook",
    }
    assert first["startsAt"] == second["startsAt"] == "2026-09-21T14:13:20.000Z"
    assert (first["endsAt"], second["endsAt"]) == (
        "2026-09-21T14:18:20.000Z",
        "2026-09-21T14:19:20.000Z",
    )
    assert first["generatorURL"] == "http://node-1:19400/api/v1/advice/a1b2c3"
    assert "held idle for 6 h" in first["annotations"]["description"]


def test_each_gpu_of_advice_has_an_alert_as_prometheus_would_have() -> None:
    """It has UUID, Prometheus's name of the agent, and a summary."""
    of_two = event(OPENED).advice
    of_two = replace(of_two, finding=replace(of_two.finding, devices=("GPU-0", "GPU-1")))
    with webhook_server(is_alertmanager=True) as inbox:
        fixture = WebhookFixture(
            alerts_to(inbox.url, instance="node-1:19400"), titles={"GPU-0": "GPU 3"}
        )
        fixture.advice = [of_two]
        fixture.send()
    (alerts,) = inbox.bodies

    summaries = {alert["labels"]["uuid"]: alert["annotations"]["summary"] for alert in alerts}
    assert summaries == {
        "GPU-0": "GPU 3 of node-1 (team-a/notebook): scale to zero, idle.",
        "GPU-1": "GPU-1 of node-1 (team-a/notebook): scale to zero, idle.",
    }
    assert {alert["labels"]["instance"] for alert in alerts} == {"node-1:19400"}


def test_a_pool_is_one_alert() -> None:
    """None of its hundreds of GPUs is named."""
    pool = event(OPENED).advice
    pool = replace(pool, finding=replace(pool.finding, devices=tuple(map(str, range(300)))))
    with webhook_server(is_alertmanager=True) as inbox:
        fixture = WebhookFixture(alerts_to(inbox.url))
        fixture.advice = [pool]
        fixture.send()
    ((alert,),) = inbox.bodies
    assert "uuid" not in alert["labels"]
    assert alert["annotations"]["summary"].startswith("node-1 (team-a/notebook): ")


@pytest.mark.parametrize(("gpus", "uuid"), [(1, "GPU-0"), (2, None)])
def test_an_incident_names_its_gpu_but_no_holder(gpus: int, uuid: str | None) -> None:
    """One of several GPUs is their part's; the holder may change while the alert fires."""
    advice = event(OPENED).advice
    finding = replace(advice.finding, evidence={INCIDENT: {"name": "GPU 0", "devices": gpus}})
    (alert,) = alerts_of(
        replace(advice, finding=finding),
        NOW,
        node="node-1",
        titles={},
        instance="",
        external_url="",
        resend_seconds=60.0,
    )

    assert alert["labels"].get("uuid") == uuid
    assert "workload" not in alert["labels"]


@pytest.mark.parametrize("state", [AdviceState.SUCCEEDED, AdviceState.EXPIRED, AdviceState.SNOOZED])
def test_an_alertmanager_is_told_of_the_end_for_a_while(state: AdviceState) -> None:
    """It is sent for a quarter of an hour, for an Alertmanager that was unavailable."""
    closed = event(CLOSED, state=state, time=NOW + MINUTE).advice
    with webhook_server(is_alertmanager=True) as inbox:
        fixture = WebhookFixture(alerts_to(inbox.url), start=NOW + 2 * MINUTE)
        fixture.advice = [closed]
        fixture.send()
        fixture.wait(1200)
        fixture.send()
    (alert,) = (alert for body in inbox.bodies for alert in body)

    assert alert["endsAt"] == "2026-09-21T14:14:20.000Z"
    assert alert["annotations"]["state"] == state


def test_an_alertmanager_that_was_away_learns_the_present() -> None:
    """No queue is needed: the next run sends all that fires."""
    with webhook_server(is_alertmanager=True) as inbox:
        inbox.faults = ["503"]
        fixture = WebhookFixture(alerts_to(inbox.url))
        fixture.advice = [event(OPENED, id=f"n{index:03}").advice for index in range(150)]
        away = fixture.send(*(event(OPENED),) * 3)
        fixture.wait(61)
        there = fixture.send()

    assert (away.failed, away.pending) == (1, 0)
    assert (there.sent, there.failed) == (3, 1)
    assert len(inbox.alerts) == 150


def test_an_alertmanager_may_be_spared_the_endings() -> None:
    """The alert then expires after four missed messages."""
    with webhook_server(is_alertmanager=True) as inbox:
        fixture = WebhookFixture(alerts_to(inbox.url, send_resolved=False))
        fixture.advice = [event(CLOSED, state=AdviceState.EXPIRED).advice]
        fixture.send()

    assert inbox.bodies == []


@given(
    states=st.lists(st.sampled_from(AdviceState), max_size=6),
    severities=st.lists(st.sampled_from(Severity), max_size=6),
    age=st.integers(0, 4000),
)
def test_every_alert_is_one_that_alertmanager_takes(
    states: list[AdviceState], severities: list[Severity], age: int
) -> None:
    """For any recommendation times are ordered, no label is empty, and it never pages."""
    inbox_faults = []
    fixture = WebhookFixture(alerts_to("http://127.0.0.1:9"), start=NOW + age * SECOND)
    fixture.advice = [
        severe(event(OPENED, id=f"n{index}", state=state), severity).advice
        for index, (state, severity) in enumerate(zip(states, severities, strict=False))
    ]
    for advice in fixture.advice:
        alerts = alerts_of(
            advice,
            fixture.clock.wall_time(),
            node="n",
            titles={},
            instance="",
            external_url="",
            resend_seconds=60.0,
        )
        for alert in alerts:
            inbox_faults += list(alert_faults(alert))
            assert alert["labels"]["severity"] in ("info", "warning")
    assert inbox_faults == []
