"""The critic: values near the exact ones, and columns that estimators read."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

import arena_envs
from arena_credit import estimate
from arena_envs import GameEnv
from arena_envs.game import CHANCE, TERMINAL
from arena_eval.baselines import prepared
from arena_trainers.finite import Diverged
from arena_trainers.train import FeatureCritic, turn_batch, turn_records
from arena_wrappers import (
    PromptOptions,
    PromptWrapper,
    RandomPolicy,
    Reply,
    TurnRequest,
    play,
)
from arena_wrappers.policies import TurnView, scorers

KUHN = arena_envs.make_game("kuhn_poker")


class Talker(RandomPolicy):
    """Plays at random and reports tokens, as a model does."""

    def act(self, requests):
        return [Reply(r.text, [1], [2, 3]) for r in super().act(requests)]


def gathered(game, seeds, max_turns=None):
    """Episodes of random play as a batch, and its records."""
    env = PromptWrapper(GameEnv(game, max_turns=max_turns), "bare")
    episodes = play(lambda: env, Talker(), seeds)
    seats = [["self"] * game.num_players] * len(episodes)
    columns = ("state_key", "value", "features")
    records = turn_records(episodes, [0] * len(episodes), seats, [game], columns)
    return turn_batch([records], {}, ["game"]), records


def exact_values(game):
    """Value of uniform play by (seat, information state), by enumeration of the tree."""
    reach, paid = defaultdict(float), defaultdict(float)

    def walk(state, chance, seen):
        player = game.current_player(state)
        if player == TERMINAL:
            for seat, key in seen:
                reach[seat, key] += chance
                paid[seat, key] += chance * game.returns(state)[seat]
            return
        outcomes = game.chance_outcomes(state) if player == CHANCE else None
        if outcomes is None:
            seen = [*seen, (player, game.information_state(state, player))]
            legal = game.legal_actions(state)
            outcomes = [(action, 1 / len(legal)) for action in legal]
        for action, probability in outcomes:
            walk(game.apply(state, action), chance * probability, seen)

    walk(game.initial_state(), 1.0, [])
    return {key: paid[key] / reach[key] for key in reach}


def test_the_critic_of_random_kuhn_play_comes_near_the_exact_values():
    """Root mean square below 0.12 chips over 12 information states, spread 0.6."""
    critic = FeatureCritic(
        [KUHN], seed=1, hidden_size=16, learning_rate=1e-2, num_steps=80
    )
    batch, records = gathered(KUHN, range(1000))
    errors = [critic.fit(critic.with_values(batch, records), records) for _ in range(2)]
    exact = exact_values(KUHN)
    assert len(exact) == 12
    values = critic.with_values(batch, records).value
    found = {(r.seat, r.state): v for r, v in zip(records, values, strict=True)}
    assert found.keys() == exact.keys()
    differences = [found[key] - exact[key] for key in exact]
    assert np.std(list(exact.values())) > 0.6
    assert np.sqrt(np.mean(np.square(differences))) < 0.12
    assert errors[-1] < errors[0]


def test_values_are_zero_before_anything_was_seen():
    batch, records = gathered(KUHN, range(10))
    with_values = FeatureCritic([KUHN]).with_values(batch, records)
    assert with_values.value.tolist() == [0.0] * len(records)
    gae = estimate("gae", with_values, lambda_=1.0).advantage
    to_go = estimate(
        "gae", replace(with_values, value=np.zeros(len(records))), lambda_=1
    )
    assert gae.tolist() == to_go.advantage.tolist()


def test_a_cut_trajectory_is_worth_what_the_critic_says_of_its_end():
    """Cut after one turn, seat 0 of Kuhn poker is to be paid what its critic expects.

    Terminated ends are worth 0: there `next_value` is NaN, and reading it would show.
    """
    critic = FeatureCritic([KUHN], discount=0.5, num_steps=1)
    with torch.no_grad():
        critic.networks[0][-1].bias += 2.0
    batch, records = gathered(KUHN, range(6), max_turns=1)
    batch = critic.with_values(batch, records)
    assert batch.truncated.all()
    np.testing.assert_allclose(batch.next_value, 2.0)
    np.testing.assert_allclose(critic._targets(batch), 0.5 * 2.0)
    np.testing.assert_allclose(estimate("gae", batch, discount=0.5).advantage, -1.0)
    whole, records = gathered(KUHN, range(6))
    whole = critic.with_values(whole, records)
    assert np.isnan(whole.next_value).all()
    for name in ("gae", "turn_ppo", "archer"):
        assert np.isfinite(estimate(name, whole).advantage).all()


def test_games_have_networks_of_their_own():
    games = [KUHN, arena_envs.make_game("tic_tac_toe")]
    critic = FeatureCritic(games, num_steps=3)
    before = critic.networks[1][0].weight.clone()
    batch, records = gathered(KUHN, range(10))
    critic.fit(critic.with_values(batch, records), records)
    assert torch.equal(critic.networks[1][0].weight, before)
    assert critic.with_values(batch, records).value.any()


def test_fitting_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    critic = FeatureCritic([KUHN], num_steps=1)
    batch, records = gathered(KUHN, range(5))
    critic.fit(critic.with_values(batch, records), records)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_size": 0}, "hidden_size from 1 to 10000, got 0"),
        ({"num_steps": 0}, "num_steps from 1"),
        ({"learning_rate": -0.1}, "learning_rate from 0.0 to 1.0, got -0.1"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        FeatureCritic([KUHN], **options)


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of a critic of Kuhn poker that says 9 everywhere."""
    critic = FeatureCritic([KUHN], hidden_size=4)
    with torch.no_grad():
        critic.networks[0][-1].bias.fill_(9.0)
    torch.save(critic.state_dict(), tmp_path / "critic.pt")
    return tmp_path


