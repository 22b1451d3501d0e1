"""What the host does beside its GPUs: the node, the owners of GPU processes, the fabric's ports."""

from rightsizer.telemetry.host.host import Host
from rightsizer.telemetry.host.proc_host import ProcHost
from rightsizer.telemetry.host.settings import HostSettings

__all__ = ["Host", "HostSettings", "ProcHost"]
