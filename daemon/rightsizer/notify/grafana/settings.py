"""Settings of Grafana: address, token, limits."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from rightsizer.io.http_settings import HttpSettings, ServerSettings, read_token_file
from rightsizer.model.values import CONSTANT, DAY_SECONDS, Spec

CREDENTIAL_NAME = "grafana-token"
"""Name of the token's systemd credential (`LoadCredential=`)."""


class GrafanaSettings(ServerSettings, frozen=True):
    """Grafana annotations; disabled unless `url` is set.

    Attributes:
        url: Grafana's base URL, including any sub-path; empty to post no annotations.
        token_file: File with a service account's token; a systemd credential takes precedence.
        cluster: Cluster name, added as a tag next to the node's name.
        restore_seconds: Interval between checks of Grafana for missing open annotations, which are
            restored.
            Source: one search an hour; a database is restored by people, who take longer
        annotations_per_run: Maximum annotations per run; one more summarizes the rest.
            Source: grafana/grafana#22170: the annotation store is meant for some hundreds a day
        annotations_per_day: Maximum new annotations per day after the first run's; the rest are
            summarized.
            Source: grafana/grafana#22170: the annotation store is meant for some hundreds a day
        pause_seconds: Maximum pause after failures; the first is one minute, each next one twice as
            long. A Retry-After is waited for, up to half an hour.
            Source: restarts and upgrades of a server take minutes; a request every five is no load
        outbox_maximum: Maximum pending annotations; beyond it the oldest are dropped.
    """

    cluster: str = ""
    restore_seconds: Annotated[float, Spec(within=(60.0, DAY_SECONDS)), CONSTANT] = 3600.0
    annotations_per_run: Annotated[int, Spec(within=(1, 500))] = 20
    annotations_per_day: Annotated[int, Spec(within=(1, 100_000))] = 500
    pause_seconds: Annotated[float, Spec(within=(1.0, DAY_SECONDS)), CONSTANT] = 300.0
    outbox_maximum: Annotated[int, Spec(within=(1, 100_000)), CONSTANT] = 1000
    http: HttpSettings = HttpSettings()


def read_token(
    settings: GrafanaSettings, environment: Mapping[str, str] = os.environ
) -> str | None:
    """Read the current token; `None` if none is configured.

    Raises:
        OSError: the token's file cannot be read.
        ValueError: the file does not hold a token.
    """
    path = Path(settings.token_file) if settings.token_file else None
    if folder := environment.get("CREDENTIALS_DIRECTORY"):
        credential = Path(folder) / CREDENTIAL_NAME
        path = credential if credential.exists() else path
    hint = "it must be one line, as Grafana gave it"
    return None if path is None else read_token_file(path, hint)
