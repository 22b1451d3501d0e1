"""The fleet recommender in a cluster: a service or a CronJob with minimal rights."""

import argparse
import json
from pathlib import Path
from typing import Any, Final

import pytest

from json_schema import faults
from kubernetes_manifests import KUBERNETES, built_from, documents, named
from kubernetes_programs import OLDEST_AND_NEWEST, complaints
from rightsizer import __version__
from rightsizer.cli.config import WholeSettings
from rightsizer.config.loader import load_file
from rightsizer.fleet.command import COMMAND
from rightsizer.fleet.settings import Shard
from rightsizer.io.yaml import load_yaml

FLEET: Final = KUBERNETES / "fleet"
SCHEMA: Final = Path(__file__).parent / "schemas" / "service_monitor.json"
SCRAPE: Final = KUBERNETES.parent / "prometheus" / "scrape-kubernetes.yaml"
FORMS: Final = {
    "service": "Deployment",
    "cron-job": "CronJob",
    "sharded-service": "StatefulSet",
    "sharded-cron-job": "CronJob",
}
BY_NODE: Final = "node-sharded-cron-job"
_FILES: Final = {"sharded-service": "stateful-set", "sharded-cron-job": "cron-job"}


def template(document: str) -> Any:
    """The pods' template."""
    spec = named(built_from(FLEET / document), FORMS[document])["spec"]
    return (spec["jobTemplate"]["spec"] if document.endswith("cron-job") else spec)["template"]


@pytest.mark.parametrize("version", OLDEST_AND_NEWEST)
def test_the_api_server_would_take_every_object(version: str, tmp_path: Path) -> None:
    """Unknown keys are errors."""
    objects = [each for document in (*FORMS, BY_NODE) for each in built_from(FLEET / document)]
    assert complaints(objects, version, tmp_path) == []


