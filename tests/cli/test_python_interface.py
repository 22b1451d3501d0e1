"""`import rightsizer`: the answers of the commands as values, in a program of any kind."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

import rightsizer
from fleet_command import configured
from fleet_loopback import LoopbackStore, loopback_store
from profile_examples import loader_bound_trace
from recordings import BOARD, SIGNALS_OF, write_recording
from rightsizer.agent.replay import replay_document
from rightsizer.cli.main import main
from rightsizer.fleet.encoder import encode_answer
from rightsizer.io.codec import plain
from rightsizer.model.errors import RequirementError, RightsizerError, UsageError
from rightsizer.model.state import State
from rightsizer.planner.plan_document import plan_document
from rightsizer.profiler.profile_encoder import answer_document

PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "python.md"
BLOCKS: Final = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
FUNCTIONS: Final = ("catalogue", "fleet", "plan", "profile", "replay")


@pytest.fixture(scope="module")
def store() -> Iterator[LoopbackStore]:
    """Eight GPUs."""
    with loopback_store(8) as found:
        yield found


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Ten minutes of an idle GPU."""
    rows = ((float(second), "GPU-0", SIGNALS_OF[State.IDLE_HELD]) for second in range(600))
    return write_recording(tmp_path / "node.csv", rows)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What a command prints as JSON."""
    main(arguments)
    return json.loads(capsys.readouterr().out)


def as_json(document: object) -> Any:
    """The document after a journey through JSON."""
    return json.loads(json.dumps(document))


def test_there_is_nothing_else() -> None:
    """The package exports the functions alone, each with documented arguments and errors."""
    assert sorted(rightsizer.__all__) == sorted(FUNCTIONS)
    for name in FUNCTIONS:
        function = getattr(rightsizer, name)
        assert "Raises:" in function.__doc__


def test_a_plan_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The same candidates, at the same prices."""
    answer = rightsizer.plan("llama-3.1-8b", rps=3, ttft="500ms")
    line = ("plan", "llama-3.1-8b", "--rps", "3", "--ttft", "500ms", "--json")
    assert answer.plan is not None
    assert plain(plan_document(answer.plan, answer.notes)) == printed(capsys, *line)


def test_a_replay_is_that_of_the_command(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same accounts and findings."""
    answer = rightsizer.replay(recording, board=BOARD)
    line = ("replay", str(recording), "--board", BOARD, "--json")
    assert plain(replay_document(answer)) == printed(capsys, *line)


def test_a_profile_is_that_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same findings, compared with an earlier profile too."""
    file = str(loader_bound_trace(tmp_path))
    answer = plain(answer_document(rightsizer.profile([file], against=file)))
    assert answer == printed(capsys, "profile", file, "--against", file, "--json")


def test_a_fleet_is_that_of_the_command(
    store: LoopbackStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same hours by team, from the same store."""
    file = configured(tmp_path, store.url, lookback="1d")
    at = datetime.now(UTC).replace(microsecond=0)
    answer = as_json(encode_answer(rightsizer.fleet(configuration=file, at=at)))
    line = ("fleet", "--config.file", str(file), "--at", at.isoformat(), "--json")
    other = printed(capsys, *line)
    assert answer["gpus"] == 8
    for table in ("usage", "teams", "pools", "holdings", "lookback_seconds"):
        assert answer[table] == other[table], table


@pytest.mark.parametrize(
    ("ask", "kind", "texts"),
    [
        (
            lambda: rightsizer.plan("llama-3.1-8b", rps="many", bogus=1),
            RequirementError,
            ["rps: ", "bogus: "],
        ),
        (lambda: rightsizer.plan("nonsense-9b"), RequirementError, ["model: 'nonsense-9b'"]),
        (lambda: rightsizer.replay("missing.csv"), RightsizerError, ["missing.csv: no such file"]),
        (lambda: rightsizer.profile("missing.json"), RightsizerError, ["missing.json: "]),
        (lambda: rightsizer.catalogue("none.yaml"), RightsizerError, ["none.yaml: "]),
        (lambda: rightsizer.catalogue().get("h101"), UsageError, ["board 'h101' is not"]),
        (rightsizer.fleet, RightsizerError, ["fleet.store.url"]),
    ],
)
def test_faults_are_named_without_flags_and_lines(
    ask: Callable[[], object], kind: type[RightsizerError], texts: list[str]
) -> None:
    """All of them, by key, as there is neither a file nor a command line."""
    with pytest.raises(kind) as caught:
        ask()
    for text in texts:
        assert text in str(caught.value)
    assert ":1:1:" not in str(caught.value)


def test_the_page_of_documentation_runs_as_one_program(
    store: LoopbackStore, recording: Path, tmp_path: Path
) -> None:
    """In a program without a main guard: what is printed is its own, and nothing is left behind."""
    loader_bound_trace(tmp_path).rename(tmp_path / "trace.json")
    program = tmp_path / "notebook.py"
    logged = "import structlog\nassert structlog.is_configured()\n"
    program.write_text(f"STORE_URL = {store.url!r}\n{BLOCKS}\n{logged}", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "H100-SXM5-80GB 1 True" in lines
    assert "0 0.0" in lines
    assert "trace.json ['profile_host_bound']" in lines
    assert "team-0 96.0" in lines
    assert lines[-1].startswith("rps: must be a number")


def test_logging_of_the_program_stays_as_it_is() -> None:
    """Neither structlog nor the standard library's logging is touched where it is configured."""
    code = (
        "import logging, structlog, rightsizer\n"
        "structlog.configure(processors=[structlog.processors.JSONRenderer()])\n"
        "before = structlog.get_config()['processors']\n"
        "rightsizer.plan('llama-3.1-8b')\n"
        "assert structlog.get_config()['processors'] is before\n"
        "assert not logging.getLogger().handlers\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_functions_keep_their_names_after_their_packages_are_loaded() -> None:
    """`rightsizer.fleet` and `rightsizer.catalogue` name a function, whatever was imported."""
    code = (
        "import rightsizer.fleet.settings, rightsizer.catalogue.prices\n"
        "from rightsizer import catalogue, fleet\n"
        "assert callable(catalogue) and callable(fleet) and callable(rightsizer.fleet)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_it_loads_nothing_of_the_product() -> None:
    """The agent pays for no function that it does not call."""
    code = "import sys, rightsizer; print(*sorted(n for n in sys.modules if 'rightsizer' in n))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = "rightsizer rightsizer.catalogue rightsizer.fleet rightsizer.interface"
    assert done.stdout.split() == loaded.split()
