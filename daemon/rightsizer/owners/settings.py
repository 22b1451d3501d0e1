"""Settings for finding and naming workloads."""

from typing import Annotated

from rightsizer.io.extensions import extension_names
from rightsizer.model.values import Spec
from rightsizer.owners.collector_settings import OwnerCollectorSettings
from rightsizer.owners.registry import SOURCES

_EXTENSIONS = extension_names("owners")


class OwnerSettings(OwnerCollectorSettings, frozen=True):
    """Attribution of processes to workloads."""

    sources: Annotated[
        tuple[str, ...],
        Spec(
            words=tuple(dict.fromkeys((*_EXTENSIONS, *(source.name for source in SOURCES)))),
            help="Sources of workload names, in fixed precedence: "
            + ", ".join(f"{source.name} ({source.meaning})" for source in SOURCES)
            + ".",
        ),
    ] = (*_EXTENSIONS, *(source.name for source in SOURCES if source.is_default))
