"""What kind of game it is, as far as credit is concerned, found by random play."""

import random
from collections import Counter
from itertools import accumulate
from typing import Any, NamedTuple

from arena_envs.game import CHANCE, TERMINAL, AnyGame, draw, possible_outcomes

SMALL_GROUP = 4  # the largest small group: half way between 2 and 8 in ratio
NUM_STARTS, NUM_SAMPLES = 10, 4  # episodes of a start share the draws of chance


class Facts(NamedTuple):
    """What decides which credit fits a game.

    players: number of seats.
    cooperative: whether all seats are one team, by the game's kind.
    turns: the largest number of turns of a seat in random play.
    on_the_way: whether there are rewards before the end.
    play_decides: whether episodes with the same draws of chance differ in length.
    chance: whether there are draws of chance.
    group: number of episodes of each start in training; None if not known.
    """

    players: int
    cooperative: bool
    turns: int
    on_the_way: bool
    play_decides: bool
    chance: bool
    group: int | None = None

    def words(self) -> dict[str, str]:
        """Each known fact in words."""
        words = {
            "players": f"{self.players} player{'s' * (self.players > 1)}",
            "cooperative": "cooperative" if self.cooperative else "not cooperative",
            "turns": "one turn per seat"
            if self.turns == 1
            else f"up to {self.turns} turns per seat",
            "on_the_way": f"rewards {'on the way' if self.on_the_way else 'at the end'}",
            "play_decides": "play decides the length"
            if self.play_decides
            else "play does not decide the length",
            "chance": "with chance" if self.chance else "without chance",
        }
        if self.group is not None:
            words["group"] = f"groups of {self.group}"
        return words

    def differing(self, other: "Facts") -> list[str]:
        """The names of the facts that differ.

        `turns` differs only between one and several, `group` only between small and large.
        A group that is not known does not differ.

        >>> one = Facts(2, False, 2, False, True, True, group=8)
        >>> one.differing(one._replace(turns=4)), one.differing(one._replace(turns=1))
        ([], ['turns'])
        >>> one.differing(one._replace(group=16)), one.differing(one._replace(group=2))
        ([], ['group'])
        """
        pairs = zip(self._fields, self._kind(), other._kind(), strict=True)
        found = [name for name, a, b in pairs if a != b]
        unknown = self.group is None or other.group is None
        return [name for name in found if not (name == "group" and unknown)]

    def _kind(self) -> tuple[object, ...]:
        """The facts, with the turns up to 2, and whether the groups are small."""
        small = (self.group or 0) <= SMALL_GROUP
        return (*self._replace(turns=min(self.turns, 2))[:-1], small)


class _Episode(NamedTuple):
    turns: tuple[int, ...]  # of each seat
    on_the_way: bool
    chance: bool


def facts_of(game: AnyGame, group: int | None = None) -> Facts:
    """The facts of a game; random play may miss rare ones.

    Args:
        game: the rules.
        group: number of episodes of each start in training; None if not known.
    """
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
        group=group,
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
