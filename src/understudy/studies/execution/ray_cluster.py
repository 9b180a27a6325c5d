"""Which Ray cluster a study runs on: the one that RAY_ADDRESS names, or one on loopback only.

Whoever reaches a port of Ray can run code. Ray itself binds to all interfaces of a machine, so that
others may join; a cluster that a study starts for itself is for this machine alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from ipaddress import IPv6Address, ip_address
from socket import SOCK_DGRAM
from typing import Any

import psutil

try:
    ray: Any = import_module("ray")
except ImportError as error:
    raise ImportError("on='ray' needs Ray: pip install ray", name=error.name) from error

ADDRESS = "RAY_ADDRESS"
LOOPBACK = "127.0.0.1"
# Ray's switch for clusters of several machines. Off, as it is on macOS and Windows by default, all
# servers bind to loopback; on, Ray replaces 127.0.0.1 by an address that others can reach.
SEVERAL_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"

Socket = tuple[int, str, int]  # pid, address, port


class RayListensOutside(RuntimeError):
    """A local Ray cluster that other machines could reach; it has been shut down."""


def join_or_start(**options: Any) -> None:
    """Connect to the cluster that RAY_ADDRESS names; without one, start a local one.

    A cluster that merely runs on this machine is not joined: anybody here can have announced it,
    and it would be sent the study's code. ``RAY_ADDRESS=auto`` asks for it.

    Parameters
    ----------
    **options
        For ``ray.init``.

    Raises
    ------
    RayListensOutside
        When this version of Ray cannot be kept to loopback.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told of the run
    # cells see the accelerators that this process sees; without it Ray warns
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    options = {"include_dashboard": False, "log_to_driver": False, **options}
    if os.environ.get(ADDRESS, "") not in ("", "local"):
        ray.init(**options)
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


def outside_sockets() -> Iterator[Socket]:
    """Sockets of this process and its children that other machines could reach."""
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended
            connections = getattr(process, "net_connections", None)  # its name since psutil 6
            for one in (connections or process.connections)(kind="inet"):
                open_to_all = one.status == psutil.CONN_LISTEN or (
                    one.type == SOCK_DGRAM and one.laddr and not one.raddr
                )
                if open_to_all and not _is_loopback(one.laddr.ip):
                    yield process.pid, one.laddr.ip, one.laddr.port


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
