"""Hooks of mkdocs: the page of all settings, which is made with the site."""

import re
import sys
from pathlib import Path
from typing import Any, Final

# mkdocs loads this file by its path.
sys.path.insert(0, str(Path(__file__).parent))

from rightsizer.cli.config import WholeSettings
from settings_documents import reference

_PAGE: Final = "settings.md"
_FILE: Final = re.compile(r"\]\((?:\.\./)+config/rightsizer\.yaml(?:#\w+)?\)")
"""Links to the file of all settings."""
_PREFACE: Final = """\
# All settings

As in `config/rightsizer.yaml`, which also has the sources of all defaults. After each key: default
and bounds. Without bounds, a `_ratio` is from 0 to 1, other numbers, durations and sizes at least
0. Durations are written like `90s` or `1h30m`, sizes like `512MiB`; an empty text means none. What
is marked *reload* [takes effect by a reload](configuration.md#reload). [Rules](rules.md) are
explained on a page of their own.

"""


def settings_page() -> str:
    """The page: a section for each group of settings."""
    return _PREFACE + reference(WholeSettings)


def on_files(files: Any, config: Any) -> Any:
    """Add the page to those of the site."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - mkdocs alone has it.

    files.append(File.generated(config, _PAGE, content=settings_page()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to the file to the page."""
    return _FILE.sub(f"]({_PAGE})", markdown)
