"""The client for large responses: forms, custom parsing, threads, and limits."""

import json
import ssl
import sys
import threading
from pathlib import Path

import pytest

from dripping_server import dripping_server
from faulty_store import Reply, faulty_store
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Excess, Failure, FailureKind, Response
from rightsizer.io.http_settings import HttpSettings
from web_certificates import Authority

FORM = [("query", "a&b=ü"), ("x", "")]


def test_a_form_is_sent_as_one() -> None:
    """It has its content type, with every character escaped; an empty form has no body."""
    with faulty_store(Reply(body=b"1"), Reply(body=b"2")) as peer:
        http = HttpClient(peer.url)
        assert http.request("POST", "/", form=FORM).body == 1
        assert http.request("GET", "/", form=[]).body == 2
        http.close()

    first, second = peer.asked
    assert first.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert first.parameters == {"query": "a&b=ü"}
    assert "Content-Type" not in second.headers


def test_a_body_may_be_left_as_bytes() -> None:
    """It may also be parsed otherwise, and its size is known."""
    with faulty_store(Reply(body=b"[1,2]"), Reply(body=b"[1,2]")) as peer:
        raw = HttpClient(peer.url, parse=bytes).request("GET", "/")
        length = HttpClient(peer.url, parse=lambda body: len(json.loads(body))).request("GET", "/")

    assert raw.body == b"[1,2]"
    assert length.body == 2
    assert isinstance(raw, Response)
    assert raw.size_bytes == 5


def test_a_refusal_keeps_what_was_said() -> None:
    """It is longer than a message and without secrets; header values may appear in it."""
    said = b"x" * 5000 + b" secret tenant"
    with faulty_store(Reply(422, said)) as peer:
        http = HttpClient(
            peer.url,
            HttpSettings(tries=1),
            headers=lambda: {"Authorization": "secret"},
            open_headers={"X-Scope-OrgID": "tenant"},
        )
        result = http.request("GET", "/")

    assert isinstance(result, Failure)
    assert (len(result.message), result.excess) == (300, None)
    assert result.answer == "x" * 5000 + " *** tenant"
    assert peer.asked[0].headers["X-Scope-OrgID"] == "tenant"


@pytest.mark.parametrize(
    ("reply", "excess"),
    [(Reply(body=b"x" * 2000), Excess.SIZE), (Reply(is_slow=True), Excess.TIME)],
)
def test_size_and_time_limits_raise_distinct_errors(reply: Reply, excess: Excess) -> None:
    """A caller can request less if a response is too large or too slow."""
    patience = HttpSettings(timeout_seconds=0.1, tries=1, response_maximum_bytes=1024)
    with faulty_store(reply) as peer:
        result = HttpClient(peer.url, patience, parse=bytes).request("GET", "/")

    assert isinstance(result, Failure)
    assert result.excess is excess


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_comes_a_byte_at_a_time_ends_in_time(start: bytes) -> None:
    """The time limit is of the whole answer, its head too, not of each byte."""
    with dripping_server(start) as address:
        http = HttpClient(f"http://{address}", HttpSettings(timeout_seconds=0.5, tries=1))
        result = http.request("GET", "/")

    assert isinstance(result, Failure)
    assert (result.kind, result.excess) == (FailureKind.INTERRUPTED, Excess.TIME)


def test_threads_have_a_connection_each() -> None:
    """All are answered concurrently, and none is dropped with a warning."""
    together = threading.Barrier(3)
    results: list[object] = []
    with faulty_store() as peer:

        def judge(_: object) -> Reply:
            together.wait(10)
            return Reply(body=b"1")

        peer.judge = judge
        http = HttpClient(peer.url, connections=3)
        threads = [
            threading.Thread(target=lambda: results.append(http.request("GET", "/")))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        http.close()

    assert results == [Response(200, 1, size_bytes=1)] * 3


def test_a_certificate_that_is_not_there_is_reported(tmp_path: Path) -> None:
    """It is a failure, before anything is sent."""
    authority = Authority.made(tmp_path)
    pair = authority.sign("server", "IP:127.0.0.1")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    with faulty_store(tls=tls) as peer:
        http = HttpClient(
            peer.url,
            HttpSettings(tries=1, ca_file=str(authority.certificate)),
            certificate=("/nonexistent/tls.crt", "/nonexistent/tls.key"),
        )
        result = http.request("GET", "/")

    assert isinstance(result, Failure)
    assert result.kind is FailureKind.UNTRUSTED
    assert "/nonexistent/tls.crt and /nonexistent/tls.key: no such file" in result.message
    assert peer.asked == []


@pytest.mark.parametrize(
    ("subject", "days", "authorities", "said"),
    [
        ("IP:127.0.0.1", "-1", "ca.crt", "cannot be trusted: certificate has expired"),
        ("IP:127.0.0.2", "2", "ca.crt", "IP address mismatch, certificate is not valid for"),
        ("IP:127.0.0.1", "2", "", "put its authority into ca_file"),
        ("IP:127.0.0.1", "2", "ca.key", "ca.key must be a PEM file of certificates"),
        ("IP:127.0.0.1", "2", "none", "no such file or directory: ca_file"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_said(
    tmp_path: Path, subject: str, days: str, authorities: str, said: str
) -> None:
    """Without OpenSSL's codes and lines of its source; a remedy where there is one."""
    pair = Authority.made(tmp_path).sign("server", subject, days=days)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    ca_file = str(tmp_path / authorities) if authorities else ""
    with faulty_store(tls=tls) as peer:
        result = HttpClient(peer.url, HttpSettings(tries=1, ca_file=ca_file)).request("GET", "/")
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.UNTRUSTED
    assert said in result.message
    assert "CERTIFICATE_VERIFY_FAILED" not in result.message


@pytest.mark.skipif(sys.version_info < (3, 13), reason="such authorities are trusted before 3.13")
def test_an_authority_without_key_usage_is_refused_with_a_remedy(tmp_path: Path) -> None:
    """`openssl req -x509` creates them so by default."""
    authority = Authority.made(tmp_path, extensions=())
    pair = authority.sign("server", "IP:127.0.0.1")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    with faulty_store(tls=tls) as peer:
        http = HttpClient(peer.url, HttpSettings(tries=1, ca_file=str(authority.certificate)))
        result = http.request("GET", "/")

    assert isinstance(result, Failure)
    assert result.kind is FailureKind.UNTRUSTED
    assert "CA cert does not include key usage extension" in result.message
    assert "-addext keyUsage=critical,keyCertSign,cRLSign" in result.message
