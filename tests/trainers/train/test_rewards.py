"""Parts of the reward: what they pay, their weights and limits, and what they leave unchanged."""

import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import arena_envs
from arena_envs.registry import BrokenPromise
from arena_envs.solvers import best_response, uniform_table
from arena_trainers import rewards
from arena_trainers.rewards import parts_of
from arena_trainers.runs.checks import preflight
from arena_wrappers import Generation, Reply, ScriptedPolicy, play
from arena_wrappers.play import final_state, turn_states

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
LEVEL = ("######", "#@$._#", "#_$._#", "######")
MOVES = ("up", "down", "left", "right")


def total(reward, episode, game, **options):
    pairs = zip(episode.turns, turn_states(episode, game), strict=True)
    return sum(reward(episode, turn, state, game, **options) for turn, state in pairs)


@pytest.fixture(scope="module")
def sokoban():
    """A level with every line of play of three moves, and the sum that each has been paid."""
    env = arena_envs.make("sokoban", level=LEVEL, max_moves=3)
    found = []
    for moves in itertools.product(MOVES, repeat=3):
        script = ScriptedPolicy([f"Answer: {move}" for move in moves])
        found += play(env.clone, [script], [0], on_error="raise")
    assert all(turn.invalid is None for e in found for turn in e.turns)
    return env.game, found


@pytest.mark.parametrize(("potential", "sums"), [(True, {0}), (False, {0, 0.5, 1})])
def test_potentials_move_the_return_of_every_line_alike(sokoban, potential, sums):
    """By enumeration: then all policies keep their order, and the optimum is unchanged."""
    game, episodes = sokoban
    paid = {total(rewards.milestones, e, game, potential=potential) for e in episodes}
    assert paid == sums or paid < sums  # two boxes need more than three moves


def test_milestones_pay_what_a_turn_has_gained(sokoban):
    game, episodes = sokoban
    (episode,) = (
        e
        for e in episodes
        if [game.action_text(None, t.action) for t in e.turns]
        == ["right", "left", "down"]
    )
    states = turn_states(episode, game)
    found = [
        rewards.milestones(episode, t, s, game)
        for t, s in zip(episode.turns, states, strict=True)
    ]
    assert found == [0.5, 0, -0.5]


def test_a_game_without_progress_names_its_measures(sokoban):
    (episode,) = play("kuhn_poker", "random", [0])
    with pytest.raises(ValueError, match=r"none.*progress"):
        total(rewards.milestones, episode, arena_envs.make_game("kuhn_poker"))
    game, (first, *_) = sokoban
    assert total(rewards.milestones, first, game, of="boxes_on_goals") == 0


def test_expert_match_pays_the_replies_of_the_solver():
    game = arena_envs.make_game("kuhn_poker")
    for episode in play("kuhn_poker", "cfr", range(3)):
        assert total(
            rewards.expert_match, episode, game, solver="cfr", share=0.0
        ) == len(episode.turns)
    cards = play("kuhn_poker", ScriptedPolicy(lambda r: r.wrap("bet")), range(30))
    found = {
        (t.state.cards[t.seat], rewards.expert_match(e, t, t.state, game, solver="cfr"))
        for e in cards
        for t in e.turns
        if t.index == 0 and t.seat == 1 and t.invalid is None
    }
    assert (2, 1.0) in found
    assert (1, 0.0) in found  # bet after bet is a call: with Q too rare


class Shaped:
    """A game whose seats are also paid a reward, summed over their turns of each line of play."""

    def __init__(self, name, num_lines, reward, **options):
        self.game = arena_envs.make_game(name)
        self.paid = {}
        for episode in play(name, "random", range(400)):
            paid = [0.0] * self.game.num_players
            pairs = zip(episode.turns, turn_states(episode, self.game), strict=True)
            for turn, state in pairs:
                found = reward(episode, turn, state, self.game, **options)
                paid[turn.seat] += found
            self.paid[final_state(episode, self.game)] = paid
        assert len(self.paid) == num_lines

    def __getattr__(self, name):
        return getattr(self.game, name)

    def returns(self, state):
        pairs = zip(self.game.returns(state), self.paid[state], strict=True)
        return tuple(own + more for own, more in pairs)

    def best_tables(self, table):
        """What is best for each seat against a table: in the game, and as shaped."""
        return [
            [best_response(game, table, seat).table for seat in range(2)]
            for game in (self.game, self)
        ]


def mixed_table(game, seed):
    rng = np.random.default_rng(seed)
    return {k: rng.dirichlet(np.ones(len(p))) for k, p in uniform_table(game).items()}


@pytest.fixture(scope="module")
def kuhn():
    return Shaped("kuhn_poker", 30, rewards.rewards.find("belief_gain"), others="cfr")


@pytest.mark.parametrize("seed", range(5))
def test_gains_of_belief_leave_every_best_response_unchanged(kuhn, seed):
    plain, shaped = kuhn.best_tables(mixed_table(kuhn.game, seed))
    assert plain == shaped


