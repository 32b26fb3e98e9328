"""Games that training cuts after `max_turns`: truncations, wherever they are read."""

import numpy as np
import pytest

from arena_envs.games.kuhn_poker import KuhnPoker
from arena_trainers import TurnGRPOConfig
from arena_trainers.train import GamePlan
from arena_trainers.train.return_bounds import part_bounds
from arena_wrappers import Episode, RandomPolicy, play
from arena_wrappers.play import replay

CUT = {"id": "kuhn_poker", "max_turns": 1}


def test_a_game_is_cut_after_so_many_turns(settings):
    args = TurnGRPOConfig(**settings, games=[{"id": "chess", "max_turns": 4}])
    plan = GamePlan(args.games[0], args)
    assert plan.name == "chess(max_turns=4)"
    (episode,) = play(plan.env_fn, RandomPolicy(), [0])
    assert len(episode.turns) == 4
    assert (episode.truncated, episode.terminated) == (True, False)
    assert episode.max_turns == 4
    replay(Episode.from_json(episode.to_json()))


@pytest.mark.parametrize("limit", [0, -1, 2.5, "4", True])
def test_a_limit_that_is_no_number_of_turns_is_refused(settings, limit):
    args = TurnGRPOConfig(**settings)
    with pytest.raises(ValueError, match="want max_turns as an integer above 0"):
        GamePlan({"id": "chess", "max_turns": limit}, args)


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_cuts_reach_credit_as_truncations(make_trainer, generated):
    trainer = make_trainer(games=[CUT])
    generated(trainer)
    turns = trainer.last_turns
    cut = [episode.truncated for episode in trainer.last_episodes]
    assert any(cut)  # the others forfeited
    assert turns.truncated.tolist() == cut
    assert turns.terminated.tolist() == [not was_cut for was_cut in cut]


def test_an_exact_critic_expects_what_a_cut_left(make_trainer, generated):
    trainer = make_trainer(
        games=[CUT], critic="exact", credit="gae", credit_args={"lambda_": 1.0}
    )
    generated(trainer)
    turns = trainer.last_turns
    assert turns.truncated.any()
    left = turns.action_value - turns.reward
    assert turns.next_value[turns.truncated] == pytest.approx(left[turns.truncated])
    assert np.abs(turns.next_value[turns.truncated]).max() > 0.01
    assert np.isnan(turns.next_value[~turns.truncated]).all()
    expected = turns.action_value - turns.value  # of what was played, cut or not
    assert trainer.last_credit.advantage[turns.truncated] == pytest.approx(
        expected[turns.truncated]
    )


class Paid(KuhnPoker):
    """Kuhn poker that claims to pay every seat something at its end."""

    min_return, max_return = 1.0, 3.0


def test_bounds_allow_for_a_cut_before_anybody_is_paid(settings):
    game = Paid()
    whole = part_bounds(game, TurnGRPOConfig(**settings, games=["kuhn_poker"]))
    cut = part_bounds(game, TurnGRPOConfig(**settings, games=[CUT]))
    assert (whole["game"], cut["game"]) == ((1, 3), (0, 3))
