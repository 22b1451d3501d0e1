"""Checks of the driver: device files, NVML, profiling counters, processes on GPUs."""

import os
from collections import Counter
from typing import Final

from rightsizer.accounting.signals import tier_of
from rightsizer.agent.doctor.check import Check, CheckContext, Verdict, failed_check
from rightsizer.model.values import Missing, Reading, Signal, Snapshot, Tier
from rightsizer.telemetry.nvml.collectors import COLLECTORS

_COLLECTORS: Final = sorted({"xid", *(collector.reported_name for collector in COLLECTORS)})
_BASICS: Final = (Signal.GPU_BUSY, Signal.MEMORY_USED_BYTES, Signal.POWER_WATTS)
_COUNTER_REMEDIES: Final = {
    Missing.NOT_SUPPORTED: "boards before Hopper have none in NVML: run a dcgm-exporter and set "
    "sources.dcgm.url",
    Missing.NO_PERMISSION: "load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0",
    Missing.RELEASED: "take them back with 'rightsizer resume'",
}


def check_device_files(context: CheckContext) -> Check:
    """Whether the driver's device files exist and are open to this user."""
    name = "device files"
    if context.is_simulated:
        return Check(name, Verdict.UNUSED, "the GPUs are simulated")
    paths = [context.devices / "nvidiactl", *sorted(context.devices.glob("nvidia[0-9]*"))]
    present = [path for path in paths if path.exists()]
    if not present and context.snapshot.readings:  # WSL2: its driver opens /dev/dxg.
        return Check(name, Verdict.UNUSED, "the GPUs are read without any")
    if not present:
        return failed_check(name, Verdict.MISSING, "absent", f"there is no {paths[0]}")
    if closed := [path.name for path in present if not os.access(path, os.R_OK | os.W_OK)]:
        verdict = Verdict.LIMITED if len(closed) < len(present) else Verdict.MISSING
        text = f"closed to user {os.geteuid()}: {', '.join(closed)}"
        return failed_check(name, verdict, "closed", text)
    return Check(name, Verdict.OK, ", ".join(path.name for path in present))


def check_driver(context: CheckContext) -> Check:
    """Whether NVML can be loaded and opened, and finds GPUs."""
    snapshot = context.snapshot
    if snapshot.trouble is not None:
        # The message ends with its own remedy.
        return failed_check("driver", Verdict.MISSING, "absent", snapshot.trouble)
    version = snapshot.driver.get("driver_version", "of unknown version")
    observation = f"driver {version}, devices: {len(snapshot.devices)}"
    if snapshot.down:
        reasons = "; ".join(sorted({down.detail for down in snapshot.down.values()}))
        observation += f", of which down: {len(snapshot.down)} ({reasons})"
        return failed_check("driver", Verdict.LIMITED, "down", observation)
    outcomes = ((name, snapshot.collectors.get(name)) for name in _COLLECTORS)
    if failing := [
        f"{name} ({outcome.failure})" for name, outcome in outcomes if outcome and outcome.failure
    ]:
        observation += f"; failing: {', '.join(failing)}"
        return failed_check("driver", Verdict.LIMITED, "failing", observation)
    if absent := _unsupported_basics(snapshot):
        observation += f"; not supported: {absent}"
        return failed_check("driver", Verdict.LIMITED, "unsupported", observation)
    return Check("driver", Verdict.OK, observation)


def _unsupported_basics(snapshot: Snapshot) -> str:
    """Basic signals that undivided GPUs do not have, each with the number of these GPUs."""
    whole = (
        device for device in snapshot.devices if device.mig is None and not device.has_mig_instances
    )
    readings = [reading for device in whole if (reading := snapshot.readings.get(device.uuid))]
    absent = Counter(
        signal
        for reading in readings
        for signal in _BASICS
        if reading.why_missing(signal) is Missing.NOT_SUPPORTED
    )
    return ", ".join(f"{signal} (GPUs: {count})" for signal, count in absent.items())


def check_counters(context: CheckContext) -> Check:
    """Tiers of evidence that the readings allow: profiling counters, power, utilization alone."""
    name = "profiling counters"
    readings = context.snapshot.readings.values()
    if not readings:
        return failed_check(name, Verdict.MISSING, "absent", "no GPU was read", remedies="")
    tiers = Counter(map(_tier, readings))
    observation = ", ".join(f"{tier}: {count}" for tier, count in sorted(tiers.items()))
    if set(tiers) == {Tier.PROFILING}:
        return Check(name, Verdict.OK, f"devices by tier: {observation}")
    missing = {
        reading.missing.get(Signal.SM_ACTIVE, Missing.NOT_READ)
        for reading in readings
        if _tier(reading) is not Tier.PROFILING
    }
    remedies = sorted(
        _COUNTER_REMEDIES[reason] for reason in missing if reason in _COUNTER_REMEDIES
    )
    observation = f"devices by tier: {observation} ({', '.join(sorted(missing))})"
    return failed_check(name, Verdict.LIMITED, "absent", observation, remedies="; ".join(remedies))


def _tier(reading: Reading) -> Tier:
    """Tier of a raw reading once accounting has added its share of the power limit."""
    tier = tier_of(reading.values)
    return Tier.POWER if tier is Tier.BASIC and Signal.POWER_WATTS in reading.values else tier


def check_gpu_processes(context: CheckContext) -> Check:
    """Whether the driver lists the processes on each GPU, and whether procfs shows them."""
    name = "processes on GPUs"
    readings = context.snapshot.readings.values()
    processeses = [reading.processes for reading in readings if reading.processes is not None]
    if len(processeses) < len(readings) or not readings:
        detail = (
            f"known on {len(processeses)} of {len(readings)} devices" if readings else "no devices"
        )
        return failed_check(
            name, Verdict.LIMITED if processeses else Verdict.MISSING, "untold", detail
        )
    pids = {process.pid for processes in processeses for process in processes}
    if context.is_simulated:
        return Check(name, Verdict.OK, f"processes: {len(pids)}, simulated")
    if hidden := sorted(pid for pid in pids if not (context.procfs / str(pid)).exists()):
        detail = f"not in {context.procfs}: {len(hidden)} of {len(pids)}"
        return failed_check(name, Verdict.LIMITED, "hidden", detail)
    return Check(name, Verdict.OK, f"processes: {len(pids)}")