def test_a_gain_of_belief_is_that_of_the_exact_posterior(kuhn):
    """After a pass of the jack the king bets and the queen hardly ever, so that a bet tells."""
    belief_gain, found = rewards.rewards.find("belief_gain"), {}
    for episode in play("kuhn_poker", "random", range(60)):
        state = turn_states(episode, kuhn.game)[0]
        if len(episode.turns) == 3 and state.cards[0] == 0:
            options = (episode, episode.turns[0], state, kuhn.game)
            found[state.cards[1]] = belief_gain(*options, others="cfr")
    assert found[2] == pytest.approx(math.log(1 / 0.5), abs=0.02)  # it was the king
    assert found[1] == pytest.approx(math.log(0.01 / 0.5))  # at least log 0.01


def test_gains_of_the_partner_can_change_the_best_response():
    """In the prisoner's dilemma defection is best, and cooperation with the other's gain."""
    gain = rewards.rewards.find("partner_gain")
    shaped = Shaped("matrix_game", 4, gain)
    plain, found = shaped.best_tables(uniform_table(shaped.game))
    assert plain != found


def test_gains_of_the_partner_sum_to_its_return_above_the_baseline():
    """By hand: random play of the dilemma is worth 4 a round to each, 2.5 or 5.5 given the own action."""
    gain = rewards.rewards.find("partner_gain")
    for game_id, own in (
        ("matrix_game", {0: 2.5, 1: 5.5}),
        ("iterated_matrix_game", {}),
    ):
        env = arena_envs.make(game_id, **({} if own else {"num_rounds": 2}))
        for episode in play(env.clone, "random", range(8)):
            paid = {0: 0.0, 1: 0.0}
            pairs = zip(episode.turns, turn_states(episode, env.game), strict=True)
            for turn, state in pairs:
                paid[turn.seat] += gain(episode, turn, state, env.game)
            baseline = 4.0 if own else 8.0
            assert paid[0] == pytest.approx(episode.returns[1] - baseline)
            if own:
                known = own[episode.turns[0].action]
                assert paid[1] == pytest.approx(episode.returns[0] - known)


@pytest.mark.parametrize(
    ("given", "game", "message"),
    [
        ({"expert_match": {"solver": "cfrr"}}, "kuhn_poker", "did you mean 'cfr'"),
        ({"expert_match": {"solver": "minimax"}}, "kuhn_poker", "kuhn_poker|Kuhn"),
        ({"milestones": {}}, "kuhn_poker", "progress"),
        ({"belief_gain": {}}, "nim", "a method hidden"),
        ({"belief_gain": {"others": "mcts:4"}}, "leduc_poker", "known action probab"),
        ({"partner_gain": {}}, "kuhn_poker", "can gain together"),
        ({"partner_gain": {}}, "mini_hanabi", "enumerate the game.* take tiny_hanabi"),
    ],
)
def test_a_reward_that_a_game_cannot_pay_is_refused_before_torch_is_imported(
    tmp_path, given, game, message
):
    settings = {"games": [game], "rewards": given}
    with pytest.raises(ValueError, match=message):
        preflight.check(settings, tmp_path / "new", resume=False)


@pytest.mark.parametrize(
    ("options", "credit_args", "message"),
    [({"discount": 0.9}, {}, "1.0, in rewards"), ({}, {"discount": 0.9}, "got 1.0")],
)
def test_a_potential_with_another_discount_than_the_credit_is_refused(
    make_trainer, options, credit_args, message
):
    given = {"rewards": {"belief_gain": options}, "credit_args": credit_args}
    with pytest.raises(ValueError, match=f"discount of the credit, .*{message}"):
        make_trainer(**given)


def test_a_reward_that_a_game_cannot_pay_is_refused_at_the_start(make_trainer):
    with pytest.raises(ValueError, match="did you mean 'cfr'"):
        make_trainer(rewards={"expert_match": {"solver": "cfrr"}})


def length_of_limit(**limit):
    return {"length": {"rate": 0.1, **limit}}


def test_a_multiplier_rises_while_its_mean_is_above_the_bound(make_trainer, generated):
    trainer = make_trainer(rewards=length_of_limit(at_most=1.0))
    found = []
    for _ in range(3):
        generated(trainer)
        found.append(trainer.credit.multipliers["length"])
        mean = trainer.credit.metrics["arena/reward/length"]
        assert mean > 1
    assert 0 < found[0] < found[1] < found[2]
    turns = trainer.last_turns
    assert turns.rewards["length"].tolist() == (-found[1] * turns.num_tokens).tolist()


def test_a_multiplier_stays_at_zero_while_the_limit_holds(make_trainer, generated):
    trainer = make_trainer(rewards=length_of_limit(at_most=3.0))
    generated(trainer)
    assert trainer.credit.multipliers["length"] == 0
    assert (
        trainer.last_turns.reward.tolist()
        == sum(trainer.last_turns.rewards[part] for part in ("game", "format")).tolist()
    )


