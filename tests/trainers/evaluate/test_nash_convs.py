"""Exact NashConv of several policies, in `arena eval` and in tournaments."""

import struct
from dataclasses import replace

import pytest

import arena_envs
from arena_trainers.evaluate.exploit import nash_convs
from arena_trainers.tournament import play_tournament
from arena_trainers.tournament.picture import draw_matrix, tournament_tables
from arena_wrappers import PromptOptions, RandomPolicy, ScriptedPolicy


class Reader(RandomPolicy):
    """Plays at random, and reads transcripts."""

    name = "reader"
    prompt = PromptOptions(history="transcript")


def test_policies_with_probabilities_are_measured_in_small_competitive_games():
    """Uniform play of Kuhn poker has 11/12."""
    scripted = ScriptedPolicy(lambda request: request.legal[0], name="scripted")
    policies = [scripted, RandomPolicy(), Reader(), "self"]
    kuhn = arena_envs.make("kuhn_poker")
    assert nash_convs(policies, kuhn, {}) == {"random": pytest.approx(11 / 12)}
    overridden = nash_convs(policies, kuhn, {"history": "state"})
    assert list(overridden) == ["random", "reader"]
    assert nash_convs(policies, arena_envs.make("kuhn_poker", max_turns=2), {}) == {}
    for game in ("tiny_hanabi", "tic_tac_toe", "connect_four", "bargaining"):
        assert nash_convs(policies, arena_envs.make(game), {}) == {}


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
