"""A mod for any ClientApp: reports the client id and, if wanted, the label histogram."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flwr.app import ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict

from understudy.flower.messages import names

Call = Callable[[Message, Context], Message]
Mod = Callable[[Message, Context, Call], Message]


def introduction(
    label_counts: Callable[[Context], Sequence[float]] | None = None,
    n_examples: Callable[[Context], int] | None = None,
) -> Mod:
    """A mod that reports who a client is to `UnderstudyStrategy`.

    Parameters
    ----------
    label_counts : function of the context, optional
        The client's label histogram, for the graph of FedGS. It leaves the client: give it only
        where that is allowed.
    n_examples : function of the context, optional
        How many examples it trains on, where the server should know before the first round.

    Notes
    -----
    The id is ``client-id`` of the SuperNode's ``--node-config``, else ``partition-id``. It counts
    only for a node without a registered name; without either, the server goes by its key. A message
    that only asks who is there is answered here: the app is not called.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp(mods=[introduction()])
    """

    def mod(message: Message, context: Context, call: Call) -> Message:
        if message.metadata.message_type != MessageType.TRAIN:
            return call(message, context)
        if is_introduction(message):
            known = None if n_examples is None else n_examples(context)
            return answer(message, report(context, label_counts), known)
        reply = call(message, context)
        if reply.has_content():
            own = reply.content.config_records.get(names.REPORT, ConfigRecord())
            merged = ConfigRecord({**report(context, label_counts), **own})
            reply.content[names.REPORT] = merged
        return reply

    return mod


def is_introduction(message: Message) -> bool:
    """Whether the server only asks who is there."""
    return any(names.INTRODUCE in record for record in message.content.config_records.values())


def answer(message: Message, own: ConfigRecord, n_examples: int | None) -> Message:
    """The reply to an introduction."""
    content = RecordDict({names.REPORT: own})
    if n_examples is not None:
        content["metrics"] = MetricRecord({names.N_EXAMPLES: n_examples})
    return Message(content, reply_to=message)


def report(
    context: Context, label_counts: Callable[[Context], Sequence[float]] | None
) -> ConfigRecord:
    """The client's id, and its label histogram where given."""
    own = ConfigRecord()
    for key in (names.CLIENT_ID, names.PARTITION_ID):
        if key in context.node_config:
            own[names.CLIENT_ID] = str(context.node_config[key])
            break
    if label_counts is not None:
        own[names.LABEL_COUNTS] = [float(count) for count in label_counts(context)]
    return own
