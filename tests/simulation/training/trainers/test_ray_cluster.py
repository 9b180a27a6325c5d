"""Which cluster is joined, and that one which is started here is on loopback only."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest


class RayOfATest:
    """Stands for Ray where only what it is asked for matters."""

    __version__ = "2.0"

    def __init__(self) -> None:
        self._private = SimpleNamespace(ray_constants=SimpleNamespace(ENABLE_RAY_CLUSTER=True))
        self.started: list[dict[str, Any]] = []
        self.error: Exception | None = None  # what `init` raises
        self.is_on = False
        self.switches: list[Any] = []
        self.is_shut_down = False

    def is_initialized(self) -> bool:
        return self.is_on

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address="10.1.2.3:6379")

    def init(self, **options: Any) -> None:
        if self.error is not None:
            raise self.error
        self.is_on = True
        self.started.append(options)
        self.switches.append(self._private.ray_constants.ENABLE_RAY_CLUSTER)
        self.switches.append(os.environ.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"))

    def shutdown(self) -> None:
        self.is_shut_down, self.is_on = True, False


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that starts Ray, with nothing of Ray in the environment."""
    module = pytest.importorskip(
        "understudy.simulation.training.trainers.ray_cluster", exc_type=ImportError
    )
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"):
        monkeypatch.setenv(name, "0")  # so that they are gone afterwards
    monkeypatch.setattr(module, "ray", RayOfATest())
    return module


@pytest.mark.parametrize("address", [None, "", "local"])
def test_without_an_address_ray_is_told_to_use_loopback(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)
    cluster.join_or_start(num_cpus=3)
    (options,) = cluster.ray.started
    assert options["address"] == "local"  # not any cluster that somebody announced here
    assert options["_node_ip_address"] == "127.0.0.1"
    assert options["num_cpus"] == 3
    assert options["include_dashboard"] is False
    assert cluster.ray.switches == [False, "0"]
    assert cluster.ray._private.ray_constants.ENABLE_RAY_CLUSTER is True
    assert cluster.SEVERAL_MACHINES not in os.environ


def test_a_cluster_that_is_named_is_joined_as_it_is(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.1.2.3:6379")
    monkeypatch.setattr(cluster, "outside_sockets", lambda: [(1, "0.0.0.0", 6379)])
    cluster.join_or_start()
    assert "address" not in cluster.ray.started[0]
    assert "_node_ip_address" not in cluster.ray.started[0]
    assert cluster.ray.switches == [True, None]
    assert not cluster.ray.is_shut_down


def test_a_ray_that_listens_on_all_interfaces_all_the_same_is_shut_down(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another version, say. A server that was there before is the caller's own."""
    own, rays = (1, "0.0.0.0", 80), (2, "::", 6379)
    looks = iter([[own], [own, rays], [own], [own]])
    monkeypatch.setattr(cluster, "outside_sockets", lambda: next(looks))
    with pytest.raises(cluster.RayListensOutside, match=r"Ray 2\.0 listens on :::6379, where"):
        cluster.join_or_start()
    assert cluster.ray.is_shut_down
    cluster.ray.is_shut_down = False
    cluster.join_or_start()
    assert not cluster.ray.is_shut_down


@pytest.fixture
def port() -> Iterator[int]:
    """Somebody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_cluster_on_loopback_is_looked_for_there(cluster: Any, port: int) -> None:
    """And one elsewhere is not, though the switch is the same."""
    for host, switches in (("127.0.0.1", [False, "0"]), ("localhost", [False, "0"])):
        cluster.join_or_start(f"{host}:{port}")
        assert cluster.ray.started[-1]["address"] == f"{host}:{port}"
        assert cluster.ray.switches[-2:] == switches
    cluster.join_or_start("10.1.2.3:6379")
    assert cluster.ray.switches[-2:] == [True, None]


def test_the_last_one_who_needs_it_leaves_the_cluster(cluster: Any, port: int) -> None:
    one = cluster.ClusterMembership(f"127.0.0.1:{port}")
    other = cluster.ClusterMembership(None)
    assert len(cluster.ray.started) == 1
    one.end()
    one.end()
    assert cluster.ray.is_on
    other.end()
    assert not cluster.ray.is_on
    again = cluster.ClusterMembership(f"127.0.0.1:{port}")
    assert len(cluster.ray.started) == 2
    again.end()


def test_a_connection_of_the_programs_own_is_used_and_stays(cluster: Any) -> None:
    cluster.ray.is_on = True
    for address in (None, "auto", "10.1.2.3:6379"):
        cluster.ClusterMembership(address).end()
    assert cluster.ray.started == []
    assert not cluster.ray.is_shut_down
    words = "connected to the Ray cluster at 10.1.2.3:6379, expected '10.9.9.9:1'; a process"
    with pytest.raises(cluster.NoCluster, match=words):
        cluster.ClusterMembership("10.9.9.9:1")


def test_the_address_may_be_in_the_environment(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    cluster.ClusterMembership(None).end()
    assert "address" not in cluster.ray.started[0]  # Ray reads it itself


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (None, "no Ray cluster is named: expected an address, or one in RAY_ADDRESS"),
        ("", "no Ray cluster is named"),
        ("ray://10.1.2.3:10001", "expected host:port, 'auto' or 'local', got 'ray://10.1.2.3:"),
        ("10.1.2.3", "expected host:port, 'auto' or 'local', got '10.1.2.3'"),
        ("somewhere:here", "expected host:port, 'auto' or 'local', got 'somewhere:here'"),
        ("127.0.0.1:1", "no Ray cluster answers at '127.0.0.1:1': .*refused; ray status --addr"),
        ("127.0.0.1:99999999", "no Ray cluster answers at '127.0.0.1:99999999'"),
    ],
)
def test_an_address_without_a_cluster_is_refused_at_once(
    cluster: Any, address: str | None, words: str
) -> None:
    with pytest.raises(cluster.NoCluster, match=words):
        cluster.ClusterMembership(address)
    assert cluster.ray.started == []


def test_what_ray_says_of_an_address_is_told(cluster: Any) -> None:
    cluster.ray.error = ConnectionError("Could not find any running Ray instance.")
    with pytest.raises(cluster.NoCluster, match="can be joined at 'auto': Could not find any run"):
        cluster.ClusterMembership("auto")
    cluster.ray.error = None
    cluster.ClusterMembership("local").end()  # nothing was counted
    assert not cluster.ray.is_on
