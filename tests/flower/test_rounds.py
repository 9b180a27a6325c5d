"""Rounds that end: deadlines, quorum, grace, late updates, and every kind of absence."""

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, MessageType
from flwr.common.constant import ErrorCode
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)
from flwr.serverapp.strategy import Strategy as FlowerStrategy

from tests.flower.loopback import LoopbackGrid, PretendTime, config_of, nodes_of
from tests.flower.toy import first_arrays, play, reply_of, round_of, toy_app
from understudy import (
    MIFA,
    Local,
    Scaffold,
    Strategy,
    Uniform,
    fdms,
    focus,
    inverse_time,
    mdsample,
    oort,
)
from understudy.flower import Members, Timing, UnderstudyStrategy
from understudy.flower.messages.requests import NODE_UNAVAILABLE, GridFailed
from understudy.server.state import row_stores


def introduces(message):
    return "understudy-introduce" in config_of(message)


def w(adapter):
    return adapter.result.arrays["w"].numpy()


def test_without_arguments_it_does_what_flowers_fedavg_does():
    strategy = FedAvg(fraction_evaluate=1.0)
    theirs = strategy.start(LoopbackGrid(nodes_of(toy_app(), 4)), first_arrays(), num_rounds=3)
    grid = LoopbackGrid(nodes_of(toy_app(), 4))
    ours = UnderstudyStrategy(clock=grid.time.clock()).start(grid, first_arrays(), num_rounds=3)
    # by examples: (1·1 + 2·2 + 3·3 + 4·4) / 10 a round
    np.testing.assert_allclose(ours.arrays["w"].numpy(), np.full(3, 9.0), rtol=1e-6)
    np.testing.assert_allclose(ours.arrays["w"].numpy(), theirs.arrays["w"].numpy(), rtol=1e-6)
    for attribute in ("train_metrics_clientapp", "evaluate_metrics_clientapp"):
        one, other = getattr(ours, attribute), getattr(theirs, attribute)
        assert list(one) == list(other) == [1, 2, 3]
        for number in one:
            assert dict(one[number]) == pytest.approx(dict(other[number]))


def test_flowers_own_loop_and_a_privacy_wrapper_can_drive_it():
    def start(wrap):
        grid = LoopbackGrid(nodes_of(toy_app(), 4))
        adapter = UnderstudyStrategy(fdms(), clock=grid.time.clock())
        loop = wrap(adapter)
        result = FlowerStrategy.start(loop, grid, first_arrays(), num_rounds=3, timeout=60)
        return result.arrays["w"].numpy(), adapter

    plain, adapter = start(lambda adapter: adapter)
    assert adapter.server.state.t == 3
    np.testing.assert_allclose(plain, np.full(3, 9.0), rtol=1e-6)

    # clipped to the norm 1: everybody moves by 1/√3, whatever its size; the noise is tiny
    clipped, adapter = start(
        lambda adapter: DifferentialPrivacyServerSideFixedClipping(
            adapter, noise_multiplier=1e-9, clipping_norm=1.0, num_sampled_clients=4
        )
    )
    np.testing.assert_allclose(clipped, np.full(3, 3 / np.sqrt(3)), rtol=1e-4)
    # the state follows the arrays that the wrapper made, up to the last round's noise
    np.testing.assert_allclose(adapter.server.state.params.numpy(), clipped, atol=1e-6)


def test_a_round_ends_at_its_deadline():
    nodes = nodes_of(toy_app(), 3)
    nodes[2].silent = lambda message: True
    grid = LoopbackGrid(nodes)
    adapter = play(grid, rounds=1, deadline=30.0, introduce=False, clients=())
    assert sorted(adapter.history[0].values()) == ["came", "came", "missing"]
    assert 30 <= grid.time.seconds < 36  # the evaluation does not wait for the silent one
    np.testing.assert_allclose(w(adapter), np.full(3, (1 + 4) / 3), rtol=1e-6)


