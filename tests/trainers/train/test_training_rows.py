"""Rows of whole trajectories, and averages over turns before tokens."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import arena_envs
from arena_credit import TurnBatch
from arena_trainers.train import TrainingRow, loss_weighted, trajectory_rows, weighted
from arena_trainers.train.records import turn_records
from arena_trainers.train.rows import turn_weights, whole_row_lengths
from arena_wrappers import RandomPolicy, play


def batch_of(seats, episodes, turns, num_tokens):
    return TurnBatch(
        reward=np.zeros(len(seats)),
        game=[0] * len(seats),
        episode=episodes,
        seat=seats,
        turn=turns,
        group=[0] * len(seats),
        num_tokens=num_tokens,
    )


def test_weights_average_over_trajectories_turns_and_then_tokens():
    """Losses [[1 1], [4]] and [[2 2 2]] of one seat: ((1 + 4) / 2 + 2) / 2 = 2.25.

    Weights N / (P G K n) = 6 / (1 * 2 * 2 * 2), 6 / (1 * 2 * 2 * 1), 6 / (1 * 2 * 1 * 3).
    The mean over all tokens is 12 / 6 = 2, and that of sequence means 2, too.
    """
    batch = batch_of([0, 0, 0], [0, 0, 1], [0, 1, 0], [2, 1, 3])
    assert turn_weights(batch).tolist() == [0.75, 1.5, 1.0]
    losses = np.array([1, 1, 4, 2, 2, 2.0])
    assert losses.mean() == 2.0
    assert weighted(losses, batch).mean() == 2.25
    assert weighted(np.array([1, 4, 2.0]), batch).tolist() == [0.75, 6.0, 2.0]


def test_seats_weigh_alike_however_many_trajectories_they_have():
    """Seat 0 has two trajectories of one token, seat 1 one of two: L = (mean 0 + mean 1) / 2.

    Weights 4 / (2 * 2 * 1 * 1) = 1 twice, and 4 / (2 * 1 * 1 * 2) = 1.
    """
    batch = batch_of([0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 2])
    assert turn_weights(batch).tolist() == [1.0, 1.0, 1.0]
    losses = np.array([1, 3, 10, 10.0])
    assert weighted(losses, batch).mean() == ((1 + 3) / 2 + 10) / 2


def test_the_mean_weight_of_a_token_is_one():
    rng = np.random.default_rng(0)
    seats, episodes = (
        np.repeat(np.arange(3), 12),
        np.tile(np.repeat(np.arange(6), 2), 3),
    )
    batch = batch_of(seats, episodes, np.tile([0, 1], 18), rng.integers(1, 9, 36))
    assert np.average(turn_weights(batch), weights=batch.num_tokens) == pytest.approx(1)


def test_turns_that_are_not_fair_weigh_nothing_and_count_for_nothing():
    """Of [[1 1], [4]] and [[2 2 2]] the middle turn: (1 + 2) / 2 = 1.5 is left."""
    batch = batch_of([0, 0, 0], [0, 0, 1], [0, 1, 0], [2, 1, 3])
    batch = replace(batch, unselected=[True, False, True])
    assert turn_weights(batch).tolist() == [5 / 4, 0.0, 5 / 6]
    assert weighted(np.array([1, 4, 2.0]), batch).tolist() == [5 / 4, 0.0, 5 / 3]


@pytest.mark.parametrize(
    ("loss_type", "layout", "expected"),
    [
        ("dapo", "turn", [6.0, 6.0, 6.0]),
        ("dr_grpo", "trajectory", [6.0, 6.0, 6.0]),
        ("grpo", "turn", [3.0, 6.0, 2.0]),
        ("sapo", "trajectory", [2.0, 2.0, 2.0]),
    ],
)
def test_losses_by_row_divide_by_the_tokens_of_the_row(loss_type, layout, expected):
    """Rows of 2, 1 and 3 tokens; as trajectories of 2 + 1 and 3."""
    batch = batch_of([0, 0, 0], [0, 0, 1], [0, 1, 0], [2, 1, 3])
    got = loss_weighted(np.full(3, 6.0), batch, loss_type, layout)
    assert got.tolist() == expected
    tokens = loss_weighted(np.full(6, 6.0), batch, loss_type, layout)
    assert tokens.tolist() == np.repeat(expected, [2, 1, 3]).tolist()


def test_turns_that_are_not_fair_are_no_part_of_a_row():
    """Rows of 2 + 3 tokens, of lengths 4 and 9; the turn of 4, which nothing trains, is in
    neither, and alone in its trajectory is in none."""
    batch = batch_of([0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 2, 0], [2, 3, 4, 4])
    batch = replace(batch, unselected=[1, 1, 0, 0], row_length=[4, 9, 15, 7])
    got = loss_weighted(np.array([10.0, 10.0, 0.0, 0.0]), batch, "grpo", "trajectory")
    assert got.tolist() == [2.0, 2.0, 0.0, 0.0]
    assert whole_row_lengths(batch).tolist() == [9, 9, 15, 7]


def test_turns_are_joined_with_what_was_read_between_them():
    rows = [
        TrainingRow([1, 2], [3, 4], np.array([5.0, 5.0]), 7.0, trajectory=(0, 0)),
        TrainingRow([9], [8], np.array([1.0]), 2.0, trajectory=(0, 1)),
        TrainingRow([1, 2, 3, 4, 6, 6], [7], np.array([-1.0]), 7.0, trajectory=(0, 0)),
    ]
    first, second = trajectory_rows(rows)
    assert (first.prompt_ids, list(first.completion_ids)) == ([1, 2], [3, 4, 6, 6, 7])
    assert first.loss_mask == [1, 1, 0, 0, 1]
    assert first.advantage.tolist() == [5, 5, 0, 0, -1]
    assert second is rows[1]


def test_a_prompt_that_was_written_anew_is_refused():
    rows = [
        TrainingRow([1, 2], [3], np.zeros(1), 0.0, trajectory=(0, 1)),
        TrainingRow([1, 2, 4], [5], np.zeros(1), 0.0, trajectory=(0, 1)),
    ]
    with pytest.raises(ValueError, match="seat 1 in episode 0 does not"):
        trajectory_rows(rows)


TRANSCRIPT = {"history": "transcript", "games": ["tic_tac_toe"]}


@pytest.fixture(scope="module")
def ttt_folder(tmp_path_factory, _one_thread):
    """A tiny model that knows the words of tic-tac-toe and little more."""
    from arena_trainers.data import legal_play
    from arena_trainers.lm import LMPolicy
    from arena_trainers.offline.warm_start import warm_start
    from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
    from arena_wrappers import PromptOptions, PromptWrapper

    game = arena_envs.make_game("tic_tac_toe")
    tokenizer = tiny_tokenizer(words_of(game, PromptOptions("bare", rules=False)))
    model = tiny_model(tokenizer, hidden_size=16, num_layers=1, seed=2)
    env = PromptWrapper(arena_envs.make("tic_tac_toe"), "bare", rules=False)
    warm_start(
        LMPolicy(model, tokenizer),
        legal_play([env.clone], 50, seed=0),
        num_steps=30,
        learning_rate=1e-2,
        batch_size=32,
    )
    folder = tmp_path_factory.mktemp("ttt")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def make_trainer(model_folder, ttt_folder, settings):
    from transformers import AutoTokenizer

    from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer

    def make(**overrides):
        options = {**settings, "on_invalid": "random", **overrides}
        folder = ttt_folder if options.get("games") == ["tic_tac_toe"] else model_folder
        tokenizer = AutoTokenizer.from_pretrained(folder)
        args = TurnGRPOConfig(**options)
        return TurnGRPOTrainer(str(folder), args, processing_class=tokenizer)

    return make


def generated(trainer):
    starts = [
        trainer.train_dataset[i // 2 % len(trainer.train_dataset)]
        for i in range(trainer.args.episodes_per_step)
    ]
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    return trainer._generate_and_score_completions(starts)


def trained_tokens(batch):
    """bool[B, T]: what the loss reads."""
    return (batch["tool_mask"] * batch["completion_mask"]).bool()


def gradient(trainer, batch):
    loss = trainer._compute_loss(trainer.model, batch)
    grads = torch.autograd.grad(loss, list(trainer.model.parameters()))
    return torch.cat([grad.ravel() for grad in grads])


@pytest.mark.parametrize(
    ("weighting", "on_invalid"),
    [pytest.param("turn", "random", marks=pytest.mark.slow), ("token", "retry")],
)
def test_both_layouts_have_the_same_gradient(make_trainer, weighting, on_invalid):
    """The same tokens are trained in the same context, so in trajectories of many turns
    the loss and its gradient agree: dapo weighs tokens, however they are cut into rows."""
    options = {**TRANSCRIPT, "weighting": weighting, "on_invalid": on_invalid}
    turn = make_trainer(**options)
    trajectory = make_trainer(**options, layout="trajectory")
    batches = generated(turn), generated(trajectory)
    assert trajectory.last_episodes == turn.last_episodes
    turns = sum(len(episode.turns) for episode in turn.last_episodes)
    assert turns == int(batches[0]["tool_mask"].any(dim=1).sum()) > 24
    rows = {(n, t.seat) for n, e in enumerate(turn.last_episodes) for t in e.turns}
    assert int(batches[1]["tool_mask"].any(dim=1).sum()) == len(rows) < turns
    one, other = (
        gradient(t, b) for t, b in zip((turn, trajectory), batches, strict=True)
    )
    assert one.norm() > 1e-3
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_one_turn_per_seat_gives_the_rows_of_the_other_layout(make_trainer):
    """Seat 1 of Kuhn poker has one turn."""
    options = {"history": "transcript", "opponents": ["random", "self"]}
    turn = make_trainer(**options)
    trajectory = make_trainer(**options, layout="trajectory")
    one, other = generated(turn), generated(trajectory)
    for name, column in one.items():
        assert torch.equal(torch.as_tensor(column), torch.as_tensor(other[name])), name


def test_what_was_sampled_is_what_is_trained_in_whole_trajectories(make_trainer):
    trainer = make_trainer(**TRANSCRIPT, layout="trajectory", temperature=0.8)
    batch = generated(trainer)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    with torch.no_grad():
        logps, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, mask, batch["completion_ids"].shape[1]
        )
    lengths = mask.sum(dim=1)[: 2 * 8].tolist()
    assert {*trainer.last_turns.row_length.tolist()} == {*lengths}
    seats = [(e, s) for e in trainer.last_episodes for s in (0, 1)]
    for i, (episode, seat) in enumerate(seats):
        own = [turn for turn in episode.turns if turn.seat == seat]
        trained = trained_tokens(batch)[i]
        said = [token for turn in own for token in turn.token_ids]
        assert batch["completion_ids"][i][trained].tolist() == said
        sampled = [logprob for turn in own for logprob in turn.logprobs]
        np.testing.assert_allclose(logps[i][trained], sampled, atol=1e-5)


def test_one_turns_advantage_moves_the_gradient_of_that_turn_only(
    make_trainer, monkeypatch
):
    """d loss / d log-probability, in a row of several turns."""
    trainer = make_trainer(**TRANSCRIPT, layout="trajectory")
    batch = generated(trainer)
    trained = trained_tokens(batch)
    row = int(trained.sum(dim=1).argmax())
    own = trained[row].nonzero()[:, 0]
    ends = (own.diff() > 1).nonzero()[:, 0] + 1
    second = own[ends[0] : ends[1]]  # the tokens of the second turn

    def by_token():
        leaf = torch.full(batch["completion_ids"].shape, -0.5, requires_grad=True)
        monkeypatch.setattr(
            trainer,
            "_get_per_token_logps_and_entropies",
            lambda *_, **__: (leaf, torch.zeros_like(leaf), None),
        )
        loss = trainer._compute_loss(trainer.model, batch)
        return torch.autograd.grad(loss, leaf)[0]

    before = by_token()
    assert not before[~trained].any()
    batch["advantages"][row, second] += 1.0
    moved = (by_token() != before).nonzero()
    assert moved.tolist() == [[row, int(i)] for i in second]


@pytest.mark.parametrize("layout", ["turn", "trajectory"])
def test_the_loss_is_the_mean_over_seats_trajectories_turns_and_tokens(
    make_trainer, monkeypatch, layout
):
    """Before the first step ratios are 1, so a turn's loss is minus its advantage."""
    given = {}

    def random_advantages(advantage, batch):
        given["loss"] = np.random.default_rng(0).normal(size=len(advantage))
        return weighted(-given["loss"], batch)

    monkeypatch.setattr("arena_trainers.train.trainer.weighted", random_advantages)
    trainer = make_trainer(**TRANSCRIPT, weighting="turn", layout=layout)
    batch = generated(trainer)
    loss = float(trainer._compute_loss(trainer.model, batch).detach())
    turns, losses = trainer.last_turns, given["loss"]
    seats = []
    for seat in (0, 1):
        own = [
            losses[(turns.episode == e) & (turns.seat == seat)].mean() for e in range(8)
        ]
        seats.append(np.mean(own))
    assert loss == pytest.approx(np.mean(seats), abs=1e-5)
    by_token = np.repeat(losses, turns.num_tokens).mean()
    assert abs(by_token - np.mean(seats)) > 1e-3


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"layout": "trajectory"}, "layout='trajectory' needs history='transcript'"),
        ({"layout": "turns"}, "did you mean 'turn'"),
        (
            {"weighting": "turn", "loss_type": "grpo"},
            "weighting='turn' needs a loss that averages",
        ),
        ({"weighting": "tokens"}, "did you mean 'token'"),
    ],
)
def test_bad_settings_are_refused_by_name(make_trainer, overrides, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(**overrides)


def silent(turn):
    """The turn of a seat whose prompt filled the context of its model."""
    no_tokens = {"prompt_ids": None, "token_ids": None, "logprobs": None}
    return replace(turn, invalid="context_length", reply="", **no_tokens)


def test_a_turn_beyond_the_context_pays_the_turn_before():
    (played,) = play("kuhn_poker", "random", [3])
    spoken = {"prompt_ids": [1, 2], "token_ids": [3], "logprobs": [-0.5]}
    first = replace(played.turns[0], seat=0, index=0, rewards={"game": 1.0}, **spoken)
    second = silent(replace(first, index=1, rewards={"game": -3.0, "format": 0.5}))
    third = replace(first, index=2, rewards={"game": 5.0})
    ends = replace(played, turns=[first, second], terminated=False, truncated=True)
    goes_on = replace(played, turns=[first, second, third])
    begins = replace(played, turns=[second, third])
    seats = [("self", "random")] * 3
    records = turn_records([ends, goes_on, begins], [0] * 3, seats)
    found = [(r.episode, r.place, r.turn, dict(r.rewards)) for r in records]
    assert found == [
        (0, 0, 0, {"game": -2.0, "format": 0.5}),
        (1, 0, 0, {"game": -2.0, "format": 0.5}),
        (1, 2, 1, {"game": 5.0}),
        (2, 1, 1, {"game": 5.0}),
    ]
    assert [r.truncated for r in records] == [True, False, False, False]
    assert [r.terminated for r in records] == [False, False, True, True]


def test_a_run_goes_on_where_prompts_outgrow_the_context(make_trainer):
    trainer = make_trainer(
        history="transcript", on_invalid="random", max_steps=2, temperature=3.0
    )
    first = trainer.policy.encode(
        play(trainer.games.plans[0].env_fn, RandomPolicy(), [0])[0].turns[0].messages
    )
    trainer.policy.max_context = len(first) + 8
    trainer.train()
    turns = [t for e in trainer.last_episodes for t in e.turns]
    reasons = {turn.invalid for turn in turns}
    assert "context_length" in reasons
    assert len(trainer.last_turns.turn) == sum(bool(t.token_ids) for t in turns)
    logs = trainer.state.log_history[0]
    assert 0 < logs["arena/invalid/context_length"] < 1
