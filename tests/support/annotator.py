"""Delivers pending annotations to Grafana until none are left, in a process that may be killed."""

import sys
from pathlib import Path
from typing import NoReturn

from rightsizer.advice.storage import Storage
from rightsizer.io.clock import SystemClock
from rightsizer.io.http_settings import HttpSettings
from rightsizer.notify.delivery import DeliveryContext
from rightsizer.notify.grafana.service import AnnotationOutbox, GrafanaAnnotations
from rightsizer.notify.grafana.settings import GrafanaSettings


def main(history: Path, url: str, token_file: Path) -> NoReturn:
    """Deliver once; the exit status says whether nothing is pending.

    Args:
        history: The history.
        url: Grafana's address.
        token_file: A file with its token.
    """
    storage = Storage(str(history))
    http = HttpSettings(timeout_seconds=5.0, tries=1)
    settings = GrafanaSettings(url=url, token_file=str(token_file), http=http)
    outbox = AnnotationOutbox(storage.database)
    context = DeliveryContext(tuple, SystemClock(), print)
    report = GrafanaAnnotations(settings, outbox, context).deliver()
    storage.close()
    sys.exit(report.pending != 0)