def test_the_timeout_of_start_bounds_the_deadline():
    nodes = nodes_of(toy_app(), 3)
    nodes[2].silent = lambda message: True
    grid = LoopbackGrid(nodes)
    adapter = UnderstudyStrategy(deadline=1000.0, introduce=False, clock=grid.time.clock())
    adapter.start(grid, first_arrays(), num_rounds=1, timeout=20)
    assert 20 <= grid.time.seconds < 25


@pytest.mark.parametrize(("quorum", "grace", "slow", "came"), [
    (0.5, 5.0, 4.0, 4),  # within the grace
    (0.5, 5.0, 8.0, 3),  # after it
    (1.0, 5.0, 8.0, 4),  # all are waited for
    (0.5, 0.0, 1.0, 3),
])  # fmt: skip
def test_quorum_and_grace(quorum, grace, slow, came):
    nodes = nodes_of(toy_app(), 4)
    nodes[3].delay = lambda message: 0.0 if introduces(message) else slow
    grid = LoopbackGrid(nodes)
    adapter = play(grid, rounds=1, quorum=quorum, grace=grace, fraction_evaluate=0.0)
    assert list(adapter.history[0].values()).count("came") == came
    ended = grid.time.seconds
    assert ended <= (slow if came == 4 else grace) + 2


def test_the_local_step_does_not_decay_while_the_model_waits():
    """Client 2 fails until round 2: MIFA waits until then, and η stays .1."""

    def behave(message, context):
        if context.node_config["partition-id"] == 2 and round_of(message) < 2:
            raise RuntimeError("out of memory")

    grid = LoopbackGrid(nodes_of(toy_app(behave), 3))
    strategy = Strategy(compensator=MIFA(), local=Local(lr=0.1, schedule=inverse_time))
    adapter = play(grid, strategy, rounds=4, fraction_evaluate=0.0)
    assert adapter.server.state.idle.tolist() == [0, 1]
    trained = [m for m in grid.sent if m.metadata.message_type == "train" and not introduces(m)]
    steps = {round_of(m): config_of(m)["lr"] for m in trained}
    assert steps == pytest.approx({0: 0.1, 1: 0.1, 2: 0.1, 3: 0.05})


def slow_in_round_0(seconds):
    return lambda m: seconds if not introduces(m) and round_of(m) == 0 else 0.0


def test_whoever_answered_late_is_free_again_in_the_next_round():
    nodes = nodes_of(toy_app(), 3)
    nodes[2].delay = slow_in_round_0(40.0)
    grid = LoopbackGrid(nodes)

    def after_round(t):
        grid.time.sleep(15)  # its answer of round 0 arrives before round 1 asks

    adapter = play(grid, rounds=2, after_round=after_round, fraction_evaluate=0.0)
    assert adapter.history == [
        {"0": "came", "1": "came", "2": "missing"},
        {"0": "came", "1": "came", "2": "came"},
    ]
    trained = [m for m in grid.sent if not introduces(m)]
    assert [round_of(m) for m in trained] == [0, 0, 0, 1, 1, 1]


def test_a_late_update_becomes_the_memory_of_its_client():
    """MIFA's mean over three: (1 + 2 + 0) / 3 twice; then client 2 is away, but remembered."""
    nodes = nodes_of(toy_app(), 3)
    nodes[2].delay = slow_in_round_0(50.0)
    nodes[0].delay = lambda m: 0.0 if introduces(m) else 25.0  # so that round 1 waits
    grid = LoopbackGrid(nodes)

    def after_round(t):
        nodes[2].online = t != 1

    adapter = play(
        grid,
        Strategy(compensator=MIFA(wait=False), weighting="clients"),
        rounds=3,
        fraction_evaluate=0.0,
        after_round=after_round,
    )
    assert [one["2"] for one in adapter.history] == ["missing", "late", "unavailable"]
    np.testing.assert_allclose(w(adapter), np.full(3, 1 + 1 + 2), rtol=1e-6)
    state = adapter.server.state
    assert state.pending.tolist() == []
    (remembered,) = [store.get(2) for _, store in row_stores(state)]
    torch.testing.assert_close(remembered, torch.full((3,), 3.0))