@pytest.mark.slow
def test_multipliers_resume_bit_for_bit(make_trainer, tmp_path):
    options = {"rewards": length_of_limit(at_most=1.0), "save_strategy": "steps"}
    options |= {"save_steps": 2, "max_steps": 4}
    whole = make_trainer(**options)
    whole.train()
    again = make_trainer(**options)
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    assert again.credit.multipliers == whole.credit.multipliers
    assert again.credit.multipliers["length"] > 0.1
    pairs = zip(whole.model.parameters(), again.model.parameters(), strict=True)
    assert all((a == b).all() for a, b in pairs)
    kept = json.loads(
        (tmp_path / "out" / "checkpoint-2" / "credit_state.json").read_text()
    )
    assert 0 < kept["multipliers"]["length"] < again.credit.multipliers["length"]


@pytest.mark.slow
def test_a_reward_of_weight_zero_trains_as_without(make_trainer):
    def weights(**options):
        trainer = make_trainer(max_steps=2, **options)
        trainer.train()
        return [p.detach().clone() for p in trainer.model.parameters()]

    plain, zero = weights(), weights(rewards={"length": {"weight": 0}})
    some = weights(
        rewards={"expert_match": {"solver": "cfr", "weight": [1, 0], "over": 9}}
    )
    assert all((a == b).all() for a, b in zip(plain, zero, strict=True))
    assert not all((a == b).all() for a, b in zip(plain, some, strict=True))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lenght": {}}, "did you mean 'length'"),
        ({"length": {"weigth": 0.1}}, "did you mean 'weight'"),
        ({"length": 1}, "want a mapping"),
        ({"expert_match": {}}, "needs the option 'solver'"),
        ({"length": {"at_most": 40}}, "with a rate above 0"),
        ({"length": {"at_most": 4, "rate": 1, "weight": 1}}, "want a weight, or one"),
        ({"length": {"at_most": 4, "rate": 1, "until": 9}}, "want a weight, or one"),
        ({"length": {"at_most": 4, "at_least": 2, "rate": 1}}, "want a weight, or one"),
    ],
)
def test_wrong_rewards_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        parts_of(given)


GAMES = {
    "milestones": "sokoban",
    "belief_gain": "leduc_poker",
    "partner_gain": "tiny_hanabi",
}
OPTIONS = {"expert_match": {"solver": "cfr"}, "judge": {"policy": "random"}}


@pytest.mark.parametrize("name", rewards.rewards.built_in)
def test_a_reward_keeps_its_promises(name):
    game, options = GAMES.get(name, "kuhn_poker"), OPTIONS.get(name, {})
    rewards.rewards.check(rewards.rewards.find(name), game, **options)


def test_the_table_of_rewards_has_each_of_them():
    _, _, table = rewards.__doc__.partition("| reward | pays |")
    assert {*re.findall(r"^\| `(\w+)`", table, re.MULTILINE)} == {
        *rewards.rewards.built_in
    }


def test_a_reward_that_is_no_number_is_found():
    with pytest.raises(BrokenPromise, match="finite"):
        rewards.check_reward(lambda *_: float("nan"), "kuhn_poker")


def test_each_call_of_an_agents_turn_pays_its_length():
    plan = Generation("planner", "a", token_ids=[1, 2, 3])
    move = Generation("worker", "bet", token_ids=[4])
    (episode,) = play("kuhn_poker", "random", [3])
    turn = replace(episode.turns[0], generations=[plan, move])
    calls = rewards.calls_of(episode, turn, None, None)
    assert rewards.length(calls) == [3.0, 1.0]
    assert rewards.length(calls, role="planner") == [3.0, 0.0]


def test_a_judge_grades_each_call_and_equal_texts_alike():
    """It reads the prompt and the fenced reply; a role that is not graded is not asked."""
    asked = []

    class Judge:
        name = "judge"

        def act(self, requests):
            asked.extend(requests)
            texts = [request.messages[-1]["content"] for request in requests]
            return [Reply("0.75" if "bet" in text else "8") for text in texts]

    game = arena_envs.make_game("kuhn_poker")
    (episode,) = play("kuhn_poker", "random", [3])
    turn, state = episode.turns[0], turn_states(episode, game)[0]
    prompt = [{"role": "user", "content": "Your card: K."}]
    calls = [
        rewards.Call(
            episode, turn, state, game, Generation(role, text, messages=prompt)
        )
        for role, text in (("planner", "bet"), ("worker", "no"), ("worker", "no"))
    ]
    assert rewards.judge(calls, policy=Judge()) == [0.75, 0.0, 0.0]
    assert len(asked) == 2
    assert rewards.judge(calls, policy=Judge(), role="planner") == [0.75, 0.0, 0.0]
    assert len(asked) == 3
    assert "<reply>\nbet\n</reply>" in asked[0].messages[-1]["content"]
