"""The report as JSON: the model's own names as keys; docs/report.md tells each."""

import datetime as dt
import json
from dataclasses import asdict
from typing import Final

from rightsizer.publish.report.model import ReportModel
from rightsizer.publish.report.story import story

__all__ = ["SCHEMA_VERSION", "json_document"]

SCHEMA_VERSION: Final = 1
"""Rises when a key changes its meaning or goes away; new keys do not change it."""


def json_document(model: ReportModel, _: dt.tzinfo) -> str:
    """All of it, floats as they are."""
    form = {"schema_version": SCHEMA_VERSION, "story": list(story(model)), **asdict(model)}
    return json.dumps(form, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
