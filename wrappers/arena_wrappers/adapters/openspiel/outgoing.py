"""`to_openspiel`: one of our games as a `pyspiel.Game`."""

import random
import re
from typing import Any

import numpy as np
import pyspiel

import arena_envs
from arena_envs.game import CHANCE, TERMINAL, AnyGame, possible_outcomes, random_states

_registered: dict[
    str, AnyGame
] = {}  # by short name; OpenSpiel cannot unregister a game


def to_openspiel(game: str | AnyGame, **params: Any) -> Any:
    """A game as `pyspiel.Game`, registered there as `arena_NAME`.

    Players, actions, information states and returns are the same, so values and NashConv are
    equal. A chance outcome is its index among the outcomes that are possible in that state.
    Games with simultaneous choices become sequential games of imperfect information. All
    rewards are paid at the end. The observation tensor is `Game.features`, the string
    `Game.observe`.

    Args:
        game: id of a game, or the rules.
        **params: parameters of the game, with an id.

    Raises:
        ValueError: a language game, whose actions have no numbers; or as for `make_game`.

    >>> kuhn = to_openspiel("kuhn_poker")
    >>> kuhn.new_initial_state().chance_outcomes()[0]
    (0, 0.3333333333333333)
    """
    if isinstance(game, str):
        game = arena_envs.make_game(game, **params)
    if game.num_actions is None:
        raise ValueError(
            f"want a game with numbered actions, got the language game {game!r:.80}"
        )
    name = _short_name(game)
    if name not in _registered:
        _registered[name] = game
        kind = _type_of(game, name)
        facts = _info_of(game)
        pyspiel.register_game(kind, _game_class(game, kind, facts))
    return pyspiel.load_game(name)


def _short_name(game: AnyGame) -> str:
    """The name of a game in OpenSpiel; payoffs of 1 and -1 would give the same letters."""
    name = "arena_" + re.sub(r"\W+", "_", repr(game)).strip("_").lower()
    while _registered.get(name, game) != game:
        name += "_other"
    return name


def _type_of(game: AnyGame, name: str) -> Any:
    kind = pyspiel.GameType
    hides = game.information == "imperfect" or game.simultaneous
    information, utility = kind.Information, kind.Utility
    if game.zero_sum:
        sums = utility.ZERO_SUM
    else:
        sums = utility.IDENTICAL if game.kind == "cooperative" else utility.GENERAL_SUM
    has_chance = game.max_chance_nodes != 0
    mode = kind.ChanceMode
    return kind(
        short_name=name,
        long_name=repr(game),
        dynamics=kind.Dynamics.SEQUENTIAL,
        chance_mode=mode.EXPLICIT_STOCHASTIC if has_chance else mode.DETERMINISTIC,
        information=information.IMPERFECT_INFORMATION
        if hides
        else information.PERFECT_INFORMATION,
        utility=sums,
        reward_model=kind.RewardModel.TERMINAL,
        max_num_players=game.num_players,
        min_num_players=game.num_players,
        provides_information_state_string=True,
        provides_information_state_tensor=False,
        provides_observation_string=True,
        provides_observation_tensor=True,
        provides_factored_observation_string=False,
    )


def _info_of(game: AnyGame) -> Any:
    return pyspiel.GameInfo(
        num_distinct_actions=game.num_actions,
        max_chance_outcomes=_most_outcomes(game),
        num_players=game.num_players,
        min_utility=float(game.min_return),
        max_utility=float(game.max_return),
        utility_sum=0.0 if game.zero_sum else None,
        max_game_length=game.max_turns,
    )


def _most_outcomes(game: AnyGame) -> int:
    """The largest number of outcomes at the chance nodes of 20 random episodes."""
    if game.max_chance_nodes == 0:
        return 0
    rng = random.Random(0)
    return max(
        len(possible_outcomes(game, state))
        for _ in range(20)
        for state, player in random_states(game, rng)
        if player == CHANCE
    )


class _State(pyspiel.State):  # type: ignore[misc]  # not annotated
    """What the states of all games share; `state` is ours."""

    state: Any

    def is_terminal(self) -> bool:
        return bool(self.current_player() == TERMINAL)

    def __str__(self) -> str:
        return repr(self.state)


def _state_class(game: AnyGame) -> Any:
    """The class of a game's states, as `pyspiel.Game` makes them."""

    class State(_State):
        def __init__(self, spiel: Any) -> None:
            super().__init__(spiel)
            self.state = game.initial_state()

        def current_player(self) -> int:
            return game.current_player(self.state)

        def _legal_actions(self, player: int) -> list[int]:
            return list(game.legal_actions(self.state))

        def chance_outcomes(self) -> list[tuple[int, float]]:
            chances = [chance for _, chance in possible_outcomes(game, self.state)]
            return list(enumerate(chances))

        def _apply_action(self, action: int) -> None:
            if game.current_player(self.state) == CHANCE:
                action = possible_outcomes(game, self.state)[action][0]
            self.state = game.apply(self.state, action)

        def _action_to_string(self, player: int, action: int) -> str:
            if player == CHANCE:
                return str(possible_outcomes(game, self.state)[action][0])
            return game.action_text(self.state, action)

        def returns(self) -> list[float]:
            if not self.is_terminal():
                return [0.0] * game.num_players
            return [float(paid) for paid in game.returns(self.state)]

        def information_state_string(self, player: int | None = None) -> str:
            player = self.current_player() if player is None else player
            return repr(game.information_state(self.state, player))

    return State


def _game_class(game: AnyGame, kind: Any, facts: Any) -> Any:
    """A class of games, as `pyspiel.register_game` takes it."""
    state_class = _state_class(game)

    class Spiel(pyspiel.Game):  # type: ignore[misc]  # not annotated
        def __init__(self, params: Any = None) -> None:
            super().__init__(kind, facts, params or {})

        def new_initial_state(self) -> Any:
            return state_class(self)

        def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> Any:
            return _Observer(game)

    return Spiel


class _Observer:
    """What OpenSpiel asks an observer for: `tensor`, `dict`, `set_from`, `string_from`."""

    def __init__(self, game: AnyGame) -> None:
        self._game = game
        self.tensor = np.array(game.features(game.initial_state(), 0), np.float32)
        self.dict = {"features": self.tensor}

    def set_from(self, state: Any, player: int) -> None:
        self.tensor[:] = self._game.features(state.state, player)

    def string_from(self, state: Any, player: int) -> str:
        return self._game.observe(state.state, player)
