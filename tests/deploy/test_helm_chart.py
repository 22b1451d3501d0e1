"""The chart in a real Helm: it equals kustomize's output, and refuses invalid values."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from agent_process import agent_process, eventually
from helm_chart import CHART, refusal, rendered, values_of
from json_schema import faults
from kubernetes_manifests import KUBERNETES, built, built_from, named, pod_of
from kubernetes_programs import OLDEST_AND_NEWEST, complaints, helm
from rightsizer import __version__
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load_file

SCHEMA: Final[dict[str, Any]] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
OF_TOOLS: Final = frozenset(
    {
        "namespace",
        "imagePullPolicy",
        "helm.sh/chart",
        "checksum/configuration",
        "app.kubernetes.io/managed-by",
        "app.kubernetes.io/version",
    }
)
EVERYTHING: Final = {
    "dashboards": {"enabled": True},
    "env": [{"name": "RIGHTSIZER_TOKEN", "value": "x"}],
    "fleet": {"enabled": True, "env": [{"name": "RIGHTSIZER_TOKEN", "value": "x"}]},
    "grafana": {"url": "http://grafana.monitoring.svc:3000"},
    "imagePullSecrets": [{"name": "registry"}],
    "mig": {"enabled": True},
    "networkPolicy": {"egress": [{"ports": [{"port": 3000, "protocol": "TCP"}]}]},
    "nodeLabels": {"enabled": True},
    "nodeSelector": {"pool": "gpu"},
    "podAnnotations": {"team": "platform"},
    "podLabels": {"team": "platform"},
    "serviceMonitor": {"enabled": False},
    "podMonitor": {"enabled": True},
    "priorityClassName": "system-node-critical",
    "volumes": [{"name": "prices", "configMap": {"name": "prices"}}],
    "volumeMounts": [{"name": "prices", "mountPath": "/etc/prices"}],
    "web": {"secret": "rightsizer-web"},
}
GKE: Final = {
    "runtimeClassName": "",
    "privileged": True,
    "env": [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}],
    "volumes": [
        {
            "name": "driver",
            "hostPath": {"path": "/home/kubernetes/bin/nvidia", "type": "Directory"},
        }
    ],
    "volumeMounts": [{"name": "driver", "mountPath": "/usr/local/nvidia", "readOnly": True}],
}
SITE: Final = {"image": {"repository": "registry.internal/gpu/rightsizer", "tag": "1.2.3"}}


def by_name(objects: list[Any]) -> dict[tuple[str, str], Any]:
    """The objects by kind and name, without differences between the tools."""
    found = {}
    for each in map(_plain, objects):
        kind = each["kind"]
        name = each["metadata"]["name"]
        if kind == "ConfigMap":  # kustomize's names have a hash.
            name = name.partition("-configuration")[0] + "-configuration"
            each["metadata"]["name"] = name
        found[kind, name] = each
    return found


def _plain(value: Any) -> Any:
    """Without namespaces, tool labels, hashes, and comments in configurations."""
    if isinstance(value, list):
        found = [_plain(each) for each in value]
        return sorted(found, key=lambda each: str(each["name"])) if _is_set(value) else found
    if not isinstance(value, Mapping):
        return value
    plain = {key: _plain(each) for key, each in value.items() if key not in OF_TOOLS}
    if "rightsizer.yaml" in plain:
        plain["rightsizer.yaml"] = yaml.safe_load(plain["rightsizer.yaml"])
    if "configMap" in plain:
        name = plain["configMap"]["name"].partition("-configuration")[0]
        plain["configMap"] = {"name": f"{name}-configuration"}
    return {key: each for key, each in plain.items() if key != "annotations" or each}


def _is_set(values: list[Any]) -> bool:
    """Variables, volumes and mounts, in any order."""
    return all(isinstance(value, Mapping) and "name" in value for value in values)


def test_it_makes_what_the_overlay_of_the_operator_makes() -> None:
    """Object by object; a chart creates no namespace."""
    mine = by_name(rendered())
    theirs = by_name(built("prometheus-operator"))
    del theirs["Namespace", "rightsizer"]
    assert mine.keys() == theirs.keys()
    for key, their in theirs.items():
        assert mine[key] == their, key


def test_it_makes_the_fleet_as_kustomize_does() -> None:
    """The service with its monitor."""
    mine = by_name(rendered({"fleet": {"enabled": True}}))
    theirs = by_name(built_from(KUBERNETES / "fleet" / "prometheus-operator"))
    fleet = {key: each for key, each in mine.items() if key[1].startswith("rightsizer-fleet")}
    assert fleet.keys() == theirs.keys()
    for key, their in theirs.items():
        assert fleet[key] == their, key


@pytest.mark.parametrize(
    ("component", "values"),
    [
        ("default-runtime", {"runtimeClassName": ""}),
        ("gke", GKE),
        ("mig", {"mig": {"enabled": True}}),
        ("node-labels", {"nodeLabels": {"enabled": True}}),
        ("web", {"web": {"secret": "rightsizer-web"}}),
    ],
)
def test_a_value_does_what_a_component_does(component: str, values: dict[str, Any]) -> None:
    """In the agent's pod."""
    key = ("DaemonSet", "rightsizer")
    mine = by_name(rendered(values))[key]
    assert mine == by_name(built("prometheus-operator", [component]))[key]


