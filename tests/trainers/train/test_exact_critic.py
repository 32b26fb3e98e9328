"""The exact critic, against walks through whole games: nothing of the solvers is used."""

from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
import torch

import arena_envs
from arena_credit import estimate, returns_to_go, trajectories
from arena_envs import GameEnv
from arena_envs.bots.solved import Tabular
from arena_envs.game import CHANCE, TERMINAL, BaseGame
from arena_envs.solvers import TooLarge
from arena_trainers import TurnGRPOConfig
from arena_trainers.lm import LMPolicy
from arena_trainers.train import (
    CRITIC,
    ExactCritic,
    GamePlan,
    check_exact_opponents,
    turn_batch,
    turn_records,
)
from arena_wrappers import (
    PromptOptions,
    PromptWrapper,
    RandomPolicy,
    Reply,
    TurnRequest,
    messages,
)
from arena_wrappers.play import EpisodePlan, play_plans
from arena_wrappers.policies import ScoringBotPolicy

SHORT = PromptOptions("bare", rules=False)
COLUMNS = ("value", "action_value")
EXACT = {"credit": "counterfactual", "critic": "exact"}
KUHN = arena_envs.make_game("kuhn_poker")
ITERATED = arena_envs.make_game("iterated_matrix_game", num_rounds=2)


class Tolled(NamedTuple):
    """A hidden coin (-1 before), and what was done."""

    coin: int = -1
    done: tuple[int, ...] = ()


@dataclass(frozen=True)
class Toll(BaseGame[Tolled, int]):
    """Player_0, player_1, player_0 choose; every choice is paid at once.

    Player_0 sees neither the coin nor what it is paid: the first choice pays it 2 times
    the coin if it is 1, and player_1 gets 3 or 4 before it has moved.
    """

    num_players: ClassVar[int] = 2
    num_actions = 2
    kind = "mixed"
    information = "imperfect"
    min_return, max_return, max_turns = -1.0, 5.0, 3

    def initial_state(self):
        return Tolled()

    def current_player(self, state):
        return CHANCE if state.coin < 0 else (0, 1, 0, TERMINAL)[len(state.done)]

    def chance_outcomes(self, state):
        return [(0, 0.25), (1, 0.75)] if state.coin < 0 else []

    def legal_actions(self, state):
        return (0, 1) if self.current_player(state) >= 0 else ()

    def apply(self, state, action):
        if state.coin < 0:
            return Tolled(action)
        return state._replace(done=(*state.done, action))

    def returns(self, state):
        paid = [0.0, 0.0]
        for number, action in enumerate(state.done):
            if number == 0:
                paid = [2.0 * action * state.coin, 3.0 + action]
            elif number == 1:
                paid = [paid[0] + action * (1 - state.coin), paid[1] - action]
            elif action == state.coin:
                paid = [2 + paid[0], 2 + paid[1]]
        return tuple(paid)

    def observe(self, state, seat):
        return str(self.information_state(state, seat))

    def information_state(self, state, seat):
        return (state.coin if seat == 1 else None, state.done)

    def features(self, state, seat):
        return np.zeros(1, np.float32)

    def action_text(self, state, action):
        return ("pass", "bet")[action]

    def rules(self, seat):
        return "Pay."


class Repeats:
    """Says actions that were chosen before, and reports tokens as a model does."""

    name = "repeats"

    def __init__(self, actions):
        self.actions = iter(actions)

    def act(self, requests):
        texts = [r.game.action_text(r.state, next(self.actions)) for r in requests]
        return [Reply(text, [1], [2, 3]) for text in texts]


def key_of(game, state):
    """The seat to move, and what it knows."""
    seat = game.current_player(state)
    return seat, game.information_state(state, seat)


def lines(game, probabilities):
    """(probability, chance outcomes, actions, what was known) of all lines of play."""
    found = []

    def walk(state, p, drawn, played, known):
        player = game.current_player(state)
        if player == TERMINAL:
            found.append((p, drawn, played, known, game.returns(state)))
        elif player == CHANCE:
            for outcome, q in game.chance_outcomes(state):
                after = game.apply(state, outcome)
                walk(after, p * q, [*drawn, outcome], played, known)
        else:
            legal = game.legal_actions(state)
            key = key_of(game, state)
            for action, q in zip(legal, probabilities(state), strict=True):
                after = game.apply(state, action)
                walk(after, p * q, drawn, [*played, action], [*known, (key, action)])

    walk(game.initial_state(), 1.0, [], [], [])
    return found


def decisions(game):
    """A state of each information state."""
    found = {}

    def uniform(state):
        found[key_of(game, state)] = state
        return [1.0] * len(game.legal_actions(state))

    lines(game, uniform)
    return found.values()


