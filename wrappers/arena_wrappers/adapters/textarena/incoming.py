"""`from_textarena`: one of TextArena's games as one of ours."""

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import CHANCE, TERMINAL, BaseGame, IllegalAction, Kind, check_int
from arena_wrappers.adapters.textarena.positions import (
    Position,
    State,
    UnsupportedGame,
    num_players_of,
    position,
)

# by family of games; tests/adapters/textarena/survey.py writes both
REFUSED = Path(__file__).with_name("refused.json")
PASSED = Path(__file__).with_name("passed.json")
NUM_SEEDS = 1_000
NUM_FEATURES = 32


def from_textarena(name: str, **params: Any) -> "TextArenaGame":
    """One of TextArena's games, by its id.

    Warns of a game that was not checked (`docs/textarena.md`).

    Args:
        name: an id, such as `"TicTacToe-v0"`.
        **params: `num_players` and `max_turns` of `TextArenaGame`.

    Raises:
        UnsupportedGame: there is no such game, it does not start here, or it breaks a rule of
            games (`docs/textarena.md`). `TextArenaGame(name)` makes a game that breaks one.

    >>> game = from_textarena("TicTacToe-v0")
    >>> game.action_text((0,), "[4]")
    '4'
    """
    refused = json.loads(REFUSED.read_text(encoding="utf-8"))
    if reason := refused.get(family_of(name)):
        raise UnsupportedGame(
            f"TextArena's {name!r} cannot be played here: {reason}; "
            f"TextArenaGame({name!r}) makes it anyway"
        )
    game = TextArenaGame(name, **params)
    if family_of(name) not in json.loads(PASSED.read_text(encoding="utf-8")):
        warnings.warn(
            f"TextArena's {name!r} was not checked against the rules of games, so it may "
            "raise or list no legal action; check it with arena_envs.testing.check_game",
            stacklevel=2,
        )
    return game


def family_of(name: str) -> str:
    """The part of an id that variants of a game share.

    >>> family_of("KuhnPoker-v0-long")
    'KuhnPoker'
    """
    return name.partition("-v")[0]


@dataclass(frozen=True)
class TextArenaGame(BaseGame[State, int | str]):
    """One of TextArena's games, as a language game.

    A state is a seed, which chance draws, and all actions; TextArena's own draws follow from
    the seed. An action is a text as TextArena takes it, with or without brackets. The legal
    actions are those that it takes among the texts in brackets that the player has read, and
    the same with other numbers and squares; without any, plain words such as "yes". What
    TextArena counts as an invalid move is illegal, so its own allowance for errors is not
    used. Features are a digest of what the seat has read: they tell texts apart and no more.
    There is no `resample`, so bots that search cannot play.

    Args:
        name: TextArena's id.
        num_players: number of players; None for 2, or the smallest number that it takes.
        max_turns: the game ends after this many turns, with returns of 0.

    Raises:
        UnsupportedGame: TextArena has no such game, or cannot start it here.
        ValueError: `max_turns` is not from 1 to 5,000.
    """

    name: str
    num_players: int = None  # type: ignore[assignment]  # set below
    max_turns: int = 500

    num_actions = None
    information = "imperfect"
    max_chance_nodes = 1
    min_return = -1.0
    max_return = 1.0

    def __post_init__(self) -> None:
        check_int("max_turns", self.max_turns, 1, 5_000)
        found = num_players_of(self.name, self.num_players)
        object.__setattr__(self, "num_players", found)

    @property
    def kind(self) -> Kind:
        return "cooperative" if self.num_players == 1 else "mixed"

    def position(self, state: State) -> Position:
        """TextArena's environment after the seed and actions of a state."""
        return position(self.name, self.num_players, state)

    def initial_state(self) -> State:
        return ()

    def current_player(self, state: State) -> int:
        if not state:
            return CHANCE
        if len(state) > self.max_turns or self.position(state).is_over:
            return TERMINAL
        return self.position(state).player

    def chance_outcomes(self, state: State) -> Sequence[tuple[int | str, float]]:
        return [(seed, 1 / NUM_SEEDS) for seed in range(NUM_SEEDS)] if not state else ()

    def legal_actions(self, state: State) -> Sequence[int | str]:
        if self.current_player(state) < 0:
            return ()
        return list(self.position(state).listed().values())

    def apply(self, state: State, action: int | str) -> State:
        return (*state, action)

    def returns(self, state: State) -> Sequence[float]:
        if not state or not self.position(state).is_over:
            return [0.0] * self.num_players
        return self.position(state).rewards()

    def information_state(self, state: State, seat: int) -> Any:
        if not state:
            return ()
        at = self.position(state)
        sent = tuple((sender, text) for sender, text, _ in at.sent(seat))
        return (sent, at.own[seat], self.current_player(state))

    def observe(self, state: State, seat: int) -> str:
        return self.position(state).shown(seat) if state else "The game has not begun."

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        known = repr((seat, self.information_state(state, seat)))
        digest = hashlib.sha256(known.encode("utf-8", "replace")).digest()
        return np.frombuffer(digest, np.uint8).astype(np.float32) / np.float32(255)

    def action_text(self, state: State, action: int | str) -> str:
        names = {text: name for name, text in self.position(state).listed().items()}
        return names.get(str(action), str(action))

    def parse(self, state: State, text: str) -> int | str:
        if self.current_player(state) < 0:
            raise IllegalAction("nobody is to move")
        return self.position(state).read(text)

    def rules(self, seat: int) -> str:
        return (
            f"This is {self.name} of TextArena for {self.num_players} players. You are "
            f"Player {seat}. The game tells its rules in its first message."
        )