def test_a_critic_scores_the_moves_after_which_its_seat_moves_again(saved):
    """After a pass, the other bets in half of random play; after a bet, the game ends."""
    score = scorers.make(f"critic:{saved}(num=200)")
    state = KUHN.apply(KUHN.apply(KUHN.initial_state(), 2), 0)
    r = TurnRequest.at(KUHN, state, PromptOptions("bare"))
    passed, bet = score(
        TurnView(KUHN, 0, r.messages, r.legal, [], 1, r), ["pass", "bet"]
    )
    assert passed == pytest.approx((9 + 1) / 2, abs=0.6)  # a king wins 1 by passes
    assert bet == pytest.approx(1.5, abs=0.1)


def test_an_agent_plays_by_a_critic(saved):
    agent = f"agent:candidates(random, num=4, scorer=critic:{saved})"
    assert play("kuhn_poker", agent, [3])[0].lost is None


def test_folders_without_such_a_critic_are_refused(saved, tmp_path):
    with pytest.raises(ValueError, match=r"want a scorer as critic:RUN, got 'critic'$"):
        scorers.make("critic")
    with pytest.raises(ValueError, match="want a run of one game with critic features"):
        scorers.make(f"critic:{tmp_path / 'absent'}")
    torch.save(FeatureCritic([KUHN, KUHN]).state_dict(), saved / "critic.pt")
    with pytest.raises(ValueError, match="want a run of one game with critic features"):
        scorers.make(f"critic:{saved}")
    torch.save(
        FeatureCritic([arena_envs.make_game("leduc_poker")]).state_dict(),
        saved / "critic.pt",
    )
    with pytest.raises(ValueError, match="want the critic of a run of KuhnPoker"):
        prepared(f"agent:verify(random, scorer=critic:{saved})", KUHN)


def test_a_critic_stops_at_a_loss_that_is_not_finite():
    batch, records = gathered(KUHN, range(4))
    critic = FeatureCritic([KUHN], num_steps=1)
    with_values = critic.with_values(batch, records)
    with torch.no_grad():
        next(critic.networks.parameters()).fill_(np.inf)
    with pytest.raises(Diverged, match="the critic has diverged: got the loss nan"):
        critic.fit(with_values, records)
