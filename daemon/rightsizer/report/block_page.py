"""Blocks as an HTML page without scripts."""

from collections.abc import Iterable

from rightsizer.report.blocks import Block, shown
from rightsizer.report.template import rendered


def page_of(title: str, blocks: Iterable[Block]) -> str:
    """Return a page."""
    return rendered("blocks.html", {}, title=title, blocks=blocks, kind=_kind, shown=shown)


def _kind(block: Block) -> str:
    return type(block).__name__
