"""Recommendations of one kind on workloads of one team are told together."""

import subprocess
from typing import Any, Final

import pytest

from rightsizer.fleet.advice_groups import commands_text, groups_of

_SAVINGS: Final = {"gpus_low": 1.0, "gpus_high": 1.0}


def piece(name: str, dollars: float = 1.0, **facts: Any) -> dict[str, Any]:
    """A recommendation to release a pod."""
    usual = {
        "id": f"id-{name}",
        "cluster": "",
        "team": "research",
        "workload": f"kubernetes:ml/{name}",
        "key": f"kubernetes:ml/{name}",
        "finding": "idle",
        "reasons": ["IdleHeld"],
        "action": "release",
        "summary": f"{name}: idle,\nand held.",
        "devices": [f"GPU-{name}"],
        "exclusive_group": None,
        "severity": "high",
        "confidence": 0.9,
        "savings": {
            **_SAVINGS,
            "dollars_per_hour_low": dollars,
            "dollars_per_hour_high": dollars,
            "dollars_per_hour_typical": dollars,
        },
        "instructions": [
            {"title": "Delete it", "text": f"kubectl delete pod/{name}", "language": "sh"},
            {"title": "Or ask", "text": "Ask its user.", "language": "text"},
        ],
    }
    return usual | facts


def titles(*pieces: dict[str, Any]) -> list[str]:
    """What groups say."""
    return [group.name for group in groups_of(pieces) if len(group.pieces) > 1]


def test_pods_of_a_team_are_one_line() -> None:
    """With what they are worth together; each GPU counts once."""
    pods = [piece(f"p{at}", 0.92) for at in range(180)]
    assert titles(*pods) == ["180 idle pods of team research: $3,970 a day"]
    assert titles(*pods, piece("again", devices=["GPU-p0"])) == [
        "181 idle pods of team research: $3,980 a day"
    ]


@pytest.mark.parametrize(
    ("facts", "title"),
    [
        ({"team": ""}, "3 idle pods of no known team: $72 a day"),
        ({"cluster": "eu"}, "3 idle pods of team research in eu: $72 a day"),
        ({"workload": "slurm:1"}, "3 idle jobs of team research: $72 a day"),
        ({"devices": ["a", "b"]}, "3 idle workloads of team research: $24 a day"),
        (
            {"finding": "inefficient", "reasons": ["HostBound"]},
            "3 pods of team research, waiting for the CPU: $72 a day",
        ),
    ],
)
def test_titles_say_what_is_common(facts: dict[str, Any], title: str) -> None:
    """Team, cluster, kind of work and reason."""
    assert titles(*(piece(f"p{at}", **facts) for at in range(3))) == [title]


def test_what_differs_stays_apart() -> None:
    """So do two alike, and what is of no workload."""
    first, second, third = (piece(f"p{at}") for at in range(3))
    assert titles(first, second) == []
    assert titles(first, second, third | {"team": "web"}) == []
    assert titles(first, second, third | {"action": "scale_to_zero"}) == []
    assert titles(*(each | {"workload": ""} for each in (first, second, third))) == []


def test_dearest_groups_come_first() -> None:
    """Three cheap ones may be worth more than one."""
    cheap = [piece(f"p{at}") for at in range(3)]
    one, other = piece("one", 2.0, team="web"), piece("other", 4.0, team="web")
    found = [len(group.pieces) for group in groups_of([other, one, *cheap])]
    assert found == [1, 3, 1]


def test_commands_are_a_script_for_review() -> None:
    """A shell parses it; what is the same is there once, and text is left out."""
    pods = [piece(f"p{at}") for at in range(3)]
    same = [{**pods[0], "id": "id-more"}, piece("alone", team="web")]
    text = commands_text(groups_of([*pods, *same]))
    done = subprocess.run(["/bin/sh", "-n"], input=text, text=True, check=False)
    assert done.returncode == 0
    assert "# 4 idle pods of team research: $72 a day\n# id-p0: p0: idle, and held.\n" in text
    commands = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert commands == [f"kubectl delete pod/{name}" for name in ("p0", "p1", "p2", "alone")]


def test_what_is_critical_comes_before_what_is_dear() -> None:
    """As on a node: broken hardware saves nothing and cannot wait."""
    broken = piece("broken", 0.0, severity="critical", action="none", reasons=["HardwareUnhealthy"])
    first, second = groups_of([piece("idle", 9.0), broken])
    assert (first.title, first.to_do) == (
        "kubernetes:ml/broken",
        "Look into it: hardware unhealthy",
    )
    assert (second.to_do, second.freed_gpus, second.confidence) == (
        "Release the GPU: idle, but held",
        1.0,
        0.9,
    )


def test_advice_without_a_subject_names_its_gpus() -> None:
    """Advice of the ledger on free GPUs that this run did not judge has no key."""
    (group,) = groups_of([piece("free", key=None, workload="")])
    assert group.title == "GPU-free"
