"""The manifests: valid for the API server, with documented access to the node only."""

import copy
import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from agent_process import agent_process, eventually
from json_schema import faults
from kubernetes_manifests import COMPONENTS, KUBERNETES, OVERLAYS, built, documents, named, pod_of
from kubernetes_programs import OLDEST_AND_NEWEST, complaints
from rightsizer import __version__
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load_file

Golden = Callable[[str | Path, str], None]

CONFIG: Final = KUBERNETES.parent
SCHEMAS: Final = Path(__file__).parent / "schemas"
OPERATOR: Final = KUBERNETES / "overlays" / "prometheus-operator"
OWN_SCHEMAS: Final = {
    "ServiceMonitor": "service_monitor",
    "PodMonitor": "pod_monitor",
    "PrometheusRule": "prometheus_rule",
    "SecurityContextConstraints": "security_context_constraints",
}
BASE: Final = [
    document
    for file in sorted((KUBERNETES / "base").glob("*.yaml"))
    if file.name not in ("kustomization.yaml", "rightsizer.yaml")
    for document in documents(file)
]
CUSTOM: Final = [
    document
    for file in sorted((KUBERNETES / "overlays").glob("*/*.yaml"))
    for document in documents(file)
    if document["kind"] in OWN_SCHEMAS
]
_HEAD: Final = """\
# Made from config/prometheus/{rules,alerts}.yaml, which explain them, by `make golden`. Replace the
# addresses of runbooks and dashboards with a patch of your own.
"""


class _Blocks(yaml.SafeDumper):
    """Multi-line texts as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Blocks.add_representer(str, _text)


def schema(kind: str) -> dict[str, Any]:
    """The schema of a custom resource."""
    found: dict[str, Any] = json.loads((SCHEMAS / f"{OWN_SCHEMAS[kind]}.json").read_text())
    return found


@pytest.mark.parametrize("each", CUSTOM, ids=lambda each: str(each["kind"]))
def test_custom_resources_are_as_their_operators_want_them(each: Any) -> None:
    """Every key is known, and every value of its type."""
    assert faults(schema(each["kind"]), each) == []


def test_there_is_one_of_each_custom_resource() -> None:
    """Each schema checks a resource."""
    assert sorted(each["kind"] for each in CUSTOM) == sorted(OWN_SCHEMAS)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("ServiceMonitor", lambda spec: spec["endpoints"][0].update(intervall="15s")),
        ("ServiceMonitor", lambda spec: spec["endpoints"][0].update(interval="15")),
        ("PodMonitor", lambda spec: spec.update(endpoints=[])),
        ("PrometheusRule", lambda spec: spec["groups"][0].pop("name")),
        ("PrometheusRule", lambda spec: spec["groups"][0]["rules"][0].update(labels={"a": 1})),
    ],
)
def test_the_schemas_refuse(kind: str, change: Callable[[Any], object]) -> None:
    """A wrong key, a time without a unit, another kind's key, a missing name, a number."""
    broken = copy.deepcopy(named(CUSTOM, kind))
    change(broken["spec"])

    assert faults(schema(kind), broken)


def test_the_rules_are_those_of_prometheus(golden: Golden) -> None:
    """Rules and alerts have a single source."""
    groups = [
        group
        for name in ("rules.yaml", "alerts.yaml")
        for document in documents(CONFIG / "prometheus" / name)
        for group in document["groups"]
    ]
    made = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "rightsizer", "labels": {"app.kubernetes.io/name": "rightsizer"}},
        "spec": {"groups": groups},
    }
    text = yaml.dump(made, Dumper=_Blocks, sort_keys=False, width=10_000, allow_unicode=True)
    golden(OPERATOR / "prometheus-rule.yaml", _HEAD + text)