def test_a_simulated_node_is_given_nothing_of_the_host() -> None:
    """Like the overlay."""
    values = {"simulated": {"enabled": True}, "privileged": True}
    mine = by_name(rendered(values))["DaemonSet", "rightsizer"]
    theirs = by_name(built("simulated"))["DaemonSet", "rightsizer"]
    assert mine == theirs


def test_grafana_is_configured_by_one_value() -> None:
    """Address, token and its Secret; egress is opened too."""
    url = "http://grafana.monitoring.svc:3000"
    key = ("DaemonSet", "rightsizer")
    mine = by_name(rendered({"grafana": {"url": url}}))[key]
    assert mine == by_name(built("prometheus-operator", ["grafana"]))[key]


def test_a_site_sets_its_registry_and_labels() -> None:
    """The fleet's image is beside the agent's, unless it is named."""
    labels = {"release": "kube-prometheus-stack"}
    site = {
        **SITE,
        "fleet": {"enabled": True},
        "serviceMonitor": {"labels": labels},
        "prometheusRule": {"labels": labels},
        "priorityClassName": "system-node-critical",
        "imagePullSecrets": [{"name": "registry"}],
    }
    objects = rendered(site)
    pods = [
        named(objects, kind)["spec"]["template"]["spec"] for kind in ("DaemonSet", "Deployment")
    ]
    images = [pod["containers"][0]["image"] for pod in pods]
    assert images == [f"registry.internal/gpu/rightsizer{end}:1.2.3" for end in ("", "-tools")]
    for pod in pods:
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pods[0]["priorityClassName"] == "system-node-critical"
    assert named(objects, "PrometheusRule")["metadata"]["labels"]["release"] == labels["release"]


def test_alerts_lead_to_the_pages_of_the_site() -> None:
    """Every address of a runbook and a dashboard, and expressions stay as they are."""
    site = {"documentation": "https://git.internal/gpu/docs", "grafana": "https://grafana.internal"}
    mine, before = (
        named(rendered(values), "PrometheusRule")["spec"]["groups"]
        for values in ({"prometheusRule": site}, {})
    )
    alerts = [rule for group in mine for rule in group["rules"] if "alert" in rule]
    assert len(alerts) > 30
    for alert in alerts:
        name = alert["alert"]
        links = alert["annotations"]
        assert links["runbook_url"] == f"{site['documentation']}/runbooks/{name}.md"
        assert links["dashboard_url"].startswith(f"{site['grafana']}/d/rightsizer-")
    expressions = [
        [rule["expr"] for group in groups for rule in group["rules"]] for groups in (mine, before)
    ]
    assert expressions[0] == expressions[1]


