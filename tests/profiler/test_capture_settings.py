"""Capture settings, and values that are rejected before the start."""

from pathlib import Path

import pytest

from rightsizer.agent.configuration_check import faults_of
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load
from rightsizer.config.spelling import filled, is_asked_for, unknown_placeholders
from rightsizer.model.errors import ConfigurationError
from rightsizer.profiler.capture.settings import PLACEHOLDERS, CaptureKind
from rightsizer.profiler.settings import ProfileSettings


def profiles(text: str) -> ProfileSettings:
    """A section of a configuration."""
    return load(Settings, f"profiles: {text}", "rightsizer.yaml").profiles


def test_nothing_is_captured_or_read_unless_somebody_asks_for_it() -> None:
    """Both are opt-in."""
    settings = ProfileSettings()
    assert settings.capture.kind is CaptureKind.NONE
    assert settings.drop_folder.path == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{capture: {kind: dynolog}}", "'dynolog' needs a folder where profiles land; set"),
        ("{drop_folder: {path: drop}}", "'drop' is no whole path; begin it with /"),
        ("{capture: {command: [rec, '{pud}']}}", "there is no {pud}; choose from {pid}, {pids}"),
        ("{drop_folder: {path: /d}, capture: {kind: command}}", "command: is empty; name a pro"),
        ("{drop_folder: {path: /d}, capture: {kind: webhook}}", "webhook.url: is empty; name an"),
        ("{capture: {webhook: {url: 'ftp://a'}}}", "'ftp://a' is not an address"),
        ("{capture: {webhook: {url: 'http://u:p@a'}}}", "has a password in it; use a token"),
        ("{capture: {dynolog: {port: 0}}}", "between 1 and"),
        (
            "{drop_folder: {path: /d}, capture: {kind: dynolog, dynolog: {program: ''}}}",
            "dynolog.program: is empty",
        ),
    ],
)
def test_impossible_capture_settings_are_refused_with_their_place(text: str, said: str) -> None:
    """This holds for check-config and for the start."""
    with pytest.raises(ConfigurationError) as caught:
        profiles(text)
    assert said in str(caught.value)
    assert str(caught.value).startswith("rightsizer.yaml:1:")


def test_placeholders_of_a_command_decide_what_it_needs() -> None:
    """A command that names processes does not run where they are unknown."""
    for command, needs in (("[rec, '{pids}']", True), ("[rec, '-p{pid}']", True), ("[r]", False)):
        text = f"{{drop_folder: {{path: /d}}, capture: {{kind: command, command: {command}}}}}"
        assert profiles(text).capture.needs_pids is needs
    assert profiles("{drop_folder: {path: /d}, capture: {kind: dynolog}}").capture.needs_pids


def test_words_are_filled_and_stay_words() -> None:
    """Unknown braces, as in JSON, stay; values are not expanded again."""
    argv = ("--p={pid}/{pid}", '{"a": 1}', "{pids}", "{}", "{ pid }")
    values = dict.fromkeys(PLACEHOLDERS, "{seconds}") | {"pid": "7"}
    assert filled(argv, values) == ("--p=7/7", '{"a": 1}', "{seconds}", "{}", "{ pid }")
    assert unknown_placeholders(("{a}{pid}", "{a}{b}"), PLACEHOLDERS) == ("a", "b")
    assert is_asked_for("pid", argv)
    assert not is_asked_for("folder", argv)


def test_references_of_capture_settings_are_checked(tmp_path: Path) -> None:
    """Program, folder and token are checked, each with its key."""
    text = f"""
    profiles:
      drop_folder: {{path: {tmp_path}/nowhere}}
      capture: {{kind: command, command: [no-such-program]}}
    """
    assert list(faults_of(load(Settings, text, "f"), {})) == [
        (
            f"profiles.drop_folder.path: {tmp_path}/nowhere cannot be read: no such file or "
            "directory; check the path, or let the agent's user read it"
        ),
        (
            "profiles.capture.command: there is no program 'no-such-program'; install it, or name "
            "its whole path"
        ),
    ]
    hook = f"""
    profiles:
      drop_folder: {{path: {tmp_path}}}
      capture: {{kind: webhook, webhook: {{url: 'http://a', token_file: /nowhere}}}}
    """
    (fault,) = faults_of(load(Settings, hook, "f"), {})
    assert fault.startswith("profiles.capture.webhook.token_file: /nowhere cannot be read")
    right = f"""
    profiles:
      drop_folder: {{path: {tmp_path}}}
      capture: {{kind: command, command: ['true']}}
    """
    assert list(faults_of(load(Settings, right, "f"), {})) == []