@pytest.mark.parametrize("version", OLDEST_AND_NEWEST)
def test_the_api_server_would_take_every_object(version: str, tmp_path: Path) -> None:
    """Overlays, and components that a site adds to one; unknown keys are errors."""
    made = [*map(built, OVERLAYS), *(built("prometheus", [name]) for name in COMPONENTS)]
    objects = [each for each in chain(*made) if each["kind"] not in OWN_SCHEMAS]
    assert complaints(objects, version, tmp_path) == []
    objects[0]["metadata"]["nmae"] = "x"
    assert complaints(objects[:1], version, tmp_path)


def test_probes_ask_pages_that_never_ask_the_driver() -> None:
    """A hung GPU restarts no pod: liveness is /-/healthy, and readiness removes no metric."""
    container = pod_of(BASE)["containers"][0]
    paths = {
        name: container[name]["httpGet"]["path"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/-/healthy",
        "livenessProbe": "/-/healthy",
        "readinessProbe": "/-/ready",
    }
    assert named(BASE, "Service")["spec"]["publishNotReadyAddresses"] is True
    assert named(BASE, "Service")["spec"]["clusterIP"] == "None"


def test_the_agent_has_no_more_than_it_needs() -> None:
    """No capability, writable root, token or Role; of the host it writes only its state."""
    pod = pod_of(BASE)
    container = pod["containers"][0]
    context = container["securityContext"]
    paths = {
        each["name"]: each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each
    }
    writable = {
        paths[each["name"]]
        for each in container["volumeMounts"]
        if each["name"] in paths and not each.get("readOnly")
    }
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert (context["privileged"], context["allowPrivilegeEscalation"]) == (False, False)
    assert context["readOnlyRootFilesystem"] is True
    assert writable == {"/var/lib/rightsizer"}
    assert pod["automountServiceAccountToken"] is False
    assert "hostNetwork" not in pod
    assert not [each for each in BASE if "Role" in each["kind"]]
    assert {"requests", "limits"} == container["resources"].keys()


def test_nodes_are_selected_by_the_labels_that_clouds_and_operators_set() -> None:
    """Node feature discovery names the vendor alone, or its class too, as by default."""
    found = pod_of(BASE)["affinity"]["nodeAffinity"]
    terms = found["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {each["key"] for term in terms for each in term["matchExpressions"]} == {
        "nvidia.com/gpu.present",
        *(f"feature.node.kubernetes.io/pci-{each}10de.present" for each in ("", "0300_", "0302_")),
        "cloud.google.com/gke-accelerator",
        "eks.amazonaws.com/instance-gpu-manufacturer",
        "karpenter.k8s.aws/instance-gpu-manufacturer",
        "kubernetes.azure.com/accelerator",
    }


def test_every_volume_is_mounted_and_every_mount_has_its_reason() -> None:
    """A host path without a comment above it has not been justified."""
    pod = pod_of(BASE)
    mounted = [each["name"] for each in pod["containers"][0]["volumeMounts"]]
    assert sorted(mounted) == sorted(each["name"] for each in pod["volumes"])

    lines = (KUBERNETES / "base" / "daemon-set.yaml").read_text().splitlines()
    unexplained = [
        lines[number - 1].strip()
        for number, line in enumerate(lines)
        if "hostPath:" in line
        and not any("#" in above for above in lines[number - 2 : number])
        # Related mounts are explained once.
        and "log-containers" not in lines[number - 1]
    ]
    assert unexplained == []


def test_the_configuration_loads_and_finds_what_is_mounted() -> None:
    """The agent would start with it, and every path in it is mounted."""
    settings = load_file(Settings, KUBERNETES / "base" / "rightsizer.yaml")
    mounts = {each["mountPath"] for each in pod_of(BASE)["containers"][0]["volumeMounts"]}
    owners = settings.sources.owners

    assert settings.path.sysfs in mounts
    assert str(Path(owners.kubelet_socket).parent) in mounts
    assert {f"{owners.pod_log_folder}/{name}" for name in ("pods", "containers")} <= mounts
    assert str(Path(settings.path.api_socket).parent) in mounts
    assert str(Path(settings.history.path).parent) in mounts


def test_the_image_is_of_this_version() -> None:
    """An overlay of this release starts this release."""
    (kustomization,) = documents(KUBERNETES / "base" / "kustomization.yaml")
    assert kustomization["images"][0]["newTag"] == __version__


def test_the_simulated_node_is_given_nothing_of_the_host() -> None:
    """It would run under the strictest pod security of Kubernetes."""
    objects = built("simulated")
    pod = pod_of(objects)
    labels = named(objects, "Namespace")["metadata"]["labels"]

    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert not [each for each in pod["volumes"] if "hostPath" in each]
    assert pod["containers"][0]["securityContext"]["runAsNonRoot"] is True
    assert pod.keys().isdisjoint({"hostPID", "runtimeClassName", "affinity", "tolerations"})


def test_openshift_allows_what_the_pod_asks_for_and_no_more() -> None:
    """Host PIDs and paths; a pod that requests more would be refused."""
    objects = built("openshift")
    allowed = named(objects, "SecurityContextConstraints")
    pod = pod_of(objects)
    kinds = {kind for each in pod["volumes"] for kind in each if kind != "name"}

    assert allowed["allowHostPID"] is pod["hostPID"]
    assert kinds <= set(allowed["volumes"])
    assert not any(
        allowed[key] for key in ("allowHostNetwork", "allowHostIPC", "allowPrivilegedContainer")
    )
    assert "namespace" not in allowed["metadata"]
    assert named(objects, "Role")["rules"][0]["resourceNames"] == [allowed["metadata"]["name"]]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_meet_the_pods(overlay: str) -> None:
    """Service, policy and monitor select the pods of the DaemonSet, in one namespace."""
    objects = built(overlay)
    labels = named(objects, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    policy = named(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]

    assert named(objects, "Service")["spec"]["selector"].items() <= labels.items()
    assert policy.items() <= labels.items()
    assert {
        each["metadata"]["namespace"] for each in objects if "namespace" in each["metadata"]
    } == {"rightsizer"}
    for each in objects:
        if each["kind"] == "ServiceMonitor":
            of_service = named(objects, "Service")["metadata"]["labels"]
            assert each["spec"]["selector"]["matchLabels"].items() <= of_service.items()


def test_grafana_is_configured_by_settings_and_the_way_to_it_is_open() -> None:
    """The variables are settings, and the token's path is where the secret is mounted."""
    objects = built("prometheus", ["grafana"])
    container = pod_of(objects)["containers"][0]
    environ = {each["name"]: each.get("value", "") for each in container["env"]}
    settings = load_file(Settings, KUBERNETES / "base" / "rightsizer.yaml", environ)
    ports = [
        port["port"]
        for rule in named(objects, "NetworkPolicy")["spec"]["egress"]
        for port in rule["ports"]
    ]
    assert settings.grafana.url.endswith(f":{ports[0]}")
    assert Path(settings.grafana.token_file).parent in {
        Path(each["mountPath"]) for each in container["volumeMounts"]
    }


def test_the_simulated_agent_starts_and_answers_its_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the pod's own configuration and variables; only its folders are elsewhere."""
    container = pod_of(built("simulated"))["containers"][0]
    for each in container["env"]:
        if "value" in each:
            monkeypatch.setenv(each["name"], each["value"])
    monkeypatch.setenv("RIGHTSIZER_HISTORY__PATH", str(tmp_path / "history.db"))
    monkeypatch.setenv("RIGHTSIZER_PATH__API_SOCKET", str(tmp_path / "api.sock"))
    monkeypatch.setenv("RIGHTSIZER_WEB__LISTEN_ADDRESSES", "['127.0.0.1:0']")
    config = (KUBERNETES / "base" / "rightsizer.yaml").read_text()

    with agent_process(tmp_path, config=config) as agent:
        ready = container["readinessProbe"]["httpGet"]["path"]
        eventually(lambda: agent.get(ready)[0] == 200)
        alive = agent.get(container["livenessProbe"]["httpGet"]["path"])[0]
        devices = agent.metric("rightsizer_device_up")
        ended = agent.end()

    assert (alive, devices, ended) == (200, 8.0, 0)
    assert (tmp_path / "history.db").exists()
