"""`rightsizer place` against a simulated driver, as text, exports and JSON."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_process import run_rightsizer
from placed_node import placed_node, scenario_file
from rightsizer.cli.main import main
from rightsizer.cli.place import export_text, place_blocks, refused_export_text
from rightsizer.report.block_text import text_of

Golden = Callable[[str, str], None]
Captured = pytest.CaptureFixture[str]


def test_the_answer_for_a_person(tmp_path: Path, golden: Golden) -> None:
    """The choice, its reasons, near alternatives, and what cannot be provided."""
    document = placed_node(scenario_file(tmp_path))
    golden("place.txt", text_of(place_blocks(document, is_explained=True)) + "\n")
    golden("place.json", json.dumps(document, indent=1) + "\n")


def test_a_refusal_is_explained_without_being_asked(tmp_path: Path, golden: Golden) -> None:
    """Without GPUs the reason matters most."""
    document = placed_node(scenario_file(tmp_path), gpus="5")
    golden("place-refused.txt", text_of(place_blocks(document, is_explained=False)) + "\n")


def test_a_shell_takes_the_exports(tmp_path: Path) -> None:
    """GPUs by uuid, and a command that binds to their CPUs and memory."""
    document = placed_node(scenario_file(tmp_path), gpus="2")
    script = (
        f"{export_text(document)}\necho $CUDA_VISIBLE_DEVICES/$RIGHTSIZER_CPUS/$RIGHTSIZER_BIND"
    )
    done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True)
    uuids = ",".join(slot["uuid"] for slot in document["seats"])
    assert done.stdout == f"{uuids}/0-55/numactl --cpunodebind=0 --membind=0\n"


def test_a_shell_that_was_refused_sees_no_gpu_and_starts_nothing() -> None:
    """It must not see the GPUs of others."""
    script = f'eval "{refused_export_text()}" && echo started; echo "<$CUDA_VISIBLE_DEVICES>"'
    environment = {"CUDA_VISIBLE_DEVICES": "0"}
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == "<>\n"


def test_seats_of_unknown_place_are_bound_nowhere(tmp_path: Path) -> None:
    """Binding to the nodes of the others would keep them far from their memory."""
    document = placed_node(scenario_file(tmp_path), gpus="2")
    document["seats"][1]["numa_node"] = None
    document["cpus"] = None
    assert "RIGHTSIZER_BIND=''" in export_text(document)
    assert "RIGHTSIZER_CPUS=''" in export_text(document)
    assert "which are near is unknown" in text_of(place_blocks(document, is_explained=False))


def test_the_command_looks_at_a_simulated_driver(tmp_path: Path) -> None:
    """In a process of its own, by the system clock; without an agent it says what that means."""
    scenario = scenario_file(tmp_path)
    done = run_rightsizer("place", "--gpus", "5", "--export", "--scenario", scenario)
    assert done.returncode == 1
    assert done.stdout == f"{refused_export_text()}\n"
    assert "5 GPUs are asked for, 4 of 11 can be given." in done.stderr
    assert "No agent was asked" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--gpus", "0"], "gpus: '0' is no number from 1 to 1024"),
        (["--memory", "30"], "memory: '30' is not a size"),
        (["--mig", "big"], "mig: 'big' is no MIG profile"),
        (["--share"], "--share: say how much memory is needed on each GPU"),
        (["--json", "--export"], "not allowed with argument --json"),
    ],
)
def test_a_wrong_request_is_reported_before_anybody_is_asked(
    arguments: list[str], fault: str, capsys: Captured
) -> None:
    """With exit status 2."""
    try:
        status: object = main(["place", *arguments])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert fault in capsys.readouterr().err


def test_an_agent_that_was_named_must_be_there(tmp_path: Path, capsys: Captured) -> None:
    """Its absence is an error, not a reason to use another source."""
    assert main(["place", "--path.api-socket", str(tmp_path / "none.sock")]) == 1
    assert "no agent runs here" in capsys.readouterr().err
