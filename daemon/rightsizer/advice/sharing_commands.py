"""What an operator types to cut a GPU, or to let two workloads share one."""

from typing import Final

from rightsizer.domain.device import Device
from rightsizer.domain.finding import Action, Case, Instruction, Option
from rightsizer.domain.workload import WorkloadKind

__all__ = ["sharing_commands"]

_PLUGIN_KEYS: Final = {Action.SHARE_MPS: "mps", Action.SHARE_TIMESLICE: "timeSlicing"}
_GIBIBYTE: Final = 2.0**30


def sharing_commands(case: Case, option: Option) -> tuple[Instruction, ...]:
    """How to do what an option of sharing means, on the workload's only GPU."""
    workload, (device,) = case.workload, case.devices
    is_kubernetes = workload is not None and workload.kind is WorkloadKind.KUBERNETES
    if option.action is Action.SHARE_MIG:
        ask = (_slice_limit(option.target),) if is_kubernetes else ()
        return (_cut(device, option.target), *ask)
    if option.action not in _PLUGIN_KEYS:
        return ()
    if is_kubernetes:
        return (_device_plugin(option.action),)
    return _by_hand(device, option)


def _cut(device: Device, profile: str) -> Instruction:
    text = (
        f"# The GPU must be empty; its workload moves into the slice.\n"
        f"nvidia-smi -i {device.uuid} -mig 1\n"
        f"nvidia-smi mig -i {device.uuid} -cgi {profile} -C\n"
    )
    return Instruction(f"Cut a {profile} slice off GPU {device.index}", text, "sh")


def _slice_limit(profile: str) -> Instruction:
    text = (
        "# Of the container, in the pod's template.\n"
        f"resources:\n  limits:\n    nvidia.com/mig-{profile.replace('+', '.')}: 1\n"
    )
    return Instruction("Ask for the slice instead of a GPU (strategy mixed)", text, "yaml")


def _device_plugin(action: Action) -> Instruction:
    text = (
        "# The configuration file of the NVIDIA device plugin.\n"
        "version: v1\n"
        "sharing:\n"
        f"  {_PLUGIN_KEYS[action]}:\n"
        "    resources:\n"
        "      - name: nvidia.com/gpu\n"
        "        replicas: 2\n"
    )
    return Instruction("Let the NVIDIA device plugin give out each GPU twice", text, "yaml")


def _by_hand(device: Device, option: Option) -> tuple[Instruction, ...]:
    partner = option.target
    together = f"export CUDA_VISIBLE_DEVICES={device.uuid}  # in both, {partner} too\n"
    if option.action is Action.SHARE_TIMESLICE:
        return (Instruction("Start both on the same GPU", together, "sh"),)
    limit = (device.memory_total_bytes or 0.0) / 2 / _GIBIBYTE
    text = (
        f"CUDA_VISIBLE_DEVICES={device.uuid} nvidia-cuda-mps-control -d\n"
        + together
        + (f"export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={limit:.0f}G\n" if limit else "")
    )
    return (Instruction("Start both under one MPS daemon, half of the memory each", text, "sh"),)
