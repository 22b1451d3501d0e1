"""Matching of serving engines to the GPUs they run on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from rightsizer.model.device import Device
from rightsizer.model.signal import Signal
from rightsizer.model.workload import Holding, Workload
from rightsizer.telemetry.serving.settings import ServingEndpoint

_ADDED: Final = frozenset({Signal.REQUESTS_RUNNING, Signal.REQUESTS_WAITING, Signal.PREEMPTIONS})
"""Of several engines on one device these add up; of the others the worst counts."""

Holdings = Mapping[str, tuple[Holding, ...]]


@dataclass(frozen=True, slots=True)
class EngineMatches:
    """What engines say, by the uuid of the device that it is about."""

    values: Mapping[str, Mapping[Signal, float]]
    """The pressure is the application's: each GPU of an engine on several has the same values,
    which must not be summed over its GPUs."""
    untied: Mapping[ServingEndpoint, str]
    """Endpoints that nobody can say the GPUs of, and why; an owner is never guessed."""


def match_engines(
    devices: Sequence[Device],
    holdings: Holdings,
    pages: Mapping[ServingEndpoint, Mapping[Signal, float]],
) -> EngineMatches:
    """Give each device what the engines on it say.

    Args:
        devices: All that there are.
        holdings: Who holds each, by uuid.
        pages: What each endpoint said.
    """
    values: dict[str, dict[Signal, float]] = {}
    untied: dict[ServingEndpoint, str] = {}
    for endpoint, said in pages.items():
        uuids, trouble = _devices_of(endpoint, devices, holdings)
        if trouble:
            untied[endpoint] = trouble
        for uuid in uuids:
            _add(values.setdefault(uuid, {}), said)
    return EngineMatches(values, untied)


def _add(values: dict[Signal, float], said: Mapping[Signal, float]) -> None:
    for signal, value in said.items():
        if signal not in values:
            values[signal] = value
        elif signal in _ADDED:
            values[signal] += value
        else:
            values[signal] = max(values[signal], value)


def _devices_of(
    endpoint: ServingEndpoint, devices: Sequence[Device], holdings: Holdings
) -> tuple[Iterable[str], str]:
    """The devices of an endpoint, and what is wrong with them."""
    if endpoint.gpus:
        return _named(endpoint.gpus, devices)
    if not endpoint.names_owner:
        return (), "it names neither GPUs nor an owner; add gpus, workload or pod"
    held: dict[tuple[str, str, str], list[str]] = {}
    for device in devices:
        for holding in holdings.get(device.uuid, ()):
            owner = holding.workload
            if _matches(endpoint, owner):
                held.setdefault((owner.key, owner.namespace, owner.pod), []).append(device.uuid)
    if not held:
        return (), "no GPU is held by the owner that it names"
    if len(held) > 1:
        owners = ", ".join(sorted(pod or key for key, _, pod in held))
        return (), f"it names {len(held)} owners ({owners}); name one pod, or the GPUs"
    return next(iter(held.values())), ""


def _named(gpus: Sequence[str], devices: Sequence[Device]) -> tuple[Iterable[str], str]:
    known = {device.uuid: device for device in devices}
    # A MIG instance has the index of its GPU, so that only its uuid names it.
    known |= {str(device.index): device for device in devices if device.mig is None}
    found: list[str] = []
    trouble = ""
    for gpu in gpus:
        device = known.get(gpu)
        if device is None:
            trouble = f"there is no GPU '{gpu}'"
        elif device.has_mig_instances:
            trouble = f"GPU '{gpu}' is split into MIG instances; name them by uuid"
        else:
            found.append(device.uuid)
    return dict.fromkeys(found), trouble


def _matches(endpoint: ServingEndpoint, owner: Workload) -> bool:
    return all(
        not pattern or fnmatchcase(text, pattern)
        for pattern, text in (
            (endpoint.workload, owner.name),
            (endpoint.namespace, owner.namespace),
            (endpoint.pod, owner.pod),
        )
    )