def test_a_sampler_hears_how_long_answers_took():
    """Client 0 takes 10 seconds, client 1 twenty; of client 2, late, it is unknown."""
    nodes = nodes_of(toy_app(), 3)
    for node, seconds in zip(nodes, (10.0, 20.0, 50.0), strict=True):
        node.delay = lambda m, seconds=seconds: 0.0 if introduces(m) else seconds
    adapter = play(LoopbackGrid(nodes), oort(1.0), rounds=2, fraction_evaluate=0.0)
    assert [one["2"] for one in adapter.history] == ["missing", "late"]
    np.testing.assert_allclose(adapter.server.state.sampler.seconds, [10, 20, np.nan], atol=5)


@pytest.mark.parametrize("hours", [0, -1, 1])
def test_a_client_that_owes_an_answer_is_asked_again_only_when_that_is_given_up(hours):
    """Also where the wall clock is set meanwhile."""
    nodes = nodes_of(toy_app(), 3)
    nodes[2].silent = lambda m: not introduces(m) and round_of(m) < 2
    grid = LoopbackGrid(nodes)

    def after_round(t):
        grid.time.sleep(25)
        grid.time.wall_set_by = 3600.0 * hours * (t >= 0)

    options = {"deadline": 30.0, "late_for": 60.0, "fraction_evaluate": 0.0}
    adapter = play(grid, rounds=6, after_round=after_round, **options)
    # asked at 25 s; 90 s later it is given up, and asked anew
    assert [one["2"] for one in adapter.history] == [
        "missing",
        "unavailable",
        "unavailable",
        "came",
        "came",
        "came",
    ]


def test_every_kind_of_absence_has_its_own_outcome():
    def behave(message, context):
        if context.node_config["partition-id"] == 0 and round_of(message) == 1:
            raise RuntimeError("out of memory")
        return

    nodes = nodes_of(toy_app(behave), 6)
    grid = LoopbackGrid(nodes)
    push = grid.push_messages

    def push_and_break(messages):
        ids = push(messages)
        if any(round_of(m) == 1 for m in messages):
            nodes[1].online = False  # leaves after it was asked
            nodes[2].restart()
            by_node = {m.metadata.dst_node_id: name for m, name in zip(messages, ids, strict=True)}
            grid.broken.add(by_node[nodes[3].id])
        return ids

    grid.push_messages = push_and_break

    def after_round(t):
        nodes[5].online = t != 0

    adapter = play(grid, fdms(), rounds=2, after_round=after_round, fraction_evaluate=0.0)
    assert adapter.history[0] == {str(i): "came" for i in range(6)}
    assert adapter.history[1] == {
        "0": "error",
        "1": "missing",
        "2": "restarted",
        "3": "refused",
        "4": "came",
        "5": "unavailable",
    }
    why = {one.id: one.detail for one in adapter.outcomes}
    assert "out of memory" in why["0"]
    assert why["1"] == "its node left"
    assert "cut short" in why["3"]
    assert why["5"] == "not connected"
    assert NODE_UNAVAILABLE == ErrorCode.NODE_UNAVAILABLE


def test_a_node_that_left_and_is_back_has_restarted():
    """Flower says "unavailable" of it; when it connected says that it is there again."""
    nodes = nodes_of(toy_app(), 3)
    nodes[1].delay = lambda message: 0.0 if introduces(message) else 8.0
    nodes[2].silent = lambda message: not introduces(message)
    grid = LoopbackGrid(nodes)
    sleep = grid.time.sleep

    def sleep_and_break(seconds):
        sleep(seconds)
        nodes[2].online = not 1 < grid.time.seconds < 6
        if not nodes[2].online and nodes[2].activations == 1:
            nodes[2].restart()

    grid.time.sleep = sleep_and_break
    adapter = play(grid, rounds=1, fraction_evaluate=0.0)
    assert adapter.history == [{"0": "came", "1": "came", "2": "restarted"}]
    assert grid.time.seconds < 15  # the deadline is not waited for


