"""Two games side by side."""

from contextlib import redirect_stdout
from io import StringIO

import pytest

import arena_envs
from arena_envs.games.kuhn_poker import KuhnPoker
from arena_envs.testing import EnvTwin, same_game, twin, twin_values

pytest.importorskip("pyspiel")


class FreeBets(KuhnPoker):
    """Bets add nothing to the pot, as in a published environment."""

    def returns(self, state):
        return [max(-1.0, min(1.0, paid)) for paid in super().returns(state)]


@pytest.mark.parametrize(
    "name",
    [
        *("kuhn_poker", "leduc_poker", "tic_tac_toe", "hex", "connect_four", "othello"),
        *("breakthrough", "liars_dice", "tiny_hanabi", "dots_and_boxes", "nim"),
    ],
)
def test_no_difference_is_found_between_games_that_are_the_same(name):
    game = arena_envs.make_game(name)
    assert same_game(game, f"openspiel:{name}", max_states=300, num_episodes=5) is None


def test_the_first_wrong_payment_is_shown_with_its_line_of_play():
    found = same_game(FreeBets(), "openspiel:kuhn_poker")
    assert (found.what, found.first) == ("returns", [-1.0, 1.0])
    state = KuhnPoker().initial_state()
    for move in found.history:
        state = KuhnPoker().apply(state, move)
    assert found.second == list(KuhnPoker().returns(state)) == [-2.0, 2.0]


def test_random_play_finds_a_difference_beyond_the_compared_tree():
    found = same_game(FreeBets(), KuhnPoker(), max_states=3, num_episodes=50)
    assert found.what == "returns"


def test_a_twin_may_be_a_transform_of_a_game():
    assert same_game("kuhn_poker", "disguise:3(kuhn_poker)") is None


def test_another_number_of_players_shows_in_the_deal():
    found = same_game(KuhnPoker(3), "openspiel:kuhn_poker")
    assert (found.history, found.what) == ((), "chance_outcomes")


def test_actions_may_be_renamed():
    class Renamed(KuhnPoker):
        def legal_actions(self, state):
            return [1 - action for action in super().legal_actions(state)][::-1]

        def apply(self, state, action):
            chance = self.current_player(state) < 0
            return super().apply(state, action if chance else 1 - action)

    assert same_game(KuhnPoker(), Renamed(), action=lambda s, a: 1 - a) is None
    assert same_game(KuhnPoker(), Renamed()).what in ("returns", "current_player")


def test_an_environment_that_hides_its_states_is_refused():
    with pytest.raises(ValueError, match="want a game with explicit states"):
        same_game(KuhnPoker(), arena_envs.make("kuhn_poker-v0"))


def test_an_unknown_twin_is_refused_with_similar_names():
    with pytest.raises(ValueError, match="it has kuhn_poker"):
        twin("openspiel:kuhn_pokr")


def test_the_difference_comes_with_a_script_that_prints_it():
    found = same_game("kuhn_poker(num_players=3)", "openspiel:kuhn_poker")
    script = found.reproduction("kuhn_poker(num_players=3)", "openspiel:kuhn_poker")
    with redirect_stdout(StringIO()) as out:
        exec(script, {})
    assert out.getvalue().split()[:2] == ["[(0,", "0.25),"]


def test_a_mutable_environment_is_a_twin_by_functions_of_it():
    class Box:
        state = KuhnPoker().initial_state()

    game = KuhnPoker()

    def step(box, move):
        box.state = game.apply(box.state, move)

    theirs = EnvTwin(
        *(Box(), step, lambda box: game.current_player(box.state)),
        *(lambda box: game.legal_actions(box.state),),
        *(lambda box: game.returns(box.state),),
        lambda box: game.chance_outcomes(box.state),
    )
    assert same_game(game, theirs) is None
    assert same_game(FreeBets(), theirs).what == "returns"


def test_values_show_what_an_equilibrium_of_one_game_loses_in_the_other():
    """Not folding costs nothing where bets add nothing; 2/3 in Kuhn poker."""
    found = twin_values(KuhnPoker(), FreeBets())
    assert found["value"] == pytest.approx((-1 / 18, 0), abs=1e-9)
    assert found["uniform"][0] == pytest.approx(11 / 12)
    assert found["last action"] == pytest.approx((2 / 3, 0), abs=1e-9)
    assert found["equilibrium of the first"][0] == pytest.approx(0, abs=1e-9)
    assert found["equilibrium of the second"][1] == pytest.approx(0, abs=1e-9)
    assert found["equilibrium of the second"][0] > 0.1


def test_values_need_games_that_differ_in_payments_alone():
    with pytest.raises(ValueError, match="differ in their payments alone: after"):
        twin_values(KuhnPoker(), KuhnPoker(3))
