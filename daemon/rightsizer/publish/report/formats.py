"""The formats of a report, by name."""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Final

from rightsizer.publish.report.html_document import html_document
from rightsizer.publish.report.json_document import json_document
from rightsizer.publish.report.markdown_document import markdown_document
from rightsizer.publish.report.model import ReportModel

__all__ = ["REPORT_FORMATS"]

REPORT_FORMATS: Final[Mapping[str, Callable[[ReportModel, dt.tzinfo], str]]] = {
    "html": html_document,
    "markdown": markdown_document,
    "json": json_document,
}
"""Each makes the whole document; times are told in the time zone."""
