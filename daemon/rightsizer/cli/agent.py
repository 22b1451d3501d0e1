"""`rightsizer agent`: the daemon."""

import argparse
from dataclasses import replace

from rightsizer.cli.command import Command, add_config_flag, settings_of
from rightsizer.runtime.service import serve
from rightsizer.runtime.settings import Settings, SimulatedSettings

__all__ = ["COMMAND", "add_source_flags", "with_source_flags"]


def configure(parser: argparse.ArgumentParser) -> None:
    """The agent's flags; a flag goes before the file."""
    add_config_flag(parser)
    parser.add_argument(
        "--web.listen-address",
        dest="listen_addresses",
        action="append",
        metavar="ADDRESS",
        help="where to listen, as host:port, :port or [::1]:port; may be repeated",
    )
    parser.add_argument(
        "--history.path",
        dest="history_path",
        metavar="FILE",
        help="the history's database; '' to keep nothing over a restart",
    )
    add_source_flags(parser)


def add_source_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that say what is read."""
    parser.add_argument("--path.procfs", dest="procfs", metavar="DIR", help="mount point of procfs")
    parser.add_argument("--path.sysfs", dest="sysfs", metavar="DIR", help="mount point of sysfs")
    parser.add_argument(
        "--simulated.scenario",
        dest="scenario",
        metavar="NAME",
        help="read a simulated node in place of the real driver",
    )


def with_source_flags(settings: Settings, arguments: argparse.Namespace) -> Settings:
    """The settings with what those flags say."""
    if arguments.scenario is not None:
        simulated = SimulatedSettings(scenario=arguments.scenario)
        settings = replace(settings, sources=replace(settings.sources, simulated=simulated))
    given = {"procfs": arguments.procfs, "sysfs": arguments.sysfs}
    path = replace(settings.path, **{key: value for key, value in given.items() if value})
    return replace(settings, path=path)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal ends it."""
    serve(_settings(arguments))
    return 0


def _settings(arguments: argparse.Namespace) -> Settings:
    settings = settings_of(arguments)
    if arguments.listen_addresses:
        web = replace(settings.web, listen_addresses=tuple(arguments.listen_addresses))
        settings = replace(settings, web=web)
    if arguments.history_path is not None:
        history = replace(settings.history, path=arguments.history_path)
        settings = replace(settings, history=history)
    return with_source_flags(settings, arguments)


COMMAND = Command("agent", "sample this node's GPUs, export, advise", configure, run)
