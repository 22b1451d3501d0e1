"""Capture runners other than commands: dynolog's client and webhooks, both for real."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from capture_node import capture_node
from cases import finding
from readings import gpu
from rightsizer.io.http_settings import HttpSettings
from rightsizer.model.finding import Reason
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.profiler.capture.repository import CaptureOutcome
from rightsizer.profiler.capture.runner import (
    CaptureRequest,
    CaptureResult,
    call_webhook,
    dynolog_command,
    dynolog_result,
)
from rightsizer.profiler.capture.settings import (
    CaptureKind,
    CaptureWebhookSettings,
    DynologSettings,
)
from webhook_server import webhook_server

REQUEST = CaptureRequest(
    "capture-1",
    finding(reasons=(Reason.HOST_BOUND,)),
    Workload("slurm:4711", WorkloadKind.SLURM, "4711"),
    (gpu(1), gpu(0)),
    (41, 42),
    2.5,
    Path("/drop/capture-1"),
)
DYNO = """#!/bin/sh
echo "$@" > "{folder}/.arguments"
echo 'response = {{"processesMatched":[{matched}]}}'
{said}
"""


def test_dynologs_client_is_called_with_its_own_flags() -> None:
    """Processes by PID, and for a Slurm job the job under which dynolog lists them."""
    assert dynolog_command(DynologSettings(arguments=("--with-stacks",)), REQUEST) == (
        "dyno",
        "--port",
        "1778",
        "gputrace",
        "--job-id",
        "4711",
        "--pids",
        "41,42",
        "--process-limit",
        "2",
        "--duration-ms",
        "2500",
        "--log-file",
        "/drop/capture-1/trace.json",
        "--with-stacks",
    )
    pod = replace(REQUEST, workload=Workload("k/a/b", WorkloadKind.KUBERNETES, "b"))
    assert "--job-id" not in dynolog_command(DynologSettings(), pod)


def test_answer_of_dynolog_is_parsed() -> None:
    """It exits with 0 where it reached no process; a requested recording is still to come."""
    nobody = CaptureResult(
        CaptureOutcome.CALLED, said="No processes were matched, please check", is_recorded=True
    )
    somebody = CaptureResult(CaptureOutcome.CALLED, said="Matched 2 processes", is_recorded=True)
    failed = CaptureResult(CaptureOutcome.FAILED, "ended with status 101", is_recorded=True)
    assert dynolog_result(nobody).outcome is CaptureOutcome.FAILED
    assert "KINETO_USE_DAEMON=1" in dynolog_result(nobody).detail
    assert dynolog_result(somebody) == replace(somebody, is_recorded=False)
    assert dynolog_result(failed) == failed


@pytest.mark.parametrize(
    ("matched", "said", "outcome"),
    [
        ("4201,4202", "echo 'Matched 2 processes'", CaptureOutcome.CALLED),
        ("", "echo 'No processes were matched, please check --job-id'", CaptureOutcome.FAILED),
        ("", "exit 101", CaptureOutcome.FAILED),
    ],
)
def test_a_program_in_its_place_is_called(
    tmp_path: Path, matched: str, said: str, outcome: CaptureOutcome
) -> None:
    """The counters are released until the recording is over."""
    program = tmp_path / "dyno"
    program.write_text(DYNO.format(folder=tmp_path, matched=matched, said=said))
    program.chmod(0o755)
    dynolog = DynologSettings(program=str(program))
    with capture_node(tmp_path, kind=CaptureKind.DYNOLOG, dynolog=dynolog) as node:
        node.pass_its_start()
        node.settle()
        (made,) = node.captures
        assert made.outcome is outcome
        given = (tmp_path / ".arguments").read_text().split()
    assert given[given.index("--pids") + 1] == "4201,4202"
    assert given[given.index("--log-file") + 1] == f"{node.folder}/{made.id}/trace.json"


def test_a_webhook_is_posted_the_facts(tmp_path: Path) -> None:
    """They are JSON, sent with a token; any successful response is accepted."""
    (tmp_path / "token").write_text("s3cret\n")
    with webhook_server() as inbox:
        inbox.faults = ["html"]
        settings = CaptureWebhookSettings(f"{inbox.url}/profile", str(tmp_path / "token"))
        assert call_webhook(settings, REQUEST, node="gpu-7") == CaptureResult(CaptureOutcome.CALLED)
    (body,) = inbox.bodies
    assert inbox.paths == ["/profile"]
    assert inbox.headers[0]["Authorization"] == "Bearer s3cret"
    assert body == {
        "version": 1,
        "capture": "capture-1",
        "node": "gpu-7",
        "workload": {
            "key": "slurm:4711",
            "kind": "slurm",
            "namespace": "",
            "name": "4711",
            "pod": "",
            "container": "",
            "unproven": REQUEST.workload.unproven,
        },
        "finding": "aaaaaaaaaaaa",
        "reason": "HostBound",
        "summary": "GPU 0: held but idle.",
        "devices": [{"uuid": "GPU-1", "index": 1}, {"uuid": "GPU-0", "index": 0}],
        "pids": [41, 42],
        "seconds": 2.5,
        "folder": "/drop/capture-1",
    }


@pytest.mark.parametrize("fault", ["500", "403", "away"])
def test_a_webhook_that_fails_is_reported_without_its_secrets(tmp_path: Path, fault: str) -> None:
    """A request that may have arrived is not repeated."""
    (tmp_path / "token").write_text("s3cret\n")
    http = HttpSettings(timeout_seconds=2.0, backoff_seconds=0.0)
    with webhook_server() as inbox:
        inbox.faults = [fault] * 5
        url = "http://127.0.0.1:9" if fault == "away" else inbox.url
        settings = CaptureWebhookSettings(f"{url}/p4th-s3cret", str(tmp_path / "token"), http)
        called = call_webhook(settings, REQUEST)
    assert called.outcome is CaptureOutcome.FAILED
    assert "s3cret" not in called.detail
    assert len(inbox.paths) == (0 if fault == "away" else 1)


def test_a_lost_answer_counts_as_a_call() -> None:
    """The capture may be running: its profile is awaited, and the request is not repeated."""
    http = HttpSettings(timeout_seconds=2.0, backoff_seconds=0.0)
    with webhook_server() as inbox:
        inbox.faults = ["cut"] * 5
        called = call_webhook(CaptureWebhookSettings(inbox.url, http=http), REQUEST)
    assert called == CaptureResult(CaptureOutcome.CALLED)
    assert len(inbox.paths) == 1


def test_a_webhook_is_the_whole_way_of_a_capture(tmp_path: Path) -> None:
    """Unknown processes do not prevent it: the receiver may know them."""
    with webhook_server() as inbox:
        webhook = CaptureWebhookSettings(inbox.url)
        with capture_node(tmp_path, kind=CaptureKind.WEBHOOK, webhook=webhook) as node:
            node.pids = None
            node.pass_its_start()
            node.settle()
            (made,) = node.captures
    (body,) = inbox.bodies
    assert made.outcome is CaptureOutcome.CALLED
    assert (body["capture"], body["pids"]) == (made.id, [])
    assert body["folder"] == f"{node.folder}/{made.id}"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("kubernetes/vision/train-0", "kubernetes/vision/train-0"),
        ("--output=/etc/x", "output_/etc/x"),
        ("a b;$(c)\n", "a_b___c__"),
    ],
)
def test_a_workloads_name_can_do_nothing_to_a_command(key: str, said: str) -> None:
    """Users choose the names of their workloads."""
    request = replace(REQUEST, workload=replace(REQUEST.workload, key=key))
    assert request.placeholders["workload"] == said
