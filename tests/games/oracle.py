"""A game of ours beside the same game of OpenSpiel's, state by state."""

import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from arena_envs import CHANCE, TERMINAL
from arena_envs.game import AnyGame, sample_chance


class Knowledge:
    """Asserts that seats know the same in both games, by the states that are visited.

    Two states have one information state here if and only if they have one there. To be
    given to `walk_tree` and `play_games` as `visit`.
    """

    def __init__(self, game: AnyGame) -> None:
        self.game = game
        self.num_repeated = (
            0  # of the states, those that were not the first of their key
        )
        self._ours: dict[Hashable, Hashable] = {}
        self._theirs: dict[Hashable, Hashable] = {}

    def __call__(self, state: Any, other: Any, *_: Any) -> None:
        if self.game.current_player(state) < 0:
            return
        for seat in range(self.game.num_players):
            key = (seat, self.game.information_state(state, seat))
            other_key = (seat, other.information_state_string(seat))
            self.num_repeated += key in self._ours
            assert self._ours.setdefault(key, other_key) == other_key
            assert self._theirs.setdefault(other_key, key) == key


def compare(game: AnyGame, state: Any, other: Any) -> Sequence[int]:
    """Asserts that two states are alike; returns the actions or outcomes to go on with."""
    player = game.current_player(state)
    assert player == other.current_player()
    assert list(game.returns(state)) == other.returns()
    if player != CHANCE:
        legal = list(game.legal_actions(state))
        assert legal == other.legal_actions()
        return legal
    outcomes, chances = zip(*game.chance_outcomes(state), strict=True)
    other_outcomes, other_chances = zip(*other.chance_outcomes(), strict=True)
    assert outcomes == other_outcomes
    for chance, other_chance in zip(chances, other_chances, strict=True):
        assert abs(chance - other_chance) < 1e-12
    return outcomes


def walk_tree(game: AnyGame, state: Any, other: Any, visit: Callable[..., None]) -> int:
    """Compares all states from this one on; returns their number."""
    visit(state, other)
    num_states = 1
    for action in compare(game, state, other):
        after, other_after = game.apply(state, action), other.child(action)
        num_states += walk_tree(game, after, other_after, visit)
    return num_states


def walk_positions(game: AnyGame, other_game: Any) -> int:
    """Compares all states of a game without chance, each once; returns their number."""
    waiting = [(game.initial_state(), other_game.new_initial_state())]
    found = {game.initial_state()}
    while waiting:
        state, other = waiting.pop()
        for action in compare(game, state, other):
            after = game.apply(state, action)
            if after not in found:
                found.add(after)
                waiting.append((after, other.child(action)))
    return len(found)


def play_games(
    game: AnyGame,
    other_game: Any,
    num_games: int,
    visit: Callable[..., None] | None = None,
) -> None:
    """Compares all states of random games, in which chance is as likely as in the game."""
    rng = random.Random(0)
    assert game.num_actions == other_game.num_distinct_actions()
    for _ in range(num_games):
        state, other, actions = game.initial_state(), other_game.new_initial_state(), []
        while choices := compare(game, state, other):
            if game.current_player(state) == CHANCE:
                action = sample_chance(game, state, rng)
            else:
                action = rng.choice(choices)
            state = game.apply(state, action)
            other.apply_action(action)
            actions.append(action)
            if visit:
                visit(state, other, actions)
        assert game.current_player(state) == TERMINAL
