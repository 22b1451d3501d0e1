"""Judges faulty hardware while no file can be opened, as after an upgrade of the package.

A program of its own, since an audit hook stays.
"""

import sys
from collections.abc import Sequence

from cases import case, window
from readings import workload
from rightsizer.advice.rules.hardware_unhealthy import RULE
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.signal import Signal
from rightsizer.model.state import State
from standing_cases import around


def _refuse(event: str, arguments: Sequence[object]) -> None:
    if event == "open":
        raise FileNotFoundError(arguments[0])


def main() -> None:
    """Print the severity and the commands of an uncorrected memory error."""
    judged = case([window({State.PRODUCTIVE: 10})], workload())
    judged = around(judged, {"GPU-0": {Signal.ECC_UNCORRECTED_ERRORS: 1}})
    built_in()  # An agent reads the boards with its first GPU.
    sys.addaudithook(_refuse)
    finding = RULE.judge(judged)
    print(finding.severity, *(instruction.text for instruction in finding.instructions))


if __name__ == "__main__":
    main()
