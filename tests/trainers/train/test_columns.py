"""Columns that estimators ask for: from the record of play, or refused by name at the start."""

from itertools import chain

import numpy as np
import pytest
import torch

import arena_envs
from arena_credit import (
    by_token_entropy,
    default_options,
    estimate,
    estimator_names,
    needed_columns,
    surprises,
    trajectories,
)
from arena_credit.batch import BOOL_COLUMNS, FLOAT_COLUMNS, INT_COLUMNS
from arena_credit.by_name import find_estimator
from arena_credit.needs import needs_of
from arena_trainers import TurnGRPOConfig
from arena_trainers.train import check_credit, turn_batch, turn_records
from arena_trainers.train.credit_columns import ABSENT, PROVIDED, check_credit_columns
from arena_wrappers import PromptWrapper, Reply, play

BOTH = ("self", "self")


class Script:
    """Says "bet", "pass" or nonsense by turns, in tokens."""

    name = "script"

    def __init__(self, words):
        self.words = words

    def act(self, requests):
        said = [self.words[(r.episode + r.turn) % len(self.words)] for r in requests]
        return [Reply(text, [1], [2, 3], [-0.5, -1.0]) for text in said]


def columns_of(words, *, on_invalid="forfeit", num_episodes=12):
    """The batch of games of Kuhn poker with states and actions, and its turns in order."""

    def env():
        kuhn = arena_envs.make("kuhn_poker")
        return PromptWrapper(kuhn, "bare", rules=False, on_invalid=on_invalid)

    episodes = play(env, Script(words), range(num_episodes))
    games, wanted = [0] * len(episodes), ("state_key", "action", "tokens.logprob")
    rules = [env().env.game]
    records = turn_records(episodes, games, [BOTH] * len(episodes), rules, wanted)
    batch = turn_batch([records], {}, ["kuhn"], wanted)
    return batch, [turn for episode in episodes for turn in episode.turns]


@pytest.mark.parametrize("on_invalid", ["forfeit", "random"])
def test_state_keys_are_equal_where_a_seat_was_asked_the_same(on_invalid):
    """Prompts of Kuhn poker hold what a seat knows and no more."""
    batch, turns = columns_of(["bet", "pass", "fold"], on_invalid=on_invalid)
    asked = [(t.seat, t.messages[-1]["content"].split("\n\n")[0]) for t in turns]
    pairs = {*zip(asked, batch.state_key.tolist(), strict=True)}
    assert len(pairs) == len(set(asked)) == len(set(batch.state_key.tolist()))


def test_attempts_of_one_turn_have_one_state_key():
    batch, turns = columns_of(["fold", "bet"], on_invalid="retry")
    again = [i for i, turn in enumerate(turns) if turn.invalid]
    assert again
    for i in again:
        assert batch.state_key[i] == batch.state_key[i + 1]
        assert batch.action[i] != batch.action[i + 1]


def test_actions_are_equal_where_the_same_was_done_and_invalid_replies_are_alike():
    batch, turns = columns_of(["bet", "pass", "fold"], on_invalid="random")
    done = ["invalid" if t.invalid else t.action for t in turns]
    pairs = {*zip(done, batch.action.tolist(), strict=True)}
    assert {name for name, _ in pairs} == {"invalid", 0, 1}
    assert len({number for _, number in pairs}) == len(pairs) == 3


def test_token_columns_come_from_the_replies():
    batch, turns = columns_of(["bet", "pass"])
    assert batch.num_tokens.tolist() == [2] * len(turns)
    assert batch.tokens["logprob"].tolist() == [-0.5, -1.0] * len(turns)


def test_a_turn_without_the_column_is_refused():
    episodes = play(lambda: arena_envs.make("kuhn_poker"), Script(["bet"]), [0])
    with pytest.raises(ValueError, match="a learner's turn has no entropy: 'bet'"):
        turn_records(episodes, [0], [BOTH], (), ("tokens.entropy",))


