"""Print HolisticTraceAnalysis's breakdown of traces, a JSON line each: `hta_breakdown.py PATH...`.

Runs in the environment described by tests/profilers/peers.txt. Times are whole microseconds, as in
its output; idle causes are sums over streams, not those of the device.
"""

import json
import logging
import sys
from pathlib import Path

from hta.trace_analysis import TraceAnalysis


def breakdown(path: Path) -> dict[str, float]:
    """Breakdown of one trace, including its last step."""
    analysis = TraceAnalysis(
        trace_files={0: str(path)}, trace_dir=str(path.parent), include_last_profiler_step=True
    )
    (temporal,) = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
    idle, _ = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    seconds = {name: float(value) for name, value in temporal.items() if "time" in name}
    for row in idle.to_dict("records"):
        cause = str(row["idle_category"])
        seconds[cause] = seconds.get(cause, 0.0) + float(row["idle_time"])
    (overlap,) = analysis.get_comm_comp_overlap(visualize=False).to_dict("records")
    return seconds | {"overlap_percent": float(overlap["comp_comm_overlap_pctg"])}


def main(paths: list[str]) -> None:
    """Print a line for each trace, and suppress other output."""
    logging.disable()
    for path in paths:
        try:
            answer = breakdown(Path(path))
        except Exception as error:  # noqa: BLE001 - whatever a trace makes it stumble over.
            answer = {"error": f"{type(error).__name__}: {error}"[:80].strip(": ")}
        print(f"\nTOLD {json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
