"""The table of faults, in the order of the document."""

from collections.abc import Sequence
from typing import Final

from benchmarks.reliability.call_faults import call_faults
from benchmarks.reliability.clock_faults import clock_faults
from benchmarks.reliability.dcgm_faults import dcgm_faults
from benchmarks.reliability.disk_faults import disk_faults
from benchmarks.reliability.driver_faults import driver_faults
from benchmarks.reliability.fault import Fault
from benchmarks.reliability.limit_faults import limit_faults
from benchmarks.reliability.log_faults import log_faults
from benchmarks.reliability.owner_faults import owner_faults
from benchmarks.reliability.page_faults import page_faults
from benchmarks.reliability.process_faults import ending_faults, process_faults
from benchmarks.reliability.server_faults import server_faults

FAULTS: Final[Sequence[Fault]] = tuple(
    fault
    for faults in (
        driver_faults,
        disk_faults,
        call_faults,
        log_faults,
        process_faults,
        limit_faults,
        ending_faults,
        clock_faults,
        owner_faults,
        page_faults,
        server_faults,
        dcgm_faults,
    )
    for fault in faults()
)