def test_a_message_that_holds_nothing_at_all_is_refused():
    nodes = nodes_of(toy_app(), 2)
    grid = LoopbackGrid(nodes)
    pull = grid.pull_messages

    def emptied(ids):
        replies = pull(ids)
        for reply in replies:
            is_train = "arrays" in reply.content
            if is_train and reply.metadata.src_node_id == nodes[1].id:
                reply.__dict__["_content"] = None
        return replies

    grid.pull_messages = emptied
    adapter = play(grid, rounds=1, fraction_evaluate=0.0)
    assert adapter.history == [{"0": "came", "1": "refused"}]
    assert "neither content nor an error" in adapter.outcomes[1].detail


@pytest.mark.parametrize(
    "strategy", [mdsample(), fdms(), fdms(weighting="clients"), fdms(weighting="paper")]
)
def test_clients_weigh_as_the_strategy_says(strategy):
    assert UnderstudyStrategy(strategy).strategy == strategy


def test_waiting_for_nodes_is_bounded():
    nodes = nodes_of(toy_app(), 4)
    nodes[3].online = False
    grid = LoopbackGrid(nodes)
    adapter = play(grid, min_available_nodes=4, wait=50.0)
    assert len(adapter.history[0]) == 3
    assert 50 <= grid.time.seconds < 60

    for node in nodes:
        node.online = False
    with pytest.raises(RuntimeError, match="no client to start with: 0 nodes are connected"):
        play(LoopbackGrid(nodes), wait=50.0)


def test_a_round_with_nobody_is_a_round():
    nodes = nodes_of(toy_app(), 2)
    grid = LoopbackGrid(nodes)

    def after_round(t):
        for node in nodes:
            node.online = t != 0

    adapter = play(grid, rounds=3, after_round=after_round, wait=5.0)
    assert adapter.history[1] == {"0": "unavailable", "1": "unavailable"}
    np.testing.assert_allclose(w(adapter), np.full(3, 2 * 5 / 3), rtol=1e-6)


def test_fraction_train_keeps_its_meaning():
    grid = LoopbackGrid(nodes_of(toy_app(), 10))
    adapter = play(grid, rounds=4, fraction_train=0.35, min_train_nodes=2, fraction_evaluate=0.0)
    assert [len(outcomes) for outcomes in adapter.history] == [3, 3, 3, 3]
    assert len({frozenset(outcomes) for outcomes in adapter.history}) > 1
    few = play(LoopbackGrid(nodes_of(toy_app(), 10)), fraction_train=0.1, min_train_nodes=5)
    assert len(few.history[0]) == 5
    with pytest.raises(ValueError, match=r"fraction_train: expected 1.0 with Uniform"):
        UnderstudyStrategy(Strategy(sampler=Uniform(2)), fraction_train=0.5)


def test_where_the_fraction_is_zero_clients_only_evaluate_as_in_fedavg():
    theirs = FedAvg(fraction_train=0.0).start(
        LoopbackGrid(nodes_of(toy_app(), 3)), first_arrays(), num_rounds=3
    )
    grid = LoopbackGrid(nodes_of(toy_app(), 3))
    adapter = UnderstudyStrategy(fraction_train=0.0, clock=grid.time.clock())
    ours = adapter.start(grid, first_arrays(), num_rounds=3)
    np.testing.assert_array_equal(ours.arrays["w"].numpy(), np.zeros(3))
    assert [m.metadata.message_type for m in grid.sent] == ["evaluate"] * 9
    assert ours.train_metrics_clientapp == theirs.train_metrics_clientapp == {}
    assert list(ours.evaluate_metrics_clientapp) == [1, 2, 3]
    for number, found in theirs.evaluate_metrics_clientapp.items():
        assert dict(ours.evaluate_metrics_clientapp[number]) == pytest.approx(dict(found))


