"""Nsight Systems' own reports, which only its own program can read."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rightsizer.domain.errors import ProfileError
from rightsizer.profiles.reader import ReadLimits

__all__ = ["exported"]

PROGRAM: Final = "nsys"


@contextmanager
def exported(path: Path, limits: ReadLimits) -> Iterator[Path]:
    """A SQLite export of a report, there until the block ends.

    Raises:
        ProfileError: `nsys` is not installed, fails, or takes too long.
    """
    program = shutil.which(PROGRAM)
    by_hand = f"nsys export --type sqlite {path.name}"
    if program is None:
        raise ProfileError(
            f"{path.name}: a report that only Nsight Systems can read, and `{PROGRAM}` is not on "
            f"PATH; run `{by_hand}` where it is installed and name the file that it writes"
        )
    # The export holds the environment of the profiled program: for this user alone, and not long.
    with tempfile.TemporaryDirectory(prefix="rightsizer-") as folder:
        target = Path(folder) / "export.sqlite"
        words = [program, "export", "--type", "sqlite", "--output", str(target)]
        status = _run([*words, str(path.absolute())], limits.export_maximum_seconds)
        if status is None:
            raise ProfileError(
                f"{path.name}: `{PROGRAM} export` was not done after "
                f"{limits.export_maximum_seconds:g} seconds; run `{by_hand}` by hand and name the "
                "file that it writes"
            )
        if status or not target.is_file():
            raise ProfileError(
                f"{path.name}: `{PROGRAM} export` failed with exit code {status}; run `{by_hand}` "
                "by hand to see why, with a version no older than the one that wrote the report"
            )
        yield target


def _run(words: list[str], maximum_seconds: float) -> int | None:
    """The exit code; `None` where it took too long and was ended, with all that it had started."""
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 - a list of words, no shell.
        words, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True
    ) as process:
        try:
            return process.wait(maximum_seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
