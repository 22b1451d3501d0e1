"""What the profiler's own rules say, as far as it is worth a note."""

import re
from typing import Final

from rightsizer.profiles.kernel_table import short_name
from rightsizer.profiles.nsight_compute.launch import Launch

__all__ = ["RuleNotes"]

_KEPT_MAXIMUM: Final = 500
_NOTES_MAXIMUM: Final = 12
_KERNEL_CHARACTERS: Final = 80
_TEXT_CHARACTERS: Final = 400
_LINK: Final = re.compile(r"@\w+:[^@:]*:([^@]*)@")
"""How rules point to other sections; only the last part is for people."""
_ADDRESS: Final = re.compile(r"\s*\(https?://[^\s)]*\)|\s*https?://[^\s)]+")
_ABOUT_ITSELF: Final = re.compile(r"The optional metric \S+ could not be found")


class RuleNotes:
    """Takes launches and keeps the rules that promise most."""

    def __init__(self) -> None:
        self._speedups: dict[str, float] = {}

    def add(self, launch: Launch) -> None:
        """The rules of one launch."""
        for rule in launch.rules:
            if _ABOUT_ITSELF.match(rule.text):
                continue
            text = " ".join(_ADDRESS.sub("", _LINK.sub(r"\1", rule.text)).split())
            note = f"{short_name(launch.kernel, _KERNEL_CHARACTERS)}: {text[:_TEXT_CHARACTERS]}"
            known = self._speedups.get(note)
            if known is not None or len(self._speedups) < _KEPT_MAXIMUM:
                self._speedups[note] = max(rule.speedup_percent, known or 0.0)

    def notes(self) -> tuple[str, ...]:
        """The highest estimated speed-up first."""
        ranked = sorted(self._speedups, key=lambda note: -self._speedups[note])
        return tuple(ranked[:_NOTES_MAXIMUM])
