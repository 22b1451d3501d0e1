"""The sources that an estate is read from, as an operator has set them."""

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.fleet.source import Source
from rightsizer.fleet.sources.agent.source import AgentSource
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.runtime.fleet.settings import WholeSettings

__all__ = ["sources_of"]


def sources_of(settings: WholeSettings, catalogue: Catalogue) -> tuple[Source, ...]:
    """Those that tell of devices, the best first."""
    accounting, fleet = settings.accounting, settings.fleet
    return (
        AgentSource(
            catalogue,
            fleet,
            fleet.agents,
            usage=accounting.books.usage,
            provisioning=accounting.provisioning,
        ),
        DcgmExporterSource(fleet, books=accounting.books, catalogue=catalogue),
    )
