"""Cases that a rule cannot judge.

Shared GPUs, media engines at work, a host that is not observed.
"""

from collections.abc import Collection
from typing import Final

from rightsizer.advice.verdict import abstain
from rightsizer.model.finding import Case, Finding, Reason
from rightsizer.model.signal import Signal


def is_shared(case: Case) -> bool:
    """Whether others hold a part of its GPUs: their size is then not one workload's affair."""
    if case.node is None:
        return False
    return any(len(case.node.holdings.get(device.uuid, ())) > 1 for device in case.devices)


_ENGINES: Final = (Signal.ENCODER, Signal.DECODER, Signal.JPEG, Signal.OFA)
_LEAST_RATIO: Final = 0.05
"""Below it is noise of the driver's."""


def works_on_media(case: Case) -> bool:
    """Whether the engines for video and pictures were busy just now on any of the GPUs.

    A smaller board, or a slice, may have none of them, whatever room its SMs have.
    """
    if case.node is None:
        return False
    readings = [case.node.readings.get(device.uuid) for device in case.devices]
    return any(
        (reading.get(engine) or 0.0) >= _LEAST_RATIO
        for reading in readings
        if reading is not None
        for engine in _ENGINES
    )


def abstain_unobserved(found: Finding, case: Case, signals: Collection[Signal]) -> Finding:
    """What was found, unless none of the signals that it takes is read on this node.

    Args:
        found: That there is nothing to complain of, or that nobody can tell.
        case: What was judged.
        signals: Any one of which is enough.
    """
    readings = case.node.readings if case.node else {}
    own = [readings[device.uuid] for device in case.devices if device.uuid in readings]
    is_blind = own and not any(signal in each.values for each in own for signal in signals)
    if found.abstained is not None or not is_blind or _was_seen(found):
        return found
    names = " and ".join(str(signal) for signal in signals)
    why = f"the host is not observed: no {names} of the workload"
    return abstain(found.rule, case, Reason.UNSUPPORTED_TELEMETRY, why)


def _was_seen(found: Finding) -> bool:
    shares = found.evidence.get("active_share_ratio")
    return isinstance(shares, dict) and any(shares.values())
