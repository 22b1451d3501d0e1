"""What runs at intervals beside sampling, and how often."""

from collections.abc import Sequence

from rightsizer.agent.jobs import Job
from rightsizer.agent.node_jobs import NodeJobs
from rightsizer.agent.node_labels import LabelWriter
from rightsizer.agent.settings import Settings


def schedule(
    chores: NodeJobs, labels: LabelWriter, settings: Settings, further: Sequence[Job] = ()
) -> tuple[Job, ...]:
    """The jobs of an agent, and those that its settings ask for beside."""
    recommender, history = settings.recommender, settings.history
    return (
        Job("recommend", chores.recommend, recommender.interval, recommender.jitter),
        Job("flush", chores.flush, history.flush_interval),
        Job("prune", chores.prune, 3600.0),
        Job("annotate", chores.annotate, 60.0),
        # Does nothing while no file is named; a reload may name one.
        Job("label", labels.write, settings.labels.interval),
        *further,
    )
