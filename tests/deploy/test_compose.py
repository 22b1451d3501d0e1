"""The compose file, as far as its text can be checked: no container runs here."""

import re
from pathlib import Path
from typing import Any

import pytest

from dashboard_files import BOARDS
from prometheus_server import promtool
from rightsizer.io.yaml import load_yaml

ROOT = Path(__file__).resolve().parents[2]
GRAFANA = ROOT / "grafana"


def load(path: Path) -> Any:
    """A YAML file's contents."""
    return load_yaml(path.read_text(), path.name).data


FILE = load(GRAFANA / "compose.yaml")
SERVICES = FILE["services"]


@pytest.fixture(params=SERVICES.values(), ids=SERVICES)
def service(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each service."""
    chosen: dict[str, Any] = request.param
    return chosen


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Paths of the repository by their path in a container."""
    pairs = [text.split(":") for text in service.get("volumes", [])]
    return {target: source for source, target, *_ in pairs if source.startswith(".")}


def test_all_four_start_together() -> None:
    """A simulated agent by default, a real one on request, and all services that show data."""
    assert set(SERVICES) == {"demo", "gpus", "prometheus", "alertmanager", "grafana"}
    assert [name for name, each in SERVICES.items() if "profiles" in each] == ["gpus"]


def test_versions_are_pinned(service: dict[str, Any]) -> None:
    """An image has a full version, or is built from this repository."""
    if "build" in service:
        assert (GRAFANA / service["build"] / "Dockerfile").exists()
    else:
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])


def test_ports_are_on_loopback(service: dict[str, Any]) -> None:
    """Nothing is exposed to the network."""
    assert service["ports"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_health_is_asked_at_the_port_that_is_offered(service: dict[str, Any]) -> None:
    """A health check that others wait for shows whether the port answers."""
    (inside,) = {port.rsplit(":", 1)[1] for port in service["ports"]}
    assert f"http://127.0.0.1:{inside}/" in " ".join(service["healthcheck"]["test"])


def test_dependencies_are_services_with_a_health_check(service: dict[str, Any]) -> None:
    """Each dependency has a health check."""
    for name, wish in service.get("depends_on", {}).items():
        assert wish == {"condition": "service_healthy"}
        assert "healthcheck" in SERVICES[name]


def test_mounts_exist(service: dict[str, Any]) -> None:
    """Mounted paths exist in this repository, and are read-only."""
    for text in service.get("volumes", []):
        source, _, *mode = text.split(":")
        if source.startswith("."):
            assert (GRAFANA / source).exists(), source
            assert mode == ["ro"]
        else:
            assert source in FILE["volumes"]


def test_gpus_are_reserved_for_reading_alone() -> None:
    """NVML needs the driver's utilities, and no more."""
    (wish,) = SERVICES["gpus"]["deploy"]["resources"]["reservations"]["devices"]
    assert (wish["driver"], wish["count"], wish["capabilities"]) == ("nvidia", "all", ["utility"])


def test_prometheus_finds_agents_rules_and_alertmanager() -> None:
    """Its configuration uses existing services and files."""
    config = load(GRAFANA / "compose" / "prometheus.yaml")
    given = {Path(path).name for path in mounts(SERVICES["prometheus"])}
    assert set(config["rule_files"]) <= given
    (job,) = config["scrape_configs"]
    assert job["job_name"] == "rightsizer"
    (found,) = job["dns_sd_configs"]
    for name in found["names"]:
        assert SERVICES[name]["ports"][0].endswith(f":{found['port']}")
    (target,) = config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    name, port = target.split(":")
    assert SERVICES[name]["ports"][0].endswith(f":{port}")


@pytest.mark.prometheus
def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    """With the files mounted beside it."""
    for target, source in mounts(SERVICES["prometheus"]).items():
        (tmp_path / Path(target).name).write_text((GRAFANA / source).read_text())
    result = promtool("check", "config", tmp_path / "prometheus.yaml")
    assert result.returncode == 0, result.stdout + result.stderr


def test_grafana_loads_every_dashboard() -> None:
    """The provider's path is where the dashboards are mounted, and the data source is right."""
    given = mounts(SERVICES["grafana"])
    provisioning = GRAFANA / given["/etc/grafana/provisioning/dashboards"]
    (provider,) = load(provisioning / "rightsizer.yaml")["providers"]
    folder = GRAFANA / given[provider["options"]["path"]]
    assert {path.stem for path in folder.glob("*.json")} == set(BOARDS)
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (folder / Path(home).name).exists()


def test_data_source_differs_from_the_provisioned_one_by_its_address() -> None:
    """The containers use the recommended data source."""
    here = load(GRAFANA / "compose" / "datasource.yaml")
    there = load(GRAFANA / "provisioning" / "datasources" / "prometheus.yaml")
    assert here["datasources"][0].pop("url") == "http://prometheus:9090"
    assert there["datasources"][0].pop("url") == "http://localhost:9090"
    assert here == there


def test_alerts_go_to_a_receiver_that_exists() -> None:
    """No alert leaves the machine."""
    config = load(GRAFANA / "compose" / "alertmanager.yaml")
    assert [{"name": config["route"]["receiver"]}] == config["receivers"]
