"""`rightsizer mcp`: an assistant gets what the commands print, and no more than is allowed."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from advice_history import keep_advice, saved_advice
from agent_process import RIGHTSIZER, agent_process, run_rightsizer
from assistant_client import call_tools, listed_tools
from fleet_loopback import loopback_store
from rightsizer.assistant.tools import TOOL_ROWS
from rightsizer.cli import plan
from rightsizer.cli.main import main
from rightsizer.console.command import flag_rows, help_of

QUESTION: Final = {
    "model": "llama-3.1-8b",
    "rps": 3,
    "in": "2000",
    "out": 500,
    "spot": True,
    "gpus": "l4,l40s,a100,h100",
}
QUESTION_FLAGS: Final = (
    "--model=llama-3.1-8b",
    "--rps=3",
    "--in=2000",
    "--out=500",
    "--spot",
    "--gpus=l4,l40s,a100,h100",
)
AGENT: Final = """\
sampling: {interval: 200ms}
history: {path: FOLDER/history.db}
web: {listen_addresses: ['127.0.0.1:0']}
sources: {simulated: {scenario: single-h100}}
path: {api_socket: FOLDER/api.sock}
"""
FLEET: Final = """\
fleet:
  path: FOLDER/fleet.db
  api_socket: FOLDER/api.sock
  lookback: 1d
  workers: 1
  store: {url: 'STORE'}
web: {listen_addresses: ['127.0.0.1:0']}
log: {format: json}
"""


def printed(*arguments: str | Path) -> dict[str, Any]:
    """The JSON that a command prints."""
    done = run_rightsizer(*arguments, "--json", timeout_seconds=60)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def fleet_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that has looked at its store."""
    folder = tmp_path_factory.mktemp("fleet")
    with loopback_store(8) as store:
        config = FLEET.replace("FOLDER", str(folder)).replace("STORE", store.url)
        command = (*RIGHTSIZER, "fleet", "--serve")
        with agent_process(folder, command=command, config=config) as service:
            deadline = time.monotonic() + 60
            while service.get("/-/ready")[0] != 200 and time.monotonic() < deadline:
                time.sleep(0.2)
            yield service.url


def test_only_reading_tools_are_offered_unless_changes_are_allowed() -> None:
    """Each says so, has a title, and takes what its command takes, with that command's help."""
    tools = listed_tools()
    assert set(tools) == {row.name for row in TOOL_ROWS if not row.is_change}
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
    question = {row.name: row.help for row in flag_rows(help_of(plan.__file__)["question"])}
    properties = tools["plan"].input_schema["properties"]
    assert {name: properties[name]["description"] for name in question} == question
    assert properties["spot"]["type"] == "boolean"
    assert tools["compare"].input_schema["required"] == ["from", "to", "workload"]
    assert "model" in (tools["plan"].description or "")
    more = listed_tools("--allow-changes")
    assert set(more) == {row.name for row in TOOL_ROWS}
    changing = more["claim"].annotations
    assert changing is not None
    assert changing.read_only_hint is False


def test_planning_answers_as_the_commands_do() -> None:
    """Numbers may be given as text and the other way round; long lists are cut, and say so."""
    comparison = {"from": "a100", "to": "h100", "workload": "llm-serving"}
    flags = ("--from=a100", "--to=h100", "--workload=llm-serving")
    (short, long, compared) = call_tools(
        (),
        ("plan", QUESTION),
        ("plan", QUESTION | {"limit": 1000}),
        ("compare", comparison),
    )
    whole = printed("plan", *QUESTION_FLAGS)
    assert long.document == whole
    assert short.document is not None
    assert short.document["candidates"] == whole["candidates"][:3]
    assert short.document["left_out"] == {"candidates": len(whole["candidates"]) - 3}
    assert compared.document == printed("compare", *flags)
    assert json.loads(compared.text) == compared.document


def test_agent_is_asked_as_by_the_commands(tmp_path: Path) -> None:
    """Over its address; what it refuses is an error with its remedy."""
    id_ = keep_advice(tmp_path / "history.db", now=time.time_ns() - 60 * 10**9)
    config = AGENT.replace("FOLDER", str(tmp_path))
    with agent_process(tmp_path, config=config) as agent:
        at = ("--url", agent.url)
        advised, explained, claimed, served = call_tools(
            (*at, "--allow-changes"),
            ("advise", {}),
            ("explain", {"id": id_}),
            ("claim", {"id": id_}),
            ("served", {}),
        )
        served_as = run_rightsizer("served", "--json", *at, timeout_seconds=60)
        expected = printed("explain", id_, *at)
        (snoozed,) = call_tools(
            ("--config.file", tmp_path / "rightsizer.yaml", "--allow-changes"),
            ("snooze", {"id": id_, "for": "2d", "why": "asked by the team"}),
        )
        state = agent.json(f"/api/v1/advice/{id_}")["lifecycle"]["state"]
    assert advised.document is not None
    assert [advice["id"] for advice in advised.document["advice"]] == [id_]
    assert explained.document is not None
    assert explained.document["advice"]["id"] == id_
    assert explained.document.keys() == expected.keys()
    assert served.is_error
    assert served_as.stderr.removeprefix("rightsizer: ").strip() == served.text
    assert claimed.is_error
    assert "path.api_socket" in claimed.text
    assert snoozed.document is not None
    assert snoozed.document["advice"]["why"] == "asked by the team"
    assert state == "snoozed"