@pytest.mark.slow
def test_columns_that_are_not_read_are_not_collected(make_trainer, generated):
    trainer = make_trainer(credit="mars")
    generated(trainer)
    turns = trainer.last_turns
    assert (turns.state_key, turns.action, turns.tokens) == (None, None, None)
    assert trainer.last_episodes[0].turns[0].entropies is None


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_columns_that_an_option_names_are_provided(make_trainer, generated):
    trainer = make_trainer(
        credit="mars", credit_args={"pool": ["game", "seat", "state_key"]}
    )
    generated(trainer)
    turns, advantage = trainer.last_turns, trainer.last_credit.advantage
    for key in set(turns.state_key.tolist()):
        assert advantage[turns.state_key == key].sum() == pytest.approx(0, abs=1e-9)


def test_steps_that_are_shared_have_the_mean_of_their_trajectories(
    make_trainer, generated
):
    trainer = make_trainer(credit="salt", episodes_per_step=16)
    generated(trainer)
    turns, advantage = trainer.last_turns, trainer.last_credit.advantage
    edges = [*zip(turns.group, turns.seat, turns.state_key, turns.action, strict=True)]
    assert len(set(edges)) < len(edges)
    assert len({*zip(edges, advantage.round(9).tolist(), strict=True)}) == len(
        set(edges)
    )


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_surprise_reaches_the_credit_unless_its_option_is_false(
    make_trainer, generated
):
    trainer = make_trainer(credit="control_variates", temperature=0.8, top_k=3)
    generated(trainer)
    turns = trainer.last_turns
    assert np.ptp(surprises(trajectories(turns))) > 0
    want = estimate("control_variates", turns).advantage
    np.testing.assert_allclose(trainer.last_credit.advantage, want)
    trainer = make_trainer(credit="control_variates", credit_args={"surprise": False})
    generated(trainer)
    assert trainer.last_turns.tokens is None


def test_tokens_of_reasoning_have_a_span_of_their_own(make_trainer, generated):
    trainer = make_trainer()
    generated(trainer)
    assert "span" not in trainer.last_turns.tokens  # nobody reasons
    trainer.credit.spans = lambda prompt, reply, text: [0, *[1] * (len(reply) - 1)]
    generated(trainer)
    turns = trainer.last_turns
    first = np.cumsum(turns.num_tokens) - turns.num_tokens
    np.testing.assert_array_equal(np.flatnonzero(turns.tokens["span"] == 0), first)
    assert surprises(trajectories(turns)).shape[1] == 2


def token_spans(turns):
    ends = np.cumsum(turns.num_tokens)
    return [slice(e - n, e) for e, n in zip(ends, turns.num_tokens, strict=True)]


@pytest.mark.parametrize("name", ["aepo", "hapo"])
def test_advantages_of_tokens_reach_the_loss_token_by_token(
    make_trainer, name, generated
):
    """The entropies are those of the trained sequences, under the sampling temperature."""
    trainer = make_trainer(credit=name, temperature=0.8)
    batch = generated(trainer)
    turns, advantage = trainer.last_turns, trainer.last_credit.advantage
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    width = batch["completion_ids"].shape[1]
    with torch.no_grad():
        _, entropies, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, mask, width, compute_entropy=True
        )
    spans = token_spans(turns)
    assert len(advantage) == turns.num_tokens.sum() > len(spans)
    differ = 0
    for row, span in enumerate(spans):
        count = span.stop - span.start
        got = batch["advantages"][row, :count]
        np.testing.assert_allclose(got, advantage[span], rtol=1e-6)
        own = turns.tokens["entropy"][span]
        np.testing.assert_allclose(own, entropies[row, :count], atol=1e-5)
        differ += np.ptp(advantage[span]) > 1e-6
    assert differ > 0
    assert not batch["advantages"][len(spans) :].any()


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "bnpo", "dr_grpo", "cispo"])
def test_raising_one_tokens_advantage_moves_the_gradient_of_that_token_only(
    make_trainer, monkeypatch, loss_type, generated
):
    trainer = make_trainer(credit="aepo", loss_type=loss_type)
    trainer.current_gradient_accumulation_steps = 1
    batch = generated(trainer)
    leaf = torch.full(batch["completion_ids"].shape, -0.5, requires_grad=True)
    monkeypatch.setattr(
        trainer,
        "_get_per_token_logps_and_entropies",
        lambda *_, **__: (leaf, torch.zeros_like(leaf), None),
    )

    def gradient():
        return torch.autograd.grad(trainer._compute_loss(trainer.model, batch), leaf)[0]

    before = gradient()
    row = int((trainer.last_turns.num_tokens > 1).argmax())
    batch["advantages"] = batch["advantages"].clone()
    batch["advantages"][row, 1] += 1.0
    moved = (gradient() != before).nonzero().tolist()
    assert moved == [[row, 1]]


