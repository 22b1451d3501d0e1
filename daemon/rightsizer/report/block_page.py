"""Blocks as an HTML page; its scripts, if any, are its own."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from rightsizer.report.blocks import Block, shown
from rightsizer.report.charts import stacked_bar
from rightsizer.report.template import rendered


def page_of(
    title: str, blocks: Iterable[Block], template: str = "blocks.html", **values: Any
) -> str:
    """Return a page; a template that extends the usual one gets further values."""
    functions = {"bar": stacked_bar, "kind": _kind, "shown": partial(shown, is_drawn=True)}
    return rendered(template, {}, title=title, blocks=blocks, **functions, **values)


def _kind(value: object) -> str:
    return type(value).__name__