def test_history_is_read_without_an_agent(tmp_path: Path) -> None:
    """The same as the commands give, byte for byte."""
    history = tmp_path / "history.db"
    id_ = keep_advice(history)
    flags = ("--history.path", history)
    advised, explained = call_tools(flags, ("advise", {}), ("explain", {"id": id_}))
    assert advised.document == printed("advise", *flags)
    assert explained.document == printed("explain", id_, *flags)


def test_fleet_is_asked_as_by_the_command(fleet_url: str) -> None:
    """Over its address: recommendations, bill, and the reasoning behind one."""
    recommended, top, billed = call_tools(
        ("--fleet-url", fleet_url),
        ("fleet_recommendations", {}),
        ("fleet_recommendations", {"top": 1}),
        ("fleet_bill", {}),
    )
    whole = printed("fleet", "--url", fleet_url)
    assert recommended.document is not None
    assert recommended.document["advice"] == whole["advice"]
    assert top.document is not None
    assert top.document["advice"] == printed("fleet", "--url", fleet_url, "--top", "1")["advice"]
    assert billed.document is not None
    assert billed.document["usage"] == whole["usage"]
    assert billed.document["teams"] == whole["teams"]
    assert "holdings" not in billed.document


def test_fleet_of_a_service_is_shown_by_the_command(
    fleet_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In every form, the bill too; flags of a look are refused."""
    assert main(["fleet", "--url", fleet_url]) == 0
    assert capsys.readouterr().out.startswith("8 GPUs in 1 pool")
    assert main(["fleet", "--url", fleet_url, "--format", "focus"]) == 0
    assert capsys.readouterr().out.startswith("BillingAccountId,")
    assert main(["fleet", "--url", fleet_url, "--lookback", "1d"]) == 2
    assert "--lookback does not apply to --url" in capsys.readouterr().err


def test_faults_are_errors_with_remedies(tmp_path: Path) -> None:
    """The server goes on, and no trace is shown."""
    answers = call_tools(
        ("--history.path", tmp_path / "none.db", "--url", "http://127.0.0.1:9"),
        ("advise", {}),
        ("plan", {"model": "no-such-model"}),
        ("plan", {}),
        ("plan", {"model": "llama-3.1-8b", "html": "/tmp/x"}),
        ("plan", {"model": "llama-3.1-8b", "rps": {"a": 1}}),
        ("plan", {"model": "llama-3.1-8b", "limit": 0}),
        ("plan", {"model": ["llama-3.1-8b"]}),
        ("plan", {"model": "llama\0"}),
        ("plan", {"model": str(tmp_path)}),
        ("explain", {"id": "--help"}),
        ("claim", {"id": "abc"}),
        ("nothing", {}),
    )
    assert all(answer.is_error for answer in answers)
    assert not any("Traceback" in answer.text for answer in answers)
    expected = (
        "check that an agent listens there",
        "no-such-model",
        "model: is missing; name as on model hubs",
        "plan has no argument 'html'; it takes model",
        'rps: {"a": 1} is no text',
        "limit: '0' is not a whole number",
        'model: ["llama-3.1-8b"] is no text',
        "model: has a null character",
        "is a file; files are the operator's, give a name",
        "id: '--help' begins with a dash",
        "claim changes recommendations, which is off; start 'rightsizer mcp' with --allow-changes",
        "there is no tool 'nothing'; choose from advise",
    )
    for answer, part in zip(answers, expected, strict=True):
        assert part in answer.text


def test_claim_without_an_agent_changes_the_history(tmp_path: Path) -> None:
    """As the command does, under the history's lock."""
    history = tmp_path / "history.db"
    id_ = keep_advice(history)
    (claimed,) = call_tools(
        ("--history.path", history, "--allow-changes"), ("claim", {"id": id_, "why": "mine"})
    )
    assert claimed.document is not None
    assert claimed.document["advice"]["state"] == "claimed"
    (advice,) = saved_advice(history)
    assert (advice.state, advice.why) == ("claimed", "mine")


def test_extra_is_named_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and no other command needs it."""
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    monkeypatch.delitem(sys.modules, "rightsizer.assistant.server", raising=False)
    assert main(["mcp"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install 'gpu-rightsizer[mcp]'" in error
    code = "import sys; from rightsizer.cli.main import COMMANDS\n"
    code += "[entry.load() for entry in COMMANDS]; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_wrong_address_is_refused_before_anything_is_served(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The assistant's log has the line."""
    assert main(["mcp", "--fleet-url", "fleet:19400"]) == 2
    assert "fleet:19400" in capsys.readouterr().err