def test_training_does_not_wait_for_the_nodes_that_evaluation_wants():
    grid = LoopbackGrid(nodes_of(toy_app(), 3))
    adapter = play(grid, min_evaluate_nodes=5, wait=50.0)
    assert len(adapter.history[0]) == 3
    assert grid.time.seconds < 5


def test_evaluation_asks_a_fraction_of_the_free_nodes():
    grid = LoopbackGrid(nodes_of(toy_app(), 10))
    play(grid, rounds=2, fraction_evaluate=0.3, min_evaluate_nodes=2)
    asked = [m for m in grid.sent if m.metadata.message_type == "evaluate"]
    assert len(asked) == 6


def test_how_clients_train_travels_and_the_apps_own_config_wins():
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    local = Local(lr=0.5, schedule=_halves, epochs=3, batch_size=4, batch_growth=1, momentum=0.25)
    config = ConfigRecord({"momentum": 0.9, "my-own": "word"})
    play(grid, Strategy(local=local), rounds=2, train_config=config, fraction_evaluate=0.0, seed=5)
    last = [dict(config_of(m)) for m in grid.sent][-1]
    assert last == {
        "lr": 0.25,
        "local-epochs": 3,
        "batch-size": 8,
        "momentum": 0.9,
        "weight-decay": 0.0,
        "proximal-mu": 0.0,
        "seed": 5,
        "my-own": "word",
        "server-round": 2,
        "client-number": 1,
    }


def _halves(t):
    return 0.5**t


def test_scaffold_needs_the_number_of_steps():
    """An app that does not tell it is refused by name, and the run goes on."""
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    adapter = play(grid, Strategy(local=Local(rule=Scaffold())), rounds=1)
    assert adapter.history[0] == {"0": "refused", "1": "refused"}
    assert "bad n_steps" in adapter.outcomes[0].detail
    trained = [m for m in grid.sent if m.metadata.message_type == "train"][-1]
    assert list(trained.content.array_records["correction"]) == ["w"]


def test_metrics_of_an_odd_client_do_not_end_the_run():
    def behave(message, context):
        number = context.node_config["partition-id"]
        if number == 0:
            return reply_of(message, message.content.array_records["arrays"], 1, other=1.0)
        if number == 1:
            arrays = message.content.array_records["arrays"]
            return reply_of(message, arrays, 1, train_loss=float("nan"))
        return None

    adapter = play(LoopbackGrid(nodes_of(toy_app(behave), 5)), rounds=1)
    assert set(adapter.history[0].values()) == {"came"}
    means = adapter.result.train_metrics_clientapp[1]
    assert dict(means) == {"train_loss": pytest.approx((2 * 3 + 3 * 4 + 4 * 5) / 12)}


def test_the_users_own_aggregation_may_fail():
    def broken(replies, key):
        assert len(replies) == 2
        assert key == "num-examples"
        raise ZeroDivisionError

    adapter = play(LoopbackGrid(nodes_of(toy_app(), 2)), train_metrics_aggr_fn=broken)
    assert adapter.result.train_metrics_clientapp == {}
    assert set(adapter.history[0].values()) == {"came"}


def test_a_grid_that_fails_to_send_does_not_end_the_run():
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    push = grid.push_messages

    def fails_once(messages):
        if any(round_of(m) == 1 for m in messages):
            raise OSError("HTTP 500")
        return push(messages)

    grid.push_messages = fails_once
    adapter = play(grid, rounds=3, fraction_evaluate=0.0)
    assert adapter.history[1] == {"0": "missing", "1": "missing"}
    assert "could not be sent" in adapter.outcomes[0].detail or adapter.history[2] == {
        "0": "came",
        "1": "came",
    }


CALLS = ["get_nodes", "push_messages", "pull_messages"]


