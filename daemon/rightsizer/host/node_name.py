"""Name of this node, as it stands in metrics, annotations and webhooks."""

import os
import socket


def node_name() -> str:
    """Return the node's name as dcgm-exporter does: from Kubernetes, else the hostname."""
    return os.environ.get("NODE_NAME") or socket.gethostname()
