"""Writes families as Prometheus text or OpenMetrics, byte for byte as prometheus_client does.

The library escapes every name and label of every sample anew; here the label text is written
once for the life of a series, which makes a scrape several times as cheap. A test holds the
two equal.
"""

from collections.abc import Iterable
from typing import Final

from prometheus_client.core import Metric

from rightsizer.publish.metrics.families import LabelSet, number_text

__all__ = ["open_metrics", "text"]

_TEXT_SUFFIXES: Final = {"counter": "_total", "info": "_info"}
_TEXT_TYPES: Final = {"info": "gauge"}


def text(families: Iterable[Metric]) -> bytes:
    """Prometheus's text format, version 0.0.4."""
    lines: list[str] = []
    for family in families:
        name = family.name + _TEXT_SUFFIXES.get(family.type, "")
        sentence = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
        lines.append(f"# HELP {name} {sentence}\n")
        lines.append(f"# TYPE {name} {_TEXT_TYPES.get(family.type, family.type)}\n")
        lines += _sample_lines(family)
    return "".join(lines).encode()


def open_metrics(families: Iterable[Metric]) -> bytes:
    """OpenMetrics, version 1.0.0."""
    lines: list[str] = []
    for family in families:
        sentence = (
            family.documentation.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
        )
        lines.append(f"# HELP {family.name} {sentence}\n")
        lines.append(f"# TYPE {family.name} {family.type}\n")
        if family.unit:
            lines.append(f"# UNIT {family.name} {family.unit}\n")
        lines += _sample_lines(family)
    lines.append("# EOF\n")
    return "".join(lines).encode()


def _sample_lines(family: Metric) -> list[str]:
    return [
        f"{sample.name}{_label_text(sample.labels)} {number_text(sample.value)}\n"
        for sample in family.samples
    ]


def _label_text(labels: dict[str, str]) -> str:
    return labels.text if isinstance(labels, LabelSet) else LabelSet(labels).text
