"""Rule: processes, or their memory, on another NUMA node than their GPU."""

from typing import Annotated, Final

from rightsizer.advice.board_status import board_statuses
from rightsizer.advice.instructions import binding_instructions, home_of
from rightsizer.advice.observation import in_condition, observe
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.screen import Screen, SubjectTable, unmeasured
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Case,
    Condition,
    Finding,
    Reason,
    Risk,
    Signal,
    Spec,
)
from rightsizer.owners.owner import NumaHome

_UNKNOWN_NODES: Final = "on which NUMA node the processes and their memory are is not measured"
_NEEDED: Final = (Signal.CPU_AFFINITY_LOCAL, Signal.HOST_MEMORY_LOCAL)


class NumaMisplacedSettings(RuleSettings, frozen=True):
    """Thresholds for processes on the wrong NUMA node.

    Attributes:
        on_ratio: Share of the span with data crossing NUMA nodes.
            Source: assumed; traffic comes in bursts, and the condition holds only while it flows
        lost_ratio: Assumed loss in GPUs, for the finding's severity.
            Source: assumed; copies over the link between sockets are slower, kernels are not
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.3
    lost_ratio: Annotated[float, CONSTANT] = 0.1
    conduct: OpeningPolicy = OpeningPolicy()


def judge(subject: CaseSubject, settings: NumaMisplacedSettings) -> Finding:
    """Whether the workload's data crosses NUMA nodes, and which node it belongs on."""
    case = subject.case
    if why := _why_not(case):
        return subject.abstain(why)
    seen = observe(
        subject,
        settings,
        in_condition(Condition.NUMA_MISPLACED),
        "fed from another NUMA node",
        why_unsupported="without telemetry of the traffic, whether it matters is unknown",
        evidence_name="numa_misplaced_ratio",
    )
    if isinstance(seen, Finding):
        return seen
    homes = [home for device in seen.devices if (home := home_of(case, device)) is not None]
    if not homes:
        return subject.abstain(
            "the GPU's NUMA node is not known, so where its processes belong is unknown"
        )
    belongs = [
        f"{home.device.title} belongs to NUMA node {home.numa_node}"
        + (f" (CPUs {home.cpus})" if home.cpus else "")
        for home in homes
    ]
    return seen.find_problem(
        f"; {', '.join(belongs)}",
        reasons=(Reason.NUMA_MISPLACED,),
        action=Action.REBIND_NUMA,
        risk=Risk.LOW,
        evidence={"homes": {home.device.uuid: _evidence(case, home) for home in homes}},
        culprits=tuple(device.uuid for device in seen.devices),
        savings="local memory saves time, not GPUs",
        instructions=binding_instructions(case, homes),
        affected_gpus=seen.gpus * settings.lost_ratio,
    )


def _why_not(case: Case) -> str:
    """Reason to abstain; empty if a verdict is possible."""
    if (node := case.node) is None or not board_statuses(case):
        return "only a history is known, not where GPUs and processes are"
    if any(window.conditions.get(Condition.NUMA_MISPLACED) for window in case.windows):
        return ""
    readings = [
        node.readings[device.uuid] for device in case.devices if device.uuid in node.readings
    ]
    is_measured = any(reading.get(signal) is not None for reading in readings for signal in _NEEDED)
    if is_measured or (node.topology is not None and len(node.topology.numa_nodes) == 1):
        return ""
    return _UNKNOWN_NODES


def _evidence(case: Case, home: NumaHome) -> dict[str, object]:
    readings = {} if case.node is None else case.node.readings
    reading = readings.get(home.device.uuid) or readings.get(home.device.board_uuid)
    return {
        "numa_node": home.numa_node,
        "cpus": home.cpus,
        "cpus_local_ratio": reading and reading.get(Signal.CPU_AFFINITY_LOCAL),
        "memory_local_ratio": reading and reading.get(Signal.HOST_MEMORY_LOCAL),
        "pids": list(home.pids),
    }


def screen(table: SubjectTable, _: NumaMisplacedSettings) -> Screen:
    """Settle of which subjects the NUMA nodes are not measured."""
    is_seen = table.condition_share(Condition.NUMA_MISPLACED) > 0.0
    yield unmeasured(~is_seen & ~table.reads(*_NEEDED), _UNKNOWN_NODES)


RULE: Final = Rule("numa_misplaced", NumaMisplacedSettings(), judge, screen)
