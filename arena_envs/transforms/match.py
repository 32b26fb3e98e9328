"""`match:N(game)`: several games of the same players as one episode, seats exchanged after each."""

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import TERMINAL, Pays, check_int
from arena_envs.transforms import Transform, stage_of

MAX_GAMES = 100
MAX_REDRAWS = 100  # of a past game, in search of one with the same result


class MatchState(NamedTuple):
    """States of the inner game: the last one of each game that is over, and the current one."""

    ended: tuple[Any, ...]
    current: Any


@dataclass(frozen=True)
class MatchOfGames(Transform):
    """`match:N(game)`: N games of the same players, each with a result, as one episode.

    What a seat learned stays with it: its texts and information states hold how earlier games
    ended. The return is the sum. In game g (from 0 on) seat s plays as player (s + g) modulo the
    number of seats, so that after each round of all seats everybody has played everywhere; in
    simultaneous games, where seats choose in ascending order, each keeps its place. A forfeit
    loses the games that are left, too. Bots play each game as if it were alone.

    Where N is a multiple of twice the number of seats, `measures` has `later_gain_player_i`: the
    mean return of the later half of the games less that of the earlier half, in both of which the
    seat has played everywhere. It is the adaptation to the others.

    Args:
        game: the inner game, without talk.
        num_games: N, from 2 to 100.
    """

    num_games: int

    def __post_init__(self) -> None:
        check_int("num_games", self.num_games, 2, MAX_GAMES)
        self._want(self.game.num_actions is not None, "a game without talk")
        if not self.game.simultaneous:
            teams = [*self.game.teams]
            self._want(
                _pairs(teams) == _pairs([*teams[1:], teams[0]]),
                "a game whose teams stay together when all move one place on",
            )

    def stage(self, state: MatchState) -> tuple[Any, Any]:
        return stage_of(self.game, state.current)

    def _player(self, seat: int, number: int) -> int:
        """The player that a seat is in a game, by its number from 0 on."""
        if self.game.simultaneous:
            return seat
        return int((seat + number) % self.game.num_players)

    def _seat(self, player: int, number: int) -> int:
        """The seat that is a player in a game."""
        if self.game.simultaneous:
            return player
        return int((player - number) % self.game.num_players)

    def _by_seat(self, values: Sequence[float], number: int) -> list[float]:
        """Numbers by player of a game, by seat."""
        return [values[self._player(seat, number)] for seat in range(len(values))]

    @cached_property
    def min_return(self) -> float:
        return float(self.num_games * self.game.min_return)

    @cached_property
    def max_return(self) -> float:
        return float(self.num_games * self.game.max_return)

    @cached_property
    def max_turns(self) -> int:
        return int(self.num_games * self.game.max_turns)

    @cached_property
    def max_chance_nodes(self) -> int | None:
        num = self.game.max_chance_nodes
        return None if num is None else self.num_games * int(num)

    @property
    def pays(self) -> Pays:
        return "on_the_way"

    @property
    def known_value(self) -> str | None:
        """0 in a zero-sum duel in which both players have each place equally often."""
        is_even = self.num_games % 2 == 0 and not self.game.simultaneous
        is_duel = self.game.num_players == 2 and self.game.zero_sum
        return "0 for both players" if is_even and is_duel else None

    def initial_state(self) -> MatchState:
        return MatchState((), self.game.initial_state())

    def current_player(self, state: MatchState) -> int:
        player = self.game.current_player(state.current)
        return self._seat(player, len(state.ended)) if player >= 0 else int(player)

    def chance_outcomes(self, state: MatchState) -> Sequence[tuple[Any, float]]:
        outcomes: Sequence[tuple[Any, float]] = self.game.chance_outcomes(state.current)
        return outcomes

    def legal_actions(self, state: MatchState) -> Sequence[Any]:
        actions: Sequence[Any] = self.game.legal_actions(state.current)
        return actions

    def shown_actions(self, state: MatchState) -> Sequence[Any]:
        actions: Sequence[Any] = self.game.shown_actions(state.current)
        return actions

    def default_action(self, state: MatchState) -> Any:
        return self.game.default_action(state.current)

    def apply(self, state: MatchState, action: Any) -> MatchState:
        current = self.game.apply(state.current, action)
        is_over = self.game.current_player(current) == TERMINAL
        if is_over and len(state.ended) + 1 < self.num_games:
            return MatchState((*state.ended, current), self.game.initial_state())
        return MatchState(state.ended, current)

    def _returns_of_games(self, state: MatchState) -> list[list[float]]:
        """The returns by seat of each game so far, with those of the current one."""
        return [
            self._by_seat(self.game.returns(inner), number)
            for number, inner in enumerate((*state.ended, state.current))
        ]

    def returns(self, state: MatchState) -> Sequence[float]:
        return [sum(seat) for seat in zip(*self._returns_of_games(state), strict=True)]

    def forfeit(self, state: MatchState, seat: int) -> Sequence[float]:
        """The offender forfeits the current game and those that are left."""
        totals = np.zeros(self.game.num_players)
        for number in range(self.num_games):
            if number < len(state.ended):
                returns = self.game.returns(state.ended[number])
            else:
                is_current = number == len(state.ended)
                inner = state.current if is_current else self.game.initial_state()
                returns = self.game.forfeit(inner, self._player(seat, number))
            totals += self._by_seat(returns, number)
        return [float(total) for total in totals]

    def information_state(self, state: MatchState, seat: int) -> Hashable:
        games = tuple(
            (
                self.game.information_state(inner, self._player(seat, number)),
                tuple(self.game.returns(inner)),
            )
            for number, inner in enumerate(state.ended)
        )
        player = self._player(seat, len(state.ended))
        return games, self.game.information_state(state.current, player)

    def observe(self, state: MatchState, seat: int) -> str:
        lines = []
        for number, inner in enumerate(state.ended):
            player = self._player(seat, number)
            results = ", ".join(
                f"player_{other} {points:.10g}"
                for other, points in enumerate(self.game.returns(inner))
            )
            lines.append(
                f"Game {number + 1} is over; you played as player_{player}. Scores: {results}. "
                f"At its end you saw: {self.game.observe(inner, player)}"
            )
        player = self._player(seat, len(state.ended))
        number = len(state.ended) + 1
        lines.append(
            f"Game {number} of {self.num_games}; in it you play as player_{player}."
        )
        lines.append(self.game.observe(state.current, player))
        return "\n".join(lines)

    def features(self, state: MatchState, seat: int) -> NDArray[np.float32]:
        """Per game: what the seat saw last in it, all scores, and a 1 if it has begun.

        Features of a state at the end of a game need not tell all that its text does, so the
        bits of a checksum of the text stand beside them.
        """
        games = (*state.ended, state.current)
        parts = []
        for number, inner in enumerate(games):
            player = self._player(seat, number)
            features_of_seat = self.game.features(inner, player)
            is_over = number < len(state.ended)
            scores = self.game.returns(inner) if is_over else [0.0] * self.num_players
            checksum = (
                crc32(self.game.observe(inner, player).encode()) if is_over else 0
            )
            bits = [float(checksum >> place & 1) for place in range(32)]
            parts.append(np.concatenate([features_of_seat, scores, bits, [1.0]]))
        width = len(parts[0]) * self.num_games
        features = np.zeros(width, np.float32)
        features[: len(parts[0]) * len(parts)] = np.concatenate(parts)
        return features

    def action_text(self, state: MatchState, action: Any) -> str:
        return str(self.game.action_text(state.current, action))

    def parse(self, state: MatchState, text: str) -> Any:
        return self.game.parse(state.current, text)

    def rules(self, seat: int) -> str:
        places = (
            "Each player keeps its place."
            if self.game.simultaneous
            else "After each game every player moves one place on, and you are told as whom "
            "you play."
        )
        head = (
            f"This is a match of {self.num_games} games with the same players. Your score is "
            f"the sum of the games. {places} The rules of a game"
        )
        if self.game.simultaneous:
            return f"{head}: {self.game.rules(seat)}"
        by_player = [self.game.rules(player) for player in range(self.num_players)]
        if len(set(by_player)) == 1:
            return f"{head}: {by_player[0]}"
        parts = [f"As player_{i}: {text}" for i, text in enumerate(by_player)]
        return f"{head} by the player as whom you play. {' '.join(parts)}"

    def resample(self, state: MatchState, seat: int, rng: random.Random) -> MatchState:
        """Draws each game anew; a past one until its result is the same.

        A past game none of whose draws has its result stays: it no longer matters to play.
        """
        ended = []
        for number, inner in enumerate(state.ended):
            player, returns = self._player(seat, number), [*self.game.returns(inner)]
            for _ in range(MAX_REDRAWS):
                draw = self.game.resample(inner, player, rng)
                if [*self.game.returns(draw)] == returns:
                    inner = draw
                    break
            ended.append(inner)
        player = self._player(seat, len(state.ended))
        current = self.game.resample(state.current, player, rng)
        return MatchState(tuple(ended), current)

    @property
    def hidden(self) -> Callable[[MatchState, int], tuple[str, str] | None]:
        """The question of the current game; an AttributeError where the inner game hides nothing."""
        inner = self.game.hidden

        def hidden(state: MatchState, seat: int) -> tuple[str, str] | None:
            fact: tuple[str, str] | None = inner(
                state.current, self._player(seat, len(state.ended))
            )
            return fact

        return hidden

    def measures(self, state: MatchState) -> Mapping[str, float]:
        """Means over the games so far of the inner game's measures, and each seat's gain."""
        games = (*state.ended, state.current)
        rows = [self.game.measures(inner) for inner in games]
        means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        return means | self._gains(state)

    def _gains(self, state: MatchState) -> dict[str, float]:
        """How much more each seat gets in a later game than in an earlier one."""
        if self.num_games % (2 * self.num_players):
            return {}
        by_game = np.zeros((self.num_games, self.num_players))
        returns = self._returns_of_games(state)
        by_game[: len(returns)] = returns
        half = self.num_games // 2
        gains = by_game[half:].mean(0) - by_game[:half].mean(0)
        return {f"later_gain_player_{i}": float(gain) for i, gain in enumerate(gains)}


def _pairs(teams: Sequence[int]) -> set[tuple[int, int]]:
    """The pairs of places in one team."""
    places = range(len(teams))
    return {(i, j) for i in places for j in places if teams[i] == teams[j]}
