"""Settings of actions: accepted values, and refusals with place and remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from rightsizer.actions.feature import actions_here
from rightsizer.actions.settings import ActionMode
from rightsizer.agent.configuration_check import faults_of
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load
from rightsizer.model.errors import ConfigurationError


def loaded(*actions: dict[str, Any], **further: Any) -> Settings:
    """The settings of a file with these actions."""
    usual = {"name": "release", "reasons": ["IdleHeld"], "command": ["true"]}
    listed = [
        {key: value for key, value in {**usual, **action}.items() if value is not None}
        for action in actions
    ]
    return load(Settings, json.dumps({"actions": listed, **further}), "f")


def test_nothing_is_done_unless_somebody_asks_for_it() -> None:
    """There is no action by default, and one without a mode is a dry run."""
    assert Settings().actions == ()
    assert loaded({}).actions[0].mode is ActionMode.DRY_RUN


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": ""}, "is no name of small letters"),
        ({"name": "a b"}, "is no name of small letters"),
        ({"reasons": []}, "reasons: is empty; name each reason"),
        ({"reasons": ["IdleHelt"]}, "IdleHelt"),
        ({"mode": "yes"}, "yes"),
        ({"command": None}, "neither is set; name one of them"),
        ({"webhook": {"url": "http://127.0.0.1/x"}}, "both are set; name one of them"),
        ({"command": ["scale", "{pod}"]}, "there is no {pod}; choose from {id}, {reason}"),
        ({"command": ["{workload}"]}, "its first word names the program"),
        ({"command": None, "webhook": {"url": "ftp://x"}}, "is not an address"),
        (
            {"command": ["sh", "-c", "scale {workload}"]},
            "a shell would run what {workload} stands for; give it behind the text",
        ),
        ({"command": ["/usr/bin/env", "A=1", "/bin/bash", "-euc", "-x", "x {id}"]}, "{id}"),
        ({"at_most_per_day": 0}, "at_most_per_day"),
        ({"minimum_confidence_ratio": 2}, "minimum_confidence_ratio"),
    ],
)
def test_impossible_action_settings_are_refused(wrong: dict[str, Any], said: str) -> None:
    """With the place in the file."""
    with pytest.raises(ConfigurationError) as refusal:
        loaded(wrong)
    assert said in str(refusal.value)
    assert str(refusal.value).startswith("f:1:")
    assert "actions[0]" in str(refusal.value)


def test_references_of_action_settings_are_checked_before_the_start(tmp_path: Path) -> None:
    """Programs, credentials, duplicate names, and the folder of the audit log."""
    hook = {"url": "http://127.0.0.1/x", "token_file": str(tmp_path / "none")}
    settings = loaded(
        {"command": ["no-such-program"]},
        {"command": None, "webhook": hook},
        acting={"audit_file": str(tmp_path / "gone" / "audit.jsonl")},
    )
    found = "\n".join(faults_of(settings, {}))
    assert "actions[0].command: there is no program 'no-such-program'" in found
    assert "actions[1].name: another action is called 'release'" in found
    assert "actions[1].webhook.token_file: " in found
    assert f"acting.audit_file: there is no folder {tmp_path / 'gone'}; make it" in found


def test_an_action_is_for_the_pools_that_it_names() -> None:
    """Like a policy."""
    other = {"match": {"pool": "b*"}}
    here = {"name": "here", "match": {"pool": "a*"}}
    settings = loaded(other, here, node={"pool": "a100"})
    (found,) = actions_here(settings.actions, settings.node.pool)
    assert found.name == "here"
    assert found.match.fits(None, ["GPU-0"])


def test_a_placeholder_behind_a_shells_text_is_a_word() -> None:
    """The shell does not run it."""
    command = ["sh", "-c", 'scale "$1"', "sh", "{workload}"]
    assert loaded({"command": command}).actions[0].command == tuple(command)


def test_an_approver_without_a_name_is_refused() -> None:
    """With the place in the file."""
    with pytest.raises(ConfigurationError, match="approvers: a name is empty"):
        loaded({}, acting={"approvers": [""]})
