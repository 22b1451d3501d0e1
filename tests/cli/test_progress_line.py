"""The progress line of a long command on a terminal."""

import io
from collections.abc import Iterator

from rightsizer.console.progress import ProgressLine


def shown(*calls: tuple[float, str, int, int]) -> list[str]:
    """The line after each call: a time, a stage, done and total."""
    times: Iterator[float] = iter([call[0] for call in calls])
    terminal = io.StringIO()
    lines = []
    with ProgressLine(terminal, lambda: next(times)) as progress:
        for _, stage, done, total in calls:
            progress(stage, done, total)
            lines.append(terminal.getvalue().rpartition("\r\x1b[K")[2])
    assert terminal.getvalue().endswith("\r\x1b[K"), "it is erased in the end"
    return lines


def test_rate_and_time_left_are_of_the_stage() -> None:
    """From a stage's second second on; another stage begins without them."""
    first, later, other = shown(
        (0.0, "reading", 0, 3000), (2.0, "reading", 1000, 3000), (3.0, "judging", 1, 4)
    )

    assert first == f"reading    [{'.' * 30}] 0/3,000"
    assert later == f"reading    [{'#' * 10}{'.' * 20}] 1,000/3,000, 500/s, 4 s left"
    assert other == f"judging    [{'#' * 7}{'.' * 23}] 1/4"


def test_it_is_drawn_a_few_times_a_second_and_at_the_end() -> None:
    """A terminal is slow; the last state is always shown."""
    lines = shown((0.0, "a", 0, 9), (0.01, "a", 5, 9), (0.02, "a", 9, 9))

    assert [line.rpartition(" ")[2] for line in lines] == ["0/9", "0/9", "9/9"]
