"""The doctor's checks of what the agent asks: kubelet, exporter, engines, Grafana."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from checked_machine import GPU, configured, machine, verdict, write
from container_engine import ContainerEngine
from dcgm_exporter import dcgm_exporter, page
from grafana_server import TOKEN, grafana_server
from kubelet_server import answer, kubelet, pod
from rightsizer.agent.doctor.check import Check, CheckContext
from rightsizer.agent.doctor.peers import (
    check_container_engine,
    check_dcgm,
    check_grafana,
    check_kubelet,
    check_serving,
)
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.owners.settings import OwnerSettings
from rightsizer.telemetry.dcgm.settings import DcgmSettings
from rightsizer.telemetry.serving.settings import ServingEndpoint, ServingTelemetrySettings


@pytest.fixture
def context(tmp_path: Path) -> CheckContext:
    """An empty machine with one readable GPU."""
    return machine(tmp_path)


def test_kubelet(context: CheckContext, tmp_path: Path) -> None:
    """An absent one is optional; an unresponsive one is a fault; else it lists its pods."""
    path = tmp_path / "kubelet.sock"
    asked = configured(context, owners=OwnerSettings(kubelet_socket=str(path), timeout_seconds=2.0))
    assert verdict(check_kubelet(asked)) == "unused"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        deaf = check_kubelet(asked)
    assert verdict(deaf) == "limited"
    assert "kubelet.conf" in deaf.remedy
    path.unlink()
    with kubelet(path, lambda _: answer(pod("ml", "train-0", ["GPU-0"]))):
        assert check_kubelet(asked).found == "containers with devices: 1"
    off = configured(context, owners=OwnerSettings(sources=("session",)))
    assert check_kubelet(off).found == "switched off"


def test_container_engine(context: CheckContext, tmp_path: Path) -> None:
    """It is queried only if configured."""
    assert verdict(check_container_engine(context)) == "unused"
    path = str(tmp_path / "docker.sock")
    asked = configured(context, owners=OwnerSettings(container_socket=path))
    assert verdict(check_container_engine(asked)) == "limited"
    engine = ContainerEngine(tmp_path / "docker.sock")
    with engine.running():
        assert check_container_engine(asked).found == "named containers: 0"
        engine.containers = {"message": "page not found"}
        assert verdict(check_container_engine(asked)) == "limited"


def test_dcgm(context: CheckContext) -> None:
    """This node's dcgm-exporter, another node's, another page, and none that answers."""
    assert verdict(check_dcgm(context)) == "unused"
    with dcgm_exporter(page(uuid=GPU.uuid)) as exporter:
        asked = configured(context, dcgm=DcgmSettings(url=exporter.url))
        assert verdict(check_dcgm(asked)) == "ok"
        exporter.text = page()
        other = check_dcgm(asked)
        assert (verdict(other), "none of this node's GPUs" in other.found) == ("missing", True)
        exporter.text = "node_load1 1\n"
        assert verdict(check_dcgm(asked)) == "missing"
        exporter.status = 503
        assert verdict(check_dcgm(asked)) == "missing"


def test_serving_engines(context: CheckContext) -> None:
    """An engine whose GPU is named, one whose owner holds none, and a page of something else."""
    assert verdict(check_serving(context)) == "unused"
    with dcgm_exporter("vllm:num_requests_running 3\n") as engine:
        known = ServingEndpoint(engine.url, gpus=(GPU.uuid,))
        unknown = ServingEndpoint(f"{engine.url}/2", workload="none")

        def serving(*endpoints: ServingEndpoint) -> Check:
            return check_serving(
                configured(context, serving=ServingTelemetrySettings(endpoints=endpoints))
            )

        assert serving(known).found == "engines that answer: 1"
        both = serving(known, unknown)
        assert verdict(both) == "limited"
        assert "no GPU is held by the owner" in both.found
        engine.text = "node_load1 1\n"
        assert verdict(serving(known)) == "missing"


class BothAsked(threading.Event):
    """Set once two wait for it."""

    asked = 0

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the other one."""
        self.asked += 1
        if self.asked > 1:
            self.set()
        return super().wait(timeout)


def test_serving_engines_are_waited_for_together(context: CheckContext) -> None:
    """Each answers only once the other was asked, so one after the other none would."""
    with dcgm_exporter("vllm:num_requests_running 3\n") as engine:
        engine.hangs = BothAsked()
        both = [ServingEndpoint(f"{engine.url}/{at}", gpus=(GPU.uuid,)) for at in range(2)]
        serving = ServingTelemetrySettings(endpoints=tuple(both), timeout_seconds=2.0)
        found = check_serving(configured(context, serving=serving)).found
    assert found == "engines that answer: 2"


def test_grafana(context: CheckContext, tmp_path: Path) -> None:
    """A valid token, an invalid one, an unreadable one, and no server."""
    assert verdict(check_grafana(context)) == "unused"
    token = write(tmp_path / "token", TOKEN)

    def grafana(**settings: Any) -> Check:
        changed = GrafanaSettings(**settings)
        return check_grafana(replace(context, settings=replace(context.settings, grafana=changed)))

    with grafana_server() as server:
        assert verdict(grafana(url=server.url, token_file=str(token))) == "ok"
        token.write_text("another")
        wrong = grafana(url=server.url, token_file=str(token))
        assert verdict(wrong) == "limited"
        assert "grafana-token.conf" in wrong.remedy
        assert "another" not in str(wrong)
        assert verdict(grafana(url=server.url, token_file=str(tmp_path / "none"))) == "limited"
        assert not server.complaints
        http = replace(GrafanaSettings().http, tries=1)
    assert verdict(grafana(url=server.url, token_file=str(token), http=http)) == "missing"
