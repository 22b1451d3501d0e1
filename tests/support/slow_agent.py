"""An agent over a simulated driver with latencies from a file: a program of its own.

The file holds a JSON object: `seconds` that every call takes, `functions` and `gpus` whose calls
take as many instead, `serial` for a driver that serves one call at a time. A GPU whose calls never
end has `null`.
"""

import json
import math
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

from rightsizer.agent import simulated_node
from rightsizer.cli.main import main as rightsizer
from rightsizer.telemetry.nvml.library import use_library
from slow_driver import SlowDriver

_LOOK_SECONDS = 0.05


def latency_of(document: dict[str, Any]) -> Callable[[str, int], float]:
    """Seconds by function and index, from the file; the largest one counts."""
    functions = document.get("functions", {})
    gpus = document.get("gpus", {})

    def latency(name: str, index: int) -> float:
        found = [document.get("seconds", 0.0)]
        if name in functions and (index in document.get("only", []) or "only" not in document):
            found.append(functions[name])
        if str(index) in gpus:
            found.append(gpus[str(index)])
        return math.inf if None in found else max(found)

    return latency


def follow(driver: SlowDriver, file: Path) -> None:
    """Apply the file whenever it changes."""
    known = ""
    while True:
        text = file.read_text()
        if text != known:
            known = text
            document = json.loads(text)
            driver.release()
            driver.is_serial = document.get("serial", False)
            driver.latency = latency_of(document)
        threading.Event().wait(_LOOK_SECONDS)


def slow_simulation(file: Path) -> Callable[..., Any]:
    """What puts a scenario's driver below the bindings, with the latencies of a file around it."""
    simulate = simulated_node.simulate

    def slowly(*arguments: Any) -> Any:
        answer = simulate(*arguments)
        driver = SlowDriver(pynvml.nvmlLib)
        use_library(driver)
        threading.Thread(target=follow, args=(driver, file), daemon=True).start()
        return answer

    return slowly


if __name__ == "__main__":
    simulated_node.simulate = slow_simulation(Path(sys.argv[1]))
    sys.exit(rightsizer(["agent", *sys.argv[2:]]))
