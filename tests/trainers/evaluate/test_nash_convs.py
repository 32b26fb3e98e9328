"""Exact NashConv of several policies, in `arena eval` and in tournaments."""

import struct
from dataclasses import replace

import pytest

import arena_envs
from arena_eval.exploit import nash_convs
from arena_eval.tournament import play_tournament
from arena_eval.tournament.round_robin import draw_matrix, tournament_tables
from arena_wrappers import PromptOptions, RandomPolicy, ScriptedPolicy


class Reader(RandomPolicy):
    """Plays at random, and reads transcripts."""

    name = "reader"
    prompt = PromptOptions(history="transcript")


class ScoredPolicy:
    """Has the probabilities of random play, but is no bot."""

    name = "model"

    def act(self, requests):
        return RandomPolicy().act(requests)

    def action_probs(self, requests):
        return RandomPolicy().action_probs(requests)


def test_policies_with_probabilities_are_measured_in_small_competitive_games():
    """Uniform play of Kuhn poker has 11/12."""
    scripted = ScriptedPolicy(lambda request: request.legal[0], name="scripted")
    policies = [scripted, RandomPolicy(), Reader(), "self"]
    kuhn = arena_envs.make("kuhn_poker")
    assert nash_convs(policies, kuhn, {}) == {"random": pytest.approx(11 / 12)}
    overridden = nash_convs(policies, kuhn, {"history": "state"})
    assert list(overridden) == ["random", "reader"]
    assert nash_convs(policies, arena_envs.make("kuhn_poker", max_turns=2), {}) == {}
    for game in ("tiny_hanabi", "connect_four", "bargaining", "frozen_lake"):
        assert nash_convs(policies, arena_envs.make(game), {}) == {}


def test_models_are_left_out_of_games_with_many_information_states():
    """Kuhn poker has 12; of the prisoner's dilemma, 5.5 - 4 is a seat's gain."""
    model = ScoredPolicy()
    kuhn, dilemma = map(arena_envs.make, ("kuhn_poker", "prisoners_dilemma"))
    assert list(nash_convs([model, RandomPolicy()], kuhn, {}, 11)) == ["random"]
    assert list(nash_convs([model, RandomPolicy()], kuhn, {}, 12)) == [
        "model",
        "random",
    ]
    assert nash_convs([RandomPolicy()], dilemma, {}) == {"random": 3}


def test_a_tournament_shows_it_beside_the_matrix(tmp_path):
    found = play_tournament(["random", "first"], ["kuhn_poker"], 2)
    (game,) = found.games
    assert game.nash_conv == {
        "random": pytest.approx(11 / 12),
        "first": pytest.approx(2),  # each seat takes the other's ante
    }
    titles = [table.title for table in tournament_tables(found)]
    assert "Exact NashConv: kuhn_poker-v0" in titles
    draw_matrix(found, tmp_path / "with.png")
    bare = replace(found, games=(replace(game, nash_conv={}),))
    draw_matrix(bare, tmp_path / "without.png")
    assert width(tmp_path / "with.png") == 2 * width(tmp_path / "without.png")


def width(path):
    """Pixels, from the header of the PNG file."""
    return struct.unpack(">I", path.read_bytes()[16:20])[0]