def means(pairs):
    """Mean by key of (key, weight, number)."""
    total, weights = defaultdict(float), defaultdict(float)
    for key, weight, number in pairs:
        total[key] += weight * number
        weights[key] += weight
    return {key: total[key] / weights[key] for key in total}


def exact_returns(game, probabilities):
    """Expected returns by (seat, information state), and with the action behind them."""
    values, of_actions = [], []
    for p, _, _, known, returns in lines(game, probabilities):
        values += [(key, p, returns[key[0]]) for key, _ in known]
        of_actions += [((*key, action), p, returns[key[0]]) for key, action in known]
    return means(values), means(of_actions)


def some_table(game):
    """A row of random probabilities for each information state."""
    rng, rows = np.random.default_rng(5), {}

    def probabilities(state):
        key = key_of(game, state)
        if key not in rows:
            rows[key] = rng.dirichlet(np.ones(len(game.legal_actions(state)))).tolist()
        return rows[key]

    lines(game, probabilities)
    return rows, probabilities


def whole_batch(game, found, max_turns=None):
    """Every line of play, played once through the environment, as a batch."""
    env = PromptWrapper(GameEnv(game, max_turns=max_turns), "bare")
    plans = [
        EpisodePlan(lambda: env, [Repeats(line[2])] * 2, 0, options={"chance": line[1]})
        for line in found
    ]
    episodes = play_plans(plans, on_error="raise")
    games, seats = [0] * len(episodes), [("self", "self")] * len(episodes)
    records = turn_records(episodes, games, seats, [game], COLUMNS)
    return turn_batch([records], {}, ["game"], COLUMNS), records


@pytest.mark.parametrize(
    "game",
    [KUHN, ITERATED, Toll()],
    ids=["kuhn", "iterated", "toll"],
)
def test_columns_are_what_is_paid_from_there_on_in_the_mean(game):
    """Over all lines of play, as the environment paid them, by their probabilities."""
    table, probabilities = some_table(game)
    found = lines(game, probabilities)
    assert sum(line[0] for line in found) == pytest.approx(1)
    batch, records = whole_batch(game, found)
    policy = ScoringBotPolicy(Tabular(table))
    batch = ExactCritic([game], [[policy] * 2], SHORT).with_values(batch, records)
    turns = trajectories(batch)
    to_go = turns.scatter(returns_to_go(turns, turns.column("reward")))
    assert to_go.std() > 0.5
    chance = [found[r.episode][0] for r in records]
    keys = [(r.seat, r.state) for r in records]
    actions = [(*key, r.action) for key, r in zip(keys, records, strict=True)]
    for by, column in ((keys, batch.value), (actions, batch.action_value)):
        want = means(zip(by, chance, to_go, strict=True))
        got = means(zip(by, chance, column, strict=True))
        assert got == pytest.approx(want, abs=1e-12)
    assert np.isnan(batch.next_value).all()
    if game is not KUHN:
        assert any(record.paid for record in records)


def test_what_was_paid_before_is_taken_from_what_is_expected():
    """Toll by hand, uniform play: after the coin 1 and a 1, player_1 has been paid 4.

    Another 1 costs it 1, and in half of the cases both get 2 in the end.
    """
    game = Toll()
    policy = RandomPolicy()
    batch, records = whole_batch(game, [(1.0, [1], [1, 1, 0], [], ())])
    got = ExactCritic([game], [[policy] * 2], SHORT, 10).with_values(batch, records)
    assert [r.paid for r in records] == [0.0, 4.0, 2.0]
    np.testing.assert_allclose(got.value[1], 10 * (0.5 * -1 + 0.5 * 2))
    np.testing.assert_allclose(got.action_value[1], 10 * (-1 + 0.5 * 2))
    # player_0 was paid 2, and does not know it: 2 times 3/4 is what it could expect
    np.testing.assert_allclose(got.value[2], 10 * (0.75 * 2 + 0.25 + 1 - 2))
    np.testing.assert_allclose(got.action_value[2], 10 * (1.5 + 0.25 + 2 * 0.25 - 2))


def test_seats_are_valued_by_the_policies_that_play_them():
    table, probabilities = some_table(KUHN)
    batch, records = whole_batch(KUHN, lines(KUHN, probabilities))
    seats = [RandomPolicy(), ScoringBotPolicy(Tabular(table))]
    batch = ExactCritic([KUHN], [seats], SHORT).with_values(batch, records)

    def mixed(state):
        return [0.5, 0.5] if KUHN.current_player(state) == 0 else probabilities(state)

    values, of_actions = exact_returns(KUHN, mixed)
    for row, record in enumerate(records):
        key = (record.seat, record.state)
        assert batch.value[row] == pytest.approx(values[key])
        assert batch.action_value[row] == pytest.approx(of_actions[*key, record.action])


