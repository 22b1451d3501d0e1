"""Command `rightsizer agent`: the daemon, and the flags of its HTTP server."""

import argparse
from functools import partial
from typing import Final

from rightsizer.agent.service import serve
from rightsizer.agent.settings import Settings
from rightsizer.console.command import Command, add_flags
from rightsizer.console.flags import (
    add_config_flag,
    checked_address,
    config_file_of,
    settings_of,
    with_values,
)
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.host.settings import PathSettings
from rightsizer.model.values import COLLECTORS, DEFAULT_COLLECTORS, UsageError
from rightsizer.simulator.packaged import packaged_scenarios
from rightsizer.web.settings import WebTree, checked_path

_ACCESS: Final = """
--web.config.file FILE: TLS, users, headers and limits, in the format of all Prometheus exporters;
  setting: web.config_file (default: plain HTTP, no users)
--web.enable-lifecycle: allow /-/reload over TCP, and changes by authenticated clients
"""


def _add_listen_flags(parser: argparse.ArgumentParser) -> None:
    """Add flags for addresses and paths."""
    default = WebTree()
    flags = f"""
--web.listen-address ADDRESS: where to listen, as host:port, :port or [::1]:port; repeatable;
  setting: web.listen_addresses (default: {default.listen_addresses[0]})
--web.systemd-socket: listen on sockets passed by systemd, not on addresses
--web.telemetry-path PATH: path of the metrics; setting: web.telemetry_path
  (default: {default.telemetry_path})
--web.route-prefix PATH: prefix of every path, behind a proxy that keeps paths; setting:
  web.route_prefix (default: nothing)
"""
    add_flags(parser.add_argument, flags, web_listen_address={"action": "append"})


def add_access_flags(parser: argparse.ArgumentParser) -> None:
    """Add flags for access control."""
    add_flags(parser.add_argument, _ACCESS)


def add_collector_flags(parser: argparse.ArgumentParser) -> None:
    """Add a pair of flags for each collector; the default is the configuration."""
    flags = parser.add_argument_group("what /metrics exports")
    for collector, sentence in COLLECTORS.items():
        usual = "on" if collector in DEFAULT_COLLECTORS else "off"
        flags.add_argument(
            f"--collector.{collector}",
            dest=f"collector_{collector}",
            action=argparse.BooleanOptionalAction,
            default=None,
            help=f"{sentence.rstrip('.')}; setting: web.metrics.collectors.{collector} "
            f"(default: {usual})",
        )


def with_collector_flags(
    settings: MetricsSettings, arguments: argparse.Namespace
) -> MetricsSettings:
    """Apply the collector flags to the settings."""
    said = {collector: getattr(arguments, f"collector_{collector}") for collector in COLLECTORS}
    on = [collector for collector, switch in said.items() if switch is True]
    off = [collector for collector, switch in said.items() if switch is False]
    return settings.switched(on=on, off=off) if on or off else settings


def _configure(parser: argparse.ArgumentParser) -> None:
    add_config_flag(parser)
    _add_listen_flags(parser)
    add_access_flags(parser)
    add_collector_flags(parser)
    flags = f"""
--history.path FILE: the history's database, '' to keep nothing over a restart; setting:
  history.path (default: {Settings().history.path})
"""
    add_flags(parser.add_argument, flags)
    add_source_flags(parser)


def add_source_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the source."""
    default = PathSettings()
    flags = f"""
--path.procfs DIR: mount point of procfs; setting: path.procfs
  (default: {default.procfs})
--path.sysfs DIR: mount point of sysfs; setting: path.sysfs
  (default: {default.sysfs})
--simulated.scenario NAME: simulated node instead of the real driver:
  {", ".join(packaged_scenarios())}, or a scenario file
"""
    add_flags(parser.add_argument, flags)


def with_source_flags(settings: Settings, arguments: argparse.Namespace) -> Settings:
    """Apply the source flags to the settings."""
    values = {
        "sources.simulated.scenario": arguments.simulated_scenario,
        "path.procfs": arguments.path_procfs or None,
        "path.sysfs": arguments.path_sysfs or None,
    }
    return with_values(settings, values)


def _run(arguments: argparse.Namespace) -> int:
    reread = partial(_settings, arguments)
    serve(reread(), reread=reread, config_file=config_file_of(arguments))
    return 0


def _settings(arguments: argparse.Namespace) -> Settings:
    """Load the configuration and apply the flags; `UsageError` for invalid ones."""
    settings = settings_of(arguments, Settings)
    values = {
        "web.listen_addresses": tuple(map(checked_address, arguments.web_listen_address or ()))
        or None,
        "web.telemetry_path": _path("telemetry-path", arguments.web_telemetry_path),
        "web.route_prefix": _path("route-prefix", arguments.web_route_prefix),
        "web.config_file": arguments.web_config_file,
        "web.systemd_socket": arguments.web_systemd_socket or None,
        "web.enable_lifecycle": arguments.web_enable_lifecycle or None,
        "web.metrics": with_collector_flags(settings.web.metrics, arguments),
        "history.path": arguments.history_path,
    }
    return with_source_flags(with_values(settings, values), arguments)


def _path(flag: str, text: str | None) -> str | None:
    try:
        return None if text is None else checked_path(text)
    except UsageError as error:
        raise UsageError(f"--web.{flag}: {error}") from None


COMMAND = Command("agent", _configure, _run, is_service=lambda _: True)
