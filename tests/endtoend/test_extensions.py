"""The package of `docs/extending.md`, installed by pip: a rule and an owner of a stranger."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from agent_process import RIGHTSIZER, agent_process
from recordings import BOARD, write_states
from rightsizer.model.state import State

PAGE: Final = (Path(__file__).parent.parent.parent / "docs" / "extending.md").read_text("utf-8")
RULE, OWNER = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
((PROJECT,),) = [re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)]
POINTS: Final = tomllib.loads(PROJECT)["project"]["entry-points"]

pytestmark = pytest.mark.timeout(240)


def installed(folder: Path, points: Mapping[str, Mapping[str, str]], **modules: str) -> Path:
    """A folder into which pip has installed a wheel with these entry points and modules."""
    info = "site_rules-1.0.dist-info"
    wheel = folder / "site_rules-1.0-py3-none-any.whl"
    declared = "\n".join(
        f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in point.items())
        for group, point in points.items()
    )
    files = {f"{name}.py": text for name, text in modules.items()}
    files |= {
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: site-rules\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": declared,
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in files))
    target = folder / "installed"
    pip = (sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet")
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True, timeout=100)
    return target


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in an environment with the installed package."""
    return subprocess.run(
        [*RIGHTSIZER, *arguments],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documented rule and owner."""
    folder = tmp_path_factory.mktemp("extended")
    owners = {"rightsizer.owners": {"nomad": "site_owner:collector"}}
    return installed(folder, {**POINTS, **owners}, site_rules=RULE, site_owner=OWNER)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every fault that a package may have, beside the documented rule."""
    bad = {
        "absent": "site_rules:NONE",
        "missing": "no_such_module:RULE",
        "wrong": "site_faults:NUMBER",
        "twice": "site_faults:TWICE",
        "loud": "site_loud:RULE",
        "raises": "site_faults:RAISES",
        "unshaped": "site_faults:UNSHAPED",
    }
    faults = (
        "from rightsizer.advice.rules.rule import *\n"
        "from rightsizer.advice.rules.rule import OpeningPolicy\n"
        "from site_rules import BarelyUsedSettings, judge\n"
        "class UnshapedSettings(RuleSettings, frozen=True):\n"
        "    '''No opening policy.'''\n"
        "NUMBER = 7\n"
        "TWICE = Rule('idle', BarelyUsedSettings(), judge)\n"
        "RAISES = Rule('raises', BarelyUsedSettings(), lambda subject, settings: 1 / 0)\n"
        "UNSHAPED = Rule('unshaped', UnshapedSettings(), judge)\n"
    )
    points = {
        "rightsizer.rules": {**POINTS["rightsizer.rules"], **bad},
        "rightsizer.owners": {"torn": "site_owner:torn", "gone": "no_such_module:collector"},
        "rightsizer.collectors": {"seven": "site_faults:NUMBER"},
    }
    modules = {
        "site_rules": RULE,
        "site_owner": "def torn(procfs, settings):\n    raise OSError('no socket')\n",
        "site_faults": faults,
        "site_loud": "import sys\nsys.exit('goodbye')\n",
    }
    return installed(tmp_path_factory.mktemp("broken"), points, **modules)


def replayed(folder: Path, tmp_path: Path) -> Mapping[str, Any]:
    """Findings by rule of an hour of a stall, a GPU that is held and hardly used."""
    recording = write_states(tmp_path / "node.csv", (State.HIDDEN_STALL, 3600))
    done = run(folder, "replay", str(recording), "--board", BOARD, "--json")
    assert done.returncode == 0, done.stderr
    return {each["rule"]: each for each in json.loads(done.stdout)["findings"]}


def examined(folder: Path, tmp_path: Path) -> str:
    """What doctor says of a simulated node, without line breaks."""
    file = tmp_path / "node.yaml"
    file.write_text("sources: {simulated: {scenario: single-h100}}\n", encoding="utf-8")
    return re.sub(r"\n +", " ", run(folder, "doctor", "--config.file", str(file)).stdout)


def test_its_rule_is_judged_like_ours(extended: Path, tmp_path: Path) -> None:
    """With its own id, though another rule has the same reason and action."""
    found = replayed(extended, tmp_path)["barely_used"]
    assert "barely used for" in found["summary"]
    assert found["summary"].endswith("; our site shares such GPUs.")
    assert found["action"] == "share_timeslice"


def test_its_settings_are_documented_like_ours(extended: Path, tmp_path: Path) -> None:
    """The configuration shows them, and refuses what is out of bounds."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text("recommender: {rules: {barely_used: {on_ratio: 0.99}}}\n", encoding="utf-8")
    shown = run(extended, "config", "show", str(file)).stdout
    assert re.search(r"barely_used:\n\s+on_ratio: 0.99", shown)
    file.write_text("recommender: {rules: {barely_used: {on_ratio: 9}}}\n", encoding="utf-8")
    refused = run(extended, "check-config", str(file))
    assert refused.returncode == 78
    assert "recommender.rules.barely_used.on_ratio" in refused.stderr + refused.stdout
    # Without the package the key is a mistake.
    assert "barely_used" in run(tmp_path, "check-config", str(file)).stderr


def test_an_agent_says_what_it_found(
    extended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rule runs on a simulated node, and doctor lists it."""
    monkeypatch.setenv("PYTHONPATH", str(extended))
    node = ("--simulated.scenario", "single-h100")
    with agent_process(tmp_path, *node, is_measured=True) as agent:
        names = {event["extension"] for event in agent.events("extension_found")}
        assert names == {"rule barely_used of site-rules", "owner nomad of site-rules"}
    assert "ok       extensions: rule barely_used of site-rules" in examined(extended, tmp_path)


def test_its_owner_names_processes(extended: Path) -> None:
    """A real process with the variable in its environment; others keep their owners."""
    code = (
        "import os, subprocess, sys\n"
        "from pathlib import Path\n"
        "from rightsizer.owners.resolver import OwnerResolver\n"
        "os.environ['NOMAD_JOB_NAME'] = 'train-7'\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "resolver = OwnerResolver.on_host(Path('/proc'))\n"
        "workload = resolver.workload_of(child.pid)\n"
        "print(workload.key, workload.unproven != '')\n"
        "resolver.close()\n"
        "child.communicate(b'\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(extended)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["nomad:train-7", "True"], done.stderr


def test_broken_ones_are_named_and_left_out(broken: Path, tmp_path: Path) -> None:
    """Doctor names each with its fault; the others, and all of ours, work."""
    found = replayed(broken, tmp_path)
    assert "barely used for" in found["barely_used"]["summary"]
    assert found["hidden_stall"]["action"] != "none"
    assert "the rule failed" in found["raises"]["summary"]
    told = examined(broken, tmp_path)
    for name in ("absent", "missing", "wrong", "twice", "loud", "unshaped"):
        assert f"rule {name} of site-rules (" in told
    assert "collector seven of site-rules (TypeError: " in told
    assert "owner gone of site-rules (ModuleNotFoundError: " in told


def test_an_agent_starts_without_the_broken_ones(
    broken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log names each, on a simulated node too, where no owner is asked."""
    monkeypatch.setenv("PYTHONPATH", str(broken))
    node = ("--simulated.scenario", "single-h100")
    with agent_process(tmp_path, *node, is_measured=True) as agent:
        left_out = {event["extension"] for event in agent.events("extension_left_out")}
    assert {"owner gone of site-rules", "rule absent of site-rules"} <= left_out
    assert "rule barely_used of site-rules" not in left_out


def test_an_owner_that_cannot_start_is_an_outcome(broken: Path) -> None:
    """Of a collector of that name, as for servers of ours."""
    code = (
        "from pathlib import Path\n"
        "from rightsizer.owners.resolver import OwnerResolver\n"
        "resolver = OwnerResolver.on_host(Path('/proc'))\n"
        "resolver.workload_of(1)\n"
        "print(resolver.collectors()['torn'].failure)\n"
        "resolver.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(broken)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "OSError: no socket", done.stderr
