"""What kind of game it is, as far as credit is concerned, found by random play."""

import random
from collections import Counter
from itertools import accumulate
from typing import Any, NamedTuple

from arena_envs.game import CHANCE, TERMINAL, AnyGame
from arena_envs.sampling import draw, possible_outcomes

NUM_STARTS, NUM_SAMPLES = 10, 4  # episodes of a start share the draws of chance


class Facts(NamedTuple):
    """What decides which credit fits a game.

    players: number of seats.
    cooperative: whether all seats are one team, by the game's kind.
    turns: the largest number of turns of a seat in random play.
    on_the_way: whether there are rewards before the end.
    play_decides: whether episodes with the same draws of chance differ in length.
    chance: whether there are draws of chance.
    """

    players: int
    cooperative: bool
    turns: int
    on_the_way: bool
    play_decides: bool
    chance: bool

    def words(self) -> dict[str, str]:
        """Each fact in words."""
        return {
            "players": f"{self.players} player{'s' * (self.players > 1)}",
            "cooperative": "cooperative" if self.cooperative else "not cooperative",
            "turns": f"up to {self.turns} turn{'s' * (self.turns > 1)} per seat",
            "on_the_way": f"rewards {'on the way' if self.on_the_way else 'at the end'}",
            "play_decides": "play decides the length"
            if self.play_decides
            else "play does not decide the length",
            "chance": "with chance" if self.chance else "without chance",
        }

    def differing(self, other: "Facts") -> list[str]:
        """The names of the facts that differ; of `turns` only one against several.

        >>> one = Facts(2, False, 2, False, True, True)
        >>> one.differing(one._replace(turns=4)), one.differing(one._replace(turns=1))
        ([], ['turns'])
        """
        mine = self._replace(turns=min(self.turns, 2))
        theirs = other._replace(turns=min(other.turns, 2))
        pairs = zip(self._fields, mine, theirs, strict=True)
        return [name for name, a, b in pairs if a != b]


class _Episode(NamedTuple):
    turns: tuple[int, ...]  # of each seat
    on_the_way: bool
    chance: bool


def facts_of(game: AnyGame) -> Facts:
    """The facts of a game; random play may miss rare ones."""
    rng = random.Random(0)
    starts = []
    for _ in range(NUM_STARTS):
        luck: list[float] = []
        starts.append([_play(game, luck, rng) for _ in range(NUM_SAMPLES)])
    episodes = [episode for start in starts for episode in start]
    return Facts(
        players=game.num_players,
        cooperative=game.kind == "cooperative",
        turns=max(max(episode.turns) for episode in episodes),
        on_the_way=any(episode.on_the_way for episode in episodes),
        play_decides=any(len({sum(e.turns) for e in start}) > 1 for start in starts),
        chance=any(episode.chance for episode in episodes),
    )


def _play(game: AnyGame, luck: list[float], rng: random.Random) -> _Episode:
    """A random episode; draws of chance use the numbers of `luck`, which it extends."""
    state: Any = game.initial_state()
    turns, draws, on_the_way = Counter[int](), 0, False
    while (player := game.current_player(state)) != TERMINAL:
        on_the_way |= any(game.returns(state))
        if player == CHANCE:
            outcomes, chances = zip(*possible_outcomes(game, state), strict=True)
            if draws == len(luck):
                luck.append(rng.random())
            action = outcomes[draw(list(accumulate(chances)), luck[draws])]
            draws += 1
        else:
            action = rng.choice(game.legal_actions(state))
            turns[player] += 1
        state = game.apply(state, action)
    seats = range(game.num_players)
    return _Episode(tuple(turns[seat] for seat in seats), on_the_way, draws > 0)
