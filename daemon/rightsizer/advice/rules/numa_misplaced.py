"""Processes, or their memory, on another NUMA node than the GPU that they feed."""

from collections.abc import Sequence
from typing import Final

from rightsizer.advice.board_status import board_statuses, board_uuid
from rightsizer.advice.market import Market
from rightsizer.advice.observation import TimeShare, minimum_known, observe, on_ratio
from rightsizer.advice.operator_commands import binding_instructions, home_of
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import abstain, complain
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, Finding, FindingKind, Reason, Risk, Savings
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition
from rightsizer.owners.owner import NumaHome

NAME: Final = "numa_misplaced"
_NEEDED: Final = (Signal.CPU_AFFINITY_LOCAL, Signal.HOST_MEMORY_LOCAL)


@dataclass(frozen=True, slots=True)
class NumaMisplacedSettings:
    """From when on a far NUMA node is a finding."""

    on_ratio: float = on_ratio(
        0.3,
        "Share of the span in which data must go over another NUMA node.",
        "assumed; traffic comes in bursts, and the condition holds only while it flows",
    )
    minimum_known_seconds: float = minimum_known()
    lost_ratio: float = setting(
        0.1,
        help="Part of a GPU that such a way is taken to cost, for the finding's severity.",
        source="assumed; copies over the link between sockets are slower, kernels are not",
    )
    conduct: OpeningPolicy = field(default_factory=OpeningPolicy)


def judge(case: Case, settings: NumaMisplacedSettings, market: Market) -> Finding:
    """Whether the workload's data takes the way over another NUMA node, and where it belongs."""
    del market
    why = _why_not(case)
    if why is not None:
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    seen = observe(
        NAME,
        case,
        settings,
        {window.uuid: window.condition_share(Condition.NUMA_MISPLACED) for window in case.windows},
        "fed from another NUMA node",
        why_unsupported="without telemetry of the traffic nobody can tell whether it matters",
        evidence_name="numa_misplaced_ratio",
    )
    if isinstance(seen, Finding):
        return seen
    homes = [home for device in seen.devices if (home := home_of(case, device)) is not None]
    if not homes:
        why = "the GPU's NUMA node is not known, so nobody can say where its processes belong"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    return _complaint(case, seen, homes, settings)


def _why_not(case: Case) -> str | None:
    if not board_statuses(case):
        return "only a history is known, not where GPUs and processes are"
    if any(window.conditions.get(Condition.NUMA_MISPLACED) for window in case.windows):
        return None
    if not any(_is_measured(case, device) for device in case.devices) and not _has_one_node(case):
        return "nobody measures on which NUMA node the processes and their memory are"
    return None


def _is_measured(case: Case, device: Device) -> bool:
    reading = None if case.node is None else case.node.readings.get(device.uuid)
    return reading is not None and any(reading.get(signal) is not None for signal in _NEEDED)


def _has_one_node(case: Case) -> bool:
    topology = None if case.node is None else case.node.topology
    return topology is not None and len(topology.numa_nodes) == 1


def _complaint(
    case: Case, seen: TimeShare, homes: Sequence[NumaHome], settings: NumaMisplacedSettings
) -> Finding:
    return complain(
        NAME,
        case,
        kind=FindingKind.MISPLACED,
        reasons=(Reason.NUMA_MISPLACED,),
        action=Action.REBIND_NUMA,
        summary=f"{seen.summary}; {_belongs(homes)}.",
        factors=seen.factors,
        risk=Risk.LOW,
        evidence=seen.evidence | {"homes": _evidence(case, homes)},
        culprits=tuple(device.uuid for device in seen.devices),
        savings=Savings(reason="a shorter way saves time, not GPUs"),
        instructions=binding_instructions(case, homes),
        affected_gpus=seen.gpus * settings.lost_ratio,
    )


def _belongs(homes: Sequence[NumaHome]) -> str:
    """`GPU 3 belongs to NUMA node 1 (CPUs 28-55)`."""
    parts = []
    for home in homes:
        cpus = f" (CPUs {home.cpus})" if home.cpus else ""
        parts.append(f"GPU {home.device.index} belongs to NUMA node {home.numa_node}{cpus}")
    return ", ".join(parts)


def _evidence(case: Case, homes: Sequence[NumaHome]) -> dict[str, object]:
    readings = {} if case.node is None else case.node.readings
    found: dict[str, object] = {}
    for home in homes:
        uuid = home.device.uuid
        reading = readings.get(uuid) or readings.get(board_uuid(home.device))
        found[uuid] = {
            "numa_node": home.numa_node,
            "cpus": home.cpus,
            "cpus_local_ratio": reading and reading.get(Signal.CPU_AFFINITY_LOCAL),
            "memory_local_ratio": reading and reading.get(Signal.HOST_MEMORY_LOCAL),
            "pids": list(home.pids),
        }
    return found


RULE: Final = Rule(NAME, NumaMisplacedSettings(), judge)
