"""Query NVIDIA's aiconfigurator for a table's rows, a JSON line each: `... TABLE.csv`.

Runs in the environment described by tests/profilers/planners.txt. Times are milliseconds; a row
without an answer has the reason.
"""

import csv
import json
import logging
import sys
from pathlib import Path
from typing import Final

from aiconfigurator.cli.api import cli_estimate

_NAMES: Final = {
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
}
"""Models that it knows by a public name of the same shape, so that it queries no hub."""


def estimate(row: dict[str, str]) -> dict[str, float]:
    """Answer for one row, with its own defaults for unspecified values."""
    found = cli_estimate(
        _NAMES.get(row["model_path"], row["model_path"]),
        row["system"],
        backend_name=row["backend"],
        isl=int(row["isl"]),
        osl=int(row["osl"]),
        batch_size=int(row["batch_size"]),
        tp_size=int(row["tp_size"]),
        pp_size=int(row["pp_size"]),
        gemm_quant_mode=row["gemm_quant_mode"] or row["precision"] or None,
        moe_quant_mode=row["moe_quant_mode"] or None,
        kvcache_quant_mode="fp8" if row["model_path"].startswith("nvidia/") else None,
    )
    return {"ttft_ms": float(found.ttft), "tpot_ms": float(found.tpot)}


def main(path: str) -> None:
    """Print a line for each row, and suppress other output."""
    logging.disable()
    with Path(path).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            try:
                answer: dict[str, float | str] = dict(estimate(row))
            except Exception as error:  # noqa: BLE001 - whatever a row makes it stumble over.
                answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:80]}
            print(f"\nTOLD {json.dumps({'id': row['id'], **answer})}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
