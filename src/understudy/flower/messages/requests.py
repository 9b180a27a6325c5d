"""Messages that wait for an answer, and how long a round waits for them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Literal

import torch
from flwr.app import Message
from flwr.serverapp import Grid

from understudy.core import checks
from understudy.core.printable import printable
from understudy.flower.clients.identity import Node
from understudy.flower.log import logger

# Flower's error codes that mean something of their own here; all others are the client's error
MESSAGE_UNAVAILABLE = 3  # such as one whose reply was handed over already
NODE_UNAVAILABLE = 5
FIRST_PAUSE = 0.01  # seconds between two polls at first; doubled up to `poll`
AT_ONCE = 100  # messages pushed in one call: Flower refuses calls that are too large
LOOK_EVERY = 3.0  # seconds between two looks at who is connected
PUSH, PUSH_TO_TRAIN = "push_messages", "push_messages of training"  # how calls are counted
MOST_FAILED_ROUNDS = 3  # in a row in which a call of the Grid fails every time

Kind = Literal["train", "evaluate", "introduce", "unwanted"]


@dataclass(frozen=True)
class Timing:
    """When a round ends.

    Parameters
    ----------
    deadline : float
        Seconds that a round waits at most.
    quorum : float
        Share of those asked whose answer is enough; then the round waits `grace` more seconds.
    grace : float
        Seconds.
    late_for : float, optional
        Seconds after the deadline in which a late answer is still used; until then its client is
        not asked again. By default ten deadlines.
    wait : float
        Seconds that a round waits at most for nodes to connect.
    poll : float
        Longest pause between two polls. Poll often: the answer of a node that leaves before the
        next poll is lost.
    replies_at_once : int
        Replies that one call asks for. More than 1 makes polls of many clients cheaper, but a
        reply that Flower cannot decode then costs those of the same call: for clients one trusts.
    """

    deadline: float = 600.0
    quorum: float = 0.8
    grace: float = 30.0
    late_for: float | None = None
    wait: float = 600.0
    poll: float = 1.0
    replies_at_once: int = 1

    def __post_init__(self) -> None:
        checks.number("deadline", self.deadline, low=0, low_open=True)
        checks.number("quorum", self.quorum, low=0, high=1, low_open=True)
        checks.number("grace", self.grace, low=0)
        if self.late_for is not None:
            checks.number("late_for", self.late_for, low=0)
        checks.number("wait", self.wait, low=0)
        checks.number("poll", self.poll, low=0, low_open=True)
        checks.integer("replies_at_once", self.replies_at_once, low=1)

    @property
    def patience(self) -> float:
        """Seconds from asking until an answer is given up."""
        late = 10 * self.deadline if self.late_for is None else self.late_for
        return self.deadline + late


@dataclass(frozen=True)
class Clock:
    """Time, and how to wait; a test has its own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time  # seconds since 1970, for what outlives the process;
    # it may be set back or forth, so nothing is waited for by it


@dataclass(frozen=True, eq=False)
class Request:
    """A message that a node was sent."""

    kind: Kind
    node: Node  # as it was when it was asked
    t: int
    asked_at: float  # by `Clock.now`
    client: int = -1  # its number; -1: not known yet
    start: torch.Tensor | None = None  # (d,) the model that it was sent
    answered_at: float | None = None  # by `Clock.now`, of an answer after its round


@dataclass
class Collected:
    """What became of the messages of a round."""

    replies: dict[str, Message] = field(default_factory=dict)  # to this round's messages
    late: dict[str, Message] = field(default_factory=dict)  # to earlier ones
    restarted: set[str] = field(default_factory=set)  # asked, but the node restarted since
    unreadable: dict[str, str] = field(default_factory=dict)  # a reply was there and broke Flower
    lost: dict[str, str] = field(default_factory=dict)  # its call asked for one that broke Flower
    failed: dict[str, str] = field(default_factory=dict)  # not answered, and the last pull failed
    seconds: dict[str, float] = field(default_factory=dict)  # until each reply was there


class GridFailed(RuntimeError):
    """Some call of Flower's Grid has failed for several rounds, every time."""


