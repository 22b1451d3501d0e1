"""A program in place of a profiler: writes a real profile, or misbehaves as told.

Its arguments: the folder, a name for the file, the duration, and the behavior.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from profile_traces import KinetoTrace

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
FOREVER_SECONDS = 600.0


def trace_of(loader_seconds: float = 0.003) -> KinetoTrace:
    """Four steps on an H100 now, each with a wait for the loader and thirty kernels."""
    loads = loader_seconds * 1e6
    trace = KinetoTrace(
        baseTimeNanoseconds=time.time_ns(),
        deviceProperties=[
            {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_899_345_920}
        ],
    )
    correlation = 0
    for number in range(4):
        begin = 1000.0 + number * (loads + 3000.0)
        trace.annotation(f"ProfilerStep#{number}", begin, loads + 3000.0)
        trace.annotation(LOADER, begin, loads)
        for each in range(30):
            correlation += 1
            start = begin + loads + each * 100.0
            trace.launch(correlation, start, 3.0)
            trace.kernel("void work<float>()", start + 4.0, 95.0, correlation=correlation)
    return trace


def main(folder: str, name: str, seconds: str, behavior: str = "well") -> None:
    """Record with the given behavior."""
    place = Path(folder)
    print(f"records process {name}", flush=True)
    (place.parent / ".started").touch()
    if behavior == "hangs":
        time.sleep(FOREVER_SECONDS)
    if behavior == "forks":
        child = subprocess.Popen(
            [sys.executable, "-c", f"import time; time.sleep({FOREVER_SECONDS})"]
        )
        (place.parent / ".child").write_text(str(child.pid))
        time.sleep(FOREVER_SECONDS)
    if behavior == "fills":
        with (place / "huge").open("wb") as file:
            for _ in range(64):
                file.write(bytes(2**20))
                file.flush()
        time.sleep(FOREVER_SECONDS)
    if behavior == "fails":
        print("no GPU", "\x1b[31m", "x" * 100_000)
        sys.exit(3)
    if behavior == "tells":
        (place / "environment").write_text("\n".join(f"{k}={v}" for k, v in os.environ.items()))
        (place / "input").write_text(repr(sys.stdin.read()))
    time.sleep(float(seconds))
    trace_of().write(place, f"trace_{name}.pt.trace.json.gz")


if __name__ == "__main__":
    main(*sys.argv[1:])
