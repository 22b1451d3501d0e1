"""The driver: its device files, NVML, profiling counters, processes that hold a GPU."""

import os
from collections import Counter
from typing import Final

from rightsizer.accounting.signals import tier_of
from rightsizer.agent.doctor.check import Check, CheckContext, Verdict
from rightsizer.model.reading import Missing, Reading
from rightsizer.model.signal import Signal
from rightsizer.model.state import Tier

_EVERYTHING: Final = "all readings of GPUs"
_PIPES: Final = "pipe and memory activity: advice then rests on power and utilization"
_COUNTER_REMEDIES: Final = {
    Missing.NOT_SUPPORTED: "boards before Hopper have none in NVML: run a dcgm-exporter and set "
    "sources.dcgm.url",
    Missing.NO_PERMISSION: "load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0",
    Missing.RELEASED: "take them back with 'rightsizer resume'",
}


def check_device_files(place: CheckContext) -> Check:
    """Whether the driver's device files are there and open to this user."""
    name = "device files"
    if place.is_simulated:
        return Check(name, Verdict.UNUSED, "the GPUs are simulated")
    found = [place.devices / "nvidiactl", *sorted(place.devices.glob("nvidia[0-9]*"))]
    present = [path for path in found if path.exists()]
    if not present:
        return Check(
            name,
            Verdict.MISSING,
            f"there is no {found[0]}",
            _EVERYTHING,
            "install and load the NVIDIA driver; in a container use the NVIDIA runtime; let "
            "nvidia-persistenced or 'nvidia-modprobe -u -c 0' make the files before the start",
        )
    closed = [path.name for path in present if not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        return Check(
            name,
            Verdict.LIMITED if len(closed) < len(present) else Verdict.MISSING,
            f"closed to user {os.geteuid()}: {', '.join(closed)}",
            "all readings of these GPUs",
            "give the files to this user's group (NVreg_DeviceFileGID, NVreg_DeviceFileMode), and "
            "let DeviceAllow= name them",
        )
    return Check(name, Verdict.OK, ", ".join(path.name for path in present))


def check_driver(place: CheckContext) -> Check:
    """Whether NVML can be loaded, opened, and offers GPUs."""
    snapshot = place.snapshot
    if snapshot.trouble is not None:
        # Its words end with what to do.
        return Check("driver", Verdict.MISSING, snapshot.trouble, _EVERYTHING)
    version = snapshot.driver.get("driver_version", "of unknown version")
    found = f"driver {version}, devices: {len(snapshot.devices)}"
    if snapshot.down:
        reasons = "; ".join(sorted({down.detail for down in snapshot.down.values()}))
        return Check(
            "driver",
            Verdict.LIMITED,
            f"{found}, of which down: {len(snapshot.down)} ({reasons})",
            "all readings of those",
            "see 'nvidia-smi' and 'dmesg' for their reason",
        )
    return Check("driver", Verdict.OK, found)


def check_counters(place: CheckContext) -> Check:
    """What the readings allow to be claimed: profiling counters, power, or utilization alone."""
    name, readings = "profiling counters", place.snapshot.readings.values()
    if not readings:
        return Check(name, Verdict.MISSING, "no GPU was read", _PIPES)
    tiers = Counter(map(_tier, readings))
    found = ", ".join(f"{tier}: {count}" for tier, count in sorted(tiers.items()))
    if set(tiers) == {Tier.PROFILING}:
        return Check(name, Verdict.OK, f"devices by tier: {found}")
    missing = {
        reading.missing.get(Signal.SM_ACTIVE, Missing.NOT_READ)
        for reading in readings
        if _tier(reading) is not Tier.PROFILING
    }
    return Check(
        name,
        Verdict.LIMITED,
        f"devices by tier: {found} ({', '.join(sorted(missing))})",
        _PIPES,
        "; ".join(sorted(_COUNTER_REMEDIES[each] for each in missing if each in _COUNTER_REMEDIES)),
    )


def _tier(reading: Reading) -> Tier:
    """What a raw reading will allow to be claimed, once accounting has its share of the power."""
    tier = tier_of(reading.values)
    return Tier.POWER if tier is Tier.BASIC and Signal.POWER_WATTS in reading.values else tier


def check_gpu_processes(place: CheckContext) -> Check:
    """Whether the driver tells which processes hold a GPU, and whether procfs shows them."""
    name = "processes on GPUs"
    lost = "whose a GPU is, and idle_held apart from idle_empty"
    readings = place.snapshot.readings.values()
    known = [reading.processes for reading in readings if reading.processes is not None]
    if len(known) < len(readings) or not readings:
        told = f"told for {len(known)} of {len(readings)} devices"
        return Check(name, Verdict.LIMITED if known else Verdict.MISSING, told, lost)
    pids = {process.pid for processes in known for process in processes}
    if place.is_simulated:
        return Check(name, Verdict.OK, f"processes: {len(pids)}, simulated")
    hidden = sorted(pid for pid in pids if not (place.procfs / str(pid)).exists())
    if hidden:
        return Check(
            name,
            Verdict.LIMITED,
            f"not in {place.procfs}: {len(hidden)} of {len(pids)}",
            lost,
            "share the host's process namespace (hostPID: true, --pid=host), or mount its procfs "
            "and set path.procfs",
        )
    return Check(name, Verdict.OK, f"processes: {len(pids)}")