def test_files_of_the_site_are_mounted() -> None:
    """Secrets of the agent and of the fleet, beside what they have."""
    more = {
        "volumes": [{"name": "store", "secret": {"secretName": "store"}}],
        "volumeMounts": [{"name": "store", "mountPath": "/run/secrets/store", "readOnly": True}],
    }
    with_them = rendered({**more, "fleet": {"enabled": True, **more}})
    without = rendered({"fleet": {"enabled": True}})
    for kind in ("DaemonSet", "Deployment"):
        mine, before = (
            named(each, kind)["spec"]["template"]["spec"] for each in (with_them, without)
        )
        assert mine["volumes"] == before["volumes"] + more["volumes"]
        mounts = before["containers"][0]["volumeMounts"] + more["volumeMounts"]
        assert mine["containers"][0]["volumeMounts"] == mounts


def test_prometheus_logs_in_as_the_endpoint_says() -> None:
    """In the form of the operator's schema."""
    secret = {"name": "rightsizer-scrape", "key": "password"}
    endpoint = {"scheme": "https", "basicAuth": {"password": secret}}
    values = {"serviceMonitor": {"endpoint": endpoint}}
    (found,) = named(rendered(values), "ServiceMonitor")["spec"]["endpoints"]
    assert found["scheme"] == "https"
    assert found["basicAuth"] == endpoint["basicAuth"]
    assert found["port"] == "metrics"


