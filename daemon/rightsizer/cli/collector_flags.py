"""The flags `--collector.<name>` and `--no-collector.<name>`, as node_exporter has them."""

import argparse

from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.metric_collector import COLLECTORS, DEFAULT_COLLECTORS


def add_collector_flags(parser: argparse.ArgumentParser) -> None:
    """A pair of flags for each collector; without one, the configuration says."""
    flags = parser.add_argument_group("what /metrics exports")
    for collector, sentence in COLLECTORS.items():
        usual = "on" if collector in DEFAULT_COLLECTORS else "off"
        flags.add_argument(
            f"--collector.{collector}",
            dest=_name(collector),
            action=argparse.BooleanOptionalAction,
            default=None,
            help=f"{sentence.rstrip('.')}; without it web.metrics.collectors.{collector} of the "
            f"configuration (default: {usual})",
        )


def with_collector_flags(
    settings: MetricsSettings, arguments: argparse.Namespace
) -> MetricsSettings:
    """The settings with what those flags say."""
    said = {collector: getattr(arguments, _name(collector)) for collector in COLLECTORS}
    if all(switch is None for switch in said.values()):
        return settings
    return settings.switched(
        on=[collector for collector, switch in said.items() if switch is True],
        off=[collector for collector, switch in said.items() if switch is False],
    )


def _name(collector: str) -> str:
    return f"collector_{collector}"
