"""Launches from Nsight Compute's own reports, through the module that NVIDIA ships for them."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from rightsizer.domain.errors import ProfileError
from rightsizer.profiles.nsight_compute.figures import is_wanted
from rightsizer.profiles.nsight_compute.launch import Figure, Launch, Rule, metric_key

__all__ = ["launches_of_report"]

MODULE: Final = "ncu_report"
_DEVICE_NAME: Final = "device__attribute_display_name"


def launches_of_report(path: Path) -> Iterator[Launch]:
    """Every launch of a report.

    Raises:
        ProfileError: the module is not installed, or cannot read the report.
    """
    module = _module(path)
    try:
        report = module.load_report(str(path))
        for part in range(report.num_ranges()):
            launches = report.range_by_idx(part)
            for place in range(launches.num_actions()):
                yield _launch(launches.action_by_idx(place))
    except Exception as error:  # noqa: BLE001 - a foreign module, over a file of anybody's.
        raise ProfileError(
            f"{path.name}: `{MODULE}` cannot read it ({type(error).__name__}); {_by_hand(path)}"
        ) from None


def _module(path: Path) -> ModuleType:
    try:
        return importlib.import_module(MODULE)
    except ImportError:
        raise ProfileError(
            f"{path.name}: a report that only Nsight Compute can read, and its module `{MODULE}` "
            f"is not installed; {_by_hand(path)}, or put the folder extras/python of Nsight "
            "Compute on PYTHONPATH"
        ) from None


def _by_hand(path: Path) -> str:
    return f"run `ncu --import {path.name} --csv --page raw` and name a file with what it prints"


def _launch(action: Any) -> Launch:
    launch = Launch(kernel=str(action.name()))
    for name in action.metric_names():
        if name != _DEVICE_NAME and not is_wanted(metric_key("", name)):
            continue
        metric = action.metric_by_name(name)
        if metric is None:
            continue
        if name == _DEVICE_NAME:
            launch.device_name = str(metric.as_string() or "")
        else:
            figure = Figure(float(metric.as_double()), str(metric.unit() or ""))
            launch.metrics[metric_key("", name)] = figure
    launch.rules.extend(_rules(action))
    return launch


def _rules(action: Any) -> Iterator[Rule]:
    """None where the module is older than its access to rules."""
    results: Any = getattr(action, "rule_results_as_dicts", list)()
    for result in results:
        message, speedup = result.get("rule_message"), result.get("speedup_estimation")
        text = message.get("message") if isinstance(message, dict) else None
        if isinstance(text, str) and text:
            said = speedup.get("speedup") if isinstance(speedup, dict) else None
            yield Rule(text, float(said) if isinstance(said, int | float) else 0.0)