@pytest.mark.parametrize("monitor", ["serviceMonitor", "podMonitor"])
def test_relabelings_of_a_site_follow_those_of_the_chart(monitor: str) -> None:
    """A cluster's name joins the node's; labels of workloads stay honored."""
    cluster = {"targetLabel": "cluster", "replacement": "east"}
    dropped = {"sourceLabels": ["__name__"], "regex": "python_.+", "action": "drop"}
    endpoint = {"relabelings": [cluster], "metricRelabelings": [dropped]}
    (other,) = {"serviceMonitor", "podMonitor"} - {monitor}
    values = {monitor: {"enabled": True, "endpoint": endpoint}, other: {"enabled": False}}
    objects = rendered(values)
    spec = named(objects, monitor[0].upper() + monitor[1:])["spec"]
    (found,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
    assert [each["targetLabel"] for each in found["relabelings"]] == ["instance", "cluster"]
    assert found["metricRelabelings"] == [dropped]
    assert found["honorLabels"] is True
    assert "/endpoint/honorLabels" in refusal({monitor: {"endpoint": {"honorLabels": False}}})


def test_probes_work_behind_users(tmp_path: Path) -> None:
    """The kubelet cannot log in; the rendered commands ask a real agent over its socket."""
    (tmp_path / "web.yml").write_text(
        "basic_auth_users: {ana: $2y$04$abcdefghijklmnopqrstuOFQTKgVuF6Fmd5HZwE8vYJKfWRQmzV2e}\n"
    )
    config = f"web: {{config_file: web.yml}}\npath: {{api_socket: {tmp_path}/api.sock}}\n"
    simulated = "sources: {simulated: {scenario: single-h100}}\nhistory: {path: ''}\n"
    pod = named(rendered({"web": {"secret": "rightsizer-web"}}), "DaemonSet")
    container = pod["spec"]["template"]["spec"]["containers"][0]
    probes = [container[name]["exec"]["command"] for name in ("livenessProbe", "readinessProbe")]
    with agent_process(
        tmp_path,
        "--web.listen-address=127.0.0.1:0",
        config=config + simulated,
        answers=lambda _: (tmp_path / "api.sock").exists(),
    ) as agent:
        assert agent.get("/-/healthy")[0] == 401
        for program, flag, code in probes:
            assert (program, flag) == ("python", "-c")
            own = code.replace("/run/rightsizer", str(tmp_path))
            eventually(lambda own=own: _status(own) == 0)
        assert _status(own.replace("/-/ready", "/-/absent")) == 1


def _status(code: str) -> int:
    return subprocess.run([sys.executable, "-c", code], check=False).returncode


def test_the_image_of_the_fleet_may_lie_elsewhere() -> None:
    """Its tag is that of the agent's."""
    fleet = {"enabled": True, "image": {"repository": "registry.internal/fleet"}}
    pod = named(rendered({**SITE, "fleet": fleet}), "Deployment")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.internal/fleet:1.2.3"


def test_images_are_pinned_by_digest() -> None:
    """In place of the tag, each image by its own; anything else is refused."""
    agent, fleet = (f"sha256:{digit * 64}" for digit in "ab")
    values = {
        "image": {**SITE["image"], "digest": agent},
        "fleet": {"enabled": True, "image": {"digest": fleet}},
    }
    objects = rendered(values)
    names = [
        named(objects, kind)["spec"]["template"]["spec"]["containers"][0]["image"]
        for kind in ("DaemonSet", "Deployment")
    ]
    repository = SITE["image"]["repository"]
    assert names == [f"{repository}@{agent}", f"{repository}-tools@{fleet}"]
    assert "digest" in refusal({"image": {"digest": "latest"}})


def test_openshift_s_type_of_selinux_is_a_value() -> None:
    """As in the overlay; without it nothing is said, for other systems label otherwise."""
    (agent,) = pod_of(rendered({"seLinuxOptions": {"type": "spc_t"}}))["containers"]
    assert agent["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}
    (agent,) = pod_of(rendered())["containers"]
    assert "seLinuxOptions" not in agent["securityContext"]


def test_a_pod_monitor_takes_the_place_of_the_other() -> None:
    """Never both: every series would be there twice."""
    values = {"serviceMonitor": {"enabled": False}, "podMonitor": {"enabled": True}}
    kinds = [each["kind"] for each in rendered(values)]
    assert "PodMonitor" in kinds
    assert "ServiceMonitor" not in kinds
    both = {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}
    assert "every GPU counts twice; enable one of them" in refusal(both)


def test_dashboards_come_as_the_sidecar_wants_them() -> None:
    """One ConfigMap each, with the sidecar's label; the dashboards are the product's own."""
    maps = [
        each
        for each in rendered({"dashboards": {"enabled": True}})
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].startswith("rightsizer-dash")
    ]
    folder = CHART.parents[2] / "grafana" / "dashboards"
    mounted = {name: text for each in maps for name, text in each["data"].items()}
    assert mounted == {path.name: path.read_text("utf-8") for path in folder.glob("*.json")}
    assert {each["metadata"]["labels"]["grafana_dashboard"] for each in maps} == {"1"}
    assert max(len(text.encode()) for text in mounted.values()) < 900_000  # An object holds 1 MiB.


def test_the_configuration_loads(tmp_path: Path) -> None:
    """A site's additions are merged."""
    objects = rendered({"config": {"web": {"metrics": {"level": "standard"}}}})
    maps = [each for each in objects if each["kind"] == "ConfigMap"]
    (configuration,) = [each["data"]["rightsizer.yaml"] for each in maps]
    file = tmp_path / "rightsizer.yaml"
    file.write_text(configuration)
    settings = load_file(Settings, file)
    assert str(settings.web.metrics.level) == "standard"
    assert settings.log.format == "json"


def test_values_are_as_their_schema_wants_them() -> None:
    """Every value is in it, and Helm refuses an unknown one by name."""
    assert faults(SCHEMA, values_of()) == []
    assert SCHEMA["properties"].keys() - {"global"} == values_of().keys()
    assert "'repositry' not allowed" in refusal({"image": {"repositry": "x"}})
    assert "/podMonitor/interval" in refusal({"podMonitor": {"interval": "15"}})


def test_helm_has_no_complaint() -> None:
    """With the default chart, and warnings as errors."""
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("version", OLDEST_AND_NEWEST)
def test_kubernetes_takes_every_object(version: str, tmp_path: Path) -> None:
    """With strict validation: the default chart, and everything enabled."""
    objects = [
        each
        for each in (*rendered(EVERYTHING), *rendered())
        if not each["apiVersion"].startswith("monitoring.coreos.com")
    ]
    assert complaints(objects, version, tmp_path) == []


def test_the_chart_is_of_this_version() -> None:
    """The image's tag follows from it; Helm requires SemVer."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert about["appVersion"] == __version__
    assert about["version"] == __version__.replace("rc", "-rc.")
