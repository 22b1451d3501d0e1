"""A store that is down, slow, strict or something else: `rightsizer fleet` names it and exits."""

import json
import re
import ssl
from pathlib import Path

import pytest

from faulty_store import FaultyStore, Reply, StoreRequest, faulty_store, refusal
from fleet_command import asked_in_process, configured, fleet_process
from web_certificates import Authority

NOTHING = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}}).encode()
DOWN = "http://127.0.0.1:9"
"""An address without a listener."""


def always(store: FaultyStore, reply: Reply) -> str:
    """The address of a store with a constant response."""
    store.judge = lambda _: reply
    return store.url


def test_a_store_that_is_down_is_reported_in_a_line(tmp_path: Path) -> None:
    """With the real command: address, error and what to check; no traceback."""
    said = fleet_process(configured(tmp_path, DOWN))
    assert said.status == 1
    assert said.refusal == (
        f"the store at {DOWN} cannot be reached: connection refused; check "
        "fleet.store.url and whether it runs"
    )


@pytest.mark.parametrize(
    ("reply", "message", "tries"),
    [
        (Reply(body=NOTHING * 50, is_cut=True), "broke off: .*; see its log, and that of any", 4),
        (
            Reply(body=NOTHING[:-7]),
            r"JSON that is broken or cut off \('\{.status.*; see its log",
            4,
        ),
        (Reply(body=b"\x00\x1b[2J\xff"), "something that is not JSON .*; is a login page or a", 1),
        (Reply(body=b"<html>Sign in"), r"not JSON \('<html>Sign in'\); is a login page", 1),
        (Reply(body=b""), "something that is not JSON", 1),
        (Reply(body=b"null"), "no answer of Prometheus's API; is the path right", 1),
        (Reply(body=NOTHING[:-1] + b',"isPartial":true}'), "a partial answer: isPartial", 1),
        (
            Reply(body=NOTHING[:-1] + b',"warnings":["store-1:\\n\\u001b[31m is away"]}'),
            r"a partial answer: store-1: \?\[31m is away; check that all of its parts are up",
            1,
        ),
        (Reply(401, b"no org id"), "401: no org id; check fleet.store.token_file, .*tenant", 1),
        (Reply(403, b"forbidden"), "403: forbidden; check what fleet.store.token_file", 1),
        (Reply(404, b"nope"), "404: nope; check the path of fleet.store.url", 1),
        (
            Reply(302, headers={"Location": "https://sso.example.org/login"}),
            "302 and points to https://sso.example.org/login; .* page to sign in, give fleet.store",
            1,
        ),
        (refusal(500, "boom\n\x1b[2J"), r"refused \(500\): boom \?\[2J", 1),
        (refusal(503, "later"), r"refused \(503\): later", 4),
    ],
)
def test_an_answer_that_is_none_is_reported_in_a_line(
    tmp_path: Path, reply: Reply, message: str, tries: int
) -> None:
    """With the address and escaped text; only temporary errors are retried."""
    with faulty_store() as store:
        said = asked_in_process(configured(tmp_path, always(store, reply)))
    assert said.status == 1
    assert said.refusal.startswith(f"the store at {store.url} ")
    assert re.search(message, said.refusal)
    assert said.refusal.isprintable()
    assert len(store.asked) == tries


def test_a_store_that_hangs_is_reported(tmp_path: Path) -> None:
    """After the timeout, with the setting to raise."""
    with faulty_store() as store:
        config = configured(tmp_path, always(store, Reply(is_slow=True)), {"timeout": "1s"})
        said = asked_in_process(config)
    assert said.status == 1
    assert "answers nothing in time, however little is asked" in said.refusal
    assert said.refusal.endswith("see how loaded it is, or raise fleet.store.timeout")


@pytest.mark.parametrize(
    ("settings", "status", "message"),
    [
        ({"token_file": "{folder}/none"}, 1, "was not asked: .*'{folder}/none'; check fleet.store"),
        ({"token_file": "{folder}/empty"}, 1, "'{folder}/empty' of fleet.store.token_file is empt"),
        ({"username": "a", "password_file": "{folder}/empty"}, 1, "fleet.store.password_file is e"),
        ({"username": "a", "token_file": "{folder}/empty"}, 78, "both set, .*; write one of them"),
        ({"url": ""}, 78, "fleet.store.url: no store is named; set it"),
        ({"url": "prometheus:9090"}, 78, "fleet.store.url: 'prometheus:9090' is not an address"),
        ({"url": "http://h/?token=s3cret"}, 78, "'http://h/' has a query in it; end it at the p"),
        ({"url": "http://a:s3cret@h:9"}, 78, "a password in it; use a token of fleet.store.token"),
        ({"url": "a:s3cret@h:9"}, 78, "fleet.store.url: what has an @ in it is not an address"),
    ],
)
def test_credentials_and_addresses_that_cannot_be_used_are_reported(
    tmp_path: Path, settings: dict[str, str], status: int, message: str
) -> None:
    """With the key and the remedy, before any query; secrets are not repeated."""
    (tmp_path / "empty").write_text("\n")
    with faulty_store() as store:
        url = always(store, Reply(body=NOTHING))
        placed = {key: text.format(folder=tmp_path) for key, text in settings.items()}
        said = asked_in_process(configured(tmp_path, url, placed))
    assert said.status == status
    assert re.search(message.format(folder=tmp_path), said.refusal)
    assert "s3cret" not in said.refusal
    assert not store.asked


def test_a_certificate_of_nobody_known_is_reported(tmp_path: Path) -> None:
    """With the settings that trust it."""
    authority = Authority.made(tmp_path)
    server = authority.sign("server", "IP:127.0.0.1")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(server.certificate, server.key)
    with faulty_store(tls=tls) as store:
        url = always(store, Reply(body=NOTHING))
        said = asked_in_process(configured(tmp_path, url))
        trusting = configured(tmp_path, url, {"ca_file": str(authority.certificate)})
        assert "no series of GPUs" in asked_in_process(trusting).refusal
    assert said.status == 1
    assert "trusted" in said.refusal
    assert "; check fleet.store.ca_file, certificate_file and key_file" in said.refusal


def test_another_tenant_has_no_gpus(tmp_path: Path) -> None:
    """Stores answer with nothing for an empty tenant; the queried metrics are reported."""

    def judge(asked: StoreRequest) -> Reply:
        return Reply(body=NOTHING) if asked.headers.get("X-Scope-OrgID") == "other" else Reply(500)

    with faulty_store() as store:
        store.judge = judge
        said = asked_in_process(configured(tmp_path, store.url, {"tenant": "other"}))
    assert said.status == 1
    assert said.refusal == (
        f"the store at {store.url} has no series of GPUs: neither rightsizer_device_info nor "
        "DCGM_FI_DEV_*; let it scrape the agents, or check fleet.matchers, tenant and sources"
    )
    # The probe costs almost nothing, and no day is fetched.
    assert len(store.asked) < 80
