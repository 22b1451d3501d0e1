"""Mail over real sockets to a strict server: contents, encryption, faults."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from advice_events import event
from mail_server import mail_server
from rightsizer.model.advice import AdviceEventKind
from rightsizer.notify.mail.settings import MailEncryption, MailSettings
from web_certificates import Authority
from webhook_fixture import WebhookFixture

OPENED = AdviceEventKind.OPENED


def certified(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """The certificate of an authority, and the context of a server that it has signed."""
    authority = Authority.made(folder)
    pair = authority.sign("localhost", "DNS:localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    return authority.certificate, context


def mail_to(port: int, **facts: Any) -> MailSettings:
    """Settings of two recipients at the server on loopback."""
    usual = {
        "server": "localhost",
        "port": port,
        "encryption": MailEncryption.NONE,
        "sender": "gpu@example.org",
        "recipients": ("research@example.org", "ops@example.org"),
        "timeout_seconds": 5.0,
    }
    return MailSettings(**{**usual, **facts})


def test_changes_of_a_run_are_one_mail() -> None:
    """To all recipients, in plain text, with the links."""
    with mail_server() as box:
        settings = mail_to(box.port, external_url="http://node-1:19400")
        report = WebhookFixture(settings).send(event(OPENED, id="a"), event(OPENED, id="b"))
    (mail,) = box.mail
    text = mail.get_content()
    assert box.recipients == [["research@example.org", "ops@example.org"]]
    assert mail["Subject"] == "Rightsizer on node-1: 2 changes of recommendations"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert "http://node-1:19400/#advice-a" in text
    assert "claim it with: rightsizer claim b" in text
    assert (report.sent, report.pending) == (1, 0)


@pytest.mark.parametrize(
    ("fault", "is_lost"), [("451 later", False), ("cut", False), ("554 no", True)]
)
def test_a_fault_delays_what_the_server_may_take_later(fault: str, *, is_lost: bool) -> None:
    """A refusal for good is dropped and counted, so that later mail is not held up."""
    with mail_server() as box:
        box.faults = [fault]
        fixture = WebhookFixture(mail_to(box.port))
        failed = fixture.send(event(OPENED, id="a"))
        fixture.wait(61)
        mended = fixture.send()
    assert (failed.pending, failed.dropped) == ((0, 1) if is_lost else (1, 0))
    assert mended.pending == 0
    assert len(box.mail) == (0 if is_lost else 1)
    assert len(fixture.errors) == 1


def test_a_server_that_is_not_there_is_a_trouble() -> None:
    """Named with its address; nothing is lost."""
    fixture = WebhookFixture(mail_to(1))
    report = fixture.send(event(OPENED))
    assert report.pending == 1
    assert "localhost:1" in str(report.trouble)


def test_it_logs_in_over_starttls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password of the file, never before the connection is encrypted."""
    authority, context = certified(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    password = tmp_path / "password"
    password.write_text("s3cret\n", encoding="utf-8")
    facts = {
        "encryption": MailEncryption.STARTTLS,
        "username": "gpu",
        "password_file": str(password),
    }
    with mail_server(context, ("gpu", "s3cret")) as box:
        report = WebhookFixture(mail_to(box.port, **facts)).send(event(OPENED))
        assert (report.sent, report.trouble) == (1, None)
        password.write_text("wrong\n", encoding="utf-8")
        refused = WebhookFixture(mail_to(box.port, **facts)).send(event(OPENED))
    assert box.users == [("gpu", "s3cret"), ("gpu", "wrong")]
    assert "refused the user" in str(refused.trouble)
    assert "wrong" not in str(refused.trouble)


def test_an_unknown_certificate_gets_no_mail(tmp_path: Path) -> None:
    """And no password."""
    _, context = certified(tmp_path)
    with mail_server(context, ("gpu", "s3cret")) as box:
        settings = mail_to(box.port, encryption=MailEncryption.STARTTLS)
        report = WebhookFixture(settings).send(event(OPENED))
    assert (box.mail, box.users, report.pending) == ([], [], 1)
    assert "certificate verify failed" in str(report.trouble)


def test_a_server_without_encryption_gets_no_mail() -> None:
    """What is set is not given up."""
    with mail_server() as box:
        settings = mail_to(box.port, encryption=MailEncryption.STARTTLS)
        report = WebhookFixture(settings).send(event(OPENED))
    assert (box.mail, report.pending) == ([], 1)
    assert "STARTTLS" in str(report.trouble)


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        ({"server": ""}, "server: is missing"),
        ({"recipients": ()}, "recipients: name at least one"),
        ({"sender": "gpu"}, "'gpu' is no address"),
        ({"sender": "gpu@"}, "is no address"),
        ({"sender": "@x"}, "is no address"),
        ({"recipients": ("a,b@c.org",)}, "is no address"),
        ({"recipients": ("a@b.org\nBcc: x@y.org",)}, "is no address"),
        ({"username": "gpu"}, "belong together"),
        ({"username": "gpu", "password_file": "p"}, "in plain"),
    ],
)
def test_settings_that_cannot_work_are_refused(facts: dict[str, Any], fault: str) -> None:
    """With the key and the remedy."""
    with pytest.raises(ValueError, match=fault):
        mail_to(25, **facts)


def test_a_refused_recipient_is_named_and_keeps_nobody_else_from_it() -> None:
    """All of them refused for good is a rejected mail."""
    with mail_server() as box:
        box.unknown = ["ops@example.org"]
        fixture = WebhookFixture(mail_to(box.port))
        report = fixture.send(event(OPENED, id="a"))
        assert (report.sent, report.pending) == (1, 0)
        assert "refused ops@example.org" in fixture.errors[0]
        box.unknown = ["ops@example.org", "research@example.org"]
        report = fixture.send(event(OPENED, id="b"))
    assert (report.dropped, report.pending) == (1, 0)
    assert box.recipients == [["research@example.org"]]


def test_a_fault_after_the_mail_was_taken_sends_it_no_second_time() -> None:
    """Of the farewell."""
    with mail_server() as box:
        box.farewell = "421 too busy"
        report = WebhookFixture(mail_to(box.port)).send(event(OPENED))
    assert (report.sent, report.pending, len(box.mail)) == (1, 0, 1)


def test_metrics_are_those_of_all_receivers() -> None:
    """By the receiver's name; the first recipient without one."""
    with mail_server() as box:
        fixture = WebhookFixture(mail_to(box.port))
        fixture.send(event(OPENED))
        (receiver,) = fixture.webhooks
    metrics = receiver.metrics()
    assert metrics['rightsizer_webhook_requests_total{webhook="research@example.org"}'] == 1.0
