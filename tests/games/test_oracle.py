"""The games beside OpenSpiel's, node by node: the same rules and the same knowledge."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

import arena_envs
from arena_envs.game import AnyGame
from arena_envs.games.hanabi import Hanabi, State
from arena_envs.games.kuhn_poker import KuhnPoker
from arena_envs.games.tic_tac_toe import TicTacToe

pyspiel = pytest.importorskip("pyspiel")

mini = arena_envs.make_game("mini_hanabi-v0")


def theirs(game: AnyGame) -> Any:
    """The same game of OpenSpiel's."""
    if isinstance(game, TicTacToe):
        return pyspiel.load_game("tic_tac_toe")
    if isinstance(game, KuhnPoker):
        return pyspiel.load_game("kuhn_poker", {"players": game.num_players})
    assert isinstance(game, Hanabi)
    params = {
        "players": game.num_players,
        "colors": game.num_colors,
        "ranks": game.num_ranks,
        "hand_size": game.cards_per_hand,
        "max_information_tokens": game.max_information_tokens,
        "max_life_tokens": game.max_life_tokens,
    }
    return pyspiel.load_game("hanabi", params)


@pytest.mark.parametrize(("num_players", "num_states"), [(2, 58), (3, 617), (4, 7886)])
def test_kuhn_poker_has_the_same_tree_and_the_same_knowledge(
    oracle: Any, num_players: int, num_states: int
) -> None:
    game = KuhnPoker(num_players)
    state, other = game.initial_state(), theirs(game).new_initial_state()
    assert oracle.walk_tree(game, state, other, oracle.Knowledge(game)) == num_states


def test_tic_tac_toe_plays_alike(oracle: Any) -> None:
    oracle.play_games(TicTacToe(), theirs(TicTacToe()), 5_000)


def test_mini_hanabi_plays_alike(oracle: Any) -> None:
    oracle.play_games(mini, theirs(mini), 5_000)


@pytest.mark.parametrize(
    "game",
    [
        Hanabi(),
        Hanabi(num_players=3),
        Hanabi(num_players=4),
        Hanabi(num_players=5),
        Hanabi(num_colors=3, num_ranks=2),
        Hanabi(num_players=3, num_colors=1, hand_size=2, max_information_tokens=1),
        Hanabi(num_players=4, num_ranks=1, hand_size=3, max_information_tokens=0),
        Hanabi(num_players=5, num_colors=4, num_ranks=3, max_life_tokens=1),
        Hanabi(num_colors=1, num_ranks=2, hand_size=2),
    ],
    ids=repr,
)
def test_hanabi_with_other_parameters_plays_alike(oracle: Any, game: Hanabi) -> None:
    oracle.play_games(game, theirs(game), 500)


@pytest.mark.parametrize(("game", "num_games"), [(mini, 200), (Hanabi(3), 10)])
def test_what_a_seat_of_hanabi_knows_determines_what_openspiel_shows_it(
    oracle: Any, game: Hanabi, num_games: int
) -> None:
    """Among all states of random games, and those that a seat cannot tell from them."""
    shown: dict[Any, str] = {}
    rng, other_game, num_same = random.Random(0), theirs(game), 0

    def visit(state: State, other: Any, actions: list[int]) -> None:
        nonlocal num_same
        for seat in range(game.num_players):
            key = game.information_state(state, seat)
            text = other.observation_string(seat)
            num_same += key in shown
            assert shown.setdefault(key, text) == text
        seat = rng.randrange(game.num_players)
        drawn = game.resample(state, seat, rng)
        redealt = redeal(game, actions, seat, drawn.hands[seat])
        again, other_again = game.initial_state(), other_game.new_initial_state()
        for action in redealt:
            again = game.apply(again, action)
            other_again.apply_action(action)
        assert again == drawn  # it can be reached
        assert other_again.observation_string(seat) == other.observation_string(seat)
        assert list(game.returns(again)) == other_again.returns()

    oracle.play_games(game, theirs(game), num_games, visit)
    assert num_same > num_games


def redeal(
    game: Hanabi, actions: Sequence[int], seat: int, hand: Sequence[int]
) -> list[int]:
    """The same actions, with other cards dealt to a seat that still holds them."""
    state, dealt, held = game.initial_state(), list(actions), []
    for index, action in enumerate(actions):
        after = game.apply(state, action)
        if len(after.hands[seat]) > len(state.hands[seat]):
            held.append(index)
        elif len(after.hands[seat]) < len(state.hands[seat]):
            del held[game.moves[action].where]
        state = after
    for index, card in zip(held, hand, strict=True):
        dealt[index] = card
    return dealt
