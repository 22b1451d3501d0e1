"""Blocks as an HTML page without scripts."""

from collections.abc import Iterable
from typing import Any

from rightsizer.report.blocks import Block, shown
from rightsizer.report.template import rendered


def page_of(
    title: str, blocks: Iterable[Block], template: str = "blocks.html", **values: Any
) -> str:
    """Return a page; a template that extends the usual one gets further values."""
    return rendered(template, {}, title=title, blocks=blocks, kind=_kind, shown=shown, **values)


def _kind(block: Block) -> str:
    return type(block).__name__
