"""HTML page of profiles, from their JSON."""

from typing import Final

from rightsizer.profiler.answer_blocks import profile_blocks
from rightsizer.profiler.figures import ProfileDocument
from rightsizer.report.template import page_of, scripts

TITLE: Final = "GPU profile"


def profile_document(answer: ProfileDocument) -> str:
    """Render all workloads of an answer."""
    return page_of(TITLE, profile_blocks(answer), **scripts("tables.js", "charts.js"))
