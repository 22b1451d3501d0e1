"""A real scheduler in a process with steps of its wall clock by hours and decades."""

import os
import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pytest

from agent_process import eventually

SOURCE: Final = Path(__file__).with_name("set_clock.c")
PROGRAM: Final = Path(__file__).parents[1] / "support" / "ticking_jobs.py"
HOUR: Final = 3600
STEPS: Final = (6 * HOUR, -12 * HOUR, 56 * 365 * 24 * HOUR, -56 * 365 * 24 * HOUR)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wall clock that replaces the system's."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make a clock with")
    target = tmp_path_factory.mktemp("clock") / "set_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", target, SOURCE, "-ldl"], check=True)
    return target


def test_jobs_go_on_whichever_way_the_clock_is_set(library: Path, tmp_path: Path) -> None:
    """Forward and back, by hours and by decades: each next run is within seconds, once."""
    shift = tmp_path / "shift"
    shift.write_bytes(struct.pack("l", 0))
    environment = {**os.environ, "LD_PRELOAD": str(library), "CLOCK_SHIFT": str(shift)}
    ran: list[int] = []
    with subprocess.Popen(
        [sys.executable, str(PROGRAM)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        # Beside the runs it logs that it corrected its schedule.
        counts = (int(line) for line in process.stdout if line.strip().isdigit())
        reader = threading.Thread(target=ran.extend, args=(counts,))
        reader.start()
        try:
            eventually(lambda: ran)
            total = 0
            for step in STEPS:
                total += step
                with shift.open("r+b") as file:
                    file.write(struct.pack("l", total))
                before = len(ran)
                eventually(lambda before=before: len(ran) >= before + 3)
        finally:
            process.kill()
            reader.join()

    assert max(ran) - min(ran) > 50 * 365 * 24 * HOUR
    assert len(ran) < 60