def test_where_a_limit_cut_the_rest_of_what_was_expected_is_the_next_value():
    """After one of two rounds: what the second pays, in the mean over what the other did."""
    table, probabilities = some_table(ITERATED)
    found = lines(ITERATED, probabilities)
    batch, records = whole_batch(ITERATED, found, max_turns=2)
    seats = [ScoringBotPolicy(Tabular(table))] * 2
    batch = ExactCritic([ITERATED], [seats], SHORT).with_values(batch, records)
    assert batch.truncated.all()
    assert batch.reward.any()
    got, want = [], []
    for row, record in enumerate(records):
        probability, *_, returns = found[record.episode]
        key = record.seat, record.action
        got.append((key, probability, batch.next_value[row]))
        want.append((key, probability, returns[record.seat] - batch.reward[row]))
    assert means(got) == pytest.approx(means(want))
    expected = estimate("counterfactual", batch).advantage
    np.testing.assert_allclose(estimate("gae", batch).advantage, expected, atol=1e-12)


def probabilities_of(policy, game):
    """Those of a language model, asked one state at a time."""
    asked = {}

    def probabilities(state):
        seat, _ = key = key_of(game, state)
        if key not in asked:
            legal = [game.action_text(state, a) for a in game.legal_actions(state)]
            prompt = messages(game, state, seat, SHORT)
            request = TurnRequest(0, 0, seat, game, state, prompt, (), legal, 0)
            ((asked[key], _),) = policy.action_probs([request])
        return asked[key]

    return probabilities


def test_the_columns_of_a_trainer_are_those_of_its_model(make_trainer, generated):
    trainer = make_trainer(**EXACT, temperature=2.0, part_weights={"game": 3.0})
    generated(trainer)
    policy, turns = trainer.policy, trainer.last_turns
    assert policy.sampling.temperature == 2.0
    values, of_actions = exact_returns(KUHN, probabilities_of(policy, KUHN))
    records = turn_records(
        trainer.last_episodes, [0] * 8, trainer.last_played.seats, [KUHN], COLUMNS
    )
    assert len(records) == len(turns.reward)
    num_invalid = 0
    for row, record in enumerate(records):
        key = (record.seat, record.state)
        assert turns.value[row] == pytest.approx(3 * values[key], abs=1e-5)
        want = turns.reward[row]
        if record.action is not None:
            want = 3 * of_actions[*key, record.action]
        num_invalid += record.action is None
        assert turns.action_value[row] == pytest.approx(want, abs=1e-5)
    assert 0 < num_invalid < len(records)
    assert 0 < trainer.credit.critic.illegal_mass < 1


def test_opponents_count_with_their_own_probabilities(
    make_trainer, generated, model_folder
):
    opponents = [f"lm:{model_folder}", "self"]
    trainer = make_trainer(**EXACT, opponents=["random", "self"])
    generated(trainer)
    own = probabilities_of(trainer.policy, KUHN)
    values, _ = exact_returns(
        KUHN, lambda s: [0.5, 0.5] if KUHN.current_player(s) == 0 else own(s)
    )
    _check_values(trainer, values)
    trainer = make_trainer(**EXACT, opponents=opponents)  # with the same weights
    generated(trainer)
    _check_values(trainer, exact_returns(KUHN, own)[0])


def _check_values(trainer, values):
    games, seats = [0] * 8, trainer.last_played.seats
    records = turn_records(trainer.last_episodes, games, seats, [KUHN], COLUMNS)
    want = [values[record.seat, record.state] for record in records]
    np.testing.assert_allclose(trainer.last_turns.value, want, atol=1e-5)


@pytest.mark.slow
def test_advantages_of_legal_actions_have_mean_0_in_each_state(make_trainer, generated):
    trainer = make_trainer(**EXACT, max_steps=2, episodes_per_step=64, logging_steps=1)
    before = trainer.credit.critic.illegal_mass
    trainer.train()
    assert trainer.state.global_step == 2
    assert before == 0 < trainer.state.log_history[0]["arena/illegal_mass"] < 1
    generated(trainer)
    advantage = trainer.last_credit.advantage
    assert np.isfinite(advantage).all()
    assert (advantage != 0).any()
    records = turn_records(
        trainer.last_episodes, [0] * 64, trainer.last_played.seats, [KUHN], COLUMNS
    )
    seen = defaultdict(dict)
    for record, number in zip(records, advantage, strict=True):
        if record.action is not None:
            seen[record.seat, record.state][record.action] = number
    probabilities, num_whole = probabilities_of(trainer.policy, KUHN), 0
    for state in decisions(KUHN):
        found = seen[key_of(KUHN, state)]
        if len(found) == 2:
            num_whole += 1
            mean = np.dot(probabilities(state), [found[0], found[1]])
            assert mean == pytest.approx(0, abs=1e-6)
            assert abs(found[1]) > 1e-3
    assert num_whole >= 4


