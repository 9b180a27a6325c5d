"""A mod for any ClientApp: says who the client is, and which labels it holds if it wants to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flwr.app import ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict

from understudy.flower import names

Call = Callable[[Message, Context], Message]
Mod = Callable[[Message, Context, Call], Message]


def introduction(
    label_counts: Callable[[Context], Sequence[float]] | None = None,
    n_examples: Callable[[Context], int] | None = None,
) -> Mod:
    """A mod that tells the server what `UnderstudyStrategy` wants to know of a client.

    Parameters
    ----------
    label_counts : function of the context, optional
        The client's label histogram, for the graph of FedGS. It leaves the client: give it only
        where that may be.
    n_examples : function of the context, optional
        How many examples it trains on, where the server should know before the first round.

    Notes
    -----
    The id is ``client-id`` of the SuperNode's ``--node-config``, else ``partition-id``; without
    either, the server goes by the node's registered name or key. A message that only asks who is
    there is answered here: the app is not called.

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
            told = reply.content.config_records.get(names.REPORT, ConfigRecord())
            merged = ConfigRecord({**report(context, label_counts), **told})
            reply.content[names.REPORT] = merged
        return reply

    return mod


def is_introduction(message: Message) -> bool:
    """Whether the server only asks who is there."""
    return any(names.INTRODUCE in record for record in message.content.config_records.values())


def answer(message: Message, told: ConfigRecord, n_examples: int | None) -> Message:
    """The reply to an introduction."""
    content = RecordDict({names.REPORT: told})
    if n_examples is not None:
        content["metrics"] = MetricRecord({names.N_EXAMPLES: n_examples})
    return Message(content, reply_to=message)


def report(
    context: Context, label_counts: Callable[[Context], Sequence[float]] | None
) -> ConfigRecord:
    """Who the client is, and what it wants to tell."""
    told = ConfigRecord()
    for key in (names.CLIENT_ID, names.PARTITION_ID):
        if key in context.node_config:
            told[names.CLIENT_ID] = str(context.node_config[key])
            break
    if label_counts is not None:
        told[names.LABEL_COUNTS] = [float(count) for count in label_counts(context)]
    return told
