"""`from_openspiel`: one of OpenSpiel's games as one of ours."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyspiel
from numpy.typing import NDArray

from arena_envs.game import CHANCE, BaseGame, Information, Kind
from arena_wrappers.adapters.openspiel.states import (
    State,
    UnsupportedGame,
    action_texts,
    ascii_lines,
    loaded,
    one_line,
    spiel_state,
)

REFUSED = Path(__file__).with_name("refused.json")  # tests/adapters/openspiel/survey.py
MAX_VISITED = 2_000  # nodes that `resample` looks at


def from_openspiel(name: str) -> "OpenSpielGame":
    """One of OpenSpiel's games, by its name.

    Args:
        name: as for `pyspiel.load_game`, such as `"kuhn_poker(players=3)"`.

    Raises:
        UnsupportedGame: there is no such game, it lacks what a game needs here, or it fails
            the conformance kit (`docs/openspiel.md`). `OpenSpielGame(name)` makes a game
            that fails.

    >>> game = from_openspiel("tic_tac_toe")
    >>> game.action_text(game.initial_state(), 4)
    'x 1 1'
    """
    refused = json.loads(REFUSED.read_text(encoding="utf-8"))
    if reason := refused.get(name.partition("(")[0]):
        raise _unsupported(name, f"{reason}; OpenSpielGame({name!r}) makes it anyway")
    return supported(name)


def supported(name: str) -> "OpenSpielGame":
    """The game, if it has all that a game needs here; ignores the conformance kit."""
    game = OpenSpielGame(name)
    if reason := _lack_of(loaded(name).get_type(), game):
        raise _unsupported(name, reason)
    return game


def _unsupported(name: str, reason: str) -> UnsupportedGame:
    return UnsupportedGame(f"OpenSpiel's {name!r} cannot be played here: {reason}")


def _lack_of(kind: Any, game: "OpenSpielGame") -> str | None:
    """What a game needs here and lacks."""
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        return "its chance outcomes are not listed"
    if kind.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
        return f"its dynamics are {kind.dynamics.name}, not SEQUENTIAL"
    if game.information == "imperfect" and not kind.provides_information_state_string:
        return "it has no information state string"
    if not (kind.provides_observation_string or kind.provides_information_state_string):
        return "it has no observation string"
    if not (kind.provides_observation_tensor or kind.provides_information_state_tensor):
        return "it has no tensor"
    if not np.isfinite([game.min_return, game.max_return]).all():
        return "its returns have no bounds"
    return None


@dataclass(frozen=True)
class OpenSpielGame(BaseGame[State, int]):
    """One of OpenSpiel's games. A state is the tuple of all actions so far.

    Simultaneous choices are made one seat after another. Text and features are OpenSpiel's
    information state, which has perfect recall, in games of imperfect information, and its
    observation in games of perfect information; where one is missing, the other.

    Args:
        name: as for `pyspiel.load_game`.

    Raises:
        UnsupportedGame: OpenSpiel cannot load it.
    """

    name: str

    def __post_init__(self) -> None:
        loaded(self.name)

    @property
    def num_players(self) -> int:
        return int(loaded(self.name).num_players())

    @property
    def num_actions(self) -> int:
        return int(loaded(self.name).num_distinct_actions())

    @property
    def kind(self) -> Kind:
        utility = loaded(self.name).get_type().utility
        if utility == pyspiel.GameType.Utility.IDENTICAL or self.num_players == 1:
            return "cooperative"
        sums = pyspiel.GameType.Utility.ZERO_SUM, pyspiel.GameType.Utility.CONSTANT_SUM
        return "competitive" if utility in sums else "mixed"

    @property
    def teams(self) -> Sequence[int]:
        alike = self.kind == "cooperative"
        return [0] * self.num_players if alike else range(self.num_players)

    @property
    def information(self) -> Information:
        kind = loaded(self.name).get_type().information
        return (
            "perfect"
            if kind == pyspiel.GameType.Information.PERFECT_INFORMATION
            else "imperfect"
        )

    @property
    def zero_sum(self) -> bool:  # type: ignore[override]  # a constant in BaseGame
        utility = loaded(self.name).get_type().utility
        is_zero = utility == pyspiel.GameType.Utility.ZERO_SUM
        return bool(is_zero and self.kind == "competitive")

    @property
    def min_return(self) -> float:
        return float(loaded(self.name).min_utility())

    @property
    def max_return(self) -> float:
        return float(loaded(self.name).max_utility())

    @property
    def max_turns(self) -> int:
        return int(loaded(self.name).max_game_length())

    def initial_state(self) -> State:
        return ()

    def current_player(self, state: State) -> int:
        return int(spiel_state(self.name, state).current_player())

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        if self.current_player(state) != CHANCE:
            return ()
        outcomes = spiel_state(self.name, state).chance_outcomes()
        return [(int(outcome), float(p)) for outcome, p in outcomes if p > 0]

    def legal_actions(self, state: State) -> Sequence[int]:
        if self.current_player(state) < 0:
            return ()
        return [int(action) for action in spiel_state(self.name, state).legal_actions()]

    def apply(self, state: State, action: int) -> State:
        return (*state, int(action))

    def returns(self, state: State) -> Sequence[float]:
        return [float(paid) for paid in spiel_state(self.name, state).returns()]

    def information_state(self, state: State, seat: int) -> Any:
        if self.information == "perfect":
            return state
        return spiel_state(self.name, state).information_state_string(seat)

    def observe(self, state: State, seat: int) -> str:
        spiel, observed = (
            spiel_state(self.name, state),
            self._shows_observation("string"),
        )
        text = (
            spiel.observation_string(seat)
            if observed
            else spiel.information_state_string(seat)
        )
        turn = "\nYour turn." if self.current_player(state) == seat else ""
        return f"You are player_{seat}.\n{ascii_lines(text)}".strip() + turn

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        spiel, observed = (
            spiel_state(self.name, state),
            self._shows_observation("tensor"),
        )
        tensor = (
            spiel.observation_tensor(seat)
            if observed
            else spiel.information_state_tensor(seat)
        )
        return np.array(tensor, np.float32)

    def action_text(self, state: State, action: int) -> str:
        return action_texts(self.name, state)[action]

    def rules(self, seat: int) -> str:
        kind = loaded(self.name).get_type()
        return (
            f"The game is {one_line(kind.long_name)} as implemented in OpenSpiel, for "
            f"{self.num_players} players. You are player_{seat}. Returns lie between "
            f"{self.min_return:g} and {self.max_return:g}."
        )

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """A random state that gave this seat the same knowledge after each action.

        The first that a search of `MAX_VISITED` nodes finds; states are not drawn in
        proportion to their probability.

        Raises:
            UnsupportedGame: the search finds none. Returning `state` would show search bots
                what is hidden.
        """
        if self.information == "perfect":
            return state
        wanted = [self._known(state[:end], seat) for end in range(len(state) + 1)]
        visits = iter(range(MAX_VISITED))
        found = next(self._alike((), wanted, seat, rng, visits), None)
        if found is None:
            raise UnsupportedGame(
                f"no state of OpenSpiel's {self.name!r} that player_{seat} cannot tell from "
                f"this one was found in {MAX_VISITED} nodes; use a policy without search"
            )
        return found

    def _alike(
        self,
        state: State,
        wanted: Sequence[Any],
        seat: int,
        rng: random.Random,
        visits: Iterator[int],
    ) -> Iterator[State]:
        depth = len(state)
        if self._known(state, seat) != wanted[depth] or next(visits, None) is None:
            return
        if depth == len(wanted) - 1:
            yield state
            return
        actions = [a for a, _ in self.chance_outcomes(state)]
        actions = actions or list(self.legal_actions(state))
        rng.shuffle(actions)
        for action in actions:
            yield from self._alike((*state, action), wanted, seat, rng, visits)

    def _known(self, state: State, seat: int) -> Any:
        """Who moves, and what a seat knows."""
        return self.current_player(state), self.information_state(state, seat)

    def _shows_observation(self, form: str) -> bool:
        kind = loaded(self.name).get_type()
        wanted = "observation" if self.information == "perfect" else "information_state"
        if getattr(kind, f"provides_{wanted}_{form}"):
            return wanted == "observation"
        return wanted != "observation"