@pytest.mark.slow
@pytest.mark.parametrize("credit", ["gae", "turn_ppo", "archer"])
def test_estimators_that_read_values_train(make_trainer, credit):
    args = {"discount": 1.0}
    trainer = make_trainer(credit=credit, credit_args=args, critic="exact")
    trainer.train()
    assert trainer.last_credit.advantage.any()
    assert trainer.last_turns.value.any()


def test_archer_takes_exact_action_values(make_trainer, generated):
    args = {"discount": 1.0, "action_value": "column"}
    trainer = make_trainer(credit="archer", credit_args=args, critic="exact")
    generated(trainer)
    turns = trainer.last_turns
    expected = turns.action_value - turns.value
    np.testing.assert_array_equal(trainer.last_credit.advantage, expected)


def test_evaluation_has_exact_values_too(make_trainer):
    trainer = make_trainer(**EXACT, num_generations_eval=1)
    trainer.model.eval()
    trainer._generate_and_score_completions([trainer.train_dataset[0]])
    assert trainer.last_turns.action_value is not None
    assert trainer._metrics["eval"]["arena/illegal_mass"][0] > 0


@pytest.mark.slow
def test_a_resumed_run_goes_on_bit_by_bit_with_nothing_saved(make_trainer, tmp_path):
    options = {**EXACT, "max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    whole = make_trainer(output_dir=str(tmp_path / "whole"), **options)
    whole.train()
    checkpoint = tmp_path / "whole" / "checkpoint-1"
    assert not (checkpoint / CRITIC).exists()
    resumed = make_trainer(output_dir=str(tmp_path / "resumed"), **options)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    for one, other in zip(
        whole.model.state_dict().values(),
        resumed.model.state_dict().values(),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_a_paid_judge_has_no_exact_value(make_trainer):
    """It would be in `reward` and not in Q and V."""
    columns = {"rewards.judge": lambda *_: 1.0}
    with pytest.raises(ValueError, match="takes part_weights of 0 for 'judge', got 5"):
        make_trainer(columns, **EXACT, part_weights={"judge": 5.0})
    assert (
        make_trainer(**EXACT, part_weights={"format": 2.0}).credit.critic.weight == 1.0
    )


def test_opponents_that_cut_their_distribution_are_refused(policy, settings):
    args = TurnGRPOConfig(**settings, **EXACT, opponents=["self", "cut"])
    cut = LMPolicy(policy.model, policy.tokenizer, top_k=5)
    message = "got 'cut' in seat 1 of kuhn_poker with .*'top_k': 5"
    with pytest.raises(ValueError, match=message):
        check_exact_opponents(args, [GamePlan("kuhn_poker", args)], {"cut": cut})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"history": "transcript"}, "takes history 'state', got 'transcript'"),
        ({"on_invalid": "retry"}, "takes on_invalid 'forfeit', got 'retry'"),
        ({"top_k": 5}, "takes top_k 0, got 5"),
        ({"top_p": 0.9}, "takes top_p 1.0, got 0.9"),
        ({"min_p": 0.1}, "takes min_p 0.0, got 0.1"),
        ({"repetition_penalty": 2.0}, "takes repetition_penalty 1.0, got 2.0"),
        ({"credit": "turn_ppo"}, r"takes discount in credit_args 1.0, got 0.99"),
        ({"branch": {"num_candidates": 2}}, "does not support branch"),
        ({"credit": "mars"}, "credit 'mars' reads no values"),
        ({"critic_args": {"num_steps": 2}}, "critic 'exact' has no option 'num_steps'"),
        ({"games": ["bargaining"]}, "that can be enumerated: .* is a language game"),
        (
            {"opponents": ["self", "ismcts:10"]},
            "got 'ismcts:10' in seat 1 of kuhn_poker",
        ),
        ({"critic": None}, "column 'value'.*set critic='features', or 'exact'"),
        ({"critic": "exakt"}, "did you mean 'exact'"),
    ],
)
def test_settings_without_exact_values_are_refused_by_name(
    make_trainer, overrides, message
):
    with pytest.raises(ValueError, match=message):
        make_trainer(**{**EXACT, **overrides})


def test_large_games_are_refused_at_the_start(make_trainer):
    with pytest.raises(TooLarge, match=r"critic='exact' takes games .* 100000 states"):
        make_trainer(**EXACT, games=["connect_four"])
