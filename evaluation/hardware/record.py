"""Runs the labeled workloads on this machine's GPU while the recorders of choice run.

`python evaluation/hardware/record.py FOLDER` writes into the folder: `second.jsonl.gz` and
`tenth.jsonl.gz` (own recordings, by the second and the tenth of it), `labels.csv` (workload, start
and end in seconds since the epoch), and the logs of nvidia-smi of the same time.
"""

import argparse
import csv
import gc
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from evaluation.hardware.workloads import WORKLOADS, Workload

_RIGHTSIZER: Final = (sys.executable, "-m", "rightsizer")
_QUERY: Final = (
    "timestamp,index,uuid,name,pstate,temperature.gpu,temperature.memory,utilization.gpu,"
    "utilization.memory,memory.total,memory.used,memory.free,power.draw,power.draw.instant,"
    "enforced.power.limit,clocks.sm,clocks.mem,clocks.max.sm,clocks_event_reasons.active,"
    "pcie.link.gen.current,pcie.link.width.current,utilization.encoder,utilization.decoder"
)
_RECORDERS: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("", (*_RIGHTSIZER, "record", "{folder}/second.jsonl.gz")),
    ("", (*_RIGHTSIZER, "record", "--interval", "100ms", "{folder}/tenth.jsonl.gz")),
    ("query.csv", ("nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv", "-l", "1")),
    ("dmon.txt", ("nvidia-smi", "dmon", "-s", "pucvmet", "-o", "DT", "-d", "1")),
)
_STOP_SECONDS: Final = 20.0


@contextmanager
def _recorders(folder: Path) -> Iterator[None]:
    with ExitStack() as stack:
        running = []
        for output, command in _RECORDERS:
            argv = [part.replace("{folder}", str(folder)) for part in command]
            if shutil.which(argv[0]) is None:
                continue
            text = stack.enter_context((folder / (output or "record.log")).open("ab"))
            running.append(subprocess.Popen(argv, stdout=text, stderr=text))
        try:
            yield
        finally:
            for process in running:
                process.send_signal(signal.SIGINT)
            for process in running:
                try:
                    process.wait(_STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()


def _run(workload: Workload, seconds: float, labels: Path, torch: Any) -> None:
    """Run one workload in a process of its own, and append its label."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setpgid(0, 0)
        step = workload.prepare(torch)
        step()
        torch.cuda.synchronize()
        began = time.time()
        steps = 0
        while time.time() < began + seconds:
            step()
            steps += 1
        torch.cuda.synchronize()
        with labels.open("a", newline="") as file:
            csv.writer(file).writerow([workload.name, f"{began:.3f}", f"{time.time():.3f}", steps])
    except Exception:  # noqa: BLE001 - the other workloads go on.
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        os._exit(0)


def main(arguments: Sequence[str]) -> int:
    """Record; a failing workload is printed and left out of the labels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=18.0, help="of each workload")
    parser.add_argument("--gap-seconds", type=float, default=2.5, help="between two workloads")
    parser.add_argument("--only", nargs="*", default=(), help="names of workloads (default: all)")
    asked = parser.parse_args(arguments)
    asked.folder.mkdir(parents=True, exist_ok=True)
    import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - not to check.

    labels = asked.folder / "labels.csv"
    labels.write_text("workload,start,end,steps\n")
    gc.freeze()
    with _recorders(asked.folder):
        time.sleep(asked.gap_seconds + 3)
        for workload in WORKLOADS:
            if asked.only and workload.name not in asked.only:
                continue
            _run(workload, asked.seconds, labels, torch)
            time.sleep(asked.gap_seconds)
    print(labels.read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