def failing(grid, call, fails, error=OSError):
    """Let a call of the grid raise as long as `fails()` says so."""
    real = getattr(grid, call)

    def answered(*arguments):
        if fails():
            raise error("HTTP 500")
        return real(*arguments)

    setattr(grid, call, answered)


@pytest.mark.parametrize("error", [OSError, RuntimeError])
@pytest.mark.parametrize("call", CALLS)
def test_a_grid_that_always_fails_ends_the_run(call, error, tmp_path):
    """The third empty round in a row is not finished, and the next run begins with it."""
    options = {"folder": tmp_path / "run", "clients": ["0", "1"], "wait": 5.0}
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    play(grid, rounds=1, **options)
    broken = LoopbackGrid(nodes_of(toy_app(), 2, first_id=200), grid.time)
    failing(broken, call, lambda: True, error)
    words = rf"3 rounds in a row.*{call}: {error.__name__}: HTTP 500"
    with pytest.raises(GridFailed, match=words):
        play(broken, rounds=100, **options)
    rest = play(LoopbackGrid(nodes_of(toy_app(), 2, first_id=300), grid.time), rounds=4, **options)
    assert rest.history == [{"0": "came", "1": "came"}]  # of rounds 0 to 3 the last


def test_a_grid_that_takes_no_message_ends_the_run():
    """Flower answers so, without an error, where messages are too large."""
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    grid.push_messages = lambda messages: []
    with pytest.raises(GridFailed, match="push_messages: none of the messages was taken"):
        play(grid, rounds=100, clients=["0", "1"])


def failing_to_push(grid, kind):
    """Let the grid take no message that asks to train, or none that asks to evaluate."""
    push = grid.push_messages

    def pushed(messages):
        if any(m.metadata.message_type == kind and not introduces(m) for m in messages):
            raise OSError("too large")
        return push(messages)

    grid.push_messages = pushed


def test_a_grid_that_never_delivers_training_ends_the_run():
    """Evaluation passes, which sends less than a SCAFFOLD does to train, say."""
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    failing_to_push(grid, MessageType.TRAIN)
    words = r"3 rounds in a row.*\(push_messages of training: OSError: too large\)"
    with pytest.raises(GridFailed, match=words):
        play(grid, rounds=8)


def test_a_grid_that_never_delivers_evaluation_does_not():
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    failing_to_push(grid, MessageType.EVALUATE)
    assert play(grid, rounds=5).history == [{"0": "came", "1": "came"}] * 5


@pytest.mark.parametrize("call", CALLS)
def test_a_grid_that_fails_for_two_rounds_ends_nothing(call):
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    played = []  # -1: before the first round
    failing(grid, call, lambda: len(played) - 1 in (1, 2, 4, 5))
    options = {"fraction_evaluate": 0.0, "late_for": 0.0, "wait": 5.0}
    adapter = play(grid, rounds=7, after_round=played.append, **options)
    assert len(adapter.history) == 7
    for t in (0, 3, 6):
        assert adapter.history[t] == {"0": "came", "1": "came"}
    for t in (1, 2, 4, 5):
        assert "came" not in adapter.history[t].values()


@pytest.mark.parametrize(("takes", "outcome"), [(10.0, "came"), (40.0, "missing")])
def test_a_client_is_not_blamed_for_a_pull_that_failed_while_it_was_training(takes, outcome):
    nodes = nodes_of(toy_app(), 2)
    nodes[1].delay = lambda m: 0.0 if introduces(m) else takes
    grid = LoopbackGrid(nodes)
    failing(grid, "pull_messages", lambda: 1 < grid.time.seconds < 3)
    adapter = play(grid, rounds=1, fraction_evaluate=0.0)
    assert adapter.history == [{"0": "came", "1": outcome}]


@pytest.mark.parametrize("call", CALLS)
def test_one_failure_before_anybody_is_known_is_survived(call):
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    answers = iter([True])
    failing(grid, call, lambda: next(answers, False))
    assert play(grid, rounds=1).history == [{"0": "came", "1": "came"}]


