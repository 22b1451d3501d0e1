"""Checks before startup of what settings refer to: files, credentials, certificate authorities."""

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in, read_catalogue
from rightsizer.catalogue.prices_file import read_prices
from rightsizer.host.settings import PathSettings
from rightsizer.io.program import program_of
from rightsizer.model.values import ConfigurationError, RightsizerError, format_duration
from rightsizer.notify.grafana.settings import read_token
from rightsizer.notify.webhook import settings as webhook
from rightsizer.profiler.capture.settings import CaptureKind
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.telemetry.live import check_collectors
from rightsizer.web.web_config import WebConfigReader

_REMEDY: Final = "check the path, or let the agent's user read it"
_SERVICE_FOLDER: Final = Path(PathSettings().api_socket).parent
"""Created by systemd."""
_Check = tuple[str, Callable[[], object]]
"""Configuration key and the function that reads what it names."""


def faults_of(settings: Settings, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return one line for each fault in the files and names that valid settings refer to.

    `environ` tells where systemd put the credentials.
    """
    faults: list[str] = []
    others = (check(settings, environ) for check in (_notifications, _captures, _actions))
    for key, check in chain(_own(settings), *others, _broker(settings)):
        try:
            check()
        except RightsizerError as error:
            # Files of our own formats report one fault a line, with its position.
            faults.extend(f"{key}: {line}" for line in str(error).splitlines())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            faults.append(
                f"{key}: {error.filename or 'the file'} cannot be read: {reason}; {_REMEDY}"
            )
        except ValueError as error:
            faults.append(f"{key}: {error}")
    return tuple(faults)


def _own(settings: Settings) -> Iterator[_Check]:
    files = settings.catalogue
    web = settings.web
    dcgm = settings.sources.dcgm
    yield "sources.nvml", lambda: check_collectors(settings.sources.nvml)
    yield "catalogue.boards_file", lambda: read_catalogue(files.boards_path)
    if files.prices_path is not None:
        yield "catalogue.prices_file", lambda: _prices(settings)
    elif settings.prices.dollars_per_gpu_hour:
        yield "prices.dollars_per_gpu_hour", lambda: _prices(settings)
    if web.config_file:
        yield "web.config_file", WebConfigReader(Path(web.config_file)).read
    if scenario := settings.sources.simulated.scenario:
        yield "sources.simulated.scenario", lambda: load_scenario(scenario, built_in())
    if dcgm.token_file:
        yield "sources.dcgm.token_file", Path(dcgm.token_file).read_bytes
    yield "sources.dcgm.ca_file", lambda: _authorities(dcgm.ca_file)


def _notifications(settings: Settings, environ: Mapping[str, str]) -> Iterator[_Check]:
    grafana = settings.grafana
    if grafana.url:
        yield "grafana.token_file", lambda: read_token(grafana, environ)
        yield "grafana.http.ca_file", lambda: _authorities(grafana.http.ca_file)
    for index, webhook_settings in enumerate(settings.webhooks):
        key = f"webhooks[{index}]"
        yield f"{key}.url_file", partial(webhook.read_address, webhook_settings, environ)
        yield f"{key}.token_file", partial(webhook.read_token, webhook_settings.token_file, environ)
        yield f"{key}.headers_file", partial(webhook.read_headers, webhook_settings, environ)
        yield f"{key}.http.ca_file", partial(_authorities, webhook_settings.http.ca_file)
    for index, mail in enumerate(settings.mails):
        key = f"mails[{index}].password_file"
        yield key, partial(webhook.read_token, mail.password_file, environ)


def _captures(settings: Settings, environ: Mapping[str, str]) -> Iterator[_Check]:
    folder = settings.profiles.drop_folder.path
    capture = settings.profiles.capture
    if folder:
        yield "profiles.drop_folder.path", lambda: list(Path(folder).iterdir())
    key = "profiles.capture"
    kind = capture.kind
    if kind is CaptureKind.COMMAND:
        yield f"{key}.command", lambda: program_of(capture.command[0], environ)
    elif kind is CaptureKind.DYNOLOG:
        yield f"{key}.dynolog.program", lambda: program_of(capture.dynolog.program, environ)
    elif kind is CaptureKind.WEBHOOK:
        hook = capture.webhook
        yield f"{key}.webhook.token_file", lambda: webhook.read_token(hook.token_file, environ)
        yield f"{key}.webhook.http.ca_file", lambda: _authorities(hook.http.ca_file)


def _actions(settings: Settings, environ: Mapping[str, str]) -> Iterator[_Check]:
    for index, action in enumerate(settings.actions):
        key = f"actions[{index}]"
        yield f"{key}.name", partial(_sole_name, index, settings)
        if action.command:
            yield f"{key}.command", partial(program_of, action.command[0], environ)
        else:
            token_file = action.webhook.token_file
            yield f"{key}.webhook.token_file", partial(webhook.read_token, token_file, environ)
            yield f"{key}.webhook.ca_file", partial(_authorities, action.webhook.ca_file)
    if settings.actions and settings.acting.audit_file:
        yield "acting.audit_file", lambda: _appended_to(Path(settings.acting.audit_file))


def _broker(settings: Settings) -> Iterator[_Check]:
    if settings.broker.enabled:
        yield "broker.path", lambda: _own_file(settings)
        yield "broker.default_limit", lambda: _allowed_limit(settings)
        yield "path.api_socket", lambda: _reached(settings)


def _own_file(settings: Settings) -> None:
    """Check that the broker's file is writable or can be created, and has no other use."""
    if not (path := settings.broker.path) or Path(path).is_dir():
        raise ValueError(f"'{path}' is no file; name one in a folder of the agent's user")
    file = Path(path).resolve()
    if settings.history.path and file == Path(settings.history.path).resolve():
        raise ValueError(f"{path} is the history's too; give each a file of its own")
    there = next(path for path in (file, *file.parents) if path.exists())
    if not os.access(there, os.W_OK) or (there != file and not there.is_dir()):
        raise ValueError(
            f"{path} cannot be written by user {os.geteuid()}: {there} is in the way; check the "
            "path, or give its folder to the agent's user"
        )


def _allowed_limit(settings: Settings) -> None:
    default = settings.broker.default_limit_seconds
    longest = settings.broker.longest_limit_seconds
    if default > longest:
        raise ValueError(
            f"{format_duration(default)} is longer than broker.longest_limit, "
            f"{format_duration(longest)}, so that a request without a limit is refused; lower it"
        )


def _reached(settings: Settings) -> None:
    if not settings.path.api_socket:
        raise ValueError("is empty, and the broker is asked over it alone; name a socket")
    folder = Path(settings.path.api_socket).parent
    if folder == _SERVICE_FOLDER and not folder.exists():
        return  # systemd creates it when the service starts.
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        why = "may not be written" if folder.is_dir() else "is not there or is closed"
        raise ValueError(
            f"the socket cannot be made, for {folder} {why} to user {os.geteuid()}, and the broker "
            "is asked over it alone; make the folder for the agent's user (systemd does, by "
            "RuntimeDirectory=), or name another"
        )


def _sole_name(index: int, settings: Settings) -> None:
    name = settings.actions[index].name
    if any(action.name == name for action in settings.actions[:index]):
        raise ValueError(f"another action is called '{name}'; give this one a name of its own")


def _appended_to(file: Path) -> None:
    if not file.parent.is_dir():
        raise ValueError(f"there is no folder {file.parent}; make it, or name another file")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ValueError(
            f"{file} may not be written by user {os.geteuid()}; name another, or let the agent's "
            "user write it"
        )


def _prices(settings: Settings) -> None:
    try:
        catalogue = read_catalogue(settings.catalogue.boards_path)
    except ConfigurationError:
        catalogue = built_in()  # The fault is reported under its own key.
    read_prices(settings.catalogue.prices_path, catalogue, settings.prices)


def _authorities(ca_file: str) -> None:
    if not ca_file:
        return
    try:
        ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise ValueError(f"{ca_file} holds no certificate in PEM") from None
