"""Whether anybody looked at the host: without it, GPUs that wait for it look merely unused."""

from collections.abc import Collection

from rightsizer.advice.verdict import abstain
from rightsizer.domain.finding import Case, Finding, Reason
from rightsizer.domain.signal import Signal

__all__ = ["abstain_unseen"]


def abstain_unseen(found: Finding, case: Case, signals: Collection[Signal]) -> Finding:
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
