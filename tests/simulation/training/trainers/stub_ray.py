"""Ray in this process: what is sent is pickled, comes out read only, and is done out of order."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import cloudpickle


class RayError(Exception):
    """A process or a machine was lost."""


class RayTaskError(RayError):
    """The task itself raised."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"a task raised {cause}")
        self.cause = cause


class Ref:
    """Of an object that was put, or of a task."""

    def __init__(self, stored: tuple[bytes, list[bytes]] | None = None) -> None:
        self.stored = stored


def stored(value: Any) -> tuple[bytes, list[bytes]]:
    """As the object store has it: large arrays lie beside the pickle."""
    beside: list[pickle.PickleBuffer] = []
    text = cloudpickle.dumps(value, protocol=5, buffer_callback=beside.append)
    return text, [bytes(one) for one in beside]


class StubRay:
    """Does a task when somebody waits, the last one first.

    Parameters
    ----------
    dies : function
        Of a task's number, from 0: whether its process is killed.
    """

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, dies: Callable[[int], bool] = lambda number: False) -> None:
        self.dies, self.n_cpus = dies, 2
        self.n_puts = self.n_members = 0
        self.tasks: list[tuple[Any, ...]] = []  # verb and order of each, as they came
        self.options: dict[str, Any] = {}
        self.cancelled: list[Ref] = []
        self._todo: dict[Ref, int] = {}
        self.most_running = 0

    def put(self, value: Any) -> Ref:
        self.n_puts += 1
        return Ref(stored(value))

    def get(self, ref: Ref) -> Any:
        assert ref.stored is not None
        result = pickle.loads(ref.stored[0], buffers=ref.stored[1])
        if isinstance(result, RayError):
            raise result
        return result

    def remote(self, function: Callable[..., Any]) -> Any:
        ray = self

        class Remote:
            def options(self, **options: Any) -> Remote:
                ray.options = options
                return self

            def remote(self, *arguments: Any) -> Ref:
                ref = Ref()
                ray._todo[ref] = len(ray.tasks)
                ray.tasks.append((function, *map(ray.resolved, arguments)))
                ray.most_running = max(ray.most_running, len(ray._todo))
                return ref

        return Remote()

    def resolved(self, argument: Any) -> Any:
        return self.get(argument if isinstance(argument, Ref) else Ref(stored(argument)))

    def wait(self, refs: list[Ref], timeout: float) -> tuple[list[Ref], list[Ref]]:
        if not self.n_cpus:
            return [], refs
        ref = refs[-1]
        number = self._todo.pop(ref)
        function, *arguments = self.tasks[number]
        try:
            result = RayError("killed\nin the log") if self.dies(number) else function(*arguments)
        except Exception as error:
            result = RayTaskError(error)
        ref.stored = cloudpickle.dumps(result), []
        if not isinstance(result, RayError):
            ref.stored = stored(result)
        return [ref], refs[:-1]

    def cancel(self, ref: Ref, force: bool) -> None:
        assert force
        self.cancelled.append(ref)

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self.n_cpus)} if self.n_cpus else {}


def as_module(ray: StubRay) -> Any:
    """In place of `ray_cluster`."""

    class ClusterMembership:
        def __init__(self, address: str | None) -> None:
            ray.n_members += 1

        def end(self) -> None:
            ray.n_members -= 1

    return SimpleNamespace(ray=ray, ClusterMembership=ClusterMembership)
