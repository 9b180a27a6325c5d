"""A federation in one process: messages go through Flower's own serialisation, time is pretended.

Nodes can be away, slow, restarted, can break Flower's reader, or answer with whatever a test says.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from understudy.flower.messages.requests import Clock

SUPERLINK = 1


class Violation(BaseException):
    """The server did what it must never do; no exception that it might take for a fault."""


class PretendTime:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.wall_set_by = 0.0  # seconds by which somebody has set the wall clock forward

    def sleep(self, seconds: float) -> None:
        self.seconds += max(seconds, 1e-3)

    def clock(self) -> Clock:
        return Clock(
            lambda: self.seconds, self.sleep, lambda: 1e9 + self.seconds + self.wall_set_by
        )


@dataclass
class Node:
    """A SuperNode."""

    id: int
    app: Callable[[Message, Context], Message]
    config: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    key: bytes = b""
    online: bool = True
    delay: Callable[[Message], float] = lambda message: 0.0  # seconds until it has answered
    silent: Callable[[Message], bool] = lambda message: False  # it never answers this one
    activations: int = 1
    state: RecordDict = field(default_factory=RecordDict)

    def restart(self) -> None:
        """Forget everything and connect anew, under the same key."""
        self.activations += 1
        self.state = RecordDict()


def through(message: Message) -> Message:
    """A message as it comes out at the other end."""
    objects = get_all_nested_objects(message)
    contents = {name: thing.deflate() for name, thing in objects.items()}
    copy = inflate_object_from_contents(message.object_id, contents)
    assert isinstance(copy, Message)
    copy.metadata.__dict__["_message_id"] = message.metadata.message_id
    return copy


class LoopbackGrid(Grid):
    """Flower's grid over some nodes in this process."""

    def __init__(self, nodes: Iterable[Node], time: PretendTime | None = None) -> None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 7, 8, SUPERLINK
        self.nodes = {node.id: node for node in nodes}
        self.time = PretendTime() if time is None else time
        self.sent: list[Message] = []
        self.pushes = 0
        self._replies: dict[str, tuple[float, Message]] = {}  # message id → due, reply
        self._open: dict[str, tuple[Message, int]] = {}  # not answered: the message, activations
        self.broken: set[str] = set()  # messages whose reply makes Flower's reader raise
        self._lost: dict[str, Message] = {}  # those whose reply was handed over

    # -- what Flower's Grid has ----------------------------------------------------------------

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> list[int]:
        return [node.id for node in self.nodes.values() if node.online]

    def get_nodes(self) -> list[NodeInfo]:
        return [
            NodeInfo(
                node_id=node.id,
                name=node.name,
                public_key=node.key,
                last_activated_at=f"activation {node.activations}",
            )
            for node in self.nodes.values()
            if node.online
        ]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        assert isinstance(messages, list)  # Flower answers a generator with an error 500
        self.pushes += 1
        ids = []
        for message in messages:
            name = hashlib.sha256(f"{len(self.sent)}".encode()).hexdigest()
            message.metadata.__dict__["_message_id"] = name
            message.metadata.__dict__["at"] = self.time.seconds
            self.sent.append(message)
            ids.append(name)
            node = self.nodes[message.metadata.dst_node_id]
            self._refuse_second(node)
            self._open[name] = message, node.activations
            if not node.silent(message):
                due = self.time.seconds + node.delay(message)
                self._replies[name] = due, self._answer(node, through(message))
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """As the SuperLink: what is there is handed over for good, before any of it is read."""
        found, broken = [], False
        for name in message_ids:
            if name in self._lost:  # the SuperLink knows nothing of it any more
                found.append(self._error(self._lost[name], ErrorCode.MESSAGE_UNAVAILABLE))
            if name not in self._open:
                continue
            message, activations = self._open[name]
            node = self.nodes[message.metadata.dst_node_id]
            if not node.online:
                found.append(self._error(message, ErrorCode.NODE_UNAVAILABLE))
                del self._open[name]
            elif name in self._replies and self._replies[name][0] <= self.time.seconds:
                if node.activations != activations:
                    continue  # it restarted and knows nothing of it
                del self._open[name]
                self._lost[name] = message
                broken |= name in self.broken
                found.append(self._replies.pop(name)[1])
        if broken:
            raise ValueError("object is cut short")
        return found

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        ids = set(self.push_messages(list(messages)))
        end = self.time.seconds + (1e9 if timeout is None else timeout)
        replies: list[Message] = []
        while ids and self.time.seconds < end:
            for reply in self.pull_messages(ids):
                ids.discard(reply.metadata.reply_to_message_id)
                replies.append(reply)
            self.time.sleep(3)
        return replies

    # -- nodes ---------------------------------------------------------------------------------

    def _refuse_second(self, node: Node) -> None:
        for other, activations in self._open.values():
            given_up = self.time.seconds > other.metadata.__dict__["at"] + other.metadata.ttl
            is_its = other.metadata.dst_node_id == node.id and activations == node.activations
            if is_its and not given_up:
                raise Violation(f"node {node.id} got a message while one was pending")

    def _answer(self, node: Node, message: Message) -> Message:
        context = Context(7, node.id, dict(node.config), node.state, {})
        try:
            reply = node.app(message, context)
        except Exception:
            error = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, traceback.format_exc())
            reply = Message(error, reply_to=message)
        return through(reply)

    def _error(self, message: Message, code: int) -> Message:
        """As the SuperLink answers for a node or a message that is gone: it is from itself."""
        reply = Message(Error(code, "It is unavailable."), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = SUPERLINK
        return reply


def nodes_of(
    app: ClientApp, n_nodes: int, *, secure: bool = False, first_id: int = 100
) -> list[Node]:
    """Nodes with partition ids; secure ones have registered names and keys."""
    return [
        Node(
            first_id + i,
            app,
            {"partition-id": i, "num-partitions": n_nodes},
            name=f"hospital-{i}" if secure else "",
            key=f"key {i}".encode() if secure else b"",
        )
        for i in range(n_nodes)
    ]


def config_of(message: Message) -> ConfigRecord:
    return message.content.config_records["config"]
