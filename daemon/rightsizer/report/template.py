"""Templates of reports and plans, and blocks as a page; the engine is imported on first use."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rightsizer.model.values import dollars_text, number_text
from rightsizer.report.blocks import Block, shown
from rightsizer.report.charts import stacked_bar
from rightsizer.report.figures import percent
from rightsizer.report.labels import risk_word

if TYPE_CHECKING:
    from jinja2 import Environment


def rendered(
    name: str,
    filters: Mapping[str, Callable[..., object]],
    escape: Callable[[object], str] | None = None,
    /,
    **values: Any,
) -> str:
    """Render a template; values are escaped, by default for HTML."""
    environment = _environment()
    if filters or escape:
        # An overlay compiles its templates for itself.
        environment = environment.overlay(autoescape=escape is None, finalize=escape)
        environment.filters = {**environment.filters, **filters}
    return environment.get_template(name).render(**values)


def page_of(
    title: str, blocks: Iterable[Block], template: str = "blocks.html", **values: Any
) -> str:
    """Return a page; a template that extends the usual one gets further values."""
    functions = {"bar": stacked_bar, "kind": _kind, "shown": partial(shown, is_drawn=True)}
    return rendered(template, {}, title=title, blocks=blocks, **functions, **values)


def _kind(value: object) -> str:
    return type(value).__name__


@cache
def scripts(*names: str) -> Mapping[str, str]:
    """Return the scripts of a document as one, with their hash.

    The document's content security policy allows no other.
    """
    folder = files("rightsizer.report") / "templates"
    script = "".join((folder / name).read_text("utf-8") for name in names)
    return {"script": script, "script_hash": script_hash(script)}


def script_hash(script: str) -> str:
    """Return the hash by which a content security policy allows an inline script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def environment_of(package: str, *, keep_trailing_newline: bool = False) -> Environment:
    """Return the template environment of a package: escapes values, rejects undefined names."""
    # Imported on use: 10 MB that an agent without readers never needs.
    import jinja2  # noqa: PLC0415

    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=keep_trailing_newline,
    )


@cache
def _environment() -> Environment:
    environment = environment_of("rightsizer.report", keep_trailing_newline=True)
    environment.filters |= {
        "dollars": dollars_text,
        "number": number_text,
        "percent": percent,
        "risk": risk_word,
    }
    return environment