@pytest.mark.parametrize("call", CALLS)
def test_a_grid_that_never_worked_is_named(call):
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    failing(grid, call, lambda: True)
    with pytest.raises(RuntimeError, match=rf"no client to start with: .*{call}: OSError: HTTP"):
        play(grid, rounds=1, wait=5.0)


def test_a_client_whose_replies_cannot_be_read_does_not_end_the_run():
    """Alone as it is: all that the server sees are replies that make Flower raise."""
    (node,) = nodes_of(toy_app(), 1)
    grid = LoopbackGrid([node])
    push = grid.push_messages

    def push_and_break(messages):
        ids = push(messages)
        grid.broken |= {name for m, name in zip(messages, ids, strict=True) if not introduces(m)}
        return ids

    grid.push_messages = push_and_break
    adapter = play(grid, rounds=6, min_available_nodes=1, min_train_nodes=1)
    assert adapter.history == [{"0": "refused"}] * 6


def test_pretended_time_can_pass():
    time = PretendTime()
    time.sleep(2.5)
    assert time.clock().now() == 2.5


def test_summary_is_a_tree(caplog):
    import logging

    logging.getLogger("flwr").propagate = True
    try:
        with caplog.at_level("INFO", logger="flwr"):
            UnderstudyStrategy(fdms(), deadline=45.0).summary()
    finally:
        logging.getLogger("flwr").propagate = False
    lines = [record.getMessage() for record in caplog.records]
    assert any("Compensator: FDMS(" in line for line in lines)
    assert any("Deadline: 45 s" in line for line in lines)
    assert all(line.lstrip("\t")[0] in "├└│" for line in lines)


def test_arguments_are_checked():
    for options, words in (
        ({"deadline": 0}, "deadline"),
        ({"quorum": 1.5}, "quorum"),
        ({"folder": "runs/mine"}, "folder: expected an absolute path"),
        ({"fraction_evaluate": -0.1}, "fraction_evaluate"),
        ({"clients": ("a", "a")}, "clients: expected distinct ids"),
    ):
        with pytest.raises(ValueError, match=words):
            UnderstudyStrategy(**options)
    with pytest.raises(ValueError, match=r"strategy\.local\.rule: expected one whose clients"):
        UnderstudyStrategy(focus())
    with pytest.raises(TypeError, match=r"strategy: expected an understudy\.Strategy"):
        UnderstudyStrategy(FedAvg())
    numbers, grid = ArrayRecord([np.zeros(3, dtype=np.int64)]), LoopbackGrid([])
    with pytest.raises(ValueError, match="at least one floating array"):
        UnderstudyStrategy().start(grid, numbers)


def test_what_belongs_together_is_given_as_a_value_or_one_by_one():
    timing, members = Timing(deadline=7.0, quorum=0.5), Members(clients=["a", "b"], keys=True)
    values = UnderstudyStrategy(timing=timing, members=members)
    words = UnderstudyStrategy(deadline=7.0, quorum=0.5, clients=["a", "b"], keys=True)
    assert values.timing == words.timing == timing
    assert [one.id for one in words.server.roster.clients] == ["a", "b"]
    assert values.server.roster.to_json() == words.server.roster.to_json()
    assert values.server.roster.keys is words.server.roster.keys is True


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            {"timing": Timing(), "deadline": 5.0, "poll": 1.0},
            ValueError,
            "timing: expected it alone, got it with deadline, poll, which are fields of it",
        ),
        (
            {"members": Members(), "clients": []},
            ValueError,
            "members: expected it alone, got it with clients, which are fields of it",
        ),
        ({"timing": 30.0}, TypeError, "timing: expected a Timing, got 30.0"),
        ({"members": ["a"]}, TypeError, r"members: expected a Members, got \['a'\]"),
    ],
)
def test_a_value_and_its_fields_are_not_mixed(options, error, words):
    with pytest.raises(error, match=f"^{words}$"):
        UnderstudyStrategy(**options)
