"""What decides which credit fits a game: facts and noise, from random play."""

import random
import warnings
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from arena_credit import FlatPoolWarning, TurnBatch, estimate
from arena_envs.game import CHANCE, TERMINAL, AnyGame, draw, possible_outcomes

DEFAULT = "random_effects"  # the trainer's
SMALL_GROUP = 4  # the largest small group: half way between 2 and 8 in ratio
NUM_STARTS, NUM_SAMPLES = 10, 4  # random episodes; those of a start share chance
NUM_GROUPS, GROUP = 8, 8  # random episodes in which noise is measured
WIDE = 2.365 / NUM_GROUPS**0.5  # half a 95 % interval over them (Student's t)
BY_TURN = ("game", "seat", "turn")

COMPARED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "episode (game, seat)": ("rloo", {"pool": BY_TURN[:2]}),
    "GRPO without std": ("rloo", {}),
    "mars (game, seat)": ("mars_loo", {"pool": BY_TURN[:2]}),
    "mars (game, seat, turn)": ("mars_loo", {"pool": BY_TURN}),
}  # with the mean of the others, so that no factor of the pool's size differs


class Facts(NamedTuple):
    """What decides which credit fits a game.

    players: number of seats.
    cooperative: whether all seats are one team, by the game's kind.
    turns: the largest number of turns of a seat in random play.
    on_the_way: whether there are rewards before the end, declared (`pays`) or seen.
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
            "players": "1 player" if self.players == 1 else f"{self.players} players",
            "cooperative": "cooperative" if self.cooperative else "not cooperative",
            "turns": f"up to {self.turns} turns per seat",
            "on_the_way": "rewards at the end",
            "play_decides": "play does not decide the length",
            "chance": "with chance" if self.chance else "without chance",
        }
        if self.turns == 1:
            words["turns"] = "one turn per seat"
        if self.on_the_way:
            words["on_the_way"] = "rewards on the way"
        if self.play_decides:
            words["play_decides"] = "play decides the length"
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
        names = [name for name, fact, other_fact in pairs if fact != other_fact]
        if "group" in names and (self.group is None or other.group is None):
            names.remove("group")
        return names

    def _kind(self) -> tuple[object, ...]:
        """The facts, with the turns up to 2, and whether the groups are small."""
        small = (self.group or 0) <= SMALL_GROUP
        return (*self._replace(turns=min(self.turns, 2))[:-1], small)


class _Episode(NamedTuple):
    turns: tuple[int, ...]  # of each seat
    on_the_way: bool
    chance: bool
    rewards: list[
        tuple[int, int, float]
    ]  # seat, its turn, and what it is paid until its next


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
        on_the_way=getattr(game, "pays", "end") == "on_the_way"  # the fact is optional
        or any(episode.on_the_way for episode in episodes),
        play_decides=any(len({sum(e.turns) for e in start}) > 1 for start in starts),
        chance=any(episode.chance for episode in episodes),
        group=group,
    )


def _play(game: AnyGame, luck: list[float], rng: random.Random) -> _Episode:
    """A random episode; draws of chance use the numbers of `luck`, which it extends."""
    state: Any = game.initial_state()
    draws, on_the_way = 0, False
    returns_before: list[list[float]] = [
        [] for _ in range(game.num_players)
    ]  # before each turn
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
            returns_before[player].append(game.returns(state)[player])
        state = game.apply(state, action)
    rewards = [
        (seat, turn, after - before)
        for seat, before_turns in enumerate(returns_before)
        for turn, (before, after) in enumerate(
            pairwise([*before_turns, game.returns(state)[seat]])
        )
    ]
    return _Episode(tuple(map(len, returns_before)), on_the_way, draws > 0, rewards)


def noise_of(game: AnyGame, group: int) -> dict[str, tuple[float, float]]:
    """The noise of `COMPARED` in random play, relative to that of the default; all unbiased.

    So it is the mean square of the advantage: a ratio, and half its 95 % interval over starts.

    Args:
        game: the rules.
        group: episodes of each start; they share the draws of chance.
    """
    rng, rows = random.Random(0), []
    for start in range(NUM_GROUPS):
        luck: list[float] = []
        for number in range(start * group, (start + 1) * group):
            played = _play(game, luck, rng).rewards
            rows += [(number, start, *row) for row in played]
    episode, of, seat, turn, reward = map(np.array, zip(*rows, strict=True))
    turns = TurnBatch(
        reward=reward,
        game=0 * episode,
        episode=episode,
        seat=seat,
        turn=turn,
        group=of,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        default_noise = np.bincount(
            of, estimate(DEFAULT, turns).advantage ** 2
        )  # of each start
        noises = {}
        for title, (name, options) in COMPARED.items():
            if default_noise.any() and (group > 1 or "pool" in options):
                noise = np.bincount(of, estimate(name, turns, **options).advantage ** 2)
                ratio = noise.sum() / default_noise.sum()
                spread = (
                    np.std(noise - ratio * default_noise, ddof=1) / default_noise.mean()
                )
                noises[title] = (float(ratio), WIDE * float(spread))
    return noises
