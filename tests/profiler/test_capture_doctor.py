"""The doctor's checks of the drop folder and of the capture program."""

import socket
from pathlib import Path
from typing import Any

import pytest

from readings import gpu, snapshot
from rightsizer.agent.doctor import CHECKS
from rightsizer.agent.doctor.check import CheckContext, Verdict
from rightsizer.agent.doctor.own import check_capture, check_drop_folder
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load


def context(text: str, **environ: str) -> CheckContext:
    """A machine with the given profile settings."""
    settings = load(Settings, f"profiles: {text}", "f")
    return CheckContext(settings, snapshot(0.0, [gpu()], {}), environ)


def test_both_are_among_the_checks() -> None:
    """They run by default."""
    assert {check_capture, check_drop_folder} <= set(CHECKS)


def test_unconfigured_capture_is_reported_unused() -> None:
    """There is no folder and no capture program."""
    verdicts = [check(context("{}")).verdict for check in (check_drop_folder, check_capture)]
    assert verdicts == [Verdict.UNUSED, Verdict.UNUSED]


def test_the_folder_is_looked_at(tmp_path: Path) -> None:
    """The check covers existence, write permissions and free space."""
    folder = tmp_path / "drop"
    text = f"{{drop_folder: {{path: {folder}}}}}"
    missing = check_drop_folder(context(text))
    assert missing.verdict is Verdict.MISSING
    assert "profiles.conf" in missing.remedy
    folder.mkdir(mode=0o755)
    assert check_drop_folder(context(text)).verdict is Verdict.OK
    folder.chmod(0o1777)
    crowded = check_drop_folder(context(text))
    assert (crowded.verdict, crowded.remedy.endswith("'chmod o-w'")) == (Verdict.LIMITED, True)
    folder.chmod(0o755)
    room = "{minimum_free_ratio: 0, quota: 9000000GiB}"
    full = f"""{{drop_folder: {{path: {folder}}},
      capture: {{kind: command, command: [a], room: {room}}}}}"""
    assert "captures, once the disk is that full" in check_drop_folder(context(full)).lost
    roomy = full.replace("9000000GiB", "1MiB")
    assert check_drop_folder(context(roomy)).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("capture", "verdict", "said"),
    [
        ("{kind: command, command: ['true']}", Verdict.OK, "/true"),
        ("{kind: command, command: [nothing-like-it]}", Verdict.MISSING, "there is no program"),
        ("{kind: dynolog}", Verdict.MISSING, "there is no program 'dyno'"),
        ("{kind: webhook, webhook: {url: 'http://a'}}", Verdict.OK, "a webhook"),
        (
            "{kind: webhook, webhook: {url: 'http://a', token_file: /nowhere}}",
            Verdict.MISSING,
            "/nowhere",
        ),
    ],
)
def test_capture_program_and_token_are_looked_up(capture: str, verdict: Verdict, said: str) -> None:
    """The program is looked up in PATH, the token in its file."""
    found = check_capture(context(f"{{drop_folder: {{path: /d}}, capture: {capture}}}"))
    assert found.verdict is verdict
    assert said in found.found


def test_dynologs_daemon_must_listen(tmp_path: Path) -> None:
    """Its client alone is not enough."""
    program = tmp_path / "dyno"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    def found(port: int) -> Any:
        dynolog = f"{{program: {program}, port: {port}}}"
        return check_capture(
            context(
                f"{{drop_folder: {{path: /d}}, capture: {{kind: dynolog, dynolog: {dynolog}}}}}"
            )
        )

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert found(port).verdict is Verdict.OK
    deaf = found(port)
    assert deaf.verdict is Verdict.MISSING
    assert "--enable_ipc_monitor" in deaf.remedy