@pytest.mark.parametrize("document", FORMS)
def test_a_pod_has_no_more_than_it_needs(document: str) -> None:
    """It would run under the strictest pod security: nothing of the host, no token, no root."""
    pod = template(document)["spec"]
    (container,) = pod["containers"]
    context = container["securityContext"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert not [each for each in pod["volumes"] if "hostPath" in each]
    assert (context["privileged"], context["allowPrivilegeEscalation"]) == (False, False)
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert {"requests", "limits"} == container["resources"].keys()
    mounted = [each["name"] for each in container["volumeMounts"]]
    claimed = ["state"] if document == "sharded-service" else []
    assert sorted(mounted) == sorted([*claimed, *(each["name"] for each in pod["volumes"])])


@pytest.mark.parametrize("document", FORMS)
def test_its_command_line_is_one_that_the_program_takes(document: str) -> None:
    """A renamed flag must be renamed here too."""
    (container,) = template(document)["spec"]["containers"]
    name, *given = container["args"]
    parser = argparse.ArgumentParser()
    COMMAND.configure(parser)
    arguments = parser.parse_args(given)

    assert name == COMMAND.name
    assert arguments.config_file == Path("/etc/rightsizer/rightsizer.yaml")
    assert arguments.serve is document.endswith("service")
    assert arguments.save is document.endswith("cron-job")


@pytest.mark.parametrize("document", ["sharded-service", "sharded-cron-job"])
def test_there_are_as_many_pods_as_shards(document: str) -> None:
    """Kubernetes gives each its number; the number of pods is that of shards."""
    (whole,) = documents(FLEET / document / f"{_FILES[document]}.yaml")
    spec = whole["spec"] if document == "sharded-service" else whole["spec"]["jobTemplate"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    (shard,) = (each for each in container["args"] if each.startswith("--shard="))
    assert [each["name"] for each in container["env"]] == ["SHARD"]
    count = spec["replicas"] if document == "sharded-service" else spec["completions"]
    assert shard == f"--shard=$(SHARD)/{count}"
    assert Shard.parse(f"{count - 1}/{count}").index == count - 1


def test_shards_of_the_nodes_are_merged_by_one_more_pod() -> None:
    """Of the same volume, once the shards have ended; it alone keeps recommendations."""
    jobs = {
        each["metadata"]["name"]: each["spec"]
        for each in built_from(FLEET / BY_NODE)
        if each["kind"] == "CronJob"
    }
    readers, merge = (jobs[f"rightsizer-fleet{end}"] for end in ("", "-merge"))
    job = readers["jobTemplate"]["spec"]
    pods = [each["jobTemplate"]["spec"]["template"]["spec"] for each in (readers, merge)]
    assert pods[0]["volumes"] == pods[1]["volumes"]
    reading, merging = (pod["containers"][0] for pod in pods)
    for name in ("image", "resources", "securityContext", "volumeMounts"):
        assert reading[name] == merging[name]
    parser = argparse.ArgumentParser()
    COMMAND.configure(parser)
    assert parser.parse_args(reading["args"][1:]).save is False
    arguments = parser.parse_args(merging["args"][1:])
    assert (arguments.action, arguments.save) == ("merge", True)
    count = job["completions"]
    settings = load_file(WholeSettings, FLEET / "base/rightsizer.yaml")
    assert f"--shard=node:$(SHARD)/{count}" in reading["args"]
    assert arguments.answers == [
        Shard.parse(f"node:{index}/{count}").path(Path(settings.fleet.path))
        for index in range(count)
    ]
    begin, end = (
        60 * int(hour) + int(minute)
        for minute, hour, *_ in (each["schedule"].split() for each in (readers, merge))
    )
    assert end - begin > job["activeDeadlineSeconds"] / 60


def test_the_configuration_loads_and_keeps_what_it_reads_on_the_volume() -> None:
    """A replaced pod continues with the cached days and the same ledger."""
    settings = load_file(WholeSettings, FLEET / "base" / "rightsizer.yaml")
    for document in FORMS:
        (container,) = template(document)["spec"]["containers"]
        state = next(each for each in container["volumeMounts"] if each["name"] == "state")
        assert str(Path(settings.fleet.path).parent) == state["mountPath"]


def test_the_socket_of_commands_can_be_made() -> None:
    """The root file system is read-only, and the agent's folder is another."""
    settings = load_file(WholeSettings, FLEET / "base" / "rightsizer.yaml")
    (container,) = template("service")["spec"]["containers"]
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    assert str(Path(settings.fleet.api_socket).parent) in mounted


def test_network_policy_allows_the_store_alone() -> None:
    """Names, and the port of the store's address."""
    objects = built_from(FLEET / "service")
    settings = load_file(WholeSettings, FLEET / "base" / "rightsizer.yaml")
    policy = named(objects, "NetworkPolicy")["spec"]
    ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}

    # 5353 is where the pods that know names listen on OpenShift.
    assert ports == {53, 5353, int(settings.fleet.store.url.rpartition(":")[2])}
    labels = template("service")["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert named(objects, "Service")["spec"]["selector"].items() <= labels.items()


def test_the_operator_scrapes_it_as_the_job_without_operator_does() -> None:
    """The same service, under the job and instance used by alerts and dashboards."""
    objects = built_from(FLEET / "prometheus-operator")
    service = named(objects, "Service")
    monitor = named(objects, "ServiceMonitor")
    scrape = load_yaml(SCRAPE.read_text("utf-8"), "scrape").data["scrape_configs"]
    (job,) = (each for each in scrape if each["job_name"] == "rightsizer-fleet-kubernetes")
    as_instance, as_job = job["relabel_configs"][-2:]
    (endpoint,) = monitor["spec"]["endpoints"]

    assert faults(json.loads(SCHEMA.read_text()), monitor) == []
    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["spec"]["jobLabel"]] == as_job["replacement"] == "rightsizer-fleet"
    assert endpoint["port"] in {each["name"] for each in service["spec"]["ports"]}
    assert (endpoint["interval"], endpoint["honorLabels"]) == ("1m", job["honor_labels"])
    assert endpoint["relabelings"] == [
        {
            "sourceLabels": as_instance["source_labels"],
            "targetLabel": as_instance["target_label"],
            "replacement": as_instance["replacement"],
        }
    ]
    assert {each["metadata"]["namespace"] for each in objects} == {"rightsizer"}


def test_there_is_never_a_second_writer() -> None:
    """Neither beside an old pod during a rollout, nor beside a slow run."""
    deployment = named(built_from(FLEET / "service"), "Deployment")["spec"]
    job = named(built_from(FLEET / "cron-job"), "CronJob")["spec"]

    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert job["concurrencyPolicy"] == "Forbid"


@pytest.mark.parametrize("document", FORMS)
def test_the_image_is_of_this_version(document: str) -> None:
    """A manifest of this release starts this release."""
    (container,) = template(document)["spec"]["containers"]
    assert container["image"].endswith(f":{__version__}")
