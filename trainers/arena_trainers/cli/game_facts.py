"""What decides which credit fits a game: facts and noise, from random play."""

import random
import warnings
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from arena_credit import FlatPoolWarning, TurnBatch, estimate
from arena_envs.game import CHANCE, TERMINAL, AnyGame, draw, possible_outcomes

DEFAULT = "control_variates"  # the trainer's
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
    # seat, its turn, and what it is paid until its next
    rewards: list[tuple[int, int, float]]


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
    num_draws, on_the_way = 0, False
    # by seat, its return before each of its turns
    returns_before: list[list[float]] = [[] for _ in range(game.num_players)]
    while (player := game.current_player(state)) != TERMINAL:
        on_the_way |= any(game.returns(state))
        if player == CHANCE:
            outcomes, chances = zip(*possible_outcomes(game, state), strict=True)
            if num_draws == len(luck):
                luck.append(rng.random())
            action = outcomes[draw(list(accumulate(chances)), luck[num_draws])]
            num_draws += 1
        else:
            action = rng.choice(game.legal_actions(state))
            returns_before[player].append(game.returns(state)[player])
        state = game.apply(state, action)
    rewards = []
    for seat, seat_returns in enumerate(returns_before):
        seat_returns_and_last = [*seat_returns, game.returns(state)[seat]]
        for turn, (before, after) in enumerate(pairwise(seat_returns_and_last)):
            rewards.append((seat, turn, after - before))
    return _Episode(tuple(map(len, returns_before)), on_the_way, num_draws > 0, rewards)


def noise_of(game: AnyGame, group: int) -> dict[str, tuple[float, float]]:
    """The noise of `COMPARED` in random play, relative to that of the default; all unbiased.

    So it is the mean square of the advantage: a ratio, and half its 95 % interval over starts.

    Args:
        game: the rules.
        group: episodes of each start; they share the draws of chance.
    """
    batch = _random_batch(game, group)

    def noise_by_start(name: str, options: Mapping[str, Any]) -> np.ndarray:
        advantages = estimate(name, batch, **options).advantage
        return np.bincount(batch.group, advantages**2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlatPoolWarning)
        default_noise = noise_by_start(DEFAULT, {})
        noises = {}
        for title, (name, options) in COMPARED.items():
            if default_noise.any() and (group > 1 or "pool" in options):
                noise = noise_by_start(name, options)
                ratio = noise.sum() / default_noise.sum()
                residuals = noise - ratio * default_noise
                spread = np.std(residuals, ddof=1) / default_noise.mean()
                noises[title] = (float(ratio), WIDE * float(spread))
    return noises


def _random_batch(game: AnyGame, group: int) -> TurnBatch:
    """`NUM_GROUPS` groups of random episodes."""
    rng = random.Random(0)
    rows = []
    for start in range(NUM_GROUPS):
        luck: list[float] = []
        for number in range(start * group, (start + 1) * group):
            for seat, turn, reward in _play(game, luck, rng).rewards:
                rows.append((number, start, seat, turn, reward))
    episodes, starts, seats, turns, rewards = map(np.array, zip(*rows, strict=True))
    return TurnBatch(
        reward=rewards,
        game=np.zeros_like(episodes),
        episode=episodes,
        seat=seats,
        turn=turns,
        group=starts,
    )
