"""The labels that dcgm-exporter writes on a device's series, in its order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.device import Device
from rightsizer.domain.workload import Holding, Workload, WorkloadKind
from rightsizer.domain.xid import XID_MEANINGS
from rightsizer.publish.metrics.settings import DcgmLabels

__all__ = ["Labels", "Spelling", "label_text"]

Labels = dict[str, str]

_POD_NAMES: Final = ("container", "namespace", "pod")
_FORMER_POD_NAMES: Final = ("container_name", "pod_namespace", "pod_name")


@dataclass(frozen=True, slots=True)
class Spelling:
    """What all series of a page have in common: whose names, and which node and driver."""

    generation: DcgmLabels
    hostname: str
    driver_version: str = ""
    """Empty where it is not known."""

    def device(self, device: Device, card: Device) -> Labels:
        """What a device is; a MIG instance has the identity of the card that it is a part of."""
        is_former = self.generation is DcgmLabels.FORMER
        labels = {
            "gpu": str(card.index),
            "uuid" if is_former else "UUID": (
                device.mig.parent_uuid if device.mig is not None else device.uuid
            ),
            "pci_bus_id": device.pci_bus_id or card.pci_bus_id or "",
            "device": f"nvidia{card.index}",
            "modelName": card.name,
        }
        if device.mig is not None:
            labels["GPU_I_PROFILE"] = device.mig.profile
            labels["GPU_I_ID"] = str(device.mig.gpu_instance_id)
        is_lowercase = self.generation is DcgmLabels.LOWERCASE
        labels["hostname" if is_lowercase else "Hostname"] = self.hostname
        labels["DCGM_FI_DRIVER_VERSION"] = "" if is_former else self.driver_version
        return {name: value for name, value in labels.items() if value}

    def holders(self, holdings: Iterable[Holding]) -> tuple[Labels, ...]:
        """Those of each pod or job that holds a device; where nobody does, none once.

        A device that is shared has a series for each holder, each with the whole value, as
        dcgm-exporter writes them with `--kubernetes-virtual-gpus`.
        """
        holders = [self._holder(holding.workload) for holding in holdings]
        distinct = {tuple(labels.items()): labels for labels in holders if labels}
        return tuple(distinct.values()) or ({},)

    def xid(self, code: int) -> Labels:
        """What an Xid means; 0 for none."""
        if self.generation is DcgmLabels.FORMER:
            return {}
        meaning = XID_MEANINGS.get(code, "Unknown Error") if code else "No Error"
        return {"err_code": str(code), "err_msg": meaning}

    def _holder(self, workload: Workload) -> Labels:
        if workload.kind is WorkloadKind.SLURM:
            return {"hpc_job": workload.name}
        if not workload.pod:
            return {}
        is_former = self.generation is DcgmLabels.FORMER
        values = (workload.container, workload.namespace, workload.pod)
        return dict(zip(_FORMER_POD_NAMES if is_former else _POD_NAMES, values, strict=True))


def label_text(labels: Mapping[str, str]) -> str:
    """Labels as they stand between a name and its value."""
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
