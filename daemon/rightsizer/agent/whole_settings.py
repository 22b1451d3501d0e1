"""Settings of the whole configuration file: the agent's sections and the fleet's."""

from dataclasses import dataclass, field

from rightsizer.agent.settings import Settings
from rightsizer.fleet.settings import FleetSettings


@dataclass(frozen=True, slots=True)
class WholeSettings(Settings):
    """Everything that an operator may set, for the agent or for the fleet."""

    fleet: FleetSettings = field(default_factory=FleetSettings)
