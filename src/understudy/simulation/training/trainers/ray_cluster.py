"""Which Ray cluster is used: the one that is named, or one that is started on loopback only.

Whoever reaches a port of Ray can run code. Ray itself binds to all interfaces of a machine, so that
others may join; a cluster that is started here is for this machine alone.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from ipaddress import IPv6Address, ip_address
from typing import Any

import psutil

try:
    ray: Any = import_module("ray")
except ImportError as error:
    raise ImportError("a Ray cluster needs Ray: pip install ray", name=error.name) from error

ADDRESS = "RAY_ADDRESS"
LOOPBACK = "127.0.0.1"
SECONDS_TO_ANSWER = 20.0
# Ray's switch for clusters of several machines. Off, as it is on macOS and Windows by default, all
# servers bind to loopback; on, Ray replaces 127.0.0.1 by an address that others can reach.
SEVERAL_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"

Socket = tuple[int, str, int]  # pid, address, port


class RayListensOutside(RuntimeError):
    """A local Ray cluster that other machines could reach; it has been shut down."""


class NoCluster(RuntimeError):
    """No Ray cluster is named, or none answers at its address."""


def join_or_start(address: str | None = None, **options: Any) -> None:
    """Connect to a cluster that is named; without a name, start a local one.

    A cluster that merely runs on this machine is not joined: anybody here can have announced it,
    and it would be sent the caller's code. ``"auto"`` asks for it.

    Parameters
    ----------
    address : str, optional
        Of the cluster; by default that of RAY_ADDRESS. Empty or ``"local"``: a local one.
    **options
        For ``ray.init``.

    Raises
    ------
    RayListensOutside
        When this version of Ray cannot be kept to loopback.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told of the run
    # tasks see the accelerators that this process sees; without it Ray warns
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    options = {"include_dashboard": False, "log_to_driver": False, **options}
    named = os.environ.get(ADDRESS, "") if address is None else address
    if named not in ("", "local"):
        # Ray would look for a cluster on loopback at this machine's other address
        with _one_machine_only() if _host_is_loopback(named) else nullcontext():
            ray.init(**({} if address is None else {"address": address}), **options)
        return
    before = set(outside_sockets())  # such as a server of the program that calls us
    with _one_machine_only():
        ray.init(address="local", _node_ip_address=LOOPBACK, **options)
    found = sorted(set(outside_sockets()) - before)
    if found:
        ray.shutdown()
        where = ", ".join(f"{address}:{port}" for _, address, port in found)
        raise RayListensOutside(
            f"Ray {ray.__version__} listens on {where}, where other machines can reach it; expected"
            f" only {LOOPBACK}. To accept that, start a cluster (ray start --head) and set"
            f" {ADDRESS}=auto; else use --on local"
        )


class ClusterMembership:
    """This process's connection to a cluster, for as long as anybody here needs it.

    Parameters
    ----------
    address : str, optional
        As `RayTrainer` takes it. A connection that the program made itself is used as it is, and
        left open.
    """

    _changing = threading.Lock()
    _n_members = 0  # of a connection that was made here

    def __init__(self, address: str | None) -> None:
        with ClusterMembership._changing:
            if ray.is_initialized():
                self._check_connected(address)
                self._counts = ClusterMembership._n_members > 0
            else:
                _connect(address)
                self._counts = True
            ClusterMembership._n_members += self._counts

    def _check_connected(self, address: str | None) -> None:
        connected = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", "local", connected):
            raise NoCluster(
                f"this process is connected to the Ray cluster at {connected}, expected "
                f"{address!r}; a process belongs to one cluster at a time"
            )

    def end(self) -> None:
        """Leave; the last one closes the connection, and the cluster ends what it runs for us."""
        with ClusterMembership._changing:
            counted, self._counts = self._counts, False
            ClusterMembership._n_members -= counted
            if counted and ClusterMembership._n_members == 0:
                ray.shutdown()


def _connect(address: str | None) -> None:
    named = os.environ.get(ADDRESS, "") if address is None else address
    if not named:
        raise NoCluster(
            f"no Ray cluster is named: expected an address, or one in {ADDRESS}. On one machine "
            "the built-in trainer is faster; to try Ray there, the address is 'local'"
        )
    if "://" in named:
        raise NoCluster(
            f"address: expected host:port, 'auto' or 'local', got {named!r}; run the program on a "
            "machine of the cluster (ray start --address=… joins it)"
        )
    if named not in ("auto", "local"):
        _knock(named)
    try:
        join_or_start(address, logging_level=logging.WARNING)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise NoCluster(f"no Ray cluster can be joined at {named!r}: {error}") from error


def _knock(address: str) -> None:
    """Refuse an address where nobody listens: Ray tries for minutes, and ends the process then."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise NoCluster(f"address: expected host:port, 'auto' or 'local', got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise NoCluster(
            f"no Ray cluster answers at {address!r}: {error}; ray status --address={address} "
            "tells whether there is one"
        ) from error


def outside_sockets() -> Iterator[Socket]:
    """Sockets of this process and its children that other machines could reach."""
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended
            connections = getattr(process, "net_connections", None)  # its name since psutil 6
            for one in (connections or process.connections)(kind="inet"):
                open_to_all = one.status == psutil.CONN_LISTEN or (
                    one.type == socket.SOCK_DGRAM and one.laddr and not one.raddr
                )
                if open_to_all and not _is_loopback(one.laddr.ip):
                    yield process.pid, one.laddr.ip, one.laddr.port


def _host_is_loopback(address: str) -> bool:
    """Of ``host:port``; a name that is no number is asked of nobody."""
    host = address.rpartition(":")[0].strip("[]")
    with suppress(ValueError):
        return _is_loopback(host)
    return host == "localhost"


def _is_loopback(address: str) -> bool:
    number = ip_address(address.partition("%")[0])
    if isinstance(number, IPv6Address) and number.ipv4_mapped is not None:
        return number.ipv4_mapped.is_loopback  # ::ffff:127.0.0.1
    return number.is_loopback


@contextmanager
def _one_machine_only() -> Iterator[None]:
    """Turn the switch off: for Ray's processes, and for Ray in this one, which has read it."""
    constants = ray._private.ray_constants
    variable, constant = os.environ.get(SEVERAL_MACHINES), constants.ENABLE_RAY_CLUSTER
    os.environ[SEVERAL_MACHINES], constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = constant
        if variable is None:
            del os.environ[SEVERAL_MACHINES]
        else:
            os.environ[SEVERAL_MACHINES] = variable
