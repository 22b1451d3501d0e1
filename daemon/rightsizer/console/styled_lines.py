"""Lines with styles on a terminal, by rich, which is an extra."""

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from rightsizer.console.command import harmless


def show_styled(lines: Iterable[tuple[str, str]]) -> None:
    """Print texts in styles of rich, such as `bold green`, a line each."""
    console = Console(highlight=False, soft_wrap=True)
    for text, style in lines:
        console.print(Text(harmless(text), style=style))
