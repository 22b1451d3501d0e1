"""NVIDIA's aiconfigurator asked for rows of a table, a line of JSON each: `... TABLE.csv`.

Run by the environment that tests/profilers/planners.txt describes. Times are milliseconds; a row
that it cannot answer has its reason.
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
"""Of models whose shape it has under another name, so that it need not ask a hub."""


def estimate(row: dict[str, str]) -> dict[str, float]:
    """What it says of one row, by its own defaults wherever the row does not say."""
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
    """A line for each row, whatever it prints itself in between."""
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