class GridCalls:
    """How the calls of Flower's Grid went.

    One that fails costs its messages, not the run. Where all of a kind fail, each round is empty:
    after some such rounds the run ends, instead of playing all that are left.
    """

    def __init__(self) -> None:
        self._worked: dict[str, bool] = {}  # call → whether it ever did in this round
        self._in_a_row: Counter[str] = Counter()  # call → rounds in which it never did
        self._errors: dict[str, str] = {}  # call → what went wrong the last time

    def works(self, *calls: str) -> None:
        """A call gave an answer; it may count under several names."""
        for call in calls:
            self._worked[call] = True

    def fails(self, error: str, *calls: str) -> None:
        """A call gave none."""
        for call in calls:
            self._worked.setdefault(call, False)
            self._errors[call] = error

    def never_worked(self, call: str) -> bool:
        """Whether a call was made in this round and has failed every time so far."""
        return self._worked.get(call) is False

    @property
    def trouble(self) -> str:
        """What has failed every time in this round so far; empty where nothing did."""
        failed = [call for call in self._worked if self.never_worked(call)]
        return "; ".join(f"{call}: {self._errors[call]}" for call in failed)

    def end_round(self) -> None:
        """Raise where a call has failed every time for too many rounds."""
        for call, worked in self._worked.items():
            self._in_a_row[call] = 0 if worked else self._in_a_row[call] + 1
        trouble = self.trouble
        self._worked.clear()
        if max(self._in_a_row.values(), default=0) >= MOST_FAILED_ROUNDS:
            raise GridFailed(
                f"Flower's Grid has failed for {MOST_FAILED_ROUNDS} rounds in a row, each time "
                f"({trouble}); the rounds before are kept in the folder, if there is one, and the "
                "next run resumes after them"
            )


def push(
    grid: Grid, messages: list[Message], calls: GridCalls, *, to_train: bool = False
) -> dict[int, str]:
    """Send messages; position → message id, without those that could not be sent.

    Messages to train count on their own, too: they are the largest, and where none of them arrives
    the rounds are empty, whatever becomes of the others.
    """
    counted = [PUSH, PUSH_TO_TRAIN] if to_train else [PUSH]
    sent: dict[int, str] = {}
    for first in range(0, len(messages), AT_ONCE):
        part = messages[first : first + AT_ONCE]  # a list: Flower reads it several times
        try:
            ids = list(grid.push_messages(part))
        except Exception as error:  # one failed call must not end the run
            logger.error("messages could not be sent: %s", _words(error))
            calls.fails(_words(error), *counted)
            continue
        taken = {first + place: str(name) for place, name in enumerate(ids) if name}
        if taken:
            calls.works(*counted)
        else:  # as Flower does where a message is too large
            calls.fails("none of the messages was taken", *counted)
        sent |= taken
    return sent


def collect(
    grid: Grid,
    asked: Mapping[str, Node],
    earlier: Iterable[str],
    timing: Timing,
    clock: Clock,
    calls: GridCalls,
    failed: dict[str, str],
    or_earlier: bool = False,
) -> Collected:
    """Wait for answers until all are there, the deadline has passed, or quorum and grace have.

    Parameters
    ----------
    asked : mapping
        Message id → the node it was sent to, as it was then.
    earlier : iterable of str
        Messages of earlier rounds that may be answered meanwhile.
    failed : dict
        Message id → what its last pull raised, kept from call to call. Such a pull is made again:
        whether a reply was lost with it, Flower says then.
    or_earlier : bool
        Where nobody is asked, wait for the answers to earlier messages in the same way.
    """
    found = Collected()
    open_ids, owed = dict(asked), set(earlier)
    awaited = set(asked) or (set(owed) if or_earlier else set())
    begin = looked = clock.now()
    end, enough, pause = begin + timing.deadline, ceil(timing.quorum * len(awaited)), FIRST_PAUSE
    has_quorum, shared = False, set[str]()  # replies that a failed call asked for with others
    while True:
        answered = 0
        names = [*open_ids, *sorted(owed)]
        before = {name: failed.pop(name) for name in names if name in failed}
        for name, reply in _pulled(
            grid, names, before, timing.replies_at_once, found, calls, failed, shared
        ):
            if name in before and name in open_ids and reply is not None and _is_gone(reply):
                (found.lost if name in shared else found.unreadable)[name] = before[name]
            if name in found.unreadable or name in found.lost:
                open_ids.pop(name, None)
                continue
            if reply is None:
                continue
            answered += 1
            found.seconds[name] = clock.now() - begin
            (found.late if name in owed else found.replies)[name] = reply
            owed.discard(name)
            open_ids.pop(name, None)
        now = clock.now()
        answers = {**found.late, **found.replies}
        came = sum(name in awaited and not answers[name].has_error() for name in answers)
        if not has_quorum and awaited and came >= enough:
            has_quorum, end = True, min(end, now + timing.grace)
        if not awaited & (open_ids.keys() | owed) or now >= end:
            _note_restarts(grid, asked, found, calls)
            found.failed = {name: failed[name] for name in open_ids if name in failed}
            return found
        if now - looked >= LOOK_EVERY:
            looked = now
            for name in _restarted(grid, open_ids, calls):
                found.restarted.add(name)
                del open_ids[name]
            continue
        pause = FIRST_PAUSE if answered else min(2 * pause, timing.poll)
        clock.sleep(min(pause, max(0.0, end - now)))


