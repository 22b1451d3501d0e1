"""Writes families as Prometheus text or OpenMetrics, byte for byte as prometheus_client does.

The library escapes every name and label of every sample anew; here a series keeps its text,
which makes a scrape several times as cheap. A test holds the two equal.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from rightsizer.publish.metrics.families import Family

__all__ = ["open_metrics", "text"]

_TEXT_SUFFIXES: Final = {"counter": "_total", "info": "_info"}
_TEXT_TYPES: Final = {"info": "gauge"}
_HEADS_KEPT: Final = 1024


def text(families: Iterable[Family]) -> bytes:
    """Prometheus's text format, versions 0.0.4 and 1.0.0."""
    lines: list[str] = []
    for family in families:
        lines.append(_text_head(family.name, family.kind, family.help))
        lines += [series.line(value) for series, value in family.samples]
    return "".join(lines).encode()


def open_metrics(families: Iterable[Family]) -> bytes:
    """OpenMetrics, version 1.0.0."""
    lines: list[str] = []
    for family in families:
        lines.append(_open_metrics_head(family.name, family.kind, family.unit, family.help))
        lines += [series.line(value) for series, value in family.samples]
    lines.append("# EOF\n")
    return "".join(lines).encode()


@lru_cache(maxsize=_HEADS_KEPT)
def _text_head(name: str, kind: str, sentence: str) -> str:
    whole = name + _TEXT_SUFFIXES.get(kind, "")
    escaped = sentence.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {whole} {escaped}\n# TYPE {whole} {_TEXT_TYPES.get(kind, kind)}\n"


@lru_cache(maxsize=_HEADS_KEPT)
def _open_metrics_head(name: str, kind: str, unit: str, sentence: str) -> str:
    escaped = sentence.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    unit_line = f"# UNIT {name} {unit}\n" if unit else ""
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind}\n{unit_line}"
