"""Terminal colors of output: headings, severities, money, commands to copy."""

import os
import re
from collections.abc import Mapping
from typing import Final

from rightsizer.report.blocks import Tone

_STYLES: Final = {
    "heading": "1",
    "title": "1",
    "severe": "1;31",
    "medium": "33",
    "minor": "2",
    "money": "32",
    "command": "36",
}
"""SGR parameters (ECMA-48) of the sixteen colors that every terminal theme defines."""
_TONES: Final = {Tone.HEADING: "1", Tone.BEST: "1;32", Tone.WARNING: "33", Tone.FAINT: "2"}
_PARTS: Final = re.compile(
    r"""(?P<heading>^[A-Z][^.:;,]{0,60}:$)
    |(?P<title>^[ ]{2}[A-Z][^\n]*?(?=[ ]·[ ](?:critical|high|medium|low),[ ]))
    |(?P<severe>\b(?:critical|high)(?=,[ ]|[ ]severity))
    |(?P<medium>\bmedium(?=,[ ]|[ ]severity))
    |(?P<minor>\blow(?=,[ ]|[ ]severity))
    |(?P<money>\$\d[\d,.]*\d?(?:[ ]to[ ]\$\d[\d,.]*\d?)?)
    |(?P<command>'rightsizer[ ][^'\n]+'|^[ ]+rightsizer[ ].+$)
    """,
    re.MULTILINE | re.VERBOSE,
)


def colored(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Color a text by its content, unless the user disabled colors."""
    if not _are_wanted(environ):
        return text
    return _PARTS.sub(lambda match: _in(_STYLES[match.lastgroup or "heading"], match[0]), text)


def toned(text: str, tone: Tone) -> str:
    """Make a line stand out, unless the user disabled colors."""
    return _in(_TONES[tone], text) if _are_wanted(os.environ) else text


def _are_wanted(environ: Mapping[str, str]) -> bool:
    """Implements https://no-color.org."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def _in(style: str, text: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m"