def test_the_gradient_of_a_tokens_advantage_is_that_of_its_log_probability(
    make_trainer, generated
):
    """On the model itself: with advantage 1 at one token and 0 at all others, the gradient
    of the loss is that token's -∇ log π, over the number of trained tokens."""
    trainer = make_trainer(credit="aepo")
    trainer.current_gradient_accumulation_steps = 1
    batch = generated(trainer)
    row = int((trainer.last_turns.num_tokens > 1).argmax())
    batch["advantages"] = torch.zeros_like(batch["advantages"])
    batch["advantages"][row, 1] = 1.0
    parameters = list(trainer.model.parameters())
    loss = trainer._compute_loss(trainer.model, batch)
    got = torch.autograd.grad(loss, parameters)
    ids = torch.tensor(
        [[*trainer._rows[row].prompt_ids, *trainer._rows[row].completion_ids]]
    )
    place = len(trainer._rows[row].prompt_ids) + 1
    logps = trainer.model(input_ids=ids).logits[0, place - 1].log_softmax(dim=-1)
    expected = torch.autograd.grad(-logps[ids[0, place]], parameters)
    a, b = (torch.cat([g.ravel() for g in grads]) for grads in (got, expected))
    scale = float(a @ b / (b @ b))
    torch.testing.assert_close(a, scale * b, atol=1e-6, rtol=1e-3)
    assert scale == pytest.approx(
        1 / int(trainer.last_turns.num_tokens.sum()), rel=1e-3
    )


@pytest.mark.parametrize("name", ["aepo", "hapo", "salt"])
def test_they_train(make_trainer, name):
    trainer = make_trainer(credit=name, max_steps=2, logging_steps=1)
    trainer.train()
    assert trainer.state.global_step == 2


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"credit": "archer"},
            "'archer' needs the column 'value'.*set critic='features'",
        ),
        ({"credit": "counterfactual"}, "'counterfactual' needs the column 'value'"),
        (
            {"credit": "poad"},
            "'poad' needs the column 'tokens.value'.*set critic='tokens'",
        ),
        (
            {"credit": "adca"},
            "'adca' needs the column 'rewards.judge'.*no function supplies",
        ),
        (
            {"credit": "random_effects", "credit_args": {"pool": ["game", "stratum"]}},
            "needs the column 'stratum'.*columns={'stratum': 'my_module",
        ),
        (
            {"credit": "adca"},
            "set columns={'rewards.judge': 'my_module:my_function'}",
        ),
        ({"credit": "archer"}, "or set columns={'value': 'my_module"),
        (
            {"within_turn": "values"},
            "'control_variates' with within_turn='values' needs the column 'tokens.value'.*set critic='tokens'",
        ),
        (
            {"credit": "aepo", "within_turn": "entropy"},
            "'aepo' credits tokens itself; want within_turn 'uniform', got 'entropy'",
        ),
        (
            {"credit": "random_effects", "credit_args": {"pool": ["game", "seet"]}},
            "want pool columns .*'seet'",
        ),
        ({"credit": "salt", "credit_args": {"pol": 1}}, "did you mean 'pool'"),
    ],
)
def test_columns_that_rollouts_do_not_give_are_refused_at_the_start(
    settings, overrides, message
):
    args = TurnGRPOConfig(**settings | overrides)
    with pytest.raises(ValueError, match=message):
        check_credit(args)


@pytest.mark.parametrize("column", ["group", "episode", "rollout", "state_key"])
def test_a_state_is_not_kept_by_numbers_that_change_from_batch_to_batch(
    settings, column
):
    """Baselines of group 0 would go on for whatever start is group 0 in the next batch."""
    pool = {"pool": [column, "seat"]}
    args = TurnGRPOConfig(**settings, credit="rae", credit_args=pool)
    message = f"credit 'rae' keeps a state, but the numbers of '{column}' change"
    with pytest.raises(ValueError, match=message):
        check_credit(args)
    args = TurnGRPOConfig(**settings, credit="rae", credit_args={"pool": ["game"]})
    assert check_credit(args) == ("game",)


