"""Colors of answers: on terminals that want them, and nothing but colors."""

import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.console.color import colored
from rightsizer.console.command import say

GOLDEN: Final = Path(__file__).parent / "golden" / "advise.txt"
ESCAPES: Final = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_a_user_may_want_no_colors(
    environ: dict[str, str],
    wanted: bool,  # noqa: FBT001
) -> None:
    """By the two common environment variables."""
    assert (colored("Idle:", environ) != "Idle:") is wanted


def test_a_terminal_is_colored_and_a_pipe_is_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs read from pipes."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    say("Idle:", may_color=True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    say("Idle:", may_color=True)
    say("Idle:")

    assert capsys.readouterr().out == "Idle:\n\x1b[1mIdle:\x1b[0m\nIdle:\n"


def test_important_parts_have_a_color() -> None:
    """Headings, severities, money, and commands to copy."""
    text = "Idle:\n  a1  high, active\n  b2  low, active\nsaves $2 to $3 a day\n  rightsizer top\n"

    assert colored(text, {}) == (
        "\x1b[1mIdle:\x1b[0m\n  a1  \x1b[1;31mhigh\x1b[0m, active\n"
        "  b2  \x1b[2mlow\x1b[0m, active\n"
        "saves \x1b[32m$2 to $3\x1b[0m a day\n\x1b[36m  rightsizer top\x1b[0m\n"
    )


@given(st.one_of(st.text(), st.just(GOLDEN.read_text("utf-8"))))
def test_colors_change_no_letter(text: str) -> None:
    """Without them the answer is that of a pipe."""
    plain = ESCAPES.sub("", text)

    assert ESCAPES.sub("", colored(plain, {})) == plain
