"""Two games side by side."""

import pytest

import arena_envs
from arena_envs.games.kuhn_poker import KuhnPoker
from arena_envs.testing import OpenSpielTwin, same_game

pytest.importorskip("pyspiel")


class HalfPot(KuhnPoker):
    """Bets add nothing to the pot, as in a published environment."""

    def returns(self, state):
        return [max(-1.0, min(1.0, paid)) for paid in super().returns(state)]

    def legal_actions(self, state):
        actions = super().legal_actions(state)
        return actions[1:] if self.information_state(state, 0)[-1:] == (1,) else actions


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker", "tic_tac_toe", "hex"])
def test_no_difference_is_found_between_games_that_are_the_same(name):
    game = arena_envs.make_game(name)
    twin = OpenSpielTwin(name)
    assert same_game(game, twin, max_states=300, num_episodes=5) is None


def test_the_first_wrong_payment_is_shown_with_its_line_of_play():
    found = same_game(HalfPot(), OpenSpielTwin("kuhn_poker"))
    assert (found.what, found.first) == ("returns", [-1.0, 1.0])
    state = KuhnPoker().initial_state()
    for move in found.history:
        state = KuhnPoker().apply(state, move)
    assert found.second == list(KuhnPoker().returns(state)) == [-2.0, 2.0]


def test_random_play_finds_a_difference_beyond_the_compared_tree():
    found = same_game(HalfPot(), KuhnPoker(), max_states=3, num_episodes=50)
    assert found.what == "returns"


def test_another_number_of_players_shows_in_the_deal():
    found = same_game(KuhnPoker(3), OpenSpielTwin("kuhn_poker"))
    assert (found.history, found.what) == ((), "outcomes of chance")


def test_actions_may_be_renamed():
    class Renamed(KuhnPoker):
        def legal_actions(self, state):
            return [1 - action for action in super().legal_actions(state)][::-1]

        def apply(self, state, action):
            chance = self.current_player(state) < 0
            return super().apply(state, action if chance else 1 - action)

    assert same_game(KuhnPoker(), Renamed(), action=lambda s, a: 1 - a) is None
    assert same_game(KuhnPoker(), Renamed()).what in ("returns", "players to move")


def test_an_unknown_twin_is_refused_with_similar_names():
    with pytest.raises(ValueError, match="it has kuhn_poker"):
        OpenSpielTwin("kuhn_pokr")
