"""The chart rendered by Helm."""

import json
from collections.abc import Mapping
from typing import Any, Final

from kubernetes_manifests import KUBERNETES
from kubernetes_programs import helm
from rightsizer.io.yaml import load_yaml, load_yaml_documents

__all__ = ["CHART", "refusal", "rendered", "values_of"]

CHART: Final = KUBERNETES.parent / "helm" / "rightsizer"


def values_of() -> dict[str, Any]:
    """The chart's default values."""
    found: dict[str, Any] = load_yaml((CHART / "values.yaml").read_text("utf-8"), "values").data
    return found


def rendered(more: Mapping[str, Any] | None = None, namespace: str = "rightsizer") -> list[Any]:
    """The objects of the chart with a site's values."""
    done = _template(more, namespace)
    assert done.returncode == 0, done.stderr
    found = load_yaml_documents(done.stdout, CHART.name)
    return [document.data for document in found if document.data is not None]


def refusal(values: Mapping[str, Any]) -> str:
    """Helm's error for invalid values."""
    done = _template(values, "rightsizer")
    assert done.returncode, f"it took {values}"
    return str(done.stderr)


def _template(more: Mapping[str, Any] | None, namespace: str) -> Any:
    options = ("--namespace", namespace, "--values", "-")
    return helm("template", "rightsizer", CHART, *options, text=json.dumps(more or {}))
