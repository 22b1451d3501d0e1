"""`rightsizer labels`, and the forms of `rightsizer topology` for schedulers."""

import json
from pathlib import Path

import pytest

from agent_process import run_rightsizer
from rightsizer.cli.main import main

Captured = pytest.CaptureFixture[str]


def test_labels_are_written_whole_where_they_are_asked_for(tmp_path: Path) -> None:
    """In a process of its own, by the system clock."""
    file = tmp_path / "rightsizer"
    done = run_rightsizer("labels", "--scenario", "t4-pair", "--output", file)

    assert (done.returncode, done.stdout) == (0, "")
    lines = file.read_text().splitlines()
    assert lines[0].startswith("# +expiry-time=")
    assert "feature.node.kubernetes.io/rightsizer.gpu-count=2" in lines
    assert list(tmp_path.iterdir()) == [file]


def test_labels_are_reported_in_json(capsys: Captured) -> None:
    """Without an expiry, which only files have."""
    assert main(["labels", "--scenario", "t4-pair", "--json"]) == 0
    labels = json.loads(capsys.readouterr().out)

    assert labels["rightsizer.gpu-count"] == "2"
    assert labels["rightsizer.gpu-product"] == "Tesla-T4"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, capsys: Captured) -> None:
    """With the remedy."""
    file = tmp_path / "none" / "rightsizer"
    assert main(["labels", "--scenario", "t4-pair", "--output", str(file)]) == 1

    assert f"the feature file '{file}' cannot be written" in capsys.readouterr().err


def test_the_form_for_slurm_names_the_node_as_it_is_reported(capsys: Captured) -> None:
    """It is available beside the command's other forms."""
    arguments = ["topology", "--scenario", "t4-pair", "--format", "gres", "--node-name", "gpu-7"]
    assert main(arguments) == 0

    text = capsys.readouterr().out
    assert "File=/dev/nvidia1" in text
    assert "NodeName=gpu-7 Gres=gpu:tesla_t4:2" in text


def test_the_form_for_kubernetes_is_identified_by_the_pods_node(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod's host name is its own."""
    monkeypatch.setenv("NODE_NAME", "worker-3")
    arguments = ["topology", "--scenario", "t4-pair", "--format", "node-resource-topology"]
    assert main(arguments) == 0

    assert json.loads(capsys.readouterr().out)["metadata"] == {"name": "worker-3"}


def test_json_is_the_form_of_that_name(capsys: Captured) -> None:
    """The flag is older than `--form`; both at once are refused."""
    assert main(["topology", "--scenario", "t4-pair", "--json"]) == 0
    flag = capsys.readouterr().out
    assert main(["topology", "--scenario", "t4-pair", "--format", "json"]) == 0

    assert capsys.readouterr().out == flag