def test_the_trainer_takes_functions_by_name(make_trainer):
    with pytest.raises(ValueError, match="want columns as a mapping from names, got "):
        make_trainer([len])


def test_the_trainer_asks_at_the_start(make_trainer):
    with pytest.raises(ValueError, match="set critic='features'"):
        make_trainer(credit="archer")


def test_columns_are_those_needed_and_those_named_once_each(settings):
    pool = ["group", "seat", "state_key"]
    args = TurnGRPOConfig(**settings, credit="aepo", credit_args={"entropy_pool": pool})
    assert check_credit_columns(args) == (*needed_columns("aepo"), *pool)


@pytest.mark.parametrize(
    ("name", "options", "column"),
    [
        ("canon", {"metric": "entropy"}, ("tokens.entropy",)),
        ("flow_grpo", {"outcome": "format"}, ()),
        ("mt_grpo", {"outcome": "format"}, ()),
    ],
)
def test_options_may_name_token_columns_and_parts(settings, name, options, column):
    args = TurnGRPOConfig(**settings, credit=name, credit_args=options)
    assert check_credit(args) == (*needed_columns(name), *column)


@pytest.mark.parametrize("name", estimator_names())
def test_every_estimator_is_taken_or_refused_for_a_column_it_needs(settings, name):
    args = TurnGRPOConfig(**settings, credit=name)
    absent = [c for c in needed_columns(name) if c not in PROVIDED]
    if absent:
        with pytest.raises(ValueError, match=f"needs the column '{absent[0]}'"):
            check_credit(args)
    else:
        optional = needs_of(find_estimator(name)).with_option
        defaults = default_options(name)
        columns = chain(*(optional[option] for option in optional if defaults[option]))
        assert check_credit(args) == (*needed_columns(name), *columns)


def test_action_values_need_a_critic_that_gives_them(settings):
    wanted = {"credit_args": {"action_values": True}}
    with pytest.raises(ValueError, match="needs the column 'value'"):
        check_credit(TurnGRPOConfig(**settings, **wanted))
    args = TurnGRPOConfig(**settings, **wanted, critic="exact")
    assert {"value", "action_value"} <= {*check_credit(args)}


def test_columns_that_rollouts_do_not_give_are_all_explained():
    """Whatever a turn batch can hold is given, or there is a reason why not."""
    columns = {*INT_COLUMNS, *FLOAT_COLUMNS, *BOOL_COLUMNS} - {"reward", "mask"}
    assert columns <= {*PROVIDED, *ABSENT}
    assert not {*PROVIDED} & {*ABSENT}


def test_teams_are_those_of_the_game(make_trainer, generated):
    trainer = make_trainer(credit="advevo_public_baseline", episodes_per_step=16)
    generated(trainer)
    turns = trainer.last_turns
    assert turns.team.tolist() == turns.seat.tolist()
    records = turn_records([], [], [])
    assert turn_batch([records], {}, ["tiny"], (), [(0, 0)]).team.tolist() == []


def test_teams_are_numbered_by_the_game_of_the_turn():
    env = PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)
    episodes = play(lambda: env, Script(["bet", "pass"]), range(4))
    records = turn_records(episodes, [0, 1, 0, 1], [BOTH] * 4)
    batch = turn_batch([records], {}, ["one", "other"], (), [(0, 1), (5, 5)])
    own = np.where(batch.game == 0, batch.seat, 5)
    assert batch.team.tolist() == own.tolist()


def test_credit_within_turns_by_entropy_is_that_of_the_function(
    make_trainer, generated
):
    trainer = make_trainer(within_turn="entropy", temperature=0.8)
    batch = generated(trainer)
    turns, advantage = trainer.last_turns, trainer.last_credit.advantage
    plain = estimate("control_variates", turns).advantage
    wanted = by_token_entropy(plain, turns.num_tokens, turns.tokens["entropy"])
    np.testing.assert_allclose(advantage, wanted)
    assert np.abs(advantage - np.repeat(plain, turns.num_tokens)).max() > 1e-3
    for row, span in enumerate(token_spans(turns)):
        got = batch["advantages"][row, : span.stop - span.start]
        np.testing.assert_allclose(got, wanted[span], rtol=1e-6)


def test_credit_within_turns_trains(make_trainer):
    trainer = make_trainer(within_turn="entropy", max_steps=2)
    trainer.train()
    assert trainer.state.global_step == 2
