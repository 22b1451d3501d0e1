"""Commands of a user who may not read the files of others, as on most nodes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from rightsizer.cli.main import main

_STRANGER: Final = 65534
Captured = pytest.CaptureFixture[str]


@contextmanager
def stranger() -> Iterator[None]:
    """This process as a user who may read nothing of root's; where it is not root, as itself."""
    user = os.geteuid()
    group = os.getegid()
    if not user:
        os.setegid(_STRANGER)
        os.seteuid(_STRANGER)
    try:
        yield
    finally:
        if not user:
            os.seteuid(user)
            os.setegid(group)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder that is closed to the user."""
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


def _as_stranger(command: list[str], capsys: Captured) -> str:
    """What a command says to a stranger; before, it is run for the modules that it loads."""
    main(command)
    capsys.readouterr()
    with stranger():
        assert main(command) != 0
    return capsys.readouterr().err


@pytest.mark.parametrize("command", [["advise"], ["explain", "abc"], ["report"]])
def test_history_of_the_service_is_as_good_as_none(
    command: list[str], closed: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Members of its group may read it; others get the agent's answer, or learn of both."""
    monkeypatch.setenv("RIGHTSIZER_WEB__LISTEN_ADDRESSES", "['127.0.0.1:9']")
    monkeypatch.setenv("RIGHTSIZER_HISTORY__PATH", f"{closed}/history.db")
    monkeypatch.setenv("RIGHTSIZER_PATH__API_SOCKET", "")
    said = _as_stranger(command, capsys)
    assert "no agent answers at http://127.0.0.1:9, and history" in said
    assert "cannot be read: [Errno 13] Permission denied" in said
    assert "run this as a user who may read it" in said


@pytest.mark.parametrize(
    "command",
    [
        ["plan", "{}/model.yaml"],
        ["plan", "{}/model"],
        ["replay", "gpu.csv", "--into", "{}/sub/history.db"],
        ["advise", "--history.path", "{}/history.db"],
        ["advise", "--save", "--history.path", "{}/history.db"],
        ["check-config", "{}/site.yaml"],
        ["config", "show", "{}/site.yaml"],
        ["project", "{}/model"],
        ["profile", "{}/trace.json"],
        ["demo", "--scenario", "{}/mine.yaml"],
    ],
    ids=" ".join,
)
def test_closed_file_is_named_with_the_remedy(
    command: list[str], closed: Path, capsys: Captured
) -> None:
    """In one line, and not as a file that does not exist."""
    said = _as_stranger([word.format(closed) for word in command], capsys)
    named = next(word for word in command if "{}" in word).format(closed)
    assert "Traceback" not in said
    assert said.count("\n") == 1
    assert named in said or str(Path(named).parent) in said
    assert any(word in said.lower() for word in ("permission denied", "may not be read"))
