"""Recognition of Nsight Compute's output, and of pages that only mention it."""

import pytest

from profile_nsight import details_page
from rightsizer.profiles.nsight_compute.reader import NSIGHT_COMPUTE
from rightsizer.profiles.reader import Head


@pytest.mark.parametrize(
    "text",
    [
        "# How to profile\n\n```\n==PROF== Connected to process 4 (train)\n```\n",
        f"~~~ console\n{details_page([('Occupancy', 'Duration', 'ns', '2,000')])}~~~\n",
        "A log begins with\n==PROF== lines, and goes on with the program's own.\n",
        '"ID","Kernel Name","Metric Name","Metric Unit"\nare the titles of such a page.\n',
    ],
)
def test_a_page_that_speaks_of_the_profiler_is_none(text: str) -> None:
    """Covers quoted lines, similar beginnings, and titles without rows."""
    assert not NSIGHT_COMPUTE.recognizes(Head("README.md", text.encode()))


def test_a_log_without_a_table_is_the_profilers_by_its_own_lines() -> None:
    """The run failed, or megabytes of the program's output precede the table."""
    for line in ("==PROF== Connected to process 4 (train)", "==ERROR== ERR_NVGPUCTRPERM - no"):
        assert NSIGHT_COMPUTE.recognizes(Head("x.log", f"epoch 1\n{line}\n".encode()))