def connected(grid: Grid, calls: GridCalls) -> list[Node]:
    """The SuperNodes that are there; one that died looks as if it were for up to a minute."""
    try:
        nodes = [Node.of(info) for info in grid.get_nodes()]
    except Exception as error:
        logger.error("who is connected could not be asked: %s", _words(error))
        calls.fails(_words(error), "get_nodes")
        return []
    calls.works("get_nodes")
    return nodes


def wait_for_nodes(
    grid: Grid, needed: int, timing: Timing, clock: Clock, calls: GridCalls
) -> list[Node]:
    """Who is connected, once enough are, or when waiting for them has taken long enough."""
    end, pause, is_logged = clock.now() + timing.wait, FIRST_PAUSE, False
    while True:
        nodes = connected(grid, calls)
        if len(nodes) >= needed:
            return nodes
        if clock.now() >= end:
            logger.warning(
                "%d nodes are connected after %g s, %d were wanted: the round starts without them",
                len(nodes),
                timing.wait,
                needed,
            )
            return nodes
        if not is_logged:
            logger.info("waiting for nodes: %d connected, %d wanted", len(nodes), needed)
            is_logged = True
        pause = min(2 * pause, timing.poll)
        clock.sleep(min(pause, max(0.0, end - clock.now())))


def _pulled(
    grid: Grid,
    names: list[str],
    before: Mapping[str, str],
    at_once: int,
    found: Collected,
    calls: GridCalls,
    failed: dict[str, str],
    shared: set[str],
) -> Iterator[tuple[str, Message | None]]:
    """Message id → its reply, if it is there.

    By default each has a call of its own: the SuperLink hands over, for good, all replies that one
    call asks for, and one that Flower cannot decode makes the call raise. All others of the call
    are then lost. What a failed call asked for is pulled one by one.
    """
    parts = [[name] for name in names if at_once == 1 or name in before]
    others = [name for name in names if at_once > 1 and name not in before]
    parts += [others[first : first + at_once] for first in range(0, len(others), at_once)]
    for part in parts:
        try:
            replies = {one.metadata.reply_to_message_id: one for one in grid.pull_messages(part)}
        except Exception as error:  # the network, or whatever bytes from outside make Flower raise
            words = _words(error)
            calls.fails(words, "pull_messages")
            if any(found.failed.get(name) != words for name in part):  # once, not at each poll
                logger.warning("a pull failed, and is tried again: %s", words)
            for name in part:
                found.failed[name] = failed[name] = words
            shared |= set(part) if len(part) > 1 else set()
            continue
        calls.works("pull_messages")
        for name in part:
            reply = replies.get(name)
            if reply is not None and not (reply.has_error() or reply.has_content()):
                found.unreadable[name] = "neither content nor an error"
                logger.warning("a reply holds neither content nor an error")
                reply = None
            yield name, reply


def _is_gone(reply: Message) -> bool:
    """Whether Flower says that it has no such message: its reply was handed over before."""
    return reply.has_error() and reply.error.code == MESSAGE_UNAVAILABLE


def _words(error: Exception) -> str:
    return str(printable(f"{type(error).__name__}: {error}"[:200]))


def _restarted(grid: Grid, asked: Mapping[str, Node], calls: GridCalls) -> list[str]:
    """Messages whose node has restarted since, and lost them."""
    nodes = {node.id: node for node in connected(grid, calls)}
    return [
        name
        for name, node in asked.items()
        if node.id in nodes and nodes[node.id].activated != node.activated
    ]


def _note_restarts(
    grid: Grid, asked: Mapping[str, Node], found: Collected, calls: GridCalls
) -> None:
    """Flower reports a node that left as unavailable; one that is back has restarted."""
    left = {
        name: asked[name]
        for name, reply in found.replies.items()
        if reply.has_error() and reply.error.code == NODE_UNAVAILABLE
    }
    for name in _restarted(grid, left, calls) if left else []:
        found.restarted.add(name)
        del found.replies[name]


def last_line(words: str | None, longest: int = 200) -> str:
    """Of a traceback: the error itself."""
    lines = [line.strip() for line in (words or "").splitlines() if line.strip()]
    return lines[-1][:longest] if lines else ""


