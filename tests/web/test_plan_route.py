"""The form at `/plan`: a process of the command answers, one at a time."""

import subprocess
import threading
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.plan_route import plan_route
from rightsizer.web.settings import WebSettings

QUERY: Final = {"model": ["llama-3.1-8b"], "rps": ["2"], "gpus": ["h100,l40s"]}

ON: Final = WebSettings(plan_form=True, plan_timeout_seconds=60.0)


def response_to(
    run: Any = subprocess.run, config: Path | None = None, **query: list[str]
) -> WebResponse:
    """The response to one client."""
    return plan_route(config, ON, run).handle(WebRequest("GET", "/plan", query))


def test_the_form_plans_with_the_prices_of_the_configuration(tmp_path: Path) -> None:
    """The command itself plans; the page may submit its form to this address only."""
    config = tmp_path / "rightsizer.yaml"
    config.write_text("prices: {dollars_per_gpu_hour: {h100: 77.5, l40s: 88.5}}\n", "utf-8")
    answer = response_to(config=config, **QUERY)
    assert answer.status is HTTPStatus.OK
    assert "$78" in (page := answer.body.decode()) or "77.5" in page
    assert "form-action 'self'" in answer.headers["Content-Security-Policy"]
    assert "script-src" not in answer.headers["Content-Security-Policy"]


def test_an_agent_that_nobody_asked_to_starts_no_process() -> None:
    """The form is off by default; its page says how to enable it, and what to use instead."""

    def run(*_: Any, **__: Any) -> Any:
        raise AssertionError("started")

    request = WebRequest("GET", "/plan", QUERY)
    answer = plan_route(None, WebSettings(), run).handle(request)
    assert answer.status is HTTPStatus.NOT_FOUND
    assert "plan_form: true" in answer.body.decode()


def test_words_of_a_client_are_one_argument() -> None:
    """Form values can never set a flag of the command."""
    calls: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, 0, "page", "")

    response_to(run, model=["8B --catalogue=/etc/passwd"], rps=["1 & 2", "3"])
    ((*_, program, fields),) = calls
    assert program == "plan"
    assert fields == "--form=model=8B+--catalogue%3D%2Fetc%2Fpasswd&rps=1+%26+2&rps=3"


def test_a_second_client_is_told_to_come_back() -> None:
    """It is refused during another request; the next request is answered again."""
    begun = threading.Event()
    go_on = threading.Event()

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        begun.set()
        assert go_on.wait(60)
        return subprocess.CompletedProcess(command, 0, "page", "")

    route = plan_route(None, ON, run)
    request = WebRequest("GET", "/plan")
    answers = []
    client = threading.Thread(target=lambda: answers.append(route.handle(request)))
    client.start()
    assert begun.wait(60)
    refused = route.handle(request)
    go_on.set()
    client.join()
    assert refused.status is HTTPStatus.SERVICE_UNAVAILABLE
    assert refused.headers["Retry-After"] == "5"
    assert [answer.status for answer in answers] == [HTTPStatus.OK]
    assert route.handle(request).status is HTTPStatus.OK


def test_the_form_alone_is_made_once() -> None:
    """Showing the form starts one process for all clients; each plan starts its own."""
    calls: list[str] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command[-1])
        return subprocess.CompletedProcess(command, 0, command[-1], "")

    route = plan_route(None, ON, run)
    for query in ({}, QUERY, {}, QUERY):
        assert route.handle(WebRequest("GET", "/plan", query)).status is HTTPStatus.OK
    assert [len(call) > len("--form=") for call in calls] == [False, True, True]


def late(command: list[str], timeout: float, **_: Any) -> Any:
    """A plan that never ends."""
    raise subprocess.TimeoutExpired(command, timeout)


def crowded(*_: Any, **__: Any) -> Any:
    """No process can be started."""
    raise BlockingIOError(11, "Resource temporarily unavailable")


def broken(command: list[str], **_: Any) -> Any:
    """The configuration has become invalid meanwhile."""
    return subprocess.CompletedProcess(command, 78, "", "rightsizer: gpu.yaml:1:1: unknown key\n")


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (late, "no plan: the plan took longer than 60 s"),
        (crowded, "no plan: no process can be started: Resource temporarily unavailable"),
        (broken, "no plan: the planner failed; the log says why"),
    ],
)
def test_a_planner_that_gives_nothing_is_reported(run: Any, said: str) -> None:
    """The page has the error; the agent continues."""
    answer = response_to(run, **QUERY)
    assert answer.status is HTTPStatus.SERVICE_UNAVAILABLE
    assert answer.body.decode().startswith(said)
