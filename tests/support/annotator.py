"""A program that delivers pending annotations to Grafana until none are left or it is killed.

Its arguments: a history, Grafana's address, a file with its token.
"""

import sys
from pathlib import Path

from rightsizer.advice.storage import Storage
from rightsizer.io.clock import SystemClock
from rightsizer.io.http_settings import HttpSettings
from rightsizer.notify.delivery import DeliveryContext
from rightsizer.notify.grafana.service import AnnotationOutbox, GrafanaAnnotations
from rightsizer.notify.grafana.settings import GrafanaSettings


def main(history: Path, url: str, token_file: str) -> int:
    """Deliver once; the exit status says whether nothing is pending."""
    storage = Storage(str(history))
    http = HttpSettings(timeout_seconds=5.0, tries=1)
    settings = GrafanaSettings(url=url, token_file=token_file, http=http)
    outbox = AnnotationOutbox(storage.database)
    context = DeliveryContext(tuple, SystemClock(), print)
    report = GrafanaAnnotations(settings, outbox, context).deliver()
    storage.close()
    return 0 if report.pending == 0 else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