class ReplyBox:
    """Messages that were sent and not answered, over all rounds.

    A SuperNode handles one message at a time, so a node that owes an answer is not asked again.
    """

    def __init__(self, timing: Timing, clock: Clock) -> None:
        self.timing, self.clock, self.calls = timing, clock, GridCalls()
        self.owed: dict[str, Request] = {}  # message id → what was asked
        self.late: list[tuple[Request, Message]] = []  # trained for an earlier round
        self.introduced: list[tuple[Request, Message]] = []  # answers to introductions
        self._failed: dict[str, str] = {}  # message id → what its last pull raised

    def send(self, grid: Grid, messages: Iterable[tuple[Message, Request]]) -> dict[str, Request]:
        """Send messages; message id → request, without those that could not be sent."""
        pairs = list(messages)
        to_train = any(request.kind == "train" for _, request in pairs)
        ids = push(grid, [message for message, _ in pairs], self.calls, to_train=to_train)
        return {name: pairs[position][1] for position, name in ids.items()}

    def collect(
        self, grid: Grid, sent: Mapping[str, Request], or_earlier: bool = False
    ) -> Collected:
        """Wait for the answers to these messages, and take what else comes meanwhile.

        Those that are not answered are owed from now on, but for restarted or broken ones. Where
        there are none, a caller may wait for those of earlier rounds (`or_earlier`).
        """
        nodes = {name: request.node for name, request in sent.items()}
        found = self._collect(grid, nodes, self.timing, or_earlier)
        gone = {*found.replies, *found.restarted, *found.unreadable, *found.lost}
        self.owed |= {name: request for name, request in sent.items() if name not in gone}
        self._failed = {name: words for name, words in self._failed.items() if name in self.owed}
        return found

    def poll(self, grid: Grid) -> None:
        """Take what has come in the meantime, without waiting."""
        if self.owed:
            at_once = replace(self.timing, deadline=1e-9)
            self._collect(grid, {}, at_once)

    def _collect(
        self, grid: Grid, asked: Mapping[str, Node], timing: Timing, or_earlier: bool = False
    ) -> Collected:
        begin = self.clock.now()
        found = collect(
            grid, asked, self.owed, timing, self.clock, self.calls, self._failed, or_earlier
        )
        for name, reply in found.late.items():
            request = self.owed.pop(name)
            if request.kind == "introduce":
                self.introduced.append((request, reply))
            elif request.kind == "train":
                answered = replace(request, answered_at=begin + found.seconds[name])
                self.late.append((answered, reply))
        return found

    def take_introduced(self) -> list[tuple[Request, Message]]:
        """Answers of those who were asked who they are, once."""
        answers, self.introduced = self.introduced, []
        return answers

    def take_open_introductions(self) -> dict[str, Request]:
        """Who was asked who it is and has not answered, once: `collect` owes them again."""
        taken = {name: one for name, one in self.owed.items() if one.kind == "introduce"}
        self.owed = {name: one for name, one in self.owed.items() if name not in taken}
        return taken

    def take_late(self) -> list[tuple[Request, Message]]:
        """Answers of those who were asked in earlier rounds, once."""
        answers, self.late = self.late, []
        return answers

    def drop_lost(self, nodes: Iterable[Node]) -> list[Request]:
        """Give up what will not be answered: the node restarted, or it took too long."""
        there, now = {node.id: node.activated for node in nodes}, self.clock.now()
        lost = {
            name: request
            for name, request in self.owed.items()
            if there.get(request.node.id, request.node.activated) != request.node.activated
            or now > request.asked_at + self.timing.patience
        }
        for name in lost:
            del self.owed[name]
        return list(lost.values())

    def forget(self, client: int) -> None:
        """Nothing of this client is wanted any more."""
        self.owed = {name: one for name, one in self.owed.items() if one.client != client}
        self.late = [pair for pair in self.late if pair[0].client != client]

    def disown(self, client: int) -> list[Request]:
        """What this client owes was asked of a node that had no right to be it: nobody wants it.

        The node still works on it, and is busy until then. Returned are the requests.
        """
        theirs = {name: one for name, one in self.owed.items() if one.client == client}
        answered = [request for request, _ in self.late if request.client == client]
        for name, one in theirs.items():
            self.owed[name] = replace(one, kind="unwanted", client=-1)
        self.late = [pair for pair in self.late if pair[0].client != client]
        return [*theirs.values(), *answered]

    @property
    def busy(self) -> set[int]:
        """Ids of nodes that owe an answer."""
        return {request.node.id for request in self.owed.values()}
