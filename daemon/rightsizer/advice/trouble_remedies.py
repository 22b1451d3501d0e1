"""What repairs a GPU, gentlest first (NVIDIA: GPU memory error management; Xid catalog)."""

from typing import Final

from rightsizer.advice.trouble import Remedy

__all__ = ["DIAGNOSE_LINKS", "FABRIC", "REBOOT", "REPLACE", "RESEAT", "RESET"]

RESET: Final = Remedy(
    "Reset the GPU once no process is on it",
    "nvidia-smi -i {uuid} --query-compute-apps=pid --format=csv,noheader  # must be empty\n"
    "rightsizer release gpus --wait 30s\n"
    "sudo nvidia-smi --gpu-reset -i {uuid}\n"
    "rightsizer resume",
    "sh",
)
REBOOT: Final = Remedy("Reboot the node once it is drained", "sudo systemctl reboot", "sh")
REPLACE: Final = Remedy(
    "Have the board replaced",
    "Keep the node drained, keep the log and run the vendor's field diagnostic; its result is "
    "what a replacement (RMA) is granted by:\n"
    "nvidia-smi -i {uuid} -q > gpu.txt\n"
    "sudo nvidia-bug-report.sh\n"
    "dcgmi diag -r 3",
    "sh",
)
RESEAT: Final = Remedy(
    "See to the slot once the node is drained",
    "Power the server off, reseat the board with its power and riser cables, and look at the "
    "kernel's log for PCIe errors (AER). If it happens again in another slot, have the board "
    "replaced.",
)
DIAGNOSE_LINKS: Final = Remedy(
    "See the links and their errors",
    "nvidia-smi nvlink -s -i {uuid}\nnvidia-smi nvlink -e -i {uuid}\ndcgmi diag -r 2",
    "sh",
)
FABRIC: Final = Remedy(
    "See why the NVLink fabric is not ready",
    "systemctl status nvidia-fabricmanager\n"
    "journalctl -u nvidia-fabricmanager -b --no-pager | tail -n 50\n"
    "nvidia-smi -i {uuid} -q | grep -A 5 Fabric",
    "sh",
)
