"""Program that reads one profile, and prints its CPU time and peak memory.

With `hta` as its second argument, HolisticTraceAnalysis reads it in place of Rightsizer.
"""

import json
import resource
import sys
import time
from pathlib import Path

from process import memory_mebibytes


def main(path: Path, reader: str) -> None:
    """Read it."""
    started = time.process_time()
    events = 0
    if reader == "hta":
        from hta.trace_analysis import TraceAnalysis  # noqa: PLC0415 - of another environment.

        imported = memory_mebibytes()
        analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(path.parent))
        analysis.get_idle_time_breakdown(visualize=False)
    else:
        from rightsizer.profiles.limits import ReadLimits  # noqa: PLC0415 - the same.
        from rightsizer.profiles.registry import open_profile  # noqa: PLC0415 - timed as well.

        imported = memory_mebibytes()
        events = open_profile(path, ReadLimits()).events
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    theirs = children.ru_utime + children.ru_stime
    json.dump(
        {
            "events": events,
            "seconds": time.process_time() - started + theirs,
            "mebibytes": max(memory_mebibytes(key="VmHWM"), children.ru_maxrss / 1024),
            "imported_mebibytes": imported,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
