"""Write the dashboards: `python -m grafana.generate`; with `--check`, only compare."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from grafana.node import node_panels
from grafana.queries import DATASOURCE, Json, select

__all__ = ["DASHBOARDS", "dashboards", "main"]

DASHBOARDS: Final = Path(__file__).parent / "dashboards"
_REFRESH_ON_TIME_RANGE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare; the exit code is 1 where a committed file differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    only_check = parser.parse_args(arguments).check
    differing = [
        name
        for name, text in dashboards().items()
        if not (DASHBOARDS / name).exists() or (DASHBOARDS / name).read_text() != text
    ]
    for name in differing:
        sys.stdout.write(f"grafana/dashboards/{name} {'is stale' if only_check else 'written'}\n")
        if not only_check:
            (DASHBOARDS / name).write_text(dashboards()[name])
    return 1 if only_check and differing else 0


def dashboards() -> dict[str, str]:
    """Each dashboard's file name and text."""
    return {"rightsizer-node.json": json.dumps(_node(), indent=2, ensure_ascii=False) + "\n"}


def _node() -> Json:
    return {
        "uid": "rightsizer-node",
        "title": "Rightsizer / Node",
        "description": "Where every second of every GPU went, and what size it should have been.",
        "tags": ["rightsizer", "gpu"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": _annotations()},
        "templating": {"list": _variables()},
        "links": [
            {
                "title": "Rightsizer",
                "type": "dashboards",
                "tags": ["rightsizer"],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "panels": node_panels(),
    }


def _annotations() -> list[Json]:
    grafana = {"type": "grafana", "uid": "-- Grafana --"}
    opened = select("rightsizer_advice_opened_timestamp_seconds")
    told = select("rightsizer_advice_info")
    return [
        {
            "name": "Advice",
            "datasource": grafana,
            "enable": True,
            "iconColor": "orange",
            "target": {"type": "tags", "tags": ["rightsizer"], "matchAny": False, "limit": 100},
        },
        {
            # For agents without a token: openings only, from the metrics themselves.
            "name": "Advice opened (from metrics)",
            "datasource": DATASOURCE,
            "enable": False,
            "iconColor": "yellow",
            "expr": f"{opened} * 1000 * on (job, instance, id) group_right () {told}",
            "useValueForTime": True,
            "titleFormat": "{{reason}}",
            "textFormat": "{{action}} {{workload}} {{uuid}}",
            "tagKeys": "finding",
        },
    ]


def _variables() -> list[Json]:
    up = "rightsizer_device_up"
    return [
        {
            "name": "datasource",
            "label": "Data Source",
            "type": "datasource",
            "query": "prometheus",
            "hide": 0,
        },
        _label_variable("job", "Job", f"label_values({up}, job)"),
        _label_variable("instance", "Node", f'label_values({up}{{job=~"$job"}}, instance)'),
        _label_variable(
            "uuid", "Device", f'label_values({up}{{job=~"$job", instance=~"$instance"}}, uuid)'
        ),
        {
            "name": "window",
            "label": "Window",
            "type": "custom",
            "query": "current,24h,7d",
            "current": {"text": "current", "value": "current", "selected": True},
            "options": [
                {"text": window, "value": window, "selected": window == "current"}
                for window in ("current", "24h", "7d")
            ],
            "multi": False,
            "includeAll": False,
        },
    ]


def _label_variable(name: str, label: str, expression: str) -> Json:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": expression, "refId": f"variable-{name}"},
        "definition": expression,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all", "selected": True},
        "refresh": _REFRESH_ON_TIME_RANGE,
        "sort": 1,
        "hide": 0,
    }


if __name__ == "__main__":
    sys.exit(main())
