"""A Prometheus with what recording rules would have recorded of its past, by promtool itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from prometheus_server import Prometheus, prometheus_server, promtool, scrape_config

__all__ = ["laid_out", "recording"]


def laid_out(past: str, data: Path) -> None:
    """Make blocks of OpenMetrics with timestamps."""
    text = data.parent / "past.txt"
    text.write_text(past)
    done = promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", text, data)
    assert not done.returncode, done.stderr


_BLOCK_SECONDS: Final = 18 * 3600
"""One of every rule and that time; promtool's own would be of two hours, and take their time."""


@contextmanager
def recording(data: Path, rules: str, start: float, end: float) -> Iterator[Prometheus]:
    """A server over a folder of blocks, with rules evaluated for a while.

    Each group is evaluated at moments of its own, as it is by a ruler.
    """
    file = data.parent / "rules.yaml"
    file.write_text(rules)
    with prometheus_server(scrape_config(), data=data) as server:
        done = promtool(
            "tsdb",
            "create-blocks-from",
            "rules",
            "--quiet",
            f"--url={server.url}",
            f"--start={int(start)}",
            f"--end={int(end)}",
            f"--output-dir={data}",
            f"--max-block-duration={_BLOCK_SECONDS}s",
            file,
        )
        assert not done.returncode, done.stderr
    with prometheus_server(scrape_config(), data=data) as server:
        yield server
