"""Rule: GPUs that wait for their PCIe link, and whether that link is degraded."""

from typing import Annotated, Final

from rightsizer.advice.board_status import metrics_of
from rightsizer.advice.instructions import instruction, nvidia_smi_id, trace_kernels
from rightsizer.advice.observation import (
    Bottleneck,
    BottleneckSettings,
    active_share,
    screen_observed,
)
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.screen import Screen, SubjectTable, too_little, unmeasured
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Condition,
    Finding,
    Instruction,
    Reason,
    Resource,
    Signal,
    State,
    WorkloadClass,
)

_LINK: Final = Bottleneck(State.PCIE_BOUND, Reason.PCIE_BOUND, "held up by copies over PCIe")


class PcieBoundSettings(BottleneckSettings, frozen=True):
    """Thresholds for PCIe limits.

    Attributes:
        degraded_ratio: Share of active time with a degraded link from which that is reported too.
            Source: as for throttling: a tenth of the time
    """

    degraded_ratio: Annotated[float, CONSTANT] = 0.1


_TRAFFIC: Final = (Signal.PCIE_RECEIVE_BYTES_PER_SECOND, Signal.PCIE_TRANSMIT_BYTES_PER_SECOND)
_LINK_QUERY: Final = (
    "--format=csv --query-gpu="
    "pcie.link.gen.gpucurrent,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max"
)
_CONFIRM: Final = trace_kernels(
    "List the copies, and whether their memory is pageable",
    "copies",
    "cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum",
)


def judge(subject: CaseSubject, settings: PcieBoundSettings) -> Finding:
    """Whether a GPU of the workload waits for copies between host and GPU."""
    case = subject.case
    seen = _LINK.find(subject, settings)
    if isinstance(seen, Finding):
        is_blind = not any(Resource.PCIE in window.demands for window in case.windows)
        is_well = seen.abstained is None and not any(
            w.share(State.PCIE_BOUND) for w in case.windows
        )
        if is_blind and is_well:
            return subject.abstain(_unseen_traffic())
        return seen
    slow = {
        window.uuid: active_share(
            window,
            window.conditions.get(Condition.PCIE_LINK_DEGRADED, 0),
            settings.minimum_active_seconds,
        )
        for window in case.windows
    }
    degraded = [device for device in seen.devices if slow[device.uuid] >= settings.degraded_ratio]
    is_serving = case.workload_class is WorkloadClass.SERVING
    return _LINK.find_problem(
        seen,
        f"; the link of {names_of(degraded)} runs below what it could" if degraded else "",
        action=Action.FIX_INPUT_PIPELINE,
        instructions=(
            *(
                Instruction(
                    f"Compare the link of {device.title} with what it could be, under load",
                    f"nvidia-smi --id={nvidia_smi_id(device.board_uuid)} {_LINK_QUERY}",
                    "sh",
                )
                for device in degraded
            ),
            _CONFIRM,
            instruction("keep_on_gpu" if is_serving else "copy_less"),
        ),
        reasons=(Reason.PCIE_LINK_DEGRADED,) if degraded else (),
        evidence={"degraded_link": [device.uuid for device in degraded]},
    )


def screen(table: SubjectTable, settings: PcieBoundSettings) -> Screen:
    """Settle which subjects do not wait for copies."""
    least = settings.minimum_active_seconds
    waits = table.share(State.PCIE_BOUND)
    is_blind = ~table.has_demand(Resource.PCIE) & (waits <= 0.0)
    yield from screen_observed(
        table,
        settings,
        table.of_active(waits, least),
        too_little(table.active_seconds < least),
        unmeasured(is_blind, _unseen_traffic()),
    )


def _unseen_traffic() -> str:
    return f"traffic over PCIe is not observed: no {metrics_of(_TRAFFIC)}"


RULE: Final = Rule("pcie_bound", PcieBoundSettings(), judge, screen)
