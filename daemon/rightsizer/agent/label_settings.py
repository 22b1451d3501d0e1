"""Whether and how the node's labels are written for Kubernetes."""

from dataclasses import dataclass

from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class LabelSettings:
    """The feature file for node-feature-discovery."""

    file: str = setting(
        "",
        help="The feature file to keep up to date, mostly "
        "/etc/kubernetes/node-feature-discovery/features.d/rightsizer; empty for none.",
    )
    interval: float = setting(
        60.0,
        help="Time between two writings.",
        unit="seconds",
        minimum=10.0,
        maximum=3600.0,
        source="node-feature-discovery looks for new labels once a minute (its sleepInterval)",
    )
    settled: float = setting(
        600.0,
        help="How long a GPU must have been healthy, or not, before a label says so.",
        unit="seconds",
        minimum=0.0,
        maximum=86400.0,
        source="a reset and a driver's restart take minutes; labels move pods",
    )
    expiry: float = setting(
        3600.0,
        help="How long labels hold after the agent wrote them last.",
        unit="seconds",
        minimum=120.0,
        maximum=7 * 86400.0,
        source="longer than an update of the agent takes",
    )
